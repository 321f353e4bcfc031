"""The status annotation: it says what was requested, and what the container gets."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tests.fuzz.oracle.meaning import MIB, UNLIMITED, Amount, Amounts
from tests.fuzz.oracle.reading import Read
from tests.fuzz.trial import Finding, Trial


def status_findings(trial: Trial, before: Read, candidates: list[Amounts], got: Amounts) -> Iterator[Finding]:
    """The status annotation says what was requested, and what the container gets."""
    entry = trial.entry(before.name)
    if not entry:
        return
    request = entry.get("request")
    shown, allocated = _shown(request), _shown(entry.get("allocation") or request)
    if shown not in candidates:
        yield Finding("the status says what was requested", f"{request} for {candidates[0]}", before.vendor or "")
    if allocated != got:
        yield Finding("the status says what is allocated", f"{entry} for {got}", before.vendor or "")


def _shown(entry: Any) -> Amounts | None:
    """The amounts that the status shows: ``4096Mi``, ``50%``, ``unlimited``; None for anything else."""
    try:
        return Amounts(int(entry["devices"]), _amount(entry["memory"]), _amount(entry["cores"]))
    except (KeyError, TypeError, ValueError):
        return None


def _amount(text: str) -> Amount:
    if text == "unlimited":
        return UNLIMITED
    if text.endswith("Mi"):
        return ("size", Fraction(text.removesuffix("Mi")) * MIB)
    # A third of a hundred has no last digit.
    return ("percent", Fraction(text.removesuffix("%")).limit_denominator(10**4))
