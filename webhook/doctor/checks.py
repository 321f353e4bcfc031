"""All checks, in the order of the output: from the API server to the node."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from webhook.doctor import certificates, events, nodes, pods, policy, registration
from webhook.doctor.facts import Facts, Level, Result


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: for programs; never changes.
        section: its heading in the output.
        question: the question that it answers.
        needs: the permissions that it requires, in the terms of RBAC; empty: none beyond those of other checks.
        judge: a pure function of the facts.
    """

    name: str
    section: str
    question: str
    needs: str
    judge: Callable[[Facts], Result]


CHECKS: Final = (
    Check("api-server", "cluster", "does the API server answer, and is it 1.30 or newer", "", policy.server),
    Check(
        "mappings",
        "cluster",
        "are the documents of all ConfigMaps in force, and can the keys of all vendors in force be read",
        "`get`, `list` `configmaps` of the webhook's namespace",
        policy.mappings,
    ),
    Check(
        "events",
        "cluster",
        "what has the webhook reported as Warning Events within the last hour",
        "`list` `events` of the webhook's namespace and of `default`",
        events.reported,
    ),
    Check(
        "registration",
        "registration",
        "does it exist with both webhooks, written for the current policy",
        "`list` `mutatingwebhookconfigurations`; `list` `deployments` of the webhook's namespace",
        registration.registered,
    ),
    Check(
        "selectors",
        "registration",
        "does it select opted-in namespaces, but not the cluster's own and the webhook's",
        "`list` `mutatingwebhookconfigurations`",
        registration.selectors,
    ),
    Check(
        "match-conditions",
        "registration",
        "does every name of the policy let a pod through",
        "`list` `mutatingwebhookconfigurations`",
        registration.matched_names,
    ),
    Check(
        "order",
        "registration",
        "is it called before webhooks that have to see what it writes",
        "`list` `mutatingwebhookconfigurations`",
        registration.order,
    ),
    Check(
        "bundle",
        "certificates",
        "does the webhook configuration trust valid CAs, and those of the Secret",
        "`list` `mutatingwebhookconfigurations`; `get` the Secret `vgpu-webhook-certificates`",
        certificates.bundle,
    ),
    Check(
        "served",
        "certificates",
        "do these CAs verify what the Service or the URL serves",
        "`get` `services`, `list` `endpointslices` of the Service's namespace",
        certificates.served,
    ),
    Check(
        "certificates",
        "certificates",
        "are the certificates valid for some time",
        "`get` the Secret `vgpu-webhook-certificates`, or a connection to the webhook",
        certificates.age,
    ),
    Check(
        "namespaces",
        "pods",
        "which namespaces have opted in, and are their labels valid",
        "`list` `namespaces`",
        pods.namespaces,
    ),
    Check(
        "untouched",
        "pods",
        "are there GPU pods in opted-in namespaces that the webhook has not reviewed",
        "`list` `pods` of these namespaces",
        pods.untouched,
    ),
    Check(
        "notes",
        "pods",
        "what did the webhook note in the status of pods, without a warning",
        "`list` `pods` of opted-in namespaces",
        pods.notes,
    ),
    Check(
        "dry-run",
        "pods",
        "is a pod changed that is created as a dry run",
        "`create` `pods` of an opted-in namespace",
        pods.dry_run,
    ),
    Check(
        "variables",
        "pods",
        "do other systems write variables that the guard denies",
        "`list` `configmaps` everywhere",
        nodes.variables,
    ),
    Check("resources", "nodes", "does a node have the resources that pods request", "`list` `nodes`", nodes.resources),
    Check(
        "sharing",
        "nodes",
        "do nodes serve a key of the policy with another meaning",
        "`list` `nodes`",
        nodes.sharing,
    ),
    Check(
        "claims",
        "nodes",
        "does a DeviceClass serve a key of the policy, and do pods have claims beside such keys",
        "`list` `deviceclasses`, `list` `pods` of opted-in namespaces",
        pods.claims,
    ),
    Check(
        "scheduler",
        "nodes",
        "are there signs of the target's scheduler, and of each that pods wait for",
        "`list` `pods` and `leases` everywhere",
        nodes.scheduler,
    ),
    Check(
        "shim",
        "nodes",
        "is the shim on the nodes, and is no second one mounted by a device plugin",
        "`list` `daemonsets` everywhere, `list` `pods` of their namespaces",
        nodes.shim,
    ),
)


def examine(facts: Facts) -> Iterator[tuple[Check, Result]]:
    """Every check with its result; only one if the API server does not answer, or nothing is installed."""
    for check in CHECKS:
        result = check.judge(facts)
        if facts.reachable and facts.nothing_installed:
            if check.judge is registration.registered:
                yield check, result
                return
            continue
        yield check, result
        if not facts.reachable and result.level is Level.ERROR:
            return
