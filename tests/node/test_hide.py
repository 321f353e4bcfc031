"""Hidden devices in real containers: the image says that it sees all, as CUDA's do, and its program sees none."""

import pytest

from .pods import Pods, share
from .releases import Release
from .small_images import GPU_OF_CUDA

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.once("isolation")]

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


@pytest.fixture(params=["shown", "hidden"])
def made(request: pytest.FixtureRequest, release: Release) -> str:
    """Whether devices are hidden, once that is in force."""
    made: str = request.param
    client = release.plane.client
    setting = f"settings.target=nvidia,settings.hideDevices={str(made == 'hidden').lower()}"
    release.run("upgrade", "--reset-then-reuse-values", "--set", setting)
    release.settled()

    def in_force() -> bool:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}}
        spec = {"containers": [{"name": "main", "image": GPU_OF_CUDA}]}
        stored = client.create({**pod, "spec": spec}, "team", dry_run=True).accepted()
        return ("env" in stored["spec"]["containers"][0]) == (made == "hidden")

    release.plane.wait_until(in_force, f"devices {made}", 60)
    return made


def test_an_image_that_sees_all(made: str, pods: Pods) -> None:
    """Beside a share, which sees what it was given, and in a pod without any; only without all that it sees everything."""
    of_share, other = shown(pods)
    assert of_share not in {"all", "void"}
    assert other == ("void" if made == "hidden" else "all")
