"""Words of a document, compiled."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from webhook.mapping.compile.problems import Problems
from webhook.mapping.document import schema
from webhook.mapping.document.key_template import CONTAINER, Template
from webhook.mapping.document.problem import Path
from webhook.mapping.document.schema_types import Texts
from webhook.mapping.model.vendor import Key, WordPlace
from webhook.mapping.notation.amounts import parse_unit
from webhook.mapping.notation.glob import glob_pattern
from webhook.quantity import Number
from webhook.request import DIMENSIONS, Dimension


def compile_key(name: str, word: schema.Key, variables: Mapping[str, schema.Variable], problems: Problems) -> Key:
    """A key, with its unit."""
    path: Path = ("keys", name)
    stands: dict[WordPlace, Texts | None] = {
        "resource": word.resource,
        "label": word.label,
        "annotation": word.annotation,
        "nodeSelector": word.node_selector,
    }
    places = [(place, keys) for place, keys in stands.items() if keys is not None]
    if len(places) != 1:
        problems.add(
            path, "stands in exactly one place", "write one of `resource`, `label`, `annotation`, `nodeSelector`"
        )
        places = places or [("resource", "")]
    place, keys = places[0]
    spellings = tuple(Template(key) for key in ([keys] if isinstance(keys, str) else keys))
    twin = Template(word.twin) if word.twin is not None else None
    used = {variable for template in spellings for variable in template.variables}
    _check_variables((*path, place), spellings, variables, problems)
    _check_variables((*path, "twin"), [] if twin is None else [twin], variables, problems)
    dimensions: tuple[Dimension, ...] = ()
    kind: Literal["amount", "other", "text", "container"] = "amount"
    if isinstance(word.kind, list):
        dimensions = tuple(word.kind)
    elif word.kind in DIMENSIONS:
        dimensions = (word.kind,)
    else:
        kind = word.kind  # type: ignore[assignment]
    if name in DIMENSIONS:
        problems.add(path, "a key may not be called like a dimension", f"call it `{name}-word`")
    if word.picks is not None and word.picks not in variables:
        problems.add((*path, "picks"), f"the variable {word.picks!r} is not defined")
    if place == "nodeSelector" and (kind not in {"text", "other"} or word.twin is not None or word.list):
        problems.add(path, "a key in the nodeSelector is read only", "write `is: text`, or `is: other` for a number")
    if kind == "container" and word.absent is None:
        problems.add(
            path, "a container key says who asks when it is missing", "write `absent: first` or `absent: only`"
        )
    if word.perhaps is not None and (place != "resource" or "devices" not in dimensions):
        problems.add((*path, "perhaps"), "only a resource that counts devices may have another name")
    if word.ceiling is not None and (kind != "other" or place != "annotation"):
        problems.add((*path, "ceiling"), "only an annotation with `is: other` allows more than is requested")
    unit, sized = _unit(path, word, dimensions, problems)
    return Key(
        name=name,
        place=place,
        spellings=spellings,
        kind=kind,
        dimensions=dimensions,
        unit=unit,
        sized=sized,
        total=bool(word.total),
        values=problems.numbers((*path, "values"), word.values),
        step=problems.number((*path, "step"), word.step, 1),
        rounding=word.round,
        written=word.written,
        listed=word.list,
        twin=twin,
        picks=word.picks,
        ceiling=_ceiling(path, word, problems),
        perhaps=None if word.perhaps is None else re.compile(glob_pattern(word.perhaps), re.DOTALL),
        absent=word.absent,
        why=word.why,
        retired=word.retired,
        per_container=CONTAINER in used,
        variables=frozenset(used - {CONTAINER}),
    )


def _ceiling(path: Path, word: schema.Key, problems: Problems) -> tuple[str, Number] | None:
    if word.ceiling is None:
        return None
    return word.ceiling.of, problems.number((*path, "ceiling", "per"), word.ceiling.per, 1)


def _check_variables(path: Path, templates: Iterable[Template], variables: Collection[str], problems: Problems) -> None:
    """Every variable of a key is defined, and stands in it once."""
    for template in templates:
        if len(set(template.variables)) < len(template.variables):
            problems.add(path, f"{template.text} holds a variable twice")
    used = {variable for template in templates for variable in template.variables}
    for variable in sorted(used - {CONTAINER} - set(variables)):
        problems.add(path, f"the variable {{{variable}}} is not defined", "add it under `variables`")


def compile_override(path: Path, word: Key, rule: schema.KeyRule | None, problems: Problems) -> Key:
    """A key as it is read in one form."""
    if rule is None:
        return word
    said = rule.model_fields_set
    if "unit" in said:
        unit, sized = _unit(path, rule, word.dimensions, problems)
        word = replace(word, unit=unit, sized=sized)
    if "total" in said:
        word = replace(word, total=bool(rule.total))
    if "values" in said:
        word = replace(word, values=problems.numbers((*path, "values"), rule.values))
    if "step" in said:
        word = replace(word, step=problems.number((*path, "step"), rule.step, 1))
    return replace(word, rounding=rule.round) if "round" in said else word


def _unit(
    path: Path, word: schema.KeyRule, dimensions: tuple[Dimension, ...], problems: Problems
) -> tuple[Number | None, bool]:
    memory = "memory" in dimensions
    if word.unit is None:
        if "unit" in word.model_fields_set:
            if isinstance(word, schema.Key) and word.why is None:
                problems.add(path, "`unit: null` needs `why`: what the user is to find out")
            return None, memory
        if memory and isinstance(word, schema.Key):
            problems.add(path, "a memory key needs a `unit`", "a quantity such as `1Mi`, or `1%` of a device")
        return 1, False
    try:
        unit, sized = parse_unit(word.unit)
    except ValueError as error:
        problems.add((*path, "unit"), str(error))
        return 1, False
    if sized and not memory:
        problems.add((*path, "unit"), "only memory has a size", "write a percentage such as `1%`")
    return unit, sized
