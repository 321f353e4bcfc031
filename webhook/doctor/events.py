"""The check of what the webhook itself has reported: the only one that shows a fault that has been repaired since."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from webhook.cluster.client.api import Api, list_objects
from webhook.cluster.client.events import COMPONENT, shortened
from webhook.doctor.facts import ClusterFacts, Missing, Reported, Result, counted, ok, unread, warning
from webhook.doctor.read import EventObject

CLUSTER_WIDE: Final = "default"
"""The namespace of Events about cluster-wide objects."""

RECENT: Final = dt.timedelta(hours=1)
"""How long API servers keep Events unless configured otherwise (``--event-ttl``)."""

SELECTOR: Final = f"source={COMPONENT},type=Warning"
MAX_SHOWN: Final = 10
MAX_MESSAGE: Final = 200
"""The most bytes of a message in the output; ``kubectl describe`` shows all of it."""


async def read_reported(api: Api, release: str, now: dt.datetime) -> list[Reported]:
    """Read the webhook's Warning Events of the last hour, the newest first.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer, or none that can be decoded.
    """
    found = [
        _reported(event)
        for namespace in dict.fromkeys((release, CLUSTER_WIDE))
        for event in await list_objects(
            api, f"/api/v1/namespaces/{namespace}/events", EventObject, {"fieldSelector": SELECTOR}
        )
    ]
    recent = [event for event in found if event.last is None or now - event.last < RECENT]
    return sorted(recent, key=lambda event: event.last or now, reverse=True)


def reported(facts: ClusterFacts) -> Result:
    """Whether the webhook has written Warning Events within the last hour."""
    if isinstance(facts.reported, Missing):
        return unread("the webhook's Events", facts.reported, f"list events in {facts.release} and {CLUSTER_WIDE}")
    if not facts.reported:
        return ok("the webhook has reported nothing within the last hour")
    rest = len(facts.reported) - MAX_SHOWN
    return warning(
        f"{counted(len(facts.reported), 'Event')} of the webhook within the last hour: {', '.join(_reasons(facts.reported))}",
        *map(_line, facts.reported[:MAX_SHOWN]),
        *((f"and {rest} more",) if rest > 0 else ()),
        hint=f"if it recurs: docs/runbook.md; kubectl get events --all-namespaces --field-selector {SELECTOR}",
    )


def _reported(event: EventObject) -> Reported:
    return Reported(
        event.reason,
        f"{event.involved.kind.lower()}/{event.involved.name}",
        event.message,
        event.count or 1,
        _moment(event.last_timestamp),
    )


def _moment(text: str | None) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


def _reasons(events: Sequence[Reported]) -> list[str]:
    return sorted({event.reason for event in events})


def _line(event: Reported) -> str:
    last = "" if event.last is None else f", last at {event.last.astimezone(dt.UTC):%H:%M:%S} UTC"
    times = f" ({counted(event.count, 'time')}{last})"
    return f"{event.reason}: {event.subject}: {shortened(event.message, MAX_MESSAGE)}{times}"
