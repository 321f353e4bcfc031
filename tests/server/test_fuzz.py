"""Whatever is sent, the answer is a documented one, and the server lives."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.harness import CLIENT, Answer, Connection, Server, call, connected, request, review, serving
from tests.waiting import Later, running_ahead, turns
from tests.yaml_text import load_yaml
from webhook.admission import decide
from webhook.admission.decision import Context, Decision
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod
from webhook.server.limits import Limits

DOCUMENTED = {200, 400, 404, 405, 408, 413, 415, 503}
"""Every status but 500, which would be a bug."""

CONTINUE = 100
LIMITS = Limits(body=300_000)
REAL = load_policy()


def engine(pod: Pod, context: Context, policy: Policy) -> Decision:
    """Decide for real, by the built-in mappings."""
    del policy
    return decide(pod, context, REAL)


def answers_to(*requests: bytes) -> list[list[Answer]]:
    """Send each of the requests over a connection of its own, and give what came back; the server has to live on."""

    async def read(connection: Connection, data: bytes, found: list[Answer]) -> None:
        with contextlib.suppress(EOFError, ConnectionError):
            await connection.send(data)
            while True:
                found.append(await connection.answer())

    async def answers(server: Server, later: Later, data: bytes) -> list[Answer]:
        found: list[Answer] = []
        async with connected(server.addresses.mutate, CLIENT) as connection:
            reading = asyncio.create_task(read(connection, data, found))
            await turns()
            while not reading.done() and (not found or found[-1].status == CONTINUE):
                await later(1)
            reading.cancel()
            await asyncio.wait({reading})
        return found

    async def main() -> list[list[Answer]]:
        later = running_ahead()
        async with serving(LIMITS, decide=engine, policy=REAL) as server:
            found = [await answers(server, later, data) for data in requests]
            assert (await call(server, request(review()))).status == 200
            assert not [line for line in server.log if line["event"] in {"bug", "library"}]
            return found

    return asyncio.run(main())


def check(found: list[list[Answer]]) -> None:
    """Check what came back."""
    for answers in found:
        for answer in answers:
            if answer.status == CONTINUE:
                continue
            assert answer.status in DOCUMENTED
            assert answer.headers["content-type"] == "application/json"
            if answer.status == 200:
                assert set(answer.json["response"]) >= {"uid", "allowed"}
            else:
                assert answer.json["code"] == answer.status


GPU_POD = load_yaml(Path(__file__).with_name("gpu-pod.yaml").read_text())
FUZZ = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@FUZZ
@given(st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=4)), min_size=1, max_size=10))
def test_damaged_reviews(damages: list[tuple[int, bytes]]) -> None:
    """A review with some of its bytes overwritten: bad UTF-8, broken escapes, numbers that are none."""
    body = review(obj=GPU_POD)
    check(answers_to(*(request(body[:at] + junk + body[at + len(junk) :]) for at, junk in damages)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["object", "uid", "kind", "operation", "subResource", "namespace", "userInfo", "dryRun"]


@FUZZ
@given(st.lists(st.tuples(st.sampled_from(FIELDS), JSON), min_size=1, max_size=10))
def test_any_value_in_any_field(fields: list[tuple[str, Any]]) -> None:
    """Reviews with one field replaced by anything, and what remains of them when it is all there is."""
    check(answers_to(*(request(review(**{field: value})) for field, value in fields)))
    check(answers_to(*(request(json.dumps(value).encode()) for _, value in fields)))


@FUZZ
@given(
    st.lists(
        st.builds(
            lambda start, lines, rest: start + b"\r\n".join(lines) + b"\r\n\r\n" + rest,
            st.sampled_from([b"", b"POST /mutate HTTP/1.1\r\n", b"GET /%ff HTTP/1.0\r\n", b"OPTIONS * HTTP/1.1\r\n"])
            | st.binary(max_size=40),
            st.lists(
                st.sampled_from(
                    [
                        b"Host: x",
                        b"Content-Type: application/json",
                        b"Content-Length: 3",
                        b"Content-Length: -1",
                        b"Content-Length: 99999999999999999999",
                        b"Transfer-Encoding: chunked",
                        b"Transfer-Encoding: gzip, chunked",
                        b"Connection: close",
                        b"Connection: Upgrade",
                        b"Upgrade: websocket",
                        b"Expect: 100-continue",
                        b"Expect: \xff",
                        b"Content-Encoding: gzip",
                        b"Content-Type: \xff",
                        b"Sec-WebSocket-Key1: x",
                    ]
                )
                | st.binary(max_size=30),
                max_size=6,
            ),
            st.binary(max_size=30) | st.sampled_from([b"3\r\nabc\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n", b"{}x" * 3]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_random_http(requests: list[bytes]) -> None:
    """Anything that resembles HTTP more or less is answered, or dropped in time."""
    check(answers_to(*requests))


def test_extremes() -> None:
    """The shapes that break decoders: depth, length, digits, surrogates, doubled keys."""
    body = review(obj=GPU_POD).decode()
    shapes = [
        "[" * 150_000,
        '{"a":' * 50_000,
        '{"request":' * 20_000,
        body.replace('"1"', "9" * 200_000, 1),
        body.replace('"1"', "1e" + "9" * 1000, 1),
        body.replace('"1"', "[" * 100_000, 1),
        body.replace('"env": [', '"env": [' + "[" * 800 + "]" * 800 + ",", 1),
        body.replace('"value": "/a::/b"', r'"value": "\ud800"', 1),
        body.replace('"/a::/b"', '"' + "/a:" * 90_000 + '"', 1),
        body.replace('"name": "c"', '"name": "c", "name": "d"', 1),
        body.replace('"cpu": "1"', ",".join(f'"nvidia.com/g{number}": "1"' for number in range(10_000)), 1),
        body.replace('"a": "b"', ",".join(f'"{number}": "b"' for number in range(15_000)), 1),
        body.replace('"name": "d"', '"name": "' + "d" * 250_000 + '"', 1),
        body.replace(
            '"containers": [', '"containers": [' + '{"resources": {"limits": {"nvidia.com/gpu": "1"}}},' * 5000, 1
        ),
    ]
    assert body not in shapes, "something is no longer in the body that is to be replaced"
    found = answers_to(*(request(shape.encode()) for shape in shapes))
    check(found)
    assert [len(answers) for answers in found] == [1] * len(shapes)
