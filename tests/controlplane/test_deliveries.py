"""Every delivery of the shim under every level of Pod Security, as a real API server admits them."""

import itertools
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import yaml

from . import objects
from .client import Answer, Object
from .plane import ControlPlane
from .product import Product, registered, serving

pytestmark = pytest.mark.controlplane

LEVELS = ("privileged", "baseline", "restricted")
DELIVERIES = ("hostPath", "image", "emptyDir", "csi")
SELECTED = {"tests.example/deliveries": "enabled"}
"""Other tests have the usual label for a webhook of their own."""
FOLDER = "/usr/local/vgpu-shim"
LIMIT = {"type": "Container", "default": {"ephemeral-storage": "1Gi"}}
LIMIT |= {"min": {"cpu": "10m", "memory": "16Mi"}, "max": {"cpu": "4", "memory": "8Gi"}}
LIMITED = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limited"}, "spec": {"limits": [LIMIT]}}
"""With a default that is added to each container, also to what the webhook adds."""


def namespace(level: str, delivery: str | None) -> Object:
    """A namespace of a level that chooses a delivery, or leaves that to the mapping."""
    labels = {"pod-security.kubernetes.io/enforce": level, **SELECTED}
    annotations = {} if delivery is None else {"vgpu-webhook.io/shim": delivery}
    name = f"delivered-{level}-{delivery or 'any'}".lower()
    return objects.namespace(name, labels, annotations=annotations)


def share(level: str, delivery: str | None) -> Object:
    """A pod that every level permits, with a share."""
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    main = {"name": "main", "image": "app", "resources": {"limits": amounts}, "securityContext": context}
    metadata = {"name": "share", "namespace": namespace(level, delivery)["metadata"]["name"]}
    init = {"name": "first", "image": "app", "resources": {"limits": amounts}, "securityContext": context}
    spec = {"initContainers": [init], "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def delivering(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with a webhook whose mapping has every delivery."""
    folder: Path = tmp_path_factory.mktemp("deliveries")
    (folder / "mappings").mkdir()
    shutil.copy(Path(__file__).parent / "deliveries.yaml", folder / "mappings" / "nvidia.yaml")
    namespaces = [namespace(*each) for each in itertools.product(LEVELS, (*DELIVERIES, None))]
    (folder / "settings.yaml").write_text(f"optInLabel: {next(iter(SELECTED))}\n")
    (folder / "namespaces.yaml").write_text(yaml.safe_dump_all(namespaces))
    for each in namespaces:
        control_plane.create_namespace(each)
        control_plane.client.create(LIMITED, each["metadata"]["name"]).accepted()
    arguments: list[str | Path] = ["--mappings", folder / "mappings", "--namespaces", folder / "namespaces.yaml"]
    arguments += ["--settings", folder / "settings.yaml"]
    with serving(folder, arguments) as product, _registered(product, control_plane):
        yield control_plane


def _registered(product: Product, plane: ControlPlane) -> AbstractContextManager[None]:
    return registered(product, plane, {"matchLabels": SELECTED}, share("privileged", "image"), "deliveries")


def created(plane: ControlPlane, level: str, delivery: str | None) -> Answer:
    """What becomes of a share there."""
    return plane.client.create(share(level, delivery), dry_run=True)


def source(pod: Object) -> str:
    """Which kind of volume brings the library."""
    [volume] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "vgpu-shim"]
    [kind] = volume.keys() - {"name"}
    return str(kind)


@pytest.mark.kubernetes("1.35", why="older API servers drop image volumes")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_what_pod_security_permits(delivering: ControlPlane, level: str, delivery: str) -> None:
    """A hostPath where everything is permitted only; what needs none everywhere, beside a LimitRange."""
    answer = created(delivering, level, delivery)
    if delivery == "hostPath" and level != "privileged":
        assert answer.status == 403
        assert f'violates PodSecurity "{level}:latest"' in answer.message
        assert "hostPath" in answer.message
        return
    pod = answer.accepted()
    assert source(pod) == delivery
    names = [each["name"] for each in pod["spec"]["initContainers"]]
    assert names == ["vgpu-shim", "first"] if delivery == "emptyDir" else ["first"]
    first, main = pod["spec"]["initContainers"][-1], pod["spec"]["containers"][0]
    for container in (first, main):
        [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == FOLDER]
        assert mount["readOnly"]


@pytest.mark.kubernetes("1.35", why="older API servers drop image volumes")
@pytest.mark.parametrize("level, kind", [("privileged", "hostPath"), ("baseline", "image"), ("restricted", "image")])
def test_without_a_choice_the_first_that_is_permitted(delivering: ControlPlane, level: str, kind: str) -> None:
    """In the mapping's order."""
    assert source(created(delivering, level, None).accepted()) == kind
