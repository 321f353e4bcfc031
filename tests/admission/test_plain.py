"""Remembering what was made of plain pods changes nothing that is decided."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from tests.decided import POLICY, decided
from tests.decisions.test_cases import CASES, context_in, policy_in
from tests.mapping.vendors import policy
from tests.yaml_text import load_yaml
from webhook.admission import Context, Namespace
from webhook.admission.decision import ENFORCE_LABEL
from webhook.mapping.model.policy import Memo

pytestmark = pytest.mark.usefixtures("remembers_at_once")

MET = Memo.met
SHARE = {"nvidia.com/gpu": "1"}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod's only container."""
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


def test_second_pod_of_a_template_is_remembered() -> None:
    """What was made of a plain pod is found again for the next one, whose volumes have other names."""
    POLICY.memo.clear()
    context = Context(opted_in())
    made = [decided(template(token), POLICY, context) for token in ("kube-api-access-a1", "kube-api-access-b2")]
    assert made[0] is made[1]
    assert made[0].patch


def test_other_harmless_variables_are_the_ones_seen_then() -> None:
    """A pod of the template with other variables gets the same decision, as long as none of them matters."""
    context = Context(opted_in())
    POLICY.memo.clear()
    plain, other, guarded = (template("kube-api-access-a1") for _ in range(3))
    container(other)["env"].append({"name": "B", "value": "2"})
    container(guarded)["env"].append({"name": "LD_PRELOAD", "value": "/x"})
    first = decided(plain, POLICY, context)
    assert [decided(pod, POLICY, context) is first for pod in (plain, other, plain, guarded, other)] == [
        True,
        True,
        True,
        False,
        True,
    ]


def template(token: str) -> dict[str, Any]:
    """A pod of a template, as the API server sends it; `token` names the volume that it adds to each pod."""
    requesting = {
        "name": "a",
        "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": dict(SHARE), "requests": dict(SHARE)},
        "volumeMounts": [{"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
    }
    return {
        "metadata": {"generateName": "a-", "labels": {"app": "a"}, "annotations": {"a": "b"}},
        "spec": {"containers": [requesting], "volumes": [{"name": token, "projected": {}}]},
    }


def opted_in() -> Namespace:
    """A namespace that permits every delivery."""
    return Namespace("n", {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"})


def test_variables_that_the_copy_guards_are_looked_for() -> None:
    """A request that stands in two vendors' keys is guarded by both, whatever was remembered of its template."""
    folder = CASES / "guard-of-a-copy"
    guarded = load_yaml((folder / "pod.yaml").read_text())
    harmless = copy.deepcopy(guarded)
    container(harmless)["env"] = [{"name": "A", "value": "b"}]
    in_force = policy_in(folder)
    in_force.memo.clear()
    for pod, allowed in ((harmless, True), (guarded, False), (harmless, True)):
        assert decided(pod, in_force, context_in(folder)).allowed is allowed
    in_force.memo.clear()
    assert not decided(guarded, in_force, context_in(folder)).allowed
    assert decided(harmless, in_force, context_in(folder)).allowed


def test_circumstances_are_remembered_apart() -> None:
    """One pod in many namespaces, by many users and in many clusters: each decision is what it is without the others."""
    folder = CASES / "shim-image-volume"
    pod = load_yaml((folder / "pod.yaml").read_text())
    pod["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": "forged"}
    in_force = policy_in(folder)
    nvidia = in_force.vendors["nvidia"].model_copy(update={"owned_by": ["scheduler"]})
    in_force = replace(in_force, vendors={**in_force.vendors, "nvidia": nvidia})
    privileged = opted_in()
    contexts = [
        Context(privileged),
        Context(privileged, user="scheduler"),
        Context(structs.replace(privileged, labels={**privileged.labels, "vgpu-webhook.io/mode": "audit"})),
        Context(structs.replace(privileged, annotations={"vgpu-webhook.io/target": "volcano"})),
        Context(structs.replace(privileged, annotations={"vgpu-webhook.io/shim": "image"})),
        Context(structs.replace(privileged, annotations={"vgpu-webhook.io/shim": "image"}), image_volumes=False),
        Context(Namespace("n", {"vgpu-webhook.io/inject": "enabled", ENFORCE_LABEL: "baseline"}), "restricted"),
        Context(Namespace("n", {"vgpu-webhook.io/inject": "enabled"}), "restricted"),
        Context(Namespace("n", {"vgpu-webhook.io/inject": "enabled"}), "privileged"),
    ]
    alone = []
    for context in contexts:
        in_force.memo.clear()
        alone.append(decided(pod, in_force, context))
    assert len({(each.patch_json, each.reason, each.warnings, each.notes) for each in alone}) >= len(contexts) - 1
    in_force.memo.clear()
    for _ in range(3):
        assert [decided(pod, in_force, context) for context in contexts] == alone


def test_a_pod_is_remembered_from_its_second_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """What occurs once is not worth its place."""
    in_force = policy()
    monkeypatch.setattr(Memo, "met", MET)
    sizes = [len(in_force.memo)]
    for _ in range(3):
        decided(template("kube-api-access-a1"), in_force, Context(opted_in()))
        sizes.append(len(in_force.memo))
    assert sizes == [0, 0, 1, 1]


def test_denials_count_with_what_they_hold() -> None:
    """A denial has no patch, but findings by the hundred: some of them fill the memory, and drop what is in it."""
    POLICY.memo.clear()
    marks = {f"gpushare.alibabacloud.com/{number}-{'y' * 60}": "1" for number in range(200)}
    counts = []
    for number in range(180):
        pod = template("kube-api-access-a1")
        pod["metadata"]["annotations"] = {f"gpushare.alibabacloud.com/{number}": "1", **marks}
        container(pod).update(resources={"limits": {"aliyun.com/gpu-mem": "1"}}, securityContext={"privileged": True})
        assert decided(pod, POLICY, Context(opted_in())).denial is not None
        counts.append(len(POLICY.memo))
    assert max(counts) < 150
