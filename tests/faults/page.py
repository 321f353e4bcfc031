"""The table of faults as a page: ``python -m tests.faults.page > docs/reliability.md``."""

import sys
from typing import Final

from .fault import Fault
from .table import FAULTS

_HEAD: Final = """\
# Reliability

How faults around the webhook affect pods, and where they are reported. `make test-faults` causes each of these faults on a
real control plane, with two replicas behind a Service, while pods that request a GPU are created continuously. It fails if
a pod is denied or created unchanged where this page does not say so, if recovery takes longer than stated, or if a report is
missing.

- **denied**, **unchanged**: whether and for how long pods may be denied, or created without the changes of the webhook. Pods
  without a GPU are never affected.
- **recovery**: maximum seconds from the end of the fault until pods are processed again.
- **reported by**: events of the [log](server.md#logs), reasons of Kubernetes Events, [metrics](server.md#metrics),
  alerts ([runbook](runbook.md)), [checks](doctor.md#what-it-looks-at) of `vgpu-webhook check`. An alert fires if the
  fault lasts, or recurs every minute.

<!-- This table is written by `make docs`, from tests/faults/table.py. -->

| fault | denied | unchanged | recovery | reported by |
|---|---|---|---|---|
"""


def page() -> str:
    """Format the page."""
    return _HEAD + "".join(_row(fault) for fault in FAULTS)


def _row(fault: Fault) -> str:
    signs = fault.signs
    channels = {
        "log": signs.log,
        "Event": signs.events,
        "metric": signs.metrics,
        "alert": tuple(f"[{name}](runbook.md#{name.lower()})" for name in signs.alerts),
        "check": signs.checks,
    }
    who = "; ".join(
        f"{channel}: {', '.join(name if name.startswith('[') else f'`{name}`' for name in names)}"
        for channel, names in channels.items()
        if names
    )
    who = who or "not reported: nothing is wrong"
    cells = (fault.name, fault.denied or "none", fault.untreated or "none", f"{fault.recovers:g} s", who)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
