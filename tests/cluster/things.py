"""Lists and watches of things, as scripts of a `FakeApi` are made of them."""

import json
from typing import Any, Final

from webhook.cluster.client import Answer

LIST_PATH: Final = "/api/v1/things"


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


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
