"""Checks of certificates: what API servers trust, what the webhook serves, and for how long."""

import datetime as dt
from collections.abc import Iterator
from typing import Final

from cryptography import x509

from webhook.cluster.client.api import Object
from webhook.cluster.registration.ca_bundles import bundle_of
from webhook.cluster.registration.desired import AUDIT, ENFORCE, NAME, Service
from webhook.cluster.registration.observed import webhooks_of
from webhook.cluster.secret import NAME as SECRET
from webhook.doctor.facts import Facts, Shown, address_of
from webhook.doctor.registration import LOGS, NEEDS
from webhook.doctor.result import Missing, Result, counted, error, ok, unread, warning

LATE: Final = 1 / 4
"""Part of a serving certificate's life that is left when its renewal, due after two thirds, is overdue."""

CA_LEFT: Final = dt.timedelta(days=30)
"""A CA that expires sooner should have had a successor for long."""


def bundle(facts: Facts) -> Result:
    """Whether the webhook configuration has valid CAs, including those of the webhook's Secret."""
    if isinstance(facts.configurations, Missing):
        return unread("the webhook configurations", facts.configurations, NEEDS)
    ours = {} if facts.registered is None else webhooks_of(facts.registered)
    ours = {name: ours[name] for name in (ENFORCE, AUDIT) if name in ours}
    if not ours:
        return warning("not checked: there is no webhook configuration", hint="see above")
    logs = f"is a replica running? {LOGS.format(release=facts.release)}"
    trusted: list[x509.Certificate] = []
    for name, webhook in ours.items():
        pem = bundle_of(webhook)
        if not pem.strip():
            return _without(name, webhook, facts, logs)
        try:
            trusted += x509.load_pem_x509_certificates(pem)
        except (ValueError, x509.InvalidVersion):
            return error(f"the caBundle of {name} holds something other than certificates", hint=logs)
    bundles = {bundle_of(webhook) for webhook in ours.values()}
    good = [ca for ca in trusted if ca.not_valid_before_utc <= facts.now <= ca.not_valid_after_utc]
    if not good:
        return error("no CA of the caBundle is valid now", hint=logs)
    stored = facts.stored.cas if not isinstance(facts.stored, Missing | None) else ()
    strange = [ca for ca in stored if ca not in trusted]
    if strange:
        return warning(
            f"the caBundle lacks {counted(len(strange), 'CA', 'CAs')} of the Secret {SECRET}",
            hint=f"a replica adds it within a minute; if not: {LOGS.format(release=facts.release)}",
        )
    if len(bundles) > 1:
        return warning(f"the two webhooks of {NAME} trust different CAs", hint=logs)
    last = max(ca.not_valid_after_utc for ca in good)
    if last - facts.now < CA_LEFT:
        return warning(f"the last CA of the caBundle expires in {_days(last - facts.now)}", hint=logs)
    return ok(f"trusts {counted(len(set(trusted)), 'CA', 'CAs')}, valid for {_days(last - facts.now)}")


def served(facts: Facts) -> Result:
    """Whether the webhook configuration trusts the certificates at its address."""
    if isinstance(facts.configurations, Missing):
        return unread("the webhook configurations", facts.configurations, NEEDS)
    if facts.registered is None:
        return warning("not tried: there is no webhook configuration", hint="see above")
    logs = LOGS.format(release=facts.release)
    if isinstance(facts.backend, Missing):
        return unread("the Service", facts.backend, "get services, list endpointslices.discovery.k8s.io")
    if facts.backend is not None and not facts.backend.ready:
        return error(
            f"the Service has no ready endpoint ({facts.backend.others} not ready)",
            hint=f"kubectl get pods --namespace {facts.release}",
        )
    if isinstance(facts.shown, Missing):
        return warning("no connection could be made", facts.shown.why, hint="see the dry run below")
    by_end = {
        end: [shown for shown in facts.shown if shown.handshake == end] for end in ("untrusted", "no TLS", "refused")
    }
    if by_end["untrusted"]:
        return error(
            "the caBundle does not verify what is served", *map(_line, by_end["untrusted"]), hint=f"see why: {logs}"
        )
    if by_end["no TLS"]:
        return error(
            "another program answers, or a webhook without a certificate",
            *map(_line, by_end["no TLS"]),
            hint=f"see why: {logs}",
        )
    verified = [shown.address for shown in facts.shown if shown.handshake == "verified"]
    if by_end["refused"] and (facts.backend is None or verified):
        return error("nothing answers", *map(_line, by_end["refused"]), hint=f"is the webhook running? {logs}")
    if not verified:
        return warning(
            "the webhook's address cannot be reached from here",
            *map(_line, facts.shown),
            hint="see the dry run below, for which the API server connects; or run this in a pod of the cluster",
        )
    return ok(f"the caBundle verifies what {', '.join(verified)} serves")


def age(facts: Facts) -> Result:
    """Whether the served certificates, and the one in the Secret, are valid for some time."""
    found = dict(_serving_certificates(facts))
    if not found:
        why = [f"{SECRET}: {facts.stored.why}"] if isinstance(facts.stored, Missing) else []
        return warning(
            "no certificate could be read",
            *why,
            hint=f"needed for this check: a connection to the webhook, or get the Secret {SECRET}",
        )
    logs = LOGS.format(release=facts.release)
    over = [
        f"{where}: {_span(certificate)}" for where, certificate in found.items() if not _good(certificate, facts.now)
    ]
    if over:
        return error("a certificate has expired, or is not valid yet", *over, hint=f"see why: {logs}")
    late = [
        f"{where}: {_span(certificate)}" for where, certificate in found.items() if _left(certificate, facts.now) < LATE
    ]
    if late:
        return warning("a certificate should have been renewed", *late, hint=f"see why: {logs}")
    soonest = min(certificate.not_valid_after_utc for certificate in found.values())
    return ok(f"valid for {_days(soonest - facts.now)} ({', '.join(found)})")


def _without(name: str, webhook: Object, facts: Facts, hint: str) -> Result:
    """Judge an empty bundle: API servers then trust what their machines trust."""
    verified = not isinstance(facts.shown, Missing) and any(shown.handshake == "verified" for shown in facts.shown)
    if isinstance(address_of(webhook), Service) or not verified:
        return error(f"{name} has no caBundle: no API server can trust the webhook", hint=hint)
    return warning(
        f"{name} has no caBundle: API servers use the CAs of their machines; those of this machine verify the webhook",
        hint="fine if the certificate is from a public CA",
    )


def _serving_certificates(facts: Facts) -> Iterator[tuple[str, x509.Certificate]]:
    for shown in () if isinstance(facts.shown, Missing) else facts.shown:
        if shown.certificate is not None:
            yield shown.address, shown.certificate
    if not isinstance(facts.stored, Missing | None) and facts.stored.serving_certificate is not None:
        yield f"Secret {SECRET}", facts.stored.serving_certificate


def _good(certificate: x509.Certificate, now: dt.datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def _left(certificate: x509.Certificate, now: dt.datetime) -> float:
    """The part of a certificate's life that is left."""
    return (certificate.not_valid_after_utc - now) / (
        certificate.not_valid_after_utc - certificate.not_valid_before_utc
    )


def _span(certificate: x509.Certificate) -> str:
    return f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"


def _days(span: dt.timedelta) -> str:
    return counted(span.days, "day") if span >= dt.timedelta(days=2) else f"{span.total_seconds() / 3600:.0f} h"


def _line(shown: Shown) -> str:
    return f"{shown.address}: {shown.why}"
