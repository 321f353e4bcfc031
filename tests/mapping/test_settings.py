"""The settings: what they may say."""

import pytest

from tests.mapping.vendors import policy, problems
from webhook.admission import Context, Namespace
from webhook.admission.eligibility import skip_reason
from webhook.pod import decode_pod
from webhook.reasons import Reason


def test_defaults() -> None:
    """Without settings: our own label, five seconds; and settings that say just that are no other policy."""
    found = policy()
    assert (found.settings.opt_in_label, found.settings.timeout_seconds) == ("vgpu-webhook.io/inject", 5)
    assert policy(settings="optInLabel: vgpu-webhook.io/inject\ntimeoutSeconds: 5\n").digest == found.digest


@pytest.mark.parametrize("label", ["gpu", "corp.example/gpu", "a.b-c.d/X_y.z", "g" * 63, f"{'g' * 253}/{'g' * 63}"])
def test_a_label_of_ones_own_opts_in(label: str) -> None:
    """It, and no other."""
    found = policy(settings=f"optInLabel: {label}\n")
    pod = decode_pod(b'{"spec": {"containers": []}}')
    ours, default = Namespace("team", {label: "enabled"}), Namespace("team", {"vgpu-webhook.io/inject": "enabled"})
    assert skip_reason(pod, Context(ours), found) is None
    assert skip_reason(pod, Context(default), found) is Reason.NOT_OPTED_IN


@pytest.mark.parametrize(
    "settings, path",
    [
        ("optInLabel: ''", "optInLabel"),
        ("optInLabel: a/b/c", "optInLabel"),
        ("optInLabel: -gpu", "optInLabel"),
        ("optInLabel: Corp.example/gpu", "optInLabel"),
        (f"optInLabel: {'g' * 64}", "optInLabel"),
        ("optInLabel: [a]", "optInLabel"),
        (f"optInLabel: {'g' * 254}/a", "optInLabel"),
        (f"cardLabels: [{'g' * 254}/a]", "cardLabels"),
        ("optInLabel: vgpu-webhook.io/mode", "optInLabel"),
        ("optInLabel: kubernetes.io/metadata.name", "optInLabel"),
        ("cardLabels: [a/b/c]", "cardLabels"),
        ("guardExceptions: {A: []}", "guardExceptions"),
        ("guardExceptions: {A: b}", "guardExceptions"),
        ("guardExceptions: {'A*': [b]}", "guardExceptions"),
        ("guardExceptions: {'': [b]}", "guardExceptions"),
        ("timeoutSeconds: 0", "timeoutSeconds"),
        ("timeoutSeconds: 31", "timeoutSeconds"),
        ("timeoutSeconds: 5s", "timeoutSeconds"),
    ],
)
def test_what_kubernetes_would_refuse(settings: str, path: str) -> None:
    """A label key, the name of a variable with at least one value, and a time-out from 1 to 30."""
    (problem,) = problems(settings=settings)
    assert problem.path[:1] == (path,)
    assert problem.line == 1


CARDS = [
    ("40", "ambiguous without a suffix", "such as `40Gi`"),
    ("4e10", "ambiguous without a suffix", "such as `40Gi`"),
    ("all", "is not a Kubernetes quantity", "such as `40Gi`"),
    ("1500m", "less than 1Mi", "such as `40Gi`"),
    ("-40Gi", "less than 1Mi", "such as `40Gi`"),
    ("999Ki", "less than 1Mi", "such as `40Gi`"),
    ("2Ti", "is more than the 1 TiB of `largestCard`", "raise `largestCard`"),
]


@pytest.mark.parametrize("written, message, hint", CARDS)
def test_memory_of_a_card(written: str, message: str, hint: str) -> None:
    """A size with its suffix, at most that of the largest device; the problem is reported at its place."""
    (problem,) = problems(settings=f"target: nvidia\ncards:\n  A: 40Gi\n  B: {written}\n")
    assert problem.path == ("cards", "B")
    assert (problem.source, problem.line) == ("settings.yaml", 4)
    assert message in problem.message
    assert hint in (problem.hint or "")


def test_labels_that_name_the_card() -> None:
    """Those of the mappings of a hardware family, and after them the cluster's own, which hold for all."""
    found = policy(settings="cardLabels: [corp.example/card]\n").card_labels
    assert found["nvidia"] == ("nvidia.com/gpu.product", "corp.example/card")
    assert found["amd"] == ("amd.com/gpu.product-name", "corp.example/card")
    assert found["ascend"] == ("node.kubernetes.io/npu.chip.name", "corp.example/card")
    assert found["hygon"] == ("hygon.com/dcu.name", "corp.example/card")
    assert found["intel"] == ("gpu.intel.com/product", "corp.example/card")
    assert found["iluvatar"] == ("corp.example/card",)
    with_own = policy("extends: iluvatar\ncardLabels: [iluvatar.example/chip]\n").card_labels
    assert with_own["iluvatar"] == ("iluvatar.example/chip",)


@pytest.mark.parametrize(
    "workload, said",
    [
        ("{group: apps, kind: A, templates: [spec.a]}", "workloads[0].group: should be the group of a custom resource"),
        ("{group: a.b, kind: a_b, templates: [spec.a]}", "workloads[0].kind: should be a kind, such as TrainJob"),
        ("{group: a.b, kind: A, templates: [template]}", "workloads[0].templates[0]: should be a path below spec"),
        ("{group: a.b, kind: A, templates: [spec..a]}", "workloads[0].templates[0]: should be a path below spec"),
        ("{group: a.b, kind: A, templates: []}", "workloads[0].templates: is an empty list"),
        ("{group: a.b, kind: A, templates: [spec.a], tmplates: 1}", "(did you mean `templates`?)"),
    ],
)
def test_workloads(workload: str, said: str) -> None:
    """Each mistake with its path, and what is right."""
    (problem,) = problems(settings=f"workloads: [{workload}]\n")
    assert said in str(problem)
