"""``serve`` in a cluster: follows ConfigMaps and namespaces, and reconciles the webhook configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from certs.directory import Directory
from certs.state import BUNDLE
from webhook.admission import decide
from webhook.cluster.client.api import ConfigurationError
from webhook.cluster.client.connect import RELEASE_NAMESPACE, connect, in_cluster_namespace
from webhook.cluster.registration import desired as registration
from webhook.cluster.registration.config import Mode
from webhook.cluster.registration.desired import Site
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore
from webhook.replica.in_cluster import InCluster, Place
from webhook.replica.run import Announce, Options, Service, serve
from webhook.replica.start import (
    LOOPBACK,
    CertificateOptions,
    StartError,
    certificates_of,
    logger,
    names_of,
    run_to_end,
    started,
)

CA_NAME: Final = "vgpu-webhook CA"
NAME: Final = "vgpu-webhook"
"""The default name of a release's Service and ClusterRole."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options about the cluster, and how API servers reach the webhook."""

    kubeconfig: Path | None
    release_namespace: str | None
    url: str | None
    service: str | None
    registration: str


def serve_clustered(
    options: Options, where: ClusterOptions, certificate_options: CertificateOptions, log_level: str, announce: Announce
) -> None:
    """Serve until the process is to end.

    Raises:
        StartError: the options contradict each other, no cluster is configured, or an endpoint is not available.
    """
    own = in_cluster_namespace()
    release_namespace = where.release_namespace or own or RELEASE_NAMESPACE
    address = _address(where, own)
    mode = Mode(where.registration)
    place = Place(
        release_namespace, Site(address, b"", release_namespace, certificate_options.inject_ca_from), mode, NAME
    )
    # With a provided pair and no webhook configuration to maintain, whoever provides them has to make them match.
    watched = certificate_options.certificate_dir is None or mode is not Mode.OFF
    log = logger(log_level)
    certificates = certificates_of(certificate_options, log, watched=watched)

    async def work() -> None:
        secret, trusted = None, ""
        if certificate_options.certificate_dir is not None:
            directory = Directory(certificate_options.certificate_dir)
            certificates.follow(directory, [_called(address), *certificate_options.extra_names], trusting=not watched)
            trusted = str(directory.path / BUNDLE)
        elif certificate_options.state_dir is not None:
            directory = Directory(certificate_options.state_dir)
            names = [*_names(address, certificate_options.cluster_domain), *names_of(options.listen)]
            certificates.keep(directory, certificate_options.rules(CA_NAME, names))
            await started(certificates)
            trusted = str(directory.path / BUNDLE)
        try:
            api = await connect(where.kubeconfig)
        except ConfigurationError as error:
            raise StartError(str(error)) from error
        try:
            if certificates.upkeep is None:
                secret = SecretStore(api, release_namespace, SECRET, log, owner=NAME)
                # The same on all replicas: with the name of a machine, each would make a certificate of its own.
                names = [*_names(address, certificate_options.cluster_domain), *LOOPBACK]
                certificates.keep(secret, certificate_options.rules(CA_NAME, names))
                trusted = f"{BUNDLE} of the {secret.place}"
            cluster = InCluster(api, place, log, certificates, secret)
            service = Service(decide, cluster.current, cluster, "baseline", certificates, log, cluster=cluster)
            await serve(service, options, lambda addresses: announce(addresses, trusted))
        finally:
            await api.close()

    run_to_end(work())


def _address(where: ClusterOptions, own: str | None) -> registration.Service | str:
    if where.url is not None and where.service is not None:
        raise StartError("--url and --service exclude each other: use one of them")
    if where.url is not None:
        if urlsplit(where.url).scheme != "https" or not urlsplit(where.url).hostname:
            raise StartError(f"--url {where.url}: must be an https URL, such as https://127.0.0.1:8443/mutate")
        return where.url
    if where.service is not None:
        namespace, slash, name = where.service.partition("/")
        if not (slash and namespace and name):
            raise StartError(f"--service {where.service}: write NAMESPACE/NAME")
        return registration.Service(namespace, name)
    if own is None:
        raise StartError(
            "outside a pod, API servers need the webhook's address: add --url, such as https://127.0.0.1:8443/mutate"
        )
    return registration.Service(where.release_namespace or own, NAME)


def _called(address: registration.Service | str) -> str:
    """The name by which API servers call."""
    if isinstance(address, str):
        return urlsplit(address).hostname or ""
    return f"{address.name}.{address.namespace}.svc"


def _names(address: registration.Service | str, cluster_domain: str) -> list[str]:
    """The names by which API servers, and others in the cluster, call."""
    called = _called(address)
    return [called] if isinstance(address, str) else [called, f"{called}.{cluster_domain}"]
