"""Compiles the variables of a document: the size of a device for each value, on the models of devices in the cluster."""

from collections.abc import Collection, Mapping

from webhook.mapping.document.problem import Problems, nearest_known
from webhook.mapping.document.strict import Range, ordered
from webhook.mapping.model.keys import Row, Variable, Variables
from webhook.request import Size


def compile_variables(
    variables: Variables,
    keys: Collection[str | None],  # in names of keys, and those whose row a key picks
    marks: Collection[str],  # in names that only a scheduler writes, and in hints
    own: Collection[str],  # those that the document itself has, not one that it extends
    problems: Problems,
) -> dict[str, Variable]:
    """Compile the variable parts of names, with their rows."""
    compiled: dict[str, Variable] = {}
    empty = _empty(variables, keys, problems)
    for name, variable in ((name, variables[name]) for name in variables if name not in empty):
        here, everywhere = problems.at("variables", name), variable.table is not None and name not in keys
        compiled[name] = _compiled(variable, here).model_copy(update={"name": name, "everywhere": everywhere})
        if everywhere:
            _check_row_of_all(compiled[name], variables, here)
        elif name in own and name not in keys and (variable.write or name not in marks):
            # Nothing is written with it, and only marks are read with it.
            here.add((), f"has no effect: no key contains {{{name}}}", "add it to a key, or remove it")
    return compiled


def _empty(variables: Variables, keys: Collection[str | None], problems: Problems) -> set[str]:
    """Report variables without values: their names are perhaps misspelled."""
    empty = {name for name, variable in variables.items() if variable.values is None and variable.table is None}
    for name in sorted(empty):
        others = {*variables, *filter(None, keys)} - empty - {name}
        hint = nearest_known(name, others) if others else None
        problems.add(("variables", name), "needs `values` or `rows`", hint)
    return empty


def _check_row_of_all(variable: Variable, variables: Variables, problems: Problems) -> None:
    """Check a variable with rows that is in no key: it defines the size of every device, and no other variable may, too."""
    name = variable.name
    others = [other for other, each in variables.items() if each.table is not None and other != name]
    message = f"is in no key, so its row is the size of every device; so are the rows of {', '.join(others)}"
    problems.when(others, (), message, f"keep the rows of one of them, or add `{{{name}}}` to a key")
    message = "only one value is allowed: the variable is in no key, so all devices are alike"
    problems.when(variable.write[1:], "write", message, "keep one of them")


def _compiled(variable: Variable, problems: Problems) -> Variable:
    table = variable.table or {}
    known = sorted({model for row in table.values() for model in _models_of(row)})
    for model in variable.models:
        # None is offered as the likely one: one that reads alike is another device.
        hint = f"known are {', '.join(known)}" if known else "remove it: no row has amounts by model"
        problems.when(model not in known, "model", f"no row knows the model {model!r}", hint)
    models = frozenset(variable.models).intersection(known)
    rows = {key: _row(row, models, problems.at("rows", key)) for key, row in table.items()}
    available = {key: row for key, row in rows.items() if row is not None}
    _check_written(variable, variable.listed if variable.table is None else [*available], models, problems)
    others = {key: _models_of(row) for key, row in table.items() if key not in available}
    return variable.model_copy(update={"rows": available, "of_other_models": others})


def _check_written(variable: Variable, choices: Collection[str], models: Collection[str], problems: Problems) -> None:
    on = " or ".join(models)
    for value in variable.write if choices or variable.table else ():
        message, hint = f"{value!r} is no value{on and f' on {on}'}", f"available are {', '.join(choices)}"
        problems.when(value not in choices, "write", message, hint)


def _by_model(row: Row) -> list[Mapping[str, Range]]:
    """Return the amounts of a row that differ by model."""
    return [amounts for amounts in (row.sizes, row.shares) if isinstance(amounts, dict)]


def _models_of(row: Row) -> tuple[str, ...]:
    """Return the models for which a row has amounts."""
    return tuple(dict.fromkeys(model for amounts in _by_model(row) for model in amounts))


def _row(row: Row, models: frozenset[str], problems: Problems) -> Row | None:
    """Compile a row for these models, or for all; None if none of the models has it."""
    by_model = _by_model(row)
    lacking = set(by_model[0]).symmetric_difference(by_model[-1]) if by_model else set()
    message = f"`memory` and `cores` name different models: only one has {', '.join(sorted(lacking))}"
    problems.when(lacking, (), message)
    memory, cores = _range("memory", row.sizes, models, problems), _range("cores", row.shares, models, problems)
    if models and by_model and not models & by_model[0].keys():
        return None
    most, least = (None if isinstance(amount, Size) else amount for amount in (cores.most, cores.least))
    amounts = {"memory": memory.most, "least": memory.least, "cores": most, "least_cores": least}
    return row.model_copy(update=amounts)


def _range(key: str, amounts: Range | Mapping[str, Range] | None, models: frozenset[str], problems: Problems) -> Range:
    """Return the range over the models."""
    if not isinstance(amounts, Mapping):
        return amounts or Range()
    found = [amounts[model] for model in amounts if not models or model in models]
    lows, highs = zip(*found or [Range()], strict=True)
    least, most = ordered(lows), ordered(highs)
    if least and most:
        return Range(least[0], most[-1])
    hint = "write sizes or percentages for all, or the same word"
    problems.when(None not in highs, key, "the amounts of the models cannot be compared", hint)
    return Range()
