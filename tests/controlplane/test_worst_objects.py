"""The largest objects that an API server stores: its conditions never cost more than it grants, which would be an error.

Where the failure policy is `Ignore`, whoever writes a pod could let it through unjudged by an error.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from webhook.cluster.registration.names import names_set
from webhook.cluster.registration.wanted import (
    API_VERSION,
    ENFORCE,
    EPHEMERAL,
    EPHEMERAL_HIDDEN,
    HIDE,
    KINDS,
    PODS,
    UPDATES,
    Site,
    Wanted,
    registration,
)
from webhook.mapping.model.compiling import MOST

from .client import Answer, Object
from .objects import namespace, pod
from .plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.long, pytest.mark.timeout(1200)]

TEAM = "worst"
LABEL = "worst.example/gpu"
DEAD = "https://127.0.0.1:1/mutate"
IN_DOMAIN = "nvidia.com/container."
MARK = "mark.example/owned"
NAMES = names_set(
    prefixes=[f"many.example/{number:03}" for number in range(MOST.prefixes)],
    keys=[MARK, *(f"{IN_DOMAIN}{number:04}*x" for number in range(MOST.patterns // 32))],
)
"""As many patterns and prefixes as documents may have."""


def some(**parts: Any) -> Object:
    """A pod that requests nothing, with other parts."""
    made = pod("some", {})
    made["metadata"] |= parts.pop("metadata", {})
    made["spec"] |= parts
    return made


def containers(number: int, **more: object) -> list[Object]:
    """Equal containers."""
    return [{"name": f"c{position}", "image": "a", **more} for position in range(number)]


def limits(number: int, name: str) -> Object:
    """The resources of a container."""
    return {"limits": {f"a.example/{name}{position:x}": "1" for position in range(number)}}


def env(number: int, value: str) -> list[Object]:
    """Variables."""
    return [{"name": f"A{position}", "value": value} for position in range(number)]


DEEP: Object = json.loads('{"f:a":' * 900 + "{}" + "}" * 900)
MANAGED = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": DEEP}
WORST: dict[str, Object] = {
    "short annotations": some(metadata={"annotations": {f"{number:x}": "" for number in range(48_000)}}),
    "annotations in a domain": some(
        metadata={"annotations": {f"{IN_DOMAIN}{number:042}": "" for number in range(256)}}
    ),
    "a long annotation": some(metadata={"annotations": {"a": "x" * 200_000}}),
    "long labels": some(
        metadata={"labels": {f"{'a' * 63}.{'b' * 63}.{'c' * 63}/{number:063}": "" for number in range(4_800)}}
    ),
    "short labels": some(metadata={"labels": {f"{number:x}": "" for number in range(110_000)}}),
    "labels in a domain": some(metadata={"labels": {f"{IN_DOMAIN}{number:042}": "" for number in range(256)}}),
    "resources": some(containers=containers(1, resources=limits(20_000, ""))),
    "as many resources as are looked at": some(containers=containers(32, resources=limits(8, "x" * 20))),
    "containers": some(containers=containers(8_000)),
    "as many containers as are looked at": some(containers=containers(512)),
    "variables": some(containers=containers(1, env=env(50_000, "x"))),
    "as many variables as are looked at": some(containers=containers(1, env=env(8_192, "void" * 30))),
    "a deep part": some(metadata={"managedFields": [MANAGED]}),
}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """A namespace with every one of them."""
    control_plane.create_namespace(namespace(TEAM, {LABEL: "enabled"}))
    for number, made in enumerate(WORST.values()):
        named = {**made, "metadata": {**made["metadata"], "name": f"worst-{number}"}}
        control_plane.client.create(named, TEAM).accepted()
    return control_plane


@pytest.fixture(params=[ENFORCE, HIDE, PODS, UPDATES, EPHEMERAL, EPHEMERAL_HIDDEN])
def webhook(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[str]:
    """One of the webhooks, which calls nobody, and fails closed so that errors are seen."""
    name: str = request.param
    kind = next(each for each in KINDS if name in {each.name for each in each.webhooks})
    subjects = frozenset(each.subject for each in kind.webhooks if each.name == name and each.subject)
    made = registration(Wanted("0" * 12, NAMES, LABEL, 1, kind, subjects), Site(DEAD))
    made["webhooks"] = [{**each, "failurePolicy": "Fail"} for each in made["webhooks"] if each["name"] == name]
    made["metadata"]["name"] = "00-worst"
    plane.client.create(made).accepted()
    marked = some(metadata={"annotations": {MARK: "1"}}, containers=containers(1, env=env(1, "void")))
    probe = marked if name != EPHEMERAL_HIDDEN else some()
    plane.client.create({**probe, "metadata": {**probe["metadata"], "name": "probe"}}, TEAM)
    plane.wait_until(
        lambda: f'failed calling webhook "{name}"' in sent(plane, name, probe, "probe").message, "in force"
    )
    yield name
    plane.client.delete(API_VERSION, kind.plural, "00-worst").accepted()
    plane.client.delete("v1", "pods", "probe", TEAM)


def sent(plane: ControlPlane, name: str, made: Object, stored: str) -> Answer:
    """What the API server says when such a pod is created, or changed as the webhook is for."""
    client, metadata = plane.client, {"annotations": {MARK: "2"}}
    if name == UPDATES:
        return client.patch("v1", "pods", stored, {"metadata": metadata}, TEAM)
    if name in {EPHEMERAL, EPHEMERAL_HIDDEN}:
        change = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "a"}]}}
        return client.patch("v1", "pods", f"{stored}/ephemeralcontainers", change, TEAM)
    return client.create(made, TEAM, dry_run=True)


def test_no_condition_is_an_error(webhook: str, plane: ControlPlane) -> None:
    """Every object is sent, or was looked at; where a webhook is for all pods, or for this change of any, it is sent."""
    for number, (title, made) in enumerate(WORST.items()):
        answer = sent(plane, webhook, made, f"worst-{number}")
        was_sent = f'failed calling webhook "{webhook}"' in answer.message
        assert was_sent or answer.status in {200, 201}, (title, answer.message[-300:])
        assert was_sent or webhook not in {HIDE, UPDATES}, title
        assert not was_sent or "expression" not in answer.message, (title, answer.message[:300])
