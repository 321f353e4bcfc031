"""An API server that keeps the ConfigMaps and Events of one namespace, for what needs trouble at the right moment."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from webhook.cluster.client.api import Answer

PLACE = "place"


class Storing:
    """An `Api` that does what an API server does with objects: versions, conflicts, 404, watches that say nothing.

    Attributes:
        stored: objects by their path.
        asked: methods and paths, in order.
        before: called before each request with its method and path; what it returns or raises is the answer.
    """

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.before: Callable[[str, str], Answer | None] = lambda method, path: None
        self._version = 0

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Store an object, as another hand would."""
        self._version += 1
        self.stored[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        return self.stored[path]

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
        self.asked.append(f"{method} {path.rpartition('/')[2]}")
        given = self.before(method, path)
        if given is not None:
            return given
        if method == "POST":
            written = json.loads(body or b"")
            path = f"{path}/{written['metadata']['name']}"
            return _answer(409, {}) if path in self.stored else _answer(201, self.put(path, written))
        if method == "PATCH":
            # An apply of what owns no field leaves an object as it is, and makes one that is not there.
            return _answer(200, self.stored.get(path) or self.put(path, json.loads(body or b"")))
        if method == "PUT":
            return self._replaced(path, json.loads(body or b""))
        if query is not None:
            return self._listed(path, query)
        return _answer(200, self.stored[path]) if path in self.stored else _answer(404, {})

    @asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A watch that says nothing."""
        yield self._silence()

    async def close(self) -> None:
        """Nothing is kept."""

    def _replaced(self, path: str, body: dict[str, Any]) -> Answer:
        there = self.stored.get(path)
        if there is None:
            return _answer(404, {})
        if there["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            return _answer(409, {})
        return _answer(200, self.put(path, body))

    def _listed(self, path: str, query: Mapping[str, str]) -> Answer:
        label, _, name = query.get("labelSelector", ""), *query.get("fieldSelector", "").rpartition("=")[1:]
        items = [
            one
            for key, one in self.stored.items()
            if key.startswith(f"{path}/")
            and (one["metadata"]["name"] == name or (label and "labels" in one["metadata"] and not name))
        ]
        return _answer(200, {"metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def _silence(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""


def _answer(status: int, body: dict[str, Any]) -> Answer:
    return Answer(status, json.dumps(body).encode())
