"""What is written is refused where a second pass would make something else of it."""

from typing import Any

from tests.admission.scene import pod
from tests.generators.admissions import decision_on
from tests.mapping.vendors import policy
from webhook.admission import Context, Decision, Namespace
from webhook.mapping.model.policy import Policy
from webhook.reasons import Reason

OPTED_IN = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
ENFORCING = Context(Namespace("team", OPTED_IN))
SOURCE = """\
vendor: src
family: acme
keys:
  half: {resource: src.com/half, is: memory, unit: 512Mi}
forms:
- {name: share, devices: 1, absent: {cores: unlimited}}
"""
OWNER = """\
vendor: owner
family: acme
keys:
  mem: {resource: shared.com/mem, is: memory, unit: 1Gi}
  note: {annotation: owner.com/note, is: other}
forms:
- {name: share, devices: 1, absent: {cores: unlimited}}
"""
TARGET = """\
vendor: goal
family: acme
keys:
  mem: {resource: shared.com/mem, is: memory, unit: 1Gi}
forms:
- {name: share, devices: 1, absent: {cores: unlimited}}
"""
TARGET_WITH_A_NAME_FOR_8GI = """\
vendor: goal
family: acme
keys:
  big: {resource: goal.com/big, is: devices}
  mem: {resource: shared.com/mem, is: memory, unit: 1Gi}
forms:
- {name: big, when: {big: present}, memory: 8Gi, absent: {cores: unlimited}}
- {name: share, devices: 1, absent: {cores: unlimited}}
"""
SHARED = "owners: {shared.com/mem: owner}"


def container(name: str, *resources: str, **more: str) -> dict[str, Any]:
    """A container with 1 of each of these resources, and others with their number."""
    numbers = {**dict.fromkeys(resources, "1"), **more}
    return {"name": name, "resources": {"limits": numbers, "requests": dict(numbers)}}


def translated(in_force: Policy, half_gibibytes: int, **annotations: str) -> Decision:
    """The decision on a pod that requests in the keys of `src` and is written for `goal`, whose name `owner` reads."""
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
