"""All checks, in the order of the output; those of the section `cluster` are here.

What nodes offer of the target comes first, then all from the API server to the node.
"""

import datetime as dt
import re
from typing import Final

from webhook.cluster.configuration.config_maps import NO_SETTINGS, config_map, overlooked
from webhook.cluster.events import COMPONENT, MAX_MESSAGE, shortened
from webhook.doctor import certificates, drivers, nodes, pods, registration, replicas
from webhook.doctor.facts import ClusterFacts, ReportedEvent
from webhook.doctor.result import Check, Missing, Result, counted, error, first_of, known, ok, unread, warning
from webhook.mapping.document.schema import API_VERSION
from webhook.mapping.requests.values import unreadable

OLDEST: Final = (1, 30)
"""Match conditions of webhooks are stable since this version of Kubernetes; without them, an outage blocks all pods."""

_HEADER: Final = re.compile("^[\"']?apiVersion[\"']? *:", re.MULTILINE)
_VERSION: Final = re.compile(r"v(\d+)\.(\d+)")


def server(facts: ClusterFacts) -> Result:
    """Does the API server answer, and is it 1.30 or newer?"""
    if isinstance(facts.server, Missing) and not facts.reachable:
        hint = "try kubectl version, or set --kubeconfig"
        return error("the API server does not answer", facts.server.why, hint=hint)
    version = known(facts.server, "the version of the API server", "get the path /version")
    found = _VERSION.match(version)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return error(
            f"the API server is {version}, without match conditions", hint=f"Kubernetes {oldest} or newer is required"
        )
    return ok(f"the API server answers: {version}")


def mappings(facts: ClusterFacts) -> Result:
    """Are there settings, are the documents of all ConfigMaps in force, and can the keys of all vendors in force be read?"""
    if isinstance(facts.outcome, Missing):
        result = unread("the ConfigMaps", facts.outcome, f"get and list configmaps in {facts.release}")
        return warning(
            result.message, *result.details, "the checks below assume the built-in mappings", hint=result.hint
        )
    rejected = [verdict for verdict in facts.outcome.verdicts if not verdict.accepted]
    if rejected:
        return error(
            f"{counted(len(rejected), 'document')} not in force",
            *(line for verdict in rejected for line in verdict.lines()),
            hint=f"kubectl edit --namespace {facts.release} {rejected[0].name}",
        )
    every = () if isinstance(facts.config_maps, Missing) else map(config_map, facts.config_maps)
    unseen = [f"configmap/{each.name}: {why}" for each in every if (why := overlooked(each)) is not None]
    if unseen:
        number = counted(len(unseen), "ConfigMap")
        hint = f"kubectl edit --namespace {facts.release} configmap/NAME"
        return warning(f"{number} with a document that the webhook does not read", *unseen, hint=hint)
    if not facts.outcome.has_settings:
        return warning(NO_SETTINGS, hint=f"create it in {facts.release}, for instance by helm upgrade")
    unread_vendors = list(unreadable(facts.policy.vendors.values()))
    if unread_vendors:
        return warning(
            f"{counted(len(unread_vendors), 'vendor')} cannot be read yet",
            *unread_vendors,
            hint="add its mapping as a ConfigMap, or change the setting `owners`",
        )
    headless = [name for name, text in facts.outcome.accepted.items() if not _HEADER.search(text)]
    if headless:
        return warning(
            f"{counted(len(headless), 'document')} without apiVersion, read as {API_VERSION}",
            *headless,
            hint=f"write apiVersion: {API_VERSION} and kind: Mapping, or Settings, into each",
        )
    number = counted(len(facts.outcome.verdicts), "document")
    return ok(f"{number} of {facts.release} in force, policy {facts.policy.digest}")


CLUSTER_WIDE: Final = "default"
"""The namespace of Events about cluster-wide objects."""

RECENT: Final = dt.timedelta(hours=1)
"""How long API servers keep Events unless configured otherwise (``--event-ttl``)."""

SELECTOR: Final = f"source={COMPONENT},type=Warning"


def reported(facts: ClusterFacts) -> Result:
    """What has the webhook reported as Warning Events within the last hour?"""
    events = known(facts.reported, "the webhook's Events", f"list events in {facts.release} and {CLUSTER_WIDE}")
    if not events:
        return ok("the webhook has reported nothing within the last hour")
    reasons = ", ".join(sorted({event.reason for event in events}))
    return warning(
        f"{counted(len(events), 'Event')} of the webhook within the last hour: {reasons}",
        *first_of(list(map(_line, events))),
        hint=f"if it recurs: docs/runbook.md; kubectl get events --all-namespaces --field-selector {SELECTOR}",
    )


def _line(event: ReportedEvent) -> str:
    last = "" if event.last is None else f", last at {event.last.astimezone(dt.UTC):%H:%M:%S} UTC"
    times = f" ({counted(event.count or 1, 'time')}{last})"
    return f"{event.reason}: {event.subject}: {shortened(event.message, MAX_MESSAGE)}{times}"


CHECKS: Final[tuple[Check[ClusterFacts], ...]] = (
    # First: where no node offers what pods get, nothing else that works helps them.
    Check("resources", "target", nodes.resources),
    Check("api-server", "cluster", server),
    Check("replicas", "cluster", replicas.replicas),
    Check("mappings", "cluster", mappings),
    Check("events", "cluster", reported),
    Check(
        "registration",
        "registration",
        registration.registered,
    ),
    Check("selectors", "registration", registration.selectors),
    Check("match-conditions", "registration", registration.matched_names),
    Check("validation", "registration", registration.validation),
    Check("order", "registration", registration.order),
    Check(
        "bundle",
        "certificates",
        certificates.bundle,
    ),
    Check(
        "served",
        "certificates",
        certificates.served,
    ),
    Check(
        "certificates",
        "certificates",
        certificates.age,
    ),
    Check("namespaces", "pods", pods.namespaces),
    Check("untouched", "pods", pods.untreated_pods),
    Check("dry-run", "pods", pods.dry_run),
    Check("sharing", "nodes", nodes.sharing),
    Check("largest", "nodes", nodes.largest),
    Check("systems", "nodes", nodes.systems),
    Check("claims", "nodes", pods.claims),
    Check("drivers", "nodes", drivers.drivers),
    Check("feature-gate", "nodes", drivers.feature_gate),
    Check("scheduler", "nodes", nodes.scheduler),
    Check("shim", "nodes", nodes.shim),
)


def examine(facts: ClusterFacts) -> list[tuple[Check[ClusterFacts], Result]]:
    """Every check with its result; only one if the API server does not answer, or nothing is installed."""
    only = "api-server" if not facts.reachable else "registration" if facts.nothing_installed else None
    return [(check, check.judge(facts)) for check in CHECKS if only in {None, check.name}]
