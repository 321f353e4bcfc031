"""Hidden devices by the webhook: every pod of a namespace that enforces is sent, and gets them back if it requests later."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.others.pod import Json, copied
from webhook.cluster.registration.wanted import HIDE, MUTATING, NAME

from .client import Answer
from .in_cluster import installed, set_settings
from .objects import namespace, pod
from .plane import ControlPlane
from .processes import Process

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200), pytest.mark.once("isolation")]

OWN = "hide-own"
TEAM = "hide-team"
AUDITED = "hide-audited"
LABEL = "hide.example/gpu"
HIDDEN = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
SETTINGS = f"target: nvidia\nbareDevices: whole\noptInLabel: {LABEL}\nvalidation: [pods, ephemeralContainers]\n"


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster with the webhook, a namespace that enforces and one that audits; nothing is hidden yet."""
    control_plane.create_namespace(namespace(TEAM, {LABEL: "enabled"}))
    control_plane.create_namespace(namespace(AUDITED, {LABEL: "enabled", "vgpu-webhook.io/mode": "audit"}))
    with installed(control_plane, tmp_path_factory.mktemp("hide"), OWN, SETTINGS) as process:
        control_plane.wait_until(lambda: "hami-scheduler" in str(create(control_plane, SHARE).body), "called")
        yield hiding(control_plane, process)


def hiding(plane: ControlPlane, process: Process) -> ControlPlane:
    """Switch it on, and return once it holds."""
    process.check()
    assert containers(create(plane, PLAIN)) == [None, None]
    set_settings(plane, OWN, f"{SETTINGS}hideDevices: true\n").accepted()
    plane.wait_until(lambda: containers(create(plane, PLAIN)) == [[HIDDEN], [HIDDEN]], "hidden")
    return plane


def with_side(limits: dict[str, str]) -> Json:
    """A pod with two containers, of which the first has these limits."""
    made = pod("hide", limits)
    made["spec"]["containers"].append({"name": "side", "image": "registry.example/main:1"})
    return made


PLAIN = with_side({"cpu": "1"})
SHARE = with_side({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})


def create(plane: ControlPlane, manifest: Json, namespace: str = TEAM) -> Answer:
    """What the API server would store, or why not."""
    return plane.client.create(manifest, namespace, dry_run=True)


def containers(answer: Answer) -> list[Any]:
    """The variables of each container."""
    return [each.get("env") for each in answer.accepted()["spec"]["containers"]]


def test_who_is_sent(plane: ControlPlane) -> None:
    """A webhook of its own, which holds up no pod in an outage; none where nothing is enforced."""
    webhooks = plane.client.call("GET", f"{MUTATING.collection}/{NAME}").accepted()["webhooks"]
    policies = {each["name"]: each["failurePolicy"] for each in webhooks}
    assert policies == {"enforce.vgpu-webhook.io": "Fail", "audit.vgpu-webhook.io": "Ignore", HIDE: "Ignore"}
    main, side = containers(create(plane, SHARE))
    assert HIDDEN not in (main or [])
    assert side == [HIDDEN]
    assert containers(create(plane, PLAIN, AUDITED)) == [None, None]


def variables(*values: str) -> Json:
    """A pod that requests nothing, with these values of variables."""
    made = copied(PLAIN)
    for container in made["spec"]["containers"]:
        container["env"] = [{"name": f"E{number}", "value": value} for number, value in enumerate(values)]
    return made


def annotated(**texts: str) -> Json:
    """A pod that requests nothing, with these annotations."""
    made = copied(PLAIN)
    made["metadata"]["annotations"] = texts
    return made


DOORS: dict[str, Json] = {
    "a deep status": annotated(**{"vgpu-webhook.io/status": '{"x":' + "[" * 3_000 + "]" * 3_000 + "}"}),
    "braces": variables(*["{" * 90_000] * 3),
    "what takes six times its bytes": variables("<" * 700_000),
    "annotations": annotated(**{f"{number:x}": "" for number in range(48_000)}),
    "the names of annotations": annotated(**{f"{'a' * 63}.{'b' * 63}/{number:063}": "" for number in range(1_000)}),
    "variables": variables(*["x"] * 20_000),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_error_opens_a_door(plane: ControlPlane, door: str) -> None:
    """Whatever makes it hard to look at a pod: it is stored with hidden devices, or denied."""
    answer = create(plane, DOORS[door])
    denied = 'admission webhook "' in answer.message and "denied the request: VGW318" in answer.message
    assert denied or all(HIDDEN in (env or []) for env in containers(answer)), answer.message[:300]
