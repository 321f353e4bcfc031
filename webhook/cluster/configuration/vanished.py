"""ConfigMaps that vanished without anybody's act: with their namespace, or all at once with the record of last good documents.

To delete one is an act, and what it said is no longer in force. Whoever loses a namespace has not thought of policy: what was
in force stays in force, in the memory of the replicas that saw it, until somebody writes a ConfigMap of that name.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import msgspec

from webhook.cluster.client.api import Api, ApiError
from webhook.cluster.client.metadata import ObjectMetadata
from webhook.cluster.configuration.config_maps import (
    LAST_GOOD_NAME,
    MAPPING_KEY,
    SETTINGS_KEY,
    SETTINGS_NAME,
    ConfigMap,
    config_map,
    decode_stored,
)

TOGETHER: Final = 5.0
"""Seconds between the end of the record and that of another ConfigMap that count as one event."""

TIMEOUT: Final = 1.0
"""Seconds that a deletion waits for what may vanish after it; whoever deletes by name does not mind them."""


_UNKNOWN: Final = {HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED}
"""Refusals that say nothing about an object; another try would say the same."""


class _Namespace(msgspec.Struct):
    metadata: ObjectMetadata


_decode_namespace = msgspec.json.Decoder(_Namespace).decode


class Lost:
    """What vanished from one namespace, and stays in force.

    Args:
        api: the way to the API server.
        namespace: of the ConfigMaps.
        told: called with the names of all that is held, whenever these change.
        clock: seconds that never jump.
        patience: `TIMEOUT`, for tests.

    Attributes:
        unsure: the API server did not say enough to tell an act; ask `completed` again.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        told: Callable[[Collection[str]], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float = TIMEOUT,
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}"
        self._told = told
        self._clock = clock
        self._patience = patience
        self._there: Mapping[str, ConfigMap] = {}
        self._held: dict[str, ConfigMap] = {}
        self.unsure = False
        self._uid = ""
        self._record_uid = ""
        self._record_ended: float | None = None
        self._gone_since: float | None = None

    @property
    def held(self) -> Collection[str]:
        """The names of what is in force although it is gone."""
        return self._held.keys()

    def record(self, there: ConfigMap | None) -> None:
        """Take notice of the record; None: there is none."""
        uid = "" if there is None else there.uid
        if self._record_uid and uid != self._record_uid:
            self._record_ended = self._clock()
        self._record_uid = uid

    async def completed(
        self, present: Callable[[], Sequence[ConfigMap]], accepted: Mapping[str, str]
    ) -> list[ConfigMap]:
        """What there is, and what is lost as it was accepted last.

        Args:
            present: what there is.
            accepted: the texts that were accepted last, by name.
        """
        there = _by_name(present())
        if self._there.keys() - there.keys():
            await asyncio.sleep(self._patience)
            there = _by_name(present())
        gone = {name: one for name, one in self._there.items() if name not in there and name in accepted}
        before = sorted(self._held)
        self.unsure = False
        if gone:
            self._gone_since = self._gone_since or self._clock()
            await self._judge({name: _as_accepted(one, accepted[name]) for name, one in gone.items()})
        elif any(name not in self._there or one.uid != self._there[name].uid for name, one in there.items()):
            # Only in a namespace that lives something can be made.
            await self._namespace_lives()
        # Of what is not decided it is asked again.
        self._there = {**gone, **there} if self.unsure else there
        self._gone_since = self._gone_since if self.unsure else None
        self._held = {name: one for name, one in self._held.items() if name not in there}
        if before != sorted(self._held):
            self._told(sorted(self._held))
        return [*there.values(), *self._held.values()]

    async def _judge(self, gone: Mapping[str, ConfigMap]) -> None:
        """Hold what is gone, unless somebody has deleted just that."""
        try:
            act = await self._namespace_lives() and await self._record_lives()
        except (ApiError, msgspec.DecodeError):
            self.unsure, act = True, False
        self._held = {name: one for name, one in self._held.items() if name not in gone}
        if not act:
            self._held |= gone

    async def _namespace_lives(self) -> bool:
        """Whether the namespace is still the one that it was, and is to stay."""
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

    async def _record_lives(self) -> bool:
        """Whether the record has not ended together with what is gone; it is read, for its watch may come later."""
        answer = await self._api.request("GET", f"{self._path}/configmaps/{LAST_GOOD_NAME}")
        if answer.status not in _UNKNOWN:
            missing = answer.status == HTTPStatus.NOT_FOUND
            self.record(None if missing else config_map(decode_stored(answer.accepted())))
        ended, gone = self._record_ended, self._gone_since
        return ended is None or gone is None or gone - ended > TOGETHER


def _by_name(config_maps: Sequence[ConfigMap]) -> dict[str, ConfigMap]:
    return {one.name: one for one in config_maps if one.name != LAST_GOOD_NAME}


def _as_accepted(one: ConfigMap, text: str) -> ConfigMap:
    """A ConfigMap as it was when its document was accepted."""
    key = SETTINGS_KEY if one.name == SETTINGS_NAME else MAPPING_KEY
    return replace(one, data={key: text})
