"""The settings: what they may say."""

from tests.mapping.vendors import policy
from tests.naming import each_of
from webhook.admission import Context, Namespace
from webhook.admission.eligibility import skip_reason
from webhook.pod import decode_pod
from webhook.reasons import Reason


def test_defaults() -> None:
    """Without settings: our own label, five seconds; and settings that say just that are no other policy."""
    found = policy()
    assert (found.settings.opt_in_label, found.settings.timeout_seconds) == ("vgpu-webhook.io/inject", 5)
    assert policy(settings="optInLabel: vgpu-webhook.io/inject\ntimeoutSeconds: 5\n").digest == found.digest


@each_of("label", ["gpu", "corp.example/gpu", "a.b-c.d/X_y.z", "g" * 63, f"{'g' * 253}/{'g' * 63}"])
def test_a_label_of_ones_own_opts_in(label: str) -> None:
    """It, and no other."""
    found = policy(settings=f"optInLabel: {label}\n")
    pod = decode_pod(b'{"spec": {"containers": []}}')
    ours, default = Namespace("team", {label: "enabled"}), Namespace("team", {"vgpu-webhook.io/inject": "enabled"})
    assert skip_reason(pod, Context(ours), found) is None
    assert skip_reason(pod, Context(default), found) is Reason.NOT_OPTED_IN


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
