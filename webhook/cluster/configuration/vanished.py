"""ConfigMaps that vanished without being deleted on purpose: with their namespace, or together with the record.

A user who deletes a single ConfigMap wants its document to be no longer in force. A namespace that is lost says nothing
about the policy: the documents stay in force until a ConfigMap of that name is created. Their names are in the record of
last good documents, for replicas that start.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import msgspec

from webhook.cluster.client.api import Api, ApiError
from webhook.cluster.client.metadata import ObjectMetadata
from webhook.cluster.configuration.config_maps import (
    LAST_GOOD_NAME,
    ConfigMap,
    config_map,
    decode_stored,
    document_key,
)

TOGETHER: Final = 5.0
"""Seconds within which the deletions of the record and of another ConfigMap count as one event."""

DELAY: Final = 1.0
"""Seconds to wait after a deletion for others that may follow."""

_UNKNOWN: Final = {HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED}
"""Statuses that reveal nothing about the object, and that a retry would not change."""


class _Namespace(msgspec.Struct):
    metadata: ObjectMetadata


_decode_namespace = msgspec.json.Decoder(_Namespace).decode


class VanishedConfigMaps:
    """The ConfigMaps that vanished from one namespace, and stay in force.

    Args:
        api: the API server.
        namespace: the namespace of the ConfigMaps.
        report: called with the names of all of them, whenever they change.
        restore: put those in force that only the record knows; otherwise they are counted and reported.
        clock: monotonic seconds.
        delay: `DELAY`, for tests.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        report: Callable[[Collection[str]], None],
        *,
        restore: bool = True,
        clock: Callable[[], float] = time.monotonic,
        delay: float = DELAY,
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}"
        self._report = report
        self._restore = restore
        self._clock = clock
        self._delay = delay
        self._present: Mapping[str, ConfigMap] = {}
        self._vanished: dict[str, ConfigMap] = {}
        self._recorded: dict[str, ConfigMap] = {}
        self._withheld: dict[str, ConfigMap] = {}
        self._undecided: Collection[str] = ()
        self._uid = ""
        self._record_uid = ""
        self._record_ended: float | None = None
        self._gone_since: float | None = None

    @property
    def config_maps(self) -> Mapping[str, ConfigMap]:
        """All of them by name, each with the document that was accepted last."""
        return {**self._withheld, **self._vanished}

    @property
    def undecided(self) -> bool:
        """Whether the API server's answers did not allow a decision; call `completed` again."""
        return bool(self._undecided)

    @property
    def decided(self) -> Mapping[str, ConfigMap]:
        """Those that were not deleted on purpose for certain; a deletion must not spread to other replicas as a loss."""
        return {name: config_map for name, config_map in self.config_maps.items() if name not in self._undecided}

    @property
    def in_force(self) -> Collection[str]:
        """The names of those that are in force although they are gone."""
        return self._vanished.keys()

    def record(self, stored: ConfigMap | None) -> None:
        """Note the current record; None if there is none."""
        uid = "" if stored is None else stored.uid
        if self._record_uid and uid != self._record_uid:
            self._record_ended = self._clock()
        self._record_uid = uid

    def recorded(self, lost: Iterable[ConfigMap]) -> bool:
        """Note what the record calls lost, for the next `completed`; whether any of it is news.

        One replica that saw a loss is enough: another may have started after it.
        """
        self._recorded = {
            config_map.name: config_map
            for config_map in lost
            if config_map.name not in self._present and config_map.name not in self.config_maps
        }
        return bool(self._recorded)

    async def completed(
        self, present: Callable[[], Sequence[ConfigMap]], accepted: Mapping[str, str]
    ) -> list[ConfigMap]:
        """The current ConfigMaps, and the vanished ones with their last good documents.

        Args:
            present: returns the current ConfigMaps.
            accepted: the texts that were accepted last, by name.
        """
        current = _by_name(present())
        if self._present.keys() - current.keys():
            await asyncio.sleep(self._delay)
            current = _by_name(present())
        gone = {
            name: config_map for name, config_map in self._present.items() if name not in current and name in accepted
        }
        before = sorted(self.config_maps)
        self._undecided = ()
        if gone:
            self._gone_since = self._gone_since or self._clock()
            await self._decide({name: _as_accepted(config_map, accepted[name]) for name, config_map in gone.items()})
        elif any(
            name not in self._present or config_map.uid != self._present[name].uid
            for name, config_map in current.items()
        ):
            # A new ConfigMap shows that the namespace is not being deleted.
            with contextlib.suppress(ApiError, msgspec.DecodeError):
                await self._namespace_exists()
        (self._vanished if self._restore else self._withheld).update(self._recorded)
        self._recorded = {}
        # What is not decided yet stays known, to be decided later.
        self._present = {**gone, **current} if self.undecided else current
        self._gone_since = self._gone_since if self.undecided else None
        self._vanished = {name: config_map for name, config_map in self._vanished.items() if name not in current}
        known = current.keys() | self._vanished.keys()
        self._withheld = {name: config_map for name, config_map in self._withheld.items() if name not in known}
        if before != sorted(self.config_maps):
            self._report(sorted(self.config_maps))
        return [*current.values(), *self._vanished.values()]

    async def _decide(self, gone: Mapping[str, ConfigMap]) -> None:
        """Remember missing ConfigMaps, unless they were deleted on purpose."""
        try:
            intended = await self._namespace_exists() and await self._record_exists()
        except (ApiError, msgspec.DecodeError):
            self._undecided, intended = gone.keys(), False
        self._vanished = {name: config_map for name, config_map in self._vanished.items() if name not in gone}
        if not intended:
            self._vanished |= gone

    async def _namespace_exists(self) -> bool:
        """Whether the namespace is still the same one, and is not being deleted."""
        answer = await self._api.request("GET", self._path)
        if answer.status in _UNKNOWN:
            return True
        if answer.status == HTTPStatus.NOT_FOUND:
            return False
        found = _decode_namespace(answer.accepted()).metadata
        same = self._uid in {"", found.uid}
        if found.deletion_timestamp is None:
            self._uid = found.uid
        return same and found.deletion_timestamp is None

    async def _record_exists(self) -> bool:
        """Whether the record was not deleted together with others; it is read, because its watch may be late."""
        answer = await self._api.request("GET", f"{self._path}/configmaps/{LAST_GOOD_NAME}")
        if answer.status not in _UNKNOWN:
            missing = answer.status == HTTPStatus.NOT_FOUND
            self.record(None if missing else config_map(decode_stored(answer.accepted())))
        ended, gone = self._record_ended, self._gone_since
        return ended is None or gone is None or gone - ended > TOGETHER


def _by_name(config_maps: Sequence[ConfigMap]) -> dict[str, ConfigMap]:
    return {config_map.name: config_map for config_map in config_maps if config_map.name != LAST_GOOD_NAME}


def _as_accepted(config_map: ConfigMap, text: str) -> ConfigMap:
    """A ConfigMap as it was when its document was accepted."""
    return replace(config_map, data={document_key(config_map.name): text})
