"""Forms that leave alone, keys in the nodeSelector, names that may be a count: what a document may say, and what it does."""

import json
from typing import Any

import pytest

from tests.naming import each_of
from webhook.admission import Context, Decision, Namespace, decide
from webhook.explanation.pods import explain_pod
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod

CONTEXT = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled"}), pod_security_default="privileged")
ELSEWHERE = """
vendor: elsewhere
family: nvidia
keys:
  card:  {resource: elsewhere.example/card, is: devices, otherNames: "elsewhere.example/*card*"}
  vram:  {resource: elsewhere.example/vram, is: memory, unit: 1Mi}
  cloud: {nodeSelector: [cloud.example/sharing, cloud.example/cut], is: text}
forms:
- {when: {cloud: present, vram: absent}, leave: "the cloud shares {card} by the nodeSelector {cloud}"}
- {when: {cloud: present}, deny: "leave {vram} out, or {cloud}"}
- {name: share, absent: {devices: 1, memory: all, cores: unlimited}}
defaults: {devices: 1, memory: 1Gi}
place: {scheduler: elsewhere}
"""
CARD, VRAM = "elsewhere.example/card", "elsewhere.example/vram"


def policy(text: str = ELSEWHERE, settings: str = "{}") -> Policy:
    """The built-in vendors with a document."""
    return build_policy(parse(text, "mapping"), parse(settings, "settings")[0])


POLICY = policy()


def pod(*containers: dict[str, str], selector: dict[str, str] | None = None, target: str | None = None) -> Any:
    """A pod whose containers have these resources."""
    made = [
        {"name": f"c{at}", "resources": {"limits": limits, "requests": dict(limits)}}
        for at, limits in enumerate(containers)
    ]
    notes = {} if target is None else {"vgpu-webhook.io/target": target}
    return {"metadata": {"name": "p", "annotations": notes}, "spec": {"nodeSelector": selector, "containers": made}}


def decided(made: Any, by: Policy = POLICY) -> Decision:
    """The decision on a pod."""
    return decide(decode_pod(json.dumps(made).encode()), CONTEXT, by)


@each_of("target", [None, "nvidia", "volcano"])
@each_of("key", ["cloud.example/sharing", "cloud.example/cut"])
def test_left_alone(key: str, target: str | None) -> None:
    """Nothing is filled in, translated, placed or reported; the sentence is for `explain`."""
    made = pod({CARD: "1"}, selector={key: "by-time"}, target=target)
    decision = decided(made)
    assert (decision.allowed, decision.patch_json, decision.warnings) == (True, b"", ())
    (container,) = explain_pod(decode_pod(json.dumps(made).encode()), CONTEXT, POLICY)["containers"]
    assert container["rows"]["means"] == [(f"stays unchanged: the cloud shares {CARD} by the nodeSelector {key}", "")]


def test_several_slices_are_left_alone() -> None:
    """Two names of one variable in a container: `explain` says why they stay."""
    made = pod({"nvidia.com/mig-1g.5gb": "1", "nvidia.com/mig-2g.10gb": "1"})
    assert decided(made).allowed
    (container,) = explain_pod(decode_pod(json.dumps(made).encode()), CONTEXT, POLICY)["containers"]
    why = "several names in one container, which only its plugin can tell apart"
    assert container["rows"]["means"] == [(f"stays unchanged: {why}", "")]


def test_both_keys_may_stand() -> None:
    """As GKE's do."""
    both = {"cloud.example/sharing": "by-time", "cloud.example/cut": "small"}
    assert decided(pod({CARD: "1"}, selector=both)).patch_json == b""


def test_by_the_nodes_that_are_selected() -> None:
    """Pods that differ in nothing else are not taken for each other, nor by what was remembered."""
    for _ in range(2):
        assert decided(pod({CARD: "1"})).patch_json
        assert not decided(pod({CARD: "1"}, selector={"cloud.example/sharing": "by-time"})).patch_json
        denial = decided(pod({CARD: "1", VRAM: "5"}, selector={"cloud.example/cut": "small"})).denial
        assert denial is not None
        assert denial.message == f"leave {VRAM} out, or cloud.example/cut"


def test_the_nodeselector_alone_requests_nothing() -> None:
    """It says what other keys mean."""
    assert decided(pod({}, selector={"cloud.example/sharing": "by-time"})).reason.code == "VGW001"


@pytest.mark.parametrize("target, code", [("nvidia", "VGW319"), (None, "VGW009")])
def test_perhaps_the_count(target: str | None, code: str) -> None:
    """Beside a name that may be the count none is filled in, and nothing is written elsewhere; beside the count it is none."""
    made = pod({"elsewhere.example/ourcard": "2", VRAM: "500"}, target=target)
    decision = decided(made)
    assert decision.reason.code == code
    assert CARD.replace("/", "~1") not in decision.patch_json.decode()
    assert decided(pod({"elsewhere.example/ourcard": "2", CARD: "1", VRAM: "500"}, target=target)).allowed


ROWS = """
vendor: rows
family: nvidia
variables:
  chip:
    rows:
      small: {values: {vram: {part: [4, 8], several: 8}}, all: {vram: 8}}
      large: {values: {vram: [4, 8, 16]}, all: {vram: 16}}
keys:
  card: {resource: "rows.example/{chip}", is: devices}
  vram: {resource: "rows.example/{chip}-vram", is: memory, unit: 1Gi, round: up}
forms:
- {when: {card: absent}, deny: "{card} is missing"}
- {name: part, when: {card: 1}, absent: {memory: all, cores: unlimited}}
- {name: several, keys: {vram: {round: null}}, absent: {memory: all, cores: unlimited}}
"""


@each_of(
    "chip, cards, vram, meant",
    [
        ("small", 1, 3, "4096Mi"),
        ("small", 1, 7, "100%"),
        ("small", 2, 8, "100%"),
        ("small", 2, 4, "rows.example/small-vram: 4 is not allowed: rows accepts 8"),
        ("large", 2, 8, "8192Mi"),
        ("large", 1, 16, "100%"),
    ],
)
def test_numbers_by_form(chip: str, cards: int, vram: int, meant: str) -> None:
    """A row says which numbers are legal in which form, and which are all of a device."""
    decision = decided(pod({f"rows.example/{chip}": str(cards), f"rows.example/{chip}-vram": str(vram)}), policy(ROWS))
    if decision.denial is not None:
        assert decision.denial.message == meant
        return
    assert decision.status["containers"]["c0"]["request"]["memory"] == meant


@each_of(
    "resources, target",
    [
        ({"huawei.com/Ascend910B3-core": "40"}, None),
        ({"huawei.com/Ascend910B3-memory": "16384"}, None),
        ({"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "70000"}, None),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "70000"}, "ascend"),
    ],
)
def test_messages_name_the_chip(resources: dict[str, str], target: str | None) -> None:
    """Where the pod or the cluster says which chip is meant, no message has its variable."""
    by = policy("{extends: ascend, variables: {chip: {write: 910B3}}}")
    denial = decided(pod(resources, target=target), by).denial
    assert denial is not None
    assert "huawei.com/Ascend910B3" in denial.message
    assert "{" not in denial.message


@pytest.mark.parametrize("target, code", [(None, "VGW012"), ("iluvatar", "VGW321"), ("nvidia", "VGW321")])
def test_no_default_for_an_unknown_size(target: str | None, code: str) -> None:
    """What a slice holds that nobody knows is not what the namespace's defaults say."""
    notes = {"vgpu-webhook.io/default-memory": "all", "vgpu-webhook.io/default-cores": "100"}
    context = Context(
        Namespace("team", {"vgpu-webhook.io/inject": "enabled"}, notes), pod_security_default="privileged"
    )
    made = pod({"nvidia.com/mig-1g.34gb": "1"}, target=target)
    assert decide(decode_pod(json.dumps(made).encode()), context, POLICY).reason.code == code


def test_one_container_beside_those_that_are_left_alone() -> None:
    """A vendor that serves one container serves it beside containers of another system, however many these are."""
    text = f"{ELSEWHERE}containers: one\n".replace("{cloud: present, vram: absent}", "{card: absent}")
    text = text.replace("defaults: {devices: 1, memory: 1Gi}\n", "")
    theirs = {VRAM: "5"}
    assert decided(pod(theirs, theirs), policy(text)).allowed
    beside = decided(pod(theirs, {CARD: "1", VRAM: "5"}, theirs), policy(text))
    assert set(beside.status["containers"]) == {"c1"}
    denial = decided(pod({CARD: "1"}, theirs, {CARD: "2"}), policy(text)).denial
    assert denial is not None
    assert denial.reason.code == "VGW320"
    assert "c0, c2 request devices" in denial.text
