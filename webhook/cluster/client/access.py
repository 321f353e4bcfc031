"""Loads the address of the API server and our credentials with ``kubernetes.aio``; importing this takes 0.3 s.

The first of these is used, as by kubectl and controllers: a named file, ``KUBECONFIG``, the service account of the pod,
``~/.kube/config``. Files are read in threads.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME, InClusterConfigLoader
from kubernetes.aio.config.kube_config import load_kube_config
from yarl import URL

from webhook.cluster.client.api import ConfigurationError
from webhook.cluster.client.proxy import proxy_for

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's token and the API server's CA."""

BEARER: Final = "BearerToken"
"""The key under which kubernetes.aio stores the whole Authorization header."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect to one API server.

    Attributes:
        server: its address, possibly with a path prefix.
        tls: contains the trusted CA, and the client certificate if there is one.
        server_name: the name that its certificate must have; None for the host of the address.
        proxy: the proxy to use; None for none.
        authorization: returns the current Authorization header, None for none; may read a file.
    """

    server: URL
    tls: ssl.SSLContext
    server_name: str | None
    proxy: str | None
    authorization: Callable[[], str | None]


async def load_access(
    kubeconfig: Path | None, environment: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT
) -> Access:
    """Load the configured access.

    Args:
        kubeconfig: a named file; it takes precedence.
        environment: the variables ``KUBECONFIG``, the API server's address in a cluster, and the proxies.
        service_account: the folder of the pod's token.

    Raises:
        ConfigurationError: nothing is configured, or it cannot be used.
    """
    configuration = Configuration()
    # Python 3.13 enforces rules of X.509 on CAs that Go, and so most clusters, never enforced.
    configuration.disable_strict_ssl_verification = True
    named = environment.get("KUBECONFIG") if kubeconfig is None else str(kubeconfig)
    if not named and environment.get(SERVICE_HOST_ENV_NAME):
        place = str(service_account)
        load = _from_service_account(configuration, environment, service_account)
    else:
        place = named or f"{environment.get('HOME', '~')}/.kube/config"
        load = _from_files(configuration, place)
    try:
        await load
        transport = await asyncio.to_thread(RESTClientObject, configuration)
    except ConfigurationError:
        raise
    except (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        # kubernetes.aio raises Python's own errors for a file with a wrong structure.
        raise ConfigurationError(place, f"cannot be used: {str(error) or type(error).__name__}") from error
    server = URL(configuration.host)
    if server.scheme not in {"https", "http"} or not server.host:
        raise ConfigurationError(place, "contains no https:// URL of a server")
    return Access(
        server=server,
        tls=transport.ssl_context,
        server_name=configuration.tls_server_name,
        proxy=transport.proxy or proxy_for(server, environment),
        authorization=lambda: _authorization(configuration),
    )


async def _from_service_account(configuration: Configuration, environment: Mapping[str, str], folder: Path) -> None:
    loader = InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt"), environ=environment)  # type: ignore[no-untyped-call]
    # It also installs a hook that reads the token again once a minute.
    await asyncio.to_thread(loader.load_and_set, configuration)


async def _from_files(configuration: Configuration, place: str) -> None:
    if not await asyncio.to_thread(_any_file, place):
        raise ConfigurationError(
            place, "does not exist: name a kubeconfig, or run in a pod with a service account token"
        )
    # In a thread with its own event loop: it reads files synchronously, and may start a program that returns a token.
    loading = load_kube_config(  # type: ignore[no-untyped-call]
        config_file=place, client_configuration=configuration, persist_config=False
    )
    await asyncio.to_thread(asyncio.run, loading)


def _any_file(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def _authorization(configuration: Configuration) -> str | None:
    if configuration.refresh_api_key_hook is not None:
        configuration.refresh_api_key_hook(configuration)
    header = configuration.api_key.get(BEARER)
    # A token file often ends in a line break, which no header may contain.
    return header.strip() if header else None
