"""Warnings to the author of a pod: about overrides, hints, and conflicting or misplaced keys."""

import json
from typing import Any

import pytest

from tests.admission.scene import pod
from tests.generators.admissions import decision_on
from tests.naming import each_of
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

POLICY = load_policy()
PRIVILEGED = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}


def decided(container: dict[str, Any], policy: Policy = POLICY, *, spec: Any = None, namespace: Any = None) -> Decision:
    """The decision on a pod with one container."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", **container}], **(spec or {})}}
    context = Context(Namespace("team", PRIVILEGED, namespace or {}))
    return decide(decode_pod(json.dumps(pod).encode()), context, policy)


def share(**more: Any) -> dict[str, Any]:
    """A container that requests a share."""
    return {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}, **more}


@pytest.mark.parametrize("mode, count", [("enforce", 1), ("warn", 1), ("audit", 0)])
def test_pod_without_keys_is_warned_about_except_in_audit(mode: str, count: int) -> None:
    """A misplaced key on a pod that requests nothing is reported, and in a namespace of mode audit nobody is warned."""
    sent = pod({"name": "a"})
    sent["metadata"]["labels"] = {"nvidia.com/gpumem": "1"}
    decision = decision_on(sent, Context(Namespace("team", {**PRIVILEGED, "vgpu-webhook.io/mode": mode})), POLICY)
    assert decision.allowed
    assert decision.patch == ()
    assert [finding.reason for finding in decision.warnings] == [Reason.MISPLACED_KEY] * count


@each_of(
    "labels, reasons",
    [
        ({}, "VGW509,VGW601"),
        ({"mode": "audit"}, "VGW509,VGW601"),
        ({"mode": "lenient"}, "VGW110,VGW509,VGW601"),
        ({"rollout": "101"}, "VGW110,VGW509,VGW601"),
    ],
)
def test_audit_log_has_every_reason(labels: dict[str, str], reasons: str) -> None:
    """What the pod is told, also where nobody is warned, and what cannot be read in the namespace's labels."""
    namespace = Namespace("team", {**PRIVILEGED, **{f"vgpu-webhook.io/{name}": text for name, text in labels.items()}})
    decision = decision_on(pod({"name": "a", **share()}), Context(namespace), POLICY)
    assert decision.audit["reasons"] == reasons


def test_hints_with_a_variable_are_told() -> None:
    """A key whose variable has an expression is looked for beside all other vendors' keys, too."""
    pod = {
        "metadata": {"annotations": {"hami.io/use-BI-V150-uuid": "u", "hami.io/use-X-uuid": "u"}},
        "spec": {"containers": [{"name": "a", "resources": {"limits": {"iluvatar.ai/vgpu": "1"}}}]},
    }
    namespace = Namespace("team", PRIVILEGED, {"vgpu-webhook.io/target": "volcano"})
    decision = decide(decode_pod(json.dumps(pod).encode()), Context(namespace), POLICY)
    count = [finding.field for finding in decision.warnings if finding.reason is Reason.HINT_NOT_CARRIED]
    assert count == ["hami.io/use-BI-V150-uuid"]


@each_of(
    "limits, message",
    [
        (
            {"nvidia.com/vgpu-core": "30", "nvidia.com/vgpu-cores": "40", "nvidia.com/vgpu-number": "1"},
            "nvidia.com/vgpu-core: 30 and nvidia.com/vgpu-cores: 40 are two spellings of one key: keep one",
        ),
        (
            {"hygon.com/dcunum": "1", "hygon.com/hcunum": "1"},
            "hygon.com/dcunum: 1, hygon.com/hcunum: 1: the keys of one container must name the same model or chip",
        ),
        (
            {"iluvatar.ai/vgpu": "1", "iluvatar.ai/MR-V100-vgpu": "1"},
            "iluvatar.ai/MR-V100-vgpu: 1 and iluvatar.ai/vgpu: 1 are two spellings of one key: keep one",
        ),
        (
            {"iluvatar.ai/BI-V150-vgpu": "1", "iluvatar.ai/MR-V100-vgpu": "1"},
            (
                "iluvatar.ai/BI-V150-vgpu: 1, iluvatar.ai/MR-V100-vgpu: 1: "
                "the keys of one container must name the same model or chip"
            ),
        ),
        (
            {"iluvatar.ai/BI-V150-vgpu": "1", "iluvatar.ai/MR-V100.vCore": "10"},
            (
                "iluvatar.ai/BI-V150-vgpu: 1, iluvatar.ai/MR-V100.vCore: 10: "
                "the keys of one container must name the same model or chip"
            ),
        ),
    ],
)
def test_keys_that_clash_are_both_named(limits: dict[str, str], message: str) -> None:
    """The second spelling of a key is what is to be found and removed."""
    decision = decided({"resources": {"limits": limits}})
    assert decision.reason is Reason.SPELLINGS_DIFFER
    assert decision.denial is not None
    assert decision.denial.message == message


def test_several_sizes_that_have_to_be_translated_are_all_named() -> None:
    """In their own keys they are let be; for another vendor they are no request."""
    limits = {"nvidia.com/mig-1g.5gb": "1", "nvidia.com/mig-2g.10gb": "1"}
    decision = decided({"resources": {"limits": limits}}, namespace={"vgpu-webhook.io/target": "nvidia"})
    assert decision.reason is Reason.SPELLINGS_DIFFER
    assert decision.denial is not None
    assert decision.denial.message.startswith("nvidia.com/mig-1g.5gb: 1, nvidia.com/mig-2g.10gb: 1: the keys")


@each_of("mode", ["enforce", "warn", "audit"])
@each_of("level, reason", [("privileged", Reason.IMAGE_PATH_ASSUMED), ("baseline", Reason.LEFT_TO_PLUGIN)])
def test_notes_are_no_warnings(mode: str, level: str, reason: Reason) -> None:
    """What the author of a pod cannot change is in the status and the audit log, whatever the mode."""
    namespace = Namespace(
        "team", {**PRIVILEGED, "pod-security.kubernetes.io/enforce": level, "vgpu-webhook.io/mode": mode}
    )
    sent = pod({"name": "a", **share()}, schedulerName="hami-scheduler")
    decision = decision_on(sent, Context(namespace), POLICY)
    assert decision.warnings == ()
    assert [note.reason for note in decision.notes] == [reason]
    assert decision.status["containers"]["a"]["notes"][0].startswith(f"{reason.code}: ")
    assert decision.audit["reasons"] == reason.code
