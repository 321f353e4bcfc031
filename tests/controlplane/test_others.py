"""Ours beside HAMi's webhook on a real API server, which calls both again where the other has changed the pod."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.others.hami import hami

from .client import Object
from .objects import namespace, pod
from .plane import ControlPlane
from .product import Product, registered, serving
from .stand_in import called
from .written import STATUS

pytestmark = pytest.mark.controlplane

PLACE = "beside-hami"
SELECTOR: Object = {"matchLabels": {"kubernetes.io/metadata.name": PLACE}}
OPTED_IN = namespace(PLACE, {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"})
"""As ours knows the namespace; the API server has it without these labels, by which other tests' webhooks are called."""
LIMITS: dict[str, Object] = {
    "share": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
    "no-count": {"nvidia.com/gpumem": "3000", "nvidia.com/priority": "1"},
    "count-alone": {"nvidia.com/gpu": "2"},
    "translated": {"aliyun.com/gpu-mem": "8"},
    "iluvatar": {"iluvatar.ai/MR-V100-vgpu": "2"},
    "kunlun": {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "24576"},
    "ascend": {"huawei.com/Ascend910B4": "1", "huawei.com/Ascend910B4-memory": "8192"},
}


def pod_of(name: str) -> Object:
    """A pod that requests a share, or, of that name, translated for HAMi."""
    made = pod(name, LIMITS[name])
    orders = {"vgpu-webhook.io/target": "nvidia"} if name == "translated" else {}
    made["metadata"] |= {"namespace": PLACE, "annotations": orders}
    return made


def once(spec: Object) -> Object:
    """Each variable once, for HAMi's webhook appends its own each time that it is called."""
    containers = [
        {**container, "env": {each["name"]: each for each in container.get("env", ())}}
        for container in spec["containers"]
    ]
    return {**spec, "containers": containers}


@pytest.fixture(scope="module")
def product(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Ours, registered for the one namespace under a name in the middle of the alphabet, in which order they are called."""
    folder = tmp_path_factory.mktemp("beside-hami")
    (folder / "namespaces.yaml").write_text(yaml.safe_dump(OPTED_IN))
    control_plane.create_namespace(namespace(PLACE))
    with (
        serving(folder, ["--namespaces", folder / "namespaces.yaml"]) as running,
        registered(running, control_plane, SELECTOR, pod_of("share"), "mmm-vgpu-webhook"),
    ):
        yield running


@pytest.mark.parametrize("name", ["aaa-hami", "zzz-hami"])
def test_called_again(control_plane: ControlPlane, product: Product, name: str, tmp_path: Path) -> None:
    """Whoever is first, each pod is stored with what both wrote, and what is stored is changed by neither."""
    with called(control_plane, tmp_path, name, hami, SELECTOR) as shown:

        def in_force() -> bool:
            control_plane.client.create(pod_of("share"), dry_run=True).accepted()
            return bool(shown)

        control_plane.wait_until(in_force, "HAMi's webhook is called")
        for wanted in LIMITS:
            shown.clear()
            stored = control_plane.client.create(pod_of(wanted), dry_run=True).accepted()
            assert stored["spec"]["schedulerName"] == "hami-scheduler"
            assert len(shown) == (2 if name < "mmm" and STATUS in stored["metadata"].get("annotations", {}) else 1)
            metadata = {key: stored["metadata"].get(key) for key in ("name", "namespace", "annotations")}
            again = control_plane.client.create({**stored, "metadata": metadata, "status": {}}, dry_run=True).accepted()
            assert again["metadata"].get("annotations") == metadata["annotations"]
            assert once(again["spec"]) == once(stored["spec"])
    product.process.check()
