"""What to keep and what to make anew: an authority and a leaf under it that is good for some time to come."""

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from certs.authority import LEAF_LIFE, covers, issue, make_authority, signed_by
from certs.pair import Pair
from certs.store import Directory, Stored

RENEW_AFTER: Final = 2 / 3
"""Part of a leaf's life after which it is renewed: a month remains in which that may fail."""


@dataclass(frozen=True, slots=True)
class Material:
    """What a server needs: the authority that clients trust, and the leaf under it that it shows them."""

    authority: Pair
    leaf: Pair


def renewed(stored: Stored | None, name: str, names: Collection[str], now: dt.datetime) -> Material:
    """What is stored where it is still good, and new for what is not.

    An authority is kept until it could no longer cover a whole life of a leaf.

    Args:
        stored: what there is, if anything.
        name: the name of an authority to be made.
        names: DNS names and IP addresses that the leaf has to cover.
        now: the moment, in UTC.
    """
    authority, leaf = (None, None) if stored is None else (stored.authority, stored.leaf)
    if authority is None or not authority.valid_at(now) or authority.not_after - now < LEAF_LIFE:
        authority, leaf = make_authority(name, now), None
    if leaf is None or not _good(leaf, authority, names, now):
        leaf = issue(authority, names, now)
    return Material(authority, leaf)


def _good(leaf: Pair, authority: Pair, names: Collection[str], now: dt.datetime) -> bool:
    renewal = leaf.not_before + (leaf.not_after - leaf.not_before) * RENEW_AFTER
    return (
        leaf.not_before <= now < renewal
        and signed_by(leaf.certificate, authority.certificate)
        and covers(leaf.certificate, names)
    )


def keep_up(directory: Directory, name: str, names: Collection[str], now: dt.datetime) -> Material:
    """Bring a directory up to date, making what is missing, and return what it then holds.

    Processes that start at the same moment on one directory end with the same authority and leaf.

    Raises:
        StoreError: the directory cannot be read or written.
        UnusablePairError: it holds an authority that cannot be used; it is left as it is, for somebody trusts it.
    """
    with directory.locked():
        stored = directory.read()
        material = renewed(stored, name, names, now)
        kept = Stored(material.authority, material.leaf)
        if kept != stored:
            directory.write(kept)
    return material
