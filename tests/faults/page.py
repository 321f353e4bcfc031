"""The table of faults as a page: ``python -m tests.faults.page > docs/reliability.md``."""

import sys
from typing import Final

from .fault import Fault
from .table import FAULTS

_HEAD: Final = """\
# Reliability

What becomes of pods when something around the webhook goes wrong, and who is told. `make test-faults` makes each of
these faults happen on a real control plane, with two replicas behind a Service, while pods that request a GPU are
created all the time. It fails if a pod is denied or created untreated where this page does not say so, if pods are
not treated again in time, or if one of those who are named here is not told.

- **denied**, **untreated**: whether pods may be, and for how long. Pods without a GPU are never concerned.
- **treated again**: seconds from the end of the fault, at most.
- **who is told**: events of the [log](server.md#logs), reasons of Kubernetes Events, [metrics](server.md#metrics),
  alerts ([runbook](runbook.md)), [checks](doctor.md#what-it-looks-at) of `vgpu-webhook check`. An alert fires if the
  fault goes on, or comes again every minute.

<!-- This table is written by `make docs`, from tests/faults/table.py. -->

| fault | denied | untreated | treated again | who is told |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_row(fault) for fault in FAULTS)


def _row(fault: Fault) -> str:
    told = fault.told
    channels = {
        "log": told.log,
        "Event": told.events,
        "metric": told.metrics,
        "alert": tuple(f"[{name}](runbook.md#{name.lower()})" for name in told.alerts),
        "check": told.checks,
    }
    who = "; ".join(
        f"{channel}: {', '.join(name if name.startswith('[') else f'`{name}`' for name in names)}"
        for channel, names in channels.items()
        if names
    )
    who = who or "nobody: nothing is wrong"
    cells = (fault.name, fault.denied or "none", fault.untreated or "none", f"{fault.recovers:g} s", who)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
