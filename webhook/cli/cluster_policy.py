"""The policy in force in a cluster, read once."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from webhook.cli.failure import Failure
from webhook.cli.options import PolicyOptions
from webhook.cluster.client.api import ApiError
from webhook.cluster.client.connection import connect, current_context, release_namespace_of
from webhook.cluster.configuration.policies import PolicyOutcome, policy_now
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.model.policy import Policy


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """The policy in force in a cluster.

    Attributes:
        title: where it is in force, as the end of a sentence.
        policy: the policy.
        mappings, settings: its documents beside the built-in ones.
        warnings: what is not in force.
    """

    title: str
    policy: Policy
    mappings: tuple[Document, ...]
    settings: Document
    warnings: tuple[str, ...]


def policy_in_cluster(options: PolicyOptions) -> PolicyInForce:
    """Read the policy of a cluster's ConfigMaps.

    Raises:
        Failure: the cluster cannot be read.
    """
    namespace = release_namespace_of(options.release_namespace)
    try:
        context, outcome = asyncio.run(_read(options.kubeconfig, options.context, namespace))
    except ApiError as error:
        raise Failure([str(error)]) from error
    problems = [line for verdict in outcome.verdicts if not verdict.accepted for line in verdict.lines()]
    if not outcome.verdicts:
        problems.append(f"namespace {namespace} has no ConfigMap of the webhook: name its own with --release-namespace")
    warnings = (f"warning: {line}" for line in problems)
    title = f"in force in {context}, namespace {namespace} (digest {outcome.policy.digest})"
    return PolicyInForce(title, outcome.policy, outcome.mappings, outcome.settings, tuple(warnings))


async def _read(kubeconfig: Path | None, context: str | None, namespace: str) -> tuple[str, PolicyOutcome]:
    api = await connect(kubeconfig, context)
    try:
        outcome = await policy_now(api, namespace)
    finally:
        await api.close()
    named = context or current_context(kubeconfig)
    return "the pod's own cluster" if named is None else f"context {named}", outcome
