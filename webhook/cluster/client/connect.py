"""Connects to the API server: outside a cluster with a kubeconfig, in a pod with its service account."""

import asyncio
import importlib
from pathlib import Path
from typing import Final

from webhook.cluster.client.api import Api

RELEASE_NAMESPACE: Final = "vgpu-webhook"
"""The default of the webhook's own namespace."""


async def connect(kubeconfig: Path | None = None) -> Api:
    """Connect with the named file, or else with ``KUBECONFIG``, the pod's service account, or ``~/.kube/config``.

    No request is made yet. Credentials and CAs are read again when they change.

    Raises:
        ConfigurationError: nothing is configured, or it cannot be used.
    """
    # Importing kubernetes.aio takes a third of a second: only where it is needed, and not on the loop.
    await asyncio.to_thread(importlib.import_module, "webhook.cluster.client.connection")
    from webhook.cluster.client.connection import open_connection  # noqa: PLC0415

    return await open_connection(kubeconfig)


def in_cluster_namespace(folder: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")) -> str | None:
    """The namespace of the pod in which this process runs; None outside a cluster.

    Args:
        folder: the folder of the pod's service account.
    """
    try:
        return (folder / "namespace").read_text("utf-8").strip() or None
    except OSError:
        return None


def release_namespace_of(named: str | None) -> str:
    """The webhook's own namespace: the named one, or else that of this process's pod, or else `RELEASE_NAMESPACE`."""
    return named or in_cluster_namespace() or RELEASE_NAMESPACE
