"""Reports verdicts on ConfigMaps: a log line and an Event, once for each change."""

from collections.abc import Iterable
from typing import Final

from structlog.typing import FilteringBoundLogger

from webhook.cluster.client.events import EventQueue, Subject
from webhook.cluster.configuration.config_maps import Verdict

MAX_PROBLEMS: Final = 10
"""The most problems of one document in a log line; the first ones usually cause the others."""


class VerdictReporter:
    """Remembers the last verdict on each ConfigMap, so that nothing is reported twice.

    Args:
        events: where Events are written.
        namespace: the namespace of the ConfigMaps.
        log: where lines are written.
    """

    def __init__(self, events: EventQueue, namespace: str, log: FilteringBoundLogger) -> None:
        self._events = events
        self._namespace = namespace
        self._log = log
        self._reported: dict[str, Verdict] = {}

    def take(self, verdicts: Iterable[Verdict]) -> None:
        """Report what is new: documents that are rejected, or accepted again."""
        current = {verdict.config_map.name: verdict for verdict in verdicts}
        for name, verdict in current.items():
            before = self._reported.get(name)
            if not verdict.accepted:
                if before is None or _content(before) != _content(verdict):
                    self._log_rejection(verdict)
                if before is None or _key(before) != _key(verdict):
                    self._put_event(verdict)
            elif before is not None and not before.accepted:
                self._log.info(f"{verdict.kind}_accepted", config_map=name, vendor=verdict.vendor)
                self._put_event(verdict)
        self._reported = current

    def _put_event(self, verdict: Verdict) -> None:
        config_map = verdict.config_map
        subject = Subject("v1", "ConfigMap", self._namespace, config_map.name, config_map.uid, config_map.version)
        reason = f"{verdict.kind.title()}{'Accepted' if verdict.accepted else 'Rejected'}"
        self._events.put(subject, reason, message_of(verdict), "Normal" if verdict.accepted else "Warning")

    def _log_rejection(self, verdict: Verdict) -> None:
        self._log.error(
            f"{verdict.kind}_rejected",
            config_map=verdict.config_map.name,
            vendor=verdict.vendor,
            problems=[str(problem) for problem in verdict.problems[:MAX_PROBLEMS]],
            in_force=verdict.instead,
        )


def message_of(verdict: Verdict) -> str:
    """The message of the Event: what is in force, then why."""
    if verdict.accepted:
        return f"In force again: vendor {verdict.vendor}" if verdict.vendor else "In force again"
    return f"In force: {verdict.instead}. {'; '.join(map(str, verdict.problems))}"


def _content(verdict: Verdict) -> tuple[object, ...]:
    return verdict.config_map.uid, verdict.problems, verdict.instead


def _key(verdict: Verdict) -> tuple[object, ...]:
    return *_content(verdict), verdict.config_map.version
