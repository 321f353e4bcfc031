"""What CAs and serving certificates are made of, and that strict clients take them."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from certs.x509 import CA_LIFE, CLOCK_SKEW, SERVING_LIFE, Pair, issue, lacking, make_ca, signed_by

NOW = dt.datetime(2030, 5, 17, 12, tzinfo=dt.UTC)
NAMES = ("webhook.system.svc", "webhook.system.svc.cluster.local", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def ca() -> Pair:
    """Give a CA."""
    return make_ca("test CA", NOW)


@pytest.fixture(scope="module")
def leaf(ca: Pair) -> Pair:
    """Give a serving certificate under it."""
    return issue(ca, NAMES, NOW)


def test_ca_signs_certificates_and_no_cas(ca: Pair) -> None:
    """Path length 0 and the two signing usages, all critical."""
    extensions = ca.certificate.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.crl_sign, usage.value.digital_signature) == (True, True, False)


def test_serving_certificate_is_a_server_only(leaf: Pair) -> None:
    """A serving certificate signs handshakes of a server, under the names it was made for."""
    extensions = leaf.certificate.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_cert_sign, usage.key_encipherment) == (True, False, False)
    extended = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == list(NAMES[:2])
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == list(NAMES[2:])


def test_key_identifiers_join_serving_certificate_and_ca(ca: Pair, leaf: Pair) -> None:
    """A client that trusts an old and a new CA of one name finds the right one by its key."""
    subject = ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issuer = leaf.certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert issuer.key_identifier == subject.digest


def test_lifetimes(ca: Pair, leaf: Pair) -> None:
    """One year and ninety days, from a little before now."""
    assert ca.certificate.not_valid_before_utc == leaf.certificate.not_valid_before_utc == NOW - CLOCK_SKEW
    assert ca.not_after == NOW + CA_LIFE
    assert leaf.not_after == NOW + SERVING_LIFE


def test_serving_certificate_does_not_outlive_its_ca(ca: Pair) -> None:
    """A serving certificate that is issued late ends with its CA."""
    late = ca.not_after - dt.timedelta(days=3)
    assert issue(ca, NAMES, late).not_after == ca.not_after


def test_serials_are_long_and_different(ca: Pair) -> None:
    """Serials are random, of 64 bits or more."""
    serials = {issue(ca, NAMES, NOW).certificate.serial_number for _ in range(8)}
    assert len(serials) == 8
    assert all(serial.bit_length() > 64 for serial in serials)


def test_name_too_long_for_a_common_name(ca: Pair) -> None:
    """With long names only the subject is empty, and the alternative names are critical as the standard wants."""
    name = "a" * 60 + ".namespace.svc"
    certificate = issue(ca, [name], NOW).certificate
    assert not list(certificate.subject)
    assert certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).critical
    assert not lacking(certificate, [name])


def test_serving_certificate_needs_a_name(ca: Pair) -> None:
    """A serving certificate without names is refused when it is made, and not by every client."""
    with pytest.raises(ValueError, match="at least one name"):
        issue(ca, [], NOW)


@pytest.mark.parametrize(
    "names, missing",
    [
        (NAMES, []),
        (["::1", "0:0:0:0:0:0:0:1", "Webhook.system.SVC", "webhook.ours.svc"], []),
        ([*NAMES, "other", "a.webhook.ours.svc", "10.0.0.1"], ["other", "a.webhook.ours.svc", "10.0.0.1"]),
    ],
)
def test_names(ca: Pair, names: list[str], missing: list[str]) -> None:
    """An address or a letter may be spelled otherwise, and a wildcard is one whole first label (RFC 6125)."""
    assert lacking(issue(ca, [*NAMES, "*.Ours.svc"], NOW).certificate, names) == missing
    assert lacking(ca.certificate, names) == list(names), "without alternative names"


def test_signed_by(ca: Pair, leaf: Pair) -> None:
    """A serving certificate belongs to the key that signed it, not to the name."""
    namesake = make_ca("test CA", NOW)
    assert signed_by(leaf.certificate, ca.certificate)
    assert not signed_by(leaf.certificate, namesake.certificate)
    assert not signed_by(ca.certificate, leaf.certificate)


@pytest.mark.parametrize("name", NAMES[:2])
def test_strict_verifier_accepts(ca: Pair, leaf: Pair, name: str) -> None:
    """A verifier with the profile of the web's own CAs takes the chain."""
    builder = PolicyBuilder().store(Store([ca.certificate])).time(NOW)
    chain = builder.build_server_verifier(x509.DNSName(name)).verify(leaf.certificate, [])
    assert [link.serial_number for link in chain] == [leaf.certificate.serial_number, ca.certificate.serial_number]
