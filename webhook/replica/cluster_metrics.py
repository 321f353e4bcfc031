"""Metrics of what a replica follows and maintains in a cluster, made anew at each scrape."""

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from webhook.cluster.configuration.verdict import PolicyFaults, Verdict
from webhook.cluster.namespace_rechecks import NamespaceRechecks
from webhook.cluster.registration.reconciler import Reconciler


def watch_metrics(ages: Iterable[tuple[str, float | None]]) -> Iterator[Metric]:
    """The seconds since the API server was last heard of each kind; None: not yet."""
    age = GaugeMetricFamily(
        "vgpu_webhook_watch_age_seconds", "Since the API server was last heard of a kind.", labels=("kind",)
    )
    for kind, seconds in ages:
        if seconds is not None:
            age.add_metric((kind,), seconds)
    yield age


def policy_metrics(verdicts: Iterable[Verdict], faults: PolicyFaults) -> Iterator[Metric]:
    """The ConfigMaps whose documents are in force, and what is wrong beside them."""
    accepted = GaugeMetricFamily(
        "vgpu_webhook_config_map_accepted",
        "1 if the document in a ConfigMap is in force, 0 if it was rejected.",
        labels=("config_map",),
    )
    for verdict in verdicts:
        accepted.add_metric((verdict.config_map.name,), float(verdict.accepted))
    yield accepted
    yield GaugeMetricFamily(
        "vgpu_webhook_config_maps_lost",
        "ConfigMaps that vanished without a deletion; their last good documents stay in force.",
        value=faults.lost,
    )
    yield GaugeMetricFamily(
        "vgpu_webhook_policy_compiled",
        "0 if a bug kept the current ConfigMaps from being compiled, otherwise 1.",
        value=float(not faults.not_compiled),
    )
    yield GaugeMetricFamily(
        "vgpu_webhook_last_good_left_out",
        "Documents in force for which the record of last good documents has no space.",
        value=faults.left_out,
    )
    yield GaugeMetricFamily(
        "vgpu_webhook_last_good_invalid",
        "Invalid documents in the record of last good documents; the previous ones stay in force.",
        value=len(faults.invalid),
    )


def recheck_metric(rechecks: NamespaceRechecks) -> Metric:
    """The calls for namespaces that were known as not opted in."""
    metric = CounterMetricFamily(
        "vgpu_webhook_namespace_rechecks",
        "Calls for namespaces that were known as not opted in, by what the API server reported then.",
        labels=("result",),
    )
    metric.add_metric(("stale",), rechecks.stale)
    metric.add_metric(("confirmed",), rechecks.confirmed)
    metric.add_metric(("unanswered",), rechecks.unanswered)
    return metric


def registration_metrics(reconciler: Reconciler) -> Iterator[Metric]:
    """The repairs of the webhook configuration, and whether it is as desired."""
    repairs = CounterMetricFamily(
        "vgpu_webhook_configuration_repairs",
        "How often the webhook configuration was repaired after others had changed or deleted it.",
        labels=("change",),
    )
    for change, count in reconciler.repairs.items():
        repairs.add_metric((change.name.lower(),), count)
    yield repairs
    desired = GaugeMetricFamily(
        "vgpu_webhook_configuration_as_desired",
        "1 if the webhook configuration sends every pod here that the policy is for.",
    )
    if reconciler.as_desired is not None:
        desired.add_metric((), float(reconciler.as_desired))
    yield desired
