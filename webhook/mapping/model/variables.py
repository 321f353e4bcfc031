"""Compiles the variables of a document: the size of a device for each value, on the models of devices in the cluster."""

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.mapping.document.problem import FieldPath, Problems
from webhook.mapping.document.strict import Range, ordered, texts
from webhook.mapping.model.keys import CONTAINER, Row, Variable, Variables
from webhook.request import Size

_COMPARABLE: Final[Mapping[str | int, str]] = {
    "memory": "write sizes for all models, or `all` for all models",
    "cores": "write percentages for all models, or `unlimited` for all models",
}
"""Hints for amounts by model that cannot be compared."""
_NO_RANGE: Final = Range(None, None, None)


@dataclass(frozen=True, slots=True)
class NamePart:
    """A variable part of names, and the size of a device by its value."""

    name: str
    rows: Mapping[str, Row]  # by value, for those that the models of the cluster have
    write: tuple[str, ...]  # the values that may be written
    everywhere: bool  # the variable is in no name: every device has the size that `write` names
    why: str | None  # what the user has to find out, if `write` has to be configured
    models: tuple[str, ...]  # the models of the cluster's devices; empty if not configured
    of_other_models: Mapping[
        str, tuple[str, ...]
    ]  # values that none of these models has, with the models that have them


def compile_variables(
    variables: Variables,
    keys: Collection[str | None],  # in names of keys, and those whose row a key picks
    marks: Collection[str],  # in names that only a scheduler writes, and in hints
    inherited: Collection[str],  # those of the document that this one extends
    problems: Problems,
) -> dict[str, NamePart]:
    """Compile the variable parts of names, with their rows."""
    known = {name for name, variable in variables.items() if not _empty(variable)} | {key for key in keys if key}
    compiled: dict[str, NamePart] = {}
    for name, variable in variables.items():
        if _empty(variable):
            near = difflib.get_close_matches(name[:64], sorted(known - {name}), n=1)
            problems.add(
                ("variables", name), "needs `values` or `rows`", f"did you mean `{near[0]}`?" if near else None
            )
            continue
        if name == CONTAINER:
            message = f"{{{name}}} is reserved for the name of a container"
            problems.add(("variables", name), message, "choose another name")
            continue
        everywhere = variable.rows is not None and name not in keys
        compiled[name] = _variable(name, variable, problems, everywhere=everywhere)
        if name not in keys and variable.rows is None:
            _check_effect(name, variable, problems, marked=name in marks, inherited=name in inherited)
        elif name not in keys:
            _check_row_of_all(name, variable, variables, problems)
    return compiled


def _empty(variable: Variable) -> bool:
    return variable.values is None and variable.rows is None


def _check_effect(name: str, variable: Variable, problems: Problems, *, marked: bool, inherited: bool) -> None:
    """Check a variable that is in no key and has no rows: nothing is written with it, and only marks are read with it.

    A document may give the keys that it inherits other names, and so lose the use of an inherited variable.
    """
    path: FieldPath = ("variables", name)
    hint = f"add it to a key, or {f'write `{name}: null`' if inherited else 'remove it'}"
    if variable.write is not None:
        problems.add((*path, "write"), f"has no effect: no key contains {{{name}}}", hint)
    elif not marked and not inherited:
        problems.add(path, f"has no effect: no key contains {{{name}}}", hint)


def _check_row_of_all(name: str, variable: Variable, variables: Variables, problems: Problems) -> None:
    """Check a variable with rows that is in no key: it defines the size of every device, and no other variable may, too."""
    path: FieldPath = ("variables", name)
    others = [other for other, definition in variables.items() if definition.rows is not None and other != name]
    if others:
        message = f"is in no key, so its row is the size of every device; so are the rows of {', '.join(others)}"
        problems.add(path, message, f"keep the rows of one of them, or add `{{{name}}}` to a key")
    if len(texts(variable.write)) > 1:
        message = "only one value is allowed: the variable is in no key, so all devices are alike"
        problems.add((*path, "write"), message, "keep one of them")


def _variable(name: str, variable: Variable, problems: Problems, *, everywhere: bool) -> NamePart:
    path: FieldPath = ("variables", name)
    models = _models(path, variable, problems)
    rows = {key: _row((*path, "rows", key), row, models, problems) for key, row in (variable.rows or {}).items()}
    available = {key: row for key, row in rows.items() if row is not None}
    _check_written(path, variable, available, problems)
    of_other_models = {key: _models_of(row) for key, row in (variable.rows or {}).items() if key not in available}
    write, chosen = texts(variable.write), texts(variable.model)
    return NamePart(name, available, write, everywhere, variable.why, chosen, of_other_models)


def _models(path: FieldPath, variable: Variable, problems: Problems) -> frozenset[str] | None:
    """Return the models of devices that the cluster has; None if they are not configured."""
    chosen = texts(variable.model)
    if not chosen:
        return None
    known = {model: None for row in (variable.rows or {}).values() for model in _models_of(row)}
    for model in chosen:
        if not known:
            problems.add((*path, "model"), "no row has amounts by model", "remove `model`")
        elif model not in known:
            problems.add((*path, "model"), f"no row knows the model {model!r}", _nearest_model(model, known))
    return frozenset(chosen) & known.keys() or None


def _nearest_model(model: str, known: Collection[str]) -> str:
    """Suggest models that begin like this one, or else the nearest with the same numbers: others are other devices."""
    suggested = sorted(name for name in known if name.lower().startswith(f"{model.lower()}-"))
    if not suggested:
        same_numbers = [name for name in known if re.findall("[0-9]+", name) == re.findall("[0-9]+", model)]
        suggested = difflib.get_close_matches(model[:64], same_numbers, n=1)
    if not suggested:
        return f"known are {', '.join(sorted(known))}"
    return f"did you mean {' or '.join(f'`{name}`' for name in suggested)}?"


def _check_written(path: FieldPath, variable: Variable, available: Mapping[str, Row], problems: Problems) -> None:
    listed = variable.values if isinstance(variable.values, list) else []
    for value in texts(variable.write):
        if variable.rows is not None and value not in variable.rows:
            problems.add((*path, "write"), f"{value!r} has no row", f"rows are {', '.join(variable.rows)}")
        elif variable.rows is not None and value not in available:
            message = f"{value!r} is not available on {' or '.join(texts(variable.model))}"
            problems.add((*path, "write"), message, f"available are {', '.join(available)}")
        elif variable.rows is None and listed and value not in listed:
            problems.add((*path, "write"), f"{value!r} is none of {', '.join(listed)}")


def _by_model(row: Row) -> list[Mapping[str, Range]]:
    """Return the amounts of a row that differ by model."""
    return [amounts for amounts in (row.sizes, row.shares) if isinstance(amounts, dict)]


def _models_of(row: Row) -> tuple[str, ...]:
    """Return the models for which a row has amounts."""
    return tuple(dict.fromkeys(model for amounts in _by_model(row) for model in amounts))


def _row(path: FieldPath, row: Row, models: frozenset[str] | None, problems: Problems) -> Row | None:
    """Compile a row for these models, or for all; None if none of the models has it."""
    by_model = _by_model(row)
    if len(by_model) > 1 and by_model[0].keys() != by_model[1].keys():
        lacking = by_model[0].keys() ^ by_model[1].keys()
        problems.add(path, f"`memory` and `cores` name different models: only one has {', '.join(sorted(lacking))}")
    memory = _range((*path, "memory"), row.sizes, models, problems)
    cores = _range((*path, "cores"), row.shares, models, problems)
    if models is not None and by_model and not models & by_model[0].keys():
        return None
    most, least = (None if isinstance(amount, Size) else amount for amount in (cores.most, cores.least))
    amounts = {"memory": memory.most, "least": memory.least, "cores": most, "least_cores": least}
    return row.model_copy(update=amounts)


def _range(
    path: FieldPath, amounts: Range | Mapping[str, Range] | None, models: frozenset[str] | None, problems: Problems
) -> Range:
    """Return the range over the models."""
    if not isinstance(amounts, Mapping):
        return amounts or _NO_RANGE
    found = {model: each for model, each in amounts.items() if models is None or model in models}
    least, most = (ordered([getattr(each, end) for each in found.values()]) for end in ("least", "most"))
    if least and most:
        return Range(least[0], most[-1], None)
    if found and not any(each.most is None for each in found.values()):
        listed = ", ".join(f"{model}: {each}" for model, each in found.items())
        problems.add(path, f"cannot be compared: {listed}", _COMPARABLE[path[-1]])
    return _NO_RANGE
