"""Keys that only a scheduler may write, and keys with hints for one, compiled into sets and patterns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.mapping.document.problem import FieldPath, Problem
from webhook.mapping.document.schema import OwnedLabel, Variable
from webhook.mapping.notation import Expression, PatternError, expression, glob_pattern, literal

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_LITERAL: Final = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Keys:
    """A set of label or annotation keys, some of them as patterns; test membership with ``key in keys``.

    Attributes:
        exact: whole keys.
        patterns: keys with ``*``, as one expression that is made here.
        expressions: keys with variables, whose expressions the document writes.
    """

    exact: frozenset[str] = frozenset()
    patterns: re.Pattern[str] | None = None
    expressions: tuple[Expression, ...] = ()

    def __contains__(self, key: str) -> bool:
        return bool(self.among((key,)))

    def among(self, keys: Iterable[str]) -> list[str]:
        """The keys that are in the set, in their order."""
        exact = self.exact
        if self.patterns is None and not self.expressions:
            return [key for key in keys if key in exact]
        matches = self.patterns.fullmatch if self.patterns is not None else exact.__contains__
        if not self.expressions:
            return [key for key in keys if key in exact or matches(key)]
        return [
            key
            for key in keys
            if key in exact or matches(key) or any(pattern.matches(key) for pattern in self.expressions)
        ]


@dataclass(frozen=True, slots=True)
class Owned:
    """The marks that a vendor's scheduler writes, and the hints that users write for it.

    Attributes:
        annotations: allocation marks: a copied one breaks placement, a forged one takes devices of others.
        labels: the same, as labels.
        hints: annotations that only this scheduler reads; a mark is never a hint.
    """

    annotations: Keys = Keys()
    labels: Keys = Keys()
    hints: Keys = Keys()

    def hint(self, key: str) -> bool:
        """Return whether an annotation is a hint, which is lost when the pod is translated to another vendor."""
        return key in self.hints and key not in self.annotations


def union(sets: Iterable[Owned]) -> Owned:
    """The union of several sets of marks and hints."""
    groups = zip(*((owned.annotations, owned.labels, owned.hints) for owned in sets), strict=True)
    return Owned(*map(_any_of, groups))


def _any_of(sets: Iterable[Keys]) -> Keys:
    sets = tuple(sets)
    patterns = dict.fromkeys(keys.patterns.pattern for keys in sets if keys.patterns is not None)
    return Keys(
        frozenset().union(*(keys.exact for keys in sets)),
        re.compile("|".join(patterns), re.DOTALL) if patterns else None,
        tuple(dict.fromkeys(pattern for keys in sets for pattern in keys.expressions)),
    )


def compile_owned(
    owned: Sequence[str | OwnedLabel], hints: Sequence[str], variables: Mapping[str, Variable], path: FieldPath
) -> tuple[Owned, list[Problem]]:
    """Compile the owned keys and hints of a document; the result is usable only if there are no problems.

    Args:
        owned: annotation patterns and ``{label: pattern}``; ``*`` stands for anything, ``{variable}`` for its values.
        hints: annotation patterns, likewise.
        variables: the document's variables.
        path: the path of `owned` in the document; `hints` is its neighbor.
    """
    annotations = {(*path, i): entry for i, entry in enumerate(owned) if isinstance(entry, str)}
    labels = {(*path, i, "label"): entry.label for i, entry in enumerate(owned) if not isinstance(entry, str)}
    hint_keys = {(*path[:-1], "hints", i): entry for i, entry in enumerate(hints)}
    problems: list[Problem] = []
    compiled = [_keys(group, variables, problems) for group in (annotations, labels, hint_keys)]
    return Owned(*compiled), problems


def _keys(keys: Mapping[FieldPath, str], variables: Mapping[str, Variable], problems: list[Problem]) -> Keys:
    """Compile keys, which are by their path; add what is wrong with them to `problems`."""
    exact: set[str] = set()
    patterns: list[str] = []
    expressions: list[Expression] = []
    for path, key in keys.items():
        unknown = [name for name in _VARIABLE.findall(key) if name not in variables]
        for name in unknown:
            hint = "add it under `variables`, or write `*`"
            problems.append(Problem(f"the variable {{{name}}} is not defined", path, hint))
        if _LITERAL.search(_VARIABLE.sub("", key)) is None:
            problems.append(Problem(f"{key!r} matches every key", path, "write a part of the key itself"))
        if unknown:
            continue
        if "{" in key:
            try:
                expressions.append(expression(_expression(key, variables)))
            except PatternError as error:
                problems.append(Problem(f"a variable's pattern cannot be read: {error}", path))
        elif "*" in key:
            patterns.append(glob_pattern(key))
        else:
            exact.add(key)
    return Keys(frozenset(exact), re.compile("|".join(patterns), re.DOTALL) if patterns else None, tuple(expressions))


def _expression(key: str, variables: Mapping[str, Variable]) -> str:
    """An expression for a key, with the values of its variables, and ``.*`` for a star."""
    parts = _VARIABLE.split(key)
    return "".join(
        f"(?:{_values(variables[part])})" if index % 2 else ".*".join(map(literal, re.split(r"\*+", part)))
        for index, part in enumerate(parts)
    )


def _values(variable: Variable) -> str:
    listed = variable.values if isinstance(variable.values, list) else []
    patterns = [variable.values if isinstance(variable.values, str) else None, variable.others]
    literals = [literal(value) for value in (*listed, *(variable.rows or ()))]
    return "|".join([*literals, *(f"(?:{pattern})" for pattern in patterns if pattern is not None)])
