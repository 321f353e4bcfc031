"""What is in force in a cluster, read there once."""

import asyncio
from pathlib import Path
from typing import Final

import click

from webhook.cli.failure import Failure
from webhook.cluster.api import ApiError, connect, in_cluster_namespace
from webhook.cluster.policies import Outcome
from webhook.cluster.snapshot import policy_now
from webhook.mapping.policy import Policy

RELEASE_NAMESPACE: Final = "vgpu-webhook"
"""The webhook's own namespace, where nothing says otherwise."""


def policy_in_cluster(kubeconfig: Path | None, release_namespace: str | None) -> Policy:
    """The policy of a cluster's ConfigMaps; those that are not in force are told on stderr.

    Args:
        kubeconfig: how to reach it; without it as `connect` finds out.
        release_namespace: the webhook's own; without it the pod's that we are in, or `RELEASE_NAMESPACE`.

    Raises:
        Failure: the cluster cannot be read.
    """
    namespace = release_namespace or in_cluster_namespace() or RELEASE_NAMESPACE
    try:
        outcome = asyncio.run(_read(kubeconfig, namespace))
    except ApiError as error:
        raise Failure([str(error)]) from error
    for verdict in outcome.verdicts:
        if not verdict.accepted:
            click.echo("\n".join(f"warning: {line}" for line in verdict.lines()), err=True)
    return outcome.policy


async def _read(kubeconfig: Path | None, namespace: str) -> Outcome:
    api = await connect(kubeconfig)
    try:
        return await policy_now(api, namespace)
    finally:
        await api.close()
