"""Generated admission policies: what decisions store passes them, what nobody decided on does not."""

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.cluster.cel import evaluated
from tests.generators.requests import Json, drawn_pods
from tests.strict_patch import apply_strictly
from webhook import labels
from webhook.admission import Context, Namespace, decide
from webhook.admission_policies import GUARD, HIDE, guard_objects, hide_objects
from webhook.cluster.client.api import Object
from webhook.cluster.registration.desired import selects
from webhook.mapping.document.problem import MappingError
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod

TEAM = {
    "kubernetes.io/metadata.name": "team",
    labels.INJECT: labels.ENABLED,
    "pod-security.kubernetes.io/enforce": "privileged",
}


@cache
def policy_of(settings: str, changes: tuple[str, ...]) -> Policy | None:
    """The policy of these documents in JSON; None where they contradict each other."""
    documents = [Document("generated", json.loads(change), {}) for change in changes]
    try:
        return build_policy(documents, Document("settings", json.loads(settings), {}))
    except MappingError:
        return None


def policy(**settings: Any) -> Policy:
    """The built-in mappings under these settings."""
    made = policy_of(json.dumps(settings), ())
    assert made is not None
    return made


HAMI = policy(target="nvidia", bareDevices="whole")
TARGETS = sorted(name for name, vendor in HAMI.vendors.items() if vendor.target and not vendor.inactive)


def denials(
    guard: list[Object],
    pod: Json,
    *,
    namespace: dict[str, str] = TEAM,
    annotations: dict[str, str] | None = None,
    user: str = "u",
) -> list[str]:
    """The messages of the rules that a pod breaks, as the API server applies a policy."""
    spec = guard[0]["spec"]
    if not selects(spec["matchConstraints"]["namespaceSelector"], namespace):
        return []
    if not all(evaluated(each["expression"], pod) for each in spec["matchConditions"]):
        return []
    around = {"metadata": {"labels": namespace, "annotations": annotations or {}}}
    (applies,) = spec["variables"]
    others: dict[str, Any] = {"namespaceObject": around, "request": {"userInfo": {"username": user}}}
    variables = {"applies": evaluated(applies["expression"], pod, **others)}
    return [
        rule["message"]
        for rule in spec["validations"]
        if not evaluated(rule["expression"], pod, variables=variables, **others)
    ]


def container(limits: dict[str, str], name: str = "main") -> Json:
    """A container with these limits, and requests as the API server adds them."""
    return {"name": name, "resources": {"limits": limits, "requests": dict(limits)}}


def pod(limits: dict[str, str], **spec: Any) -> Json:
    """A pod with one container."""
    return {"metadata": {"name": "p"}, "spec": {"containers": [container(limits)], **spec}}


def defaulted(stored: Json) -> Json:
    """A pod with the scheduler that the API server adds."""
    return {**stored, "spec": {"schedulerName": "default-scheduler", **stored["spec"]}}


@cache
def guards() -> dict[tuple[str, str], tuple[Policy, list[Object]]]:
    """The policies that have a guard, with it, by target and by what devices alone are."""
    return {
        (target, bare): (made, guard_objects(made, "1", "Deny"))
        for target in TARGETS
        for bare in ("whole", "share")
        if (made := policy_of(json.dumps({"target": target, "bareDevices": bare}), ())) is not None
        and guard_objects(made, "1", "Deny")
    }


VENDORS = sorted(HAMI.vendors)


@given(st.data())
def test_what_a_decision_stores_passes(data: st.DataObject) -> None:
    """Whatever the target, and in whatever keys: the guard has no rule that decisions do not have."""
    made, guard = guards()[data.draw(st.sampled_from(sorted(guards())))]
    names = [data.draw(st.sampled_from(VENDORS)), data.draw(st.none() | st.sampled_from(VENDORS))]
    first, second = (None if name is None else made.vendors[name] for name in names)
    assert first is not None
    sent = data.draw(drawn_pods(first, second))
    decision = decide(decode_pod(json.dumps(sent).encode()), Context(Namespace("team", TEAM)), made)
    event(decision.reason.name)
    if decision.allowed:
        assert denials(guard, defaulted(apply_strictly(sent, decision.patch))) == []


SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
PLACED = {"schedulerName": "hami-scheduler"}
IMAGE = {"image": {"volume": "vgpu-shim", "reference": "registry.example/shim:1", "mountPath": "/usr/local/vgpu-shim"}}


@pytest.mark.parametrize(
    "sent, message",
    [
        (pod({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}), "keys that are translated"),
        (
            pod(
                {"cpu": "1"},
                initContainers=[container({"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"})],
            ),
            "keys that are translated",
        ),
        (pod(SHARE), "lacks its scheduler hami-scheduler"),
        (pod({"nvidia.com/gpu": "1"}, **PLACED), "without the memory that HAMi needs"),
        (
            {
                **pod(SHARE, **PLACED),
                "metadata": {"annotations": {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,3000,0:;"}},
            },
            "annotations of the pod belong to the scheduler of HAMi",
        ),
    ],
)
def test_what_nobody_decided_on_is_denied(sent: Json, message: str) -> None:
    """A request as it was sent; the same pod as a decision stores it passes."""
    guard = guard_objects(HAMI, "1", "Deny")
    assert [text for text in denials(guard, defaulted(sent)) if message in text] != []
    stored = apply_strictly(
        sent, decide(decode_pod(json.dumps(sent).encode()), Context(Namespace("team", TEAM)), HAMI).patch
    )
    assert denials(guard, defaulted(stored)) == []


LACKS = "a container with a share of HAMi lacks the shim: vgpu-webhook check finds out why"


def decided(sent: Json, made: Policy = HAMI) -> Json:
    """A pod as a decision stores it."""
    decision = decide(decode_pod(json.dumps(sent).encode()), Context(Namespace("team", TEAM)), made)
    stored: Json = apply_strictly(sent, decision.patch)
    return defaulted(stored)


@pytest.mark.parametrize(
    "field, name",
    [
        ("volumes", "vgpu-shim"),
        ("volumeMounts", "vgpu-shim"),
        *(
            ("env", name)
            for name in ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_SHARED_CACHE", "LD_LIBRARY_PATH", "LD_PRELOAD")
        ),
    ],
)
@pytest.mark.parametrize("others", [{}, {"initContainers": [container({"cpu": "1"}, "first")]}])
def test_what_a_shim_lacks_is_denied(field: str, name: str, others: Json) -> None:
    """Whatever of it is missing in the container with the share, where the namespace permits the delivery."""
    guard = guard_objects(HAMI, "1", "Deny")
    stored = decided(pod(SHARE, **others))
    assert denials(guard, stored) == []
    holder = stored["spec"] if field == "volumes" else stored["spec"]["containers"][0]
    assert name in {each["name"] for each in holder[field]}
    holder[field] = [each for each in holder[field] if each["name"] != name]
    assert denials(guard, stored) == [LACKS]
    assert denials(guard, stored, annotations={labels.SHIM: "none"}) == []
    for level in ("baseline", "restricted", ""):
        assert denials(guard, stored, namespace={**TEAM, "pod-security.kubernetes.io/enforce": level}) == []


@pytest.mark.parametrize(
    "shim, settings, level, found",
    [
        ({"mode": "plugin"}, {}, "privileged", []),
        ({"delivery": ["none"]}, {}, "privileged", []),
        ({"needs": ["memory", "cores"]}, {}, "privileged", []),
        ({"delivery": [IMAGE]}, {}, "privileged", []),
        ({"delivery": [IMAGE]}, {"imageVolumes": True}, "restricted", [LACKS]),
    ],
)
def test_where_a_shim_is_certain(shim: Json, settings: Json, level: str, found: list[str]) -> None:
    """Where a decision may leave the limit to the device plugin, the guard has no say."""
    change = {"extends": "nvidia", "shim": shim}
    made = policy_of(json.dumps({"target": "nvidia", "bareDevices": "whole", **settings}), (json.dumps(change),))
    assert made is not None
    namespace = {**TEAM, "pod-security.kubernetes.io/enforce": level}
    guard = guard_objects(made, "1", "Deny")
    assert denials(guard, defaulted(pod(SHARE, **PLACED)), namespace=namespace) == found
    assert denials(guard, decided(pod(SHARE), made), namespace=namespace) == []


@pytest.mark.parametrize(
    "namespace, annotations, sent_labels, passes",
    [
        ({}, {}, {}, False),
        ({labels.MODE: "audit"}, {}, {}, True),
        ({labels.MODE: "anything"}, {}, {}, True),
        ({labels.ROLLOUT: "50"}, {}, {}, True),
        ({labels.INJECT: "off"}, {}, {}, True),
        ({"kubernetes.io/metadata.name": "kube-system"}, {}, {}, True),
        ({}, {labels.TARGET: "volcano"}, {}, True),
        ({}, {labels.BARE_DEVICES: "share"}, {}, True),
        ({}, {}, {labels.INJECT: "disabled"}, True),
        ({labels.OPT_OUT: "forbidden"}, {}, {labels.INJECT: "disabled"}, False),
    ],
)
def test_where_it_applies(
    namespace: dict[str, str], annotations: dict[str, str], sent_labels: dict[str, str], *, passes: bool
) -> None:
    """Where the webhook enforces on all pods, by nothing but the policy; elsewhere it has no say."""
    sent = {**pod(SHARE), "metadata": {"labels": sent_labels}}
    guard = guard_objects(HAMI, "1", "Deny")
    found = denials(guard, sent, namespace={**TEAM, **namespace}, annotations=annotations)
    assert (found == []) is passes


def test_the_scheduler_may_write_what_it_owns() -> None:
    """As in decisions: by its user name, in the mapping."""
    change = {"extends": "nvidia", "ownedBy": ["system:serviceaccount:kube-system:hami"]}
    made = policy_of(json.dumps({"target": "nvidia", "bareDevices": "whole"}), (json.dumps(change),))
    assert made is not None
    forged = {**pod(SHARE, **PLACED), "metadata": {"annotations": {"hami.io/vgpu-node": "n"}}}
    guard = guard_objects(made, "1", "Deny")
    owned = "annotations of the pod"
    assert [text for text in denials(guard, forged) if owned in text] != []
    found = denials(guard, forged, user="system:serviceaccount:kube-system:hami")
    assert [text for text in found if owned in text] == []


def test_objects_name_their_policy() -> None:
    """A policy and its binding, which say what they were made from; what is done with a pod is the binding's."""
    made, binding = guard_objects(HAMI, "1.2.3", "Warn")
    assert (made["kind"], binding["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert made["metadata"] == {"name": GUARD, "annotations": {labels.WRITTEN_BY: f"1.2.3 {HAMI.digest}"}}
    assert binding["spec"] == {"policyName": GUARD, "validationActions": ["Warn"]}
    made, binding = hide_objects(HAMI, "1.2.3")
    assert (made["kind"], binding["spec"]) == ("MutatingAdmissionPolicy", {"policyName": HIDE})


def test_nothing_to_say() -> None:
    """Without a target, pods stay in their own keys, and nobody says which hardware the cluster has."""
    assert guard_objects(policy(), "1", "Deny") == []
    assert hide_objects(policy(), "1") == []


def test_a_variable_of_several_makers() -> None:
    """Where one hides devices of two, a container that requests either keeps it; other hardware does not count."""
    made, _ = hide_objects(policy(target="hygon"), "1")
    texts = [mutation["applyConfiguration"]["expression"] for mutation in made["spec"]["mutations"]]
    assert any("name: 'NVIDIA_VISIBLE_DEVICES', value: 'void'" in text for text in texts)
    assert all("'hygon.com'" in text and "'nvidia.com'" in text and "'amd.com'" not in text for text in texts)
