"""An API server that keeps one webhook configuration and one role, for registrars in the same process."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from tests.cluster.storing import Storing
from webhook.cluster.client.api import Answer, UnreachableError
from webhook.cluster.client.owner import CLUSTER_ROLES
from webhook.cluster.registration.desired import COLLECTION, NAME

ONE = f"{COLLECTION}/{NAME}"
ROLE = f"{CLUSTER_ROLES}/release"


class Keeping:
    """An `Api` before a `Storing` one: what is asked is one of the two objects, and trouble and other hands come in between.

    Attributes:
        calls: methods and paths, in order.
        trouble: raised, or answered, in place of anything else.
        wrote: set whenever the webhook configuration was written, by whomever.
        before_write: called before each write, as another hand would come in between.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.trouble: Answer | Exception | None = None
        self.before_write: Callable[[], None] = lambda: None
        self.wrote = asyncio.Event()
        self._server = Storing()

    @property
    def stored(self) -> dict[str, Any] | None:
        """The webhook configuration as it is kept, None if there is none."""
        return self._server.stored.get(ONE)

    @stored.setter
    def stored(self, registration: dict[str, Any] | None) -> None:
        self._keep(ONE, registration)

    @property
    def role(self) -> str | None:
        """The uid of the role `release`, None if there is none."""
        found = self._server.stored.get(ROLE)
        return None if found is None else found["metadata"]["uid"]

    @role.setter
    def role(self, uid: str | None) -> None:
        self._keep(ROLE, None if uid is None else {"metadata": {"name": "release", "uid": uid}})

    @property
    def writes(self) -> int:
        """How often the webhooks were asked to be written; an object without them is made by an apply before."""
        return sum(call.startswith("PUT") for call in self.calls)

    def change(self, change: Callable[[dict[str, Any]], object]) -> None:
        """What another hand does to the webhook configuration."""
        changed = copy.deepcopy(self.stored)
        assert changed is not None
        change(changed)
        self._server.put(ONE, changed)
        self.wrote.set()

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
        self.calls.append(f"{method} {path}")
        assert (method, path) in {("GET", ONE), ("GET", ROLE), ("PUT", ONE), ("PATCH", ONE)}
        if self.trouble is not None:
            await asyncio.sleep(0)
            if isinstance(self.trouble, Exception):
                raise self.trouble
            return self.trouble
        if method == "GET":
            return await self._server.request(method, path)
        self.before_write()
        before = self.stored
        answer = await self._server.request(method, path, body=body)
        if self.stored is not before and method == "PUT":
            self.wrote.set()
        return answer

    def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Nothing is watched here."""
        raise UnreachableError("no watches here")

    async def close(self) -> None:
        """Nothing to be done."""

    def _keep(self, path: str, body: dict[str, Any] | None) -> None:
        if body is None:
            self._server.stored.pop(path, None)
        else:
            self._server.put(path, body)
