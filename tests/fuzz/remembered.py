"""A decision depends on its arguments only: what is remembered of one pod is never taken for its sibling."""

import zlib
from collections.abc import Iterator

import msgspec

from tests.fuzz.draw import Draw
from tests.fuzz.siblings import FIELDS, changed, has, marked, sibling_of
from tests.fuzz.trial import Finding, Trial, decided

RULE = "a decision depends on its arguments only"
RARE = (
    *("metadata.labels", "spec.nodeSelector", "spec.affinity", "spec.tolerations", "spec.runtimeClassName"),
    "context.user",
)
"""Fields that matter for few pods, and are drawn the more."""
DRAWN = (*FIELDS, *RARE * 10)


def memory_findings(trial: Trial, *, closely: bool = False) -> Iterator[Finding]:
    """Everything that is decided otherwise after a sibling of the pod was remembered, for one pod of two.

    Args:
        trial: the pod.
        closely: with a sibling by each field instead of any one, for any pod.
    """
    draw, pod = Draw(zlib.crc32(trial.raw)), sibling_of(trial.case)
    fields = FIELDS if closely else ()
    if not closely and draw.chance(0.5):
        had = [field for field in FIELDS if has(pod, field)]
        fields = (draw.pick(had if draw.chance(0.25) else DRAWN),)
    for field in fields:
        yield from sibling_findings(trial, draw, field)[1]


def sibling_findings(trial: Trial, draw: Draw, field: str) -> tuple[bool, list[Finding]]:
    """Whether a pod, or a sibling, is decided otherwise than another one by a field; what is wrong once that is remembered."""
    policy, one, expected = trial.policy, sibling_of(trial.case), trial.decision
    try:
        if field == "context.user" or draw.chance(0.5):
            one = changed(draw, field, marked(one) if field == "context.user" else one)
            policy.memo.clear()
            expected = decided(*one.arguments(), policy)
        other = changed(draw, field, one).arguments()
        policy.memo.clear()
        first, second = (decided(*other, policy) for _ in range(2))
        differ = first != expected and len(policy.memo) > 0
        borrowed = differ and decided(*one.arguments(), policy) != expected
    except msgspec.DecodeError:
        return False, []
    finally:
        policy.memo.clear()
    told = {"another one at second sight, of a": first != second, "another one after a": borrowed}
    return differ, [Finding(RULE, f"{what} sibling by {field}", field) for what, wrong in told.items() if wrong]
