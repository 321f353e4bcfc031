"""An API server that keeps one registration and one role, for registrars in the same process."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from webhook.cluster.api import Answer, UnreachableError
from webhook.cluster.owner import CLUSTER_ROLES
from webhook.cluster.registrar import COLLECTION
from webhook.cluster.registration import NAME

ONE = f"{COLLECTION}/{NAME}"


class Keeping:
    """An `Api` that does what an API server does with objects: versions, conflicts, 404.

    Attributes:
        stored: the registration as it is kept, None if there is none.
        role: the uid of the role `release`, None if there is none.
        calls: methods and paths, in order.
        trouble: raised, or answered, in place of anything else.
        wrote: set whenever the registration was written, by whomever.
        before_write: called before each write, as another hand would come in between.
    """

    def __init__(self) -> None:
        self.stored: dict[str, Any] | None = None
        self.role: str | None = None
        self.calls: list[str] = []
        self.trouble: Answer | Exception | None = None
        self.before_write: Callable[[], None] = lambda: None
        self.wrote = asyncio.Event()
        self._version = 0

    @property
    def writes(self) -> int:
        """How often something was asked to be written."""
        return sum(not call.startswith("GET") for call in self.calls)

    def change(self, change: Callable[[dict[str, Any]], object]) -> None:
        """What another hand does to the registration."""
        assert self.stored is not None
        changed = copy.deepcopy(self.stored)
        change(changed)
        self._store(changed)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        seconds: float = 10.0,
    ) -> Answer:
        """Answer as an API server does."""
        await asyncio.sleep(0)
        self.calls.append(f"{method} {path}")
        if isinstance(self.trouble, Exception):
            raise self.trouble
        if self.trouble is not None:
            return self.trouble
        if method == "GET":
            return self._read(path)
        assert body is not None
        self.before_write()
        return self._write(method, path, json.loads(body))

    def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Nothing is watched here."""
        raise UnreachableError("no watches here")

    async def close(self) -> None:
        """Nothing to be done."""

    def _read(self, path: str) -> Answer:
        found: dict[str, Any] | None
        if path == ONE:
            found = self.stored
        else:
            assert path == f"{CLUSTER_ROLES}/release"
            found = None if self.role is None else {"metadata": {"name": "release", "uid": self.role}}
        return Answer(404, b"{}") if found is None else Answer(200, json.dumps(found).encode())

    def _write(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        if method == "POST":
            assert path == COLLECTION
            if self.stored is not None:
                return Answer(409, b"{}")
        else:
            assert (method, path) == ("PUT", ONE)
            if self.stored is None:
                return Answer(404, b"{}")
            if body["metadata"]["resourceVersion"] != self.stored["metadata"]["resourceVersion"]:
                return Answer(409, b"{}")
        self._store(body)
        return Answer(200, json.dumps(self.stored).encode())

    def _store(self, body: dict[str, Any]) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.stored = body
        self.wrote.set()
