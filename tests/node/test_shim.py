"""The shim in real containers: the loader's variables as they arrive, from wherever a pod may have them."""

import json
from typing import Any

import pytest

from tests.controlplane.client import Answer, Object
from tests.controlplane.objects import config_map
from tests.ways_out import CONFIG_MAP, DENIED, NAME, UNSEEN, WAYS_OUT
from webhook.cluster.registration.wanted import VALIDATING

from .pods import Pods, share
from .releases import REGISTRATION, Release, namespace, remove_namespaces
from .small_images import GPU_WITH_PATHS, IMAGE_ENVIRONMENT

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.once("isolation")]

FOLDER = "/usr/local/vgpu-shim"
LIBRARY = f"{FOLDER}/libvgpu.so"
IMAGE_DEFAULT = "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
SHOWING = {"NVIDIA_VISIBLE_DEVICES": "all", "GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}
"""What no shim can write: what the device plugin sets, and what honest images set."""
CORES = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}


@pytest.fixture(autouse=True)
def settings(release: Release) -> None:
    """ConfigMaps that pods may refer to."""
    for name, data in ((CONFIG_MAP, UNSEEN), ("showing", SHOWING)):
        release.plane.client.create(config_map(name, data), "team")


def seen(pods: Pods, container: Object, **spec: Any) -> Object:
    """Run a container with a share of 3000 MiB, and return what it has printed."""
    pod = pods.create(container, **spec)
    pods.finish(pod)
    printed: Object = pods.printed(pod)[-1]
    assert (printed["memory"], printed["library"]) == (3000, "library v1")
    assert printed["LD_PRELOAD"].split(":")[0] == LIBRARY
    assert printed["LD_LIBRARY_PATH"].split(":")[0] == FOLDER
    return printed


def test_whole_configmap_as_environment(pods: Pods) -> None:
    """An entry of `env` precedes what `envFrom` brings: the library is loaded whatever the ConfigMap says, and limits."""
    source = {"configMapRef": {"name": CONFIG_MAP}}
    printed = seen(pods, {"image": GPU_WITH_PATHS, "resources": {"limits": CORES}, "envFrom": [source]})
    assert printed.items().isdisjoint(UNSEEN.items())
    assert printed.keys() >= UNSEEN.keys()


def test_what_arrives_unseen(pods: Pods) -> None:
    """A variable of the device plugin gives way to `envFrom`, and the loader's own settings are the program's."""
    printed = seen(pods, share(envFrom=[{"configMapRef": {"name": "showing"}}]))
    assert printed.items() >= SHOWING.items()


def test_environment_of_the_image_gives_way(pods: Pods) -> None:
    """A pod's variable replaces the image's: the status says what is assumed to have been there."""
    printed = seen(pods, {"image": GPU_WITH_PATHS, "resources": {"limits": CORES}})
    assert printed["LD_LIBRARY_PATH"] == f"{FOLDER}:{IMAGE_DEFAULT}"
    assert printed["LD_PRELOAD"] == LIBRARY
    arrived = {name for name, value in IMAGE_ENVIRONMENT.items() if printed[name] == value}
    assert arrived == {"GLIBC_TUNABLES"}


def test_without_a_share_the_image_keeps_its_own(pods: Pods) -> None:
    """Nothing is changed where there is nothing to enforce."""
    pod = pods.create({"image": GPU_WITH_PATHS})
    pods.finish(pod)
    [printed] = pods.printed(pod)
    assert printed.items() >= IMAGE_ENVIRONMENT.items()
    assert printed["library"] == ""


def test_no_way_out(pods: Pods, release: Release) -> None:
    """Each row of the table in ``docs/threats.md``: the pod is denied, or it runs, and with its limit."""
    client = release.plane.client
    # The API server refuses a class that it does not know before any webhook is called.
    sandbox = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
    }
    client.create(sandbox)
    created = []
    for number, (way, parts) in enumerate(WAYS_OUT):
        pod = parts.pod(GPU_WITH_PATHS)
        pod["metadata"]["name"] = f"way-out-{number}"
        answer = client.create(pod, "team")
        if way in DENIED:
            assert answer.status in {403, 422}, way
            assert "VGW" in answer.body["message"]
        else:
            created.append((way, answer.accepted()))
    for way, pod in created:
        pods.finish(pod)
        printed = pods.printed(pod, NAME)[-1]
        assert (printed["memory"], printed["library"]) == (3000, "library v1"), way


OWN = [{"name": "own", "emptyDir": {}}]
COVERS: dict[str, bool] = {"/usr/local": False, f"{FOLDER}/": True, "/proc/self/root/usr/local/vgpu-shim": True}
"""Paths of mounts, and whether the library is gone then: a parent folder is mounted first."""


def test_what_the_kubelet_puts_over_the_library(pods: Pods, release: Release) -> None:
    """It is gone where no webhook judges what was added; where one does, no such pod is stored."""
    stored = release.plane.client.create(pods.body(share()), pods.namespace, dry_run=True).accepted()
    changes: list[tuple[Object, bool]] = [({"terminationMessagePath": LIBRARY}, True)]
    changes += [({"volumeMounts": [{"name": "own", "mountPath": path}]}, gone) for path, gone in COVERS.items()]
    namespace(release.plane, "unjudged", {})
    unjudged = Pods(release.plane, "unjudged")
    for change, gone in changes:
        answer = release.plane.client.create(pods.body(share(**change), volumes=OWN), pods.namespace, dry_run=True)
        assert (answer.status in {403, 422}) == gone, change
        [written] = stored["spec"]["containers"]
        mounts = [*written["volumeMounts"], *change.get("volumeMounts", [])]
        kept = {key: written[key] for key in ("env", "resources", "image")}
        volumes = [each for each in stored["spec"]["volumes"] if each["name"].startswith("vgpu-shim")]
        made = unjudged.create(
            {**kept, **change, "volumeMounts": [each for each in mounts if "serviceaccount" not in each["mountPath"]]},
            volumes=[*volumes, *OWN],
            schedulerName=stored["spec"]["schedulerName"],
        )
        unjudged.finish(made)
        lines = [line for line in unjudged.log(made).splitlines() if line.startswith("{")]
        assert (json.loads(lines[-1])["library"] == "") is gone, change
    remove_namespaces(release.plane, unjudged.namespace)


WRITING = {"name": "debug", "image": GPU_WITH_PATHS, "command": ["/bin/sh", "-c", f": > {FOLDER}/written"]} | {
    "volumeMounts": [{"name": "vgpu-shim", "mountPath": FOLDER}]
}
"""An ephemeral container that writes into the folder with the library of all pods."""


def test_nobody_writes_to_the_library_of_all(pods: Pods, release: Release) -> None:
    """A debugging container is root there: it writes if nobody judges it, and is denied by default."""
    written = release.plane.files / FOLDER.removeprefix("/") / "written"
    client, webhook = release.plane.client, "ephemeralcontainers.validate.vgpu-webhook.io"

    def debug(pod: Object) -> Answer:
        name = f"{pod['metadata']['name']}/ephemeralcontainers"
        return client.patch("v1", "pods", name, {"spec": {"ephemeralContainers": [WRITING]}}, "team")

    def judging(*, on: bool) -> None:
        entry = ",ephemeralContainers" if on else ""
        release.run("upgrade", "--reset-then-reuse-values", "--set", f"settings.validation={{pods{entry}}}")
        release.settled()
        path = f"{VALIDATING.collection}/{REGISTRATION}"

        def is_there() -> bool:
            return webhook in {each["name"] for each in client.call("GET", path).accepted()["webhooks"]}

        release.plane.wait_until(lambda: is_there() is on, "switched", 120)

    pod = pods.create(share(args=["hold"]))
    pods.phase(pod, "Running")
    refused = debug(pod)
    assert "VGW604: container debug: " in refused.message
    assert not written.exists()
    judging(on=False)
    release.plane.wait_until(lambda: debug(pod).status == 200, "added", 60)
    release.plane.wait_until(written.exists, "written", 120)
    written.unlink()
    judging(on=True)


def test_what_escapes(pods: Pods) -> None:
    """The library is no boundary; the page on threats says so."""
    pod = pods.create(share(command=["/program", "path"]))
    pods.finish(pod)
    [printed] = pods.printed(pod)
    assert printed["memory"] == 81920


def test_commands_in_a_running_container(pods: Pods) -> None:
    """What `kubectl exec` starts is limited, too; unless it empties the environment."""
    pod = pods.create(share(args=["hold"]))
    pods.phase(pod, "Running")
    assert [pods.run(pod, *command)["memory"] for command in (["/program"], ["env", "-i", "/program"])] == [3000, 81920]
