"""Sizes of devices in the settings: the largest ones, the named ones, and the node labels that name them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from webhook.mapping.document.problem import Problem, nearest_known
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict import Amount
from webhook.mapping.model.vendor import BUILT_IN, Vendor
from webhook.quantity import MIB, QuantityError, bytes_text, parse_quantity
from webhook.request import Size

SETTINGS: Final = "settings"  # the source of problems in the settings, from whatever file
ANY_FAMILY: Final = "any"  # the family of vendors without hardware of their own
MOST_MEMORY: Final = 1024**4  # bytes; no device has more, unless the setting `largestDevice` says so
EXAMPLE: Final = "write the memory that can be allocated on it, such as `40Gi`"


def sizes_of_cards(cards: Mapping[str, Amount], largest_card: int, problems: list[Problem]) -> dict[str, int]:
    """Return the bytes of each device by its name."""
    sizes: dict[str, int] = {}
    for name, written in cards.items():
        text = str(written)
        ambiguous = f"{text[:64]!r} is ambiguous without a suffix"
        size = bytes_of_device(text) if text[-1:].isalpha() else ambiguous
        if isinstance(size, str):
            problems.append(Problem(size, ("cards", name), EXAMPLE, SETTINGS))
            continue
        if size > largest_card:
            message = f"{text} is more than {bytes_text(largest_card)}, which no device has"
            problems.append(Problem(message, ("cards", name), "write less, or raise `largestDevice`", SETTINGS))
        sizes[name] = size
    return sizes


def bytes_of_device(text: str) -> int | str:
    """The memory of one device, or what is wrong with the text."""
    try:
        size = parse_quantity(text)
    except QuantityError as error:
        return str(error)
    return size if isinstance(size, int) and size >= MIB else f"{text} is less than 1Mi, or no whole number of bytes"


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
    setting = "largestDevice"
    if written is None:
        return {}
    by_family = written if isinstance(written, dict) else dict.fromkeys(sorted(families), written)
    sizes: dict[str, int] = {}
    for family, amount in by_family.items():
        if family not in families:
            hint = nearest_known(family, families)
            problems.append(Problem(f"no mapping has the family {family!r}", (setting, family), hint, SETTINGS))
        size = bytes_of(amount, setting, "80Gi", problems)
        if size is not None and size < MIB:
            message = f"{amount} bytes are less than any device has"
            problems.append(Problem(message, (setting,), "write a size such as `80Gi`", SETTINGS))
        sizes[family] = size or 0
        if problems and written is amount:
            break  # once for all families
    return sizes


def beyond_largest(vendors: Iterable[Vendor], sizes: Mapping[str, int]) -> Iterator[Problem]:
    """Report defaults of documents that are more than the largest device: whoever leaves memory out would be denied."""
    for vendor in vendors:
        default, size = vendor.defaults.get("memory"), sizes.get(vendor.family)
        value = None if default is None or vendor.source == BUILT_IN else default.value
        if size and isinstance(value, Size) and value.bytes > size:
            message = f"the default of {vendor.name} is {value}, more than {bytes_text(size)}"
            yield Problem(message, ("largestDevice",), "change its `defaults`", SETTINGS)


def bytes_of(written: Amount, setting: str, example: str, problems: list[Problem]) -> int | None:
    """A setting that is a whole number of bytes; None after reporting that it is not."""
    try:
        size = parse_quantity(str(written))
    except QuantityError as error:
        problems.append(Problem(str(error), (setting,), f"write a size such as `{example}`", SETTINGS))
        return None
    if size <= 0 or not isinstance(size, int):
        problems.append(Problem(f"{written} is not a whole number of bytes above 0", (setting,), None, SETTINGS))
        return None
    return size
