"""Labels and annotations of our own that have no effect: reported with the pods that they concern."""

from tests.admission.scene import pod
from tests.generators.admissions import decision_on
from webhook.admission import Context, Namespace
from webhook.admission.survey import MOST, unread_keys
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy, load_policy
from webhook.reasons import Reason

POLICY = load_policy()
OURS = "vgpu-webhook.io"
LABELS = {f"{OURS}/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
PLAIN = {"name": "main"}


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
