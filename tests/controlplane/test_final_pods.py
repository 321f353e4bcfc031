"""Pods as they are stored: whatever a later webhook undoes or adds is denied, and nothing else is."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.others.pod import Json, copied
from webhook.cluster.registration.wanted import API_VERSION, MUTATING, NAME, VALIDATING

from .beside import beside
from .client import Answer
from .in_cluster import installed, set_settings
from .objects import mapping, namespace, pod
from .plane import ControlPlane
from .stand_in import called

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200), pytest.mark.once("isolation")]

OWN = "final-own"
TEAM = "final-team"
WATCHED = "final-watched"
LABEL = "final.example/gpu"
"""A label of this file: namespaces of other tests are not concerned."""
LATER = "zz-later"
IN_TEAM = {"matchLabels": {"kubernetes.io/metadata.name": TEAM}}
DENIED = 'admission webhook "pods.validate.vgpu-webhook.io" denied the request: '


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster with the webhook, a namespace that enforces and one that only warns."""
    control_plane.create_namespace(namespace(TEAM, {LABEL: "enabled"}))
    control_plane.create_namespace(namespace(WATCHED, {LABEL: "enabled", "vgpu-webhook.io/mode": "warn"}))
    with installed(control_plane, tmp_path_factory.mktemp("final-pods"), OWN, settings("[pods]")):
        control_plane.wait_until(lambda: validating(control_plane), "validating")
        yield control_plane


def settings(validation: str) -> str:
    """The settings."""
    return f"optInLabel: {LABEL}\nvalidation: {validation}\n"


def validating(plane: ControlPlane) -> list[Json]:
    """The webhooks of the validating configuration."""
    found: list[Json] = plane.client.call("GET", f"{VALIDATING.collection}/{NAME}").body.get("webhooks") or []
    return found


SHARE = pod("final", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
PLAIN = pod("final", {"cpu": "1"})


def undo_scheduler(made: Json) -> None:
    """What a webhook does that knows no other scheduler."""
    made["spec"]["schedulerName"] = "default-scheduler"


def add_request(made: Json) -> None:
    """A webhook that has a service of its own for who gets GPUs."""
    for side in ("limits", "requests"):
        made["spec"]["containers"][0]["resources"].setdefault(side, {})["nvidia.com/gpu"] = "1"


def add_variable(made: Json, name: str, value: str) -> None:
    """A webhook that appends a variable, once."""
    env = made["spec"]["containers"][0].setdefault("env", [])
    if not any(entry["name"] == name for entry in env):
        env.append({"name": name, "value": value})


BETWEEN = 0.3
"""Seconds from the call that changes a pod to the one that judges it: what another webhook takes."""

DOES: dict[str, Callable[[Json], object]] = {
    "undone": undo_scheduler,
    "added": add_request,
    "lifted": lambda made: add_variable(made, "CUDA_DISABLE_CONTROL", "true"),
    "slow": lambda _: time.sleep(BETWEEN),
}
"""What another webhook does to pods of these names."""


@pytest.fixture(scope="module")
def others(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The same with another webhook, which is called after ours."""

    def change(given: Json) -> Json:
        made = copied(given)
        does = DOES.get(given["metadata"]["name"])
        if does is not None:
            does(made)
        return made

    with called(plane, tmp_path_factory.mktemp("later"), LATER, change, IN_TEAM) as shown:
        plane.wait_until(lambda: create(plane, PLAIN).status and shown, "called")
        yield plane


def named(name: str, manifest: Json) -> Json:
    """The pod by another name."""
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


def create(plane: ControlPlane, manifest: Json, namespace: str = TEAM) -> Answer:
    """What the API server would store, or why not."""
    return plane.client.create(manifest, namespace, dry_run=True)


def switch(plane: ControlPlane, validation: str, names: list[str]) -> None:
    """Change the setting, and return once the configuration has these webhooks."""
    set_settings(plane, OWN, settings(validation)).accepted()
    plane.wait_until(lambda: [each["name"] for each in validating(plane)] == names or None, f"{validation} in force")


def test_what_is_registered(plane: ControlPlane) -> None:
    """The same namespaces, rules and conditions as the mutating one that enforces, with the same CA, and `Fail`."""
    (validates,) = validating(plane)
    enforce = plane.client.call("GET", f"{MUTATING.collection}/{NAME}").accepted()["webhooks"][0]
    for key in ("namespaceSelector", "objectSelector", "matchConditions", "rules", "timeoutSeconds", "failurePolicy"):
        assert validates[key] == enforce[key], key
    assert validates["clientConfig"]["url"] == enforce["clientConfig"]["url"].replace("/mutate", "/validate")
    assert validates["clientConfig"]["caBundle"] == enforce["clientConfig"]["caBundle"]


def test_a_pod_without_others_is_created(plane: ControlPlane) -> None:
    """With the warnings of the mutating half, each once."""
    answer = create(plane, pod("final"))
    assert answer.status == 201
    assert len(set(answer.warnings)) == len(answer.warnings) > 0
    assert create(plane, PLAIN).status == 201


def test_what_another_webhook_changes(others: ControlPlane) -> None:
    """Denied with the field, what it must be and whose change it was; stored so while pods are not judged."""
    undone, added = named("undone", SHARE), named("added", PLAIN)
    refused = {name: create(others, each).message for name, each in (("undone", undone), ("added", added))}
    switch(others, "[]", [])
    stored = others.wait_until(lambda: passed(create(others, undone)), "not judged")
    assert stored["spec"]["schedulerName"] == "default-scheduler"
    stored = create(others, added).accepted()
    assert stored["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert stored["spec"]["schedulerName"] == "default-scheduler"
    # A configuration without webhooks is written once, and not again and again.
    path = f"{VALIDATING.collection}/{NAME}"
    version = others.client.call("GET", path).accepted()["metadata"]["resourceVersion"]
    for _ in range(20):  # in which it would be
        create(others, added).accepted()
    assert others.client.call("GET", path).accepted()["metadata"]["resourceVersion"] == version
    switch(others, "[pods]", ["pods.validate.vgpu-webhook.io"])
    again = others.wait_until(lambda: denied(create(others, undone)), "judged again")
    assert (
        refused["undone"]
        == again
        == (
            f"{DENIED}VGW326: another webhook has changed the pod after this one: spec.schedulerName must be hami-scheduler; "
            "have that webhook called before this one, or exclude the pod from it"
        )
    )
    assert refused["added"].startswith(
        f"{DENIED}VGW326: the pod requests devices now, but not when the mutating webhook was called: "
    )
    assert "spec.containers[main].resources.limits[nvidia.com/gpumem] must be 5" in refused["added"]


def test_another_webhook_lifts_a_limit(others: ControlPlane) -> None:
    """What `decide` denies has its own code, and says that it came later."""
    assert "VGW605: container main: " in create(others, named("lifted", SHARE)).message


def test_the_configuration_is_repaired(plane: ControlPlane) -> None:
    """Opened, narrowed or deleted, it is soon as it was, and pods wait for an answer again."""
    path = f"{VALIDATING.collection}/{NAME}"
    before = validating(plane)
    assert [each["failurePolicy"] for each in before] == ["Fail"]
    found = plane.client.call("GET", path).accepted()
    found["webhooks"][0]["failurePolicy"] = "Ignore"
    found["webhooks"][0]["namespaceSelector"]["matchExpressions"].append({"key": "x", "operator": "Exists"})
    assert plane.client.call("PUT", path, found).accepted()["webhooks"] != before
    plane.wait_until(lambda: validating(plane) == before or None, "repaired")
    plane.client.delete(API_VERSION, VALIDATING.plural, NAME).accepted()
    plane.wait_until(lambda: validating(plane) == before or None, "created again")


ANOTHER = {
    "vendor": "another",
    "family": "another",
    "keys": {"device": {"resource": "another.example/gpu", "is": "devices"}},
    "forms": [{"name": "devices", "absent": {"memory": "all", "cores": "unlimited"}}],
    "place": {"scheduler": "another-scheduler"},
}


@pytest.mark.parametrize(
    "every", [pytest.param(False, id="mode and rollout"), pytest.param(True, marks=pytest.mark.long, id="all")]
)
def test_no_pod_is_denied_because_something_changes(others: ControlPlane, *, every: bool) -> None:
    """A mapping comes and goes, the namespace changes its mode, its share and its target, and the settings theirs."""
    client = others.client

    def set_namespace(**metadata: dict[str, str | None]) -> None:
        client.patch("v1", "namespaces", TEAM, {"metadata": metadata}).accepted()

    def set_target(line: str) -> None:
        set_settings(others, OWN, settings("[pods]") + line).accepted()

    # Each with the rounds of pods after which the next may come: what is judged grows a while after what is sent.
    changes: list[tuple[Callable[[], object], int]] = [
        (lambda: client.create(mapping("another", json.dumps(ANOTHER)), OWN).accepted(), 8),
        (lambda: set_namespace(labels={"vgpu-webhook.io/mode": "warn"}), 1),
        (lambda: set_namespace(labels={"vgpu-webhook.io/mode": None}), 1),
        (lambda: set_namespace(labels={"vgpu-webhook.io/rollout": "0"}), 1),
        (lambda: set_namespace(labels={"vgpu-webhook.io/rollout": None}), 1),
        (lambda: set_namespace(annotations={"vgpu-webhook.io/target": "volcano"}), 1),
        (lambda: set_namespace(annotations={"vgpu-webhook.io/target": None}), 1),
        (lambda: set_namespace(labels={LABEL: None}), 1),
        (lambda: set_namespace(labels={LABEL: "enabled"}), 1),
        (lambda: set_target("target: volcano\n"), 4),
        (lambda: set_target(""), 4),
        (lambda: client.delete("v1", "configmaps", "another", OWN).accepted(), 8),
    ]
    pods = [named("slow", each) for each in (SHARE, pod("final", {"another.example/gpu": "1"}))]
    schedulers, refused, rounds = set(), [], itertools.count(1)
    reached = 0

    def create_all_the_time(over: threading.Event) -> None:
        nonlocal reached
        while not over.is_set():
            reached = next(rounds)
            for each in pods:
                answer = create(others, each)
                if answer.status == 201:
                    schedulers.add(scheduler(answer))
                else:
                    refused.append(answer.message)

    with beside(create_all_the_time, 4):
        for change, needed in changes if every else changes[1:5]:
            change()
            enough = reached + 8 * needed
            others.wait_until(lambda enough=enough: reached >= enough, "pods created")  # type: ignore[misc]
    assert refused == []
    assert schedulers == {"default-scheduler", "hami-scheduler", *(("volcano", "another-scheduler") if every else ())}


def passed(answer: Answer) -> Json | None:
    """The pod if it is created."""
    return answer.body if answer.status == 201 else None


def scheduler(answer: Answer) -> str:
    """The scheduler of a pod, which is created."""
    name: str = answer.accepted()["spec"]["schedulerName"]
    return name


def denied(answer: Answer) -> str | None:
    """The message if it is denied."""
    return answer.message if answer.status == 403 else None
