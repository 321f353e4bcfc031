"""The device that a pod selects: what says it, and that memory in the other unit is the least that is enough."""

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mapping.vendors import policy
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.overrides import selected_devices
from webhook.mapping.model.policy import Policy
from webhook.mapping.requests.values import for_device_size
from webhook.pod import decode_pod
from webhook.reasons import Reason
from webhook.request import ALL, UNLIMITED, Memory, Percent, Request, Size

GIB = 1024**3
LABEL = "nvidia.com/gpu.product"
PARTS = """\
vendor: parts
family: nvidia
keys:
  card: {resource: parts.example/card, is: devices}
  part: {resource: parts.example/part, is: memory, unit: 1%}
forms:
- {name: share, absent: {devices: 1, cores: unlimited}}
"""
CARDS = "cards: {A: 40Gi, B: 40Gi, T4: 15Gi}\ncardLabels: [corp.example/card]\n"
POLICY = policy(PARTS, settings=CARDS)
NAMESPACE = Namespace("n", {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"})


def pod(keys: dict[str, str], target: str, **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    container = {"name": "main", "resources": {"limits": keys, "requests": dict(keys)}}
    metadata = {"name": "p", "annotations": {"vgpu-webhook.io/target": target}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def decided(sent: dict[str, Any], in_force: Policy = POLICY) -> Decision:
    """The decision on a pod."""
    return decide(decode_pod(json.dumps(sent).encode()), Context(NAMESPACE), in_force)


def limits(sent: dict[str, Any], in_force: Policy = POLICY) -> dict[str, str]:
    """The limits of the only container as they are stored; a second pass changes nothing."""
    stored = apply_strictly(sent, decided(sent, in_force).patch)
    assert decided(stored, in_force).patch == ()
    found: dict[str, str] = stored["spec"]["containers"][0]["resources"]["limits"]
    return found


def term(*values: str, operator: str = "In", key: str = LABEL) -> dict[str, Any]:
    """An alternative with one requirement."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def both(*terms: dict[str, Any]) -> dict[str, Any]:
    """An alternative with the requirements of all."""
    return {"matchExpressions": [requirement for term in terms for requirement in term["matchExpressions"]]}


def required(*terms: Any) -> dict[str, Any]:
    """A spec with required node affinity."""
    selector = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


ZONE = term("z", key="zone")
KNOWN: dict[str, tuple[dict[str, Any], str, int | None]] = {
    "selector": ({"nodeSelector": {LABEL: "T4"}}, "T4", 15),
    "own label": ({"nodeSelector": {"corp.example/card": "T4"}}, "T4", 15),
    "affinity": (required(term("T4")), "T4", 15),
    "alternatives alike": (required(term("A"), term("B")), "A or B", 40),
    "values alike": (required(term("A", "B")), "A or B", 40),
    "beside another requirement": (required(both(ZONE, term("A"))), "A", 40),
    "twice in one alternative": (required(both(term("A", "T4"), term("T4", "B"))), "T4", 15),
    "selector narrows affinity": ({"nodeSelector": {LABEL: "T4"}, **required(term("A", "T4"))}, "T4", 15),
    "selector beside an open affinity": ({"nodeSelector": {LABEL: "T4"}, **required(ZONE)}, "T4", 15),
    "values that differ": (required(term("A", "T4")), "A or T4", None),
    "alternatives that differ": (required(term("A"), term("T4")), "A or T4", None),
    "not configured": ({"nodeSelector": {LABEL: "H20"}}, "H20", None),
    "one not configured": (required(term("A", "H20")), "H20", None),
    "many": (required(term("X", "Y", "Z")), "X or Y or others", None),
}


@each_of("name", KNOWN)
def test_what_a_pod_says_of_its_card(name: str) -> None:
    """By the node selector and every alternative of required affinity."""
    spec, names, memory = KNOWN[name]
    (card,) = selected_devices(decode_pod(json.dumps(pod({}, "aliyun", **spec)).encode()), POLICY)
    assert card.names == names
    assert card.memory == (None if memory is None else memory * GIB)


@each_of(
    "spec",
    [
        {},
        {"nodeSelector": {"zone": "A"}},
        {"nodeSelector": None, "affinity": None},
        {"affinity": {"nodeAffinity": None}},
        {"affinity": {"nodeAffinity": 1}},
        {"affinity": {"podAffinity": {}}},
        required(),
        required(ZONE),
        required(term("A"), ZONE),
        required(term("A"), {}),
        required(term("A", operator="NotIn")),
        required(term("A"), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
        required(both(term("A"), term("T4"))),
        {"nodeSelector": {LABEL: "T4"}, **required(term("A"))},
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term("A")}]
                }
            }
        },
    ],
)
def test_what_says_nothing(spec: dict[str, Any]) -> None:
    """Neither preferences, nor other operators, nor what is left open or contradicts itself."""
    assert selected_devices(decode_pod(json.dumps(pod({}, "aliyun", **spec)).encode()), POLICY) == ()


def test_without_the_setting_no_pod_is_looked_at() -> None:
    """An affinity is then not even decoded: this one could not be."""
    view = decode_pod(json.dumps(pod({}, "aliyun", nodeSelector={LABEL: "A"}, affinity=[])).encode())
    assert selected_devices(view, policy()) == ()


def test_labels_of_other_hardware_do_not_count() -> None:
    """An NVIDIA device says nothing of one of another family; a label of the cluster's own may."""
    keys = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "30"}
    sent = pod(keys, "iluvatar", nodeSelector={LABEL: "A"})
    denial = decided(sent).denial
    assert denial is not None
    assert "select one of the setting `cards` by nodeSelector corp.example/card" in denial.message
    sent = pod(keys, "iluvatar", nodeSelector={"corp.example/card": "A"})
    assert str(20 * 4) in limits(sent).values()


def test_labels_that_contradict_each_other() -> None:
    """Two labels, two sizes: neither is believed."""
    keys = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}
    denial = decided(pod(keys, "aliyun", nodeSelector={LABEL: "A", "corp.example/card": "T4"})).denial
    assert denial is not None
    assert "name devices that differ in memory: keep one" in denial.message


def test_without_labels_both_settings_are_named() -> None:
    """Where no mapping of the family names a label, the message says that one is to be configured."""
    keys = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}
    denial = decided(pod(keys, "iluvatar"), policy()).denial
    assert denial is not None
    assert denial.reason is Reason.NO_EQUIVALENT
    assert "set `cards` and `cardLabels` in the settings" in denial.message


@pytest.mark.parametrize(
    "target,written", [("aliyun", None), ("parts", {"parts.example/card": "1", "parts.example/part": "100"})]
)
def test_whole_cards_stay_whole(target: str, written: dict[str, str] | None) -> None:
    """All of a device is no size, whatever the card: where no key says it, it is refused."""
    keys = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "100"}
    sent = pod(keys, target, nodeSelector={LABEL: "A"})
    if written is None:
        assert decided(sent).reason is Reason.NO_EQUIVALENT
    else:
        assert limits(sent) == written
        assert Reason.DEVICE_MEMORY_ASSUMED not in {finding.reason for finding in decided(sent).warnings}
    assert for_device_size(Request(1, ALL, ALL), 40 * GIB) is None
    assert for_device_size(Request(1, Size(40 * GIB), Percent(30)), 40 * GIB) == Request(1, ALL, Percent(30))
    assert for_device_size(Request(1, Size(40 * GIB + 1), Percent(30)), 40 * GIB) is None


@given(st.integers(1, 99), st.integers(1, 4), st.sampled_from([("A", 40), ("T4", 15)]))
def test_percent_to_size(percent: int, devices: int, card: tuple[str, int]) -> None:
    """The least whole GiB per device that are as much, times the devices."""
    keys = {"nvidia.com/gpu": str(devices), "nvidia.com/gpumem-percentage": str(percent)}
    written = limits(pod(keys, "aliyun", nodeSelector={LABEL: card[0]}))
    assert written == {"aliyun.com/gpu-mem": str(math.ceil(Fraction(card[1] * percent, 100)) * devices)}


@given(st.integers(1, 15 * 1024), st.sampled_from([("A", 40), ("T4", 15)]))
def test_size_to_percent(size: int, card: tuple[str, int]) -> None:
    """The least whole percentage that is as much."""
    keys = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(size)}
    written = limits(pod(keys, "parts", nodeSelector={LABEL: card[0]}))
    assert written == {
        "parts.example/card": "1",
        "parts.example/part": str(math.ceil(Fraction(size * 100, card[1] * 1024))),
    }


@given(
    st.one_of(
        st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(99)).map(Percent),
        st.integers(1, 39 * GIB).map(Size),
    ),
    st.sampled_from([Percent(30), UNLIMITED]),
)
def test_there_and_back_is_never_less(memory: Memory, cores: Any) -> None:
    """Each direction rounds up, by less than a byte."""
    converted = for_device_size(Request(2, memory, cores), 40 * GIB)
    assert converted is not None
    assert (converted.devices, converted.cores) == (2, cores)
    back = for_device_size(converted, 40 * GIB)
    assert back is not None
    if isinstance(memory, Size):
        assert back.memory == memory
    else:
        assert isinstance(memory, Percent)
        assert isinstance(back.memory, Percent)
        assert 0 <= back.memory.value - memory.value < Fraction(100, 40 * GIB)


def test_pods_with_different_cards_do_not_borrow_from_each_other() -> None:
    """Neither the outcome of a plain pod nor the resolution of its keys is that of another device."""
    keys = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}
    specs = [{"nodeSelector": {LABEL: "A"}}, {"nodeSelector": {LABEL: "T4"}}, required(term("A")), required(term("T4"))]
    mounted = [{"name": "x", "mountPath": "/x"}]
    for volumes in ({}, {"volumes": mounted}):
        got = [limits(pod(keys, "aliyun", **spec, **volumes)) for spec in (*specs, *reversed(specs))]
        assert [each["aliyun.com/gpu-mem"] for each in got] == ["20", "8", "20", "8", "8", "20", "8", "20"]
    assert decided(pod(keys, "aliyun")).denial is not None
