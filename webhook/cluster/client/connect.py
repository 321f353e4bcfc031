"""Finding the API server: from outside a cluster by a kubeconfig, from within by the pod's service account."""

import asyncio
import importlib
from pathlib import Path
from typing import Final

from webhook.cluster.client.api import Api

RELEASE_NAMESPACE: Final = "vgpu-webhook"
"""The webhook's own namespace, where nothing names another."""


async def connect(kubeconfig: Path | None = None) -> Api:
    """A way to the API server: of the file if given, of ``KUBECONFIG``, of the pod we are in, or of ``~/.kube/config``.

    Nothing is asked of the server yet. Credentials and authorities that change are read again when they do.

    Raises:
        ConfigurationError: there is none of these, or it cannot be used.
    """
    # kubernetes.aio takes a third of a second to import: only where it is needed, and not on the loop.
    await asyncio.to_thread(importlib.import_module, "webhook.cluster.client.connection")
    from webhook.cluster.client.connection import open_connection  # noqa: PLC0415

    return await open_connection(kubeconfig)


def in_cluster_namespace(folder: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")) -> str | None:
    """The namespace of the pod we are in, None outside a cluster.

    Args:
        folder: where a pod finds its service account.
    """
    try:
        return (folder / "namespace").read_text("utf-8").strip() or None
    except OSError:
        return None


def release_namespace_of(named: str | None) -> str:
    """The webhook's own namespace: as named, else that of the pod we are in, else `RELEASE_NAMESPACE`."""
    return named or in_cluster_namespace() or RELEASE_NAMESPACE
