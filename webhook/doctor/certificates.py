"""Checks of certificates: what API servers trust, what the webhook serves, and for how long."""

import datetime as dt
from collections.abc import Iterator
from typing import Final

from cryptography import x509

from webhook.cluster.client import Object
from webhook.cluster.registration.stored import bundle_of, webhooks_of
from webhook.cluster.registration.wanted import KINDS, NAME, ServiceReference
from webhook.cluster.secret import NAME as SECRET
from webhook.doctor.facts import ClusterFacts, Handshake, address_of
from webhook.doctor.registration import configurations
from webhook.doctor.replicas import logs, where_none_acts
from webhook.doctor.result import Missing, Result, counted, error, known, ok, warning
from webhook.labels import WRITTEN_BY

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
    act = where_none_acts(facts)
    trusted: list[x509.Certificate] = []
    for name, webhook in ours.items():
        pem = bundle_of(webhook)
        if not pem.strip():
            return _without(name, webhook, facts, act)
        try:
            trusted += x509.load_pem_x509_certificates(pem)
        except (ValueError, x509.InvalidVersion):
            return error(f"the caBundle of {name} holds something other than certificates", hint=act)
    good = [ca for ca in trusted if _is_valid(ca, facts.now)]
    if not good:
        over = all(ca.not_valid_after_utc < facts.now for ca in trusted)
        message = "every CA of the caBundle has expired" if over else "no CA of the caBundle is valid now"
        return error(message, *dict.fromkeys(map(_span, trusted)), hint=act)
    stored = facts.stored.cas if not isinstance(facts.stored, Missing | None) else ()
    strange = [ca for ca in stored if ca not in trusted]
    if strange:
        by_hand = WRITTEN_BY not in (facts.registered["metadata"].get("annotations") or ())
        adds = (
            f"a replica adds it within a minute; if not: {logs(facts)}; if certificates come from elsewhere now: "
            f"kubectl delete --namespace {facts.release} secret/{SECRET}"
        )
        return warning(
            f"the caBundle lacks {counted(len(strange), 'CA', 'CAs')} of the Secret {SECRET}",
            hint="it is maintained by hand: add ca.crt of the Secret to each caBundle" if by_hand else adds,
        )
    if len(set(map(bundle_of, ours.values()))) > 1:
        return warning(f"the webhooks of {NAME} trust different CAs", hint=act)
    left = max(ca.not_valid_after_utc for ca in good) - facts.now
    if left < CA_LEFT:
        return warning(f"the last CA of the caBundle expires in {_days(left)}", hint=act)
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
            hint=f"see replicas above; kubectl get pods --namespace {facts.release}",
        )
    if isinstance(facts.handshakes, Missing):
        return warning("no connection could be made", facts.handshakes.why, hint="see the dry run below")
    lines: dict[Handshake, list[str]] = {}
    for shown in facts.handshakes:
        lines.setdefault(shown.handshake, []).append(f"{shown.address}: {shown.why}")
    why = f"see why: {logs(facts)}"
    if untrusted := lines.get("untrusted"):
        return error("the caBundle does not verify what is served", *untrusted, hint=why)
    if strange := lines.get("no TLS"):
        return error("another program answers, or a webhook without a certificate", *strange, hint=why)
    verified = [shown.address for shown in facts.handshakes if shown.handshake == "verified"]
    refused = lines.get("refused")
    if refused and (backend is None or verified):
        return error("nothing answers", *refused, hint=f"is the webhook running? {logs(facts)}")
    if not verified:
        return warning(
            "the webhook's address cannot be reached from here",
            *(f"{shown.address}: {shown.why}" for shown in facts.handshakes),
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
    verified = not isinstance(facts.handshakes, Missing) and any(
        shown.handshake == "verified" for shown in facts.handshakes
    )
    if isinstance(address_of(webhook), ServiceReference) or not verified:
        return error(f"{name} has no caBundle: no API server can trust the webhook", hint=hint)
    return warning(
        f"{name} has no caBundle: API servers use the CAs of their machines; those of this machine verify the webhook",
        hint="fine if the certificate is from a public CA",
    )


def _serving_certificates(facts: ClusterFacts) -> Iterator[tuple[str, x509.Certificate]]:
    for shown in () if isinstance(facts.handshakes, Missing) else facts.handshakes:
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
