"""The stored state as files and back, and what is recovered from damaged files."""

import dataclasses
import datetime as dt
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.ca import Pair, issue
from certs.state import Retired, RotationRequest, State, decode, fingerprint
from tests.certs.made import DAY, NAMES, NOW, ca, key_pem, state

PAIRS = [ca(day) for day in range(5)]


def plain(found: State | None) -> object:
    """It in a form that can be compared: keys are objects."""
    return None if found is None else (found.files(), found.cas, found.requested)


@settings(deadline=None)
@given(
    current=st.sampled_from([None, *PAIRS[:2]]),
    coming=st.sampled_from([None, *PAIRS[2:4]]),
    retired=st.booleans(),
    leaf=st.booleans(),
    requested=st.sampled_from([None, *RotationRequest]),
)
def test_what_was_encoded_is_decoded(
    current: Pair | None, coming: Pair | None, requested: RotationRequest | None, *, retired: bool, leaf: bool
) -> None:
    """Every state is decoded from its own files, without a problem."""
    signer = current or coming
    if signer is None:
        return
    old = (Retired(PAIRS[4].certificate, NOW + DAY),) if retired else ()
    whole = State(current, coming, old, issue(signer, NAMES, NOW) if leaf else None, requested)
    found = decode(whole.files())
    assert not found.problems
    assert plain(found.state) == plain(whole)
    assert found.state is not None
    assert found.state.retired == old


@pytest.mark.parametrize("files", [None, {}, {"tls.crt": b"", "tls.key": b""}, {"other": b"x"}])
def test_nothing(files: dict[str, bytes] | None) -> None:
    """An empty Secret of the right type is nothing, and no problem."""
    assert decode(files) == decode(None)
    assert decode(files).state is None


def test_the_layout_of_earlier_versions() -> None:
    """One certificate and no state is read as it is, and encoded the same."""
    whole = state()
    assert set(whole.files()) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert decode(whole.files()).state is not None


def test_the_order_depends_on_nothing_but_the_certificates() -> None:
    """The same bundle on every replica, whoever is current there."""
    partial = State(PAIRS[1], PAIRS[2], (Retired(PAIRS[0].certificate, NOW),))
    other = State(PAIRS[2], None, (Retired(PAIRS[0].certificate, NOW), Retired(PAIRS[1].certificate, NOW)))
    assert partial.bundle_pem == other.bundle_pem
    assert partial.bundle_pem.startswith(PAIRS[0].certificate_pem)


OTHER = ca()
RSA = rsa.generate_private_key(65537, 2048)


@pytest.mark.parametrize(
    "damage, problem, lost",
    [
        ({"tls.key": b"broken"}, "the serving certificate has a key that is not valid PEM", "leaf"),
        ({"tls.key": None}, "the serving certificate has a key that is not valid PEM", "leaf"),
        ({"tls.crt": b"broken"}, "the serving certificate has a certificate that is not valid PEM", "leaf"),
        ({"tls.key": OTHER.key_pem}, "the serving certificate has a key that belongs to another certificate", "leaf"),
        ({"tls.key": key_pem(OTHER.key, b"word")}, "the serving certificate has an encrypted key", "leaf"),
        (
            {"tls.crt": (foreign := issue(OTHER, NAMES, NOW)).certificate_pem, "tls.key": foreign.key_pem},
            "the serving certificate is not signed by a CA of the bundle",
            "leaf",
        ),
        ({"ca.key": None}, "the CA has no key", "authority"),
        ({"ca.key": b"broken"}, "the CA has a key that is not valid PEM", "authority"),
        ({"ca.key": OTHER.key_pem}, "the CA has a key that belongs to another certificate", "authority"),
        ({"ca.key": key_pem(OTHER.key, b"word")}, "the CA has an encrypted key", "authority"),
        ({"ca.key": key_pem(RSA)}, "the CA has a key that is not on an elliptic curve", "authority"),
        ({"ca.key": OTHER.key_pem[:100]}, "the CA has a key that is not valid PEM", "authority"),
        ({"ca.crt": b"broken"}, "the CA has a certificate that is not valid PEM", "all"),
        ({"state.json": b"["}, "the state has a state.json that cannot be decoded: delete it", "nothing"),
        (
            {"state.json": b'{"requested": "more"}'},
            "the state has a state.json that cannot be decoded: delete it",
            "nothing",
        ),
    ],
)
def test_damaged_piece_by_piece(damage: dict[str, bytes | None], problem: str, lost: str) -> None:
    """What is damaged is named, and nothing else is lost; no message has anything of a key."""
    whole = state()
    files = {name: data for name, data in {**whole.files(), **damage}.items() if data is not None}
    found = decode(files)
    assert [str(problem) for problem in found.problems] == [problem]
    assert (found.state is None) == (lost == "all")
    if found.state is not None:
        assert (found.state.serving_pair is None) == (lost == "leaf")
        assert (found.state.ca is None) == (lost == "authority")
        assert found.state.cas == whole.cas


def test_a_serving_certificate_where_a_ca_should_be() -> None:
    """It may not sign."""
    leaf = state().serving_pair
    assert leaf is not None
    found = decode({"ca.crt": leaf.certificate_pem, "ca.key": leaf.key_pem})
    assert "may not sign others" in str(found.problems[0])


def test_one_bad_certificate_in_the_bundle() -> None:
    """The other certificates stay in the state."""
    whole = state()
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    found = decode({**whole.files(), "ca.crt": broken + whole.bundle_pem})
    assert [str(problem) for problem in found.problems] == ["the bundle has a certificate that is not valid PEM"]
    assert plain(found.state) == plain(whole)


def test_an_unknown_certificate_is_retired() -> None:
    """What somebody has put into the bundle stays trusted for its own life."""
    whole = state()
    found = decode({**whole.files(), "ca.crt": OTHER.certificate_pem + whole.bundle_pem}).state
    assert found is not None
    assert found.retired == (Retired(OTHER.certificate, OTHER.not_after),)


def test_state_is_readable() -> None:
    """For people, and for other programs."""
    whole = dataclasses.replace(
        state(), retired=(Retired(OTHER.certificate, NOW),), requested=RotationRequest.SERVING_CERTIFICATE
    )
    content = json.loads(whole.files()["state.json"])
    assert content == {
        "retired": {fingerprint(OTHER.certificate): "2030-05-17T12:00:00+00:00"},
        "requested": "serving certificate",
    }
    assert NOW.tzinfo is dt.UTC


def test_no_key_is_printed() -> None:
    """Neither the state nor its parts show a private key when printed."""
    assert "PRIVATE" not in repr(state()) + repr(decode(state().files()))
    assert "EllipticCurve" not in repr(state())
