"""The policy of a cluster, kept up to date with its ConfigMaps.

Compiling runs in a thread, so that reviews continue meanwhile, and the new policy replaces the old one at once. Writes
that fail (Events, the record of the last good documents) are retried, and delay nothing else.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from structlog.typing import FilteringBoundLogger

from certs.backoff import Backoff
from webhook.cluster.client.api import Api, ApiError
from webhook.cluster.client.events import Events, Subject
from webhook.cluster.client.reflector import WatchConfig
from webhook.cluster.configuration.config_maps import LAST_GOOD_NAME
from webhook.cluster.configuration.documents import DocumentCache
from webhook.cluster.configuration.last_good import NOTHING, Accepted, LastGood, Record
from webhook.cluster.configuration.mappings import unsound_in
from webhook.cluster.configuration.policies import PolicyOutcome, policy_of
from webhook.cluster.configuration.reporter import RETRY_PAUSES, Reporter, will_pass
from webhook.cluster.configuration.sources import Sources
from webhook.cluster.configuration.vanished import Lost
from webhook.cluster.configuration.verdict import Verdict
from webhook.mapping.model.policy import Policy

AGAIN: Final = 5.0
"""Seconds until it is checked again whether missing ConfigMaps were deleted on purpose."""

NOT_COMPILED: Final = (
    "A bug in vgpu-webhook: the changed ConfigMaps could not be compiled, and the previous policy stays in force. "
    "See its log"
)
FULL: Final = "The record is full (1 MiB). These ConfigMaps are in force, but have no last good version to fall back to"

UNSOUND: Final = (
    "This record holds invalid documents, written by hand or by another version. The previous ones stay in force. "
    "Delete this ConfigMap to have it written again. Affected"
)


@dataclass(frozen=True, slots=True)
class Debounce:
    """How long to wait for further changes before compiling; seconds.

    Attributes:
        quiet: without a further change: events of one ``kubectl apply`` come some milliseconds apart.
        longest: after the first change.
    """

    quiet: float = 0.05
    longest: float = 0.25


class LivePolicy:
    """Follows the ConfigMaps of one namespace.

    Args:
        api: the API server.
        namespace: the webhook's own.
        log: for rejected documents, their end, and new policies.
        in_force: called on the loop with every policy that differs from the previous one; from then on it decides.
        owner: the ClusterRole that owns the record, if there is one.
        told: called on the loop with the verdict on every ConfigMap, after every compilation.
        notice: called on the loop with the object, reason and message of an Event to be written.
        calm: how long changes are collected.
        pace: the times of the watches.

    Attributes:
        sources: the ConfigMaps, with their reflectors.
        ready: set once the policy of the initial ConfigMaps is in force.
        outcome: the last outcome; None before the first compilation.
        compilations: how many there were.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        log: FilteringBoundLogger,
        *,
        in_force: Callable[[Policy], None],
        owner: str | None = None,
        told: Callable[[Sequence[Verdict]], None] = lambda _: None,
        notice: Callable[[Subject, str, str], None] = lambda *_: None,
        calm: Debounce | None = None,
        pace: WatchConfig | None = None,
    ) -> None:
        self.sources = Sources(api, namespace, log, self._changed, pace=pace)
        self.ready = asyncio.Event()
        self.outcome: PolicyOutcome | None = None
        self.compilations = 0
        self._record = LastGood(api, namespace, owner)
        self._events = Events(api)
        self._telling = Reporter(self._events, namespace, log)
        self._lost = Lost(api, namespace, self._lost_or_found)
        self._record_subject = Subject("v1", "ConfigMap", namespace, LAST_GOOD_NAME, "", "")
        self._losses = asyncio.Event()
        self._log = log
        self._in_force = in_force
        self._told = told
        self._notice = notice
        self._calm = calm or Debounce()
        self._memo = DocumentCache()
        self._last_good: Mapping[str, str] = {}
        self._adopted = NOTHING
        self._changes = 0
        self._dirty = asyncio.Event()
        self._unkept = asyncio.Event()

    async def run(self) -> None:
        """Follow them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.sources.reflectors:
                tasks.create_task(reflector.run())
            await self._begin()
            tasks.create_task(self._compile_for_ever())
            tasks.create_task(self._keep_for_ever())
            tasks.create_task(self._telling.run())
            tasks.create_task(self._tell_losses())

    @property
    def lost(self) -> Collection[str]:
        """The ConfigMaps that vanished without being deleted on purpose; they stay in force."""
        return self._lost.held

    def lines(self) -> list[str]:
        """What is in force and what is not: a line for each ConfigMap and each problem."""
        if self.outcome is None:
            return ["policy: none yet"]
        policy = self.outcome.policy
        first = f"policy: {policy.digest}, {len(policy.vendors)} vendors"
        lost = [f"configmap/{name}: lost with its namespace; still in force" for name in sorted(self.lost)]
        return [first, *lost, *(line for verdict in self.outcome.verdicts for line in verdict.lines())]

    def _changed(self, names: Collection[str]) -> None:
        if LAST_GOOD_NAME in names:
            self._look_at_record()
        if set(names) - {LAST_GOOD_NAME}:
            self._compile_again()

    def _compile_again(self) -> None:
        self._changes += 1
        self._dirty.set()

    def _look_at_record(self) -> None:
        """Take a changed record: another replica has written it, or it was deleted."""
        there = self.sources.record()
        self._lost.record(there)
        record = self._record.seen(there)
        if there is None:
            if self.outcome is not None and self.outcome.accepted:
                self._log.warning("last_good_restored")
            self._unkept.set()
        elif record is not None:
            self._adopt(record)

    def _adopt(self, record: Record) -> None:
        """For documents that are not in force here, prefer the record to this replica's memory."""
        self._adopted = record
        if self.outcome is not None and any(
            record.texts.get(name, text) != text for name, text in self._kept(self.outcome).others.items()
        ):
            self._compile_again()

    async def _begin(self) -> None:
        """Return once all ConfigMaps, and the documents that were accepted before, are known."""
        await self.sources.synced()
        record = await self._persistently("last_good_not_read", self._record.read)
        if record is not None:
            self._adopted = record
            self._memo = DocumentCache(record.marks)
        self._dirty.set()

    async def _compile_for_ever(self) -> None:
        while True:
            await self._dirty.wait()
            if self.ready.is_set():
                await self._calmed()
            self._dirty.clear()
            adopted, self._adopted = self._adopted.texts, NOTHING
            try:
                unsound = await asyncio.to_thread(unsound_in, adopted, self._last_good, self._memo)
                self._tell_unsound(unsound)
                sound = {name: text for name, text in adopted.items() if name not in unsound}
                self._last_good = {**self._last_good, **sound}
                present = await self._lost.completed(self.sources.all, self._last_good)
                if self._lost.unsure:
                    asyncio.get_running_loop().call_later(AGAIN, self._compile_again)
                outcome = await asyncio.to_thread(policy_of, present, self._last_good, self._memo)
            except Exception as error:  # noqa: BLE001  (the policy stays in force, and the next change may work)
                self._log.error("policy_not_compiled", error=type(error).__name__)
                self._notice(self._record_subject, "PolicyNotCompiled", NOT_COMPILED)
                continue
            self._take(outcome)

    def _tell_unsound(self, names: Collection[str]) -> None:
        if not names:
            return
        self._log.warning("last_good_invalid", config_maps=sorted(names))
        self._notice(self._record_subject, "LastGoodInvalid", f"{UNSOUND}: {', '.join(sorted(names))}")

    async def _calmed(self) -> None:
        """Return when nothing has changed for a while, or too long after the first change."""
        until = time.monotonic() + self._calm.longest
        before = -1
        while self._changes != before and time.monotonic() < until:
            before = self._changes
            await asyncio.sleep(min(self._calm.quiet, max(0.0, until - time.monotonic())))

    def _take(self, outcome: PolicyOutcome) -> None:
        before, self.outcome = self.outcome, outcome
        self.compilations += 1
        self._last_good = outcome.accepted
        if before is None or before.policy.digest != outcome.policy.digest:
            self._in_force(outcome.policy)
            rejected = sum(not verdict.accepted for verdict in outcome.verdicts)
            self._log.info("policy", digest=outcome.policy.digest, config_maps=len(outcome.verdicts), rejected=rejected)
        self.ready.set()
        self._told(outcome.verdicts)
        self._telling.take(outcome.verdicts)
        if before is None or (before.accepted, before.marks) != (outcome.accepted, outcome.marks):
            self._unkept.set()

    async def _keep_for_ever(self) -> None:
        while True:
            await self._unkept.wait()
            self._unkept.clear()
            record = await self._persistently("last_good_not_written", self._keep)
            if record is not None:
                self._adopt(record)

    async def _keep(self) -> Record:
        assert self.outcome is not None  # noqa: S101  (there is something to keep)
        kept = self._kept(self.outcome)
        record = await self._record.write(kept)
        left_out = (kept.ours.keys() | kept.others.keys()) - record.texts.keys()
        if left_out:
            self._log.warning("last_good_full", left_out=len(left_out))
            self._notice(self._record_subject, "LastGoodFull", f"{FULL}: {', '.join(sorted(left_out))}")
        return record

    def _lost_or_found(self, names: Collection[str]) -> None:
        if names:
            self._log.error("config_maps_lost", config_maps=list(names))
        else:
            self._log.info("config_maps_restored")
        self._losses.set()

    async def _tell_losses(self) -> None:
        """Write an Event once there is a namespace for it, and have the record written there, too."""
        while True:
            await self._losses.wait()
            self._losses.clear()
            backoff = Backoff(*RETRY_PAUSES)
            while self.lost:
                names = ", ".join(sorted(self.lost))
                message = (
                    f"Lost with their namespace, and still in force in the running replicas: {names}. Create them again"
                )
                try:
                    await self._events.tell(self._record_subject, "Warning", "ConfigMapsLost", message)
                    self._unkept.set()
                    break
                except ApiError:
                    await asyncio.sleep(backoff.failed())

    def _kept(self, outcome: PolicyOutcome) -> Accepted:
        ours = {verdict.config_map.name for verdict in outcome.verdicts if verdict.accepted}
        return Accepted(
            {name: text for name, text in outcome.accepted.items() if name in ours},
            {name: text for name, text in outcome.accepted.items() if name not in ours},
            outcome.marks,
        )

    async def _persistently(self, event: str, work: Callable[[], Awaitable[Record]]) -> Record | None:
        """Retry some work until it succeeds; None if the API server refuses it for good."""
        backoff = Backoff(*RETRY_PAUSES)
        while True:
            try:
                return await work()
            except ApiError as error:
                if backoff.failures == 0:
                    self._log.error(event, error=str(error))
                if not will_pass(error):
                    return None
            await asyncio.sleep(backoff.failed())
