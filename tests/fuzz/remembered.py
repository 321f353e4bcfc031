"""A decision depends on its arguments only: what is remembered of one pod is never taken for its sibling."""

import zlib
from collections.abc import Iterator

import msgspec

from tests.fuzz.draw import Draw
from tests.fuzz.siblings import FIELDS, Sibling, changed, copied, marked
from tests.fuzz.trial import Finding, Trial, called, encode
from webhook.admission import Decision, decide
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod

RULE = "a decision depends on its arguments only"
BESIDE = {"context.user": marked}
"""What has to be there for a field to matter: marks of schedulers, which some users may write."""

RARE = (
    *("metadata.labels", "spec.nodeSelector", "spec.affinity", "spec.tolerations", "spec.runtimeClassName"),
    "context.user",
)
"""Fields that matter for few pods, and are drawn the more."""
DRAWN = (*FIELDS, *RARE * 6)


def memory_findings(trial: Trial, *, closely: bool = False) -> Iterator[Finding]:
    """Everything that is decided otherwise after a sibling of the pod was remembered.

    Args:
        trial: the pod.
        closely: with a sibling by each field instead of any one.
    """
    draw = Draw(zlib.crc32(trial.raw))
    for field in FIELDS if closely else (draw.pick(DRAWN),):
        yield from sibling_findings(trial, draw, field)


def sibling_findings(trial: Trial, draw: Draw, field: str) -> Iterator[Finding]:
    """What is wrong with the decision on a pod, or a sibling, after another one by a field was remembered."""
    try:
        yield from borrowed(*pair(trial, draw, field), trial.policy, field)
    except msgspec.DecodeError:
        return


def pair(trial: Trial, draw: Draw, field: str) -> tuple[Sibling, Sibling]:
    """Two pods that differ in a field: the trial's and a sibling, or by chance two siblings."""
    pod = Sibling(trial.case.pod, trial.context)
    one = BESIDE[field](draw, copied(pod)) if field in BESIDE else pod
    if draw.chance(0.5):
        one = changed(draw, field, one)
    return one, changed(draw, field, one)


def borrowed(one: Sibling, other: Sibling, policy: Policy, field: str) -> Iterator[Finding]:
    """Everything in which the decision on a pod depends on another one that was remembered before."""
    policy.forget()
    expected = _decided(one, policy)
    policy.forget()
    if _decided(other, policy) != _decided(other, policy):
        yield Finding(RULE, f"another one at second sight, of a sibling by {field}", field)
    if len(policy.memo) and _decided(one, policy) != expected:
        yield Finding(RULE, f"another one after a sibling by {field}", field)
    policy.forget()


def _decided(sibling: Sibling, policy: Policy) -> Decision:
    return called(decide, decode_pod(encode(sibling.pod)), sibling.context, policy)
