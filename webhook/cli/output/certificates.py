"""What `certs show` prints: one report, as JSON or as text for people."""

import asyncio
from typing import Any, Final

from cryptography import x509

from certs.ca import names_of
from certs.state import State, der, fingerprint
from webhook.cli.output.columns import columns
from webhook.doctor.facts import Shown
from webhook.doctor.handshake import shown_at
from webhook.doctor.stored_certificates import Found

SHORT: Final = 16
"""Digits of a fingerprint that tell certificates apart; the JSON has all."""


def served_at(found: Found, address: str | None) -> Shown | None:
    """What a server shows.

    Args:
        found: names the address in the webhook configuration, and what its callers trust.
        address: HOST:PORT, instead of that address.
    """
    host, _, port = (address or found.address or "").rpartition(":")
    if not port.isdecimal():
        return Shown(address, "unreachable", f"{address!r} is no HOST:PORT") if address else None
    host = host.strip("[]")
    return asyncio.run(shown_at(host, int(port)))


def report(found: Found, shown: Shown | None) -> dict[str, Any]:
    """What is known, ready for JSON; fingerprints are SHA-256 of the DER, times ISO 8601 in UTC.

    Args:
        found: what is kept, and who trusts it.
        shown: what the server shows; None: nobody was asked.
    """
    kept = found.decoded.state
    asked = None if kept is None or kept.requested is None else kept.requested.value
    return {
        "place": found.place,
        "authorities": [] if kept is None else _authorities(kept, found),
        "leaf": None if kept is None or kept.leaf is None else _leaf(kept),
        "served": _served(kept, shown),
        "asked": asked,
        "problems": [str(problem) for problem in found.decoded.problems],
        "notes": list(found.notes),
    }


def text(told: dict[str, Any]) -> str:
    """The same for people."""
    rows = [["CA", one["state"], one["fingerprint"][:SHORT], _life(one), _trust(one)] for one in told["authorities"]]
    leaf = told["leaf"]
    if leaf is not None:
        names = f"under {leaf['authority'][:SHORT]}, for {', '.join(leaf['names'])}"
        rows.append(["certificate", "", leaf["fingerprint"][:SHORT], _life(leaf), names])
    lines = [told["place"] + (":" if rows else ": nothing is kept")]
    if rows:
        lines += [f"  {line}" for line in columns(rows).splitlines()]
    served = told["served"]
    if served is not None:
        lines.append(f"{served['address']} serves {_what_is_served(served, stored=leaf is not None)}")
    if told["asked"] is not None:
        lines.append(f"a new {told['asked']} was asked for: the running replicas make it")
    lines += [f"problem: {problem}" for problem in told["problems"]]
    lines += told["notes"]
    return "".join(f"{line}\n" for line in lines)


def _authorities(kept: State, found: Found) -> list[dict[str, Any]]:
    until = {one.certificate: one.until for one in kept.retired}
    told = []
    for one in kept.cas:
        if one in until:
            state = "retired"
        elif kept.coming is not None and one == kept.coming.certificate:
            state = "coming"
        else:
            state = "current"
        entry = {"state": state, **_dates(one)}
        if one in until:
            entry["trustedUntil"] = f"{until[one]:%Y-%m-%dT%H:%M:%SZ}"
        if found.trusted is not None:
            entry["trustedBy"] = sorted(name for name, bundle in found.trusted.items() if der(one) in bundle)
        told.append(entry)
    return told


def _leaf(kept: State) -> dict[str, Any]:
    assert kept.leaf is not None  # noqa: S101  (the caller looked)
    issuer = kept.issuer(kept.leaf.certificate)
    names = names_of(kept.leaf.certificate)
    return {
        **_dates(kept.leaf.certificate),
        "authority": "" if issuer is None else fingerprint(issuer),
        "names": list(names),
    }


def _dates(certificate: x509.Certificate) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint(certificate),
        "notBefore": f"{certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}",
        "notAfter": f"{certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
    }


def _served(kept: State | None, shown: Shown | None) -> dict[str, Any] | None:
    if shown is None:
        return None
    if shown.certificate is None:
        return {"address": shown.address, "error": shown.why}
    stored = kept is not None and kept.leaf is not None and kept.leaf.certificate == shown.certificate
    return {"address": shown.address, **_dates(shown.certificate), "stored": stored}


def _life(one: dict[str, Any]) -> str:
    return f"{one['notBefore'][:10]} to {one['notAfter'][:10]}"


def _trust(one: dict[str, Any]) -> str:
    by = one.get("trustedBy")
    parts = [] if by is None else ["trusted by " + ", ".join(by) if by else "trusted by nobody yet"]
    if "trustedUntil" in one:
        parts.append(f"kept until {one['trustedUntil'][:10]}")
    return ", ".join(parts)


def _what_is_served(served: dict[str, Any], *, stored: bool) -> str:
    if "error" in served:
        return f"what cannot be seen from here: {served['error']}"
    if served["stored"]:
        return "this serving certificate"
    other = "another certificate" if stored else "a certificate"
    return f"{other}, {served['fingerprint'][:SHORT]}, until {served['notAfter'][:10]}"
