"""Checks of certificates: what API servers trust, what the webhook serves, and for how long.

The address in the webhook configuration is connected to, to read the certificates there.
"""

import asyncio
import base64
import binascii
import contextlib
import datetime as dt
import itertools
import ssl
from collections.abc import Collection, Iterator, Sequence
from http import HTTPStatus
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec
from cryptography import x509

from webhook.cluster.client import Object, StatusError, each_at, found_at, list_objects, read_object
from webhook.cluster.registration.stored import annotations_of, bundle_of, webhooks_of
from webhook.cluster.registration.wanted import AUDIT, ENFORCE, KINDS, MUTATING, NAME, PORT, ServiceReference
from webhook.cluster.secret import NAME as SECRET
from webhook.doctor.cluster import address_of, logs, where_none_acts
from webhook.doctor.reading import ClusterReader, Item, read_or, reads, remembered, tried
from webhook.doctor.result import Result, UnansweredError, counted, error, ok, warning
from webhook.labels import WRITTEN_BY
from webhook.pod import View

LATE: Final = 1 / 4
"""Part of a serving certificate's life that is left when its renewal, due after two thirds, is overdue."""

CA_LEFT: Final = dt.timedelta(days=30)
"""A CA that expires sooner should have had a successor for long."""


async def bundle(seen: ClusterReader) -> Result:
    """Does the webhook configuration trust valid CAs, and those of the Secret?"""
    found, ours = await seen.configuration(MUTATING), await _our_webhooks(seen)
    if found is None or not ours:
        return warning("not checked: there is no webhook configuration", hint="see above")
    act = await where_none_acts(seen)
    bundles = {name: bundle_of(webhook) for name, webhook in ours.items()}
    trusted = {name: _certificates(each) for name, each in bundles.items()}
    if empty := next((name for name, each in bundles.items() if not each.strip()), None):
        return await _without(empty, ours[empty], seen, act)
    if strange := next((name for name, cas in trusted.items() if not cas), None):
        return error(f"the caBundle of {strange} holds something other than certificates", hint=act)
    cas = [*itertools.chain.from_iterable(trusted.values())]
    secret = await read_or(None, stored(seen))
    unknown = [ca for ca in secret[1] if ca not in cas] if secret else []
    different = (
        warning(f"the webhooks of {NAME} trust different CAs", hint=act) if len({*bundles.values()}) > 1 else None
    )
    narrower = _narrower(len(unknown), found, seen) if unknown else None
    return _expired(cas, seen.now, act) or narrower or different or _expiring(cas, seen.now, act)


def _expired(trusted: Sequence[x509.Certificate], now: dt.datetime, hint: str) -> Result | None:
    if any(_is_valid(ca, now) for ca in trusted):
        return None
    over = all(ca.not_valid_after_utc < now for ca in trusted)
    message = "every CA of the caBundle has expired" if over else "no CA of the caBundle is valid now"
    return error(message, *dict.fromkeys(map(_span, trusted)), hint=hint)


def _narrower(number: int, found: Object, seen: ClusterReader) -> Result:
    """Judge a bundle that lacks CAs: who adds them."""
    message = f"the caBundle lacks {counted(number, 'CA', 'CAs')} of the Secret {SECRET}"
    if WRITTEN_BY not in annotations_of(found):
        return warning(message, hint="it is maintained by hand: add ca.crt of the Secret to each caBundle")
    elsewhere = f"kubectl delete --namespace {seen.release} secret/{SECRET}"
    soon = f"a replica adds it within a minute; if not: {logs(seen)}"
    return warning(message, hint=f"{soon}; if certificates come from elsewhere now: {elsewhere}")


def _expiring(trusted: Sequence[x509.Certificate], now: dt.datetime, hint: str) -> Result:
    left = max(ca.not_valid_after_utc for ca in trusted if _is_valid(ca, now)) - now
    if left < CA_LEFT:
        return warning(f"the last CA of the caBundle expires in {_days(left)}", hint=hint)
    return ok(f"trusts {counted(len(set(trusted)), 'CA', 'CAs')}, valid for {_days(left)}")


async def _our_webhooks(seen: ClusterReader) -> dict[str, Object]:
    """Our webhooks of both configurations, by name."""
    found = [(kind, await tried(seen.configuration(kind))) for kind in KINDS]
    webhooks = [(kind, webhooks_of(each)) for kind, each in found if isinstance(each, dict)]
    return {each.name: some[each.name] for kind, some in webhooks for each in kind.webhooks if each.name in some}


async def _without(name: str, webhook: Object, seen: ClusterReader, hint: str) -> Result:
    """Judge an empty bundle: API servers then trust what their machines trust."""
    shown = await read_or([], handshakes(seen))
    verified = any(each.handshake == "verified" for each in shown)
    if isinstance(address_of(webhook), ServiceReference) or not verified:
        return error(f"{name} has no caBundle: no API server can trust the webhook", hint=hint)
    what = (
        f"{name} has no caBundle: API servers use the CAs of their machines; those of this machine verify the webhook"
    )
    return warning(what, hint="fine if the certificate is from a public CA")


async def served(seen: ClusterReader) -> Result:
    """Do these CAs verify what the Service or the URL serves?"""
    if await seen.configuration(MUTATING) is None:
        return warning("not tried: there is no webhook configuration", hint="see above")
    reached = await backend(seen)
    if reached.ready == 0:
        hint = f"see replicas above; kubectl get pods --namespace {seen.release}"
        return error(f"the Service has no ready endpoint ({reached.others} not ready)", hint=hint)
    return _judged(await handshakes(seen), seen, of_service=reached.ready is not None)


def _judged(every: Sequence["HandshakeResult"], seen: ClusterReader, *, of_service: bool) -> Result:
    lines: dict[Handshake, list[str]] = {}
    for shown in every:
        lines.setdefault(shown.handshake, []).append(f"{shown.address}: {shown.why}")
    if untrusted := lines.get("untrusted"):
        return error("the caBundle does not verify what is served", *untrusted, hint=f"see why: {logs(seen)}")
    if strange := lines.get("no TLS"):
        message = "another program answers, or a webhook without a certificate"
        return error(message, *strange, hint=f"see why: {logs(seen)}")
    verified = [shown.address for shown in every if shown.handshake == "verified"]
    refused = lines.get("refused")
    if refused and (verified or not of_service):
        return error("nothing answers", *refused, hint=f"is the webhook running? {logs(seen)}")
    if not verified:
        hint = "see the dry run below, for which the API server connects; or run this in a pod of the cluster"
        message = "the webhook's address cannot be reached from here"
        return warning(message, *itertools.chain(*lines.values()), hint=hint)
    return ok(f"the caBundle verifies what {', '.join(verified)} serves")


async def age(seen: ClusterReader) -> Result:
    """Are the certificates valid for some time?"""
    shown, secret = await read_or([], handshakes(seen)), await tried(stored(seen))
    found = {each.address: each.certificate for each in shown if each.certificate is not None}
    if isinstance(secret, tuple) and secret[0]:
        found[f"Secret {SECRET}"] = secret[0][0]
    if not found:
        why = [f"{SECRET}: {secret.why}"] if isinstance(secret, UnansweredError) else []
        hint = f"needed for this check: a connection to the webhook, or get the Secret {SECRET}"
        return warning("no certificate could be read", *why, hint=hint)
    spans = {f"{place}: {_span(each)}": each for place, each in found.items()}
    if over := [line for line, each in spans.items() if not _is_valid(each, seen.now)]:
        return error("a certificate has expired, or is not valid yet", *over, hint=f"see why: {logs(seen)}")
    if late := [line for line, each in spans.items() if _left(each, seen.now) < LATE]:
        return warning("a certificate should have been renewed", *late, hint=f"see why: {logs(seen)}")
    soonest = min(certificate.not_valid_after_utc for certificate in found.values())
    return ok(f"valid for {_days(soonest - seen.now)} ({', '.join(found)})")


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


class _Data(View, frozen=True):
    """The certificates in the webhook's Secret, in base64; its keys are never decoded."""

    serving: str = msgspec.field(default="", name="tls.crt")
    cas: str = msgspec.field(default="", name="ca.crt")


class _Secret(View, frozen=True):
    data: _Data = _Data()


@reads(f"the Secret {SECRET}", f"get the Secret {SECRET}")
async def stored(seen: ClusterReader) -> tuple[Sequence[x509.Certificate], Sequence[x509.Certificate]] | None:
    """The serving certificate in the Secret, and the CAs; None if there is no Secret."""
    try:
        found = await read_object(seen.api, f"/api/v1/namespaces/{seen.release}/secrets/{SECRET}", _Secret)
    except StatusError as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return _certificates(found.data.serving), _certificates(found.data.cas)


def _certificates(pem: bytes | str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM text, or of its base64; none if it is something else."""
    try:
        return tuple(x509.load_pem_x509_certificates(base64.b64decode(pem) if isinstance(pem, str) else pem))
    except (binascii.Error, ValueError, x509.InvalidVersion):
        return ()


Handshake: TypeAlias = Literal["verified", "untrusted", "refused", "unreachable", "no TLS"]


class HandshakeResult(NamedTuple):
    """How a TLS handshake with one address has ended, by the CAs of the webhook configuration; why; what was shown."""

    address: str
    handshake: Handshake
    why: str = ""
    certificate: x509.Certificate | None = None


class Backend(NamedTuple):
    """Where the webhook is called by a name; of a Service also the numbers of its ready and other endpoints."""

    name: str
    hosts: Sequence[tuple[str, int]]
    ready: int | None = None
    others: int = 0


MAX_ENDPOINTS: Final = 5
"""The most replicas whose certificate is read; more would show nothing new."""


@remembered
async def _called(seen: ClusterReader) -> Object:
    """The webhook of the configuration whose address and bundle are tried."""
    webhooks = webhooks_of(await seen.configuration(MUTATING) or {})
    return webhooks.get(ENFORCE) or webhooks.get(AUDIT) or {}


@reads("the Service", "get services, list endpointslices.discovery.k8s.io")
async def backend(seen: ClusterReader) -> Backend:
    """Where the webhook configuration's address leads; an `UnansweredError` if it leads nowhere."""
    address = address_of(await _called(seen))
    if isinstance(address, ServiceReference):
        return await _of_service(seen, address)
    try:
        parts = urlsplit(address or "")
        host, port = parts.hostname, parts.port or PORT
    except ValueError as problem:
        raise _nowhere(f"{address}: {problem}") from problem
    if not host:
        raise _nowhere(f"{address} contains no host")
    return Backend(host, [(host, port)])


def _nowhere(why: str) -> UnansweredError:
    return UnansweredError(warning("no connection could be made", why, hint="see the dry run below"))


async def _of_service(seen: ClusterReader, service: ServiceReference) -> Backend:
    """The Service's endpoints: each may have another certificate."""
    place = f"namespaces/{service.namespace}"
    query = {"labelSelector": f"kubernetes.io/service-name={service.name}"}
    found = (await read_object(seen.api, f"/api/v1/{place}/services/{service.name}", Item)).spec
    slices = await list_objects(seen.api, f"/apis/discovery.k8s.io/v1/{place}/endpointslices", Object, query)
    names = [port.get("name") or "" for port in each_at(found, "ports") if port.get("port") == service.port]
    if not names:
        raise _nowhere(f"the Service {service.namespace}/{service.name} has no port {service.port}")
    endpoints = [each for part in slices for each in _endpoints(part, names)]
    # By default, an endpoint gets traffic (``discovery.k8s.io/v1``).
    ready = [hosts for hosts, is_ready in endpoints if is_ready is not False]
    hosts = [*itertools.chain.from_iterable(ready[:MAX_ENDPOINTS])]
    return Backend(f"{service.name}.{service.namespace}.svc", hosts, len(ready), len(endpoints) - len(ready))


def _endpoints(part: Object, names: Collection[str]) -> Iterator[tuple[list[tuple[str, int]], bool | None]]:
    """The endpoints of a slice, at its ports of these names, and whether each is ready; of several addresses, the first."""
    ports = [found_at(port, int, "port") for port in each_at(part, "ports") if (port.get("name") or "") in names]
    for each in each_at(part, "endpoints"):
        for host in (found_at(each, list, "addresses") or ())[:1]:
            hosts = [(str(host), port) for port in ports if port is not None]
            yield hosts, found_at(each, bool, "conditions", "ready")


@remembered
async def handshakes(seen: ClusterReader) -> list[HandshakeResult]:
    """The certificates that the address in the webhook configuration shows."""
    reached, trusted = await backend(seen), bundle_of(await _called(seen)).strip()
    return await asyncio.gather(*(handshake(host, port, reached.name, trusted) for host, port in reached.hosts))


HANDSHAKE_SECONDS: Final = 5.0
"""For TCP and TLS: a slower address would not answer API servers in time either."""


async def handshake(
    host: str, port: int, name: str, ca_bundle: bytes, seconds: float = HANDSHAKE_SECONDS
) -> HandshakeResult:
    """Connect as an API server would, which trusts the CAs of its machine where the bundle is empty. Nothing more is sent.

    An untrusted certificate is read in a second handshake, without verification.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        context = _context(ca_bundle)
    except ssl.SSLError as problem:
        end: Handshake = "untrusted"
        why = f"the caBundle cannot be read: {problem}"
    else:
        try:
            return HandshakeResult(address, "verified", "", await _connect(host, port, name, context, seconds))
        except OSError as problem:
            end, why = _end(problem, seconds)
    shown, context = None, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if end == "untrusted":
        with contextlib.suppress(OSError):
            shown = await _connect(host, port, name, context, seconds)
    return HandshakeResult(address, end, why, shown)


def _end(problem: OSError, seconds: float) -> tuple[Handshake, str]:
    """How a handshake failed, and why."""
    match problem:
        case ssl.SSLCertVerificationError():
            return "untrusted", problem.verify_message
        case ssl.SSLError():
            return "no TLS", problem.reason or str(problem)
        case ConnectionResetError():
            return "no TLS", "the connection was closed in the handshake"
        case ConnectionRefusedError():
            return "refused", "connection refused"
        case TimeoutError():
            return "unreachable", f"no answer within {seconds:g} s"
        case _:
            return "unreachable", problem.strerror or str(problem)


async def _connect(host: str, port: int, name: str, context: ssl.SSLContext, seconds: float) -> x509.Certificate | None:
    async with asyncio.timeout(seconds):
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown) if shown else None
    finally:
        writer.transport.abort()


def _context(ca_bundle: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca_bundle.decode("ascii", "replace") or None)
    # Python 3.13 enforces rules of X.509 on CAs that Go, and so most clusters, never enforced.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
