"""``vgpu-webhook certs``: shows the stored and the served certificates, and requests new ones."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import click
import structlog
from cryptography import x509

from certs.ca import CertificateError, by_der, names_of
from certs.rotator import request_rotation
from certs.state import (
    CA_KEY,
    CERTIFICATE,
    NEXT_CA_KEY,
    STATE,
    Decoded,
    RotationRequest,
    State,
    decode,
    der,
    fingerprint,
)
from certs.store import Directory, Store
from webhook.cli.options import of_cluster
from webhook.cli.terminal import Failure, columns
from webhook.cluster.client.api import Api, ApiError, Object
from webhook.cluster.client.connection import connect, release_namespace_of
from webhook.cluster.registration.desired import NAME, ServiceReference
from webhook.cluster.registration.observed import StoredConfiguration, bundle_of, webhooks_of
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore
from webhook.doctor.collect import handshake
from webhook.doctor.facts import HTTPS, HandshakeResult, address_of

OPTION: Final = "--certificate-dir"


@dataclass(frozen=True, slots=True)
class ClusterLocation:
    """Certificates in the Secret of an installation."""

    kubeconfig: Path | None
    release_namespace: str | None


Location: TypeAlias = ClusterLocation | Path
"""An installation in a cluster, or the folder of a server."""


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
    with _failures():
        data = asyncio.run(certificates_data(_where(kubeconfig, release_namespace, state_dir), address))
    click.echo(json.dumps(data, indent=2) if output == "json" else certificates_text(data), nl=output == "json")


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
    (serve --certificate-dir) is not changed: renew it there.
    """
    request = RotationRequest.CA if ca else RotationRequest.SERVING_CERTIFICATE
    with _failures():
        click.echo(asyncio.run(request_new(_where(kubeconfig, release_namespace, state_dir), request)))


@contextmanager
def _failures() -> Iterator[None]:
    """Report errors as other commands do."""
    try:
        yield
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


async def certificates_data(where: Location, address: str | None) -> dict[str, Any]:
    """Read the stored certificates and the one that is served; fingerprints are SHA-256 of the DER, times ISO 8601 in UTC.

    Args:
        where: where they are stored.
        address: HOST:PORT of the server; None: the address in the webhook configuration, if there is one.

    Returns:
        The report, ready for JSON.

    Raises:
        ApiError: they cannot be read.
        CertificateError: likewise.
    """
    async with _store(where) as (store, place, api):
        files = (await store.read()).files
        foreign = _not_ours(files, place)
        decoded, notes = (decode(files), []) if foreign is None else (Decoded(None), [foreign])
        webhooks: Mapping[str, Object] | None = None  # outside a cluster, or not known
        absent = False
        try:
            if api is not None:
                registration = await StoredConfiguration(api).read()
                absent, webhooks = registration is None, webhooks_of(registration or {})
        except ApiError as error:
            notes.append(f"who trusts it is not known: {error}")
    if absent:
        notes.append(f"there is no webhook configuration {NAME}: the API server does not call the webhook")
    address = address or next(map(_host_and_port, (webhooks or {}).values()), None)
    state, shown = decoded.state, None if address is None else await _served_at(address)
    trusted = None if webhooks is None else {name: set(by_der(bundle_of(each))) for name, each in webhooks.items()}
    return {
        "place": place,
        "cas": [] if state is None else _cas(state, trusted),
        "servingCertificate": None if state is None else _serving_certificate(state),
        "served": _served(state, shown),
        "rotationRequest": None if state is None or state.requested is None else state.requested.value,
        "problems": [str(problem) for problem in decoded.problems],
        "notes": notes,
    }


async def request_new(where: Location, request: RotationRequest) -> str:
    """Leave a rotation request; a sentence about what happens next.

    Raises:
        ApiError: the store cannot be read or written.
        CertificateError: the store is empty, or cannot be read or written.
        Failure: the webhook does not renew this certificate.
    """
    async with _store(where) as (store, place, _):
        foreign = _not_ours((await store.read()).files, place)
        if foreign is not None:
            raise Failure([foreign])
        state = await request_rotation(store, request)
    if request is RotationRequest.SERVING_CERTIFICATE:
        return (
            f"requested a new serving certificate in {place}: the running replicas make one and serve it within seconds"
        )
    if state.next_ca is not None:
        return (
            f"{place} has a next CA already: serving certificates under it come into force once every API server has had "
            "the time to learn of it (certs show)"
        )
    return (
        f"requested a new CA in {place}: the running replicas make it and have it trusted beside the old one; "
        "certificates under it are served after the settle time (serve --ca-settle; by default, 2 minutes)"
    )


def _not_ours(files: Mapping[str, bytes] | None, place: str) -> str | None:
    """Why no replica would fulfill a request; None if the webhook renews what is stored."""
    present = {name for name, content in (files or {}).items() if content.strip()}
    if not present:
        what = "contains no certificates: either the webhook has not started yet, or it serves a provided certificate ("
        what += f"{OPTION}), which it"
    elif CERTIFICATE in present and not present & {CA_KEY, NEXT_CA_KEY, STATE}:
        what = "holds a certificate without the key of its CA, which the webhook"
    else:
        return None
    return f"{place} {what} does not renew: renew it where it comes from; with cert-manager, cmctl renew CERTIFICATE"


@asynccontextmanager
async def _store(where: Location) -> AsyncIterator[tuple[Store, str, Api | None]]:
    """The store, its name for people, and in a cluster the API server."""
    if isinstance(where, Path):
        yield Directory(where), str(where), None
        return
    namespace = release_namespace_of(where.release_namespace)
    api = await connect(where.kubeconfig)
    try:
        store = SecretStore(api, namespace, SECRET, structlog.get_logger())
        yield store, store.place, api
    finally:
        await api.close()


def _host_and_port(webhook: Object) -> str | None:
    """Where a webhook is called."""
    address = address_of(webhook)
    if isinstance(address, ServiceReference):
        return f"{address.name}.{address.namespace}.svc:{address.port}"
    parts = urlsplit(address or "")
    return f"{parts.hostname}:{parts.port or HTTPS}" if parts.hostname else None


SHORT: Final = 16
"""Digits of a fingerprint in the text, enough to distinguish certificates; the JSON has all."""


async def _served_at(address: str) -> HandshakeResult:
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return HandshakeResult(address, "unreachable", f"{address!r} is no HOST:PORT")
    host = host.strip("[]")
    return await handshake(host, int(port), host, None)


def certificates_text(data: dict[str, Any]) -> str:
    """Format a report as text."""
    rows = [["CA", ca["state"], ca["fingerprint"][:SHORT], _life(ca), _trust(ca)] for ca in data["cas"]]
    serving = data["servingCertificate"]
    if serving is not None:
        names = f"issued by {serving['issuer'][:SHORT]}, for {', '.join(serving['names'])}"
        rows.append(["certificate", "", serving["fingerprint"][:SHORT], _life(serving), names])
    lines = [data["place"] + (":" if rows else ": nothing is stored")]
    if rows:
        lines += [f"  {line}" for line in columns(rows).splitlines()]
    served = data["served"]
    if served is not None:
        lines.append(f"{served['address']} {_what_is_served(served, stored=serving is not None)}")
    if data["rotationRequest"] is not None:
        lines.append(f"a new {data['rotationRequest']} was requested: the running replicas create it")
    lines += [f"problem: {problem}" for problem in data["problems"]]
    lines += data["notes"]
    return "".join(f"{line}\n" for line in lines)


def _cas(state: State, trusted: Mapping[str, set[bytes]] | None) -> list[dict[str, Any]]:
    until = {retired.certificate: retired.until for retired in state.retired}
    entries = []
    for ca in state.cas:
        if ca in until:
            phase = "retired"
        elif state.next_ca is not None and ca == state.next_ca.certificate:
            phase = "next"
        else:
            phase = "current"
        entry = {"state": phase, **_dates(ca)}
        if ca in until:
            entry["trustedUntil"] = f"{until[ca]:%Y-%m-%dT%H:%M:%SZ}"
        if trusted is not None:
            entry["trustedBy"] = sorted(name for name, bundle in trusted.items() if der(ca) in bundle)
        entries.append(entry)
    return entries


def _serving_certificate(state: State) -> dict[str, Any] | None:
    if state.serving_pair is None:
        return None
    certificate = state.serving_pair.certificate
    issuer = state.issuer(certificate)
    return {
        **_dates(certificate),
        "issuer": "" if issuer is None else fingerprint(issuer),
        "names": list(names_of(certificate)),
    }


def _dates(certificate: x509.Certificate) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint(certificate),
        "notBefore": f"{certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}",
        "notAfter": f"{certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
    }


def _served(state: State | None, shown: HandshakeResult | None) -> dict[str, Any] | None:
    if shown is None:
        return None
    if shown.certificate is None:
        return {"address": shown.address, "error": shown.why}
    stored = (
        state is not None and state.serving_pair is not None and state.serving_pair.certificate == shown.certificate
    )
    return {"address": shown.address, **_dates(shown.certificate), "stored": stored}


def _life(entry: dict[str, Any]) -> str:
    return f"{entry['notBefore'][:10]} to {entry['notAfter'][:10]}"


def _trust(ca: dict[str, Any]) -> str:
    by = ca.get("trustedBy")
    parts = [] if by is None else ["trusted by " + ", ".join(by) if by else "not trusted by any webhook yet"]
    if "trustedUntil" in ca:
        parts.append(f"remains until {ca['trustedUntil'][:10]}")
    return ", ".join(parts)


def _what_is_served(served: dict[str, Any], *, stored: bool) -> str:
    if "error" in served:
        return f"cannot be reached from here: {served['error']}"
    if served["stored"]:
        return "serves this certificate"
    other = "another certificate" if stored else "a certificate"
    return f"serves {other}, {served['fingerprint'][:SHORT]}, until {served['notAfter'][:10]}"
