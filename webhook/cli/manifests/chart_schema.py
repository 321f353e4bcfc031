"""What the chart's schema says of values, apart from settings and mappings, which have models of their own.

`values.schema.yaml` in the package `webhook.cli` is the hand-written part of the schema with which Helm checks values; this
knows the keywords that it uses.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

from webhook.mapping.document import FieldPath, Problem, nearest_known

CHART_SCHEMA: Final = "values.schema.yaml"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a text", lambda value: isinstance(value, str)),
    "integer": ("a whole number", lambda value: _is_number(value) and value % 1 == 0),
    "number": ("a number", _is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("a map", lambda value: isinstance(value, dict)),
}

_BOUNDS: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "minimum": ("must be at least {}", lambda value, least: not _is_number(value) or value >= least),
    "exclusiveMinimum": ("must be more than {}", lambda value, bound: value > bound),
    "maximum": ("must be at most {}", lambda value, most: not _is_number(value) or value <= most),
    "minLength": ("is empty", lambda value, least: not isinstance(value, str) or len(value) >= least),
    "minItems": ("is empty", lambda value, least: len(value) >= least),
    "maxLength": ("has more than {} characters", lambda value, most: len(value) <= most),
    "pattern": ("does not match {}", lambda value, pattern: re.search(pattern, value) is not None),
}


@cache
def chart_schema() -> Mapping[str, Any]:
    """Return the schema."""
    found: Mapping[str, Any] = yaml.safe_load((resources.files("webhook.cli") / CHART_SCHEMA).read_bytes())
    return found


def mistakes(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the schema rejects in values that are merged over the chart's own, and sections without values."""
    return _mistakes(values, chart_schema(), defaults, ())


def _mistakes(value: Any, schema: Mapping[str, Any], default: Any, path: FieldPath) -> Iterator[Problem]:
    schema = chart_schema()["$defs"].get(schema.get("$ref", "").removeprefix("#/$defs/"), schema)
    types = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if value is None:
        if default and schema.get("additionalProperties") is False and "null" not in types:
            hint = "remove the line, or write values below it"
            yield Problem("is empty, which deletes the chart's values", path, hint)
    elif types and not any(_TYPES[name][1](value) for name in types if name in _TYPES):
        expected = " or ".join(_TYPES[name][0] for name in types if name in _TYPES)
        yield Problem(f"must be {expected}", path, _quotes(value, types))
    elif "enum" in schema and value not in schema["enum"]:
        yield Problem(f"is {value!r}", path, nearest_known(str(value), filter(None, schema["enum"])))
    elif bounds := [
        text.format(schema[name])
        for name, (text, ok) in _BOUNDS.items()
        if name in schema and not ok(value, schema[name])
    ]:
        yield Problem(bounds[0], path)
    else:
        yield from _mistakes_below(value, schema, default, path)


def _mistakes_below(value: Any, schema: Mapping[str, Any], default: Any, path: FieldPath) -> Iterator[Problem]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _mistakes(item, schema.get("items", {}), None, (*path, index))
    if isinstance(value, dict):
        yield from (Problem("is not set", (*path, key)) for key in schema.get("required", ()) if value.get(key) is None)
        if "if" in schema and not any(_mistakes(value, schema["if"], default, path)):
            yield from _mistakes(value, schema["then"], default, path)
        known, defaults = schema.get("properties", {}), default if isinstance(default, dict) else {}
        others = schema.get("additionalProperties") or {}
        for key, inner in value.items():
            if schema.get("additionalProperties") is False and key not in known and key not in defaults:
                yield Problem("is no value of the chart", (*path, key), _near(key, {*known, *defaults}))
            else:
                yield from _mistakes(inner, known.get(key, others), defaults.get(key), (*path, key))


_UNQUOTED: Final = {"boolean": "true|false", "number": "[0-9]+(?:[.][0-9]+)?"}


def _quotes(value: object, types: list[str]) -> str | None:
    """Say how YAML reads a scalar as another type."""
    if "string" in types and isinstance(value, int | float):
        return "write it in quotes"
    if isinstance(value, str) and re.fullmatch(_UNQUOTED["boolean" if "boolean" in types else "number"], value):
        return "write it without quotes"
    return None


def _near(name: str, known: set[str]) -> str | None:
    hint = nearest_known(name, known)
    return hint if hint.startswith("did you mean") else None
