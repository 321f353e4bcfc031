"""The policy of a cluster, kept up to date with its ConfigMaps.

Compilation runs in a thread beside the reviews, and the new policy replaces the old one by one assignment. Writes that
fail (Events, the record of the last good documents) are retried, and delay nothing else. Each change of a verdict is
reported once, by a log line and an Event.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger

from certs.report import Backoff, Reporter
from webhook.cluster.client import RETRY_PAUSES, Api, ApiError, is_temporary
from webhook.cluster.configuration.compatibility import DocumentCache, DocumentProblems, invalid_in
from webhook.cluster.configuration.config_maps import (
    LAST_GOOD_NAME,
    SELECTORS,
    ConfigMap,
    PolicyFaults,
    StoredConfigMap,
    Verdict,
    config_map,
)
from webhook.cluster.configuration.last_good import NOTHING, LastGood, Record
from webhook.cluster.configuration.policies import PolicyOutcome, judge_document, policy_of
from webhook.cluster.events import EventQueue, Subject
from webhook.cluster.reflector import Reflector
from webhook.mapping.model.policy import Policy
from webhook.text import error_fields


class Sources:
    """The ConfigMaps that make up the policy, in memory.

    Args:
        api: the API server.
        namespace: the webhook's own; everyone who can write ConfigMaps there can change the policy.
        log: for failures of the watches.
        changed: called with the names of what was added, changed or removed. It must not raise.

    Attributes:
        reflectors: have to be run; they know when they last had contact.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        log: FilteringBoundLogger,
        changed: Callable[[Collection[str]], None],
    ) -> None:
        def changed_keys(keys: Collection[str]) -> None:
            changed({key.rpartition("/")[2] for key in keys})

        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.reflectors: tuple[Reflector[StoredConfigMap, ConfigMap], ...] = tuple(
            Reflector(api, path, StoredConfigMap, config_map, log, changed=changed_keys, query=query)
            for query in SELECTORS
        )

    async def synced(self) -> None:
        """Return once all ConfigMaps are known, except for the record, which is read directly."""
        await asyncio.gather(*(reflector.synced.wait() for reflector in self.reflectors[:-1]))

    def all(self) -> list[ConfigMap]:
        """All current ConfigMaps."""
        return [
            *{
                config_map.name: config_map
                for reflector in self.reflectors
                for config_map in reflector.objects.values()
            }.values()
        ]

    def record(self) -> ConfigMap | None:
        """The ConfigMap of the last good documents, if there is one."""
        return next(iter(self.reflectors[-1].objects.values()), None)


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


MAX_JUDGING: Final = 2
"""Documents that are judged beside all others at once."""

NOT_COMPILED: Final = (
    "A bug in vgpu-webhook: the changed ConfigMaps could not be compiled, and the previous policy stays in force. "
    "See its log"
)
RECORD_FULL: Final = (
    "The record is full (1 MiB). These ConfigMaps are in force, but have no last good version to fall back to"
)

RECORD_GONE: Final = "This record was deleted. A replica writes again what it knows of it"

INVALID_RECORD: Final = (
    "This record contains invalid documents, written by hand or by another version. The previous ones stay in force. "
    "Delete this ConfigMap to have it written again. Affected"
)


QUIET = 0.05
"""Seconds without a change before compiling; the events of one ``kubectl apply`` come some milliseconds apart."""

LONGEST = 0.25
"""Seconds after the first change until compiling, whatever follows."""


class LivePolicy:
    """Follows the ConfigMaps of one namespace.

    Args:
        api: the API server.
        namespace: the webhook's own.
        log: for rejected documents, those that are accepted again, and new policies.
        events: where Events about all of these are written.
        in_force: called on the event loop with every policy that differs from the previous one, to activate it.
        owner: the ClusterRole that owns the record, if there is one.

    Attributes:
        sources: the ConfigMaps, with their reflectors.
        ready: set once the policy of the initial ConfigMaps is in force.
        outcome: the last outcome; None before the first compilation.
        compilations: their number so far.
        faults: what is wrong now beside the documents in ConfigMaps.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        log: FilteringBoundLogger,
        events: EventQueue,
        *,
        in_force: Callable[[Policy], None],
        owner: str | None = None,
    ) -> None:
        self.sources = Sources(api, namespace, log, self._changed)
        self.ready = asyncio.Event()
        self.outcome: PolicyOutcome | None = None
        self.compilations = 0
        self._record = LastGood(api, namespace, owner)
        self._reporter = VerdictReporter(events, namespace, log)
        self._notice = partial(events.put, Subject("v1", "ConfigMap", namespace, LAST_GOOD_NAME, "", ""))
        self._unstored = asyncio.Event()
        self._lasting: Reporter[str] = Reporter(lambda told: self._notice(*told))
        self._log = log
        self._in_force = in_force
        self._memo = DocumentCache()
        self._compiling = asyncio.Lock()
        self._judging = 0
        self._last_good: Mapping[str, str] = {}
        self.faults = PolicyFaults()
        self._adopted = NOTHING
        self._changes = 0
        self._dirty = asyncio.Event()

    async def run(self) -> None:
        """Follow the ConfigMaps until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.sources.reflectors:
                tasks.create_task(reflector.run())
            await self._load()
            tasks.create_task(self._compile_repeatedly())
            tasks.create_task(self._store_repeatedly())

    async def judge(self, candidate: ConfigMap) -> tuple[DocumentProblems, DocumentProblems]:
        """Judge a ConfigMap that is about to be stored; see `judge_document`.

        One of many at once is judged by itself: beside all others, each takes as long as a compilation.
        """
        if self._judging >= MAX_JUDGING:
            return await asyncio.to_thread(judge_document, candidate, (), {}, DocumentCache())
        self._judging += 1
        try:
            async with self._compiling:  # the cache has one user at a time
                present = self.sources.all()
                return await asyncio.to_thread(judge_document, candidate, present, self._last_good, self._memo)
        finally:
            self._judging -= 1

    def _changed(self, names: Collection[str]) -> None:
        if LAST_GOOD_NAME in names:
            self._take_record()
        if set(names) - {LAST_GOOD_NAME}:
            self._compile_again()

    def _compile_again(self) -> None:
        self._changes += 1
        self._dirty.set()

    def _take_record(self) -> None:
        """Take a changed record, which another replica has written, or somebody has deleted."""
        stored = self.sources.record()
        record = self._record.seen(stored)
        if stored is None:
            if self.outcome is not None and self.outcome.accepted:
                self._log.warning("last_good_restored")
                self._notice("LastGoodRestored", RECORD_GONE)
            self._unstored.set()
        elif record is not None:
            self._adopt(record)

    def _adopt(self, record: Record) -> None:
        """For documents that are not in force here, prefer the record to this replica's memory."""
        self._adopted = record
        accepted = {} if self.outcome is None else self.outcome.accepted
        in_force = frozenset() if self.outcome is None else self.outcome.in_force
        if any(record.texts.get(name, text) != text for name, text in accepted.items() if name not in in_force):
            self._compile_again()
        else:
            self._report_invalid(frozenset())

    async def _load(self) -> None:
        """Return once all ConfigMaps, and the documents that were accepted before, are known."""
        await self.sources.synced()
        record = await self._persistently("last_good_not_read", self._record.read)
        if record is not None:
            self._adopted = record
            self._memo = DocumentCache(record.marks)
        self._dirty.set()

    async def _compile_repeatedly(self) -> None:
        while True:
            await self._dirty.wait()
            if self.ready.is_set():
                await self._debounced()
            self._dirty.clear()
            adopted, self._adopted = self._adopted.texts, NOTHING
            try:
                async with self._compiling:
                    invalid = await asyncio.to_thread(invalid_in, adopted, self._last_good, self._memo)
                if adopted:
                    self._report_invalid(invalid)
                valid = {name: text for name, text in adopted.items() if name not in invalid}
                self._last_good = {**self._last_good, **valid}
                present = self.sources.all()
                async with self._compiling:
                    outcome = await asyncio.to_thread(policy_of, present, self._last_good, self._memo)
            except Exception as error:  # noqa: BLE001  (the policy stays in force)
                self._log.error("policy_not_compiled", **error_fields(error))
                self.faults = replace(self.faults, not_compiled=True)
                self._lasting.report_once("PolicyNotCompiled", NOT_COMPILED)
                continue
            self._activate(outcome)

    def _report_invalid(self, names: frozenset[str]) -> None:
        self.faults = replace(self.faults, invalid=names)
        if names:
            self._log.warning("last_good_invalid", config_maps=sorted(names))
        self._lasting.report_while(names, "LastGoodInvalid", f"{INVALID_RECORD}: {', '.join(sorted(names))}")

    async def _debounced(self) -> None:
        """Return when nothing has changed for a while, at the latest some time after the first change."""
        until = time.monotonic() + LONGEST
        before = -1
        while self._changes != before and time.monotonic() < until:
            before = self._changes
            await asyncio.sleep(min(QUIET, max(0.0, until - time.monotonic())))

    def _activate(self, outcome: PolicyOutcome) -> None:
        before, self.outcome = self.outcome, outcome
        self.compilations += 1
        self._last_good = outcome.accepted
        self.faults = replace(self.faults, not_compiled=False)
        self._lasting.forget("PolicyNotCompiled")
        if before is None or before.policy.digest != outcome.policy.digest:
            self._in_force(outcome.policy)
            rejected = sum(not verdict.accepted for verdict in outcome.verdicts)
            self._log.info("policy", digest=outcome.policy.digest, config_maps=len(outcome.verdicts), rejected=rejected)
        if not outcome.has_settings and (before is None or before.has_settings):
            self._log.warning("settings_missing", bare_devices="whole")
        self.ready.set()
        self._reporter.take(outcome.verdicts)
        valid_again = self.faults.invalid & outcome.in_force
        changed = before is None or (before.accepted, before.marks) != (outcome.accepted, outcome.marks)
        if valid_again or changed:
            self._unstored.set()

    async def _store_repeatedly(self) -> None:
        while True:
            await self._unstored.wait()
            await self.ready.wait()
            self._unstored.clear()
            record = await self._persistently("last_good_not_written", self._store)
            if record is not None:
                self._adopt(record)

    async def _store(self) -> Record:
        assert self.outcome is not None  # noqa: S101  (there is something to store)
        outcome = self.outcome
        record = await self._record.write(outcome.accepted, outcome.in_force, outcome.marks)
        left_out = outcome.accepted.keys() - record.texts.keys()
        self.faults = replace(self.faults, left_out=len(left_out))
        if left_out:
            self._log.warning("last_good_full", left_out=len(left_out))
        self._lasting.report_while(left_out, "LastGoodFull", f"{RECORD_FULL}: {', '.join(sorted(left_out))}")
        return record

    async def _persistently(self, event: str, operation: Callable[[], Awaitable[Record]]) -> Record | None:
        """Retry an operation until it succeeds; None if it fails with an error that a retry does not change."""
        backoff = Backoff(*RETRY_PAUSES)
        while True:
            try:
                return await operation()
            except ApiError as error:
                if backoff.failures == 0:
                    self._log.error(event, error=str(error))
                if not is_temporary(error):
                    return None
            await asyncio.sleep(backoff.failed())
