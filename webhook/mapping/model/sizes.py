"""Sizes of devices in the settings: the largest ones, the named ones, and the node labels that name them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from webhook.mapping.document.problem import Problem, nearest_known
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict import Amount
from webhook.mapping.model.vendor import BUILT_IN, Vendor
from webhook.mapping.notation import parse_card, parse_device
from webhook.quantity import bytes_text
from webhook.request import Size

SETTINGS: Final = "settings"  # the source of problems in the settings, from whatever file
ANY_FAMILY: Final = "any"  # the family of vendors without hardware of their own
MOST_MEMORY: Final = 1024**4  # bytes; no device has more, unless the setting `largestDevice` says so


def sizes_of_cards(cards: Mapping[str, Amount], largest_card: int, problems: list[Problem]) -> dict[str, int]:
    """Return the bytes of each device by its name."""
    sizes = {name: parse_card(written) for name, written in cards.items()}
    for name in (name for name, size in sizes.items() if size > largest_card):
        message = f"{cards[name]} is more than {bytes_text(largest_card)}, which no device has"
        problems.append(Problem(message, ("cards", name), "write less, or raise `largestDevice`", SETTINGS))
    return sizes


def labels_of_cards(vendors: Iterable[Vendor], settings: Settings) -> dict[str, tuple[str, ...]]:
    """The node labels that name the device, by hardware family: those of its mappings, then those of the settings."""
    by_family: dict[str, list[str]] = {}
    for vendor in vendors:
        by_family.setdefault(vendor.family, []).extend(vendor.card_labels)
    everywhere = [*by_family.pop(ANY_FAMILY, []), *settings.card_labels]
    return {family: tuple(dict.fromkeys([*labels, *everywhere])) for family, labels in by_family.items()}


def largest_devices(
    written: Amount | dict[str, Amount] | None, families: Collection[str], problems: list[Problem]
) -> dict[str, int]:
    """The bytes of the largest device by hardware family; a single size holds for each."""
    if not isinstance(written, dict):
        return {} if written is None else dict.fromkeys(families, parse_device(written))
    for family in (family for family in written if family not in families):
        hint = nearest_known(family, families)
        problems.append(Problem(f"no mapping has the family {family!r}", ("largestDevice", family), hint, SETTINGS))
    return {family: parse_device(amount) for family, amount in written.items()}


def beyond_largest(vendors: Iterable[Vendor], sizes: Mapping[str, int], *, by_family: bool) -> Iterator[Problem]:
    """Report defaults of documents that are more than the largest device: whoever leaves memory out would be denied."""
    for vendor in vendors:
        default, size = vendor.defaults.get("memory"), sizes.get(vendor.family)
        value = None if default is None or vendor.source == BUILT_IN else default.value
        if size and isinstance(value, Size) and value.bytes > size:
            message = f"the default of {vendor.name} is {value}, more than {bytes_text(size)}"
            path = ("largestDevice", *[vendor.family] * by_family)
            yield Problem(message, path, "change its `defaults`", SETTINGS)
