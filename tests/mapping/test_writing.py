"""Writing: the first form of a target that reads back as the request, or the reasons why none does."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mapping.vendors import ACME, LARGEST, vendor
from tests.naming import each_of
from webhook.mapping.load import load_policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.requests.values import number_for
from webhook.mapping.requests.writing import NoEquivalent, Written, write
from webhook.request import ALL, UNLIMITED, Cores, Dimension, Memory, Percent, Request, Size

BUILT_IN = load_policy()

GIB = 1024**3
MIB = 1024**2


def written(target: Vendor, request: Request, **defaults: Any) -> Written:
    """The request in the target's keys."""
    names: dict[str, Dimension] = {"devices": "devices", "memory": "memory", "cores": "cores"}
    filled = {names[name]: Default(value, "namespace") for name, value in defaults.items()}
    return write(target, request, filled, LARGEST, "main")


def keys(target: str, request: Request, **defaults: Any) -> dict[str, str]:
    """The keys of a built-in vendor, by key."""
    written_key = written(BUILT_IN.vendors[target], request, **defaults).keys.values()
    return {each.key: each.text for each in written_key}


@each_of(
    "target, request_, defaults, why",
    [
        ("aliyun", Request(1, Percent(50), UNLIMITED), {}, "no key of aliyun can express memory 50 %"),
        ("aliyun", Request(2, Size(GIB), Percent(30)), {}, "cores 30 %|memory only;"),
        ("aliyun", Request(2, ALL, ALL), {}, "memory 100 %"),
        ("gpushare", Request(2, Size(GIB), UNLIMITED), {}, "has devices 1"),
        ("gpushare", Request(1, Size(GIB), Percent(30)), {}, "no key of gpushare can express cores 30 %"),
        ("vcuda", Request(1, Size(GIB), UNLIMITED), {}, "no key of vcuda can express cores no limit|cores"),
        ("vcuda", Request(1, Size(GIB), ALL), {}, "memory|would be read as"),
        ("vcuda", Request(2, Size(GIB), Percent(30)), {}, "has devices 1"),
        ("iluvatar", Request(2, Size(GIB), UNLIMITED), {}, "memory"),
        ("iluvatar", Request(1, ALL, Percent(30)), {"memory": Size(GIB)}, "a default would fill it|would be read"),
        ("nvidia", Request(1, UNLIMITED, UNLIMITED), {}, "no key of nvidia can express memory no limit"),
        (
            "nvidia",
            Request(1, Size(GIB), UNLIMITED),
            {"cores": Percent(30)},
            "no key specifies cores no limit, and the namespace.s default-cores: 30 %",
        ),
    ],
)
def test_refused_where_nothing_says_it(target: str, request_: Request, defaults: Any, why: str) -> None:
    """Not approximated, and never left to a default that means something else."""
    with pytest.raises(NoEquivalent, match=why):
        keys(target, request_, **defaults)


STEPPED = vendor(
    "vendor: kai\nfamily: x\nkeys:\n"
    "  fraction: {annotation: a.io/f, is: memory, unit: 100%, written: decimal, values: 0.0001..0.9999, step: 0.01}\n"
    "forms: [{name: one, devices: 1, absent: {cores: unlimited}}]\n"
)
LEGAL = vendor(ACME.replace("unit: 1Mi", "unit: 512Mi, values: [2, 4, 8]"))


@pytest.mark.parametrize("percent, text", [(50, "0.5"), (1, "0.01"), (33, "0.33")])
def test_decimals_are_multiples_of_their_step(percent: int, text: str) -> None:
    """More may be read than is written."""
    (written_key,) = written(STEPPED, Request(1, Percent(percent), UNLIMITED)).keys.values()
    assert written_key.text == text


@each_of("mib, text", [(1, "2"), (1024, "2"), (1025, "4"), (4096, "8")])
def test_the_least_legal_number_that_holds(mib: int, text: str) -> None:
    """The least legal number that is not below the request is written."""
    assert written(LEGAL, Request(1, Size(mib * MIB), UNLIMITED)).keys["mem"].text == text
    with pytest.raises(NoEquivalent, match="cannot express"):
        written(LEGAL, Request(1, Size(4097 * MIB), UNLIMITED))


def test_a_key_expresses_amounts_of_its_own_kind() -> None:
    """A size is no number of a percentage, nor a percentage one of a size; nor is either one of a key without a unit."""
    size, percent = LEGAL.keys["mem"], STEPPED.keys["fraction"]
    unknown = vendor(ACME.replace("unit: 1Mi", "unit: null, why: read the manual")).keys["mem"]
    assert (number_for(size, Size(2 * GIB), 1), number_for(percent, Percent(50), 1)) == (4, Fraction(1, 2))
    assert number_for(size, Percent(50), 1) is number_for(percent, Size(2 * GIB), 1) is None
    assert number_for(unknown, Size(2 * GIB), 1) is number_for(unknown, Percent(50), 1) is None


REQUESTS = st.builds(
    Request,
    st.integers(1, 8),
    st.one_of(st.integers(1, 64 * GIB).map(Size), st.integers(1, 100).map(Percent)),
    st.one_of(st.integers(1, 100).map(Percent), st.just(UNLIMITED)),
).filter(lambda each: (each.memory, each.cores) != (ALL, UNLIMITED))


@given(st.sampled_from(["nvidia", "aliyun", "gpushare", "vcuda", "iluvatar"]), REQUESTS)
def test_what_is_written_is_read_back(target: str, request_: Request) -> None:
    """Any request is refused, or read back with the same devices, never less, and less than one unit more; twice the same."""
    vendor_ = BUILT_IN.vendors[target]
    try:
        found = written(vendor_, request_)
    except NoEquivalent:
        return
    got = found.reading.request
    assert got.devices == request_.devices
    assert less_than_a_unit_more(request_.memory, got.memory, GIB)
    # Several of one vendor's devices are whole cards: 100 is the least that can be said there.
    assert less_than_a_unit_more(request_.cores, got.cores, 100 if target == "iluvatar" else 5)
    again = written(vendor_, got)
    assert {name: key_value.number for name, key_value in again.keys.items()} == {
        name: key_value.number for name, key_value in found.keys.items()
    }


def less_than_a_unit_more(requested: Memory | Cores | None, got: Memory | Cores | None, unit: int) -> bool:
    """Whether `got` is `requested`, rounded up."""
    if isinstance(requested, Size) and isinstance(got, Size):
        return 0 <= got.bytes - requested.bytes < unit
    if isinstance(requested, Percent) and isinstance(got, Percent):
        return 0 <= got.value - requested.value < unit
    return got == requested
