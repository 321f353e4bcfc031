"""Whether clients would accept a leaf: its time, its names, and a way from it to an authority that they trust.

Looser than some clients where Go, which is what API servers verify with, is loose: a company's authority may be older than
today's rules.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Sequence

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.ca import covers, names_of, signed_by
from certs.problem import UnusablePairError

LONGEST: int = 8
"""Certificates between a leaf and its authority; real chains have one or two."""


def check_time(certificate: x509.Certificate, now: dt.datetime, what: str) -> None:
    """Whether a certificate is valid.

    Raises:
        UnusablePairError: it is not, or the clock is wrong.
    """
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        raise UnusablePairError(
            what, f"is not valid before {begin:%Y-%m-%d %H:%M} UTC, and the clock says {now:%Y-%m-%d %H:%M}"
        )
    if now > end:
        raise UnusablePairError(what, f"expired at {end:%Y-%m-%d %H:%M} UTC")


def check_use(leaf: x509.Certificate, names: Collection[str], what: str) -> None:
    """Whether a certificate is for a server that is called by these names.

    Raises:
        UnusablePairError: it is not.
    """
    missing = [name for name in names if not _names(leaf, name)]
    if missing:
        held = ", ".join(names_of(leaf)) or "no name"
        raise UnusablePairError(what, f"is not for {', '.join(missing)}: it names {held}")
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(usages):
        raise UnusablePairError(what, "is not for servers (extendedKeyUsage serverAuth is missing)")


def path_to(
    leaf: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    authorities: Iterable[x509.Certificate],
    now: dt.datetime,
    what: str,
) -> list[x509.Certificate]:
    """The certificates above a leaf, up to an authority: its issuer first, the authority last.

    Raises:
        UnusablePairError: there is no such way, or one of these is not valid.
    """
    trusted = [one for one in authorities if may_sign(one, 0)]
    way: list[x509.Certificate] = []
    lower = leaf
    for _ in range(LONGEST):
        authority = _issuer(lower, [one for one in trusted if may_sign(one, len(way))], now)
        if authority is not None:
            check_time(authority, now, "the authority")
            return [*way, authority]
        others = [one for one in intermediates if one not in way and may_sign(one, len(way))]
        intermediate = _issuer(lower, others, now)
        if intermediate is None:
            break
        check_time(intermediate, now, "an intermediate")
        way.append(intermediate)
        lower = intermediate
    raise UnusablePairError(what, "is not signed by an authority of the bundle, nor by way of the chain beside it")


def may_sign(certificate: x509.Certificate, below: int) -> bool:
    """Whether clients take a certificate for an authority (RFC 5280 §6.1.4), so many intermediates being below it."""
    extensions = certificate.extensions
    try:
        constraints = extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return False
    try:
        signs = extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        signs = True
    return constraints.ca and signs and (constraints.path_length is None or constraints.path_length >= below)


def _names(leaf: x509.Certificate, name: str) -> bool:
    """Whether a leaf is for a name: case does not count, and ``*`` stands for one whole first label (RFC 6125 §6.4)."""
    held = {one.lower() for one in names_of(leaf)}
    _, dot, parent = name.lower().partition(".")
    return covers(leaf, [name]) or name.lower() in held or (bool(dot) and f"*.{parent}" in held)


def _issuer(
    certificate: x509.Certificate, candidates: Iterable[x509.Certificate], now: dt.datetime
) -> x509.Certificate | None:
    """Who signed a certificate; one that is valid now rather than another of the same key."""
    found = [one for one in candidates if signed_by(certificate, one)]
    return next((one for one in found if one.not_valid_before_utc <= now <= one.not_valid_after_utc), None) or next(
        iter(found), None
    )
