"""Known names that resemble an unknown one."""

from collections.abc import Iterator
from typing import Final

from webhook.mapping.model.names import index
from webhook.mapping.model.near_misses import distance
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import KeyPlace, Vendor

MAX_NEAR: Final = 3
"""The most names that are suggested for an unknown one."""

MAX_DISTANCE: Final = 4
"""The most letters in which a suggested name differs."""

PLACES: Final[tuple[KeyPlace, ...]] = ("resource", "label", "annotation", "nodeSelector")
"""The places of keys."""


def similar_names(policy: Policy, name: str) -> tuple[str, ...]:
    """Return names that are probably meant: those that differ in a few letters, or have the same part after the slash."""
    miss = policy.near.find(name)
    if miss is not None and miss.choices:
        return (miss.meant,)
    names = {
        key
        for vendor in policy.vendors.values()
        for place in PLACES
        for key in (*index([vendor], place).exact, *_open_ended(vendor, place))
    }
    ranked = sorted((rank, key) for key in names if (rank := _rank(name, key)) is not None)
    return tuple(key for rank, key in ranked[:MAX_NEAR] if rank <= ranked[0][0] + 1)


def _rank(name: str, key: str) -> int | None:
    """The distance of a known key from a name, in letters; None if it is hardly meant."""
    away = distance(name, key)
    if away <= min(MAX_DISTANCE, len(name) // 3):
        return away
    (domain, _, local), (key_domain, _, key_local) = name.rpartition("/"), key.rpartition("/")
    same_begin = key_domain == domain and local != "" and (key_local.startswith(local) or local.startswith(key_local))
    return MAX_DISTANCE if same_begin or key_local == local else None


def _open_ended(vendor: Vendor, place: KeyPlace) -> Iterator[str]:
    for key in vendor.keys.values():
        if key.place == place:
            yield from (template.text for template in key.spellings if template.variables)
