"""Known names that resemble one that nobody knows."""

from collections.abc import Iterator
from typing import Final

from webhook.mapping.model.names import index
from webhook.mapping.model.near_misses import distance
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import KeyPlace, Vendor

MAX_NEAR: Final = 3
"""Names that are offered for one that nobody knows."""

MAX_DISTANCE: Final = 4
"""How many letters such a name may differ in."""

PLACES: Final[tuple[KeyPlace, ...]] = ("resource", "label", "annotation", "nodeSelector")
"""Where a key may stand."""


def similar_names(policy: Policy, name: str) -> tuple[str, ...]:
    """Names that were probably meant: those that differ in a few letters, before or behind the slash; no other hardware's."""
    miss = policy.near.look(name)
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
    """How far a known key is from a name, in letters; None where it was hardly meant."""
    away = distance(name, key)
    if away <= min(MAX_DISTANCE, len(name) // 3):
        return away
    (domain, _, local), (its_domain, _, its_local) = name.rpartition("/"), key.rpartition("/")
    same_begin = its_domain == domain and local != "" and (its_local.startswith(local) or local.startswith(its_local))
    return MAX_DISTANCE if same_begin or its_local == local else None


def _open_ended(vendor: Vendor, place: KeyPlace) -> Iterator[str]:
    for word in vendor.keys.values():
        if word.place == place:
            yield from (template.text for template in word.spellings if template.variables)
