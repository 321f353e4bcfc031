"""Names of other systems: never misspelled keys, and some with advice for those who write them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from webhook.mapping.document import schema

KnownPlace: TypeAlias = Literal["resource", "label", "annotation"]

PLACES: tuple[KnownPlace, ...] = ("resource", "label", "annotation")


class AdvisedName(NamedTuple):
    """A name of another system with advice.

    Attributes:
        place: where it stands in a pod.
        name: the name.
        advice: whose it is, and what to write instead.
        report: whether a pod with it gets a warning.
        position: its position in `known`.
    """

    place: KnownPlace
    name: str
    advice: str
    report: bool
    position: int


def advised_names(document: schema.Mapping) -> Iterator[AdvisedName]:
    """Yield the names of `known` that have advice."""
    for position, entry in enumerate(document.known):
        if not isinstance(entry, str):
            for place in PLACES:
                names = getattr(entry, place) or ()
                for name in (names,) if isinstance(names, str) else names:
                    yield AdvisedName(place, name, " ".join(entry.advice.split()), entry.report, position)


def known_resources(document: schema.Mapping) -> Iterator[str]:
    """Yield the resource names of `known`, some with ``*``."""
    yield from (entry for entry in document.known if isinstance(entry, str))
    yield from (entry.name for entry in advised_names(document) if entry.place == "resource")


def reported_names(documents: Iterable[schema.Mapping]) -> Mapping[KnownPlace, Mapping[str, str]]:
    """Return the advice for each name that is reported, by its place; of several documents the first counts."""
    found: dict[KnownPlace, dict[str, str]] = {place: {} for place in PLACES}
    for document in documents:
        for entry in advised_names(document):
            if entry.report:
                found[entry.place].setdefault(entry.name, entry.advice)
    return found
