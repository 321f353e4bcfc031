"""The judges of denials: one for each code, each of them able to say that a denial is a mistake."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.fuzz import trial as trials
from tests.fuzz.denials import JUDGES, Verdict, denial_verdict
from tests.fuzz.generate import Case, case_of
from tests.fuzz.policies import CONFIGURED
from tests.fuzz.trial import Trial
from tests.naming import each_of
from webhook.admission import Decision
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy
from webhook.reasons import Finding, Reason, ReasonKind

SEED = 20
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


MISTAKES = {
    "half of a range": ("{extends: aliyun, keys: {gpu-core: {values: 5..50 by 5}}}", "aliyun"),
    "a step doubled": ("{extends: cce, keys: {gpu-core: {values: 10..80 by 10}}}", "cce"),
    "half of a device": ("{extends: cce, keys: {gpu-mem: {values: 1..256}}}", "cce"),
}


@pytest.mark.parametrize("document, target", MISTAKES.values(), ids=MISTAKES)
def test_mistaken_denial_is_found(document: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping that can express less than its vendor denies what it should translate."""
    mistaken = build_policy(parse(f"{CONFIGURED}---\n{document}\n", "mappings"))
    monkeypatch.setattr(trials, "policy_of", lambda _: mistaken)
    found = [
        denial_verdict(trial)
        for number in range(60)
        if (trial := _towards(number, target)) is not None and trial.decision.denial is not None
    ]
    assert Verdict.MISTAKEN in found


def test_its_like_is_not_without_the_mistake() -> None:
    """The same pods, by the documents as they are."""
    for _, target in MISTAKES.values():
        found = [denial_verdict(trial) for number in range(60) if (trial := _towards(number, target)) is not None]
        assert Verdict.MISTAKEN not in found


def _towards(number: int, target: str) -> Trial | None:
    """A share of HAMi's that is to be translated; None: no pod."""
    share = {**SHARE, "nvidia.com/gpumem": str(1024 * (number + 1)), "nvidia.com/gpucores": str(number + 30)}
    case = case_of(SEED, number)
    container = {"name": "c0", "image": "i", "resources": {"limits": share}}
    pod = {"metadata": {"annotations": {"vgpu-webhook.io/target": target}}, "spec": {"containers": [container]}}
    try:
        return Trial(replace(case, setup=1, labels={"vgpu-webhook.io/inject": "enabled"}, annotations={}, pod=pod))
    except msgspec.DecodeError:
        return None
