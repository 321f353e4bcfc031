"""The matrix against every request of small documents with every kind of rule, and built-in cells that were false."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from tests.depth import few_or_all, partners
from tests.mapping.vendors import vendor
from tests.promises import promises
from webhook.cli.matrix_pages import cell_table, sign
from webhook.mapping.load import load_policy
from webhook.mapping.matrix import Cell, Matrix, Rendering, Tried, cell_of
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import KeyValue
from webhook.mapping.requests.writing import NoEquivalent, write
from webhook.reasons import Denied
from webhook.request import ALL, UNLIMITED, Percent, Request, Size

pytestmark = pytest.mark.slow

MIB, GIB = 1024**2, 1024**3
CARD = 12 * MIB
POLICY = load_policy()
DOCUMENTS = {
    "plain": """
keys:
  gpu:  {resource: plain.example/gpu, is: devices}
  mem:  {resource: plain.example/mem, is: memory, unit: 1Mi}
  core: {resource: plain.example/core, is: cores, unit: 10%}
forms: [{name: share, absent: {devices: 1, memory: all, cores: unlimited}}]
""",
    "listed": """
keys:
  gpu:  {resource: listed.example/gpu, is: devices, values: [1, 2, 4]}
  mem:  {resource: listed.example/mem, is: memory, unit: 2Mi, values: [1, 2, 4]}
  core: {resource: listed.example/core, is: cores, unit: 10%, values: 2..8 by 3}
forms: [{name: share, when: {gpu: present, mem: present}, absent: {cores: unlimited}}]
""",
    "paired": """
keys:
  gpu:  {resource: paired.example/gpu, is: devices, values: [1, 2.. by 2]}
  mem:  {resource: paired.example/mem, is: memory, unit: 1Mi}
  core: {resource: paired.example/core, is: cores, unit: 10%}
forms: [{name: share, when: {gpu: present, mem: present}, absent: {cores: unlimited}}]
""",
    "totals": """
keys:
  gpu:  {resource: totals.example/gpu, is: devices}
  mem:  {resource: totals.example/mem, is: memory, unit: 1Mi, total: true, round: down}
  core: {resource: totals.example/core, is: cores, unit: 10%, total: true}
forms:
- {name: little, when: {gpu: present, mem: 1..9}, absent: {cores: unlimited}}
- {deny: "beside {mem} from 17 on {core} is missing", when: {mem: 17.., core: absent}}
- {name: much, when: {gpu: present, mem: present}, absent: {cores: unlimited}}
""",
    "derived": """
keys:
  core: {resource: derived.example/core, is: cores, unit: 10%, total: true}
  mem:  {resource: derived.example/mem, is: memory, unit: 3Mi}
forms:
- {name: whole, when: {core: 10.. by 10, mem: absent}, devices: {key: core, per: 10}, memory: all}
- {name: one, when: {core: 1..9, mem: present}, devices: 1}
- {name: split, when: {core: 11.., mem: present}, devices: {key: core, per: 10, round: up}}
""",
    "both": """
keys: {part: {resource: both.example/part, is: [memory, cores], unit: 10%, values: 1..10}}
forms: [{name: share, when: {part: present}, devices: 1}]
""",
    "stepped": """
keys:
  gpu:  {resource: stepped.example/gpu, is: devices}
  mem:  {resource: stepped.example/mem, is: memory, unit: 1Mi, values: 2..9, step: 2, round: up}
  core: {resource: stepped.example/core, is: cores, unit: 5%, values: [4, 8, 20], round: up}
forms:
- {name: several, when: {gpu: 3..}, memory: all, cores: 100}
- {name: few, when: {gpu: 1..2}, absent: {memory: unlimited, cores: unlimited}}
""",
    "rows": """
variables: {slice: {rows: {small: {memory: 2Mi, cores: 20}, middle: {memory: 5Mi, cores: 30}, large: {memory: 9Mi, cores: 90}},
  write: [small, large]}}
keys: {slices: {resource: "rows.example/{slice}", is: devices}}
forms: [{name: slice, when: {slices: 1}}]
""",
    "dropping": """
keys:
  gpu:  {resource: dropping.example/gpu, is: devices}
  mem:  {resource: dropping.example/mem, is: memory, unit: 1Mi}
forms: [{name: share, when: {mem: present}, absent: {devices: 1, cores: unlimited}}]
drop: [cores]
""",
}
VENDORS = {name: vendor(f"vendor: {name}\nfamily: {name}{text}") for name, text in DOCUMENTS.items()}
MATRIX = Matrix(replace(POLICY, vendors=VENDORS, largest_card=CARD))


def every_request(source: Vendor) -> Iterator[tuple[str, Request]]:
    """All that a pod can request in a small document's terms on up to four devices, with the form."""
    numbers: list[list[tuple[str, int, tuple[tuple[str, str], ...]] | None]] = []
    for key in source.keys.values():
        devices = "devices" in key.dimensions
        most = 5 if devices else 13 * (4 if key.total else 2)
        rows: list[tuple[tuple[str, str], ...]] = [
            (("slice", name),) for variable in source.variables.values() for name in variable.rows
        ]
        numbers.append([None, *((key.name, number, row) for number in range(1, most) for row in rows or [()])])
    for chosen in itertools.product(*numbers):
        chosen_keys = {
            each[0]: KeyValue(each[0], each[0], str(each[1]), each[1], each[2]) for each in chosen if each is not None
        }
        if not chosen_keys:
            continue
        try:
            reading = read(source, chosen_keys, source.defaults, CARD, "main")
        except Denied:
            continue
        if (reading.request.devices or 1) <= 4:
            yield reading.form.name, reading.request


def became(target: Vendor, request: Request) -> Rendering:
    """What the engine makes of a request."""
    try:
        got = write(target, request, target.defaults, CARD, "main").reading.request
    except NoEquivalent:
        if target.document.drop and request.cores is not UNLIMITED:
            without = became(target, msgspec.structs.replace(request, cores=UNLIMITED))
            return Rendering.DENIED if without is Rendering.DENIED else Rendering.DROPS
        return Rendering.DENIED
    return Rendering.EXACT if got == request else Rendering.ROUNDS


@few_or_all
@pytest.mark.parametrize("source", VENDORS)
def test_every_request_is_as_its_cell_says(source: str, most: int) -> None:
    """None is written or denied against the cell, which has the outcome and the limits that all of them have together.

    What the cell tried has the engine's outcome, and is a request that the source makes.
    """
    requests = dict.fromkeys(every_request(VENDORS[source]))
    for target in partners(source, list(VENDORS), most):
        cell = MATRIX.cell(source, target)
        every = [Tried(form, request, became(VENDORS[target], request), "") for form, request in requests]
        promised = promises(cell)
        for each in every:
            assert each.outcome in promised(each.request), (each, sign(cell))
        few = cell_of(each for each in cell.tried if (each.request.devices or 1) <= 4)
        assert cell_of(every).outcome is few.outcome
        assert sign(cell_of(every)) == sign(few)
        for each in cell.tried:
            assert each.outcome is became(VENDORS[target], each.request), each
            assert (each.request.devices or 1) > 4 or (each.form, each.request) in requests, each


def test_a_target_may_drop_cores() -> None:
    """What is dropped is neither exact nor denied."""
    outcomes = {each.request.cores is UNLIMITED: each.outcome for each in MATRIX.cell("plain", "dropping").tried}
    assert outcomes[False] is Rendering.DROPS
    assert sign(MATRIX.cell("listed", "dropping")) == "!"


BUILT_IN = Matrix(POLICY)


@pytest.mark.parametrize("source", ["aliyun", "intel", "tensor-fusion"])
def test_kunlun_takes_parts_that_it_has(source: str) -> None:
    """Quarters, halves and full devices, each with its memory: both sides of each boundary are tried."""
    cell = BUILT_IN.cell(source, "kunlun")
    parts = {25: (0, 24), 50: (24, 48), 100: (48, 96)}
    seen: set[tuple[object, bool]] = set()
    for each in cell.tried:
        request = each.request
        if request.devices != 1 or not isinstance(request.memory, Size) or not isinstance(request.cores, Percent):
            continue
        least, most = next(parts[part] for part in sorted(parts) if request.cores.value <= part)
        fits = request.cores.value in parts and least * GIB < request.memory.bytes <= most * GIB
        assert each.outcome.written == fits, each
        seen.add((request.cores.value, fits))
    assert seen >= {(part, fits) for part in parts for fits in (True, False)} | {
        (5 if source == "aliyun" else 1, False)
    }
    assert sign(cell) == "?"


@pytest.mark.parametrize("source", ["vcuda", "iluvatar", "hygon", "volcano-legacy", "gpushare"])
def test_mthreads_ends_at_48_gib(source: str) -> None:
    """A bound of the target stands in the cell, although no rule of the source has it."""
    sizes = [
        (each.request.memory.bytes, each.outcome.written)
        for each in BUILT_IN.cell(source, "mthreads").tried
        if isinstance(each.request.memory, Size)
    ]
    assert (48 * GIB, True) in sizes
    assert all(written == (size <= 48 * GIB) for size, written in sizes)
    assert min(size for size, written in sizes if not written) <= 49 * GIB
    assert sign(BUILT_IN.cell(source, "mthreads")) == "~ ≤ 48 GiB"


@pytest.mark.parametrize(
    "source, target, limits, request_",
    [
        ("hygon", "aliyun", "~ size", Request(1, ALL, Percent(1))),
        ("intel", "enflame", "?", Request(1, UNLIMITED, UNLIMITED)),
        ("kunlun", "nano-gpu", "= whole, 1 GPU", Request(1, Size(24 * GIB), Percent(25))),
    ],
)
def test_a_limit_holds_for_each_request(source: str, target: str, limits: str, request_: Request) -> None:
    """`shares` and `1 GPU` once stood here, although this share of one device is denied."""
    cell = BUILT_IN.cell(source, target)
    assert sign(cell) == limits
    assert {each.outcome for each in cell.tried if each.request == request_} == {Rendering.DENIED}


def test_printed_bounds_are_exact() -> None:
    """A bound that is no whole number of a unit is printed without rounding."""
    table = cell_table(POLICY, "vcuda", "mthreads")
    assert "256 MiB to 48 GiB" in table
    assert "49408 MiB to 1 TiB" in table


def test_of_two_that_share_a_name_one_is_active() -> None:
    """What is written for the inactive one, the other reads: the same, or nothing that was meant."""
    assert sign(BUILT_IN.cell("whole", "nvidia")) == "-"
    assert sign(BUILT_IN.cell("gpushare", "aliyun")) == "="
    assert sign(BUILT_IN.cell("timeslicing", "mps")) == "= 1 GPU"


def test_a_source_that_has_to_be_configured() -> None:
    """Requests of a source that has to be configured are denied, with this reason."""
    assert BUILT_IN.cell("mig-single", "nvidia") == Cell(
        Rendering.DENIED, (), ("none of its keys can be read until it is configured",)
    )
