"""Judging pods that are about to be stored."""

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz.generate import case_of
from tests.fuzz.policies import policy_of
from tests.fuzz.trial import Trial
from tests.naming import each_of
from tests.others.pod import DeniedThereError, with_defaults
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.eligibility import bucket
from webhook.admission.judge import judge_pod, judge_templates, judge_update
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import MAX_TEXTS, decode_pod
from webhook.reasons import Finding, Reason

POLICY = load_policy()
SEED = 21
OPTED_IN = {"vgpu-webhook.io/inject": "enabled"}
CONTEXT = Context(Namespace("team", OPTED_IN), "privileged")
Json = dict[str, Any]


def judged(pod: Json, context: Context = CONTEXT) -> Decision:
    """The judgement of a pod."""
    return judge_pod(decode_pod(json.dumps(pod).encode()), context, POLICY)


def stored(limits: dict[str, str]) -> Json:
    """A pod with one container, as it is stored after `decide`."""
    resources = {"limits": limits, "requests": dict(limits)}
    container = {"name": "main", "image": "app", "resources": resources, "env": [{"name": "A", "value": "1"}]}
    pod: Json = {"metadata": {"name": "p"}, "spec": {"containers": [container], "schedulerName": "default-scheduler"}}
    made: Json = apply_strictly(pod, decide(decode_pod(json.dumps(pod).encode()), CONTEXT, POLICY).patch)
    return made


@pytest.mark.parametrize("hide", [False, True])
def test_what_was_decided_is_allowed(*, hide: bool) -> None:
    """Any pod that was allowed, changed or not, with the API server's defaults, in any namespace and mode."""
    changed, hidden = Counter[bool](), 0
    policies = [
        replace(each, settings=each.settings.model_copy(update={"hide_devices": hide}))
        for each in map(policy_of, range(3))
    ]
    for number in range(200):
        trial = Trial(replace(case_of(SEED, number), setup=number % 3))
        policy = policies[number % 3]
        decision = decide(decode_pod(trial.raw), trial.context, policy)
        if not decision.allowed:
            continue
        try:
            final = with_defaults(apply_strictly(json.loads(trial.raw), decision.patch))
        except DeniedThereError:
            continue
        judgement = judge_pod(decode_pod(json.dumps(final).encode()), trial.context, policy)
        assert judgement.allowed, judgement.denial
        assert not judgement.patch_json
        assert not judgement.warnings
        changed[bool(decision.patch)] += 1
        hidden += "hidden" in (decision.status or {})
    assert min(changed[True], changed[False]) > 10
    assert (hidden > 5) is hide


def test_what_is_as_decided_is_one_object() -> None:
    """Nearly every review: nothing is made or encoded anew."""
    share = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    assert judged(stored(share)) is judged(stored({**share, "nvidia.com/gpucores": "30"}))


def test_fields_are_named() -> None:
    """By container and key, with what must be there; at most four; our own annotations are left out."""
    pod = stored({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    container = pod["spec"]["containers"][0]
    pod["spec"]["schedulerName"] = "default-scheduler"
    for side in ("limits", "requests"):
        del container["resources"][side]["nvidia.com/gpumem"]
    container["env"] = [{"name": "A", "value": "s3cr3t"}]
    judgement = judged(pod)
    assert judgement.denial is not None
    assert judgement.reason is Reason.UNDONE
    message = judgement.denial.sentence
    assert message.startswith("another webhook has changed the pod after this one: ")
    assert "spec.schedulerName must be hami-scheduler" in message
    assert "spec.containers[main].resources.limits[nvidia.com/gpumem] must be 5000" in message
    assert "s3cr3t" not in message
    assert "vgpu-webhook.io" not in message
    assert judgement.denial.field


def test_four_fields_are_enough() -> None:
    """The others are counted."""
    pod = stored({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    pod["spec"]["containers"][0]["env"] = []
    pod["spec"]["containers"] = [{**pod["spec"]["containers"][0], "name": name} for name in "abcde"]
    denial = judged(pod).denial
    assert denial is not None
    assert denial.message.count("; ") == 5
    assert re.search(r"; and [0-9]+ more; have ", denial.message)


def test_policy_has_changed_meanwhile() -> None:
    """A pod that another policy changed: nobody else is to blame, and created again it is right."""
    pod = stored({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    annotations = pod["metadata"]["annotations"]
    annotations["vgpu-webhook.io/status"] = annotations["vgpu-webhook.io/status"].replace(POLICY.digest, "0" * 12)
    assert judged(pod).allowed
    pod["spec"]["schedulerName"] = "default-scheduler"
    denial = judged(pod).denial
    assert denial is not None
    assert "the policy has changed since the pod was changed for it: create the pod again" in denial.message


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_namespaces_that_only_report(mode: str) -> None:
    """Nothing was changed there, so nothing was undone."""
    namespace = Namespace("team", {**OPTED_IN, "vgpu-webhook.io/mode": mode})
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    judgement = judged({"spec": {"containers": [container]}}, Context(namespace))
    assert judgement.allowed
    assert not judgement.would_be


def test_denials_keep_their_code() -> None:
    """And say that it came later."""
    pod = stored({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    pod["spec"]["containers"][0]["env"].append({"name": "CUDA_DISABLE_CONTROL", "value": "true"})
    denial = judged(pod).denial
    assert denial is not None
    assert denial.reason is Reason.GUARDED
    assert denial.message.endswith("(added or changed after the mutating webhook was called)")


def template(**limits: str) -> Any:
    """A pod of a workload."""
    names = {"gpu": "nvidia.com/gpu", "memory": "nvidia.com/gpumem", "cores": "nvidia.com/gpucores"}
    resources = {"limits": {names[key]: value for key, value in limits.items()}}
    return decode_pod(json.dumps({"spec": {"containers": [{"name": "main", "resources": resources}]}}).encode())


def test_workloads_are_never_denied() -> None:
    """What would be, comes first; each template has its path if there are several."""
    good, bad = template(gpu="1"), template(gpu="1", cores="150")
    judgement = judge_templates([("spec.a", good), ("spec.b", bad)], CONTEXT, POLICY)
    assert judgement.allowed
    assert not judgement.patch_json
    assert [finding.reason for finding in judgement.warnings[:2]] == [Reason.TOO_LARGE, Reason.DEFAULT_FILLED]
    first = judgement.warnings[0].sentence
    assert first.startswith("container main: spec.b: the pods will be denied: nvidia.com/gpucores: 150 is ")
    assert judgement.warnings[1].message.startswith("spec.a: no memory requested")
    assert judgement.audit["reasons"].startswith("VGW303,VGW101")


@pytest.mark.parametrize("mode, words", [("warn", "under enforce, denied: "), ("audit", "")])
def test_workloads_where_nothing_is_enforced(mode: str, words: str) -> None:
    """As pods there: in `warn` what would happen, in `audit` nothing."""
    namespace = Namespace("team", {**OPTED_IN, "vgpu-webhook.io/mode": mode})
    pods = [("", template(gpu="1")), ("", template(gpu="1", cores="150"))]
    found = judge_templates(pods, Context(namespace), POLICY).warnings
    assert found[0].message.startswith(words) if words else found == ()


def test_workloads_without_devices() -> None:
    """Nothing to say."""
    assert judge_templates([("", template())], CONTEXT, POLICY).warnings == ()
    assert judge_templates([], CONTEXT, POLICY).warnings == ()


MARK = "hami.io/vgpu-devices-allocated"


def updated(
    old: dict[str, str],
    new: dict[str, str],
    context: Context = CONTEXT,
    *,
    stored_labels: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    metadata: tuple[Json, Json] = ({}, {}),
    env: list[Json] | None = None,
    policy: Policy = POLICY,
    **limits: str,
) -> Decision:
    """The judgement of an update of a bound pod from some annotations, labels and other metadata to others."""
    names = {"gpu": "nvidia.com/gpu", "memory": "nvidia.com/gpumem", "cpu": "cpu"}
    resources = {"limits": {names[key]: value for key, value in (limits or {"gpu": "1", "memory": "3000"}).items()}}
    spec = {
        "containers": [{"name": "main", "resources": resources, "env": env}],
        "schedulerName": "hami-scheduler",
        "nodeName": "n",
    }
    pods = [
        decode_pod(
            json.dumps({"metadata": {"annotations": annotations, "labels": added, **others}, "spec": spec}).encode()
        )
        for annotations, added, others in (
            (old, stored_labels or {}, metadata[0]),
            (new, labels or {}, metadata[1]),
        )
    ]
    return judge_update(pods[0], pods[1], context, policy)


@pytest.mark.parametrize("old, new", [({}, {MARK: "x"}), ({MARK: "x"}, {MARK: "y"}), ({MARK: "x"}, {})])
def test_marks_of_schedulers_are_not_changed(old: dict[str, str], new: dict[str, str]) -> None:
    """Neither added, changed nor removed; in a pod with a node, too."""
    denial = updated(old, new).denial
    assert denial is not None
    assert denial.reason is Reason.OWNED_CHANGED
    assert denial.field == f"metadata.annotations[{MARK}]"
    assert denial.message == (
        f"{denial.field} belongs to a scheduler, and its user may not change it: leave it, or list that user under "
        "`ownedBy` of the mapping"
    )


def test_who_owns_something_is_trusted() -> None:
    """Whoever is listed under `ownedBy` may change marks, and whatever else a pod would be denied for."""
    nvidia = POLICY.vendors["nvidia"]
    owned = nvidia.model_copy(update={"owned_by": ["scheduler"]})
    policy = replace(POLICY, vendors={**POLICY.vendors, "nvidia": owned})
    for user, allowed in (("scheduler", True), ("other", False)):
        for new in ({MARK: "x"}, LIFTING):
            context = Context(CONTEXT.namespace, "privileged", user)
            assert updated({}, new, context, policy=policy).allowed is allowed
            assert updated({}, new, context, policy=policy, env=LIFTED).allowed is allowed


LIFTED = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]
LIFTING = {"cdi.k8s.io/all": "nvidia.com/gpu=all"}


def in_denied(old: dict[str, str], new: dict[str, str], context: Context = CONTEXT) -> Finding | None:
    """The denial of an update of a pod that was stored before its variables were denied."""
    return updated(old, new, context, env=LIFTED).denial


def test_a_pod_of_which_too_much_is_there() -> None:
    """Nothing of it is known, so no change of it is allowed."""
    many = {f"a{number}": "" for number in range(MAX_TEXTS)}
    for old, new in (({}, many), (many, {})):
        denial = updated(old, new).denial
        assert denial is not None
        assert denial.reason is Reason.TOO_MANY


def test_what_is_wrong_with_the_update_is_named() -> None:
    """Not what was wrong with the pod before, and of a mark only the mark; without either it is allowed."""
    for old, new in (({}, {MARK: "x"}), ({MARK: "x"}, {}), ({}, {MARK: "x", **LIFTING})):
        denial = in_denied(old, new)
        assert denial is not None
        assert (denial.reason, denial.field) == (Reason.OWNED_CHANGED, f"metadata.annotations[{MARK}]")
    denial = updated({}, {MARK: "x"}, gpu="1", memory="99999999").denial  # before anybody looks at marks
    assert denial is not None
    assert denial.field == f"metadata.annotations[{MARK}]"
    assert in_denied({}, {"nvidia.com/use-gputype": "A100"}) is None
    assert in_denied({MARK: "x"}, {MARK: "x", "a": "b"}) is None
    lifted = in_denied({}, LIFTING)
    assert lifted is not None
    assert lifted.reason is Reason.GUARDED
    assert "cdi.k8s.io/all" in lifted.message


def test_nothing_in_an_update_hides_a_mark() -> None:
    """Neither thousands of other annotations, nor an opt-out that comes with it: what was stored counts."""
    many = {f"other.example/{number}": "x" for number in range(2_000)}
    for labels in ({}, {"vgpu-webhook.io/inject": "disabled"}):
        denial = updated({}, {MARK: "x", **many}, labels=labels).denial
        assert denial is not None
        assert denial.reason is Reason.OWNED_CHANGED


OPT_OUT = {"vgpu-webhook.io/inject": "disabled"}
STATUS = {"vgpu-webhook.io/status": "{}"}
TARGET = {"vgpu-webhook.io/target": "metax"}


@pytest.mark.parametrize("annotations, labels", [({}, OPT_OUT), (TARGET, {}), ({**STATUS, **TARGET}, OPT_OUT)])
def test_no_update_chooses_again(annotations: dict[str, str], labels: dict[str, str]) -> None:
    """What becomes of a pod with devices was chosen when it was created; of any other pod it means nothing."""
    denial = updated({}, annotations, labels=labels).denial
    assert denial is not None
    assert denial.reason is Reason.OWNED_CHANGED
    assert "create the pod again" in denial.message
    assert updated({}, annotations, labels=labels, cpu="1").allowed
    namespace = Namespace("team", {**OPTED_IN, "vgpu-webhook.io/rollout": "0"})
    assert updated({}, annotations, Context(namespace), labels=labels).allowed


OWNED = {"ownerReferences": [{"kind": "ReplicaSet", "name": "train-5d4f8c7b9", "controller": True}]}
GENERATED = {"generateName": "train-"}


@each_of("change", [{MARK: "x"}, TARGET])
@each_of("named, workload", [(OWNED, "team/ReplicaSet/train"), (GENERATED, "team//train-")])
def test_an_update_is_in_the_bucket_of_the_creation(named: Json, workload: str, change: dict[str, str]) -> None:
    """That of the workload, whatever the pod is called, and also where the update drops the owner."""
    counted = bucket(workload)
    names = [f"train-{number}" for number in range(200)]
    lower, higher = (
        next(name for name in names if bucket(f"team//{name}") < counted),
        next(name for name in names if bucket(f"team//{name}") > counted),
    )
    for name, rollout, allowed in ((higher, counted + 1, False), (lower, counted, True)):
        namespace = Namespace("team", {**OPTED_IN, "vgpu-webhook.io/rollout": str(rollout)})
        stored = {"name": name, **named}
        for sent in (stored, {"name": name}):
            assert updated({}, change, Context(namespace), metadata=(stored, sent)).allowed is allowed


def test_other_updates_are_allowed() -> None:
    """Of other keys, beside a mark that stays; of pods without devices, or that opted out; and where nothing is enforced."""
    assert updated({MARK: "x"}, {MARK: "x", "a": "b"}).allowed
    assert updated({}, {MARK: "x"}, cpu="1").allowed
    assert updated({}, {MARK: "x"}, stored_labels={"vgpu-webhook.io/inject": "disabled"}).allowed
    namespace = Namespace("team", {**OPTED_IN, "vgpu-webhook.io/rollout": "0"})
    assert updated({}, {MARK: "x"}, Context(namespace)).allowed
