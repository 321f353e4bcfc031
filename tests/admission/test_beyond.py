"""A pod that requests nothing is never denied for its size, and devices are hidden from it whatever its size."""

import json
from typing import Any, Final

import pytest

from tests.decided import TEAM, decided, pod_with, view
from tests.decisions.test_bounded_time import MOST_CALLS, counted
from tests.mapping.vendors import policy
from tests.naming import each_of, naming
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.eligibility import MAX_ANNOTATIONS, MAX_HIDDEN
from webhook.admission.judge import judge_pod
from webhook.labels import MODE
from webhook.pod import decode_pod
from webhook.reasons import Reason

Json = dict[str, Any]
SETTINGS: Final = "target: nvidia\nbareDevices: whole\n"
HIDES: Final = policy(settings=f"{SETTINGS}hideDevices: true\n")
SHOWS: Final = policy(settings=SETTINGS)
HIDDEN: Final = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
OTHER: Final = {"name": "A", "value": "b"}
OF_NODE: Final = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
REFERENCE: Final = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def texts(count: int, size: int = 1) -> Json:
    """Many labels, annotations or selectors."""
    return {f"a{number}": "x" * size for number in range(count)}


def with_metadata(**metadata: Any) -> Json:
    """A pod whose container has a variable."""
    made = pod_with({"name": "main", "env": [OTHER]})
    made["metadata"] |= metadata
    return made


LARGE: Final[dict[str, Json]] = {
    "annotations": with_metadata(annotations=texts(1025)),
    "labels": with_metadata(labels=texts(1025)),
    "long annotations": with_metadata(annotations=texts(2, MAX_ANNOTATIONS - 1000)),
    "a long label": with_metadata(labels={"a" * 400: "b"}),
    "keys of the node selector": pod_with({"name": "main"}, nodeSelector=texts(1025)),
    "containers": pod_with(*({"name": f"c{number}"} for number in range(1025))),
    "most containers": pod_with(*({"name": f"c{number}", "env": [OTHER]} for number in range(MAX_HIDDEN))),
    "init containers": pod_with(initContainers=[{"name": f"c{number}"} for number in range(1025)]),
    "resources": pod_with({"name": "main", "resources": {"limits": {f"example.com/{at}": "1" for at in range(4097)}}}),
    "numbers of 0": pod_with(
        {"name": "main", "resources": {"limits": {f"nvidia.com/{at}": "0" for at in range(4097)}}}
    ),
    "mounts": pod_with({"name": "main", "volumeMounts": [{"name": "a", "mountPath": "/vgpu-shim"}] * 8193}),
    "volumes": pod_with({"name": "main"}, volumes=[{"name": "hostPath"}] * 8193),
    "tolerations": pod_with({"name": "main"}, tolerations=[{"key": "a" * 300_000}]),
    "variables": pod_with({"name": "main", "env": [HIDDEN | {"name": "LD_AUDIT"}] * 8193}),
}


def decision(sent: Json, *, hide: bool, mode: str = "enforce") -> Decision:
    """What becomes of it."""
    return decided(sent, HIDES if hide else SHOWS, Context(Namespace("team", {**TEAM.labels, MODE: mode})))


@each_of("large", LARGE)
def test_it_is_stored_and_hidden_from(large: str) -> None:
    """Every container gets the variable, once; nothing else of the pod is changed, and nobody has anything to add."""
    sent = LARGE[large]
    assert decision(sent, hide=False).allowed
    done = decision(sent, hide=True)
    assert (done.allowed, done.reason) == (True, Reason.CHANGED)
    assert done.status_json is not None
    assert json.loads(done.status_json) == {"policy": HIDES.digest, "containers": {}}
    stored = apply_strictly(sent, done.patch)
    for each in (*stored["spec"]["containers"], *stored["spec"].get("initContainers", ())):
        assert each["env"][-1] == HIDDEN
    if large not in {"resources", "numbers of 0", "mounts", "volumes", "tolerations", "variables", "a long label"}:
        assert stored["metadata"] == sent["metadata"]
    assert judge_pod(view(stored), Context(TEAM), HIDES).allowed
    assert decision(stored, hide=True).patch == ()
    for mode in ("warn", "audit"):
        assert (decision(sent, hide=True, mode=mode).allowed, decision(sent, hide=True, mode=mode).patch) == (True, ())


def test_a_variable_that_is_there() -> None:
    """Its last value is replaced, but for one that hides, or a reference."""
    listed = [[], [OTHER], [OF_NODE], [OF_NODE, REFERENCE], [HIDDEN, OF_NODE], [OF_NODE, HIDDEN], [REFERENCE]]
    sent = pod_with(
        *({"name": f"c{at}", "env": env} for at, env in enumerate(listed)), *({"name": f"d{at}"} for at in range(1024))
    )
    stored = apply_strictly(json.loads(json.dumps(sent)), decision(sent, hide=True).patch)
    shown = [each["env"] for each in stored["spec"]["containers"][: len(listed)]]
    assert shown == [
        [HIDDEN],
        [OTHER, HIDDEN],
        [HIDDEN],
        [OF_NODE, REFERENCE],
        [HIDDEN, HIDDEN],
        [OF_NODE, HIDDEN],
        [REFERENCE],
    ]


SHARE: Final = {"limits": {"nvidia.com/gpu": "1"}}


@pytest.mark.parametrize("hide", [False, True])
def test_one_that_requests_is_denied(hide: bool) -> None:  # noqa: FBT001
    """By a resource of any container, a label, an annotation or a claim: further steps would look at all of it."""
    wide = [{"name": f"c{number}"} for number in range(1025)]
    for sent in (
        pod_with(*wide, {"name": "main", "resources": SHARE}),
        pod_with(*wide, {"name": "main", "resources": {"requests": {"nvidia.com/gpu": 1}}}),
        pod_with(*wide, {"name": "main", "resources": {"claims": [{"name": "gpu"}]}}),
        pod_with(*wide, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "mine"}]),
        pod_with(*wide, initContainers=[{"name": "main", "resources": SHARE}]),
        with_metadata(annotations={**texts(1024), "gpu-memory": "1024"}),
    ):
        with naming(str(sent)[-80:]):
            denial = decision(sent, hide=hide).denial
            assert denial is not None
            assert denial.reason is Reason.TOO_MANY


def test_more_containers_than_any_stored_pod() -> None:
    """Their variables would not fit: only where devices are hidden."""
    sent = pod_with(*({"name": f"c{number}"} for number in range(MAX_HIDDEN + 1)))
    assert decision(sent, hide=False).allowed
    assert not decision(sent, hide=True).allowed


def test_a_request_beside_annotations_without_room() -> None:
    """It is treated like any other."""
    sent = with_metadata(annotations=texts(2, MAX_ANNOTATIONS - 1000))
    sent["spec"]["containers"][0]["resources"] = SHARE
    assert decision(sent, hide=True).status["containers"]


@each_of("large", ["most containers", "resources", "variables"])
def test_it_is_decided_in_bounded_time(large: str) -> None:
    """As any other pod: in no more calls."""
    body = json.dumps(LARGE[large]).encode()
    calls, _, _ = counted(lambda: decide(decode_pod(body), Context(TEAM), HIDES))
    assert calls <= MOST_CALLS
