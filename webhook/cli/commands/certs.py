"""``vgpu-webhook certs``: requests new certificates."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import click
import structlog

from certs.rotation import RotationRequest, has_next
from certs.store import Directory, Store
from certs.upkeep import request_rotation
from certs.x509 import CertificateError, UnusablePairError
from webhook.cli.options import of_cluster
from webhook.cli.terminal import Failure
from webhook.cluster.client import ApiError
from webhook.cluster.connection import connect, release_namespace_of
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore

OPTION: Final = "--certificate-dir"
ELSEWHERE: Final = "renew it where it comes from; with cert-manager, cmctl renew CERTIFICATE"


@dataclass(frozen=True, slots=True)
class ClusterLocation:
    """Certificates in the Secret of an installation."""

    kubeconfig: Path | None
    release_namespace: str | None


Location: TypeAlias = ClusterLocation | Path
"""An installation in a cluster, or the folder of a server."""


@click.group()
def certs() -> None:
    """Request new certificates early.

    The replicas renew them without this command. `vgpu-webhook check` shows until when they are valid.
    """


@certs.command()
@of_cluster()
@click.option(
    "--state-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder in which a server stores its certificates, instead of a cluster.",
)
@click.option(
    "--ca",
    is_flag=True,
    help="Also a new CA; without it, only a new serving certificate of the same CA.",
)
def rotate(kubeconfig: Path | None, release_namespace: str | None, state_dir: Path | None, *, ca: bool) -> None:
    """Request a new serving certificate, or a new CA; the running replicas create it.

    Returns at once. A new serving certificate is served within seconds. A new CA is published to the API servers first;
    its serving certificates are used after the settle time (serve --ca-settle). A certificate that another system renews
    (serve --certificate-dir) is not changed: renew it there.
    """
    request = RotationRequest.CA if ca else RotationRequest.SERVING_CERTIFICATE
    try:
        click.echo(asyncio.run(request_new(_where(kubeconfig, release_namespace, state_dir), request)))
    except (ApiError, CertificateError) as error:
        raise Failure([str(error)]) from error


def _where(kubeconfig: Path | None, release_namespace: str | None, state_dir: Path | None) -> Location:
    if state_dir is None:
        return ClusterLocation(kubeconfig, release_namespace)
    if kubeconfig is not None or release_namespace is not None:
        raise click.UsageError("--state-dir replaces a cluster: remove --kubeconfig and --release-namespace")
    if not state_dir.is_dir():
        raise Failure([f"{state_dir}: no such folder"])
    return state_dir


async def request_new(where: Location, request: RotationRequest) -> str:
    """Leave a rotation request; a sentence about what happens next.

    Raises:
        ApiError: the store cannot be read or written.
        CertificateError: the store is empty, or cannot be read or written.
        Failure: the webhook does not renew this certificate.
    """
    async with _store(where) as (store, place):
        try:
            state = await request_rotation(store, request)
        except UnusablePairError as error:
            raise Failure(
                [f"{place} holds certificates that the webhook does not renew ({error}): {ELSEWHERE}"]
            ) from error
    if state is None:
        why = f"either the webhook has not started yet, or it serves a provided certificate ({OPTION})"
        raise Failure([f"{place} contains no certificates: {why}, which it does not renew: {ELSEWHERE}"])
    if request is RotationRequest.SERVING_CERTIFICATE:
        return (
            f"requested a new serving certificate in {place}: the running replicas make one and serve it within seconds"
        )
    if has_next(state):
        return (
            f"{place} has a next CA already: serving certificates under it come into force once every API server has had "
            "the time to learn of it"
        )
    return (
        f"requested a new CA in {place}: the running replicas make it and have it trusted beside the old one; "
        "certificates under it are served after the settle time (serve --ca-settle; by default, 2 minutes)"
    )


@asynccontextmanager
async def _store(where: Location) -> AsyncIterator[tuple[Store, str]]:
    """The store, and its name for people."""
    if isinstance(where, Path):
        yield Directory(where), str(where)
        return
    namespace = release_namespace_of(where.release_namespace)
    api = await connect(where.kubeconfig)
    try:
        store = SecretStore(api, namespace, SECRET, structlog.get_logger())
        yield store, store.place
    finally:
        await api.close()
