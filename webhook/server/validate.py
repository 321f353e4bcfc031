"""``POST /validate``: what is about to be stored. New pods go the way of ``/mutate`` with a `decide` that judges."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec

from webhook.admission.decision import Decision, Namespace, untouched
from webhook.admission.ephemeral import judge_ephemeral
from webhook.admission.judge import judge_templates, judge_update
from webhook.admission.stray import MOST, strays
from webhook.mapping.model.policy import Policy
from webhook.pod import UNDECODABLE, Pod, decode_ephemeral, decode_pod, present
from webhook.quantity import MIB
from webhook.reasons import Reason
from webhook.review import (
    ObjectReview,
    Review,
    ReviewError,
    ReviewHead,
    UndecodableError,
    decode_object_review,
    encode_answer,
    namespace_of,
)
from webhook.server.mutate import Mutate, NotNowError, ReviewAnswer
from webhook.server.protocol import HttpError
from webhook.workloads import Kinds, known_workloads, pods_in, spots_in, workloads_of

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

_NOTHING_TO_JUDGE: Final = untouched(Reason.NOT_A_POD_CREATION)

_TOO_MUCH: Final = "the update of the pod has more than can be judged"

DOUBT: Final = 2.0
"""Seconds within which all replicas know of a change, and for which none of them denies a pod for good."""

MAX_DOUBTS: Final = 4096
"""Reviews that are remembered meanwhile."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """The reviews that this replica would deny: the API server repeats a call that is answered with 503, with the same UID.

    Attributes:
        clock: monotonic seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)

    def over(self, uid: str, seconds: float) -> bool:
        """Whether a review was first seen so many seconds ago."""
        if uid not in self._since and len(self._since) >= MAX_DOUBTS:
            del self._since[next(iter(self._since))]
        return self.clock() - self._since.setdefault(uid, self.clock()) >= seconds


@dataclass(frozen=True, slots=True)
class Validate(Mutate):
    """The handler: `decide` judges new pods; everything else is judged here."""

    doubts: Doubts = field(default_factory=Doubts)

    async def review(self, body: bytes) -> ReviewAnswer:
        """Answer one review, of any object."""
        started = time.perf_counter()
        try:
            change = decode_object_review(body)
        except UndecodableError as error:
            return await self.refuse(error.request, str(error), started, len(body))
        except ReviewError as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        if change.creates_pod:
            return await Mutate.review(self, body)
        try:
            decision = await self._judge(change)
            answer = ReviewAnswer(encode_answer(change.uid, decision))
        except UNDECODABLE:
            return await self.refuse(change, "a part of the object cannot be decoded", started, len(body))
        except Exception as error:
            raise self.failed(change.uid, error, started, len(body)) from error
        self.metrics.review(decision.series, seconds=time.perf_counter() - started, size=len(body))
        return answer

    def decision(self, review: Review, pod: Pod, namespace: Namespace, policy: Policy) -> Decision:
        """Judge a new pod: allowed if it is right for what is known now, or was until a moment ago.

        It may have been changed before that, or by a replica that knows another policy or other labels of the namespace: so
        the API server is asked to repeat the call, at another replica, before a denial is final.

        Raises:
            NotNowError: the denial is not final.
        """
        decision = Mutate.decision(self, review, pod, namespace, policy)
        if decision.allowed or self.peers is None:
            return decision
        for state in self.peers.recent(namespace, policy):
            before = Mutate.decision(self, review, pod, *state)
            if before.allowed:
                return before
        # Whoever has set a short time limit gets the denial at once, and not the end of the time.
        if not self.doubts.over(review.uid, min(DOUBT, max(0, policy.settings.timeout_seconds - DOUBT))):
            text = "" if decision.denial is None else decision.denial.text
            raise NotNowError(f"other replicas may know what this one does not: {text}")
        return decision

    async def unread(self, request: ReviewHead, what: str) -> Decision:
        """Decide on what cannot be read: pods are denied, for they may have devices; nothing else is held up."""
        return await self.denied_unread(request, what) if _is_of_pod(request) else _NOTHING_TO_JUDGE

    async def _judge(self, change: ObjectReview) -> Decision:
        if _is_of_pod(change):
            return await self._judge_pod(change)
        data = _decoded(change.object)
        if data is None or change.sub_resource:
            return _NOTHING_TO_JUDGE
        if (change.kind.group, change.kind.kind) == ("", "ConfigMap"):
            judged = None if self.peers is None else await self.peers.judge_config_map(namespace_of(change), data)
            return judged or _NOTHING_TO_JUDGE
        policy = self.current.policy
        context = self.context(await self._namespace(change), "")
        kinds = workloads_of(policy.settings)
        spots = list(itertools.islice(spots_in(data, change.kind.group, change.kind.kind, kinds), MAX_TEMPLATES))
        found = [each.finding for each in itertools.islice(strays(data, spots, policy), MOST)]
        return judge_templates(_templates(data, change, kinds), context, policy, found)

    async def _judge_pod(self, change: ObjectReview) -> Decision:
        old, new = change.old_object, change.object
        if not present(new):
            return _NOTHING_TO_JUDGE
        if _is_too_much(old) or _is_too_much(new):
            return await self.denied_unread(change, _TOO_MUCH)
        context = self.context(await self._namespace(change), change.user_info.username)
        policy = self.current.policy
        if change.sub_resource != EPHEMERAL:
            return judge_update(decode_pod(old), decode_pod(new), context, policy)
        known = {each.name for each in decode_ephemeral(old)}
        added = [each for each in decode_ephemeral(new) if each.name not in known]
        return judge_ephemeral(decode_pod(old), added, context, policy)

    async def _namespace(self, change: ObjectReview) -> Namespace:
        name = namespace_of(change)
        namespace = self.namespaces.lookup(name)
        if namespace is None or self._contradicts_call(namespace):
            namespace = await self._requested(name, namespace)
        return namespace


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
