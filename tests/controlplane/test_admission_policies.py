"""Generated admission policies on a real API server: nothing of ours runs, and nothing of ours is registered."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.controlplane.client import Answer, Object, plural
from tests.controlplane.in_cluster import set_settings
from tests.controlplane.objects import namespace, settings
from tests.controlplane.plane import ControlPlane
from tests.controlplane.test_doctor import examine
from tests.strict_patch import apply_strictly
from tests.test_admission_policies import policy
from webhook import labels
from webhook.admission import Context, Namespace, decide
from webhook.admission_policies import guard_objects, hide_objects
from webhook.cli import main
from webhook.pod import decode_pod

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600), pytest.mark.once("isolation")]

TEAM = "policies-team"
OPT_IN = "policies.example/inject"
"""A label of its own: policies are the cluster's, and other tests have namespaces there."""
PRIVILEGED = "policies-privileged"
PERMITTING = {OPT_IN: labels.ENABLED, "pod-security.kubernetes.io/enforce": "privileged"}
HAMI = policy(target="nvidia", bareDevices="whole", optInLabel=OPT_IN)
REGISTRATION = "admissionregistration.k8s.io/v1"
HIDES = pytest.mark.kubernetes("1.36", why="older API servers do not serve MutatingAdmissionPolicy as v1")


def container(name: str = "main", limits: dict[str, str] | None = None, **fields: Any) -> Object:
    """A container."""
    return {"name": name, "image": "app", "resources": {"limits": limits or {}}, **fields}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A namespace that has opted in, and both policies, as far as the API server serves their kinds."""
    client = control_plane.client
    control_plane.create_namespace(namespace(TEAM, {OPT_IN: labels.ENABLED}))
    control_plane.create_namespace(namespace(PRIVILEGED, PERMITTING))
    served = {each["name"] for each in client.call("GET", f"/apis/{REGISTRATION}").accepted()["resources"]}
    hides = "mutatingadmissionpolicies" in served
    objects = [*guard_objects(HAMI, "1", "Deny"), *(hide_objects(HAMI, "1") if hides else ())]
    for each in objects:
        client.create(each).accepted()
    # The API server reads policies again after a while; a pod that must be denied and a variable that must be set show both.
    forbidden = [container(limits={"volcano.sh/vgpu-number": "1"})]
    control_plane.wait_until(lambda: submit(control_plane, forbidden).status == 422, "the guard")
    if hides:
        control_plane.wait_until(lambda: env(submit(control_plane, [container()])), "hiding")
    yield control_plane
    for each in objects:
        client.delete(REGISTRATION, plural(each["kind"]), each["metadata"]["name"])


def submit(plane: ControlPlane, containers: list[Object], *, metadata: Object | None = None, **spec: Any) -> Answer:
    """A pod, as a dry run."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **(metadata or {})}}
    return plane.client.create({**pod, "spec": {"containers": containers, **spec}}, TEAM, dry_run=True)


def env(answer: Answer, number: int = 0, field: str = "containers") -> list[Object]:
    """The variables of a stored container."""
    found: list[Object] = answer.accepted()["spec"][field][number].get("env", [])
    return found


HIDDEN = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}


@pytest.mark.parametrize(
    "limits, spec, message",
    [
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}, {}, "keys that are translated here"),
        (SHARE, {}, "lacks its scheduler hami-scheduler"),
        ({"nvidia.com/gpu": "1"}, {"schedulerName": "hami-scheduler"}, "without the memory that HAMi needs"),
    ],
)
def test_what_the_webhook_would_have_changed_is_denied(
    plane: ControlPlane, limits: dict[str, str], spec: dict[str, Any], message: str
) -> None:
    """In the API server itself: no replica is there."""
    answer = submit(plane, [container(limits=limits)], **spec)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert message in answer.message
    assert "vgpu-webhook-guard" in answer.message


@pytest.mark.parametrize(
    "limits, metadata, spec",
    [
        (SHARE, {}, {"schedulerName": "hami-scheduler"}),
        ({"volcano.sh/vgpu-number": "0"}, {}, {}),
        ({"cpu": "1"}, {}, {}),
        (SHARE, {"labels": {labels.INJECT: "disabled"}}, {}),
        ({"volcano.sh/vgpu-number": "1"}, {"annotations": {labels.TARGET: "volcano"}}, {"schedulerName": "volcano"}),
    ],
)
def test_others_are_stored(plane: ControlPlane, limits: dict[str, str], metadata: Object, spec: dict[str, Any]) -> None:
    """What a decision would leave so, or has no say in."""
    submit(plane, [container(limits=limits)], metadata=metadata, **spec).accepted()


def test_a_scheduler_s_annotation_is_denied(plane: ControlPlane) -> None:
    """A forged allocation takes devices of others."""
    forged = {"annotations": {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,3000,0:;"}}
    answer = submit(plane, [container(limits=SHARE)], metadata=forged, schedulerName="hami-scheduler")
    assert "belong to the scheduler of HAMi" in answer.message


def test_a_share_without_its_shim_is_denied(plane: ControlPlane) -> None:
    """Where the namespace permits it; with it, a pod passes that has as many variables as a decision looks through."""
    many = [{"name": f"A{number}", "value": "b"} for number in range(240)]
    shares = [container(f"c{number}", SHARE, env=many) for number in range(32)]
    sent = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": shares}}
    decision = decide(decode_pod(json.dumps(sent).encode()), Context(Namespace(PRIVILEGED, PERMITTING)), HAMI)
    assert decision.allowed, decision.denial
    stored = apply_strictly(sent, decision.patch)
    plane.client.create(stored, PRIVILEGED, dry_run=True).accepted()
    last = stored["spec"]["containers"][-1]
    without = {field: [each for each in last[field] if each["name"] != name] for field, name in SHIM}
    for field, kept in without.items():
        spec = {**stored["spec"], "containers": [*stored["spec"]["containers"][:-1], {**last, field: kept}]}
        answer = plane.client.create({**stored, "spec": spec}, PRIVILEGED, dry_run=True)
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "a container with a share of HAMi lacks the shim" in answer.message


SHIM = (("env", "LD_PRELOAD"), ("volumeMounts", "vgpu-shim"))


@HIDES
def test_devices_are_hidden_from_containers_that_request_none(plane: ControlPlane) -> None:
    """Instead of the image's ``all``, or the pod's; beside a share only from the others; other variables stay."""
    other = {"name": "A", "value": "b"}
    answer = submit(
        plane,
        [
            container(limits=SHARE),
            container("proxy", env=[other, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
            container("hidden", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]),
        ],
        initContainers=[container("init"), container("init-share", SHARE)],
        schedulerName="hami-scheduler",
    )
    assert env(answer) == []
    assert sorted(env(answer, 1), key=str) == sorted([other, HIDDEN], key=str)
    assert env(answer, 2) == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    assert env(answer, 0, "initContainers") == [HIDDEN]
    assert env(answer, 1, "initContainers") == []


@HIDES
def test_devices_stay_visible(plane: ControlPlane) -> None:
    """To what requests by the pod's annotations, by a claim, or reads the variable from elsewhere."""
    by_annotation = submit(
        plane, [container()], metadata={"annotations": {"gpu-fraction": "0.5"}}, schedulerName="kai-scheduler"
    )
    assert env(by_annotation) == []
    claim = {"claims": [{"name": "gpu"}]}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    assert env(submit(plane, [{**container(), "resources": claim}], resourceClaims=claims)) == []
    source = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    (kept,) = env(submit(plane, [container(env=[source])]))
    assert "value" not in kept


RELEASE = "policies-release"


def checked(plane: ControlPlane) -> Object:
    """What `check` says of these policies."""
    found: Object = examine(plane.kubeconfig, RELEASE).checks["admission-policies"]
    return found


@HIDES
def test_check_finds_stale_policies(plane: ControlPlane) -> None:
    """With the command that prints them again: after it, nothing is stale."""
    client = plane.client
    plane.create_namespace(namespace(RELEASE))
    text = f"target: nvidia\nbareDevices: whole\noptInLabel: {OPT_IN}\n"
    client.create(settings(text), RELEASE).accepted()
    assert checked(plane)["level"] == "ok"
    set_settings(plane, RELEASE, f"{text}neverTouched: [policies-spared]\n").accepted()
    stale = checked(plane)
    assert stale["level"] == "warning"
    assert [text.partition(" (")[0] for text in stale["details"]] == [
        "vgpu-webhook-guard: the ValidatingAdmissionPolicy differs",
        "vgpu-webhook-hide: the MutatingAdmissionPolicy differs",
    ]
    command, pipe, rest = stale["hint"].partition(" | ")
    assert (pipe, rest) == (" | ", "kubectl apply -f -")
    printed = CliRunner().invoke(main, [*command.split()[1:], "--kubeconfig", str(plane.kubeconfig)])
    for each in yaml.safe_load_all(printed.stdout):
        path = f"/apis/{REGISTRATION}/{plural(each['kind'])}/{each['metadata']['name']}"
        version = client.call("GET", path).accepted()["metadata"]["resourceVersion"]
        client.call("PUT", path, {**each, "metadata": {**each["metadata"], "resourceVersion": version}}).accepted()
    assert checked(plane)["level"] == "ok"
