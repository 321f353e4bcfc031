"""Variables of a document, compiled: what their names hold, on the models of cards that a cluster has."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from webhook.mapping import schema
from webhook.mapping.problem import Path, nearest_known
from webhook.mapping.problems import Problems
from webhook.mapping.vendor import Row, Variable
from webhook.request import Memory, Percent, Size

Written: TypeAlias = schema.Amount | list[schema.Amount]
ByModel: TypeAlias = Written | Mapping[str, schema.Amount] | Mapping[str, Written] | None
"""What a row says of a dimension: the same for all models, or something for each."""
Parse: TypeAlias = Callable[[Path, schema.Amount | None], Memory | None]
"""How an amount of the dimension is read."""


@dataclass(frozen=True, slots=True)
class _Range:
    """The least and the most of an amount."""

    least: Memory | None
    most: Memory | None


def compile_variable(
    name: str, variable: schema.Variable, keys: Collection[str | None], problems: Problems
) -> Variable:
    """A variable part of names, with its rows.

    Args:
        name: what it is called.
        variable: as the document writes it.
        keys: the variables that stand in keys of words, or whose row a word picks.
        problems: takes what is wrong.
    """
    path: Path = ("variables", name)
    write = _texts(variable.write)
    if variable.values is None and variable.rows is None:
        problems.add(path, "needs `values` or `rows`")
    for key, pattern in (("values", variable.values), ("others", variable.others)):
        if isinstance(pattern, str) and not _is_pattern(pattern):
            problems.add((*path, key), f"{pattern!r} is no regular expression without groups of its own names")
    models = _models(path, variable, problems)
    rows = {key: _row((*path, "rows", key), row, models, problems) for key, row in (variable.rows or {}).items()}
    held = {key: row for key, row in rows.items() if row is not None}
    _check_written(path, variable, held, problems)
    everywhere = variable.rows is not None and name not in keys
    if everywhere and len(write) > 1:
        problems.add(
            (*path, "write"), "one name only: it stands in no key, so that all devices are alike", "keep one of them"
        )
    return Variable(name, held, write, everywhere, variable.why)


def _texts(written: schema.Texts | None) -> tuple[str, ...]:
    return (written,) if isinstance(written, str) else tuple(written or ())


def _models(path: Path, variable: schema.Variable, problems: Problems) -> frozenset[str] | None:
    """The models of cards that a cluster has; None where it does not say."""
    chosen = _texts(variable.model)
    if not chosen:
        return None
    known = {model: None for row in (variable.rows or {}).values() for said in _by_model(row) for model in said}
    for model in chosen:
        if not known:
            problems.add((*path, "model"), "no row says what is held by model", "leave `model` out")
        elif model not in known:
            problems.add((*path, "model"), f"no row knows the model {model!r}", nearest_known(model, known))
    return frozenset(chosen) & known.keys() or None


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


def _row(path: Path, row: schema.Row, models: frozenset[str] | None, problems: Problems) -> Row | None:
    """What a name holds on these models, or on any; None where no such model has it."""
    named = _by_model(row)
    if len(named) > 1 and named[0].keys() != named[1].keys():
        lacking = named[0].keys() ^ named[1].keys()
        problems.add(path, f"`memory` and `cores` name different models: {', '.join(sorted(lacking))} is in one only")
    values = {word: problems.numbers((*path, "values", word), numbers) for word, numbers in row.values.items()}
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
        values={word: numbers for word, numbers in values.items() if numbers is not None},
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
            problems.add(path, "one model has a size and another none", "write sizes for all models, or for none")
        return _Range(None, None)
    return _Range(least[0], most[-1])


def _bounds(path: Path, written: Written | None, parse: Parse, problems: Problems) -> _Range:
    amounts = [parse(path, one) for one in (written if isinstance(written, list) else [written])]
    if len(amounts) > 1 and _ordered(amounts) != amounts and None not in amounts:
        problems.add(path, "is [least, most]", "write the smaller size first")
    return _Range(amounts[0], amounts[-1])


def _ordered(amounts: Sequence[Memory | None]) -> list[Memory] | None:
    """Amounts of one kind by their size; None where they cannot be compared."""
    if len(set(amounts)) == 1 and amounts[0] is not None:
        return [amounts[0]] * len(amounts)
    sizes = [one for one in amounts if isinstance(one, Size)]
    if len(sizes) == len(amounts):
        return [*sorted(sizes, key=lambda size: size.bytes)]
    parts = [one for one in amounts if isinstance(one, Percent)]
    return [*sorted(parts, key=lambda part: part.value)] if len(parts) == len(amounts) else None


def _is_pattern(text: str) -> bool:
    try:
        return not re.compile(text).groupindex
    except re.error:
        return False
