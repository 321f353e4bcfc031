"""Variables of a document, compiled: what their names hold, on the models of devices that a cluster has."""

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from webhook.mapping.compile.problems import Problems
from webhook.mapping.document import schema
from webhook.mapping.document.key_template import CONTAINER
from webhook.mapping.document.problem import Path
from webhook.mapping.document.schema_types import Amount, Texts
from webhook.mapping.model.vendor import NamePart, Row
from webhook.mapping.notation.numbers import Numbers
from webhook.mapping.notation.pattern import PatternError, check
from webhook.request import Memory, Percent, Size

Written: TypeAlias = Amount | list[Amount]
ByModel: TypeAlias = Written | Mapping[str, Amount] | Mapping[str, Written] | None
"""What a row says of a dimension: the same for all models, or something for each."""
Parse: TypeAlias = Callable[[Path, Amount | None], Memory | None]
"""How an amount of the dimension is read."""
_COMPARABLE: Final[Mapping[str | int, str]] = {
    "memory": "write sizes for all models, or `all` for all models",
    "cores": "write percentages for all models, or `free` for all models",
}
"""What a row may say by model, so that one is the least."""
_EXPRESSIONS: Final = "expressions are those of RE2: https://github.com/google/re2/wiki/Syntax"


@dataclass(frozen=True, slots=True)
class _Range:
    """The least and the most of an amount."""

    least: Memory | None
    most: Memory | None


def compile_variables(
    variables: Mapping[str, schema.Variable], keys: Collection[str | None], problems: Problems
) -> dict[str, NamePart]:
    """The variable parts of names, with their rows.

    Args:
        variables: as the document writes them.
        keys: the variables that stand in keys of keys, or whose row a key picks.
        problems: takes what is wrong.
    """
    known = {name for name, variable in variables.items() if not _empty(variable)} | {key for key in keys if key}
    compiled: dict[str, NamePart] = {}
    for name, variable in variables.items():
        if _empty(variable):
            problems.add(("variables", name), "needs `values` or `rows`", _did_you_mean(name, known - {name}))
            continue
        if name == CONTAINER:
            problems.add(("variables", name), f"{{{name}}} is the name of a container of the pod", "call it otherwise")
        everywhere = variable.rows is not None and name not in keys
        compiled[name] = _variable(name, variable, problems, everywhere=everywhere)
        if name not in keys:
            _check_outside_keys(name, variable, variables, problems)
    return compiled


def _empty(variable: schema.Variable) -> bool:
    return variable.values is None and variable.rows is None


def _did_you_mean(name: str, known: Collection[str]) -> str | None:
    near = difflib.get_close_matches(name[:64], sorted(known), n=1)
    return f"did you mean `{near[0]}`?" if near else None


def _check_outside_keys(
    name: str, variable: schema.Variable, variables: Mapping[str, schema.Variable], problems: Problems
) -> None:
    """A variable that stands in no key says what every device holds, and no other can say it, too."""
    path: Path = ("variables", name)
    if variable.rows is None:
        if variable.write is not None:
            message = f"has no effect: {{{name}}} stands in no key of a key"
            hint = f"put it into a key, or leave the variable out (with `extends`: `{name}: null`)"
            problems.add((*path, "write"), message, hint)
        return
    others = [other for other, one in variables.items() if one.rows is not None and other != name]
    if others:
        message = (
            f"stands in no key, so that its row is what every device holds; so say the rows of {', '.join(others)}"
        )
        problems.add(path, message, f"keep the rows of one of them, or put `{{{name}}}` into the key of a key")
    if len(_texts(variable.write)) > 1:
        problems.add(
            (*path, "write"), "one name only: it stands in no key, so that all devices are alike", "keep one of them"
        )


def _variable(name: str, variable: schema.Variable, problems: Problems, *, everywhere: bool) -> NamePart:
    path: Path = ("variables", name)
    for key, pattern in (("values", variable.values), ("others", variable.others)):
        if isinstance(pattern, str):
            try:
                check(pattern)
            except PatternError as error:
                problems.add((*path, key), f"no regular expression that can be read: {error}", _EXPRESSIONS)
    models = _models(path, variable, problems)
    rows = {key: _row((*path, "rows", key), row, models, problems) for key, row in (variable.rows or {}).items()}
    held = {key: row for key, row in rows.items() if row is not None}
    _check_written(path, variable, held, problems)
    elsewhere = {key: _models_of(row) for key, row in (variable.rows or {}).items() if key not in held}
    return NamePart(name, held, _texts(variable.write), everywhere, variable.why, _texts(variable.model), elsewhere)


def _texts(written: Texts | None) -> tuple[str, ...]:
    return (written,) if isinstance(written, str) else tuple(written or ())


def _models(path: Path, variable: schema.Variable, problems: Problems) -> frozenset[str] | None:
    """The models of devices that a cluster has; None where it does not say."""
    chosen = _texts(variable.model)
    if not chosen:
        return None
    known = {model: None for row in (variable.rows or {}).values() for said in _by_model(row) for model in said}
    for model in chosen:
        if not known:
            problems.add((*path, "model"), "no row says what is held by model", "leave `model` out")
        elif model not in known:
            problems.add((*path, "model"), f"no row knows the model {model!r}", _nearest_model(model, known))
    return frozenset(chosen) & known.keys() or None


def _nearest_model(model: str, known: Collection[str]) -> str:
    """The models that begin so, or else the nearest with the same numbers: with others it is another device."""
    meant = sorted(one for one in known if one.lower().startswith(f"{model.lower()}-"))
    if not meant:
        alike = [one for one in known if re.findall("[0-9]+", one) == re.findall("[0-9]+", model)]
        meant = difflib.get_close_matches(model[:64], alike, n=1)
    if not meant:
        return f"known are {', '.join(sorted(known))}"
    return f"did you mean {' or '.join(f'`{one}`' for one in meant)}?"


def _check_written(path: Path, variable: schema.Variable, held: Mapping[str, Row], problems: Problems) -> None:
    listed = variable.values if isinstance(variable.values, list) else list(variable.rows or {})
    for one in _texts(variable.write):
        if variable.rows is not None and one not in variable.rows:
            problems.add((*path, "write"), f"{one!r} has no row", f"rows are {', '.join(variable.rows)}")
        elif variable.rows is not None and one not in held:
            models = " or ".join(_texts(variable.model))
            problems.add((*path, "write"), f"{one!r} is not of {models}", f"of {models} are {', '.join(held)}")
        elif listed and one not in listed:
            problems.add((*path, "write"), f"{one!r} is none of {', '.join(listed)}")


def _by_model(row: schema.Row) -> list[Mapping[str, object]]:
    """What the row says by model."""
    return [said for said in (row.memory, row.cores) if isinstance(said, dict)]


def _models_of(row: schema.Row) -> tuple[str, ...]:
    """The models of which the row says something."""
    return tuple(dict.fromkeys(model for said in _by_model(row) for model in said))


def _row(path: Path, row: schema.Row, models: frozenset[str] | None, problems: Problems) -> Row | None:
    """What a name holds on these models, or on any; None where no such model has it."""
    named = _by_model(row)
    if len(named) > 1 and named[0].keys() != named[1].keys():
        lacking = named[0].keys() ^ named[1].keys()
        problems.add(path, f"`memory` and `cores` name different models: {', '.join(sorted(lacking))} is in one only")
    values: dict[str, Numbers | Mapping[str, Numbers]] = {}
    for word, said in row.values.items():
        if isinstance(said, dict):
            by_form = {form: problems.numbers((*path, "values", word, form), one) for form, one in said.items()}
            values[word] = {form: numbers for form, numbers in by_form.items() if numbers is not None}
        elif (legal := problems.numbers((*path, "values", word), said)) is not None:
            values[word] = legal
    every = {word: problems.numbers((*path, "all", word), numbers) for word, numbers in row.all.items()}
    memory = _range((*path, "memory"), row.memory, models, problems.memory, problems)
    cores = _range((*path, "cores"), row.cores, models, problems.cores, problems)
    if models is not None and named and not models & named[0].keys():
        return None
    return Row(
        memory=memory.most,
        least=memory.least,
        cores=None if isinstance(cores.most, Size) else cores.most,
        least_cores=None if isinstance(cores.least, Size) else cores.least,
        devices=row.devices,
        values=values,
        all={word: numbers for word, numbers in every.items() if numbers is not None},
    )


def _range(path: Path, said: ByModel, models: frozenset[str] | None, parse: Parse, problems: Problems) -> _Range:
    """The least and the most over the models; all are parsed, so that every mistake is told."""
    if not isinstance(said, Mapping):
        return _bounds(path, said, parse, problems)
    found = {model: _bounds((*path, model), written, parse, problems) for model, written in said.items()}
    ranges = [one for model, one in found.items() if models is None or model in models]
    least, most = _ordered([one.least for one in ranges]), _ordered([one.most for one in ranges])
    if not least or not most:
        if ranges and not any(one.most is None for one in ranges):
            compared = {model: one for model, one in said.items() if models is None or model in models}
            listed = ", ".join(f"{model}: {_shown(one)}" for model, one in compared.items())
            problems.add(path, f"cannot be compared: {listed}", _COMPARABLE[path[-1]])
        return _Range(None, None)
    return _Range(least[0], most[-1])


def _bounds(path: Path, written: Written | None, parse: Parse, problems: Problems) -> _Range:
    amounts = [parse(path, one) for one in (written if isinstance(written, list) else [written])]
    if None not in amounts and _ordered(amounts) is None:
        problems.add(path, f"cannot be compared: {_shown(written)}", "write [least, most], both as sizes")
    elif None not in amounts and _ordered(amounts) != amounts:
        problems.add(path, "is [least, most]", "write the smaller size first")
    return _Range(amounts[0], amounts[-1])


def _shown(written: Written | None) -> str:
    return f"[{', '.join(map(str, written))}]" if isinstance(written, list) else str(written)


def _ordered(amounts: Sequence[Memory | None]) -> list[Memory] | None:
    """Amounts of one kind by their size; None where they cannot be compared."""
    if len(set(amounts)) == 1 and amounts[0] is not None:
        return [amounts[0]] * len(amounts)
    sizes = [one for one in amounts if isinstance(one, Size)]
    if len(sizes) == len(amounts):
        return [*sorted(sizes, key=lambda size: size.bytes)]
    parts = [one for one in amounts if isinstance(one, Percent)]
    return [*sorted(parts, key=lambda part: part.value)] if len(parts) == len(amounts) else None
