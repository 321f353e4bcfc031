"""Checks of certificates: what API servers trust, what the webhook has made, and for how long."""

import base64
import binascii
import datetime as dt
import itertools
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from cryptography import x509

from webhook.cluster.client import Object, StatusError, read_object
from webhook.cluster.registration.stored import annotations_of, bundle_of, webhooks_of
from webhook.cluster.registration.wanted import KINDS, MUTATING, NAME, ServiceReference
from webhook.cluster.secret import NAME as SECRET
from webhook.doctor.cluster import address_of, logs, where_none_acts
from webhook.doctor.reading import ClusterReader, read_or, reads, tried
from webhook.doctor.result import Result, counted, error, ok, warning
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
        return _without(empty, ours[empty], act)
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


def _without(name: str, webhook: Object, hint: str) -> Result:
    """Judge an empty bundle: API servers then trust what their machines trust."""
    if isinstance(address_of(webhook), ServiceReference):
        return error(f"{name} has no caBundle: no API server can trust the webhook", hint=hint)
    what = f"{name} has no caBundle: API servers use the CAs of their machines"
    return warning(what, hint=f"fine if the certificate is from a public CA; {hint}")


async def age(seen: ClusterReader) -> Result:
    """Is the certificate that the webhook renews itself valid for some time?"""
    secret = await stored(seen)
    if secret is None or not secret[0]:
        return ok(f"the Secret {SECRET} has no certificate: it is renewed elsewhere")
    certificate, why = secret[0][0], f"see why: {logs(seen)}"
    if not _is_valid(certificate, seen.now):
        return error("the certificate has expired, or is not valid yet", _span(certificate), hint=why)
    if _left(certificate, seen.now) < LATE:
        return warning("the certificate should have been renewed", _span(certificate), hint=why)
    return ok(f"valid for {_days(certificate.not_valid_after_utc - seen.now)}")


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
