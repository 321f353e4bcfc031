"""Keys that only a scheduler may write, keys with hints for one, and names of its system, compiled into sets and patterns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

from webhook.mapping.document.problem import FieldPath, Problem
from webhook.mapping.document.schema import OwnedLabel, Variable
from webhook.mapping.notation import Expression, NameSet, PatternError, expression, literal

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_LITERAL: Final = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Owned:
    """The marks that a vendor's scheduler writes, and the hints that users write for it.

    Attributes:
        annotations: allocation marks: a copied one breaks placement, a forged one takes devices of others.
        labels: the same, as labels.
        hints: annotations that only this scheduler reads; a mark is never a hint.
        belongs: names that this system alone knows, and ``key=value`` of its nodes: reported if a translated pod keeps one.
    """

    annotations: NameSet = field(default_factory=NameSet)
    labels: NameSet = field(default_factory=NameSet)
    hints: NameSet = field(default_factory=NameSet)
    belongs: NameSet = field(default_factory=NameSet)

    def hint(self, key: str) -> bool:
        """Return whether an annotation is a hint, which is lost when the pod is translated to another vendor."""
        return key in self.hints and key not in self.annotations

    def knows(self, name: str) -> bool:
        """Return whether a name belongs to the system; ``key=value`` only as it is written, for patterns are of keys."""
        return name in self.belongs.exact or ("=" not in name and name in self.belongs)


def union(sets: Iterable[Owned]) -> Owned:
    """The union of several sets of marks, hints and belongings."""
    groups = zip(*((owned.annotations, owned.labels, owned.hints, owned.belongs) for owned in sets), strict=True)
    return Owned(*(reduce(or_, group, NameSet()) for group in groups))


def compile_owned(
    owned: Sequence[str | OwnedLabel],
    hints: Sequence[str],
    variables: Mapping[str, Variable],
    path: FieldPath,
    *,
    belongs: Sequence[str] = (),
) -> tuple[Owned, list[Problem]]:
    """Compile the owned keys, hints and belongings of a document; the result is usable only if there are no problems.

    Args:
        owned: annotation patterns and ``{label: pattern}``; ``*`` stands for anything, ``{variable}`` for its values.
        hints: annotation patterns, likewise.
        variables: the document's variables.
        path: the path of `owned` in the document; `hints` and `belongs` are its neighbors.
        belongs: patterns of names, and ``key=value``.
    """
    annotations = {(*path, i): entry for i, entry in enumerate(owned) if isinstance(entry, str)}
    labels = {(*path, i, "label"): entry.label for i, entry in enumerate(owned) if not isinstance(entry, str)}
    hint_keys = {(*path[:-1], "hints", i): entry for i, entry in enumerate(hints)}
    names = {(*path[:-1], "belongs", i): entry for i, entry in enumerate(belongs)}
    problems: list[Problem] = []
    compiled = [_keys(group, variables, problems) for group in (annotations, labels, hint_keys, names)]
    return Owned(*compiled), problems


def _keys(keys: Mapping[FieldPath, str], variables: Mapping[str, Variable], problems: list[Problem]) -> NameSet:
    """Compile keys, which are by their path; add what is wrong with them to `problems`."""
    names: list[str] = []
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
        else:
            names.append(key)
    return NameSet.of(names, expressions)


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
