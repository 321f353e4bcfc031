"""The table of faults as a page: ``python -m tests.faults.page > docs/reliability.md``."""

import sys
from collections.abc import Iterable
from typing import Final

from .fault import FAULTS, Bound, Fault, Finding

USUAL_RECOVERY: Final = 10
"""Seconds that the page states once."""

_HEAD: Final = f"""\
# Reliability

How faults around the webhook affect pods, and where you see them. `make test-all PART=faults` causes each of them on a real
control plane, with two replicas behind a Service, and fails if it affects more than stated here.

- **pods**: how many, at most, are *denied*, or created *unchanged*, of up to 30 that are created in a second; *all*: while the
  fault lasts. Without an entry, and without a GPU request, none.
- **recovery**: pods are processed again at most {USUAL_RECOVERY} s after the end of the fault, unless another time is stated.
- **reported by**, in this order: events of the [log](reference.md#logs), Kubernetes Events, [metrics](reference.md#metrics),
  [alerts](runbook.md) if the fault lasts or recurs every minute, and [checks](reference.md#checks): `events` with one of the
  Events, others with a part of their text.

<!-- This table is written by `make docs`, from tests/faults/table.yaml. -->

| fault | pods | reported by |
|---|---|---|
"""


def page() -> str:
    """Format the page: faults that differ in nothing else share a row."""
    rows: dict[str, list[str]] = {}
    for fault in FAULTS:
        rows.setdefault(_row(fault), []).append(fault.name)
    return _HEAD + "".join(
        f"| {'; '.join(names)} | {cells} |\n".replace("|  |", "| |").replace("|  |", "| |")
        for cells, names in rows.items()
    )


def _row(fault: Fault) -> str:
    signs = fault.signs
    told = [
        *(f"`{sign}`" for sign in (*signs.log, *signs.events, *signs.metrics)),
        *(f"[{name}](runbook.md#{name.lower()})" for name in signs.alerts),
        *(_finding(finding, signs.events) for finding in signs.checks),
    ]
    effects = [
        *([f"denied: {_bound(fault.denied)}"] if fault.denied else []),
        *([f"unchanged: {_bound(fault.untreated)}"] if fault.untreated else []),
        *([f"recovery {fault.recovers:g} s"] if fault.recovers != USUAL_RECOVERY else []),
    ]
    return f"{'; '.join(effects)} | {', '.join(told) or 'nothing is wrong'}"


def _finding(finding: Finding, events: Iterable[str]) -> str:
    """A check with what it says, unless that is an Event of the same row."""
    repeated = any(finding.text.startswith(f"{event}:") for event in events)
    return f"`{finding.check}`" if repeated else f"`{finding.check}` (“{finding.text}”)"


def _bound(bound: Bound) -> str:
    if bound.pods is None:
        return f"all, and for {bound.seconds:g} s longer ({bound.why})"
    return f"{bound.pods} within {bound.seconds:g} s ({bound.why})"


if __name__ == "__main__":
    sys.stdout.write(page())
