"""How many reviews are taken on at once, and what those beyond get."""

import json

from tests.server.harness import CLIENT, call, connected, get, request, review, serving, until
from webhook.server.limits import Limits


async def test_too_many_reviews() -> None:
    """Beyond the cap a review is refused so that the API server repeats it elsewhere; when there is room it is taken."""
    body = review()
    async with serving(Limits(reviews=2)) as server:
        async with (
            connected(server.addresses.mutate, CLIENT) as one,
            connected(server.addresses.mutate, CLIENT) as two,
        ):
            for connection in (one, two):
                await connection.send(request(body[:10], length=len(body)))
            await until(lambda: server.service.in_flight.reviews == 2)
            assert b"vgpu_webhook_in_flight 2.0" in (await get(server, "/metrics")).body
            answer = await call(server, request(body))
            assert (answer.status, answer.headers["retry-after"], answer.closes) == (503, "1", True)
            assert answer.json["reason"] == "ServiceUnavailable"
            for connection in (one, two):
                assert (await connection.call(body[10:])).status == 200
        assert (await call(server, request(body))).status == 200
        metrics = (await get(server, "/metrics")).body
    assert b'vgpu_webhook_refused_total{status="503"} 1.0' in metrics
    assert b"vgpu_webhook_in_flight 0.0" in metrics


async def test_too_many_bytes() -> None:
    """Bodies that are still coming count with what they announce, one without a length with the most it may have."""
    head = "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(Limits(body=1000, bodies=1500)) as server:
        async with connected(server.addresses.mutate, CLIENT) as slow:
            await slow.send(head.encode())
            await until(lambda: server.service.in_flight.bodies == 1000)
            async with connected(server.addresses.mutate, CLIENT) as second:
                await second.send(request(length=501))
                answer = await second.answer()
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert (await call(server, request(review()))).status == 200
        await until(lambda: server.service.in_flight.bodies == 0)


async def test_pipelined_requests_are_answered_in_order() -> None:
    """Requests that were sent without waiting are all answered, one after the other."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        await connection.send(b"".join(request(review(uid=f"uid-{number}")) for number in range(50)))
        for number in range(50):
            assert json.loads((await connection.answer()).body)["response"]["uid"] == f"uid-{number}"
