"""Compiles the keys of a document."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from webhook.mapping.compile.problems import Problems
from webhook.mapping.document import schema_keys as schema
from webhook.mapping.document.key_template import CONTAINER, Template
from webhook.mapping.document.problem import Path
from webhook.mapping.document.schema_types import Texts
from webhook.mapping.model.vendor import Key, KeyPlace
from webhook.mapping.notation.amounts import parse_unit
from webhook.mapping.notation.glob import glob_pattern
from webhook.quantity import Number
from webhook.request import DIMENSIONS, Dimension


def compile_key(name: str, model: schema.Key, variables: Mapping[str, schema.Variable], problems: Problems) -> Key:
    """Compile a key, with its unit."""
    path: Path = ("keys", name)
    by_place: dict[KeyPlace, Texts | None] = {
        "resource": model.resource,
        "label": model.label,
        "annotation": model.annotation,
        "nodeSelector": model.node_selector,
    }
    places = [(place, names) for place, names in by_place.items() if names is not None]
    if len(places) != 1:
        problems.add(path, "needs exactly one place", "write one of `resource`, `label`, `annotation`, `nodeSelector`")
        places = places or [("resource", "")]
    place, names = places[0]
    spellings = tuple(Template(key) for key in ([names] if isinstance(names, str) else names))
    twin = Template(model.twin) if model.twin is not None else None
    used = {variable for template in spellings for variable in template.variables}
    _check_variables((*path, place), spellings, variables, problems)
    _check_variables((*path, "twin"), [] if twin is None else [twin], variables, problems)
    dimensions: tuple[Dimension, ...] = ()
    kind: Literal["amount", "other", "text", "container"] = "amount"
    if isinstance(model.kind, list):
        dimensions = tuple(model.kind)
    elif model.kind in DIMENSIONS:
        dimensions = (model.kind,)
    else:
        kind = model.kind  # type: ignore[assignment]
    if name in DIMENSIONS:
        problems.add(path, "a key may not have the name of a dimension", f"call it `{name}-key`")
    if model.picks is not None and model.picks not in variables:
        problems.add((*path, "picks"), f"the variable {model.picks!r} is not defined")
    if place == "nodeSelector" and (kind not in {"text", "other"} or model.twin is not None or model.list):
        problems.add(path, "a key in the nodeSelector is read only", "write `is: text`, or `is: other` for a number")
    if kind == "container" and model.absent is None:
        problems.add(
            path,
            "a container key needs `absent`: which container requests without it",
            "write `absent: first` or `absent: only`",
        )
    if model.perhaps is not None and (place != "resource" or "devices" not in dimensions):
        problems.add((*path, "perhaps"), "only a resource that counts devices may have another name")
    if model.ceiling is not None and (kind != "other" or place != "annotation"):
        problems.add((*path, "ceiling"), "only an annotation with `is: other` allows more than is requested")
    unit, sized = _unit(path, model, dimensions, problems)
    return Key(
        name=name,
        place=place,
        spellings=spellings,
        kind=kind,
        dimensions=dimensions,
        unit=unit,
        sized=sized,
        total=bool(model.total),
        values=problems.numbers((*path, "values"), model.values),
        step=problems.number((*path, "step"), model.step, 1),
        rounding=model.round,
        written=model.written,
        listed=model.list,
        twin=twin,
        picks=model.picks,
        ceiling=_ceiling(path, model, problems),
        perhaps=None if model.perhaps is None else re.compile(glob_pattern(model.perhaps), re.DOTALL),
        absent=model.absent,
        why=model.why,
        retired=model.retired,
        per_container=CONTAINER in used,
        variables=frozenset(used - {CONTAINER}),
    )


def _ceiling(path: Path, model: schema.Key, problems: Problems) -> tuple[str, Number] | None:
    if model.ceiling is None:
        return None
    return model.ceiling.of, problems.number((*path, "ceiling", "per"), model.ceiling.per, 1)


def _check_variables(path: Path, templates: Iterable[Template], variables: Collection[str], problems: Problems) -> None:
    """Report variables of a key that are not defined, or occur twice."""
    for template in templates:
        if len(set(template.variables)) < len(template.variables):
            problems.add(path, f"{template.text} contains a variable twice")
    used = {variable for template in templates for variable in template.variables}
    for variable in sorted(used - {CONTAINER} - set(variables)):
        problems.add(path, f"the variable {{{variable}}} is not defined", "add it under `variables`")


def compile_override(path: Path, key: Key, rule: schema.KeyRule | None, problems: Problems) -> Key:
    """Compile a key with the changes of one form."""
    if rule is None:
        return key
    changed = rule.model_fields_set
    if "unit" in changed:
        unit, sized = _unit(path, rule, key.dimensions, problems)
        key = replace(key, unit=unit, sized=sized)
    if "total" in changed:
        key = replace(key, total=bool(rule.total))
    if "values" in changed:
        key = replace(key, values=problems.numbers((*path, "values"), rule.values))
    if "step" in changed:
        key = replace(key, step=problems.number((*path, "step"), rule.step, 1))
    return replace(key, rounding=rule.round) if "round" in changed else key


def _unit(
    path: Path, model: schema.KeyRule, dimensions: tuple[Dimension, ...], problems: Problems
) -> tuple[Number | None, bool]:
    memory = "memory" in dimensions
    if model.unit is None:
        if "unit" in model.model_fields_set:
            if isinstance(model, schema.Key) and model.why is None:
                problems.add(path, "`unit: null` needs `why`: what the user has to find out")
            return None, memory
        if memory and isinstance(model, schema.Key):
            problems.add(path, "a memory key needs a `unit`", "a quantity such as `1Mi`, or `1%` of a device")
        return 1, False
    try:
        unit, sized = parse_unit(model.unit)
    except ValueError as error:
        problems.add((*path, "unit"), str(error))
        return 1, False
    if sized and not memory:
        problems.add((*path, "unit"), "only memory has a size", "write a percentage such as `1%`")
    return unit, sized
