"""The matrix against every request of small documents with every kind of rule, and built-in cells that were false."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import msgspec
import pytest

from tests.mapping.vendors import vendor
from webhook.cli.output.vendor_pages import cell_table, sign
from webhook.finding import Denied
from webhook.mapping.load import load_policy
from webhook.mapping.matrix.outcomes import Cell, Rendering
from webhook.mapping.matrix.rows import Matrix
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import KeyValue
from webhook.mapping.requests.writing import NoEquivalent, write
from webhook.request import UNLIMITED, Percent, Request, Size

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


@cache
def every_request(source: str) -> tuple[tuple[str, Request], ...]:
    """Each request of a small document once; they are the same for every target."""
    return tuple(dict.fromkeys(_every_request(VENDORS[source])))


def _every_request(source: Vendor) -> Iterator[tuple[str, Request]]:
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
        if target.drop and request.cores is not UNLIMITED:
            without = became(target, msgspec.structs.replace(request, cores=UNLIMITED))
            return Rendering.DENIED if without is Rendering.DENIED else Rendering.DROPS
        return Rendering.DENIED
    return Rendering.EXACT if got == request else Rendering.ROUNDS


@pytest.mark.parametrize("source", VENDORS)
@pytest.mark.parametrize("target", VENDORS)
def test_every_request_is_as_its_cell_says(source: str, target: str) -> None:
    """None is left out; and each part that rounds, drops or denies has a request that shows it."""
    if source == target:
        return
    cell = MATRIX.cell(source, target)
    shown: set[object] = set()
    for form, request in every_request(source):
        outcome, what = cell.of(form, request), became(VENDORS[target], request)
        assert outcome is what or (outcome is Rendering.ROUNDS and what is Rendering.EXACT), (form, request, cell)
        shown |= {(part, what) for part in cell.parts if part.holds(form, request)}
    for part in cell.parts:
        assert part.devices[0] > 4 or (part, part.outcome) in shown, part


def test_counts_that_no_request_has_divide_nothing() -> None:
    """Of a source that takes 1 and even counts, a target whose bounds depend on the count made a part for each even one."""
    parts = MATRIX.cell("paired", "totals").parts
    assert len(parts) < 40
    assert {part.devices[0] % 2 for part in parts if part.devices[0] > 1} == {0}


def test_a_target_may_drop_cores() -> None:
    """What is dropped is neither exact nor denied."""
    assert MATRIX.cell("plain", "dropping").of("share", Request(1, Size(MIB), Percent(10))) is Rendering.DROPS
    assert MATRIX.cell("plain", "dropping").of("share", Request(1, Size(MIB), UNLIMITED)) is Rendering.EXACT
    assert sign(MATRIX.cell("listed", "dropping")) == "!"


BUILT_IN = Matrix(POLICY)


@pytest.mark.parametrize("source, form", [("aliyun", "one device"), ("intel", "share"), ("tensor-fusion", "share")])
def test_kunlun_takes_parts_that_it_has(source: str, form: str) -> None:
    """Quarters, halves and full devices, each with its memory; they were all called refused."""
    cell = BUILT_IN.cell(source, "kunlun")
    for percent, least, most in ((25, 0, 24), (50, 24, 48), (100, 48, 96)):
        cores = Percent(percent)
        assert cell.of(form, Request(1, Size(most * GIB), cores)) is Rendering.ROUNDS
        assert cell.of(form, Request(1, Size((most + 1) * GIB), cores)) is Rendering.DENIED
        assert least == 0 or cell.of(form, Request(1, Size(least * GIB), cores)) is Rendering.DENIED
    assert cell.of(form, Request(1, Size(GIB), Percent(30))) is Rendering.DENIED
    assert sign(cell) == "?"


@pytest.mark.parametrize(
    "source, form, cores",
    [
        ("vcuda", "share", Percent(50)),
        ("iluvatar", "share", Percent(50)),
        ("hygon", "share", Percent(50)),
        ("volcano-legacy", "part of one device", UNLIMITED),
        ("gpushare", "part of one device", UNLIMITED),
    ],
)
def test_mthreads_ends_at_48_gib(source: str, form: str, cores: Percent) -> None:
    """A bound of the target stands in the cell; the first were once shown as rounded, the last as exact."""
    cell = BUILT_IN.cell(source, "mthreads")
    assert cell.of(form, Request(1, Size(48 * GIB), cores)) is Rendering.ROUNDS
    assert cell.of(form, Request(1, Size(49 * GIB), cores)) is Rendering.DENIED
    assert sign(cell) == "~ ≤ 48 GiB"


def test_printed_bounds_are_exact() -> None:
    """Bounds of neighboring parts differ by one byte, and are printed without rounding."""
    table = cell_table(POLICY, "intel", "kunlun")
    assert "1 B to 24 GiB" in table
    assert f"{24 * GIB + 1} B to 48 GiB" in table
    assert f"{96 * GIB + 1} B to 1 TiB" in table
    assert " MiB to " not in table


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
