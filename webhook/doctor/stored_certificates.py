"""Reads stored certificates, and leaves rotation requests, for commands that run once."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
import structlog

from certs.directory import Directory
from certs.pem import by_der
from certs.rotation_request import request_rotation as leave_request
from certs.state import Decoded, RotationRequest, decode
from certs.store import Store
from webhook.cluster.client.api import Api, ApiError, Object
from webhook.cluster.client.connect import connect, release_namespace_of
from webhook.cluster.registration.ca_bundles import bundle_of
from webhook.cluster.registration.desired import COLLECTION
from webhook.cluster.registration.desired import NAME as REGISTRATION
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore
from webhook.doctor.provided_certificates import (
    ProvidedError,
    how_to_renew_folder,
    perhaps_provided,
    provided_by,
    provided_in_folder,
)

HTTPS_PORT: Final = 443


@dataclass(frozen=True, slots=True)
class Cluster:
    """Certificates in the Secret of an installation."""

    kubeconfig: Path | None
    release_namespace: str | None


Location: TypeAlias = Cluster | Path
"""An installation in a cluster, or the folder of a server."""


@dataclass(frozen=True, slots=True)
class Found:
    """Stored certificates, and who trusts them.

    Attributes:
        place: for people.
        decoded: the content of the store.
        trusted: the CAs (DER) by webhook of the webhook configuration; None outside a cluster, or if it cannot be read.
        address: where API servers call, if there is a webhook configuration.
        notes: lines for people.
    """

    place: str
    decoded: Decoded
    trusted: Mapping[str, frozenset[bytes]] | None = None
    address: str | None = None
    notes: tuple[str, ...] = field(default=())


def read_stored(where: Location) -> Found:
    """Read the stored certificates.

    Raises:
        ApiError: they cannot be read.
        CertificateError: likewise.
    """
    return asyncio.run(_read(where))


def request_new(where: Location, request: RotationRequest) -> str:
    """Leave a rotation request; a sentence about what happens next.

    Raises:
        ApiError: the store cannot be read or written.
        CertificateError: the store is empty, or cannot be read or written.
        ProvidedError: the webhook does not renew this certificate.
    """
    return asyncio.run(_request_new(where, request))


async def _read(where: Location) -> Found:
    async with _store(where) as (store, place, installed):
        files = (await store.read()).files
        if installed is None:
            foreign = provided_in_folder(files)
            return (
                Found(place, Decoded(None), notes=(how_to_renew_folder(place),))
                if foreign
                else Found(place, decode(files))
            )
        api, namespace = installed
        return await _read_cluster(api, namespace, place, decode(files))


async def _read_cluster(api: Api, namespace: str, place: str, decoded: Decoded) -> Found:
    theirs = await provided_by(api, namespace)
    notes = () if theirs is None else (theirs,)
    try:
        registration = await _registration(api)
    except ApiError as error:
        return Found(place, decoded, notes=(*notes, f"who trusts it is not known: {error}"))
    if registration is None:
        return Found(
            place,
            decoded,
            trusted={},
            notes=(
                *notes,
                f"there is no webhook configuration {REGISTRATION}: the API server does not call the webhook",
            ),
        )
    if theirs is None and decoded.state is None:
        notes = (perhaps_provided(place, REGISTRATION, namespace),)
    webhooks = [webhook for webhook in registration.get("webhooks") or () if isinstance(webhook, dict)]
    trusted = {str(webhook.get("name")): frozenset(by_der(bundle_of(webhook))) for webhook in webhooks}
    addresses = [_address(webhook.get("clientConfig") or {}) for webhook in webhooks]
    return Found(place, decoded, trusted, next(iter(addresses), None), notes)


async def _request_new(where: Location, request: RotationRequest) -> str:
    async with _store(where) as (store, place, installed):
        foreign = await _foreign(store, place, installed)
        if foreign is not None:
            raise ProvidedError(foreign)
        state = await leave_request(store, request)
    if state.next_ca is not None and request is RotationRequest.CA:
        return (
            f"{place} has a next CA already: serving certificates under it come into force once every API server has had "
            "the time to learn of it (certs show)"
        )
    return _promise(place, request)


async def _foreign(store: Store, place: str, installed: tuple[Api, str] | None) -> str | None:
    """Why no replica would fulfill a request; None if the replicas renew the certificates."""
    if installed is None:
        return how_to_renew_folder(place) if provided_in_folder((await store.read()).files) else None
    api, namespace = installed
    theirs = await provided_by(api, namespace)
    if theirs is not None or decode((await store.read()).files).state is not None:
        return theirs
    try:
        registration = await _registration(api)
    except ApiError:
        return None
    return None if registration is None else perhaps_provided(place, REGISTRATION, namespace)


def _promise(place: str, request: RotationRequest) -> str:
    if request is RotationRequest.SERVING_CERTIFICATE:
        return (
            f"requested a new serving certificate in {place}: the running replicas make one and serve it within seconds"
        )
    return (
        f"requested a new CA in {place}: the running replicas make it and have it trusted beside the old one; "
        "certificates under it are served after the settle time (serve --ca-settle; by default, 2 minutes)"
    )


@asynccontextmanager
async def _store(where: Location) -> AsyncIterator[tuple[Store, str, tuple[Api, str] | None]]:
    """The store, its name for people, and in a cluster the API server with the release's namespace."""
    if isinstance(where, Path):
        yield Directory(where), str(where), None
        return
    namespace = release_namespace_of(where.release_namespace)
    api = await connect(where.kubeconfig)
    try:
        store = SecretStore(api, namespace, SECRET, structlog.get_logger())
        yield store, store.place, (api, namespace)
    finally:
        await api.close()


async def _registration(api: Api) -> Object | None:
    answer = await api.request("GET", f"{COLLECTION}/{REGISTRATION}")
    return None if answer.status == HTTPStatus.NOT_FOUND else msgspec.json.decode(answer.accepted(), type=Object)


def _address(config: Mapping[str, Any]) -> str | None:
    """Where a webhook is called, as HOST:PORT."""
    service = config.get("service")
    if isinstance(service, dict):
        return f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port', HTTPS_PORT)}"
    parts = urlsplit(str(config.get("url", "")))
    return f"{parts.hostname}:{parts.port or HTTPS_PORT}" if parts.hostname else None
