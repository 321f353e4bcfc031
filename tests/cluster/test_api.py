"""The values and errors that the other modules of the package speak in."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from webhook.cluster.client import Answer, StatusError, why
from webhook.cluster.connection import in_cluster_namespace
from webhook.pod import UNDECODABLE


def test_accepted() -> None:
    """A success returns its body; anything else raises an error with the server's message."""
    assert Answer(200, b"{}").accepted() == b"{}"
    assert Answer(201, b"").accepted() == b""
    body = b'{"kind":"Status","code":409,"reason":"Conflict","message":"changed","details":{"retryAfterSeconds":2}}'
    with pytest.raises(StatusError) as raised:
        Answer(409, body).accepted()
    error = raised.value
    assert (error.status, error.reason, error.message, error.retry_after) == (409, "Conflict", "changed", 2)
    assert str(error) == "409 Conflict: changed"


@pytest.mark.parametrize(
    "body", [b"", b"<html>" + b"x" * 10_000, b"\xff\xfe", b"[]", b'{"details": null, "message": "no"}']
)
def test_a_refusal_of_somebody_else(body: bytes) -> None:
    """A body that is no Status is reported too, but not all of it."""
    with pytest.raises(StatusError) as raised:
        Answer(302, body, 3.0).accepted()
    assert raised.value.status == 302
    assert raised.value.retry_after == 3.0
    assert len(raised.value.message) <= 256


@pytest.mark.parametrize(
    "body, reason",
    [
        (b'{"name": ', "invalid JSON"),
        (b'{"name": "\xff"}', "invalid UTF-8"),
        (b'{"name": "", "more": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"name": 1}', "Expected `str`, got `int` - at `$.name`"),
    ],
)
def test_why_something_cannot_be_decoded(body: bytes, reason: str) -> None:
    """In words of our own, or the decoder's where they name the place."""
    with pytest.raises(UNDECODABLE) as raised:
        msgspec.json.decode(body, type=Named)
    assert why(raised.value) == reason


class Named(msgspec.Struct):
    """An object with a name."""

    name: str
    more: Any = None


def test_namespace_of_the_pod(tmp_path: Path) -> None:
    """In a pod it stands in a file; outside there is none."""
    assert in_cluster_namespace(tmp_path) is None
    (tmp_path / "namespace").write_text("")
    assert in_cluster_namespace(tmp_path) is None
    (tmp_path / "namespace").write_text("gpu-system\n")
    assert in_cluster_namespace(tmp_path) == "gpu-system"
