"""All properties over one case."""

import json
from collections import Counter
from dataclasses import dataclass, field

import msgspec

from tests.fuzz.amounts import amount_findings
from tests.fuzz.claims import claim_findings
from tests.fuzz.denials import Verdict, denial_findings, denial_verdict
from tests.fuzz.enforcement import enforcement_findings
from tests.fuzz.generate import Case
from tests.fuzz.hidden import hidden_findings
from tests.fuzz.kept import belonging_findings
from tests.fuzz.own_keys import own_key_findings
from tests.fuzz.policies import policy_of
from tests.fuzz.properties import plain_findings
from tests.fuzz.sampled import contradiction_findings, sampled_findings
from tests.fuzz.served import served_findings
from tests.fuzz.trial import Finding, RaisedError, Trial

DENIED = "denied"
OPEN = "denied where the vendor's documentation is silent"


@dataclass(slots=True)
class Tally:
    """What became of many cases."""

    pods: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def judged(self) -> float:
        """The share of the denials of which the oracle knows whether they are due."""
        denied = self.outcomes[DENIED] + self.outcomes[OPEN]
        return self.outcomes[DENIED] / denied if denied else 1.0

    def add(self, other: "Tally") -> None:
        """Takes in what another process has counted."""
        self.pods += other.pods
        self.outcomes.update(other.outcomes)
        self.findings.update(other.findings)
        for key, number in other.first.items():
            self.first[key] = min(number, self.first.get(key, number))

    def count(self, number: int, outcome: str, findings: list[Finding]) -> None:
        """Takes in a case."""
        self.pods += 1
        self.outcomes[outcome] += 1
        for key in {(finding.rule, finding.vendor) for finding in findings}:
            self.findings[key] += 1
            self.first.setdefault(key, number)


def judge(case: Case, *, closely: bool = False) -> tuple[str, list[Finding]]:
    """The outcome in one word, and everything that is wrong.

    Args:
        case: what is decided.
        closely: also what takes several decisions: without defaults, by the command line.
    """
    policy_of(case.setup).memo.clear()
    try:
        trial = Trial(case)
        verdict = denial_verdict(trial)
        findings = list(plain_findings(trial))
        if not any(finding.rule.startswith("2 ") for finding in findings):
            findings += [*amount_findings(trial), *enforcement_findings(trial), *claim_findings(trial)]
            findings += [*hidden_findings(trial), *own_key_findings(trial), *denial_findings(trial, verdict)]
            findings += [*belonging_findings(trial), *served_findings(trial)]
            findings += sampled_findings(trial) if closely else contradiction_findings(trial)
    except msgspec.DecodeError:
        return "undecodable", []
    except RaisedError as error:
        return "raised", [Finding("7 no exception", str(error))]
    decision = trial.decision
    if decision.allowed:
        return "changed" if decision.patch_json else "untouched", findings
    return OPEN if verdict is Verdict.OPEN else DENIED, findings


def shown(case: Case) -> str:
    """A case as one line of JSON, for a test that fails."""
    return json.dumps({"labels": case.labels, "annotations": case.annotations, "setup": case.setup, "pod": case.pod})
