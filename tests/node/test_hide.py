"""Hidden devices in real containers: the image says that it sees all, as CUDA's do, and its program sees none."""

from collections.abc import Iterator

import pytest

from tests.controlplane.client import plural
from tests.test_admission_policies import policy
from webhook.admission_policies import hide_objects
from webhook.cluster.registration.desired import API_VERSION

from .pods import Pods, share
from .releases import Release
from .small_images import GPU_OF_CUDA

pytestmark = [pytest.mark.node, pytest.mark.once("isolation")]

NAME = "NVIDIA_VISIBLE_DEVICES"


def shown(pods: Pods) -> tuple[str, str]:
    """What the variable is in a container with a share, and in one without beside it."""
    pod = pods.create(share(image=GPU_OF_CUDA), {"image": GPU_OF_CUDA})
    pods.finish(pod)
    of_share, other = (pods.printed(pod, name)[-1][NAME] for name in ("c0", "c1"))
    alone = pods.create({"image": GPU_OF_CUDA})
    pods.finish(alone)
    assert pods.printed(alone)[-1][NAME] == other
    return of_share, other


@pytest.fixture(params=["nobody", "policy", "webhook"])
def hider(request: pytest.FixtureRequest, release: Release) -> Iterator[str]:
    """What hides devices, in force."""
    hider: str = request.param
    client = release.plane.client
    objects = hide_objects(policy(target="nvidia"), "1") if hider == "policy" else []
    for each in objects:
        client.create(each).accepted()
    setting = f"settings.target=nvidia,settings.hideDevices={str(hider == 'webhook').lower()}"
    release.run("upgrade", "--reset-then-reuse-values", "--set", setting)
    release.settled()

    def in_force() -> bool:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}}
        spec = {"containers": [{"name": "main", "image": GPU_OF_CUDA}]}
        made = client.create({**pod, "spec": spec}, "team", dry_run=True).accepted()
        return ("env" in made["spec"]["containers"][0]) == (hider != "nobody")

    release.plane.wait_until(in_force, f"{hider} in force", 60)
    yield hider
    for each in objects:
        client.delete(API_VERSION, plural(each["kind"]), each["metadata"]["name"])


def test_an_image_that_sees_all(hider: str, pods: Pods) -> None:
    """Beside a share, which sees what it was given, and in a pod without any; only without all that it sees everything."""
    of_share, other = shown(pods)
    assert of_share not in {"all", "void"}
    assert other == ("all" if hider == "nobody" else "void")
