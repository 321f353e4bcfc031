"""Filling in: which defaults apply beside which keys, at home and on the way to another vendor."""

from typing import Any

import pytest

from tests.mapping.vendors import ACME, LARGEST, key_values, vendor
from tests.naming import each_of
from webhook.mapping.model.vendor import Default
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import Reading, fewer
from webhook.reasons import Denied
from webhook.request import ALL, UNLIMITED, Dimension, Percent, Request, Size

MIB = 1024**2
TOTAL = ACME.replace("unit: 1Mi", "unit: 1Mi, total: true")
NEEDS_BOTH = ACME.replace(
    "- {name: share, absent: {devices: 1, memory: all, cores: unlimited}}",
    """\
- {name: whole, when: {core: 100}, devices: 1, memory: all, cores: 100}
- {name: several, when: {gpu: 2.., core: present}, memory: all}
- {name: share, when: {mem: present, core: present}, devices: 1}
- {deny: "write {mem} and {core}"}""",
)
LEGAL = ACME.replace("unit: 1Mi", "unit: 1Mi, values: 1000..2000 by 1000")


def filled(text: str, keys: dict[str, int], defaults: dict[Dimension, Any], *, home: bool) -> Reading:
    """What the keys mean with these defaults of a namespace."""
    acme = vendor(text)
    defaulted = {dimension: Default(value, "namespace") for dimension, value in defaults.items()}
    return read(acme, key_values(acme, keys), defaulted, LARGEST, "main", home=home)


def test_ever_fewer() -> None:
    """All, then without the count of devices, and so on down to none, each in the order of the defaults."""
    assert [list(each) for each in fewer({"devices": 1, "memory": 2, "cores": 3})] == [
        ["devices", "memory", "cores"],
        ["memory", "cores"],
        ["devices", "memory"],
        ["devices", "cores"],
        ["memory"],
        ["cores"],
        ["devices"],
        [],
    ]


FILLED: list[tuple[str, dict[str, int], dict[Dimension, Any], Request, set[str]]] = [
    (
        ACME,
        {"acme.com/mem": 8},
        {"devices": 4, "cores": Percent(30)},
        Request(4, Size(8 * MIB), Percent(30)),
        {"devices", "cores"},
    ),
    # A total would be divided anew.
    (TOTAL, {"acme.com/mem": 8}, {"devices": 4}, Request(1, Size(8 * MIB), UNLIMITED), set()),
    (TOTAL, {"acme.com/mem": 8}, {"devices": 1}, Request(1, Size(8 * MIB), UNLIMITED), {"devices"}),
    (
        TOTAL,
        {"acme.com/core": 30},
        {"devices": 4, "memory": Size(MIB)},
        Request(4, Size(MIB), Percent(30)),
        {"devices", "memory"},
    ),
    # Keys that make no request by themselves are completed, where each of them still counts.
    (NEEDS_BOTH, {"acme.com/mem": 8}, {"cores": Percent(30)}, Request(1, Size(8 * MIB), Percent(30)), {"cores"}),
    (NEEDS_BOTH, {"acme.com/core": 30}, {"memory": Size(MIB)}, Request(1, Size(MIB), Percent(30)), {"memory"}),
    (
        NEEDS_BOTH,
        {"acme.com/core": 30},
        {"devices": 2, "memory": Size(MIB)},
        Request(1, Size(MIB), Percent(30)),
        {"memory"},
    ),
]


@each_of("home", [True, False])
@each_of("text, keys, defaults, request_, names", FILLED)
def test_filled(
    text: str,
    keys: dict[str, int],
    defaults: dict[Dimension, Any],
    request_: Request,
    names: set[str],
    *,
    home: bool,
) -> None:
    """What is specified stays; at home each default that fills has its key."""
    reading = filled(text, keys, defaults, home=home)
    assert reading.request == request_
    assert set(reading.filled) == names
    assert set(reading.passed_over) == defaults.keys() - names - reading.specified
    if home:
        compiled_keys = vendor(text).keys
        assert {dimension for name in reading.added for dimension in compiled_keys[name].dimensions} == names


@each_of("home", [True, False])
@each_of(
    "keys, defaults",
    [
        ({"acme.com/mem": 8}, {"cores": Percent(100)}),
        ({"acme.com/mem": 8}, {"cores": Percent(100), "devices": 2}),
        ({"acme.com/mem": 8}, {"devices": 2}),
        ({"acme.com/core": 30}, {"devices": 1}),
        ({"acme.com/gpu": 2}, {"memory": Size(MIB)}),
    ],
)
def test_denied_for_what_is_missing(keys: dict[str, int], defaults: dict[Dimension, Any], *, home: bool) -> None:
    """A default that would make another request of the keys does not complete them: the vendor's own denial stays."""
    with pytest.raises(Denied, match=r"write acme\.com/mem and acme\.com/core"):
        filled(NEEDS_BOTH, keys, defaults, home=home)


def test_only_what_a_key_can_specify_at_home() -> None:
    """A default beyond the legal numbers fills by value on the way to another vendor, and is passed over at home."""
    filled_in = filled(LEGAL, {"acme.com/gpu": 1}, {"memory": Size(5000 * MIB)}, home=False)
    assert filled_in.request.memory == Size(5000 * MIB)
    home = filled(LEGAL, {"acme.com/gpu": 1}, {"memory": Size(5000 * MIB), "cores": Percent(30)}, home=True)
    assert home.request == Request(1, ALL, Percent(30))
    assert (set(home.filled), set(home.added), home.passed_over) == ({"cores"}, {"core"}, ("memory",))
    rounded = filled(LEGAL, {"acme.com/gpu": 1}, {"memory": Size(500 * MIB)}, home=True)
    assert rounded.request.memory == Size(500 * MIB)
    assert rounded.spelled is not None
    assert rounded.spelled.memory == Size(1000 * MIB)


def test_all_of_a_card_needs_no_key_where_it_is_meant() -> None:
    """`memory: all` is what the absence of memory means: nothing is added, and nothing reported."""
    reading = filled(ACME, {"acme.com/gpu": 1}, {"memory": ALL}, home=True)
    assert (reading.request, reading.filled, reading.added, reading.passed_over) == (Request(1, ALL, ALL), {}, {}, ())


KINDS = """\
vendor: acme
family: acme
keys:
  gpu: {resource: acme.com/gpu, is: devices}
  mem: {resource: acme.com/mem, is: memory, unit: 1Mi}
  core: {resource: acme.com/core, is: cores}
  spare: {resource: acme.com/spare, is: other}
forms:
- {name: share, when: {core: 1..100, mem: present}, devices: 1}
- {name: spare, when: {spare: 1..10, core: absent, mem: present}, devices: 1, cores: unlimited, write: false}
- {deny: "write {mem} and {core}"}
"""


@each_of("home", [True, False])
@each_of(
    "keys, defaults",
    [
        # All cores of a device and no memory are a whole device, and a default of memory would be less.
        ({"acme.com/core": 100}, {"memory": Size(8 * MIB)}),
        # A key that makes a form of its own would mean nothing beside the default's.
        ({"acme.com/spare": 11, "acme.com/mem": 8}, {"cores": Percent(30)}),
    ],
)
def test_no_completion_that_changes_what_is_specified(
    keys: dict[str, int], defaults: dict[Dimension, Any], *, home: bool
) -> None:
    """The keys are denied as they are without the default."""
    with pytest.raises(Denied, match=r"write acme\.com/mem and acme\.com/core"):
        filled(KINDS, keys, defaults, home=home)


@each_of("home", [True, False])
@each_of("percent, cores", [(100, None), (50, Percent(30))])
def test_all_memory_is_not_completed_to_less_than_a_device(percent: int, cores: Percent | None, *, home: bool) -> None:
    """Nor are all cores, as above; less than all of a device may be."""
    percentages = KINDS.replace("unit: 1Mi", "unit: 1%")
    keys = {"acme.com/mem": percent}
    defaults: dict[Dimension, Any] = {"cores": Percent(30)}
    if cores is None:
        with pytest.raises(Denied, match=r"write acme\.com/mem and acme\.com/core"):
            filled(percentages, keys, defaults, home=home)
    else:
        assert filled(percentages, keys, defaults, home=home).request == Request(1, Percent(percent), cores)


WHOLE_CARDS = """\
vendor: acme
family: acme
keys:
  gpu: {resource: acme.com/gpu, is: devices}
  mem: {resource: acme.com/mem, is: memory, unit: 1Mi, values: 2.. by 2, round: up}
  core: {resource: acme.com/core, is: cores}
forms:
- {when: {gpu: absent}, deny: "write {gpu}"}
- {name: whole, when: {mem: absent}, memory: all, keys: {core: {values: [100], round: up}}, absent: {cores: 100}}
- {name: share, absent: {cores: unlimited}}
"""


@pytest.mark.parametrize("home", [True, False])
def test_no_completion_by_a_form_that_corrects(*, home: bool) -> None:
    """What the vendor corrects in every form is completed; what only the completed form corrects is not: it was less."""
    assert filled(WHOLE_CARDS, {"acme.com/mem": 3}, {"devices": 1}, home=home).request.memory == Size(4 * MIB)
    with pytest.raises(Denied, match=r"write acme\.com/gpu"):
        filled(WHOLE_CARDS, {"acme.com/core": 6}, {"devices": 1}, home=home)
