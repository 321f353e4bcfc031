"""Rules that only a rare pod or mapping meets: each of these tests fails where one line of the code is missing."""

from typing import Any

import pytest

from tests.admission.scene import SHIM, Held, Scene, pod, run, vendor
from tests.generators.admissions import decision_on
from tests.mapping.vendors import policy
from webhook.admission import Context, Decision, Namespace
from webhook.admission.collect import MAX_ASKING
from webhook.admission.shim import inject_shim
from webhook.admission.survey import MAX_UNKNOWN
from webhook.finding import Denied
from webhook.mapping.model.policy import Policy
from webhook.reasons import Reason

BUILT_IN = policy()
OPTED_IN = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
ENFORCING = Context(Namespace("team", OPTED_IN))


def container(name: str, *resources: str, **more: str) -> dict[str, Any]:
    """A container with 1 of each of these resources, and others with their number."""
    numbers = {**dict.fromkeys(resources, "1"), **more}
    return {"name": name, "resources": {"limits": numbers, "requests": dict(numbers)}}


def asking(count: int) -> Decision:
    """The decision on a pod of which so many containers ask."""
    return decision_on(pod(*[container(f"c{n}", "nvidia.com/gpu") for n in range(count)]), ENFORCING, BUILT_IN)


def test_as_many_containers_as_permitted_may_ask() -> None:
    """A pod at the limit is treated like any other."""
    assert asking(MAX_ASKING).denial is None


def test_more_containers_than_permitted_are_refused() -> None:
    """A pod with one asking container too many is refused with VGW318."""
    denial = asking(MAX_ASKING + 1).denial
    assert denial is not None
    assert denial.reason is Reason.TOO_MANY
    assert denial.reason.code == "VGW318"
    assert str(MAX_ASKING) in denial.message


@pytest.mark.parametrize("honest, told", [(MAX_UNKNOWN - 1, True), (MAX_UNKNOWN, False)])
def test_unknown_names_are_looked_at_up_to_a_limit(honest: int, *, told: bool) -> None:
    """A near miss is found among as many unknown names as are looked at, and none behind them."""
    strangers = [f"example.com/thing-{n}" for n in range(honest)]
    decision = decision_on(pod(container("a", *strangers), container("b", "nvidia.com/gpumemm")), ENFORCING, BUILT_IN)
    reasons = {finding.reason for finding in (*decision.warnings, *([decision.denial] if decision.denial else []))}
    assert bool(reasons & {Reason.NEAR_MISS, Reason.UNKNOWN_WORD}) is told


@pytest.mark.parametrize("mode, told", [("enforce", 1), ("warn", 1), ("audit", 0)])
def test_pod_without_words_is_warned_about_unless_observed(mode: str, told: int) -> None:
    """A misplaced key on a pod that asks for nothing is told, and in a namespace that observes nobody is told."""
    sent = pod({"name": "a"})
    sent["metadata"]["labels"] = {"nvidia.com/gpumem": "1"}
    decision = decision_on(sent, Context(Namespace("team", {**OPTED_IN, "vgpu-webhook.io/mode": mode})), BUILT_IN)
    assert decision.allowed
    assert decision.patch == ()
    assert [finding.reason for finding in decision.warnings] == [Reason.MISPLACED_WORD] * told


@pytest.mark.parametrize("path, part", [("/tmp/lock", "lock"), ("/tmp/cache", "cache")])
def test_state_that_cannot_be_written_is_refused(path: str, part: str) -> None:
    """A read-only mount of the writable state in our place is not ours: the library could not work on it."""
    mount = {"name": "state", "mountPath": path, "subPath": part, "readOnly": True}
    with pytest.raises(Denied) as caught:
        run(inject_shim, pod({"name": "main", "volumeMounts": [mount]}), Scene([Held(vendor(shim=SHIM))]))
    assert caught.value.finding.reason is Reason.COLLISION
    assert caught.value.finding.container == "main"


@pytest.mark.parametrize("name, path", [("lib", "/opt/lib"), ("state", "/tmp/lock")])
def test_part_of_our_volume_that_a_variable_names_is_refused(name: str, path: str) -> None:
    """A mount with `subPathExpr` brings another folder than ours, whatever else it says."""
    mount: dict[str, Any] = {"name": name, "mountPath": path, "subPathExpr": "$(A)"}
    mount |= {"readOnly": True} if name == "lib" else {"subPath": "lock"}
    with pytest.raises(Denied) as caught:
        run(inject_shim, pod({"name": "main", "volumeMounts": [mount]}), Scene([Held(vendor(shim=SHIM))]))
    assert caught.value.finding.reason is Reason.COLLISION


SOURCE = """\
vendor: src
family: acme
keys:
  half: {resource: src.com/half, is: memory, unit: 512Mi}
forms:
- {name: share, devices: 1, absent: {cores: free}}
"""
OWNER = """\
vendor: owner
family: acme
keys:
  mem: {resource: shared.com/mem, is: memory, unit: 1Gi}
  note: {annotation: owner.com/note, is: other}
forms:
- {name: share, devices: 1, absent: {cores: free}}
"""
TARGET = """\
vendor: goal
family: acme
keys:
  mem: {resource: shared.com/mem, is: memory, unit: 1Gi}
forms:
- {name: share, devices: 1, absent: {cores: free}}
"""
TARGET_WITH_A_NAME_FOR_8GI = """\
vendor: goal
family: acme
keys:
  big: {resource: goal.com/big, is: devices}
  mem: {resource: shared.com/mem, is: memory, unit: 1Gi}
forms:
- {name: big, when: {big: present}, memory: 8Gi, absent: {cores: free}}
- {name: share, devices: 1, absent: {cores: free}}
"""
SHARED = "owners: {shared.com/mem: owner}"


def translated(in_force: Policy, half_gibibytes: int, **annotations: str) -> Decision:
    """The decision on a pod that asks in the keys of `src` and is written for `goal`, whose name `owner` reads."""
    sent = pod(container("main", **{"src.com/half": str(half_gibibytes)}))
    sent["metadata"]["annotations"] = {"vgpu-webhook.io/target": "goal", **annotations}
    return decision_on(sent, ENFORCING, in_force)


def read_back_differs(decision: Decision) -> bool:
    """Whether it was refused for what a second pass would make of it."""
    return decision.denial is not None and decision.denial.reason is Reason.READ_BACK_DIFFERS


def test_second_pass_that_would_drop_an_annotation_is_refused() -> None:
    """Whoever reads the written name has a key among the pod's annotations, which the next pass would take away."""
    in_force = policy(SOURCE, OWNER, TARGET, settings=SHARED)
    assert translated(in_force, 15).denial is None
    assert read_back_differs(translated(in_force, 15, **{"owner.com/note": "1"}))


def test_second_pass_that_would_write_other_numbers_is_refused() -> None:
    """7.5 GiB rounded up to 8 have a name of their own, which the next pass would write for the same request."""
    in_force = policy(SOURCE, OWNER, TARGET_WITH_A_NAME_FOR_8GI, settings=SHARED)
    assert translated(in_force, 13).denial is None
    assert read_back_differs(translated(in_force, 15))
