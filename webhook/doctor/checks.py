"""All checks, in the order of the output: from the API server to the node."""

from typing import Final

from webhook.doctor import certificates, events, nodes, pods, policy, proposal, registration
from webhook.doctor.facts import ClusterFacts
from webhook.doctor.result import Check, Result

CHECKS: Final[tuple[Check[ClusterFacts], ...]] = (
    Check("api-server", "cluster", "", policy.server),
    Check("mappings", "cluster", "`get`, `list` `configmaps` of the webhook's namespace", policy.mappings),
    Check("events", "cluster", "`list` `events` of the webhook's namespace and of `default`", events.reported),
    Check(
        "registration",
        "registration",
        "`list` `mutatingwebhookconfigurations`; `list` `deployments` of the webhook's namespace",
        registration.registered,
    ),
    Check("selectors", "registration", "`list` `mutatingwebhookconfigurations`", registration.selectors),
    Check("match-conditions", "registration", "`list` `mutatingwebhookconfigurations`", registration.matched_names),
    Check("validation", "registration", "`list` `validatingwebhookconfigurations`", registration.validation),
    Check("order", "registration", "`list` `mutatingwebhookconfigurations`", registration.order),
    Check(
        "bundle",
        "certificates",
        "`list` `mutatingwebhookconfigurations`; `get` the Secret `vgpu-webhook-certificates`",
        certificates.bundle,
    ),
    Check(
        "served",
        "certificates",
        "`get` `services`, `list` `endpointslices` of the Service's namespace",
        certificates.served,
    ),
    Check(
        "certificates",
        "certificates",
        "`get` the Secret `vgpu-webhook-certificates`, or a connection to the webhook",
        certificates.age,
    ),
    Check("namespaces", "pods", "`list` `namespaces`", pods.namespaces),
    Check("untouched", "pods", "`list` `pods` of these namespaces", pods.untreated_pods),
    Check("notes", "pods", "`list` `pods` of opted-in namespaces", pods.notes),
    Check("dry-run", "pods", "`create` `pods` of an opted-in namespace", pods.dry_run),
    Check("variables", "pods", "`list` `configmaps` everywhere", nodes.variables),
    Check("resources", "nodes", "`list` `nodes`", nodes.resources),
    Check("sharing", "nodes", "`list` `nodes`", nodes.sharing),
    Check("systems", "nodes", "`list` `nodes`; `list` `pods` and `leases` everywhere", proposal.systems),
    Check("claims", "nodes", "`list` `deviceclasses`, `list` `pods` of opted-in namespaces", pods.claims),
    Check("scheduler", "nodes", "`list` `pods` and `leases` everywhere", nodes.scheduler),
    Check("shim", "nodes", "`list` `daemonsets` everywhere, `list` `pods` of their namespaces", nodes.shim),
)


def examine(facts: ClusterFacts) -> list[tuple[Check[ClusterFacts], Result]]:
    """Every check with its result; only one if the API server does not answer, or nothing is installed."""
    only = "api-server" if not facts.reachable else "registration" if facts.nothing_installed else None
    return [(check, check.judge(facts)) for check in CHECKS if only in {None, check.name}]
