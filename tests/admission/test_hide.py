"""Hidden devices: what holds for every pod."""

import json
from typing import Any

import pytest

from tests.decided import CONTEXT, POLICY, decided, pod_with, view
from tests.decisions.test_cases import FOLDERS, pod_in
from tests.depth import few_or_all, in_turn
from tests.mapping.vendors import policy
from tests.naming import each_of, naming
from tests.strict_patch import apply_strictly
from webhook.admission.guard import HIDING, hiding_of
from webhook.admission.judge import judge_pod
from webhook.labels import STATUS

Json = dict[str, Any]
SETTINGS = "target: {target}\nbareDevices: whole\nhideDevices: true\n"
TARGETS = ("nvidia", "volcano", "kai", "ascend", "metax")
SIDECAR: Json = {"name": "sidecar-of-the-test", "image": "i"}


POLICIES = {target: policy(settings=SETTINGS.format(target=target)) for target in TARGETS}


@few_or_all
def test_once_is_enough(most: int) -> None:
    """Whatever a pod requests, and for each target: a second call changes nothing, and the judge has nothing to say."""
    for at, folder in enumerate(FOLDERS):
        pod = json.loads(pod_in(folder))
        pod["spec"]["containers"].append(SIDECAR)
        for target in in_turn(TARGETS, at, most):
            decision = decided(pod, POLICIES[target])
            if decision.denial is not None:
                continue
            stored = apply_strictly(pod, decision.patch)
            with naming(f"{folder.name} for {target}"):
                assert decided(stored, POLICIES[target]).patch == ()
                assert judge_pod(view(stored), CONTEXT, POLICIES[target]).allowed


@pytest.mark.parametrize("resources", [{"nvidia.com/gpu": "1"}, {"aliyun.com/gpu-mem": "4"}])
def test_a_request_that_is_added_later(resources: Json) -> None:
    """By a webhook that is called after ours, which the API server calls again: the container sees its devices.

    What another version may write into the status is not read.
    """
    pod = pod_with({"name": "main", "image": "i"}, SIDECAR)
    stored = apply_strictly(pod, decided(pod, POLICIES["nvidia"]).patch)
    hidden = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    assert [each["env"] for each in stored["spec"]["containers"]] == [[hidden], [hidden]]
    stored["spec"]["containers"][0]["resources"] = {"limits": {**resources}, "requests": {**resources}}
    stored["spec"]["containers"][0]["env"].append({"name": "EMPTY"})
    status = json.loads(stored["metadata"]["annotations"][STATUS])
    status |= {"containers": {"main": {"allocation": None, "shim": [], "request": 1}}, "policy": 1}
    stored["metadata"]["annotations"][STATUS] = json.dumps(status)
    again = apply_strictly(stored, decided(stored, POLICIES["nvidia"]).patch)
    main, sidecar = again["spec"]["containers"]
    assert hidden not in main["env"]
    assert {"name": "EMPTY"} in main["env"]
    assert sidecar["env"] == [hidden]
    assert json.loads(again["metadata"]["annotations"][STATUS])["hidden"] == [SIDECAR["name"]]
    assert decided(again, POLICIES["nvidia"]).patch == ()


ZEROS: tuple[Any, ...] = (0, "0", 0.0, "0m", "0e3", "-0")
KEYS_THAT_GIVE_NONE = ("hami.io/vgpu-node", "gpu-fraction-container-name", "nvidia.com/use-gputype")


@each_of("target", TARGETS)
def test_what_gives_no_device_is_no_request(target: str) -> None:
    """A name of any vendor with the number 0, on either side; other keys of theirs, which give nothing by themselves."""
    found = hiding_of(POLICIES[target])
    if not found.variables:
        return
    names = [*found.resources.exact, *(name.replace("*", "anything") for name in found.resources.globs)]
    hidden = 0
    for at, name in enumerate(sorted(names)):
        zero = ZEROS[at % len(ZEROS)]
        for resources in (
            {"limits": {name: zero}},
            {"requests": {name: zero}},
            {"limits": {name: zero}, "requests": {name: 0}},
        ):
            found_out = outcome({**SIDECAR, "resources": resources}, target)
            assert found_out != "seen", (name, resources)
            hidden += found_out == "hidden"
    assert hidden > len(names)
    for name in found.idle.exact:
        assert outcome({**SIDECAR, "resources": {"limits": {name: "1"}}}, target) in {"hidden", "denied"}, name
    for name in KEYS_THAT_GIVE_NONE:
        assert outcome(SIDECAR, target, {name: "x"}) in {"hidden", "denied"}, name
    for name in found.keys.exact:
        assert outcome(SIDECAR, target, {name: "0"}) != "seen", name


def test_any_other_number_is_one() -> None:
    """Of a name that no mapping has, too: device plugins give devices under any."""
    for name in ("nvidia.com/gpu", "nvidia.com/anything", "aliyun.com/gpu-mem"):
        for number in (1, "1", "1e0"):
            assert outcome({**SIDECAR, "resources": {"limits": {name: number}}}, "nvidia") in {"served", "seen"}


def outcome(container: Json, target: str, annotations: Json | None = None) -> str:
    """What becomes of the one container of a pod: it gets devices, sees those of the node, or does not."""
    pod = {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": {"containers": [container]}}
    decision = decided(pod, POLICIES[target])
    if not decision.allowed:
        return "denied"
    if decision.status.get("containers"):
        return "served"
    return "hidden" if decision.status.get("hidden") == [container["name"]] else "seen"


def test_only_variables_of_rules_that_say_so() -> None:
    """That a rule lets such a value be does not mean that it hides devices."""
    other = "extends: nvidia\nguard:\n- {env: OTHER, unless: [void]}\n"
    pod = pod_with(SIDECAR)
    in_force = policy(other, settings=SETTINGS.format(target="nvidia"))
    stored = apply_strictly(pod, decided(pod, in_force).patch)
    assert [each["name"] for each in stored["spec"]["containers"][0]["env"]] == ["NVIDIA_VISIBLE_DEVICES"]


def test_what_we_write_ourselves_is_no_request() -> None:
    """No mapping places a pod by a key that would count as a request when the pod is seen again."""
    for target in TARGETS:
        found = hiding_of(POLICIES[target])
        assert set(found.variables.values()) <= set(HIDING)
        places = [vendor.place for vendor in POLICY.vendors.values()]
        assert not found.keys.among([key for place in places for key in (*place.labels, *place.annotations)])
