"""What is kept and what is made anew, over the years."""

import datetime as dt
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.authority import LEAF_LIFE, covers, issue, make_authority, signed_by
from certs.problem import UnusablePairError
from certs.store import Directory, Stored
from certs.upkeep import Material, keep_up, renewed

NOW = dt.datetime(2030, 5, 17, 12, tzinfo=dt.UTC)
NAMES = ["localhost", "127.0.0.1"]


def stored(material: Material) -> Stored:
    """Give what a store would hold."""
    return Stored(material.authority, material.leaf)


def test_nothing_becomes_an_authority_and_a_leaf() -> None:
    """An empty store gives a leaf that its authority signed and that covers the names."""
    material = renewed(None, "test", NAMES, NOW)
    assert signed_by(material.leaf.certificate, material.authority.certificate)
    assert covers(material.leaf.certificate, NAMES)


def test_what_is_good_is_kept() -> None:
    """A restart changes nothing."""
    first = renewed(None, "test", NAMES, NOW)
    assert renewed(stored(first), "test", NAMES, NOW + dt.timedelta(days=59)) == first


@pytest.mark.parametrize(
    "names, days",
    [
        pytest.param([*NAMES, "other"], 0, id="another name"),
        pytest.param(NAMES, 61, id="two thirds of its life are over"),
        pytest.param(NAMES, 100, id="expired"),
        pytest.param(NAMES, -1, id="not yet valid: the clock was set back"),
    ],
)
def test_leaf_is_renewed_under_its_authority(names: list[str], days: int) -> None:
    """A leaf that won't do is replaced, and nobody who trusts the authority notices."""
    authority = make_authority("test", NOW - dt.timedelta(days=10))
    first = Material(authority, issue(authority, NAMES, NOW))
    now = NOW + dt.timedelta(days=days)
    second = renewed(stored(first), "test", names, now)
    assert second.authority == first.authority
    assert second.leaf != first.leaf
    assert covers(second.leaf.certificate, names)
    assert second.leaf.valid_at(now)


def test_leaf_of_another_authority_is_replaced() -> None:
    """A leaf that the authority did not sign is of no use to those who trust it."""
    one, other = renewed(None, "test", NAMES, NOW), renewed(None, "test", NAMES, NOW)
    mixed = renewed(Stored(one.authority, other.leaf), "test", NAMES, NOW)
    assert mixed.authority == one.authority
    assert signed_by(mixed.leaf.certificate, one.authority.certificate)


@pytest.mark.parametrize("days", [-1, 3600, 4000])
def test_authority_that_will_not_do_is_replaced(days: int) -> None:
    """An authority that is not valid, or ends before a new leaf would, gives way, with its leaf."""
    first = renewed(None, "test", NAMES, NOW)
    now = NOW + dt.timedelta(days=days)
    second = renewed(stored(first), "test", NAMES, now)
    assert second.authority != first.authority
    assert signed_by(second.leaf.certificate, second.authority.certificate)
    assert second.leaf.not_after == now + LEAF_LIFE


@settings(max_examples=10)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=60))
def test_every_start_serves_something_valid(pauses: list[int]) -> None:
    """However long a server was off, what it starts with is valid for another month and signed by what is trusted."""
    now, state = NOW, None
    served = []
    for pause in pauses:
        material = renewed(state, "test", NAMES, now)
        assert material.leaf.valid_at(now)
        assert material.leaf.valid_at(now + dt.timedelta(days=29))
        assert material.authority.valid_at(material.leaf.not_after)
        assert signed_by(material.leaf.certificate, material.authority.certificate)
        served.append(material)
        state = stored(material)
        now += dt.timedelta(days=pause)
    assert all(a.authority.not_before <= b.authority.not_before for a, b in pairwise(served))


def test_directory_is_brought_up_to_date(tmp_path: Path) -> None:
    """The first start writes, the next finds the same."""
    directory = Directory(tmp_path / "state")
    first = keep_up(directory, "test", NAMES, NOW)
    again = keep_up(directory, "test", NAMES, NOW)
    assert again.authority.certificate == first.authority.certificate
    assert again.leaf.certificate == first.leaf.certificate


def test_authority_that_cannot_be_read_stays(tmp_path: Path) -> None:
    """An authority that somebody may trust is never overwritten because a file is broken."""
    (tmp_path / "ca.crt").write_text("broken")
    with pytest.raises(UnusablePairError, match="the authority"):
        keep_up(Directory(tmp_path), "test", NAMES, NOW)
    assert (tmp_path / "ca.crt").read_text() == "broken"


def test_leaf_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    """A leaf can be made anew at any time."""
    first = keep_up(Directory(tmp_path), "test", NAMES, NOW)
    (tmp_path / "tls.key").write_text("broken")
    second = keep_up(Directory(tmp_path), "test", NAMES, NOW)
    assert second.authority.certificate == first.authority.certificate
    assert second.leaf.certificate != first.leaf.certificate
