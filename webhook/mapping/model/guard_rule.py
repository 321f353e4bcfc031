"""One rule of a guard: whose value is looked at, where it may come from, and which values lift the limit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from webhook.mapping.document import schema_enforcement as schema
from webhook.mapping.notation.glob import glob_pattern

GuardPlace: TypeAlias = Literal["env", "annotation", "label"]
"""Where guarded keys stand: in a container's variables, or in the pod's annotations or labels."""

PLACES: Final[tuple[GuardPlace, ...]] = ("env", "annotation", "label")

ValueSource: TypeAlias = tuple[str, str]
"""Where a variable takes its value from: the kind of ``valueFrom``, and the object's name or the field's path."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
TRUE_LIKE: Final = (*_TRUE, "yes", "on")
"""What Go's ``strconv.ParseBool`` takes as true (device plugins read their switches with it), a yes or an on."""


def truthy(value: str) -> bool:
    """Whether a switch with this value is on: true for Go's ``strconv.ParseBool``, or a yes or on in any case."""
    return value in _TRUE or value.casefold() in {"yes", "on"}


@dataclass(frozen=True, slots=True)
class GuardRule:
    """Keys by name, and the values that lift.

    Attributes:
        place: where the keys stand.
        names: as the document writes them, ``*`` standing for anything.
        truthy: true-like values lift.
        lifting: these lift, in any case of letters; None where another rule holds.
        harmless: all but these lift, to the letter; None where another rule holds.
        sources: by kind, what the source of a value is called that the rule is about; None where values count.
        action: what becomes of a key that lifts.
        whole: it holds for containers with whole devices, too.
        hides: the harmless values hide from a container the devices that it requests.
    """

    place: GuardPlace
    names: tuple[str, ...]
    truthy: bool
    lifting: frozenset[str] | None
    harmless: frozenset[str] | None
    sources: Mapping[str, re.Pattern[str]] | None
    action: Literal["deny", "strip", "allow"]
    whole: bool
    hides: bool = False

    @property
    def exception(self) -> bool:
        """Whether it says where a value may come from: what comes from there lifts nothing."""
        return self.action == "allow" and self.sources is not None

    def catches(self, value: str | None, source: ValueSource | None) -> bool:
        """Whether a key of the rule is caught when it has this value, or its value comes from there.

        A value that is not known is taken to lift, whatever the values are that do.
        """
        if self.sources is not None:
            pattern = self.sources.get(source[0]) if source is not None else None
            return source is not None and pattern is not None and pattern.fullmatch(source[1]) is not None
        return value is None or self.lifts(value)

    def lifts(self, value: str) -> bool:
        """Whether a key of the rule lifts the limit when it has this value."""
        if self.truthy:
            return truthy(value)
        if self.lifting is not None:
            return value.casefold() in self.lifting
        return self.harmless is None or value not in self.harmless


def guard_rule(model: schema.Guard) -> GuardRule:
    """An entry of a document; `webhook.mapping.model.guard` sees to it that it is one rule."""
    place: GuardPlace = next((one for one in PLACES if getattr(model, one) is not None), "env")
    names = getattr(model, place)
    sources = None
    if model.source is not None:
        written = model.source.model_dump(by_alias=True, exclude_none=True)
        sources = {kind: re.compile(glob_pattern(name), re.DOTALL) for kind, name in written.items()}
    return GuardRule(
        place=place,
        names=(names,) if isinstance(names, str) else tuple(names or ()),
        truthy=model.lifts == "truthy",
        lifting=frozenset(value.casefold() for value in model.lifts) if isinstance(model.lifts, list) else None,
        harmless=None if model.unless is None else frozenset(model.unless),
        sources=sources,
        action=model.action,
        whole=model.whole,
        hides=model.hides,
    )
