"""The output of `certs show`: one report, as JSON or as text."""

import asyncio
from typing import Any, Final

from cryptography import x509

from certs.ca import names_of
from certs.state import State, der, fingerprint
from webhook.cli.output.tables import columns
from webhook.doctor.address import shown_at
from webhook.doctor.certificates import FoundCertificates
from webhook.doctor.facts import Shown

SHORT: Final = 16
"""Digits of a fingerprint in the text, enough to distinguish certificates; the JSON has all."""


def served_at(found: FoundCertificates, address: str | None) -> Shown | None:
    """Connect to a server, and return the certificate that it presents; None without an address.

    Args:
        found: has the address in the webhook configuration, and the CAs that its callers trust.
        address: HOST:PORT, instead of that address.
    """
    host, _, port = (address or found.address or "").rpartition(":")
    if not port.isdecimal():
        return Shown(address, "unreachable", f"{address!r} is no HOST:PORT") if address else None
    host = host.strip("[]")
    return asyncio.run(shown_at(host, int(port)))


def report(found: FoundCertificates, shown: Shown | None) -> dict[str, Any]:
    """Build the report, ready for JSON; fingerprints are SHA-256 of the DER, times ISO 8601 in UTC.

    Args:
        found: the stored certificates, and who trusts them.
        shown: the certificate that the server presents; None if no server was contacted.
    """
    state = found.decoded.state
    return {
        "place": found.place,
        "cas": [] if state is None else _cas(state, found),
        "servingCertificate": None if state is None else _serving_certificate(state),
        "served": _served(state, shown),
        "rotationRequest": None if state is None or state.requested is None else state.requested.value,
        "problems": [str(problem) for problem in found.decoded.problems],
        "notes": list(found.notes),
    }


def text(data: dict[str, Any]) -> str:
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


def _cas(state: State, found: FoundCertificates) -> list[dict[str, Any]]:
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
        if found.trusted is not None:
            entry["trustedBy"] = sorted(name for name, bundle in found.trusted.items() if der(ca) in bundle)
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


def _served(state: State | None, shown: Shown | None) -> dict[str, Any] | None:
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
