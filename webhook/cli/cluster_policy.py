"""What is in force in a cluster, read there once."""

import asyncio
from pathlib import Path

import click

from webhook.cli.failure import Failure
from webhook.cluster.client.api import ApiError
from webhook.cluster.client.connect import connect, release_namespace_of
from webhook.cluster.configuration.policies import PolicyOutcome
from webhook.cluster.configuration.snapshot import policy_now
from webhook.mapping.model.policy import Policy


def policy_in_cluster(kubeconfig: Path | None, release_namespace: str | None) -> Policy:
    """The policy of a cluster's ConfigMaps; those that are not in force are told on stderr.

    Args:
        kubeconfig: how to reach it; without it as `connect` finds out.
        release_namespace: the webhook's own; None: as `release_namespace_of` finds it.

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
