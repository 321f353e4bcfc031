"""Labels and annotations of our own that have no effect: reported with the pods that they concern."""

from typing import Any

import pytest

from tests.admission.scene import pod
from tests.generators.admissions import decision_on
from tests.naming import each_of
from webhook.admission import Context, Decision, Namespace
from webhook.admission.survey import MOST, unread_keys
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy, load_policy
from webhook.reasons import Reason

POLICY = load_policy()
OURS = "vgpu-webhook.io"
LABELS = {f"{OURS}/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
SHARE = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}}
PLAIN = {"name": "main"}


def decided(container: dict[str, Any], metadata: Any = None, labels: Any = None, annotations: Any = None) -> Decision:
    """The decision on a pod with one container in an opted-in namespace."""
    sent = pod(container, schedulerName="hami-scheduler")
    sent["metadata"] |= metadata or {}
    return decision_on(sent, Context(Namespace("team", {**LABELS, **(labels or {})}, annotations or {})), POLICY)


def texts(decision: Decision) -> list[str]:
    """The warnings about our own keys, without our prefix."""
    found = [finding for finding in decision.warnings if finding.reason is Reason.OWN_KEY_UNUSED]
    return [finding.message.replace(f"{OURS}/", "") for finding in found]


@each_of(
    "metadata, text",
    [
        ({"annotations": {f"{OURS}/taget": "x"}}, "annotation taget … pod: did you mean the annotation target?"),
        ({"labels": {f"{OURS}/target": "x"}}, "label target … pod: write it as an annotation"),
        ({"labels": {f"{OURS}/mode": "warn"}}, "label mode … pod: write it as a label of the namespace"),
        ({"labels": {f"{OURS}/inject": "false"}}, "label inject: 'false' … pod: write disabled, or remove it"),
        ({"annotations": {f"{OURS}/xyz": "x"}}, "annotation xyz … pod: known are status, summary, target"),
        (
            {"annotations": {f"{OURS}/container.main.memroy": "1Gi"}},
            "annotation container.main.memroy … pod: did you mean the annotation container.{container}.memory?",
        ),
    ],
)
@each_of("container", [SHARE, PLAIN])
def test_key_of_a_pod(container: dict[str, Any], metadata: dict[str, Any], text: str) -> None:
    """It is reported wherever the webhook looks at the pod, with what was meant."""
    assert texts(decided(container, metadata)) == [text.replace("…", "has no effect on a")]


@each_of(
    "labels, annotations, text",
    [
        ({f"{OURS}/moed": "warn"}, {}, "label moed … namespace: did you mean the label mode?"),
        ({f"{OURS}/opt-out": "no"}, {}, "label opt-out: 'no' … namespace: write forbidden, or remove it"),
        ({}, {f"{OURS}/default-memroy": "1Gi"}, "annotation default-memroy … namespace: did you mean the annotation default-"),
        ({}, {f"{OURS}/container.main.memory": "1Gi"}, "annotation container.main.memory … namespace: known are "),
    ],
)  # fmt: skip
def test_key_of_a_namespace(labels: dict[str, str], annotations: dict[str, str], text: str) -> None:
    """It is reported with the pods that request devices, denied ones included, and with no other."""
    (found,) = texts(decided(SHARE, None, labels, annotations))
    assert found.startswith(text.replace("…", "has no effect on a"))
    assert texts(decided({**SHARE, "securityContext": {"privileged": True}}, None, labels, annotations)) == [found]
    assert texts(decided(PLAIN, None, labels, annotations)) == []


def test_known_keys_are_no_finding() -> None:
    """Ours with their values, those of mappings below our prefix, and everything of others."""
    pods = {f"{OURS}/status": "{}", f"{OURS}/target": "nvidia", f"{OURS}/container.main.memory": "1Gi", "a/b": "c"}
    assert not [*unread_keys("pod", {f"{OURS}/inject": "disabled"}, pods, POLICY)]
    assert not [*unread_keys("namespace", LABELS | {f"{OURS}/opt-out": "forbidden"}, {"a/b": "c"}, POLICY)]
    assert not [*unread_keys("pod", None, None, POLICY)]


def test_misplaced_key_of_a_mapping_is_reported_once() -> None:
    """`survey` knows where its vendor reads it."""
    mapping = "extends: neutral\nkeys: {size: {annotation: vgpu-webhook.io/size, is: memory, unit: 1Mi}}\n"
    policy = build_policy(parse(mapping, "neutral.yaml"))
    sent = pod(PLAIN)
    sent["metadata"]["labels"] = {f"{OURS}/size": "1"}
    decision = decision_on(sent, Context(Namespace("team", LABELS)), policy)
    assert [finding.reason for finding in decision.warnings] == [Reason.MISPLACED_KEY]


def test_opt_in_label_of_the_settings() -> None:
    """It is known under its own name, and its values are those of the usual one."""
    renamed = build_policy((), parse(f"optInLabel: {OURS}/gpus\n", "settings.yaml")[0])
    assert not [*unread_keys("namespace", {f"{OURS}/gpus": "enabled"}, {}, renamed)]
    (finding,) = unread_keys("namespace", {f"{OURS}/gpus": "true"}, {}, renamed)
    assert finding.message.startswith(f"label {OURS}/gpus: 'true'")


def test_reports_are_bounded() -> None:
    """However many keys a pod has, and however long they are."""
    many = {f"{OURS}/{number}{'x' * 1000}": "" for number in range(100)}
    findings = [*unread_keys("pod", many, many, POLICY)]
    assert len(findings) == 2 * MOST
    assert all(len(finding.message) < 400 for finding in findings)


@pytest.mark.parametrize("mode, count", [("enforce", 1), ("warn", 1), ("audit", 0)])
def test_audit_reports_nothing_to_users(mode: str, count: int) -> None:
    """In mode `audit` the author gets no warning; the audit log has the code."""
    metadata = {"annotations": {f"{OURS}/taget": "x"}}
    decision = decided(SHARE, metadata, {f"{OURS}/mode": mode})
    assert len(texts(decision)) == count
    assert Reason.OWN_KEY_UNUSED.code in decision.audit["reasons"]
