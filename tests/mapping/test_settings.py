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


@pytest.mark.parametrize("label", ["gpu", "corp.example/gpu", "a.b-c.d/X_y.z", "g" * 63])
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
        ("timeoutSeconds: 0", "timeoutSeconds"),
        ("timeoutSeconds: 31", "timeoutSeconds"),
        ("timeoutSeconds: 5s", "timeoutSeconds"),
    ],
)
def test_what_kubernetes_would_refuse(settings: str, path: str) -> None:
    """A label key, and a time-out from 1 to 30."""
    (problem,) = problems(settings=settings)
    assert problem.path == (path,)
    assert problem.line == 1
