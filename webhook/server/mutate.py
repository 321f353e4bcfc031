"""``POST /mutate``: answers a review; ``POST /validate`` does with the same handler and a `decide` that judges.

A bug of the webhook is a 500 and never a denial, so that the API server's ``failurePolicy`` decides about the pod.

A review has only the name of its namespace: a `NamespaceSource` has the rest.
"""

import asyncio
import functools
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias

from aiohttp import HttpVersion11, hdrs, web
from structlog.typing import FilteringBoundLogger

from webhook.admission.decision import Context, Decision, Namespace, PodSecurityLevel, untouched
from webhook.admission.eligibility import workload
from webhook.admission.engine import denied, deny_unread
from webhook.labels import ENABLED, INJECT
from webhook.mapping.model.policy import Policy
from webhook.pod import UNDECODABLE, Pod
from webhook.reasons import Finding, Reason
from webhook.review import (
    Review,
    ReviewError,
    ReviewHead,
    UndecodableError,
    decode_review,
    encode_answer,
    namespace_of,
    read_head,
)
from webhook.server.logs import ReviewLines
from webhook.server.metrics import ReviewMetrics
from webhook.server.protocol import (
    JSON,
    RETRY_AFTER,
    STOPPING,
    BodyReading,
    HttpError,
    HttpProtocol,
    InFlight,
    Lifecycle,
    Limits,
    Phase,
    error_response,
)
from webhook.text import error_fields


class ReviewAnswer(web.StreamResponse):
    """A response 200 whose whole body is known.

    aiohttp builds headers as a multidict, for handlers that add some, and encodes them: an eighth of a review's time. The
    version, status, ``Date``, length and end of the connection are as RFC 9112 §§3-9 and RFC 9110 §6.6.1 require them.
    """

    def __init__(self, body: bytes) -> None:
        # Without that of aiohttp, which makes the multidict: nothing here has a status or headers to change.
        self._text = body
        self._sent = False
        self._persists = False

    @property
    def prepared(self) -> bool:
        """Whether it was written."""
        return self._sent

    @property
    def keep_alive(self) -> bool:
        """Whether the connection serves further requests."""
        return self._persists

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write the response, once.

        Raises:
            ConnectionError: the client has closed the connection.
        """
        if self._sent:
            return
        self._sent = True
        forced = super().keep_alive is False
        self._persists = request.keep_alive and request.version >= HttpVersion11 and not forced
        text = self._text
        await request.writer.write(_head(int(time.time()), persists=self._persists) % len(text) + text)
        # A client that sends requests and reads no responses must not fill the memory with them.
        if request.protocol.writing_paused:
            await request.writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has written everything."""
        del data


@functools.lru_cache(maxsize=2)
def _head(seconds: int, *, persists: bool) -> bytes:
    """The lines before a body, whose length is still to be filled in."""
    close = "" if persists else "Connection: close\r\n"
    date = formatdate(seconds, usegmt=True)
    return f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nDate: {date}\r\n{close}Content-Length: %d\r\n\r\n".encode()


MAX_HEAD: Final = 256 * 1024
"""The most bytes of what says what a review is about; groups of a user are the most of it."""


class LargeBodyError(Exception):
    """A body that is larger than any that is decoded.

    Attributes:
        head: its beginning.
    """

    def __init__(self, head: bytes) -> None:
        super().__init__()
        self.head = head


def arrived_body(request: web.BaseRequest, limits: Limits) -> bytes | None:
    """Return the body of a JSON request if all of it arrived together with the headers, as nearly always; otherwise None.

    Raises:
        HttpError: not JSON (415), or far too large (413).
        LargeBodyError: too large.
    """
    headers = request.headers
    media_type = headers.get(hdrs.CONTENT_TYPE, "")
    if media_type != JSON and media_type.partition(";")[0].strip().lower() != JSON:
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {JSON}")
    if hdrs.CONTENT_ENCODING in headers:
        # The API server never compresses, and a small compressed body may need much memory.
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not supported")
    content = request.content
    if not content.is_eof():
        if (request.content_length or 0) > limits.drained:
            raise body_too_large(limits)
        return None
    body = content.read_nowait()
    if len(body) > limits.body:
        raise LargeBodyError(body[:MAX_HEAD])
    return body


async def read_body(request: web.BaseRequest, limits: Limits, in_flight: InFlight) -> bytes:
    """Read a body that arrives in parts.

    Raises:
        HttpError: far too large (413), too slow (408), incomplete (400), or too many bodies at once (503).
        LargeBodyError: too large.
    """
    watch = request.protocol.watch if isinstance(request.protocol, HttpProtocol) else None
    reading = BodyReading(asyncio.timeout(limits.body_time))
    in_flight.readings[reading] = None
    if watch is not None:
        watch.reading(waits=True)
    try:
        async with reading.deadline:
            chunks = []
            while chunk := await request.content.readany():
                chunks.append(chunk)
                if reading.size + len(chunk) > limits.body:
                    head, received = b"".join(chunks)[:MAX_HEAD], reading.size + len(chunk)
                    chunks.clear()
                    in_flight.end(reading)
                    await _drain(request, received, limits)
                    raise LargeBodyError(head)
                in_flight.grow(reading, len(chunk), limits.bodies)
            return b"".join(chunks)
    except TimeoutError:
        if reading.crowded_out:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests at once", RETRY_AFTER) from None
        raise HttpError(HTTPStatus.REQUEST_TIMEOUT, f"the body took longer than {limits.body_time:g} s") from None
    except (web.RequestPayloadError, ConnectionError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is incomplete") from None
    finally:
        in_flight.end(reading)
        if watch is not None:
            watch.reading(waits=False)


async def _drain(request: web.BaseRequest, received: int, limits: Limits) -> None:
    """Receive the rest of a body that is too large: a client that is still sending misses the answer.

    Raises:
        HttpError: far too large (413).
    """
    while received <= limits.drained:
        chunk = await request.content.readany()
        if not chunk:
            return
        received += len(chunk)
    raise body_too_large(limits)


def body_too_large(limits: Limits) -> HttpError:
    """The error of a body that is too large."""
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limits.body} bytes")


Decide: TypeAlias = Callable[[Pod, Context, Policy], Decision]

MAX_LOGGED: Final = 64
"""Maximum characters of a name from a review in a log line; a uid has 36."""


@dataclass(slots=True)
class Current:
    """The policy in force. It is replaced by one assignment, and a review reads it once."""

    policy: Policy


class NotNowError(Exception):
    """A review cannot be answered now, but soon or by another replica: the API server should retry."""


class NamespaceSource(Protocol):
    """Looks up namespaces; called for every pod, so it answers from memory."""

    def lookup(self, name: str) -> Namespace | None:
        """Return a namespace, or None if it is unknown."""

    async def fetch(self, name: str) -> Namespace:
        """Request an unknown namespace.

        Raises:
            NotNowError: it is not available now.
        """


class Peers(Protocol):
    """The reasons for which a replica in a cluster has to wait, or to leave a review to other replicas."""

    def closed(self) -> str | None:
        """Why no review can be answered yet; None if reviews can be."""

    def contradicts_call(self, namespace: Namespace) -> bool:
        """Whether a call contradicts the known state of its namespace; called for every pod."""

    async def recheck(self, namespace: Namespace) -> Namespace:
        """Request such a namespace from the API server.

        Raises:
            NotNowError: there is no answer, and the known state cannot be right.
        """

    async def judge_config_map(self, namespace: str, data: Mapping[str, Any]) -> Decision | None:
        """Judge a ConfigMap, decoded from JSON, that is about to be stored; None if it contains no document."""

    def serves_image_volumes(self) -> bool:
        """Whether the cluster serves image volumes; called for every pod."""

    def behind(self, pod: Pod, namespace: Namespace, policy: Policy) -> bool:
        """Whether other replicas know keys of a pod that this one does not know yet."""

    def recent(self, namespace: Namespace, policy: Policy) -> Iterable[tuple[Namespace, Policy]]:
        """What a pod that is created now may have been changed for, here or by another replica."""

    def has(self, namespace: str, decision: Decision) -> bool:
        """Whether the objects that a changed pod needs are there; called for every pod that needs some."""

    async def provide(self, namespace: str, decision: Decision) -> Decision:
        """Create the objects that a changed pod needs; return the decision, or a denial if they cannot be."""

    def report(self, namespace: str, pod: Pod, decision: Decision, policy: Policy) -> None:
        """Report a pod that is changed or denied to whoever looks at its workload; not called for dry runs."""


_NOT_A_POD: Final = untouched(Reason.NOT_A_POD_CREATION)
_NO_TEMPLATES: Final = denied(
    Finding(
        Reason.CLAIM_REFUSED,
        "the pod's claim cannot be made: a webhook without a cluster creates no ResourceClaimTemplates",
    )
)
_FAILED: Final = ("failed", Reason.INTERNAL_ERROR.slug, "none")


@dataclass(frozen=True, slots=True)
class Mutate:
    """The handler, with everything it needs."""

    decide: Decide
    current: Current
    namespaces: NamespaceSource
    pod_security_default: PodSecurityLevel
    lifecycle: Lifecycle
    limits: Limits
    in_flight: InFlight
    metrics: ReviewMetrics
    log: FilteringBoundLogger
    lines: ReviewLines
    peers: Peers | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        in_flight = self.in_flight
        in_flight.enter()
        size = 0
        response: web.StreamResponse
        try:
            self._admit()
            try:
                body = arrived_body(request, self.limits)
                if body is None:
                    body = await read_body(request, self.limits, in_flight)
            except LargeBodyError as error:
                response = await self._refuse_large(error.head)
            else:
                size = len(body)
                in_flight.bodies += size
                self._check_count()
                response = await self.review(body)
        except HttpError as error:
            self.metrics.http_error(error.status)
            self.log.debug("http_error", status=error.status, error=error.message)
            response = error_response(error)
        finally:
            in_flight.leave(size)
        if self.lifecycle.phase is not Phase.SERVING:
            response.force_close()
        return response

    def _admit(self) -> None:
        if self.lifecycle.phase is Phase.STOPPING:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, STOPPING, RETRY_AFTER)
        closed = None if self.peers is None else self.peers.closed()
        if closed is not None:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, closed, RETRY_AFTER)

    def _check_count(self) -> None:
        # Incomplete bodies do not count: a slow client must not hold up others.
        if self.in_flight.reviews - len(self.in_flight.readings) > self.limits.reviews:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many reviews at once", RETRY_AFTER)

    async def review(self, body: bytes) -> ReviewAnswer:
        """Answer one review.

        Raises:
            HttpError: it cannot be answered.
        """
        started = time.perf_counter()
        try:
            review = decode_review(body)
        except UndecodableError as error:
            return await self.refuse(error.request, str(error), started, len(body))
        except ReviewError as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        uid = review.uid
        try:
            if review.pod is None or not review.creates_pod:
                decision = _NOT_A_POD
            else:
                name = namespace_of(review)
                namespace = self.namespaces.lookup(name)
                if namespace is None or self._contradicts_call(namespace):
                    # A decoded pod may take ten times the bytes of its body, and only those are limited while reviews wait.
                    del review
                    namespace = await self._requested(name, namespace)
                    review = decode_review(body)
                decision = self._decide(review, namespace)
                peers = self.peers
                if decision.objects and not review.dry_run and (peers is None or not peers.has(name, decision)):
                    del review
                    decision = _NO_TEMPLATES if peers is None else await peers.provide(name, decision)
                    review = decode_review(body)
                self._tell(review, namespace, decision)
            answer = encode_answer(uid, decision)
        except UNDECODABLE:  # in a part that was not needed until then
            return await self.refuse(read_head(body), "a part of the pod cannot be decoded", started, len(body))
        except Exception as error:
            raise self.failed(uid, error, started, len(body)) from error
        self.metrics.review(decision.series, seconds=time.perf_counter() - started, size=len(body))
        if decision.noted:
            self.metrics.noted(decision.noted)
        if decision.vendors or decision.would_be or not decision.allowed:
            self.metrics.in_namespace((review.namespace or "", *decision.series[:2]))
        return ReviewAnswer(answer)

    def failed(self, uid: str, error: Exception, started: float, size: int) -> HttpError:
        """Return the HTTP error for an exception in a review of `size` bytes; a bug is counted and logged."""
        if isinstance(error, ReviewError):
            return HttpError(HTTPStatus.BAD_REQUEST, str(error))
        if isinstance(error, NotNowError):
            return HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), RETRY_AFTER)
        self.metrics.review(_FAILED, seconds=time.perf_counter() - started, size=size)
        return self._bug(uid, error)

    async def refuse(self, request: ReviewHead, what: str, started: float, size: int) -> ReviewAnswer:
        """Answer a review that cannot be read: an error would be ignored, as the failure policy says.

        Args:
            request: the review without its objects.
            what: what cannot be read, and why.
            started: when it arrived.
            size: bytes of the body.
        """
        try:
            decision = await self.unread(request, what)
        except Exception as error:
            raise self.failed(request.uid, error, started, size) from error
        self.metrics.review(decision.series, seconds=time.perf_counter() - started, size=size)
        return ReviewAnswer(encode_answer(request.uid, decision))

    async def _refuse_large(self, head: bytes) -> ReviewAnswer:
        """Answer a body of which only the head was kept.

        Raises:
            HttpError: it is none of an API server.
        """
        try:
            request = read_head(head)
        except ReviewError:
            raise body_too_large(self.limits) from None
        return await self.refuse(
            request, str(body_too_large(self.limits).message), time.perf_counter(), self.limits.body
        )

    async def unread(self, request: ReviewHead, what: str) -> Decision:
        """Decide on what cannot be read: a pod is denied where one is."""
        return await self.denied_unread(request, what) if request.creates_pod else _NOT_A_POD

    async def denied_unread(self, request: ReviewHead, what: str) -> Decision:
        """Deny a pod that cannot be read, where pods are denied."""
        name = namespace_of(request)
        namespace = self.namespaces.lookup(name)
        if namespace is None or self._contradicts_call(namespace):
            namespace = await self._requested(name, namespace)
        return deny_unread(what, self.context(namespace, request.user_info.username), self.current.policy)

    def context(self, namespace: Namespace, user: str) -> Context:
        """Return the circumstances of a decision."""
        served = self.peers is None or self.peers.serves_image_volumes()
        return Context(namespace, self.pod_security_default, user, served)

    def _contradicts_call(self, namespace: Namespace) -> bool:
        return self.peers is not None and self.peers.contradicts_call(namespace)

    async def _requested(self, name: str, namespace: Namespace | None) -> Namespace:
        """Request a namespace that is unknown, or contradicts the call."""
        if namespace is None:
            namespace = await self.namespaces.fetch(name)
        if self.peers is not None and self.peers.contradicts_call(namespace):
            namespace = await self.peers.recheck(namespace)
        return namespace

    def _decide(self, review: Review, namespace: Namespace) -> Decision:
        pod, policy = review.pod, self.current.policy
        assert pod is not None  # noqa: S101  (the review creates one)
        if self.peers is not None and self.peers.behind(pod, namespace, policy):
            raise NotNowError("another replica knows keys of this pod that this one does not know yet")
        return self.decision(review, pod, namespace, policy)

    def _tell(self, review: Review, namespace: Namespace, decision: Decision) -> None:
        """Report and log a decision."""
        pod, policy = review.pod, self.current.policy
        assert pod is not None  # noqa: S101  (as above)
        if self.peers is not None and (decision.patch_json or not decision.allowed) and not review.dry_run:
            self.peers.report(namespace.name, pod, decision, policy)
        if not decision.allowed or decision.would_be or self.log.is_enabled_for(_DEBUG):
            self._log_review(review, pod, decision)

    def decision(self, review: Review, pod: Pod, namespace: Namespace, policy: Policy) -> Decision:
        """Decide on a new pod.

        Raises:
            NotNowError: the review has to be repeated.
        """
        return self.decide(pod, self.context(namespace, review.user_info.username), policy)

    def _bug(self, uid: str, error: Exception) -> HttpError:
        correlation = f"{uid[:MAX_LOGGED]}/{secrets.token_hex(4)}"
        self.metrics.bug()
        reason = Reason.INTERNAL_ERROR
        self.log.error("bug", code=reason.code, reason=reason.slug, correlation=correlation, **error_fields(error))
        return HttpError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            f"{reason.code}: an error of the webhook itself, nothing was decided; search its log for {correlation}",
        )

    def _log_review(self, review: Review, pod: Pod, decision: Decision) -> None:
        if decision.would_be:
            if self.lines.passes():
                self.log.info("review", **_fields(review, pod, decision), **_would(decision))
        elif decision.allowed:
            self.log.debug("review", **_fields(review, pod, decision))
        elif self.lines.passes():
            denial = decision.denial
            where = {} if denial is None else {"container": _cut(denial.container), "field": _cut(denial.field)}
            self.log.info("review", **_fields(review, pod, decision), **where)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_LOGGED]


_DEBUG: Final = 10


def _would(decision: Decision) -> dict[str, Any]:
    """What would become of the pod: the message of a denial, or by container the keys that would be written."""
    if "denied" in decision.audit:
        return {"would": decision.audit["denied"]}
    containers = decision.status.get("containers", {})
    return {"would": {name: each["written"] for name, each in containers.items() if "written" in each}}


def _fields(review: Review, pod: Pod, decision: Decision) -> dict[str, Any]:
    return {
        "uid": review.uid[:MAX_LOGGED],
        "namespace": (review.namespace or "")[:MAX_LOGGED],
        "workload": workload(pod, "").lstrip("/")[: 2 * MAX_LOGGED],
        "pod": (pod.metadata.name or pod.metadata.generate_name or "")[:MAX_LOGGED],
        "outcome": decision.series[0],
        "reason": decision.reason.slug,
        "code": decision.reason.code,
        "vendors": decision.vendors,
        "warnings": [finding.reason.code for finding in decision.warnings],
        "notes": [finding.reason.code for finding in decision.notes],
        "dry_run": bool(review.dry_run),
    }


@dataclass(frozen=True, slots=True)
class Described:
    """Namespaces from documents; any other counts as opted in."""

    known: Mapping[str, Namespace]
    opt_in: str = INJECT

    def lookup(self, name: str) -> Namespace:
        """Return the namespace as described, otherwise one that has opted in: its pods are sent here deliberately."""
        return self.known.get(name) or _opted_in(name, self.opt_in)

    async def fetch(self, name: str) -> Namespace:
        """Return what `lookup` returns: there is no other source."""
        return self.lookup(name)


@lru_cache(maxsize=256)
def _opted_in(name: str, opt_in: str) -> Namespace:
    return Namespace(name, {opt_in: ENABLED})
