"""``vgpu-webhook certs``: requests new certificates."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import click
import structlog

from certs.rotation import RotationRequest, has_next
from certs.store import Directory, Store
from certs.upkeep import request_rotation
from certs.x509 import CertificateError, UnusablePairError
from webhook.cli.options import GivenPath, PolicyOptions, in_cluster, of_cluster
from webhook.cli.terminal import Failure
from webhook.cluster.client import Api
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore

OPTION: Final = "--certificate-dir"
ELSEWHERE: Final = "renew it where it comes from; with cert-manager, cmctl renew CERTIFICATE"


@click.group()
def certs() -> None:
    """Request new certificates early.

    The replicas renew them without this command. `vgpu-webhook check` shows until when they are valid.
    """


@certs.command()
@of_cluster
@click.option(
    "--state-dir",
    metavar="DIR",
    type=GivenPath(path_type=Path, file_okay=False),
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
    if state_dir is not None and (kubeconfig is not None or release_namespace is not None):
        raise click.UsageError("--state-dir replaces a cluster: remove --kubeconfig and --release-namespace")
    if state_dir is not None and not state_dir.is_dir():
        raise Failure([f"{state_dir}: no such folder"])
    request = RotationRequest.CA if ca else RotationRequest.SERVING_CERTIFICATE

    def in_secret(api: Api, namespace: str) -> Coroutine[Any, Any, str]:
        store = SecretStore(api, namespace, SECRET, structlog.get_logger())
        return _requested(store, store.place, request)

    try:
        if state_dir is None:
            said = in_cluster(PolicyOptions(kubeconfig=kubeconfig, release_namespace=release_namespace), in_secret)
        else:
            said = asyncio.run(_requested(Directory(state_dir), str(state_dir), request))
    except CertificateError as error:
        raise Failure([str(error)]) from error
    click.echo(said)


async def _requested(store: Store, place: str, request: RotationRequest) -> str:
    """Leave a rotation request; a sentence about what happens next."""
    try:
        state = await request_rotation(store, request)
    except UnusablePairError as error:
        why = f"{place} holds certificates that the webhook does not renew ({error})"
        raise Failure([f"{why}: {ELSEWHERE}"]) from error
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
