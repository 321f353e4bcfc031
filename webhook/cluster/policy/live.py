"""The policy of a cluster, kept up to date with its ConfigMaps.

Compilation runs in a thread beside the reviews, and the new policy replaces the old one by one assignment. Writes that
fail (Events, the record of the last good documents) are retried, and delay nothing else. Each change of a verdict is
reported once, by a log line and an Event.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from certs.upkeep import Backoff, Notices
from webhook.cluster.client import RETRY_PAUSES, Api, ApiError, is_temporary
from webhook.cluster.events import EventQueue, Subject
from webhook.cluster.policy.choose import PolicyOutcome, judge_document, policy_of
from webhook.cluster.policy.documents import (
    LAST_GOOD_NAME,
    NOTHING,
    SELECTORS,
    ConfigMap,
    DocumentCache,
    DocumentProblems,
    LastGood,
    Record,
    StoredConfigMap,
    Verdict,
    config_map,
    invalid_in,
)
from webhook.cluster.reflector import Reflector
from webhook.mapping.model.policy import Policy
from webhook.text import error_fields

MAX_PROBLEMS: Final = 10
"""The most problems of one document in a log line; the first ones usually cause the others."""

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


class PolicyFaults(Struct, frozen=True):
    """What is wrong beside the documents in ConfigMaps, for metrics."""

    left_out: int = 0  # the number of documents in force that the record of last good documents has no space for
    # the documents in that record that are invalid, while a replica remembers a valid one
    invalid: frozenset[str] = frozenset()
    not_compiled: bool = False  # a bug keeps changed ConfigMaps from being compiled


@dataclass(eq=False)
class LivePolicy:
    """Follows the ConfigMaps of the webhook's own namespace: everyone who can write some there can change the policy.

    Attributes:
        in_force: called on the event loop with every policy that differs from the previous one, to activate it.
        owner: the ClusterRole that owns the record, if there is one.
        reflectors: of the ConfigMaps; the last one is that of the record.
        ready: set once the policy of the initial ConfigMaps is in force.
        outcome: the last one; None before the first compilation.
    """

    api: Api
    namespace: str
    _log: FilteringBoundLogger
    events: EventQueue
    _: KW_ONLY
    in_force: Callable[[Policy], None]
    owner: str | None = None

    def __post_init__(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.reflectors: tuple[Reflector[StoredConfigMap, ConfigMap], ...] = tuple(
            Reflector(self.api, path, StoredConfigMap, config_map, self._log, changed=self._changed, query=query)
            for query in SELECTORS
        )
        self.ready = asyncio.Event()
        self.outcome: PolicyOutcome | None = None
        self.compilations = 0
        self.faults = PolicyFaults()
        self._verdicts: dict[str, Verdict] = {}
        record = Subject("v1", "ConfigMap", self.namespace, LAST_GOOD_NAME, "")
        self._notices: Notices[str] = Notices(lambda notice: self.events.put(record, *notice))
        self._record = LastGood(self.api, self.namespace, self.owner)
        self._unstored = asyncio.Event()
        self._memo = DocumentCache()
        self._compiling = asyncio.Lock()
        self._judging = 0
        self._last_good: Mapping[str, str] = {}
        self._adopted = NOTHING
        self._changes = 0
        self._dirty = asyncio.Event()

    async def run(self) -> None:
        """Follow the ConfigMaps until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors:
                tasks.create_task(reflector.run())
            for reflector in self.reflectors[:-1]:  # the record is read directly
                await reflector.synced.wait()
            self._adopted = await self._persistently("last_good_not_read", self._record.read) or NOTHING
            self._dirty.set()
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
                present = self._present()
                return await asyncio.to_thread(judge_document, candidate, present, self._last_good, self._memo)
        finally:
            self._judging -= 1

    def _present(self) -> list[ConfigMap]:
        """All current ConfigMaps."""
        found = {each.name: each for reflector in self.reflectors for each in reflector.objects.values()}
        return list(found.values())

    def _changed(self, keys: Collection[str]) -> None:
        names = {key.rpartition("/")[2] for key in keys}
        if LAST_GOOD_NAME in names:
            self._take_record()
        if names - {LAST_GOOD_NAME}:
            self._compile_again()

    def _compile_again(self) -> None:
        self._changes += 1
        self._dirty.set()

    def _take_record(self) -> None:
        """Take a changed record, which another replica has written, or somebody has deleted."""
        stored = next(iter(self.reflectors[-1].objects.values()), None)
        record = self._record.seen(stored)
        if stored is None:
            if self.outcome is not None and self.outcome.accepted:
                self._log.warning("last_good_restored")
                self._notices.tell("LastGoodRestored", RECORD_GONE)
            self._unstored.set()
        elif record is not None:
            self._adopt(record)

    def _adopt(self, record: Record) -> None:
        """For documents that are not in force here, prefer the record to this replica's memory."""
        self._adopted = record
        outcome = self.outcome
        remembered = {} if outcome is None else {**outcome.accepted}
        in_force = () if outcome is None else outcome.in_force
        if any(record.texts.get(name, text) != text for name, text in remembered.items() if name not in in_force):
            self._compile_again()
        else:
            self._tell_invalid(frozenset())

    async def _compile_repeatedly(self) -> None:
        while True:
            await self._dirty.wait()
            if self.ready.is_set():
                await self._debounced()
            self._dirty.clear()
            try:
                outcome = await self._compiled()
            except Exception as error:  # noqa: BLE001  (the policy stays in force)
                self._log.error("policy_not_compiled", **error_fields(error))
                self.faults = replace(self.faults, not_compiled=True)
                self._notices.tell_once("PolicyNotCompiled", NOT_COMPILED)
            else:
                self._activate(outcome)

    async def _compiled(self) -> PolicyOutcome:
        adopted, self._adopted = self._adopted.texts, NOTHING
        async with self._compiling:
            invalid = await asyncio.to_thread(invalid_in, adopted, self._last_good, self._memo)
        if adopted:
            self._tell_invalid(invalid)
        valid = {name: text for name, text in adopted.items() if name not in invalid}
        self._last_good = {**self._last_good, **valid}
        present = self._present()
        async with self._compiling:
            return await asyncio.to_thread(policy_of, present, self._last_good, self._memo)

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
        self._notices.forget("PolicyNotCompiled")
        if before is None or before.policy.digest != outcome.policy.digest:
            self.in_force(outcome.policy)
            rejected = sum(not verdict.accepted for verdict in outcome.verdicts)
            self._log.info("policy", digest=outcome.policy.digest, config_maps=len(outcome.verdicts), rejected=rejected)
        if not outcome.has_settings and (before is None or before.has_settings):
            self._log.warning("settings_missing", bare_devices="whole")
        self.ready.set()
        self._tell_verdicts(outcome.verdicts)
        if self.faults.invalid & outcome.in_force or before is None or before.accepted != outcome.accepted:
            self._unstored.set()

    def _tell_verdicts(self, verdicts: Iterable[Verdict]) -> None:
        """Tell what is new: documents that are rejected, or accepted again."""
        before, self._verdicts = self._verdicts, {verdict.config_map.name: verdict for verdict in verdicts}
        for name, verdict in self._verdicts.items():
            last = before.get(name)
            if verdict.accepted:
                if last is not None and not last.accepted:
                    self._log.info(f"{verdict.kind}_accepted", config_map=name, vendor=verdict.vendor)
                    self._put_event(verdict)
            elif last is None or _content(last) != _content(verdict):
                self._log.error(
                    f"{verdict.kind}_rejected",
                    config_map=name,
                    vendor=verdict.vendor,
                    problems=[str(problem) for problem in verdict.problems[:MAX_PROBLEMS]],
                    in_force=verdict.instead,
                )
                self._put_event(verdict)

    def _put_event(self, verdict: Verdict) -> None:
        found = verdict.config_map
        subject = Subject("v1", "ConfigMap", self.namespace, found.name, found.uid, found.version)
        kind = verdict.kind.title()
        if verdict.accepted:
            message = f"In force again: vendor {verdict.vendor}" if verdict.vendor else "In force again"
            self.events.put(subject, f"{kind}Accepted", message, "Normal")
        else:
            message = f"In force: {verdict.instead}. {'; '.join(map(str, verdict.problems))}"
            self.events.put(subject, f"{kind}Rejected", message)

    def _tell_invalid(self, names: frozenset[str]) -> None:
        self.faults = replace(self.faults, invalid=names)
        if names:
            self._log.warning("last_good_invalid", config_maps=sorted(names))
        self._notices.tell_while(names, "LastGoodInvalid", f"{INVALID_RECORD}: {', '.join(sorted(names))}")

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
        accepted = self.outcome.accepted
        record = await self._record.write(accepted, self.outcome.in_force)
        left_out = accepted.keys() - record.texts.keys()
        self.faults = replace(self.faults, left_out=len(left_out))
        if left_out:
            self._log.warning("last_good_full", left_out=len(left_out))
        self._notices.tell_while(left_out, "LastGoodFull", f"{RECORD_FULL}: {', '.join(sorted(left_out))}")
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


def _content(verdict: Verdict) -> tuple[object, ...]:
    return verdict.config_map.uid, verdict.config_map.version, verdict.problems, verdict.instead
