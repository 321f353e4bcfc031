"""``vgpu-webhook certs``: what certificates are kept and served, and asking for new ones."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.cli.failure import Failure
from webhook.cli.options import of_cluster

if TYPE_CHECKING:
    from webhook.doctor.stored_certificates import Location


def _place(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say where certificates are kept."""
    state_dir = click.option(
        "--state-dir",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="The folder of a server that keeps its certificates there, instead of a cluster.",
    )
    return of_cluster()(state_dir(command))


@click.group()
def certs() -> None:
    """Show the webhook's certificates, and ask for new ones before their time.

    Nothing has to be done: the replicas renew them by themselves. No command shows a key.
    """


@certs.command()
@_place
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Ask the server there what it serves.  [default: the address in the registration]",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(
    kubeconfig: Path | None, release_namespace: str | None, state_dir: Path | None, address: str | None, output: str
) -> None:
    """Print what is kept, what is served, until when, and who trusts it."""
    from webhook.cli.output.certificates import report, served_at, text
    from webhook.doctor.stored_certificates import read_kept

    with _failures():
        found = read_kept(_where(kubeconfig, release_namespace, state_dir))
    told = report(found, served_at(found, address))
    click.echo(json.dumps(told, indent=2) if output == "json" else text(told), nl=output == "json")


@certs.command()
@_place
@click.option(
    "--authority", is_flag=True, help="A new authority, and a leaf under it; without it a new leaf under the same one."
)
def rotate(kubeconfig: Path | None, release_namespace: str | None, state_dir: Path | None, *, authority: bool) -> None:
    """Ask for a new leaf, or a new authority; the running replicas make it.

    Returns at once. A new leaf is served within seconds. A new authority is first made known to the API servers, and leaves
    under it are served once they have had the settle time to learn of it (serve --ca-settle). A certificate that somebody else
    keeps (serve --certificate-dir) is left to them: the command says where it is from, and how it is renewed there.
    """
    from certs.state import RotationRequest
    from webhook.doctor.stored_certificates import ask

    wanted = RotationRequest.AUTHORITY if authority else RotationRequest.LEAF
    with _failures():
        message = ask(_where(kubeconfig, release_namespace, state_dir), wanted)
    click.echo(message)


@contextmanager
def _failures() -> Iterator[None]:
    """What cannot be read, written or asked for, told as other commands do."""
    from certs.problem import CertificateError
    from webhook.cluster.client.api import ApiError
    from webhook.doctor.provided_certificates import ProvidedError

    try:
        yield
    except (ApiError, CertificateError, ProvidedError) as error:
        raise Failure([str(error)]) from error


def _where(kubeconfig: Path | None, release_namespace: str | None, state_dir: Path | None) -> "Location":
    from webhook.doctor.stored_certificates import Cluster

    if state_dir is None:
        return Cluster(kubeconfig, release_namespace)
    if kubeconfig is not None or release_namespace is not None:
        raise click.UsageError("--state-dir stands for itself: leave --kubeconfig and --release-namespace out")
    if not state_dir.is_dir():
        raise Failure([f"{state_dir}: no such folder"])
    return state_dir
