"""The table of faults as a page: ``python -m tests.faults.page > docs/reliability.md``."""

import sys
from collections.abc import Iterator
from typing import Final

from .fault import CHANNELS, Fault
from .table import FAULTS

_HEAD: Final = """\
# Reliability

How faults around the webhook affect pods, and where they are reported. `make test-faults` causes each of these faults on a
real control plane, with two replicas behind a Service, while pods that request a GPU are created continuously. It fails if
more pods are denied or created unchanged than this page permits, or for longer, if recovery takes longer than stated, or if
any of the reports is missing.

- **denied**, **unchanged**: how many pods may be denied, or created without the changes of the webhook, and the time from the
  first of them to the last. At most 30 pods are created in a second. Pods without a GPU are never affected.
- **recovery**: maximum seconds from the end of the fault until pods are processed again.
- **reported by**: events of the [log](reference.md#logs), reasons of Kubernetes Events, [metrics](reference.md#metrics),
  alerts ([runbook](runbook.md)), [checks](reference.md#checks) of `vgpu-webhook check` with a part of what they say.
  An alert fires if the fault lasts, or recurs every minute.
- **not reported by**: what shows nothing of the fault, and why.

<!-- This table is written by `make docs`, from tests/faults/table.py. -->

| fault | denied | unchanged | recovery | reported by | not reported by |
|---|---|---|---|---|---|
"""

NAMES: Final = {"log": "log", "events": "Event", "metrics": "metric", "alerts": "alert", "checks": "check"}
"""Channels, for people."""


def page() -> str:
    """Format the page."""
    return _HEAD + "".join(_row(fault) for fault in FAULTS)


def _row(fault: Fault) -> str:
    signs = fault.signs
    channels = {
        "log": [f"`{event}`" for event in signs.log],
        "events": [f"`{reason}`" for reason in signs.events],
        "metrics": [f"`{metric}`" for metric in signs.metrics],
        "alerts": [f"[{name}](runbook.md#{name.lower()})" for name in signs.alerts],
        "checks": [f"`{finding.check}` (“{finding.text}”)" for finding in signs.checks],
    }
    who = "; ".join(f"{NAMES[channel]}: {', '.join(told)}" for channel, told in channels.items() if told)
    cells = (
        fault.name,
        str(fault.denied or "none"),
        str(fault.untreated or "none"),
        f"{fault.recovers:g} s",
        who or "not reported: nothing is wrong",
        "; ".join(f"{names}: {why}" for names, why in _silent(fault)),
    )
    return f"| {' | '.join(cells)} |\n"


def _silent(fault: Fault) -> Iterator[tuple[str, str]]:
    """The channels that tell nothing, together where the reason is the same."""
    for why in dict.fromkeys(fault.silent.values()):
        yield ", ".join(NAMES[channel] for channel in CHANNELS if fault.silent.get(channel) == why), why


if __name__ == "__main__":
    sys.stdout.write(page())
