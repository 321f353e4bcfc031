"""The policy in force in a cluster, read once."""

import asyncio
from pathlib import Path

import click

from webhook.cli.failure import Failure
from webhook.cluster.client.api import ApiError
from webhook.cluster.client.connection import connect, release_namespace_of
from webhook.cluster.configuration.policies import PolicyOutcome, policy_now
from webhook.mapping.model.policy import Policy


def policy_in_cluster(kubeconfig: Path | None, release_namespace: str | None) -> Policy:
    """Read the policy of a cluster's ConfigMaps; print a warning on stderr for each that is not in force.

    Args:
        kubeconfig: for the API server; None: as for `connect`.
        release_namespace: the webhook's own namespace; None: as for `release_namespace_of`.

    Raises:
        Failure: the cluster cannot be read.
    """
    namespace = release_namespace_of(release_namespace)
    try:
        outcome = asyncio.run(_read(kubeconfig, namespace))
    except ApiError as error:
        raise Failure([str(error)]) from error
    for verdict in outcome.verdicts:
        if not verdict.accepted:
            click.echo("\n".join(f"warning: {line}" for line in verdict.lines()), err=True)
    return outcome.policy


async def _read(kubeconfig: Path | None, namespace: str) -> PolicyOutcome:
    api = await connect(kubeconfig)
    try:
        return await policy_now(api, namespace)
    finally:
        await api.close()
