"""A replica in a cluster: puts server, certificates and what it follows together, and runs it to the end of the process."""

from typing import Final
from urllib.parse import urlsplit

from certs.rotation import BUNDLE
from certs.store import Directory
from certs.x509 import CA_LIFE, STATIC_CA_LIFE
from webhook.admission import decide
from webhook.cluster.client import ConfigurationError
from webhook.cluster.connection import connect, in_cluster_namespace, release_namespace_of
from webhook.cluster.registration.wanted import RegistrationMode, ServiceReference, Site, read_address
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore
from webhook.replica.in_cluster import WEBHOOK, ClusterOptions, InCluster
from webhook.replica.run import (
    LOOPBACK,
    Announce,
    CertificateOptions,
    Options,
    Service,
    StartError,
    certificates_of,
    logger,
    run_to_end,
    serve_until_stopped,
    serving_names,
    started,
)

CA_NAME: Final = "vgpu-webhook CA"


def serve_clustered(
    options: Options, where: ClusterOptions, certificate_options: CertificateOptions, log_level: str, announce: Announce
) -> None:
    """Serve until the process is to end."""
    own = in_cluster_namespace()
    release_namespace = release_namespace_of(where.release_namespace)
    address = _address(where, own)
    site = Site(address, b"", release_namespace, certificate_options.inject_ca_from)
    log = logger(log_level)
    certificates = certificates_of(certificate_options, log, watched=True)

    life = CA_LIFE if RegistrationMode(where.registration) is RegistrationMode.MANAGED else STATIC_CA_LIFE

    async def work() -> None:
        secret, trusted = None, ""
        if certificate_options.certificate_dir is not None:
            directory = Directory(certificate_options.certificate_dir)
            certificates.follow(directory, [_called(address), *certificate_options.extra_names])
            trusted = str(directory.path / BUNDLE)
        elif certificate_options.state_dir is not None:
            directory = Directory(certificate_options.state_dir)
            names = [_called(address), *serving_names(options.listen)]
            certificates.keep(directory, certificate_options.rules(CA_NAME, names, life))
            await started(certificates)
            trusted = str(directory.path / BUNDLE)
        try:
            api = await connect(where.kubeconfig)
        except ConfigurationError as error:
            raise StartError(str(error)) from error
        try:
            if certificates.upkeep is None:
                secret = SecretStore(api, release_namespace, SECRET, log, owner=WEBHOOK)
                # The same on all replicas: with the name of a machine, each would make a certificate of its own.
                names = [_called(address), *LOOPBACK]
                certificates.keep(secret, certificate_options.rules(CA_NAME, names, life))
                trusted = f"{BUNDLE} of the {secret.place}"
            cluster = InCluster(api, release_namespace, site, where, log, certificates=certificates, secret=secret)
            service = Service(decide, cluster.current, cluster, "baseline", certificates, log, cluster=cluster)
            await serve_until_stopped(service, options, lambda addresses: announce(addresses, trusted))
        finally:
            await api.close()

    run_to_end(work())


def _address(where: ClusterOptions, own: str | None) -> ServiceReference | str:
    try:
        address = read_address(where.url, where.service)
    except ValueError as error:
        raise StartError(str(error)) from error
    if address is not None:
        return address
    if own is None:
        raise StartError(
            "outside a pod, API servers need the webhook's address: add --url, such as https://127.0.0.1:8443/mutate"
        )
    return ServiceReference(where.release_namespace or own, WEBHOOK)


def _called(address: ServiceReference | str) -> str:
    """The name by which API servers call."""
    if isinstance(address, str):
        return urlsplit(address).hostname or ""
    return f"{address.name}.{address.namespace}.svc"
