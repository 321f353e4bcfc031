"""The stand-in for a Kubernetes API server inside a test: it replays scripted answers, and stores objects."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from webhook.cluster.client import Answer, Body, Unread

END: Final = object()
"""In a watch: the server ends it in good order. Without it the watch continues, silent."""

PLACE: Final = "place"
"""The namespace of the objects that are kept."""


class Request(NamedTuple):
    """One request, or one watch."""

    method: str
    path: str
    query: dict[str, str]

    @property
    def what(self) -> str:
        """The method, and the last part of the path."""
        return f"{self.method} {self.path.rpartition('/')[2]}"


class FakeApi:
    """An `Api`: the scripted answer of a path, otherwise what an API server does: versions, conflicts, 404.

    Args:
        answers: by path, or method and path: an object, a function of what is sent, a list of objects (of which those that are
            selected come in pages of one), a status, an error; or a deque of answers and errors, one for each request, and
            silence forever after them.
        watches: each an error that is raised at once, or lines, errors and `END`; after them a watch is silent forever.
        otherwise: the status where nothing is given or kept.

    Attributes:
        answers: as given; a test may change them.
        asked: every request and every watch, in order.
        objects: what is kept, by path.
        before: called before each request with its method and path; what it returns or raises is the answer.
        over: set when all that was given has been played.
        open: watches that are open now.
    """

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        watches: Iterable[Exception | list[Any]] = (),
        *,
        otherwise: int = 404,
    ) -> None:
        self.unread: deque[Unread] = deque()
        self.requests: list[Request] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.before: Callable[[str, str], Answer | None] = lambda method, path: None
        self.over = asyncio.Event()
        self.open = 0
        self.answers = dict(answers or {})
        self._watches = deque(watches)
        self._otherwise = otherwise
        self._version = 0

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Keep an object, as another hand would."""
        self._version += 1
        self.objects[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        return self.objects[path]

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body = None,
        content_type: str = "application/json",
        seconds: float = 10.0,
    ) -> Answer:
        """The scripted answer, or what an API server answers."""
        await asyncio.sleep(0)
        self.requests.append(Request(method, path, dict(query or {})))
        answer = self.before(method, path)
        if answer is not None:
            return answer
        for key in (f"{method} {path}", path):
            if key in self.answers:
                return await self._scripted(method, key, query or {}, body)
        return self._stored(method, path, query, body)

    @asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Play the next watch."""
        self.requests.append(Request("WATCH", path, dict(query)))
        script = self._watches.popleft() if self._watches else []
        if isinstance(script, Exception):
            raise script
        self.open += 1
        try:
            yield self._play(script)
        finally:
            self.open -= 1

    async def close(self) -> None:
        """There is no connection."""

    async def _scripted(self, method: str, key: str, query: Mapping[str, str], body: Body) -> Answer:
        answer = self.answers[key]
        if isinstance(answer, deque):
            if not answer:
                await self._silence()
            answer = answer.popleft()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Answer):
            return answer
        if isinstance(answer, int):
            return _answer(answer, {"message": f"no {key}"})
        if isinstance(answer, list | tuple):
            at, items = int(query.get("continue", "0")), [each for each in answer if _is_selected(each, query)]
            more = {"continue": str(at + 1)} if at + 1 < len(items) else {}
            return _answer(200, {"metadata": {"resourceVersion": "1", **more}, "items": items[at : at + 1]})
        made = answer(json.loads(json.dumps(body))) if callable(answer) else answer
        return _answer(201 if method == "POST" else 200, made)

    def _stored(self, method: str, path: str, query: Mapping[str, str] | None, body: Body) -> Answer:
        written = json.loads(json.dumps(body or {}))
        stored = self.objects.get(path)
        if method == "POST" and self._otherwise == 404:
            path = f"{path}/{written['metadata']['name']}"
            return _answer(409, {}) if path in self.objects else _answer(201, self.put(path, written))
        if method == "PATCH":
            # An apply of what owns no field leaves an object as it is, and makes one that is not there.
            return _answer(200, stored or self.put(path, written))
        if stored is None:
            listed = method == "GET" and query is not None and self._otherwise == 404
            return self._listed(path, query or {}) if listed else _answer(self._otherwise, {"message": f"no {path}"})
        if method == "DELETE":
            wanted = written.get("preconditions", {})
            if any(stored["metadata"].get(key) != value for key, value in wanted.items()):
                return _answer(409, {"message": "the precondition failed"})
            del self.objects[path]
            return _answer(200, stored)
        if method == "PUT":
            same = stored["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
            return _answer(200, self.put(path, written)) if same else _answer(409, {})
        return _answer(200, stored)

    def _listed(self, path: str, query: Mapping[str, str]) -> Answer:
        items = [item for key, item in self.objects.items() if key.startswith(f"{path}/") and _is_selected(item, query)]
        return _answer(200, {"metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def _play(self, script: list[Any]) -> AsyncIterator[bytes]:
        for event in script:
            if event is END:
                return
            if isinstance(event, Exception):
                raise event
            yield event
        await self._silence()

    async def _silence(self) -> None:
        if not self._watches and not any(isinstance(answer, deque) and answer for answer in self.answers.values()):
            self.over.set()
        await asyncio.Event().wait()


def reading(answers: Mapping[str, Any]) -> FakeApi:
    """An API server for readers: reading anything without a scripted answer is forbidden."""
    return FakeApi({"/version": {"gitVersion": "v1.36.3"}, **answers}, otherwise=403)


def _answer(status: int, body: dict[str, Any]) -> Answer:
    return Answer(status, json.dumps(body).encode())


_FIELDS = {"source": "source.component"}


def _is_selected(item: Any, query: Mapping[str, str]) -> bool:
    """By its selectors, as an API server selects."""
    labels = item.get("metadata", {}).get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, equal, value = term.partition("=")
        if key not in labels or (equal and labels[key] != value):
            return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        key, _, value = term.partition("=")
        field = item
        for part in _FIELDS.get(key.rstrip("!"), key.rstrip("!")).split("."):
            field = (field or {}).get(part)
        if ((field or "") == value) is key.endswith("!"):
            return False
    return True
