"""Metrics of what a replica follows in a cluster, what it waits for and finds, and the setting that what it follows obeys."""

import pytest
import structlog

from certs.store import Serving
from tests.cluster.config_maps import outcome, settings
from tests.cluster.fake_api import FakeApi
from tests.mapping.vendors import policy
from tests.waiting import alongside, turns
from webhook.cluster.policy.documents import SETTINGS_NAME, ConfigMap
from webhook.cluster.policy.live import PolicyFaults
from webhook.cluster.registration.wanted import Site
from webhook.replica.in_cluster import ClusterOptions, ImageVolumes, InCluster, policy_metrics
from webhook.replica.run import Certificates


@pytest.mark.parametrize(
    "faults, changed",
    [
        (PolicyFaults(), {}),
        (PolicyFaults(left_out=3), {"vgpu_webhook_last_good_left_out": 3}),
        (PolicyFaults(invalid=frozenset("abcd")), {"vgpu_webhook_last_good_invalid": 4}),
        (PolicyFaults(not_compiled=True), {"vgpu_webhook_policy_compiled": 0}),
    ],
)
def test_faults_of_the_policy(faults: PolicyFaults, changed: dict[str, float]) -> None:
    """Each fault changes its own metric, and no other; without one there is a sample of each."""
    usual = {
        "vgpu_webhook_policy_compiled": 1,
        "vgpu_webhook_last_good_left_out": 0,
        "vgpu_webhook_last_good_invalid": 0,
    }
    samples = [sample for metric in policy_metrics(None, faults) for sample in metric.samples]
    assert {sample.name: sample.value for sample in samples} == usual | changed


@pytest.mark.parametrize(
    "config_maps, accepted", [((), 0), ((settings("target: nvidia"),), 1), ((settings("a: ["),), 0)]
)
def test_settings_are_counted_also_if_there_are_none(config_maps: tuple[ConfigMap, ...], accepted: float) -> None:
    """Their sample is 0 then, as for those that are not in force."""
    samples = [sample for metric in policy_metrics(outcome(*config_maps), PolicyFaults()) for sample in metric.samples]
    name = "vgpu_webhook_config_map_accepted"
    found = {sample.labels["config_map"]: sample.value for sample in samples if sample.name == name}
    assert found == {SETTINGS_NAME: accepted}


def in_cluster() -> InCluster:
    """A replica that has read nothing yet."""
    where = ClusterOptions(None, None, None, None, "managed", claims=True)
    log = structlog.get_logger()
    site = Site("https://webhook.example/mutate")
    return InCluster(FakeApi(), "own", site, where, log, certificates=Certificates(Serving(), log))


async def test_nothing_is_answered_before_everything_is_known() -> None:
    """It says what is missing."""
    replica = in_cluster()
    for what, known in replica._awaited.items():  # noqa: SLF001
        assert replica.closed() == f"{what} not known yet"
        known.set()
    assert replica.closed() is None
    await replica.synced()


def test_templates_of_a_namespace_are_bounded_by_the_setting() -> None:
    """By that of the policy in force."""
    replica = in_cluster()
    templates = replica._claim_templates  # noqa: SLF001
    assert templates is not None
    assert templates.most() == 256
    replica.current.policy = policy(settings="templatesPerNamespace: 7")
    assert templates.most() == 7


@pytest.mark.parametrize(
    "major, minor, served",
    [("1", "34+", False), ("1", "35+", True), ("1", "36", True), ("2", "0", True), ("1", "", False), ("", "", False)],
)
async def test_image_volumes_are_served_from_a_version_on(major: str, minor: str, *, served: bool) -> None:
    """From 1.35 on, by default."""
    volumes = ImageVolumes(FakeApi({"/version": {"major": major, "minor": minor}}), structlog.get_logger())
    async with alongside(volumes.run()):
        await turns()
        assert (volumes.known.is_set(), volumes.served) == (True, served)
