"""``vgpu-webhook registration``: prints the webhook configuration of a policy, for GitOps."""

from pathlib import Path
from typing import Final

import click

from webhook.cli.options import GivenPath, PolicyOptions, configured
from webhook.cli.terminal import Failure

_PEM: Final = b"-----BEGIN CERTIFICATE-----"


@click.command()
@click.option("--service", metavar="NS/NAME", help="The Service in front of the webhook.")
@click.option("--url", metavar="URL", help="An https URL that API servers can reach, instead of a Service.")
@click.option(
    "--ca-file",
    metavar="FILE",
    type=GivenPath(path_type=Path, dir_okay=False),
    help="The CAs of the webhook's certificate, in PEM. Without it, another system has to fill in caBundle.",
)
@configured
@click.option(
    "--release-namespace",
    metavar="NS",
    help="The webhook's own namespace, whose pods are excluded.  [default: the Service's]",
)
def registration(  # noqa: PLR0917  (click passes them by name)
    service: str | None,
    url: str | None,
    ca_file: Path | None,
    mappings: Path | None,
    settings: Path | None,
    release_namespace: str | None,
) -> None:
    """Print the webhook configurations of a policy, mutating and validating, as YAML.

    They select the pods that carry GPU keys of these mappings, and no others. Print them again when mappings change; the
    same policy gives the same bytes.
    """
    from webhook.cli.files import yaml_text
    from webhook.cli.policy_source import sourced_policy
    from webhook.cluster.registration.wanted import KINDS, ServiceReference, Site, read_address, wanted_by
    from webhook.cluster.registration.wanted import registration as make

    try:
        address = read_address(url, service)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if address is None:
        raise click.UsageError("--service NS/NAME or --url URL is required")
    own = release_namespace or (address.namespace if isinstance(address, ServiceReference) else None)
    policy = sourced_policy(PolicyOptions(mappings=mappings, settings=settings)).policy
    site = Site(address, _bundle(ca_file), own)
    click.echo("---\n".join(yaml_text(make(wanted_by(policy, kind), site)) for kind in KINDS), nl=False)


def _bundle(ca_file: Path | None) -> bytes:
    if ca_file is None:
        return b""
    try:
        bundle = ca_file.read_bytes()
    except OSError as error:
        raise Failure([f"{error.filename}: {error.strerror}"]) from error
    if _PEM not in bundle:
        raise Failure([f"{ca_file}: no PEM certificate found"])
    return bundle
