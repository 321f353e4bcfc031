"""Judging pods that are about to be stored, workloads, updates and ephemeral containers; single rules are in `later/`."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.decided import CONTEXT, POLICY, TEAM, decided, pod_with, view
from tests.fuzz.generate import case_of
from tests.fuzz.policies import policy_of
from tests.fuzz.trial import Trial
from tests.naming import each_of
from tests.others.pod import DeniedThereError, with_defaults
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.eligibility import bucket
from webhook.admission.judge import MAX_DECISIONS, judge_ephemeral, judge_pod, judge_templates, judge_update
from webhook.pod import decode_pod
from webhook.reasons import Reason

SEED = 21
CORES = "nvidia.com/gpucores"
Json = dict[str, Any]


def stored(limits: dict[str, str]) -> Json:
    """A pod with one container, as it is stored after `decide`."""
    resources = {"limits": limits, "requests": dict(limits)}
    container = {"name": "main", "image": "app", "resources": resources, "env": [{"name": "A", "value": "1"}]}
    pod: Json = {"metadata": {"name": "p"}, "spec": {"containers": [container], "schedulerName": "default-scheduler"}}
    made: Json = apply_strictly(pod, decided(pod).patch)
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
        judgement = judge_pod(view(final), trial.context, policy)
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
    first, second = (judge_pod(view(stored({**share, **more})), CONTEXT, POLICY) for more in ({}, {CORES: "30"}))
    assert first is second


def template(**limits: str) -> Any:
    """A pod of a workload."""
    names = {"gpu": "nvidia.com/gpu", "cores": CORES}
    return view(
        pod_with({"name": "main", "resources": {"limits": {names[key]: value for key, value in limits.items()}}})
    )


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


MARK = "hami.io/vgpu-devices-allocated"


def updated(
    annotations: dict[str, str],
    context: Context = CONTEXT,
    *,
    before: dict[str, str] | None = None,
    metadata: tuple[Json, Json] = ({}, {}),
) -> Decision:
    """The judgement of an update of a pod with a share: of its annotations, and of other metadata."""
    resources = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}
    spec = {"containers": [{"name": "main", "resources": resources}], "schedulerName": "hami-scheduler"}
    old, new = (
        view({"metadata": {"annotations": carried, **others}, "spec": spec})
        for carried, others in zip((before or {}, annotations), metadata, strict=True)
    )
    return judge_update(old, new, context, POLICY)


def test_nothing_in_an_update_hides_a_mark() -> None:
    """Not even thousands of other annotations."""
    many = {f"other.example/{number}": "x" for number in range(2_000)}
    assert updated({MARK: "x", **many}).reason is Reason.OWNED_CHANGED


TARGET = {"vgpu-webhook.io/target": "metax"}


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
        namespace = Namespace("team", {**TEAM.labels, "vgpu-webhook.io/rollout": str(rollout)})
        stored = {"name": name, **named}
        for sent in (stored, {"name": name}):
            assert updated(change, Context(namespace), metadata=(stored, sent)).allowed is allowed


LIMITS = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
PLAIN: Json = {"name": "shell", "image": "shell"}
ALL_DEVICES: Json = {**PLAIN, "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}


def code(*added: Json, **metadata: Any) -> str | None:
    """Why containers that are added to a pod with a share are denied."""
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main", "resources": {"limits": LIMITS}}]}}
    denial = judge_ephemeral(view(pod), view({"spec": {"ephemeralContainers": list(added)}}), CONTEXT, POLICY).denial
    return None if denial is None else denial.reason.code


def test_no_size_hides_anything() -> None:
    """Neither do thousands of annotations."""
    assert code(ALL_DEVICES, annotations={f"a.b/{number}": "" for number in range(2_000)}) == "VGW605"


def test_many() -> None:
    """Every one is judged, and too many at once are denied."""
    harmless = [{**PLAIN, "name": f"d{number}"} for number in range(MAX_DECISIONS // 2)]
    assert code(*harmless) is None
    assert code(*harmless[:-1], ALL_DEVICES) == "VGW605"
    assert code(*harmless, PLAIN) == "VGW318"
