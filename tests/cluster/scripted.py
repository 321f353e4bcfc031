"""An API that plays a script: what it answers to lists and what its watches say, in order; then it is silent forever."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from webhook.cluster.client.api import Answer

END = object()
"""In a watch: the server ends it in good order. Without it the watch goes on, silent."""

LIST_PATH = "/api/v1/things"


class Scripted:
    """An `Api` of one collection.

    Args:
        lists: answers, or the errors that are raised instead.
        watches: each an error that is raised at once, or lines, errors and `END`.

    Attributes:
        asked: the query of every request and every watch, in order.
        over: set when the script has been played.
        open: watches that are open now.
    """

    def __init__(self, lists: Iterable[Answer | Exception], watches: Iterable[Exception | list[Any]] = ()) -> None:
        self._lists = deque(lists)
        self._watches = deque(watches)
        self.asked: list[dict[str, str]] = []
        self.over = asyncio.Event()
        self.open = 0

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
        """Play the next answer."""
        assert (method, path, body) == ("GET", LIST_PATH, None)
        self.asked.append(dict(query or {}))
        if not self._lists:
            await self._silence()
        answer = self._lists.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Play the next watch."""
        assert path == LIST_PATH
        self.asked.append(dict(query))
        script = self._watches.popleft() if self._watches else []
        if isinstance(script, Exception):
            raise script
        self.open += 1
        try:
            yield self._play(script)
        finally:
            self.open -= 1

    async def close(self) -> None:
        """Nothing is kept."""

    async def _play(self, script: list[Any]) -> AsyncIterator[bytes]:
        for said in script:
            if said is END:
                return
            if isinstance(said, Exception):
                raise said
            yield said
        await self._silence()

    async def _silence(self) -> None:
        if not self._lists and not self._watches:
            self.over.set()
        await asyncio.Event().wait()


def thing(name: str, version: int, value: str = "", namespace: str = "") -> dict[str, Any]:
    """One object, as it stands in lists and events."""
    place = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, "resourceVersion": str(version), **place}, "value": value, "not": "read"}


def page(version: int, *things: dict[str, Any], more: str = "") -> Answer:
    """An answer to a list; `more` is the token for its next page."""
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return Answer(200, json.dumps({"metadata": metadata, "items": things}).encode())


def event(kind: str, about: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": about}).encode()


def bookmark(version: int) -> bytes:
    """The line that says how far a watch has come."""
    return event("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(version)}})


def status(code: int, reason: str, message: str = "no") -> dict[str, Any]:
    """What the server says when it refuses."""
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def refusal(code: int, reason: str, retry_after: float | None = None) -> Answer:
    """An answer that says no."""
    return Answer(code, json.dumps(status(code, reason)).encode(), retry_after)
