"""The check of what the webhook itself has reported: the only one that shows a fault that has been repaired since."""

import datetime as dt
from typing import Final

from webhook.cluster.client.api import Api, list_objects
from webhook.cluster.client.events import COMPONENT, shortened
from webhook.doctor.facts import ClusterFacts
from webhook.doctor.read import Reported
from webhook.doctor.result import Result, counted, first_of, known, ok, warning

CLUSTER_WIDE: Final = "default"
"""The namespace of Events about cluster-wide objects."""

RECENT: Final = dt.timedelta(hours=1)
"""How long API servers keep Events unless configured otherwise (``--event-ttl``)."""

SELECTOR: Final = f"source={COMPONENT},type=Warning"
MAX_MESSAGE: Final = 200
"""The most bytes of a message in the output; ``kubectl describe`` shows all of it."""


async def read_reported(api: Api, release: str, now: dt.datetime) -> list[Reported]:
    """Read the webhook's Warning Events of the last hour, the newest first.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer, or none that can be decoded.
    """
    found = [
        event
        for namespace in dict.fromkeys((release, CLUSTER_WIDE))
        for event in await list_objects(
            api, f"/api/v1/namespaces/{namespace}/events", Reported, {"fieldSelector": SELECTOR}
        )
    ]
    recent = [event for event in found if event.last is None or now - event.last < RECENT]
    return sorted(recent, key=lambda event: event.last or now, reverse=True)


def reported(facts: ClusterFacts) -> Result:
    """What has the webhook reported as Warning Events within the last hour?"""
    events = known(facts.reported, "the webhook's Events", f"list events in {facts.release} and {CLUSTER_WIDE}")
    if not events:
        return ok("the webhook has reported nothing within the last hour")
    reasons = ", ".join(sorted({event.reason for event in events}))
    return warning(
        f"{counted(len(events), 'Event')} of the webhook within the last hour: {reasons}",
        *first_of(list(map(_line, events))),
        hint=f"if it recurs: docs/runbook.md; kubectl get events --all-namespaces --field-selector {SELECTOR}",
    )


def _line(event: Reported) -> str:
    last = "" if event.last is None else f", last at {event.last.astimezone(dt.UTC):%H:%M:%S} UTC"
    times = f" ({counted(event.count or 1, 'time')}{last})"
    return f"{event.reason}: {event.subject}: {shortened(event.message, MAX_MESSAGE)}{times}"
