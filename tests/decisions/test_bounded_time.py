"""Any input ends in bounded time: the largest reviews that the server takes cost few calls, and few walks through their bytes.

The pods are those known to be slow, and what a search fills every field with. What is counted is the same on every machine.
``benchmarks/worst.py`` searches longer, and measures seconds.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import pytest

from tests.decisions.filled_fields import Filling, Place, places, sampled
from tests.decisions.worst_pods import (
    LARGEST,
    PODS,
    SETTINGS,
    WHERE,
    Where,
    container,
    many_vendors,
    named_for_each,
    of_size,
    pod,
)
from tests.depth import one_in
from webhook.admission import Context, Decision, decide
from webhook.admission.engine import deny_unread
from webhook.mapping.document import Document
from webhook.mapping.load import build_policy
from webhook.pod import decode_pod
from webhook.reasons import MAX_SENTENCE, Reason
from webhook.review import MAX_DENIAL, MAX_WARNINGS, encode_answer

pytestmark = pytest.mark.usefixtures("remembers_at_once")

OPTED_IN: Final = Where("", {}, {}).namespace
SIZE: Final = 128 * 1024
"""Bytes that a filled pod is to have, about."""

LEAST_SIZE: Final = 4 * 1024
"""Bytes of the smallest pod that is tried."""

MAX_FINDINGS: Final = 128 * 8

CONSTANT: Final = frozenset(
    {"len", "append", "isinstance", "get", "startswith", "endswith", "setdefault", "add", "setprofile"}
)
"""What takes no longer for longer arguments."""

MOST_CALLS: Final = 310_000
"""Calls that any review may cost: one of Python takes half a microsecond."""

MOST_WALKED: Final = 20 * LARGEST
"""Bytes that any decision may walk through: the largest review, twenty times."""

POLICY: Final = build_policy([], Document("settings", SETTINGS, {}))
GROWN: Final = {
    **PODS,
    "vendors of all kinds": many_vendors(POLICY),
    **dict(named_for_each(POLICY, 128)),
    **dict(named_for_each(POLICY, 1024)),
}


def counted(work: Callable[[], Decision]) -> tuple[int, int, Decision]:
    """How many calls some work takes, how much they may walk through, and what comes of it.

    A call of C may look at, copy or search all that its caller holds: so the longest text or container among the local
    variables of the caller counts for each, in bytes, or as entries of eight. It counts too much where a call looks at a part,
    never too little, except for what is made inside an expression.
    """
    calls = walked = 0

    def profile(frame: Any, event: str, function: Any) -> None:
        nonlocal calls, walked
        if event == "call":
            calls += 1
        elif event == "c_call":
            calls += 1
            if function.__name__ not in CONSTANT:
                walked += max(map(_length, frame.f_locals.values()), default=0)

    sys.setprofile(profile)
    try:
        decision = work()
    finally:
        sys.setprofile(None)
    return calls, walked, decision


def _length(value: object) -> int:
    match value:
        case str() | bytes():
            return len(value)
        case msgspec.Raw():
            return memoryview(value).nbytes
        case list() | tuple() | dict() | set() | frozenset():
            return 8 * len(value)
        case _:
            return 0


def answered(body: bytes, where: Where) -> Decision:
    """The decision on a pod, with its answer made: one that cannot be decoded is denied."""
    POLICY.memo.clear()
    context = Context(where.namespace)
    try:
        decision = decide(decode_pod(body), context, POLICY)
    except msgspec.DecodeError as error:
        decision = deny_unread(str(error), context, POLICY)
    encode_answer("", decision)
    return decision


def _check_work(made: Callable[[int], bytes], where: Where) -> None:
    """Check the largest pod, and the largest that is not denied for its size: most steps take place there only."""
    size = LARGEST
    while size > LEAST_SIZE:
        body = made(size)
        calls, walked, decision = counted(lambda body=body: answered(body, where))  # type: ignore[misc]
        assert calls <= MOST_CALLS, where.name
        assert walked <= MOST_WALKED, where.name
        _check_told(decision, len(body))
        if Reason.TOO_MANY not in {decision.reason, *(finding.reason for finding in decision.warnings)}:
            return
        size //= 4


@pytest.mark.parametrize(
    "name, where",
    [
        pytest.param(name, WHERE[at % len(WHERE)], id=name, marks=[pytest.mark.long] if at % 8 else [])
        for at, name in enumerate(GROWN)
    ],
)
def test_the_largest_pods_cost_little(name: str, where: Where) -> None:
    """Property 7: no pod known to be slow costs more calls, or walks through more, than a limit."""
    _check_work(partial(of_size, GROWN[name]), where)


@pytest.mark.parametrize("filling", one_in(16, sampled(POLICY, 1)), ids=lambda filling: filling.name)
def test_the_search_finds_no_pod_that_costs_much(filling: Filling) -> None:
    """One way of filling each field of a pod up to 7 MiB; ``benchmarks/worst.py`` tries many."""
    _check_work(partial(filling.body, policy=POLICY), WHERE[len(filling.name) % len(WHERE)])


@pytest.mark.long
@pytest.mark.parametrize("place", places(), ids=lambda place: f"{place.kind} {place.name}")
def test_the_whole_search_finds_none(place: Place) -> None:
    """Many ways of filling each field."""
    for at, filling in enumerate(filling for filling in sampled(POLICY, 16) if filling.place == place):
        _check_work(partial(filling.body, policy=POLICY), WHERE[at % len(WHERE)])


def test_the_search_reaches_every_field() -> None:
    """What is decoded later is searched, too, and the most that is read is filled."""
    names = {place.name for place in places()}
    for raw in ("env", "envFrom", "volumeMounts"):
        assert any(name.startswith(f"spec.containers.[].{raw}.[].") for name in names)
    for field in ("volumes.[].name", "tolerations.[].{}", "nodeSelector", "resourceClaims.[].name", "os.name"):
        assert f"spec.{field}" in names
    for filling in sampled(POLICY, 2):
        assert len(filling.body(SIZE, POLICY)) <= SIZE + 64 * 1024, filling.name


def _check_told(decision: Decision, size: int) -> None:
    """What is reported about a pod is bounded, whatever stands in it."""
    assert len(decision.warnings) <= MAX_FINDINGS
    assert all(len(finding.sentence) <= MAX_SENTENCE for finding in decision.warnings)
    assert sum(map(len, decision.audit.values())) <= 20_000
    patch = -(-len(decision.patch_json) // 3) * 4
    assert len(encode_answer("", decision)) <= patch + 6 * (MAX_WARNINGS + MAX_DENIAL + 20_000)
    assert len(decision.patch_json) <= 2 * size + 128 * 4096


def test_deep_nesting_is_no_crash() -> None:
    """Deeper than the decoder goes raises an error that can be handled."""
    body = json.dumps(pod(container(future="here"))).encode().replace(b'"here"', b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(RecursionError):
        decide(decode_pod(body), Context(OPTED_IN), POLICY)
