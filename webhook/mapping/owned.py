"""Keys that belong to a scheduler, and keys that only hint at something to one, compiled into sets and patterns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.mapping import schema
from webhook.mapping.glob import glob_pattern
from webhook.mapping.problem import Path, Problem

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_LITERAL: Final = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Keys:
    """A set of label or annotation keys, some of them as patterns; ``key in keys`` asks."""

    exact: frozenset[str] = frozenset()
    patterns: re.Pattern[str] | None = None

    def __contains__(self, key: str) -> bool:
        return key in self.exact or (self.patterns is not None and self.patterns.fullmatch(key) is not None)

    def among(self, keys: Iterable[str]) -> list[str]:
        """Those of these keys that are in the set, in their order."""
        exact = self.exact
        if self.patterns is None:
            return [key for key in keys if key in exact]
        matches = self.patterns.fullmatch
        return [key for key in keys if key in exact or matches(key)]


@dataclass(frozen=True, slots=True)
class Owned:
    """What a vendor's scheduler writes for itself, and what a user writes for it.

    Attributes:
        annotations: allocation marks: copied they break placement, forged they steal cards.
        labels: the same, as labels.
        hints: annotations that mean something to this scheduler only; a mark is never a hint.
    """

    annotations: Keys = Keys()
    labels: Keys = Keys()
    hints: Keys = Keys()

    def hint(self, key: str) -> bool:
        """Whether an annotation is a hint that is lost when the pod goes to another vendor."""
        return key in self.hints and key not in self.annotations


def union(each: Iterable[Owned]) -> Owned:
    """What any of these has."""
    groups = zip(*((one.annotations, one.labels, one.hints) for one in each), strict=True)
    return Owned(*map(_any_of, groups))


def _any_of(sets: Iterable[Keys]) -> Keys:
    sets = tuple(sets)
    patterns = dict.fromkeys(keys.patterns.pattern for keys in sets if keys.patterns is not None)
    return Keys(
        frozenset().union(*(keys.exact for keys in sets)),
        re.compile("|".join(patterns), re.DOTALL) if patterns else None,
    )


def compile_owned(
    owned: Sequence[str | schema.OwnedLabel], hints: Sequence[str], variables: Mapping[str, schema.Variable], path: Path
) -> tuple[Owned, list[Problem]]:
    """The owned keys and hints of a document; fit for use only if there are no problems.

    Args:
        owned: annotation patterns and ``{label: pattern}``; ``*`` stands for anything, ``{variable}`` for its values.
        hints: annotation patterns, likewise.
        variables: the document's variables.
        path: where in the document `owned` stands; `hints` stands beside it.
    """
    annotations = {(*path, i): entry for i, entry in enumerate(owned) if isinstance(entry, str)}
    labels = {(*path, i, "label"): entry.label for i, entry in enumerate(owned) if not isinstance(entry, str)}
    told = {(*path[:-1], "hints", i): entry for i, entry in enumerate(hints)}
    keys = {**annotations, **labels, **told}
    problems = [problem for place, key in keys.items() for problem in _problems(key, variables, place)]
    if problems:
        return Owned(), problems
    parts = _parts(variables)
    return Owned(*(_keys(list(group.values()), parts) for group in (annotations, labels, told))), []


def _keys(keys: Sequence[str], parts: Mapping[str, str]) -> Keys:
    exact = frozenset(key for key in keys if not set("*{") & set(key))
    patterns = [glob_pattern(key, parts) for key in keys if key not in exact]
    return Keys(exact, re.compile("|".join(patterns), re.DOTALL) if patterns else None)


def _parts(variables: Mapping[str, schema.Variable]) -> dict[str, str]:
    """What the variables can be, as regular expressions."""
    parts: dict[str, str] = {}
    for name, variable in variables.items():
        listed = variable.values if isinstance(variable.values, list) else []
        expressions = [variable.values if isinstance(variable.values, str) else None, variable.others]
        said = [re.escape(value) for value in (*listed, *(variable.rows or ()))]
        parts[name] = "|".join([*said, *(f"(?:{one})" for one in expressions if one is not None)])
    return parts


def _problems(key: str, variables: Mapping[str, schema.Variable], path: Path) -> Iterator[Problem]:
    unknown = [name for name in _VARIABLE.findall(key) if name not in variables]
    for name in unknown:
        yield Problem(f"the variable {{{name}}} is not defined", path, "add it under `variables`, or write `*`")
    if _LITERAL.search(_VARIABLE.sub("", key)) is None:
        yield Problem(f"{key!r} would be every key", path, "write a part of the key itself")
    if not unknown:
        try:
            re.compile(glob_pattern(key, _parts(variables)))
        except re.error as error:
            yield Problem(f"a variable's pattern cannot be read: {error}", path)
