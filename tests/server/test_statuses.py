"""Every status that the server can answer with, and when; what else is in an answer, and what becomes of the connection."""

import base64
import datetime as dt
import json
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from msgspec.structs import replace

from tests.naming import naming
from tests.server.harness import CLIENT, UID, Server, call, connected, get, pod, request, review, serving
from webhook.admission.decision import Decision
from webhook.mapping.load import load_policy
from webhook.reasons import Reason
from webhook.request import ClaimTemplate
from webhook.server.limits import Limits

REAL = load_policy()  # which reads files: not while a loop runs
SMALL = Limits(body=20_000, drained=40_000, bodies=50_000)
SECRET = "hunter2-do-not-tell"


@pytest.mark.parametrize(
    "data, status, reason",
    [
        pytest.param(request(b""), 400, "BadRequest", id="no body"),
        pytest.param(request(b"{"), 400, "BadRequest", id="no JSON"),
        pytest.param(request(b"[" * 19_000), 400, "BadRequest", id="deep nesting"),
        pytest.param(request(review()[:-1] + b"\xff"), 400, "BadRequest", id="no UTF-8"),
        pytest.param(request(b"x" * 20_001), 413, "RequestEntityTooLarge", id="too large"),
        pytest.param(request(b"x", length=40_001), 413, "RequestEntityTooLarge", id="announced too large"),
        pytest.param(request(b"x" * 19_999 + b"}"), 400, "BadRequest", id="as large as may be"),
        pytest.param(request(review(), content_type=None), 415, "UnsupportedMediaType", id="no content type"),
        pytest.param(request(review(), content_type="text/plain"), 415, "UnsupportedMediaType", id="text"),
        pytest.param(
            request(review(), content_type="application/jsonx"), 415, "UnsupportedMediaType", id="nearly JSON"
        ),
        pytest.param(request(review(), extra="Content-Encoding: gzip"), 415, "UnsupportedMediaType", id="compressed"),
        pytest.param(request(review(), path="/"), 404, "NotFound", id="root"),
        pytest.param(request(review(), path="/mutate/"), 404, "NotFound", id="trailing slash"),
        pytest.param(request(review(), path="/%00%0a"), 404, "NotFound", id="strange path"),
        pytest.param(request(review(), path="/metrics"), 404, "NotFound", id="metrics are not here"),
        pytest.param(request(method="GET"), 405, "MethodNotAllowed", id="GET"),
        pytest.param(request(review(), method="PUT"), 405, "MethodNotAllowed", id="PUT"),
        pytest.param(request(review(), method="STRANGE"), 400, "BadRequest", id="strange method"),
        pytest.param(request(review(obj=pod("bug"))), 500, "InternalError", id="a bug of ours"),
    ],
)
async def test_refusals(data: bytes, status: int, reason: str) -> None:
    """Each refusal has its status, and a body that Kubernetes' clients can read."""
    async with serving(SMALL) as server:
        answer = await call(server, data)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    body = answer.json
    assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
    assert (body["code"], body["reason"]) == (status, reason)
    assert body["message"]
    assert "retry-after" not in answer.headers


def envelope(**members: Any) -> bytes:
    """A review with other members beside its request, or in place of it."""
    return json.dumps({**json.loads(review()), **members}).encode()


NO_REVIEW = [
    *(b"", b"null", b"[]", b'"AdmissionReview"', b"{", b"{}", b"\xff\xfe", b'{"kind":"Pod"}'),
    *(b"[" * 1_000_000, b'{"request":' * 100_000, review() + b"}"),
    *(envelope(apiVersion="admission.k8s.io/v1beta1"), envelope(kind="ConversionReview"), envelope(kind=None)),
    *(envelope(request=None), envelope(request=[SECRET]), envelope(request={})),
    *(review(uid=""), review(uid=7), review(kind="Pod"), review(operation={SECRET: SECRET})),
    review(userInfo={"username": "@"}).replace(b"@", b"\xff"),
    review(namespace="@").replace(b"@", rb"\ud800"),
    *(review(pod("@")).replace(b'"@"', each) for each in (b"NaN", b"-", b"01", rb'"\ud800"', rb'"\udc00 and more"')),
]


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_what_is_no_review(path: str) -> None:
    """What is no AdmissionReview v1 gets a 400, and is not quoted: `failurePolicy` decides."""
    async with serving() as server:
        for body in NO_REVIEW:
            with naming(body[:200]):
                answer = await call(server, request(body, path=path))
                assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
                assert SECRET not in answer.body.decode()


def limited(number: Any) -> Any:
    """A pod with a limit."""
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": number}}}]}}


OTHERS: list[Any] = [None, [], SECRET, {"metadata": SECRET}, limited([SECRET])]
NO_POD = [
    *(review(object=obj) for obj in OTHERS),
    *(review({"spec": {"containers": found}}) for found in ({"name": SECRET}, [None], [{"name": 7}])),
    review({"spec": {"containers": [{"securityContext": {"privileged": SECRET}}]}}),
    *(review(limited("@")).replace(b'"@"', each) for each in (b"1e999", b"9" * 5000)),
    review(pod("@")).replace(b"@", b"\xff"),
]


async def test_what_is_no_pod() -> None:
    """What Python or a pod cannot hold is denied by its field, and its values are not quoted."""
    async with serving(policy=REAL) as server:
        for body in NO_POD:
            with naming(body[:400]):
                answer = await call(server, request(body))
                assert answer.json["response"]["status"]["message"].startswith("VGW318: the pod cannot be decoded: ")
                assert SECRET not in answer.body.decode()


@pytest.mark.parametrize(
    "data", [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", request(extra="Bad Header: x"), b"x" * 20_000]
)
async def test_what_is_no_http(data: bytes) -> None:
    """Bytes that are no HTTP/1.1 get a 400 and the end of the connection."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        answer = await connection.call(data)
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
        assert data.decode("latin-1") not in answer.body.decode()
        assert await connection.closed()


@pytest.mark.parametrize(
    "data",
    [
        request(review()),
        *(request(review(subResource=none)) for none in (None, "")),
        request(review(), path="/mutate?timeout=10s"),
        request(review(), content_type="Application/JSON; charset=utf-8"),
        request(review(), extra="Expect: the-unexpected"),
        request(review(), extra="Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQ"),
    ],
)
async def test_review_is_answered(data: bytes) -> None:
    """A review gets an answer with its uid, patch, warnings and audit annotations, and the connection stays."""
    async with serving() as server:
        answer = await call(server, data)
    assert answer.status == 200
    assert not answer.closes
    response = answer.json["response"]
    patch = json.loads(base64.b64decode(response.pop("patch")))
    assert patch == [{"op": "add", "path": "/metadata/labels", "value": {"user": "alice"}}]
    assert response == {
        "uid": UID,
        "allowed": True,
        "patchType": "JSONPatch",
        "warnings": ["VGW101: filled"],
        "auditAnnotations": {"reason": "changed"},
    }


async def test_denial_is_an_answer() -> None:
    """A denial is an answered review."""
    async with serving() as server:
        answer = await call(server, request(review(obj=pod("deny"))))
    assert answer.status == 200
    assert answer.json["response"]["allowed"] is False
    assert answer.json["response"]["status"]["code"] == 403


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None, "oldObject": pod()},
        {"operation": "CONNECT", "subResource": "exec", "object": {"command": "sh"}},
        {"subResource": "binding", "kind": {"group": "", "version": "v1", "kind": "Binding"}},
        {"subResource": "ephemeralcontainers"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "object": {"spec": 3}},
        {"kind": {"group": "example.com", "version": "v1", "kind": "Pod"}},
        {"kind": {"group": "", "version": "v2", "kind": "Pod"}},
        {"kind": {"kind": "Thing"}, "object": {"spec": "no pod at all", "metadata": 3}},
        {"operation": "UPDATE", "object": {"spec": {"containers": 7}}},
    ],
)
async def test_anything_else_is_allowed_untouched(fields: dict[str, Any]) -> None:
    """A well-formed review of something else passes, whatever its object is."""
    async with serving() as server:
        answer = await call(server, request(review(**fields)))
    assert answer.status == 200
    assert answer.json["response"] == {"uid": UID, "allowed": True}


async def test_chunked_body_is_read() -> None:
    """A body without a length is taken, too, and bounded as well."""
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = review()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:100], body[100:])) + b"0\r\n\r\n"
    async with serving(SMALL) as server:
        assert (await call(server, head + chunks)).status == 200
        assert (await call(server, head + b"ffff\r\n" + b"x" * 0xFFFF)).status == 413
        assert (await call(server, head + b"nonsense\r\n")).status == 400


@pytest.mark.parametrize("spaces, status", [(1 << 19, 200), (2 << 20, 413)])
async def test_the_rest_of_a_large_body_is_received(spaces: int, status: int) -> None:
    """Up to a bound, for its sender reads the answer afterwards: a denial; beyond that, an error."""
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = review(pod()) + b" " * spaces
    async with serving(replace(SMALL, drained=1 << 20), policy=REAL) as server:
        answer = await call(server, head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    assert answer.status == status


async def test_body_that_breaks_off_is_nobodys_bug() -> None:
    """A client that goes away in the middle of its body leaves nothing behind."""
    async with serving() as server:
        async with connected(server.addresses.mutate, CLIENT) as connection:
            await connection.send(request(b"{", length=1000))
        answer = await get(server, "/metrics")
        assert b"vgpu_webhook_bugs_total 0.0" in answer.body
        assert server.service.in_flight.bodies == 0


async def test_expectation_is_met() -> None:
    """A client that expects `100-continue` gets it before it sends its body."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        body = review()
        await connection.send(request(length=len(body), extra="Expect: 100-continue"))
        assert (await connection.answer()).status == 100
        assert (await connection.call(body)).status == 200


async def test_part_of_a_pod_that_is_decoded_late() -> None:
    """What turns out to be no pod only when it is needed is denied as well."""
    import msgspec

    def decide(*_: Any) -> Any:
        return msgspec.json.decode(b"[1]", type=list[str])

    async with serving(decide=decide, policy=REAL) as server:
        answer = await call(server, request(review()))
        assert (answer.status, answer.json["response"]["allowed"]) == (200, False)
        assert not [line for line in server.log if line["level"] == "error"]


async def test_bug_is_reported_without_what_caused_it() -> None:
    """A bug is a 500 that can be found in the log, and neither quotes what was in the pod."""
    async with serving() as server:
        answer = await call(server, request(review(obj=pod("bug"))))
        (line,) = [line for line in server.log if line["event"] == "bug"]
        metrics = (await get(server, "/metrics")).body
    assert answer.status == 500
    assert "allowed" not in answer.json
    assert line["correlation"].startswith(UID)
    assert line["correlation"] in answer.json["message"]
    assert (line["level"], line["code"], line["error"]) == ("error", "VGW901", "KeyError")
    assert "engine" in line["traceback"][-1]
    assert "s3cr3t" not in json.dumps([answer.json, line])
    assert b"vgpu_webhook_bugs_total 1.0" in metrics


@pytest.mark.parametrize(
    "path, method, status",
    [
        ("/healthz", "GET", 200),
        ("/readyz", "GET", 200),
        ("/metrics", "GET", 200),
        ("/", "GET", 404),
        ("/mutate", "POST", 404),
        ("/healthz", "POST", 405),
        ("/readyz", "PUT", 405),
        ("/metrics", "DELETE", 405),
    ],
)
async def test_plain_endpoint(path: str, method: str, status: int) -> None:
    """The plain port answers GET on its three paths, and nothing else."""
    async with serving() as server:
        answer = await get(server, path, method)
    assert answer.status == status
    if status == 405:
        assert answer.headers["allow"] == "GET"


async def test_one_connection_takes_all_kinds_of_requests() -> None:
    """A refused request whose body was read leaves the connection usable."""
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        for data, status in [
            (request(b"{"), 400),
            (request(review()), 200),
            (request(review(), path="/nowhere"), 404),
            (request(review(), content_type="text/plain"), 415),
            (request(review(obj=pod("bug"))), 500),
            (request(review()), 200),
        ]:
            answer = await connection.call(data)
            assert answer.status == status
            assert not answer.closes


def test_plain_http_is_not_answered_on_the_tls_port() -> None:
    """Nothing is served without TLS where reviews are."""
    import asyncio

    async def attempt(server: Server) -> bool:
        async with connected(server.addresses.mutate) as connection:
            await connection.send(request(review()))
            return await connection.closed()

    async def main() -> None:
        async with serving() as server:
            assert await attempt(server)

    asyncio.run(main())


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
