"""GPU models whose memory is configured, and the node labels that name them."""

from collections.abc import Iterable, Mapping
from typing import Final

from webhook.mapping.document.problem import Problem
from webhook.mapping.document.schema_types import Amount
from webhook.mapping.document.settings import Settings
from webhook.mapping.model.vendor import Vendor
from webhook.quantity import MIB, QuantityError, bytes_text, parse_quantity

ANY_FAMILY: Final = "any"
"""The family of vendors without hardware of their own."""

_EXAMPLE: Final = "write the memory that can be allocated on it, such as `40Gi`"


def compile_cards(cards: Mapping[str, Amount], largest_card: int, source: str) -> tuple[dict[str, int], list[Problem]]:
    """Return the bytes of each device by its name, and what is wrong with them.

    Args:
        cards: the setting.
        largest_card: bytes; 0 if the setting is invalid.
        source: the source of the problems.
    """
    sizes: dict[str, int] = {}
    problems: list[Problem] = []
    for name, written in cards.items():
        path = ("cards", name)
        text = str(written)
        if not text[-1:].isalpha():
            problems.append(Problem(f"{text[:64]!r} is ambiguous without a suffix", path, _EXAMPLE, source))
            continue
        try:
            size = parse_quantity(text)
        except QuantityError as error:
            problems.append(Problem(str(error), path, _EXAMPLE, source))
            continue
        if not isinstance(size, int) or size < MIB:
            problems.append(Problem(f"{text} is less than 1Mi, or no whole number of bytes", path, _EXAMPLE, source))
        elif largest_card and size > largest_card:
            message = f"{text} is more than the {bytes_text(largest_card)} of `largestCard`"
            problems.append(Problem(message, path, "write less, or raise `largestCard`", source))
        else:
            sizes[name] = size
    return sizes, problems


def labels_of_cards(vendors: Iterable[Vendor], settings: Settings) -> dict[str, tuple[str, ...]]:
    """The node labels that name the device, by hardware family: those of its mappings, then those of the settings."""
    by_family: dict[str, list[str]] = {}
    for vendor in vendors:
        by_family.setdefault(vendor.family, []).extend(vendor.document.card_labels)
    everywhere = [*by_family.pop(ANY_FAMILY, []), *settings.card_labels]
    return {family: tuple(dict.fromkeys([*labels, *everywhere])) for family, labels in by_family.items()}
