"""The judges of denials: one for each code, each of them able to say that a denial is a mistake."""

from typing import Any

from tests.fuzz.denials import JUDGES, Verdict, denial_verdict
from tests.fuzz.generate import Case
from tests.fuzz.trial import Trial
from tests.naming import each_of
from webhook.admission import Decision
from webhook.reasons import Finding, Reason, ReasonKind

LATER = {Reason.UNDONE, Reason.INVALID_DOCUMENT, Reason.OWNED_CHANGED, Reason.CLAIM_REFUSED}
"""Denials that no decision on a new pod makes, but the judge or the API server: test_judge.py, test_dra.py."""
DENIALS = [reason for reason in Reason if reason.kind is ReasonKind.DENIAL and reason not in LATER]
SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "60"}


def test_every_denial_has_a_judge() -> None:
    """A code without one would be passed over by the fuzz."""
    assert JUDGES.keys() == {reason.code for reason in DENIALS}


@each_of("reason", DENIALS)
def test_judge_can_say_no(reason: Reason) -> None:
    """An ordinary share that another vendor can express is denied for no reason at all."""
    container = {"name": "c0", "image": "i", "resources": {"limits": SHARE, "requests": SHARE}}
    pod: dict[str, Any] = {"metadata": {"name": "p", "annotations": {"vgpu-webhook.io/target": "aliyun"}}}
    pod["spec"] = {"containers": [container]}
    plain = Trial(Case(1, {"vgpu-webhook.io/inject": "enabled"}, {}, "", pod))
    assert plain.decision.allowed
    plain.decision = Decision(allowed=False, reason=reason, denial=Finding(reason, "for no reason", "c0"))
    assert denial_verdict(plain) is Verdict.MISTAKEN
