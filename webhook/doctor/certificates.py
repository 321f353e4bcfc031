"""Checks of certificates: what API servers trust, what the webhook serves, and for how long."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

import structlog
from cryptography import x509

from certs.ca import by_der
from certs.rotator import request_rotation as leave_request
from certs.state import CA_KEY, CERTIFICATE, NEXT_CA_KEY, STATE, Decoded, RotationRequest, decode
from certs.store import Directory, Store
from webhook.cluster.client.api import Api, ApiError, Object, list_objects
from webhook.cluster.client.connection import connect, release_namespace_of
from webhook.cluster.registration.desired import KINDS, NAME, ServiceReference
from webhook.cluster.registration.observed import StoredConfiguration, bundle_of, webhooks_of
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore
from webhook.doctor.facts import HTTPS, ClusterFacts, Handshake, address_of
from webhook.doctor.read import IssuedCertificate, Workload, WorkloadContainer, WorkloadPod, tried
from webhook.doctor.registration import configurations, logs
from webhook.doctor.result import Missing, Result, counted, error, known, ok, warning

LATE: Final = 1 / 4
"""Part of a serving certificate's life that is left when its renewal, due after two thirds, is overdue."""

CA_LEFT: Final = dt.timedelta(days=30)
"""A CA that expires sooner should have had a successor for long."""


def bundle(facts: ClusterFacts) -> Result:
    """Does the webhook configuration trust valid CAs, and those of the Secret?"""
    configurations(facts)
    ours = {
        each.name: webhooks[each.name]
        for kind in KINDS
        for webhooks in (webhooks_of(facts.configuration_of(kind) or {}),)
        for each in kind.webhooks
        if each.name in webhooks
    }
    if facts.registered is None or not ours:
        return warning("not checked: there is no webhook configuration", hint="see above")
    running = f"is a replica running? {logs(facts)}"
    trusted: list[x509.Certificate] = []
    for name, webhook in ours.items():
        pem = bundle_of(webhook)
        if not pem.strip():
            return _without(name, webhook, facts, running)
        try:
            trusted += x509.load_pem_x509_certificates(pem)
        except (ValueError, x509.InvalidVersion):
            return error(f"the caBundle of {name} holds something other than certificates", hint=running)
    good = [ca for ca in trusted if _is_valid(ca, facts.now)]
    if not good:
        return error("no CA of the caBundle is valid now", hint=running)
    stored = facts.stored.cas if not isinstance(facts.stored, Missing | None) else ()
    strange = [ca for ca in stored if ca not in trusted]
    if strange:
        return warning(
            f"the caBundle lacks {counted(len(strange), 'CA', 'CAs')} of the Secret {SECRET}",
            hint=f"a replica adds it within a minute; if not: {logs(facts)}",
        )
    if len(set(map(bundle_of, ours.values()))) > 1:
        return warning(f"the webhooks of {NAME} trust different CAs", hint=running)
    left = max(ca.not_valid_after_utc for ca in good) - facts.now
    if left < CA_LEFT:
        return warning(f"the last CA of the caBundle expires in {_days(left)}", hint=running)
    return ok(f"trusts {counted(len(set(trusted)), 'CA', 'CAs')}, valid for {_days(left)}")


def served(facts: ClusterFacts) -> Result:
    """Do these CAs verify what the Service or the URL serves?"""
    configurations(facts)
    if facts.registered is None:
        return warning("not tried: there is no webhook configuration", hint="see above")
    backend = known(facts.backend, "the Service", "get services, list endpointslices.discovery.k8s.io")
    if backend is not None and not backend.ready:
        return error(
            f"the Service has no ready endpoint ({backend.others} not ready)",
            hint=f"kubectl get pods --namespace {facts.release}",
        )
    if isinstance(facts.shown, Missing):
        return warning("no connection could be made", facts.shown.why, hint="see the dry run below")
    lines: dict[Handshake, list[str]] = {}
    for shown in facts.shown:
        lines.setdefault(shown.handshake, []).append(f"{shown.address}: {shown.why}")
    why = f"see why: {logs(facts)}"
    if untrusted := lines.get("untrusted"):
        return error("the caBundle does not verify what is served", *untrusted, hint=why)
    if strange := lines.get("no TLS"):
        return error("another program answers, or a webhook without a certificate", *strange, hint=why)
    verified = [shown.address for shown in facts.shown if shown.handshake == "verified"]
    refused = lines.get("refused")
    if refused and (backend is None or verified):
        return error("nothing answers", *refused, hint=f"is the webhook running? {logs(facts)}")
    if not verified:
        return warning(
            "the webhook's address cannot be reached from here",
            *(f"{shown.address}: {shown.why}" for shown in facts.shown),
            hint="see the dry run below, for which the API server connects; or run this in a pod of the cluster",
        )
    return ok(f"the caBundle verifies what {', '.join(verified)} serves")


def age(facts: ClusterFacts) -> Result:
    """Are the certificates valid for some time?"""
    found = dict(_serving_certificates(facts))
    if not found:
        why = [f"{SECRET}: {facts.stored.why}"] if isinstance(facts.stored, Missing) else []
        return warning(
            "no certificate could be read",
            *why,
            hint=f"needed for this check: a connection to the webhook, or get the Secret {SECRET}",
        )
    why_old = f"see why: {logs(facts)}"
    over = [f"{place}: {_span(each)}" for place, each in found.items() if not _is_valid(each, facts.now)]
    if over:
        return error("a certificate has expired, or is not valid yet", *over, hint=why_old)
    late = [f"{place}: {_span(each)}" for place, each in found.items() if _left(each, facts.now) < LATE]
    if late:
        return warning("a certificate should have been renewed", *late, hint=why_old)
    soonest = min(certificate.not_valid_after_utc for certificate in found.values())
    return ok(f"valid for {_days(soonest - facts.now)} ({', '.join(found)})")


def _without(name: str, webhook: Object, facts: ClusterFacts, hint: str) -> Result:
    """Judge an empty bundle: API servers then trust what their machines trust."""
    verified = not isinstance(facts.shown, Missing) and any(shown.handshake == "verified" for shown in facts.shown)
    if isinstance(address_of(webhook), ServiceReference) or not verified:
        return error(f"{name} has no caBundle: no API server can trust the webhook", hint=hint)
    return warning(
        f"{name} has no caBundle: API servers use the CAs of their machines; those of this machine verify the webhook",
        hint="fine if the certificate is from a public CA",
    )


def _serving_certificates(facts: ClusterFacts) -> Iterator[tuple[str, x509.Certificate]]:
    for shown in () if isinstance(facts.shown, Missing) else facts.shown:
        if shown.certificate is not None:
            yield shown.address, shown.certificate
    if not isinstance(facts.stored, Missing | None) and facts.stored.serving_certificate is not None:
        yield f"Secret {SECRET}", facts.stored.serving_certificate


def _is_valid(certificate: x509.Certificate, now: dt.datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def _left(certificate: x509.Certificate, now: dt.datetime) -> float:
    """The part of a certificate's life that is left."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return (end - now) / (end - start)


def _span(certificate: x509.Certificate) -> str:
    return f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"


def _days(span: dt.timedelta) -> str:
    return counted(span.days, "day") if span >= dt.timedelta(days=2) else f"{span.total_seconds() / 3600:.0f} h"


OPTION: Final = "--certificate-dir"

T = TypeVar("T")


class ProvidedError(Exception):
    """The webhook does not renew the certificate; the message says where it comes from, and how to renew it."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Certificates in the Secret of an installation."""

    kubeconfig: Path | None
    release_namespace: str | None


Location: TypeAlias = Cluster | Path
"""An installation in a cluster, or the folder of a server."""


@dataclass(frozen=True, slots=True)
class FoundCertificates:
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
    notes: tuple[str, ...] = ()


def read_stored(where: Location) -> FoundCertificates:
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


async def _read(where: Location) -> FoundCertificates:
    async with _store(where) as (store, place, installed):
        files = (await store.read()).files
        foreign = await _foreign(files, place, installed)
        notes = () if foreign is None else (foreign,)
        if installed is None:
            return FoundCertificates(place, decode(files) if foreign is None else Decoded(None), notes=notes)
        try:
            registration = await StoredConfiguration(installed[0]).read()
        except ApiError as error:
            return FoundCertificates(place, decode(files), notes=(*notes, f"who trusts it is not known: {error}"))
    if registration is None:
        uncalled = f"there is no webhook configuration {NAME}: the API server does not call the webhook"
        return FoundCertificates(place, decode(files), trusted={}, notes=(*notes, uncalled))
    webhooks = webhooks_of(registration)
    trusted = {name: frozenset(by_der(bundle_of(webhook))) for name, webhook in webhooks.items()}
    addresses = map(_host_and_port, webhooks.values())
    return FoundCertificates(place, decode(files), trusted, next(addresses, None), notes)


async def _request_new(where: Location, request: RotationRequest) -> str:
    async with _store(where) as (store, place, installed):
        foreign = await _foreign((await store.read()).files, place, installed)
        if foreign is not None:
            raise ProvidedError(foreign)
        state = await leave_request(store, request)
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


async def _foreign(files: Mapping[str, bytes] | None, place: str, installed: tuple[Api, str] | None) -> str | None:
    """Why no replica would fulfill a request; None if the replicas renew the certificates."""
    if installed is None:
        # A provided pair: none of the files is one that only the webhook writes.
        present = {name for name, content in (files or {}).items() if content.strip()}
        provided = CERTIFICATE in present and not present & {CA_KEY, NEXT_CA_KEY, STATE}
        return f"{place} holds a certificate without the key of its CA: {_by_hand()}" if provided else None
    api, namespace = installed
    theirs = await _provided_by(api, namespace)
    if theirs is not None or decode(files).state is not None:
        return theirs
    try:
        if await StoredConfiguration(api).read() is None:
            return None
    except ApiError:
        return None
    return (
        f"{place} contains no certificates, although there is a webhook configuration {NAME}: either no replica has "
        f"started yet, or the replicas serve a provided certificate ({OPTION}); then {_by_hand(namespace)}"
    )


async def _provided_by(api: Api, namespace: str) -> str | None:
    """Which provided certificate the replicas of a namespace serve, and how to renew it; None if it is their own.

    What cannot be read counts as missing.
    """
    for deployment in await _all(api, f"/apis/apps/v1/namespaces/{namespace}/deployments", Workload):
        pod = deployment.spec.template.spec
        for container in pod.containers:
            folder = _folder([*(container.command or ()), *(container.args or ())])
            if folder is None:
                continue
            place = f"the Deployment {namespace}/{deployment.metadata.name}"
            secret = _mounted(folder, container, pod)
            if secret is None:
                return f"{place} serves what is in {folder} ({OPTION}): {_by_hand(namespace)}"
            path = f"/apis/cert-manager.io/v1/namespaces/{namespace}/certificates"
            issued = await _all(api, path, IssuedCertificate)
            name = next((each.metadata.name for each in issued if each.spec.secret_name == secret), None)
            return f"{place} serves the Secret {secret} ({OPTION}): {_by_hand(namespace, name)}"
    return None


def _by_hand(namespace: str = "NAMESPACE", certificate: str | None = None) -> str:
    renew = f"cmctl renew {certificate or 'CERTIFICATE'} --namespace {namespace}"
    if certificate is not None:
        return f"cert-manager renews it; `{renew}` makes a new one, which is served as soon as the pods see it"
    return (
        "the webhook does not renew it: replace it there, and the new one is served as soon as it is seen; with "
        f"cert-manager, run `{renew}`"
    )


def _folder(words: Sequence[str]) -> str | None:
    """The value of the option on a command line of `serve`."""
    for word, after in zip(words, [*words[1:], ""], strict=True) if "serve" in words else ():
        name, equals, value = word.partition("=")
        if name == OPTION:
            return value if equals else after
    return None


def _mounted(folder: str, container: WorkloadContainer, pod: WorkloadPod) -> str | None:
    """The Secret that is mounted as a folder."""
    names = {each.name for each in container.volume_mounts or () if each.mount_path.rstrip("/") == folder.rstrip("/")}
    return next((each.secret.secret_name for each in pod.volumes or () if each.name in names and each.secret), None)


async def _all(api: Api, path: str, kind: type[T]) -> list[T]:
    found = await tried(list_objects(api, path, kind))
    return [] if isinstance(found, Missing) else found


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


def _host_and_port(webhook: Object) -> str | None:
    """Where a webhook is called."""
    address = address_of(webhook)
    if isinstance(address, ServiceReference):
        return f"{address.name}.{address.namespace}.svc:{address.port}"
    parts = urlsplit(address or "")
    return f"{parts.hostname}:{parts.port or HTTPS}" if parts.hostname else None
