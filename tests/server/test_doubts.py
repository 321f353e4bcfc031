"""Replicas that do not know the same: a new pod is not denied before all of them know of a change."""

import io
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from msgspec import structs

from tests.strict_patch import apply_strictly
from webhook.admission import decide
from webhook.admission.decision import Context, Namespace
from webhook.admission.judge import judge_pod
from webhook.mapping.document import parse
from webhook.mapping.load import build_policy, load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.server.logs import ReviewLines, make_logger
from webhook.server.reviews import (
    DOUBT,
    MAX_DOUBTS,
    Current,
    Described,
    Doubts,
    Journal,
    Knowledge,
    NotNowError,
    Peers,
    Validation,
)

from .harness import review

POLICY, OTHER = load_policy(), build_policy((), parse("target: volcano", "settings")[0])
LABELS = {"vgpu-webhook.io/inject": "enabled"}
TEAM = Namespace("team", LABELS)
ELSEWHERE = Namespace("team", LABELS, {"vgpu-webhook.io/target": "volcano"})
WATCHED = Namespace("team", {**LABELS, "vgpu-webhook.io/mode": "warn"})
NOT_IN = Namespace("team")
SENT: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}


@dataclass
class Known:
    """What a replica knows beside the present, in place of a cluster; and its clock."""

    states: tuple[tuple[Namespace, Policy], ...] = ()
    now: float = 100.0

    def recent(self, namespace: Namespace, policy: Policy) -> Iterable[tuple[Namespace, Policy]]:
        """As `InCluster.recent`."""
        return [(namespace, policy), *self.states]

    def contradicts_call(self, _: Namespace) -> bool:
        """No call does."""
        return False

    def behind(self, *_: object) -> bool:
        """No names of others are known."""
        return False

    def serves_image_volumes(self) -> bool:
        """The cluster is new enough."""
        return True

    def tell_owner(self, *_: object) -> None:
        """Nobody is told."""


def changed(namespace: Namespace, policy: Policy) -> dict[str, Any]:
    """The pod as a replica stores it that knows this namespace and policy."""
    decision = decide(decode_pod(json.dumps(SENT).encode()), Context(namespace), policy)
    made: dict[str, Any] = apply_strictly(SENT, decision.patch)
    return made


def handler(known: Known, namespace: Namespace = TEAM, policy: Policy = POLICY) -> Validation:
    """What a replica knows and does."""
    log = make_logger("error", io.BytesIO())
    knowledge = Knowledge(Current(policy), Described({"team": namespace}), "baseline", cast("Peers", known))
    return Validation(knowledge, judge_pod, Journal(log, ReviewLines(log)), Doubts(lambda: known.now))


async def answers(validation: Validation, known: Known, pod: dict[str, Any]) -> list[str]:
    """What an API server gets, which repeats its call every second for five seconds."""
    found = []
    for _ in range(5):
        try:
            _, decision = await validation.decided(review(pod, uid="u"))
        except NotNowError:
            found.append("503")
        else:
            return [*found, "allowed" if decision.allowed else "denied"]
        known.now += 1
    return found


State = tuple[Namespace, Policy]
CHANGES: dict[str, tuple[State, State]] = {
    "policy": ((TEAM, POLICY), (TEAM, OTHER)),
    "target": ((TEAM, POLICY), (ELSEWHERE, POLICY)),
    "mode": ((WATCHED, POLICY), (TEAM, POLICY)),
    "opt-in": ((NOT_IN, POLICY), (TEAM, POLICY)),
    "both": ((WATCHED, POLICY), (TEAM, OTHER)),
}


@pytest.mark.parametrize("before, now", CHANGES.values(), ids=CHANGES)
async def test_what_was_right_a_moment_ago_is_allowed(before: State, now: State) -> None:
    """At once; and denied where nothing has changed for a while, but not at once."""
    known = Known((before,))
    assert await answers(handler(known, *now), known, changed(*before)) == ["allowed"]
    known = Known()
    assert await answers(handler(known, *now), known, changed(*before)) == ["503", "503", "denied"]


@pytest.mark.parametrize("now, before", CHANGES.values(), ids=CHANGES)
async def test_a_replica_that_is_behind_is_asked_again(before: State, now: State) -> None:
    """It learns of the change meanwhile; the pod was changed by one that knew it."""
    known = Known()
    behind = handler(known, *before)
    with pytest.raises(NotNowError):
        await behind.decided(review(changed(*now), uid="u"))
    later = structs.replace(handler(known, *now), doubts=behind.doubts)
    assert await answers(later, known, changed(*now)) == ["allowed"]


async def test_a_forged_status_keeps_nothing_from_being_denied() -> None:
    """Whatever another hand wrote there."""
    for status in ('{"policy":"0123456789ab","containers":{}}', "x"):
        known = Known()
        pod = {**SENT, "metadata": {"name": "p", "annotations": {"vgpu-webhook.io/status": status}}}
        assert await answers(handler(known), known, pod) == ["503", "503", "denied"]


@pytest.mark.parametrize("seconds, waits", [(1, 0), (2, 0), (3, 1), (4, 2), (30, 2)])
async def test_a_short_time_limit_is_not_used_up(seconds: int, waits: int) -> None:
    """Whoever has set it gets the denial with its fields."""
    known = Known()
    policy = replace(POLICY, settings=POLICY.settings.model_copy(update={"timeout_seconds": seconds}))
    assert await answers(handler(known, policy=policy), known, SENT) == [*["503"] * waits, "denied"]


def test_many_doubts_take_no_memory() -> None:
    """The oldest are forgotten."""
    seconds: Iterator[int] = itertools.count()
    doubts = Doubts(lambda: float(next(seconds)))
    for number in range(3 * MAX_DOUBTS):
        assert not doubts.over(str(number), DOUBT + 1)
    assert len(doubts._since) == MAX_DOUBTS  # noqa: SLF001
