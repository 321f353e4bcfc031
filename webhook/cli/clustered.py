"""``serve`` in a cluster: the policy from ConfigMaps, the namespaces followed, the registration kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from webhook.admission import decide
from webhook.cli.failure import Failure
from webhook.cli.serving import announce_to, logger, names_of, run_to_end, served
from webhook.cluster import registration
from webhook.cluster.api import ConfigurationError, connect, in_cluster_namespace
from webhook.cluster.registrar import Mode
from webhook.cluster.registration import Site
from webhook.server.in_cluster import InCluster, Place
from webhook.server.run import Options, Service, serve

AUTHORITY: Final = "vgpu-webhook authority"
NAME: Final = "vgpu-webhook"
"""What the release's namespace outside a pod, its Service and its ClusterRole are called if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Where:
    """The options that say which cluster it is, and how API servers reach the webhook."""

    kubeconfig: Path | None
    release_namespace: str | None
    url: str | None
    service: str | None
    registration: str


def serve_clustered(options: Options, where: Where, state_dir: Path, log_level: str) -> None:
    """Serves until the end.

    Raises:
        Failure: the options contradict each other, the cluster cannot be told, or an endpoint is not to be had.
    """
    own = in_cluster_namespace()
    release_namespace = where.release_namespace or own or NAME
    address = _address(where, own)
    tls = served(state_dir, AUTHORITY, [*_names(address), *names_of(options.listen)])
    site = Site(address, (state_dir / "ca.crt").read_bytes(), release_namespace)
    place = Place(release_namespace, site, Mode(where.registration), NAME)
    log = logger(log_level)

    async def work() -> None:
        try:
            api = await connect(where.kubeconfig)
        except ConfigurationError as error:
            raise Failure([str(error)]) from error
        try:
            cluster = InCluster(api, place, log)
            service = Service(decide, cluster.current, cluster, "baseline", tls, log, cluster=cluster)
            await serve(service, options, lambda addresses: announce_to(state_dir, addresses))
        finally:
            await api.close()

    run_to_end(work())


def _address(where: Where, own: str | None) -> registration.Service | str:
    if where.url is not None and where.service is not None:
        raise Failure(["--url and --service exclude each other: say one of them"])
    if where.url is not None:
        if urlsplit(where.url).scheme != "https" or not urlsplit(where.url).hostname:
            raise Failure([f"--url {where.url}: must be an https URL, such as https://127.0.0.1:8443/mutate"])
        return where.url
    if where.service is not None:
        namespace, slash, name = where.service.partition("/")
        if not (slash and namespace and name):
            raise Failure([f"--service {where.service}: write NAMESPACE/NAME"])
        return registration.Service(namespace, name)
    if own is None:
        raise Failure(
            ["outside a pod API servers have to be told the way: add --url, such as https://127.0.0.1:8443/mutate"]
        )
    return registration.Service(where.release_namespace or own, NAME)


def _names(address: registration.Service | str) -> list[str]:
    """The names under which API servers call."""
    if isinstance(address, str):
        host = urlsplit(address).hostname
        return [host] if host else []
    return [f"{address.name}.{address.namespace}.svc"]
