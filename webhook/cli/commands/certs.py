"""``vgpu-webhook certs``: shows the stored and the served certificates, and requests new ones."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.cli.failure import Failure
from webhook.cli.options import of_cluster

if TYPE_CHECKING:
    from webhook.doctor.certificates import Location


def _place(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for where certificates are stored."""
    state_dir = click.option(
        "--state-dir",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="The folder in which a server stores its certificates, instead of a cluster.",
    )
    return of_cluster()(state_dir(command))


@click.group()
def certs() -> None:
    """Show the webhook's certificates, or request new ones early.

    The replicas renew them without these commands. No command shows a private key.
    """


@certs.command()
@_place
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="The server whose certificate is shown.  [default: the address in the webhook configuration]",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(
    kubeconfig: Path | None, release_namespace: str | None, state_dir: Path | None, address: str | None, output: str
) -> None:
    """Print the stored and the served certificates, their expiry, and what trusts them."""
    from webhook.cli.output.certificates import report, served_at, text
    from webhook.doctor.certificates import read_stored

    with _failures():
        found = read_stored(_where(kubeconfig, release_namespace, state_dir))
    data = report(found, served_at(found, address))
    click.echo(json.dumps(data, indent=2) if output == "json" else text(data), nl=output == "json")


@certs.command()
@_place
@click.option(
    "--ca",
    is_flag=True,
    help="Also a new CA; without it, only a new serving certificate of the same CA.",
)
def rotate(kubeconfig: Path | None, release_namespace: str | None, state_dir: Path | None, *, ca: bool) -> None:
    """Request a new serving certificate, or a new CA; the running replicas create it.

    Returns at once. A new serving certificate is served within seconds. A new CA is published to the API servers first;
    its serving certificates are used after the settle time (serve --ca-settle). A certificate that another system renews
    (serve --certificate-dir) is not changed: the command prints where it comes from and how to renew it there.
    """
    from certs.state import RotationRequest
    from webhook.doctor.certificates import request_new

    request = RotationRequest.CA if ca else RotationRequest.SERVING_CERTIFICATE
    with _failures():
        message = request_new(_where(kubeconfig, release_namespace, state_dir), request)
    click.echo(message)


@contextmanager
def _failures() -> Iterator[None]:
    """Report errors as other commands do."""
    from certs.ca import CertificateError
    from webhook.cluster.client.api import ApiError
    from webhook.doctor.certificates import ProvidedError

    try:
        yield
    except (ApiError, CertificateError, ProvidedError) as error:
        raise Failure([str(error)]) from error


def _where(kubeconfig: Path | None, release_namespace: str | None, state_dir: Path | None) -> "Location":
    from webhook.doctor.certificates import Cluster

    if state_dir is None:
        return Cluster(kubeconfig, release_namespace)
    if kubeconfig is not None or release_namespace is not None:
        raise click.UsageError("--state-dir replaces a cluster: remove --kubeconfig and --release-namespace")
    if not state_dir.is_dir():
        raise Failure([f"{state_dir}: no such folder"])
    return state_dir
