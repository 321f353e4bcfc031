"""What `certs show` prints: one report, as JSON or as text for people."""

import socket
import ssl
from typing import Any, Final

from cryptography import x509

from certs.authority import names_of
from certs.kept import Kept, der, fingerprint
from webhook.cli.certs_kept import Found
from webhook.cli.columns import columns

PATIENCE: Final = 5.0
"""Seconds for a server to show its certificate."""

SHORT: Final = 16
"""Digits of a fingerprint that tell certificates apart; the JSON has all."""


def report(found: Found, address: str | None) -> dict[str, Any]:
    """What is known, ready for JSON; fingerprints are SHA-256 of the DER, times ISO 8601 in UTC.

    Args:
        found: what is kept, and who trusts it.
        address: of a server to be asked, HOST:PORT; the registration's if None.
    """
    kept = found.decoded.kept
    asked = None if kept is None or kept.asked is None else kept.asked.value
    return {
        "place": found.place,
        "authorities": [] if kept is None else _authorities(kept, found),
        "leaf": None if kept is None or kept.leaf is None else _leaf(kept),
        "served": _served(kept, address or found.address),
        "asked": asked,
        "problems": [str(problem) for problem in found.decoded.problems],
        "notes": list(found.notes),
    }


def text(told: dict[str, Any]) -> str:
    """The same for people."""
    rows = [
        ["authority", one["state"], one["fingerprint"][:SHORT], _life(one), _trust(one)] for one in told["authorities"]
    ]
    leaf = told["leaf"]
    if leaf is not None:
        names = f"under {leaf['authority'][:SHORT]}, for {', '.join(leaf['names'])}"
        rows.append(["leaf", "", leaf["fingerprint"][:SHORT], _life(leaf), names])
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


def _authorities(kept: Kept, found: Found) -> list[dict[str, Any]]:
    until = {one.certificate: one.until for one in kept.retired}
    told = []
    for one in kept.authorities:
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


def _leaf(kept: Kept) -> dict[str, Any]:
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


def _served(kept: Kept | None, address: str | None) -> dict[str, Any] | None:
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    try:
        certificate = _shown_by(host.strip("[]"), int(port))
    except (OSError, ValueError) as error:
        return {"address": address, "error": str(error)}
    stored = kept is not None and kept.leaf is not None and kept.leaf.certificate == certificate
    return {"address": address, **_dates(certificate), "stored": stored}


def _shown_by(host: str, port: int) -> x509.Certificate:
    context = ssl.create_default_context()
    # What it shows is wanted, whether it can be trusted or not.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")


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
        return "this leaf"
    other = "another leaf" if stored else "a leaf"
    return f"{other}, {served['fingerprint'][:SHORT]}, until {served['notAfter'][:10]}"
