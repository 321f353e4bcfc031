"""Remembering what was made of plain pods changes nothing that is decided."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.test_cases import CASES, context_in, policy_in
from tests.generators.pods import pods
from tests.generators.policies import contexts
from tests.mapping.vendors import policy
from tests.yaml_text import load_yaml
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.decision import PodSecurityLevel
from webhook.labels import KEYS
from webhook.mapping.load import builtin, load_policy
from webhook.mapping.model import policy as policy_model
from webhook.mapping.model.policy import Memo, Policy
from webhook.pod import decode_pod
from webhook.quantity import MIB
from webhook.reasons import Reason

pytestmark = pytest.mark.usefixtures("remembers_at_once")

POLICY = load_policy()
MET = Memo.met
SHARE = {"nvidia.com/gpu": "1"}


def decided(pod: dict[str, Any], context: Context, in_force: Policy) -> Decision:
    """The decision on a pod in JSON."""
    return decide(decode_pod(json.dumps(pod).encode()), context, in_force)


@given(st.lists(pods(), min_size=2, max_size=5), st.lists(contexts(), min_size=1, max_size=2))
def test_pods_with_the_same_words_do_not_borrow_from_each_other(
    several: list[dict[str, Any]], around: list[Context]
) -> None:
    """Pods that ask alike and differ in everything else get what each of them would get alone."""
    POLICY.memo.clear()
    pairs = [(with_words_of(several[0], pod), context) for pod in several for context in around]
    remembered = [decided(pod, context, POLICY) for pod, context in pairs]
    for (pod, context), decision in zip(pairs, remembered, strict=True):
        POLICY.memo.clear()
        assert decided(pod, context, POLICY) == decision


def with_words_of(source: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    """`pod`, asking for GPUs as `source` does: a share at the least, in containers of the same names."""
    mixed = copy.deepcopy(pod)
    theirs = source["spec"].get("containers") or [{"name": "a"}]
    mine = mixed["spec"].get("containers") or []
    containers = [{**(mine[i] if i < len(mine) else {}), "name": their["name"]} for i, their in enumerate(theirs)]
    for own, their in zip(containers, theirs, strict=True):
        own["resources"] = their.get("resources") or {"limits": SHARE}
    mixed["spec"]["containers"] = containers
    mixed["spec"].pop("initContainers", None)
    return mixed


def container(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod's only container."""
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


DIFFERENCES: dict[str, Callable[[dict[str, Any]], object]] = {
    "scheduler": lambda pod: pod["spec"].update(schedulerName="volcano"),
    "node": lambda pod: pod["spec"].update(nodeName="n"),
    "no volumes": lambda pod: pod["spec"].pop("volumes"),
    "volume of the shim's": lambda pod: pod["spec"]["volumes"].append({"name": "vgpu-shim", "emptyDir": {}}),
    "no annotations": lambda pod: pod["metadata"].pop("annotations"),
    "no metadata": lambda pod: pod.pop("metadata"),
    "mark of a scheduler": lambda pod: pod["metadata"]["annotations"].update({"hami.io/vgpu-node": "n"}),
    "account": lambda pod: pod["metadata"]["annotations"].update({"vgpu-webhook.io/status": "{}"}),
    "no env": lambda pod: container(pod).pop("env"),
    "guarded env": lambda pod: container(pod)["env"].append({"name": "CUDA_DISABLE_CONTROL", "value": "true"}),
    "env of the shim's": lambda pod: container(pod)["env"].append({"name": "LD_LIBRARY_PATH", "value": "/x"}),
    "env from elsewhere": lambda pod: container(pod).update(envFrom=[{"configMapRef": {"name": "c"}}]),
    "no mounts": lambda pod: container(pod).pop("volumeMounts"),
    "mount at the shim's": lambda pod: container(pod)["volumeMounts"].append(
        {"name": "x", "mountPath": "/tmp/vgpulock"}
    ),
    "mount over the plugin's": lambda pod: container(pod)["volumeMounts"].append(
        {"name": "x", "mountPath": "/etc/ld.so.preload"}
    ),
    "device over the plugin's": lambda pod: container(pod).update(
        volumeDevices=[{"name": "x", "devicePath": "/etc/ld.so.preload"}]
    ),
    "privileged": lambda pod: container(pod).update(securityContext={"privileged": True}),
    "limits only": lambda pod: container(pod)["resources"].pop("requests"),
    "null limits": lambda pod: container(pod)["resources"].update(limits=None),
    "misplaced key": lambda pod: pod["metadata"]["annotations"].update({"nvidia.com/gpumem": "1"}),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_difference_that_matters_is_seen(name: str) -> None:
    """A pod that differs from a remembered one in a single thing gets what it would get alone."""
    other = template("kube-api-access-a1")
    DIFFERENCES[name](other)
    context = Context(opted_in())
    POLICY.memo.clear()
    alone = decided(other, context, POLICY)
    POLICY.memo.clear()
    plain = decided(template("kube-api-access-a1"), context, POLICY)
    assert decided(other, context, POLICY) == alone
    assert alone != plain


@pytest.mark.parametrize(
    "labels,annotations",
    [({"pod-security.kubernetes.io/enforce": "baseline"}, {}), ({}, {"vgpu-webhook.io/shim": "none"})],
)
def test_other_namespace_is_seen(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """The same pod in a namespace that permits or orders another delivery gets that one."""
    POLICY.memo.clear()
    pod = template("kube-api-access-a1")
    decided(pod, Context(opted_in()), POLICY)
    context = Context(Namespace("n", {**opted_in().labels, **labels}, annotations))
    assert "LD_PRELOAD" not in json.dumps(decided(pod, context, POLICY).patch)


@pytest.mark.parametrize(
    "labels,annotations", [({"vgpu-webhook.io/moed": "warn"}, {}), ({}, {"vgpu-webhook.io/sihm": "none"})]
)
def test_unread_key_of_the_namespace_is_seen(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """The warning is for the pods of that namespace only, remembered or not."""
    pod = template("kube-api-access-a1")
    odd = Context(Namespace("n", {**opted_in().labels, **labels}, annotations))
    for first, second in ((odd, Context(opted_in())), (Context(opted_in()), odd)):
        POLICY.memo.clear()
        for context in (first, second, first, second):
            reasons = [finding.reason for finding in decided(pod, context, POLICY).warnings]
            assert reasons.count(Reason.OWN_KEY_UNUSED) == (context is odd)


def test_second_pod_of_a_template_is_remembered() -> None:
    """What was made of a plain pod is found again for the next one, whose volumes have other names."""
    POLICY.memo.clear()
    context = Context(opted_in())
    made = [decided(template(token), context, POLICY) for token in ("kube-api-access-a1", "kube-api-access-b2")]
    assert made[0] is made[1]
    assert made[0].patch


def test_other_harmless_variables_are_the_ones_seen_then() -> None:
    """A pod of the template with other variables gets the same decision, as long as none of them matters."""
    context = Context(opted_in())
    POLICY.memo.clear()
    plain, other, guarded = (template("kube-api-access-a1") for _ in range(3))
    container(other)["env"].append({"name": "B", "value": "2"})
    container(guarded)["env"].append({"name": "LD_PRELOAD", "value": "/x"})
    first = decided(plain, context, POLICY)
    assert [decided(pod, context, POLICY) is first for pod in (plain, other, plain, guarded, other)] == [
        True,
        True,
        True,
        False,
        True,
    ]


def test_number_beyond_64_bits_is_refused_as_ever() -> None:
    """A quantity that is too long for the text of a pod's facts is no reason to fail."""
    pod = template("kube-api-access-a1")
    container(pod)["resources"] = {"limits": {"nvidia.com/gpumem": 10**30}}
    assert decided(pod, Context(opted_in()), POLICY).denial is not None


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


SCHEDULER = "system:serviceaccount:hami:scheduler"
PLACING = """\
extends: nvidia
ownedBy: ["system:serviceaccount:hami:scheduler"]
place:
  nodeSelector: {gpu: "true"}
  tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
"""
UNLABELLED = Namespace("n", {"vgpu-webhook.io/inject": "enabled"})


def test_what_a_scheduler_may_write_is_not_remembered_for_a_user() -> None:
    """`ownedBy` names who may write marks: what was decided for him is not what the next user gets, nor the reverse."""
    placing = policy(PLACING)
    marked = template("kube-api-access-a1")
    marked["metadata"]["annotations"]["hami.io/vgpu-node"] = "n"
    users = {SCHEDULER: False, "alice": True}
    for order in (list(users), list(reversed(users))):
        placing.memo.clear()
        for user in order:
            decision = decided(marked, Context(opted_in(), user=user), placing)
            assert any(finding.reason is Reason.OWNED_STRIPPED for finding in decision.warnings) is users[user]
            removed = {"op": "remove", "path": "/metadata/annotations/hami.io~1vgpu-node"}
            assert (removed in decision.patch) is users[user]


def test_variables_that_the_copy_guards_are_looked_for() -> None:
    """A request that stands in two vendors' keys is guarded by both, whatever was remembered of its template."""
    folder = CASES / "guard-of-a-copy"
    guarded = load_yaml((folder / "pod.yaml").read_text())
    harmless = copy.deepcopy(guarded)
    container(harmless)["env"] = [{"name": "A", "value": "b"}]
    in_force = policy_in(folder)
    in_force.memo.clear()
    for pod, allowed in ((harmless, True), (guarded, False), (harmless, True)):
        assert decided(pod, context_in(folder), in_force).allowed is allowed
    in_force.memo.clear()
    assert not decided(guarded, context_in(folder), in_force).allowed
    assert decided(harmless, context_in(folder), in_force).allowed


def test_other_default_of_pod_security_is_seen() -> None:
    """A namespace without a level gets what the default of the moment permits, whatever was remembered."""
    POLICY.memo.clear()
    pod = template("kube-api-access-a1")
    levels: list[tuple[PodSecurityLevel, bool]] = [("privileged", True), ("baseline", False), ("privileged", True)]
    for level, shim in levels:
        patch = decided(pod, Context(UNLABELLED, pod_security_default=level), POLICY).patch
        assert ("LD_PRELOAD" in json.dumps(patch)) is shim


@pytest.mark.parametrize(
    "key, value",
    [
        ("tolerations", []),
        ("tolerations", [{"key": "mine", "operator": "Exists"}]),
        ("tolerations", [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]),
        ("nodeSelector", {}),
        ("nodeSelector", {"mine": "yes"}),
        ("nodeSelector", {"gpu": "true"}),
        ("nodeSelector", {"gpu": "false"}),
    ],
)
def test_other_placement_of_the_user_is_seen(key: str, value: object) -> None:
    """A mapping places each pod by that pod's own fields, not by those of a remembered pod."""
    placing = policy(PLACING)
    plain, other = template("kube-api-access-a1"), template("kube-api-access-a1")
    other["spec"][key] = value
    context = Context(opted_in())
    alone = {}
    for name, pod in (("plain", plain), ("other", other)):
        placing.memo.clear()
        alone[name] = decided(pod, context, placing)
    assert alone["plain"] != alone["other"]
    for first, second in (("plain", "other"), ("other", "plain")):
        placing.memo.clear()
        sent = {"plain": plain, "other": other}
        decided(sent[first], context, placing)
        assert decided(sent[second], context, placing) == alone[second]


def texts_of(data: object) -> Iterator[str]:
    """Every text in a document: the names of members, and the values."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from texts_of(key)
            yield from texts_of(value)
    elif isinstance(data, list):
        for value in data:
            yield from texts_of(value)
    elif isinstance(data, str):
        yield data


READING = """\
extends: nvidia
place:
  nodeSelector: {p.example.com/selector: "1"}
  labels: {p.example.com/label: "1"}
  annotations: {p.example.com/annotation: "1"}
guard:
- {annotation: "g.example.com/*-annotation", unless: []}
- {label: g.example.com/label, unless: []}
owned: [o.example.com/annotation, {label: "o.example.com/label-*"}]
hints: [h.example.com/hint]
"""
"""A document with every kind of key that a vendor can have beside those of requests."""


def keys_of_documents() -> list[str]:
    """Whatever in the built-in documents, and in READING, could be a key of a pod, and our own keys."""
    documents = [*(document.data for document in builtin().values()), load_yaml(READING)]
    texts = {text for data in documents for text in texts_of(data)}
    filled = (re.sub(r"\{[^{}]*\}", "a", text).replace("*", "a") for text in texts)
    return sorted({key for key in filled if re.fullmatch(r"[A-Za-z0-9._/-]{1,80}", key)} | {key.name for key in KEYS})


SOURCES: dict[str, dict[str, Any]] = {
    "at home": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"},
    "translated": {"aliyun.com/gpu-mem": "8"},
    "of annotations": {},
}


@pytest.mark.parametrize(
    "source", ["translated", *(pytest.param(name, marks=pytest.mark.deep) for name in ("at home", "of annotations"))]
)
def test_no_key_that_is_read_is_forgotten(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any key that a document names, in each place of a pod, counts as much as if nothing had been remembered."""
    monkeypatch.setattr(policy_model, "MAX_BYTES", 64 * MIB)  # all that it is asked for are remembered
    template_pod = template("kube-api-access-a1")
    container(template_pod)["resources"] = {"limits": SOURCES[source], "requests": SOURCES[source]}
    template_pod["spec"]["nodeSelector"] = {"a": "b"}
    if not SOURCES[source]:
        template_pod["metadata"]["annotations"]["gpu-memory"] = "4000"
    fresh, warm = policy(READING), policy(READING)
    context = Context(Namespace("n", opted_in().labels, {"vgpu-webhook.io/target": "nvidia"}))
    plain, different = decided(template_pod, context, warm), 0
    for key in keys_of_documents():
        for place in ("labels", "annotations", "nodeSelector"):
            other = copy.deepcopy(template_pod)
            other["spec" if place == "nodeSelector" else "metadata"][place][key] = "2"
            fresh.memo.clear()
            alone = decided(other, context, fresh)
            assert decided(other, context, warm) == alone, f"{key} among {place}"
            different += alone != plain
    assert decided(template_pod, context, warm) is plain
    assert different > 50


def test_unique_labels_do_not_count() -> None:
    """The pods of a Job have labels of their own, and get the same decision."""
    POLICY.memo.clear()
    made = []
    for name in ("a-1", "b-2"):
        pod = template(f"kube-api-access-{name}")
        pod["metadata"]["labels"] = {
            "batch.kubernetes.io/job-name": name,
            "batch.kubernetes.io/controller-uid": f"u{name}",
        }
        container(pod)["resources"]["limits"].update(cpu=name[-1])
        made.append(decided(pod, Context(opted_in()), POLICY))
    assert made[0] is made[1]


def test_a_pod_is_remembered_from_its_second_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """What occurs once is not worth its place."""
    in_force = policy()
    monkeypatch.setattr(Memo, "met", MET)
    sizes = [len(in_force.memo)]
    for _ in range(3):
        decided(template("kube-api-access-a1"), Context(opted_in()), in_force)
        sizes.append(len(in_force.memo))
    assert sizes == [0, 0, 1, 1]


def test_another_vendors_variable_is_no_reason_to_look_closely() -> None:
    """A search path is in many images' pods, and no matter of a vendor without a shim."""
    POLICY.memo.clear()
    pod = template("kube-api-access-a1")
    container(pod)["resources"] = {"limits": {"amd.com/gpu": "1"}, "requests": {"amd.com/gpu": "1"}}
    container(pod)["env"] = [{"name": "LD_LIBRARY_PATH", "value": "/x"}]
    assert decided(pod, Context(opted_in()), POLICY) is decided(pod, Context(opted_in()), POLICY)


@pytest.mark.parametrize("env", [[], [{"name": "LD_LIBRARY_PATH", "value": "/x"}]])
def test_nothing_is_said_of_a_pod_of_which_nothing_changes(env: list[dict[str, str]]) -> None:
    """Whatever variables it has: slices are left to their plugin, so the roll-out is no matter."""
    pod = template("kube-api-access-a1")
    slices = {"nvidia.com/mig-1g.5gb": "1", "nvidia.com/mig-2g.10gb": "1"}
    container(pod).update(resources={"limits": slices, "requests": slices}, env=env)
    outside = Namespace("n", {**opted_in().labels, "vgpu-webhook.io/rollout": "0"})
    decision = decided(pod, Context(outside), POLICY)
    assert (decision.reason, decision.warnings, decision.audit) == (Reason.LEFT, (), {})


def test_denials_count_with_what_they_hold() -> None:
    """A denial has no patch, but findings by the hundred: some of them fill the memory, and drop what is in it."""
    POLICY.memo.clear()
    marks = {f"gpushare.alibabacloud.com/{number}-{'y' * 60}": "1" for number in range(200)}
    counts = []
    for number in range(300):
        pod = template("kube-api-access-a1")
        pod["metadata"]["annotations"] = {f"gpushare.alibabacloud.com/{number}": "1", **marks}
        container(pod).update(resources={"limits": {"aliyun.com/gpu-mem": "1"}}, securityContext={"privileged": True})
        assert decided(pod, Context(opted_in()), POLICY).denial is not None
        counts.append(len(POLICY.memo))
    assert max(counts) < 150
