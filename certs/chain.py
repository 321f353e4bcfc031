"""Whether clients accept a serving certificate: its validity, its names, and a path to a CA that they trust.

The checks follow Go, with which API servers verify, and are as lenient: a company's CA may be older than today's rules.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.ca import covers, names_of, signed_by
from certs.problem import UnusablePairError

MAX_INTERMEDIATES: Final = 8
"""The most intermediates between a serving certificate and its CA; real chains have one or two."""


def check_time(certificate: x509.Certificate, now: dt.datetime, what: str) -> None:
    """Check that a certificate is valid now.

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


def check_use(certificate: x509.Certificate, names: Collection[str], what: str) -> None:
    """Check that a certificate is for a server with these names.

    Raises:
        UnusablePairError: it is not.
    """
    missing = [name for name in names if not _has_name(certificate, name)]
    if missing:
        names_text = ", ".join(names_of(certificate)) or "no name"
        raise UnusablePairError(what, f"is not for {', '.join(missing)}: it names {names_text}")
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(usages):
        raise UnusablePairError(what, "is not for servers (extendedKeyUsage serverAuth is missing)")


def path_to(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    cas: Collection[x509.Certificate],
    now: dt.datetime,
    what: str,
) -> list[x509.Certificate]:
    """Find the path from a serving certificate to a CA: its issuer first, the CA last.

    Raises:
        UnusablePairError: there is no path, or a certificate on it is not valid.
    """
    path: list[x509.Certificate] = []
    lower = certificate
    for _ in range(MAX_INTERMEDIATES):
        ca = _issuer(lower, [candidate for candidate in cas if may_sign(candidate, len(path))], now)
        if ca is not None:
            check_time(ca, now, "the CA")
            return [*path, ca]
        unused = [candidate for candidate in intermediates if candidate not in path and may_sign(candidate, len(path))]
        intermediate = _issuer(lower, unused, now)
        if intermediate is None:
            break
        check_time(intermediate, now, "an intermediate")
        path.append(intermediate)
        lower = intermediate
    raise UnusablePairError(what, "is not signed by a CA of the bundle, directly or through its intermediates")


def may_sign(certificate: x509.Certificate, below: int) -> bool:
    """Whether clients accept a certificate as a CA (RFC 5280 §6.1.4) with `below` intermediates below it."""
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


def _has_name(certificate: x509.Certificate, name: str) -> bool:
    """Whether a certificate is for a name: case does not count, ``*`` matches one whole first label (RFC 6125 §6.4)."""
    names = {own.lower() for own in names_of(certificate)}
    _, dot, parent = name.lower().partition(".")
    return covers(certificate, [name]) or name.lower() in names or (bool(dot) and f"*.{parent}" in names)


def _issuer(
    certificate: x509.Certificate, candidates: Iterable[x509.Certificate], now: dt.datetime
) -> x509.Certificate | None:
    """The certificate that signed another; of several with the same key, preferably one that is valid now."""
    issuers = [candidate for candidate in candidates if signed_by(certificate, candidate)]
    valid = (issuer for issuer in issuers if issuer.not_valid_before_utc <= now <= issuer.not_valid_after_utc)
    return next(valid, issuers[0] if issuers else None)
