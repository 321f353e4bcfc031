"""The response with a review: its headers, and what becomes of the connection."""

import datetime as dt
from email.utils import parsedate_to_datetime

import pytest

from tests.server.harness import CLIENT, UID, connected, request, review, serving
from webhook.admission.decision import Decision
from webhook.reasons import Reason
from webhook.request import ClaimTemplate


async def test_headers() -> None:
    """It has its type, length and date, and nothing about the server; the connection serves the next request."""
    began = dt.datetime.now(dt.UTC).replace(microsecond=0)
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        for _ in range(2):
            answer = await connection.call(request(review()))
            assert answer.status == 200
            assert set(answer.headers) == {"content-type", "content-length", "date"}
            assert answer.headers["content-type"] == "application/json"
            assert answer.json["response"]["uid"] == UID
            assert began <= parsedate_to_datetime(answer.headers["date"]) <= dt.datetime.now(dt.UTC)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(request(review(), extra="Connection: close"), id="close"),
        pytest.param(request(review()).replace(b"HTTP/1.1", b"HTTP/1.0"), id="HTTP/1.0"),
        pytest.param(
            request(review(), extra="Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"), id="HTTP/1.0 kept"
        ),
    ],
)
async def test_end_of_the_connection(data: bytes) -> None:
    """A client that does not keep its connections, or speaks HTTP/1.0, is told of the end of this one, and it ends."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        answer = await connection.call(data)
        assert (answer.status, answer.closes) == (200, True)
        assert answer.json["response"]["uid"] == UID
        assert await connection.closed()


@pytest.mark.parametrize("dry_run", [False, True])
async def test_claims_without_a_cluster(*, dry_run: bool) -> None:
    """A pod whose template nobody creates would stay Pending: it is denied, but in a dry run, which creates nothing."""
    decision = Decision(allowed=True, reason=Reason.CHANGED, patch_json=b"[]", objects=(ClaimTemplate.of({}),))
    async with serving(decide=lambda *_: decision) as server, connected(server.addresses.mutate, CLIENT) as connection:
        response = (await connection.call(request(review(dryRun=dry_run)))).json["response"]
        assert response["allowed"] is dry_run
        assert dry_run or "VGW329" in response["status"]["message"]
