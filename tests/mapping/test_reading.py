"""Reading: what keys mean by each built-in vendor's own rules, with defaults, or why they are refused."""

import pytest

from tests.mapping.vendors import ACME, reading, vendor
from tests.naming import each_of
from webhook.mapping.load import load_policy
from webhook.reasons import Denied, Reason, Step
from webhook.request import ALL, UNLIMITED, Cores, Memory, Percent, Request, Size

BUILT_IN = load_policy()

GIB = 1024**3
MIB = 1024**2


def request(devices: int, memory: Memory, cores: Cores) -> Request:
    """A settled request."""
    return Request(devices, memory, cores)


REFUSED: list[tuple[str, dict[str, str | int], Reason, str]] = [
    ("nvidia", {"nvidia.com/gpucores": "30500m"}, Reason.NOT_WHOLE, "1 is 1 % of a device"),
    ("nvidia", {"nvidia.com/gpu": "1500m"}, Reason.NOT_WHOLE, ": it counts devices$"),
    ("vcuda", {"tencent.com/vcuda-core": 409_750}, Reason.TOO_LARGE, "requests 4098 devices"),
    ("nvidia", {"nvidia.com/gpumem-percentage": 101}, Reason.TOO_LARGE, "write 1 to 100"),
    ("nvidia", {"nvidia.com/gpumem": "8Gi"}, Reason.TOO_LARGE, "write 8192 if 8589934592 are bytes$"),
    (
        "nvidia",
        {"nvidia.com/gpumem": 1024**3},
        Reason.TOO_LARGE,
        "write 1024 if 1073741824 are bytes or 1048576 if KiB$",
    ),
    (
        "nvidia",
        {"nvidia.com/gpumem": 256 * MIB},
        Reason.TOO_LARGE,
        "counts MiB: write 256 if 268435456 are bytes or 262144 if KiB$",
    ),
    ("nvidia", {"nvidia.com/gpumem": "1048577"}, Reason.TOO_LARGE, "write 1025 if 1048577 are KiB or 2 if bytes$"),
    ("iluvatar", {"iluvatar.ai/MR-V100.vMem": 64}, Reason.UNSUPPORTED_BY_VENDOR, "add iluvatar.ai/MR-V100-vgpu: 1"),
    ("aliyun", {"aliyun.com/gpu-mem": 1, "aliyun.com/gpu-count": 3}, Reason.NOT_DIVISIBLE, "write 3$"),
]


@each_of("name, keys, reason, text", REFUSED)
def test_refused_by_the_vendors_rules(name: str, keys: dict[str, str | int], reason: Reason, text: str) -> None:
    """With what to write instead, as far as no golden case shows it."""
    with pytest.raises(Denied, match=text) as caught:
        reading(BUILT_IN.vendors[name], keys)
    assert caught.value.finding.reason is reason
    assert caught.value.finding.container == "main"


CORRECTING = ACME.replace("is: cores", "is: cores, values: [10, 50, 100], round: up")
FLOORING = ACME.replace("unit: 1Mi", "unit: 1Mi, total: true, round: down").replace(
    "is: cores", "is: cores, values: 5..100 by 5, round: down"
)


@each_of(
    "text, keys, expected, corrections, reasons",
    [
        (CORRECTING, {"acme.com/core": 10}, request(1, ALL, Percent(10)), {}, []),
        (CORRECTING, {"acme.com/core": 11}, request(1, ALL, Percent(50)), {"core": 50}, [Reason.CORRECTED]),
        (
            FLOORING,
            {"acme.com/gpu": 2, "acme.com/mem": 31},
            request(2, Size(15 * MIB), UNLIMITED),
            {},
            [Reason.ROUNDED_DOWN],
        ),
        (
            FLOORING,
            {"acme.com/mem": 8, "acme.com/core": 33},
            request(1, Size(8 * MIB), Percent(30)),
            {},
            [Reason.ROUNDED_DOWN],
        ),
        (
            ACME.replace("- {name: share,", "- {name: share, memory: 1Gi,"),
            {"acme.com/mem": 8},
            request(1, Size(GIB), UNLIMITED),
            {},
            [Reason.KEY_IGNORED],
        ),
    ],
)
def test_what_a_vendor_rounds_is_reported(
    text: str, keys: dict[str, str | int], expected: Request, corrections: dict[str, int], reasons: list[Reason]
) -> None:
    """Rounding up is a correction that is written, rounding down is reported only; a key without effect is named."""
    found = reading(vendor(text), keys)
    assert (found.request, found.corrections) == (expected, corrections)
    assert [finding.reason for finding in found.findings] == reasons


def test_the_part_of_each_device_is_rounded_down() -> None:
    """The number is that of the pod, what is lost that of a device."""
    (found,) = reading(
        vendor(FLOORING.replace("is: cores", "is: cores, total: true")), {"acme.com/gpu": 2, "acme.com/core": 64}
    ).findings
    assert found.message == "acme.com/core: 64 is rounded down to 30 each by acme"
    assert (found.value, found.step) == ("64", Step("acme.com/core", "32 each", "30 each", "-2"))


@each_of(
    "text, keys, reason",
    [
        (FLOORING, {"acme.com/gpu": 40, "acme.com/mem": 31}, Reason.NOT_DIVISIBLE),
        (FLOORING, {"acme.com/core": 3}, Reason.NOT_LEGAL),
        (
            ACME.replace("unit: 1Mi", "unit: null, why: read the manual"),
            {"acme.com/mem": 1},
            Reason.UNIT_NOT_CONFIGURED,
        ),
        (ACME.replace("memory: all, ", ""), {"acme.com/gpu": 1}, Reason.DIMENSION_MISSING),
        (ACME.replace("{name: share,", "{name: share, when: {gpu: 1..4},"), {"acme.com/gpu": 5}, Reason.NO_FORM),
        (
            ACME.replace("name: share", "devices: {key: core, per: 100}").replace("devices: 1, ", ""),
            {"acme.com/core": 150},
            Reason.NOT_DIVISIBLE,
        ),
        (
            ACME.replace("name: share", "devices: {key: core, per: 100, round: down}").replace("devices: 1, ", ""),
            {"acme.com/core": 50},
            Reason.NOT_LEGAL,
        ),
    ],
)
def test_what_makes_no_request(text: str, keys: dict[str, str | int], reason: Reason) -> None:
    """Each has a reason of its own."""
    with pytest.raises(Denied) as caught:
        reading(vendor(text), keys)
    assert caught.value.finding.reason is reason


def test_a_denial_spells_keys_as_the_pod_does() -> None:
    """By the variable of any of its keys, wherever that key stands."""
    chips = vendor("""\
vendor: acme
family: acme
variables: {chip: {values: [x1, x2]}}
keys:
  gpu:  {resource: 'acme.com/{chip}', is: devices}
  mem:  {resource: 'acme.com/{chip}-mem', is: memory, unit: 1Mi}
  core: {resource: acme.com/core, is: cores}
forms:
- {name: share, when: {gpu: present, mem: present}}
- {when: {mem: absent}, deny: 'write {mem}'}
""")
    with pytest.raises(Denied) as denied:
        reading(chips, {"acme.com/x2": 1, "acme.com/core": 30})
    assert denied.value.finding.message == "write acme.com/x2-mem"
