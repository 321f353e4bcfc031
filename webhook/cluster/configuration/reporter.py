"""Reports verdicts on ConfigMaps, and ConfigMaps that vanished: a log line and an Event, once for each change."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from http import HTTPStatus
from typing import Final

from structlog.typing import FilteringBoundLogger

from certs.backoff import Backoff
from webhook.cluster.client.api import ApiError, StatusError
from webhook.cluster.client.events import Events, Subject
from webhook.cluster.configuration.config_maps import Verdict

MAX_PROBLEMS: Final = 10
"""The most problems of one document in a log line; the first ones usually cause the others."""

RETRY_PAUSES: Final = (1.0, 60.0)
"""Seconds between attempts to write in the background: after the first failure, and at most."""

REASONS: Final = {
    ("mapping", False): "MappingRejected",
    ("mapping", True): "MappingAccepted",
    ("settings", False): "SettingsRejected",
    ("settings", True): "SettingsAccepted",
}


def is_temporary(error: ApiError) -> bool:
    """Whether the same request may succeed later without anybody's help."""
    return not isinstance(error, StatusError) or (
        error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        or error.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT, HTTPStatus.REQUEST_TIMEOUT}
    )


class VerdictReporter:
    """Remembers the last verdict on each ConfigMap, so that nothing is reported twice.

    Args:
        events: where Events are written.
        namespace: the namespace of the ConfigMaps.
        log: where lines are written.
    """

    def __init__(self, events: Events, namespace: str, log: FilteringBoundLogger) -> None:
        self._events = events
        self._namespace = namespace
        self._log = log
        self._reported: dict[str, Verdict] = {}
        self._waiting: dict[str, Verdict] = {}
        self._wake = asyncio.Event()
        self._failed = False

    def take(self, verdicts: Iterable[Verdict]) -> None:
        """Report what is new: documents that are rejected, or accepted again."""
        current = {verdict.config_map.name: verdict for verdict in verdicts}
        for name, verdict in current.items():
            before = self._reported.get(name)
            if not verdict.accepted:
                if before is None or _content(before) != _content(verdict):
                    self._log_rejection(verdict)
                if before is None or _key(before) != _key(verdict):
                    self._waiting[name] = verdict
            elif before is not None and not before.accepted:
                self._log.info(f"{verdict.kind}_accepted", config_map=name, vendor=verdict.vendor)
                self._waiting[name] = verdict
        self._reported = current
        if self._waiting:
            self._wake.set()

    async def run(self) -> None:
        """Write the Events until cancelled, one after the other; wait for an API server that cannot be reached."""
        backoff = Backoff(*RETRY_PAUSES)
        while True:
            await self._wake.wait()
            if not self._waiting:
                self._wake.clear()
                continue
            name, verdict = next(iter(self._waiting.items()))
            del self._waiting[name]
            try:
                await self._write(verdict)
                backoff.reset()
            except ApiError as error:
                if not is_temporary(error):
                    self._log_failure(error)
                    continue
                # A verdict that was added in the meantime is newer.
                self._waiting.setdefault(name, verdict)
                await asyncio.sleep(backoff.failed())

    async def _write(self, verdict: Verdict) -> None:
        config_map = verdict.config_map
        subject = Subject("v1", "ConfigMap", self._namespace, config_map.name, config_map.uid, config_map.version)
        reason = REASONS[verdict.kind, verdict.accepted]
        await self._events.write(subject, "Normal" if verdict.accepted else "Warning", reason, message_of(verdict))

    def _log_rejection(self, verdict: Verdict) -> None:
        self._log.error(
            f"{verdict.kind}_rejected",
            config_map=verdict.config_map.name,
            vendor=verdict.vendor,
            problems=[str(problem) for problem in verdict.problems[:MAX_PROBLEMS]],
            in_force=verdict.instead,
        )

    def _log_failure(self, error: ApiError) -> None:
        if not self._failed:
            self._failed = True
            self._log.error("event_not_written", error=str(error))


def message_of(verdict: Verdict) -> str:
    """The message of the Event: what is in force, then why."""
    if verdict.accepted:
        return f"In force again: vendor {verdict.vendor}" if verdict.vendor else "In force again"
    return f"In force: {verdict.instead}. {'; '.join(map(str, verdict.problems))}"


def _content(verdict: Verdict) -> tuple[object, ...]:
    return verdict.config_map.uid, verdict.problems, verdict.instead


def _key(verdict: Verdict) -> tuple[object, ...]:
    return *_content(verdict), verdict.config_map.version


class LossReporter:
    """Reports the current losses whenever they change.

    Args:
        events: where Events are written.
        subject: the record of last good documents, which the Events are about.
        log: where lines are written.
        store: has the record written.
    """

    def __init__(self, events: Events, subject: Subject, log: FilteringBoundLogger, store: Callable[[], None]) -> None:
        self._events = events
        self._subject = subject
        self._log = log
        self._store = store
        self._names: Collection[str] = ()
        self._changed = asyncio.Event()

    def take(self, names: Collection[str]) -> None:
        """Report the names of all that are lost now."""
        self._names = names
        if names:
            self._log.error("config_maps_lost", config_maps=list(names))
        else:
            self._log.info("config_maps_restored")
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled, write an Event as soon as the namespace exists again, and have the record written, too."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            backoff = Backoff(*RETRY_PAUSES)
            while self._names:
                message = (
                    f"Vanished without a deletion: {', '.join(self._names)}. They stay in force in the replicas that read "
                    "them, but not in one that starts. Create them again: this ConfigMap has their last good documents"
                )
                try:
                    await self._events.write(self._subject, "Warning", "ConfigMapsLost", message)
                    break
                except ApiError:
                    await asyncio.sleep(backoff.failed())
            self._store()
