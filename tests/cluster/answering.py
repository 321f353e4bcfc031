"""An API server that has an answer for each path, for what only reads."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from webhook.cluster.client.api import Answer


class Answering:
    """An `Api` with an answer for each path: an object, a list of objects, a status or an error; 403 for others."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = {"/version": {"gitVersion": "v1.36.3"}, **answers}
        self.asked: list[tuple[str, str, dict[str, str]]] = []

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
        """The answer for the path; lists come in pages of one."""
        self.asked.append((method, path, dict(query or {})))
        answer = self.answers.get(path, 403)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return Answer(answer, json.dumps({"message": f"no {path}"}).encode())
        if isinstance(answer, list):
            at = int((query or {}).get("continue", "0"))
            more = {"continue": str(at + 1)} if at + 1 < len(answer) else {}
            return Answer(200, json.dumps({"metadata": more, "items": answer[at : at + 1]}).encode())
        return Answer(201 if method == "POST" else 200, json.dumps(answer).encode())

    @asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Nobody watches here."""
        raise AssertionError
        yield

    async def close(self) -> None:
        """Nothing is kept."""
