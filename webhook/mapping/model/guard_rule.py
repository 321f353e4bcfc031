"""One rule of a guard: the names of keys or the paths of mounts, their source, and the values that lift the limit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from webhook.mapping.document import schema_enforcement as schema
from webhook.mapping.notation.glob import glob_pattern

GuardPlace: TypeAlias = Literal["env", "annotation", "label", "mount"]
"""What is guarded: a variable of a container, an annotation or label of the pod, or the path of a mount in a container."""

PLACES: Final[tuple[GuardPlace, ...]] = ("env", "annotation", "label", "mount")

Action: TypeAlias = Literal["deny", "strip", "warn", "allow"]
"""What is done with a key that lifts a limit."""

ValueSource: TypeAlias = tuple[str, str]
"""The source of a variable: the kind of its ``valueFrom``, and the name of the object or the path of the field; or of a mount:
``hostPath``, and the path on the node."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
TRUE_LIKE: Final = (*_TRUE, "yes", "on")
"""What Go's ``strconv.ParseBool``, by which device plugins read their switches, accepts as true; and yes and on."""


def truthy(value: str) -> bool:
    """Return whether a switch with this value is on: true for Go's ``strconv.ParseBool``, or yes or on in any case."""
    return value in _TRUE or value.casefold() in {"yes", "on"}


@dataclass(frozen=True, slots=True)
class GuardRule:
    """The names of keys, and the values that lift.

    Attributes:
        place: what is guarded.
        names: the names or paths, in which ``*`` matches any text.
        truthy: true-like values lift.
        lifting: these values lift, in any case; None if `harmless` or `sources` decides.
        harmless: all values but exactly these lift; None if `lifting` or `sources` decides.
        sources: patterns for the names of sources, by kind; None if the value decides.
        action: what is done with a key that lifts.
        whole: the rule holds for containers with whole devices, too.
        hides: the harmless values hide the requested devices from their container.
    """

    place: GuardPlace
    names: tuple[str, ...]
    truthy: bool
    lifting: frozenset[str] | None
    harmless: frozenset[str] | None
    sources: Mapping[str, re.Pattern[str]] | None
    action: Action
    whole: bool
    hides: bool = False

    @property
    def exception(self) -> bool:
        """Whether the rule allows a source: values from there lift nothing."""
        return self.action == "allow" and self.sources is not None

    def catches(self, value: str | None, source: ValueSource | None) -> bool:
        """Return whether the rule catches a key with this value, or with a value from this source.

        A value that is not known always lifts.
        """
        if self.sources is not None:
            pattern = self.sources.get(source[0]) if source is not None else None
            return source is not None and pattern is not None and pattern.fullmatch(source[1]) is not None
        return value is None or self.lifts(value)

    @property
    def marks(self) -> tuple[bytes, ...]:
        """The texts of which every spelling of a guarded path contains one: the last literal part of each path.

        Neither ``/./``, ``//`` nor ``x/..`` in a path can hide the parts that are left of it.
        """
        literals = [[literal for literal in re.split("[/*]", name) if literal] for name in self.names]
        return tuple(found[-1].encode() for found in literals if found) if self.place == "mount" else ()

    def lifts(self, value: str) -> bool:
        """Return whether this value lifts the limit."""
        if self.truthy:
            return truthy(value)
        if self.lifting is not None:
            return value.casefold() in self.lifting
        return self.harmless is None or value not in self.harmless


def guard_rule(model: schema.Guard) -> GuardRule:
    """Compile an entry of a document; `webhook.mapping.model.guard` reports entries that are not one rule."""
    place: GuardPlace = next((kind for kind in PLACES if getattr(model, kind) is not None), "env")
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
