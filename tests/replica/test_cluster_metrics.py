"""Metrics of what a replica follows in a cluster."""

import pytest

from webhook.cluster.configuration.config_maps import PolicyFaults
from webhook.replica.in_cluster import policy_metrics


@pytest.mark.parametrize(
    "faults, changed",
    [
        (PolicyFaults(), {}),
        (PolicyFaults(lost=2), {"vgpu_webhook_config_maps_lost": 2}),
        (PolicyFaults(left_out=3), {"vgpu_webhook_last_good_left_out": 3}),
        (PolicyFaults(invalid=frozenset("abcd")), {"vgpu_webhook_last_good_invalid": 4}),
        (PolicyFaults(not_compiled=True), {"vgpu_webhook_policy_compiled": 0}),
    ],
)
def test_faults_of_the_policy(faults: PolicyFaults, changed: dict[str, float]) -> None:
    """Each fault changes its own metric, and no other; without one there is a sample of each."""
    usual = {
        "vgpu_webhook_config_maps_lost": 0,
        "vgpu_webhook_policy_compiled": 1,
        "vgpu_webhook_last_good_left_out": 0,
        "vgpu_webhook_last_good_invalid": 0,
    }
    samples = [sample for metric in policy_metrics((), faults) for sample in metric.samples]
    assert {sample.name: sample.value for sample in samples} == usual | changed
