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
from webhook.admission.engine import denied
from webhook.admission.judge import judge_ephemeral, judge_templates, judge_update
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod, decode_pod
from webhook.quantity import MIB
from webhook.reasons import Finding, Reason
from webhook.review import (
    UNDECODABLE,
    ObjectReview,
    Review,
    ReviewError,
    decode_object_review,
    encode_answer,
    namespace_of,
)
from webhook.server.mutate import Mutate, NotNowError, ReviewAnswer
from webhook.server.protocol import HttpError
from webhook.workloads import Kinds, known_workloads, pods_in, workloads_of

MAX_WORKLOAD: Final = 2 * MIB
"""The most bytes of a workload that is judged: etcd stores 1.5 MiB."""

MAX_PARTS: Final = 64 * 1024
"""The most JSON objects in it, each of which takes time and memory."""

MAX_TEMPLATES: Final = 32
"""The most templates of a workload that are judged."""

MAX_CONTAINERS: Final = 256
"""The most containers of all of them, and of ephemeral containers beside containers that request: each is a decision."""

EPHEMERAL: Final = "ephemeralcontainers"

_OF_PODS: Final = frozenset({"", EPHEMERAL, "status"})
"""What of a pod can be updated so that it is judged: itself, and its subresources."""

known_workloads()  # read once, before there is a loop that would wait for the file

_NOTHING_TO_JUDGE: Final = untouched(Reason.NOT_A_POD_CREATION)

_TOO_MUCH: Final = denied(
    Finding(Reason.TOO_MANY, "the update of the pod has more than can be judged: send less at once")
)
"""An error would be ignored, as the failure policy says."""


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
        except ReviewError as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        if change.creates_pod:
            return await Mutate.review(self, body)
        try:
            decision = await self._judge(change)
            answer = ReviewAnswer(encode_answer(change.uid, decision))
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

    async def _judge(self, change: ObjectReview) -> Decision:
        is_pod = (change.kind.group, change.kind.kind) == ("", "Pod")
        data = _decoded(change.object)
        if data is None and is_pod and change.object:
            return _TOO_MUCH
        if data is None or (change.sub_resource or "") not in (_OF_PODS if is_pod else {""}):
            return _NOTHING_TO_JUDGE
        if (change.kind.group, change.kind.kind) == ("", "ConfigMap"):
            judged = None if self.peers is None else await self.peers.judge_config_map(namespace_of(change), data)
            return judged or _NOTHING_TO_JUDGE
        user = change.user_info.username if is_pod else ""
        context = self.context(await self._namespace(change), user)
        policy = self.current.policy
        if is_pod and change.sub_resource == EPHEMERAL:
            pods = _debugging(data, _decoded(change.old_object))
            return _TOO_MUCH if pods is None else judge_ephemeral(pods, context, policy)
        if is_pod:
            return judge_update(decode_pod(change.old_object), decode_pod(change.object), context, policy)
        return judge_templates(_templates(data, change, workloads_of(policy.settings)), context, policy)

    async def _namespace(self, change: ObjectReview) -> Namespace:
        name = namespace_of(change)
        namespace = self.namespaces.lookup(name)
        if namespace is None or self._contradicts_call(namespace):
            namespace = await self._requested(name, namespace)
        return namespace


def _decoded(encoded: msgspec.Raw) -> dict[str, Any] | None:
    """An object of a review; None if there is none, or it is larger than any that is stored."""
    raw = memoryview(encoded)
    if not 0 < raw.nbytes <= MAX_WORKLOAD or bytes(raw).count(b"{") > MAX_PARTS:
        return None
    data = msgspec.json.decode(raw)
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


def _debugging(data: dict[str, Any], old: dict[str, Any] | None) -> list[Pod] | None:
    """The pods that `judge_ephemeral` judges: each new ephemeral container with the resources of each that requests some.

    None if there are too many.
    """
    spec = dict(data.get("spec") or {})
    known = {each.get("name") for each in ((old or {}).get("spec") or {}).get("ephemeralContainers") or ()}
    added = [each for each in spec.pop("ephemeralContainers", None) or () if each.get("name") not in known]
    every = [*(spec.pop("initContainers", None) or ()), *(spec.get("containers") or ())]
    resources_of = {str(each.get("resources")): each.get("resources") for each in every}
    requested = [resources for text, resources in resources_of.items() if "/" in text]
    if len(added) * len(requested) > MAX_CONTAINERS:
        return None
    return [
        decode_pod(
            msgspec.json.encode({**data, "spec": {**spec, "containers": [{**container, "resources": resources}]}})
        )
        for container, resources in itertools.product(added, requested)
    ]
