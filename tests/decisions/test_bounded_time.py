"""Any input ends in bounded time: reviews made to be slow cost what their bytes cost, up to the 7 MiB that the server takes.

What is counted is calls, of Python and of C, and what they walk through. Where no calls are made, times of two sizes are
compared, so that the machine's speed does not matter. ``benchmarks/worst.py`` prints the seconds of the largest.
"""

import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from tests.decisions.worst_pods import (
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
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.load import build_policy
from webhook.mapping.model import memo
from webhook.pod import decode_pod
from webhook.response import MAX_DENIAL, MAX_WARNINGS, encode_answer

pytestmark = pytest.mark.usefixtures("remembers_at_once")

OPTED_IN: Final = Where("", {}, {}).namespace
SIZE: Final = 128 * 1024
"""Bytes of the smaller of two pods that are compared: with fewer the bounds on numbers hide what grows."""

PER_BYTE: Final = 2
LEAST: Final = 0.01
"""CPU seconds; what takes less is not measured exactly, and slow for nobody."""
MAX_FINDINGS: Final = 128 * 8
BASE: Final = 20_000
"""Calls that the largest bounds may cost, whatever the size: 128 containers that ask."""

WALKS: Final = frozenset(
    {"index", "count", "copy", "remove", "insert", "split", "partition", "rpartition", "replace", "translate"}
)
"""Methods that look at all of a list or text; 64 of it count as a call."""

POLICY: Final = build_policy([], Document("settings", SETTINGS, {}))
GROWN: Final = {
    **PODS,
    "vendors of all kinds": many_vendors(POLICY),
    **dict(named_for_each(POLICY, 128)),
    **dict(named_for_each(POLICY, 1024)),
}


def counted(work: Callable[[], Decision]) -> tuple[int, Decision]:
    """How many calls some work takes, and what comes of it."""
    count = 0

    def profile(_frame: object, event: str, function: Any) -> None:
        nonlocal count
        if event == "call":
            count += 1
        elif event == "c_call":
            count += 1
            if function.__name__ in WALKS and isinstance(function.__self__, str | bytes | list):
                count += len(function.__self__) // 64

    sys.setprofile(profile)
    try:
        decision = work()
    finally:
        sys.setprofile(None)
    return count, decision


def answered(body: bytes, where: Where) -> Decision:
    """The decision on a pod, with its answer made."""
    POLICY.memo.clear()
    decision = decide(decode_pod(body), Context(where.namespace), POLICY)
    encode_answer("", decision)
    return decision


@pytest.mark.parametrize(
    "name, wheres",
    [
        *(pytest.param(name, [WHERE[at % len(WHERE)]], id=name) for at, name in enumerate(GROWN)),
        *(pytest.param(name, WHERE, id=f"{name}, everywhere", marks=pytest.mark.deep) for name in GROWN),
    ],
)
def test_costs_what_its_bytes_cost(name: str, wheres: Sequence[Where]) -> None:
    """Property 7: twice the size is at most twice the work, and a byte is at most two calls, wherever the pod is created."""
    small, large = of_size(GROWN[name], SIZE), of_size(GROWN[name], 2 * SIZE)
    for where in wheres:
        less, _ = counted(lambda where=where: answered(small, where))  # type: ignore[misc]
        more, decision = counted(lambda where=where: answered(large, where))  # type: ignore[misc]
        assert more <= 1.1 * less * len(large) / len(small) + BASE, where.name
        assert more <= PER_BYTE * len(large) + BASE, where.name
        _check_told(decision, len(large))


@pytest.mark.deep
@pytest.mark.parametrize("name", GROWN)
def test_time_grows_as_bytes_do(name: str) -> None:
    """Lists that are copied or searched make no calls: so four times the size is less than eight times the CPU time."""
    small, large = of_size(GROWN[name], 4 * SIZE), of_size(GROWN[name], 16 * SIZE)
    for where in WHERE:
        ratios = (_seconds(large, where) / max(_seconds(small, where), LEAST) for _ in range(5))
        assert any(ratio < 8 for ratio in ratios), where.name


def _seconds(body: bytes, where: Where) -> float:
    started = time.process_time()
    answered(body, where)
    return time.process_time() - started


def _check_told(decision: Decision, size: int) -> None:
    """What is reported about a pod is bounded, whatever stands in it."""
    assert len(decision.warnings) <= MAX_FINDINGS
    assert sum(len(finding.text) for finding in decision.warnings) <= 256 * len(decision.warnings)
    assert sum(map(len, decision.audit.values())) <= 20_000
    patch = -(-len(decision.patch_json) // 3) * 4
    assert len(encode_answer("", decision)) <= patch + 6 * (MAX_WARNINGS + MAX_DENIAL + 20_000)
    assert len(decision.patch_json) <= 2 * size + 128 * 4096


def test_deep_nesting_is_no_crash() -> None:
    """Deeper than the decoder goes raises an error that can be handled."""
    body = json.dumps(pod(container(future="here"))).encode().replace(b'"here"', b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(RecursionError):
        decide(decode_pod(body), Context(OPTED_IN), POLICY)


def test_remembered_results_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do a few of the largest that are remembered: the estimates hold."""
    most = 4 * 1024 * 1024
    monkeypatch.setattr(memo, "MAX_BYTES", most)
    POLICY.memo.clear()
    context = Context(Namespace(OPTED_IN.name, OPTED_IN.labels, {"vgpu-webhook.io/target": "nvidia"}))
    limits = {"iluvatar.ai/vgpu": 1, "iluvatar.ai/vcuda-core": 50}
    unchanged, held = [], []
    tracemalloc.start(1)
    try:
        for number in range(40):
            sent = pod(
                *(
                    {
                        **container(each, {**limits, "iluvatar.ai/vcuda-memory": 64 + number}),
                        "name": f"{each}-{'x' * 60}",
                    }
                    for each in range(32)
                )
            )
            encode_answer("", decide(decode_pod(json.dumps(sent).encode()), context, POLICY))
            unchanged.append(len(POLICY.memo))
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(unchanged) > 4
    assert unchanged != sorted(unchanged)
    assert 0.5 * most < max(held) < 1.25 * most
