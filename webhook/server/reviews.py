"""Answers reviews: ``POST /mutate`` decides about new pods, ``POST /validate`` judges what is about to be stored.

A bug of the webhook is a 500 and never a denial, so that the API server's ``failurePolicy`` decides about the pod.

A review has only the name of its namespace: a `NamespaceSource` has the rest.
"""

import contextlib
import functools
import itertools
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Struct, field
from structlog.typing import FilteringBoundLogger

from webhook.admission.decision import Context, Decision, Namespace, PodSecurityLevel, denied, untouched
from webhook.admission.eligibility import workload
from webhook.admission.engine import deny_unread
from webhook.admission.judge import judge_ephemeral, judge_templates, judge_update, strays
from webhook.labels import ENABLED, INJECT
from webhook.mapping.model.policy import Policy
from webhook.pod import UNDECODABLE, Pod, decode_pod, present
from webhook.reasons import Finding, Reason
from webhook.request import MIB
from webhook.review import (
    ObjectReview,
    Review,
    ReviewError,
    ReviewHead,
    UndecodableError,
    decode_object_review,
    decode_review,
    encode_answer,
    namespace_of,
    read_head,
)
from webhook.server.http import RETRY_AFTER, STOPPING, HttpError, LargeBodyError, ReviewAnswer, body_of, error_response
from webhook.server.limits import SERVING, InFlight, Lifecycle, Limits, Phase
from webhook.server.logs import ReviewLines
from webhook.server.metrics import Metrics, Series
from webhook.text import error_fields
from webhook.workloads import Kinds, known_workloads, pods_in, spots_in, workloads_of

Decide: TypeAlias = Callable[[Pod, Context, Policy], Decision]


class Current(Struct):
    """The policy in force. It is replaced by one assignment, and a review reads it once."""

    policy: Policy


class NotNowError(Exception):
    """A review cannot be answered now, but soon or by another replica: the API server should retry."""


class NamespaceSource(Protocol):
    """Looks up namespaces; called for every pod, so it answers from memory."""

    def lookup(self, name: str) -> Namespace | None:
        """Return a namespace, or None if it is unknown."""

    async def fetch(self, name: str) -> Namespace:
        """Request an unknown namespace; a `NotNowError` if it is not available now."""


class Peers(Protocol):
    """The reasons for which a replica in a cluster has to wait, or to leave a review to other replicas."""

    def closed(self) -> str | None:
        """Why no review can be answered yet; None if reviews can be."""

    def contradicts_call(self, namespace: Namespace) -> bool:
        """Whether a call contradicts the known state of its namespace; called for every pod."""

    async def recheck(self, namespace: Namespace) -> Namespace:
        """Request such a namespace from the API server; a `NotNowError` without an answer if what is known must be wrong."""

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

    def tell_owner(self, namespace: str, pod: Pod, decision: Decision, policy: Policy) -> None:
        """Tell whoever looks at the workload of a pod that it is changed or denied; not called for dry runs."""


_NO_TEMPLATES: Final = denied(
    Finding(
        Reason.CLAIM_REFUSED,
        "the pod's claim cannot be made: a webhook without a cluster creates no ResourceClaimTemplates",
    )
)


class Knowledge(Struct, frozen=True):
    """What a replica knows beside a review."""

    current: Current
    namespaces: NamespaceSource
    pod_security_default: PodSecurityLevel
    peers: Peers | None = None

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace; None if it has to be `requested`."""
        found = self.namespaces.lookup(name)
        return None if found is None or self._contradicts_call(found) else found

    async def requested(self, name: str) -> Namespace:
        """Request a namespace that is unknown, or contradicts the call; a `NotNowError` if it is not available now."""
        found = self.namespaces.lookup(name) or await self.namespaces.fetch(name)
        if self.peers is not None and self._contradicts_call(found):
            found = await self.peers.recheck(found)
        return found

    def context(self, namespace: Namespace, user: str) -> Context:
        served = self.peers is None or self.peers.serves_image_volumes()
        return Context(namespace, self.pod_security_default, user, served)

    async def context_of(self, request: ReviewHead) -> Context:
        name = namespace_of(request)
        return self.context(self.namespace(name) or await self.requested(name), request.user_info.username)

    async def provide(self, namespace: str, decision: Decision) -> Decision:
        return _NO_TEMPLATES if self.peers is None else await self.peers.provide(namespace, decision)

    def _contradicts_call(self, namespace: Namespace) -> bool:
        return self.peers is not None and self.peers.contradicts_call(namespace)


_DEBUG: Final = 10

MAX_LOGGED: Final = 64
"""Maximum characters of a name from a review in a log line; a uid has 36."""


class Journal(Struct, frozen=True):
    """Where it is written what became of new pods; metrics only where they are counted."""

    log: FilteringBoundLogger
    lines: ReviewLines
    metrics: Metrics | None = None

    def note(self, review: Review, pod: Pod, decision: Decision) -> None:
        would_be, metrics = decision.would_be, self.metrics
        if metrics is not None:
            if decision.noted:
                metrics.noted(decision.noted)
            if decision.vendors or would_be or not decision.allowed:
                outcome, reason, _ = decision.series
                metrics.in_namespace((review.namespace or "", outcome, reason))
        if decision.allowed and not would_be:
            if self.log.is_enabled_for(_DEBUG):
                self.log.debug("review", **_fields(review, pod, decision))
        elif self.lines.passes():
            more = _would(decision) if would_be else _where(decision.denial)
            self.log.info("review", **_fields(review, pod, decision), **more)


def _would(decision: Decision) -> dict[str, Any]:
    """What would become of the pod: the message of a denial, or by container the keys that would be written."""
    if "denied" in decision.audit:
        return {"would": decision.audit["denied"]}
    containers = decision.status.get("containers", {})
    return {"would": {name: each["written"] for name, each in containers.items() if "written" in each}}


def _where(denial: Finding | None) -> dict[str, Any]:
    return {} if denial is None else {"container": _cut(denial.container), "field": _cut(denial.field)}


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_LOGGED]


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


Judge: TypeAlias = Callable[[Review, Pod, Namespace, Policy], Decision]
Decided: TypeAlias = tuple[str, Decision]
"""The uid of a review, and the decision."""

_NOT_A_POD: Final = untouched(Reason.NOT_A_POD_CREATION)


async def _of_new_pod(body: bytes, known: Knowledge, judge: Judge, journal: Journal) -> Decided:
    """Decide on a review of a new pod; anything else stays as it is.

    A decoded pod may take ten times the bytes of its body, and only those are limited: none is kept while a review waits.
    """
    review = decode_review(body)
    uid, policy = review.uid, known.current.policy
    if not review.creates_pod:
        return uid, _NOT_A_POD
    name = namespace_of(review)
    namespace = known.namespace(name)
    if namespace is None:
        del review
        namespace = await known.requested(name)
        review, policy = decode_review(body), known.current.policy
    pod, peers = review.pod, known.peers
    assert pod is not None  # noqa: S101  (the review creates one)
    if peers is not None and peers.behind(pod, namespace, policy):
        raise NotNowError("another replica knows keys of this pod that this one does not know yet")
    decision = judge(review, pod, namespace, policy)
    if decision.objects and not review.dry_run and (peers is None or not peers.has(name, decision)):
        del review, pod
        decision = await known.provide(name, decision)
        review = decode_review(body)
        pod = review.pod
        assert pod is not None  # noqa: S101  (as above)
    if peers is not None and (decision.patch_json or not decision.allowed) and not review.dry_run:
        peers.tell_owner(namespace.name, pod, decision, policy)
    journal.note(review, pod, decision)
    return uid, decision


class Mutation(Struct, frozen=True):
    """Decides about new pods.

    As `Validation`, it decides on a review, or on one of which a part cannot be read, and why not. A `NotNowError` says that
    it has to be repeated.
    """

    known: Knowledge
    decide: Decide
    journal: Journal

    def decided(self, body: bytes) -> Coroutine[Any, Any, Decided]:
        """Decide on a new pod; anything else stays as it is."""
        return _of_new_pod(body, self.known, self._judge, self.journal)

    async def unread(self, request: ReviewHead, what: str) -> Decision:
        """Deny a pod that cannot be read, where pods are denied."""
        if not request.creates_pod:
            return _NOT_A_POD
        return deny_unread(what, await self.known.context_of(request), self.known.current.policy)

    def _judge(self, review: Review, pod: Pod, namespace: Namespace, policy: Policy) -> Decision:
        return self.decide(pod, self.known.context(namespace, review.user_info.username), policy)


MAX_OBJECT: Final = 2 * MIB
"""The most bytes of an object that is judged: etcd stores 1.5 MiB."""

MAX_PARTS: Final = 64 * 1024
"""The most JSON objects in it, each of which takes time and memory."""

MAX_TEMPLATES: Final = 32
"""The most templates of a workload that are judged."""

MAX_CONTAINERS: Final = 256
"""The most containers of all of them."""

EPHEMERAL: Final = "ephemeralcontainers"

_OF_PODS: Final = frozenset({"", EPHEMERAL, "status"})
"""What of a pod can be updated so that it is judged: itself, and its subresources."""

known_workloads()  # read once, before there is a loop that would wait for the file

DOUBT: Final = 2.0
"""Seconds within which all replicas know of a change, and for which none of them denies a pod for good."""

MAX_DOUBTS: Final = 4096
"""Reviews that are remembered meanwhile."""


class Doubts(Struct, frozen=True):
    """The reviews that this replica would deny: the API server repeats a call that is answered with 503, with the same UID."""

    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = {}

    def over(self, uid: str, seconds: float) -> bool:
        """Whether a review was first seen so many seconds ago."""
        if uid not in self._since and len(self._since) >= MAX_DOUBTS:
            del self._since[next(iter(self._since))]
        return self.clock() - self._since.setdefault(uid, self.clock()) >= seconds


class Validation(Struct, frozen=True):
    """Judges what is about to be stored: new pods with `decide`, everything else here."""

    known: Knowledge
    decide: Decide
    journal: Journal
    doubts: Doubts = field(default_factory=Doubts)

    async def decided(self, body: bytes) -> Decided:
        """Judge any object."""
        change = decode_object_review(body)
        if change.creates_pod:
            return await _of_new_pod(body, self.known, self._judge, self.journal)
        return change.uid, await (self._of_pod(change) if _is_of_pod(change) else self._of_other(change))

    async def unread(self, request: ReviewHead, what: str) -> Decision:
        """Decide on what cannot be read: pods are denied, for they may have devices; nothing else is held up."""
        if not _is_of_pod(request):
            return _NOT_A_POD
        return deny_unread(what, await self.known.context_of(request), self.known.current.policy)

    def _judge(self, review: Review, pod: Pod, namespace: Namespace, policy: Policy) -> Decision:
        """Judge a new pod: allowed if it is right for what is known now, or was until a moment ago.

        It may have been changed before that, or by a replica that knows another policy or other labels of the namespace: so
        the API server is asked to repeat the call, at another replica, before a denial is final.
        """
        user = review.user_info.username
        decision = self.decide(pod, self.known.context(namespace, user), policy)
        if decision.allowed or self.known.peers is None:
            return decision
        for was, former in self.known.peers.recent(namespace, policy):
            before = self.decide(pod, self.known.context(was, user), former)
            if before.allowed:
                return before
        # Whoever has set a short time limit gets the denial at once, and not the end of the time.
        if not self.doubts.over(review.uid, min(DOUBT, max(0, policy.settings.timeout_seconds - DOUBT))):
            text = "" if decision.denial is None else decision.denial.text
            raise NotNowError(f"other replicas may know what this one does not: {text}")
        return decision

    async def _of_other(self, change: ObjectReview) -> Decision:
        data = _decoded(change.object)
        if data is None or change.sub_resource:
            return _NOT_A_POD
        if (change.kind.group, change.kind.kind) == ("", "ConfigMap"):
            peers = self.known.peers
            judged = None if peers is None else await peers.judge_config_map(namespace_of(change), data)
            return judged or _NOT_A_POD
        context = await self.known.context_of(change)
        policy = self.known.current.policy
        kinds = workloads_of(policy.settings)
        spots = list(itertools.islice(spots_in(data, change.kind.group, change.kind.kind, kinds), MAX_TEMPLATES))
        found = [each.finding for each in strays(data, spots, policy)]
        return judge_templates(_templates(data, change, kinds), context, policy, found)

    async def _of_pod(self, change: ObjectReview) -> Decision:
        old, new = change.old_object, change.object
        if not present(new):
            return _NOT_A_POD
        if _is_too_much(old) or _is_too_much(new):
            return await self.unread(change, "the update of the pod has more than can be judged")
        context = await self.known.context_of(change)
        policy = self.known.current.policy
        before, after = decode_pod(old), decode_pod(new)
        if change.sub_resource != EPHEMERAL:
            return judge_update(before, after, context, policy)
        return judge_ephemeral(before, after, context, policy)


def _is_of_pod(request: ReviewHead) -> bool:
    """Whether it is about a pod, in a way in which pods are judged."""
    kind = request.kind
    return (kind.group, kind.kind) == ("", "Pod") and (request.sub_resource or "") in _OF_PODS


def _is_too_much(encoded: msgspec.Raw) -> bool:
    """Whether an object is larger than any that is stored, or has more parts than any honest one."""
    return memoryview(encoded).nbytes > MAX_OBJECT or bytes(encoded).count(b"{") > MAX_PARTS


def _decoded(encoded: msgspec.Raw) -> dict[str, Any] | None:
    """An object of a review; None if there is none, or it is too much."""
    if not present(encoded) or _is_too_much(encoded):
        return None
    data = msgspec.json.decode(encoded)
    return data if isinstance(data, dict) else None


def _templates(data: dict[str, Any], change: ObjectReview, kinds: Kinds) -> Iterator[tuple[str, Pod]]:
    """The pods of a workload; each with its path if there are several."""
    found = list(itertools.islice(pods_in(data, change.kind.group, change.kind.kind, kinds), MAX_TEMPLATES))
    left = MAX_CONTAINERS
    for path, pod in found:
        # What the kind's own schema lets through, and no pod can have, is its controller's problem.
        with contextlib.suppress(*UNDECODABLE):
            decoded = decode_pod(msgspec.json.encode(pod))
            left -= len(decoded.spec.containers)
            if left < 0:
                return
            yield ".".join(map(str, path)) if len(found) > 1 else "", decoded


_FAILED: Final = ("failed", Reason.INTERNAL_ERROR.slug, "none")


Count: TypeAlias = Callable[[Series, float, int], None]
"""Counts a review of one endpoint: its outcome, seconds, and bytes."""


class Reviews(Struct, frozen=True):
    """The handler of one endpoint."""

    kind: Mutation | Validation
    lifecycle: Lifecycle
    limits: Limits
    in_flight: InFlight
    metrics: Metrics
    count: Count
    log: FilteringBoundLogger

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        in_flight = self.in_flight
        in_flight.reviews += 1
        size = 0
        response: web.StreamResponse
        try:
            self._admit()
            try:
                body = await body_of(request, self.limits, in_flight)
                size = len(body)
                response = await self.review(body)
            except LargeBodyError as error:
                response = await self.review(error.head, error)
        except HttpError as error:
            self.metrics.http_error(error.status)
            self.log.debug("http_error", status=error.status, error=error.message)
            response = error_response(error)
        finally:
            in_flight.reviews -= 1
            in_flight.bodies -= size
        if self.lifecycle.phase is not SERVING:
            response.force_close()
        return response

    def _admit(self) -> None:
        peers = self.kind.known.peers
        closed = None if peers is None else peers.closed()
        if self.lifecycle.phase is not SERVING and self.lifecycle.phase is Phase.STOPPING:
            closed = STOPPING
        if closed is not None:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, closed, RETRY_AFTER)

    async def review(self, body: bytes, too_large: LargeBodyError | None = None) -> ReviewAnswer:
        """Answer one review, or one that is too large, of which `body` is the beginning."""
        started = time.perf_counter()
        try:
            answer, decision = await self._decided(body, too_large)
        except ReviewError as error:
            raise too_large or HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        except NotNowError as error:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), RETRY_AFTER) from error
        except Exception as error:
            self.count(_FAILED, time.perf_counter() - started, len(body))
            raise self._bug(body, error) from error
        self.count(decision.series, time.perf_counter() - started, len(body))
        return ReviewAnswer(answer)

    async def _decided(self, body: bytes, too_large: LargeBodyError | None) -> tuple[bytes, Decision]:
        """Decide on a review, also on one that cannot be read: the failure policy may have an error ignored."""
        try:
            if too_large is None:
                uid, decision = await self.kind.decided(body)
                return encode_answer(uid, decision), decision
            head, what = read_head(body), too_large.message
        except UndecodableError as error:
            head, what = error.request, str(error)
        except UNDECODABLE:  # in a part that was not needed until then
            head, what = read_head(body), "a part of the object cannot be decoded"
        decision = await self.kind.unread(head, what)
        return encode_answer(head.uid, decision), decision

    def _bug(self, body: bytes, error: Exception) -> HttpError:
        correlation = f"{read_head(body).uid[:MAX_LOGGED]}/{secrets.token_hex(4)}"
        self.metrics.bug()
        reason = Reason.INTERNAL_ERROR
        self.log.error("bug", code=reason.code, reason=reason.slug, correlation=correlation, **error_fields(error))
        return HttpError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            f"{reason.code}: an error of the webhook itself, nothing was decided; search its log for {correlation}",
        )


class Described(Struct, frozen=True):
    """Namespaces from documents; any other counts as opted in."""

    known: Mapping[str, Namespace]
    opt_in: str = INJECT

    def lookup(self, name: str) -> Namespace:
        """Return the namespace as described, otherwise one that has opted in: its pods are sent here deliberately."""
        return self.known.get(name) or _opted_in(name, self.opt_in)

    async def fetch(self, name: str) -> Namespace:
        return self.lookup(name)


@functools.lru_cache(maxsize=256)
def _opted_in(name: str, opt_in: str) -> Namespace:
    return Namespace(name, {opt_in: ENABLED})
