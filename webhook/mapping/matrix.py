"""What becomes of one vendor's requests in another's words: a table of all pairs, found by writing them and not by hand.

Each source's requests at the corners of its words and forms (those that its probes read) are written for each target. Units
are linear, so that a number of 1 tells whether a unit divides another; the tests hold the table against random requests.
"""

import enum
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from webhook.finding import Refused
from webhook.mapping.policy import Policy
from webhook.mapping.probes import combinations
from webhook.mapping.reading import read
from webhook.mapping.vendor import Vendor
from webhook.mapping.writing import NoEquivalent, write
from webhook.request import ALL, FREE, Request

MAX_ALIKE: Final = 8
"""Requests of one source that are alike in kind: spread evenly over all that its probes read."""

NOTHING_READ: Final = "none of its words can be read until it is configured"
"""Why nothing can be said of a source without a request."""

_PROBED: Final = 1500
_CONTAINER: Final = "main"


class Outcome(enum.Enum):
    """What becomes of the requests of a source in a target's words."""

    EXACT = "exact"
    ROUNDS = "rounds"
    CONDITIONAL = "conditional"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair.

    Attributes:
        outcome: of all requests together.
        written: how many of them the target can say.
        asked: how many there were.
        why: why the others are refused, the commonest reason first.
    """

    outcome: Outcome
    written: int
    asked: int
    why: tuple[str, ...] = ()


def matrix(policy: Policy) -> Mapping[tuple[str, str], Cell]:
    """What becomes of each vendor's requests in the words of each that can be a target; a vendor at home is left out."""
    targets = [vendor for vendor in policy.vendors.values() if vendor.target]
    cells: dict[tuple[str, str], Cell] = {}
    for source in policy.vendors.values():
        asked: dict[tuple[str, ...], Sequence[Request]] = {}
        for target in targets:
            if target is source:
                continue
            filled = tuple(sorted(dimension for dimension in source.defaults if target.says(dimension)))
            if filled not in asked:
                asked[filled] = _requests(source, filled, policy.largest_card)
            cells[source.name, target.name] = _cell(target, asked[filled], policy.largest_card)
    return cells


def _cell(target: Vendor, requests: Sequence[Request], largest_card: int) -> Cell:
    """How many of the requests can be written, and whether as they are."""
    if not requests:
        return Cell(Outcome.REFUSED, 0, 0, (NOTHING_READ,))
    exact = written = 0
    why: Counter[str] = Counter()
    for request in requests:
        try:
            got = write(target, request, target.defaults, largest_card, _CONTAINER).reading.request
        except NoEquivalent as refusal:
            why.update(refusal.reasons[:1])
            continue
        written += 1
        exact += got == request
    outcome = Outcome.CONDITIONAL
    if not written:
        outcome = Outcome.REFUSED
    elif written == len(requests):
        outcome = Outcome.EXACT if exact == written else Outcome.ROUNDS
    return Cell(outcome, written, len(requests), tuple(reason for reason, _ in why.most_common()))


def _requests(source: Vendor, filled: tuple[str, ...], largest_card: int) -> Sequence[Request]:
    """Different requests that can be made in a vendor's words, with those of its defaults that would fill them."""
    defaults = {dimension: default for dimension, default in source.defaults.items() if dimension in filled}
    found: dict[Request, None] = {}
    for said in _spread(list(combinations(source)), _PROBED):
        try:
            found[read(source, said, defaults, largest_card, _CONTAINER).request] = None
        except Refused:
            continue
    kinds: dict[tuple[object, ...], list[Request]] = {}
    for request in [*found, *_over_two_cards(source, list(found), largest_card)]:
        kinds.setdefault(_kind(request), []).append(request)
    return tuple(request for alike in kinds.values() for request in _spread(alike, MAX_ALIKE))


def _over_two_cards(source: Vendor, requests: list[Request], largest_card: int) -> Iterator[Request]:
    """The same over two cards, where the source can say it: totals at the corners rarely divide."""
    for request in _spread(requests, _PROBED // 10):
        doubled = replace(request, devices=2)
        if doubled in requests:
            continue
        try:
            got = write(source, doubled, source.defaults, largest_card, _CONTAINER).reading.request
        except NoEquivalent:
            continue
        if got == doubled:
            yield doubled


def _kind(request: Request) -> tuple[object, ...]:
    """What makes a difference to a target: several cards, and whether memory and cores are all, a part or not limited."""
    several = (request.devices or 1) > 1
    parts = (amount if amount in {ALL, FREE} else type(amount) for amount in (request.memory, request.cores))
    return several, *parts


def _spread(items: list[Any], most: int) -> Iterator[Any]:
    """At most so many of the items, the first and evenly spread ones."""
    step = max(1, -(-len(items) // most))
    return itertools.islice(items, 0, None, step)
