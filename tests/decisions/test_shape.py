"""Pods of one shape: what one of them needs beside its keys is what was remembered of others with other amounts."""

import dataclasses
import gc
import json
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from fractions import Fraction
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from benchmarks.calls import count_calls
from benchmarks.decide import answer
from benchmarks.streams import AT_HOME, TRANSLATED, Pair, never_seen, sent_from
from tests.decisions.test_cases import CASES, FOLDERS, context_in, pod_in, policy_in
from tests.depth import one_in
from tests.fuzz.generate import case_of
from tests.fuzz.trial import Trial, called, encode
from tests.naming import each_of, naming
from tests.strict_patch import apply_strictly
from webhook.admission import Decision, decide, shape
from webhook.admission.decision import Allocation, Plan
from webhook.labels import GUARD
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.patch import slots
from webhook.pod import decode_pod
from webhook.quantity import exact_text
from webhook.request import ALL, UNLIMITED, Memory, Percent, Request, Size

Json = dict[str, Any]

POLICY: Final = load_policy()
PAIRS: Final = (AT_HOME, *TRANSLATED)
AMOUNT: Final = re.compile(r"[1-9][0-9]{0,5}(Mi|Gi|k|M)?")
PODS: Final = 400
FEWEST: Final = 40
"""Pods whose shape has to be known for the property to say something."""


def other_amounts(pod: Json, chance: random.Random) -> Json:
    """A pod that requests other amounts, some of which mean nothing or a whole device, and is the same otherwise."""
    changed: Json = json.loads(json.dumps(pod))
    for container in (*changed["spec"]["containers"], *(changed["spec"].get("initContainers") or ())):
        chosen: dict[str, str] = {}
        for side in (container.get("resources") or {}).values():
            for name, text in side.items() if isinstance(side, dict) else ():
                if isinstance(text, str) and AMOUNT.fullmatch(text) is not None:
                    digits = text.rstrip("MGik")
                    other = f"{int(digits) * chance.choice((1, 2, 3))}{text[len(digits) :]}"
                    side[name] = chosen.setdefault(name, chance.choice((text, other, other, other, "0", "1", "100")))
    return changed


def twice(pod: Json, trial: Trial) -> Decision:
    """The decision at second sight: after that its shape is known."""
    decided = [called(decide, decode_pod(encode(pod)), trial.context, trial.policy) for _ in range(2)]
    assert decided[0] == decided[1]
    return decided[1]


@pytest.mark.parametrize("first", one_in(20, range(0, 20 * PODS, PODS)))
def test_hit_and_miss_decide_the_same(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a pod is, it is decided alike with its shape remembered of another and with nothing remembered."""
    taken = 0
    apply_shape = shape.apply_shape

    def counting(plan: Plan, outline: bytes, steps: Callable[[Plan], None]) -> bool:
        nonlocal taken
        known = apply_shape(plan, outline, steps)
        taken += known
        return known

    monkeypatch.setattr("webhook.admission.engine.apply_shape", counting)
    for number in range(first, first + PODS):
        trial = Trial(case_of(11, number))
        try:
            trial.policy.forget()
            chance = random.Random(number)
            one = other_amounts(trial.case.pod, chance)
            expected = called(decide, decode_pod(encode(one)), trial.context, trial.policy)
            trial.policy.forget()
            for _ in range(3):
                twice(other_amounts(trial.case.pod, chance), trial)
            assert called(decide, decode_pod(encode(one)), trial.context, trial.policy) == expected, number
        except msgspec.DecodeError:
            continue
        finally:
            trial.policy.forget()
    assert taken > FEWEST, taken


@each_of("pair", PAIRS)
def test_nothing_but_keys_is_worked_out_again(pair: Pair) -> None:
    """A pod of a known shape takes a tenth fewer calls, and gets the same answer."""
    sent = sent_from(pair)
    bodies = [sent.fill(number, 0, number, pair.share(2000 + number)) for number in range(5)]
    fresh = load_policy()
    for body in bodies[:2]:
        answer(body, POLICY), answer(body, fresh)
    POLICY.forget()
    first = count_calls(lambda: answer(bodies[2], POLICY))
    answer(bodies[3], POLICY)
    assert len(POLICY.shapes) == 1
    assert count_calls(lambda: answer(bodies[4], POLICY)) < 0.9 * first
    fresh.forget()
    assert answer(bodies[4], POLICY) == answer(bodies[4], fresh)


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda request: f"{request}", id="the request as text"),
        pytest.param(lambda request: f"{request.memory}", id="the memory as text"),
        pytest.param(lambda request: f"{request.cores}", id="the cores as text"),
        pytest.param(lambda request: exact_text(request.cores.value), id="a number as text"),
        pytest.param(lambda request: f"{request.memory.bytes}", id="a number formatted"),
        pytest.param(lambda request: request.memory == Size(5), id="equal sizes"),
        pytest.param(lambda request: request.cores == Percent(30), id="equal parts"),
        pytest.param(lambda request: {request.cores.value}, id="a hash"),
        pytest.param(lambda request: request.cores.value or 1, id="whether there is one"),
        pytest.param(lambda request: request.cores.value > 5, id="compared"),
        pytest.param(lambda request: request.memory.bytes + 1, id="added"),
        pytest.param(lambda request: request.memory.bytes * 2, id="multiplied"),
        pytest.param(lambda request: Fraction(request.memory.bytes), id="a fraction"),
        pytest.param(msgspec.json.encode, id="encoded"),
    ],
)
def test_a_step_that_looks_at_an_amount_fails(read: Callable[[Any], object]) -> None:
    """So nothing is remembered of it."""
    hidden = shape.hidden_amounts(Request(1, Size(1000), Percent(30)))
    with pytest.raises((TypeError, AttributeError)):
        read(hidden)


def test_what_a_shape_has_of_a_request() -> None:
    """How many devices, whether they are whole, and which kinds of amounts."""
    for request in (Request(2, ALL, ALL), Request(2, ALL, UNLIMITED), Request(2, UNLIMITED, UNLIMITED)):
        assert shape.hidden_amounts(request) == request
    hidden = shape.hidden_amounts(Request(3, Size(1000), Percent(30)))
    assert (hidden.devices, hidden.whole, type(hidden.memory), type(hidden.cores)) == (3, False, Size, Percent)


def test_cases_by_their_shape() -> None:
    """Every case is decided as it was, after others of its shape were."""
    for folder in FOLDERS:
        pod, context, policy = decode_pod(pod_in(folder)), context_in(folder), policy_in(folder)
        policy.forget()
        expected = decide(pod, context, policy)
        for number in (0, 0, 1, 1):
            decide(
                decode_pod(encode(other_amounts(json.loads(pod_in(folder)), random.Random(number)))), context, policy
            )
        policy.memo.clear()
        with naming(folder.name):
            assert decide(pod, context, policy) == expected
        policy.forget()


@each_of("action", ["strip", "audit"])
def test_a_pod_that_is_sent_again(action: str) -> None:
    """With the limits of its own shim in its variables, which no guard takes for the author's, however often it is sent."""
    limited = 0
    for folder in FOLDERS:
        pod, context, policy = json.loads(pod_in(folder)), context_in(folder), policy_in(folder)
        context = replace(context, namespace=dataclasses.replace(context.namespace, annotations={GUARD: action}))
        policy.forget()
        stored = encode(apply_strictly(pod, decide(decode_pod(encode(pod)), context, policy).patch))
        limited += b"_LIMIT" in stored
        policy.forget()
        with naming(folder.name):
            first, *others = (decide(decode_pod(stored), context, policy) for _ in range(4))
            assert others == [first] * 3
    assert limited > FEWEST


def plan_of(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan with its keys written, before anything else is applied."""
    plans: list[Plan] = []
    with monkeypatch.context() as patch:
        patch.setattr("webhook.admission.engine.apply_shape", lambda plan, _outline, _steps: plans.append(copy(plan)))
        answer(sent_from(pair).fill(0, 0, 0, pair.share(7)), load_policy())
    return plans[0]


def test_whatever_steps_see_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pod by its facts, of an allocation every part, and what is left alone."""
    plan = plan_of(TRANSLATED[0], monkeypatch)
    (allocation,) = plan.allocations
    other, second = plan.policy.vendors["ascend"], slots(plan.pod)[1]
    whole = Request(allocation.request.devices, ALL, ALL)
    changes = {
        "slot": second,
        "source": other,
        "owner": other,
        "vendor": other,
        "copy": other,
        "form": "another",
        "request": whole,
        "moved": not allocation.moved,
        "share": not allocation.share,
    }
    assert changes.keys() == set(Allocation.__struct_fields__)

    def key(**parts: Any) -> bytes:
        return shape.key_of_shape(b"", replace(plan, **parts))

    keys = [key(), key(left_alone=((second, other, True),)), key(left_alone=((second, other, False),))]
    keys += [key(allocations=(replace(allocation, **{name: value}),)) for name, value in changes.items()]
    assert len(set(keys)) == len(changes) + 3
    amounts: list[Memory] = [Size(5), Percent(5), ALL, UNLIMITED]
    requests = [Request(1, memory, UNLIMITED) for memory in amounts]
    assert len({key(allocations=(replace(allocation, request=request),)) for request in requests}) == len(amounts)


def test_written_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """An amount that a step writes anywhere but into a variable of the shim is not remembered."""
    sent = sent_from(AT_HOME)
    bodies = [sent.fill(number, 0, number, AT_HOME.share(3000 + number)) for number in range(3)]
    policy: Policy = load_policy()
    with monkeypatch.context() as patch:

        def steps(plan: Plan) -> None:
            plan.edits.fields["hostname"] = str(-(-plan.allocations[0].request.cores.value // 1))  # type: ignore[union-attr]

        patch.setattr("webhook.admission.engine._apply", lambda plan, _resolution=None: steps(plan))
        answers = [answer(body, policy) for body in bodies]
    assert len(set(answers)) == len(bodies)


def held(bodies: Iterator[bytes]) -> tuple[int, int]:
    """The bytes of one shape, as the allocator gave and as counted."""
    POLICY.forget()
    for _ in range(3):
        answer(next(bodies), POLICY)
    POLICY.shapes.clear()
    gc.collect()
    tracemalloc.start(1)
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(3):
            answer(next(bodies), POLICY)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before, POLICY.shapes.size
    finally:
        tracemalloc.stop()


SENT: Final[Mapping[str, Iterator[bytes]]] = {f"{pair.source} to {pair.target}": never_seen(pair) for pair in PAIRS}


def test_counted_as_held() -> None:
    """What a shape takes is counted, and not much more; measured in a process of its own, where nothing else is held."""
    run = subprocess.run([sys.executable, "-m", __name__], check=True, capture_output=True, cwd=CASES.parents[1])
    sizes: dict[str, tuple[int, int]] = json.loads(run.stdout)
    assert sizes.keys() == SENT.keys()
    for got, counted in sizes.values():
        assert got < counted < 3 * got, sizes


if __name__ == "__main__":
    gc.freeze()  # of what importing has left, each collection would take a tenth of a second
    json.dump({name: min(held(bodies) for _ in range(5)) for name, bodies in SENT.items()}, sys.stdout)
