"""Validation of a document by its pydantic model, and problems with path, line and the nearest known key.

A document may contain only the differences from a built-in one (``extends``). Maps merge, lists are replaced, ``null``
removes. There is one level: the built-in document does not itself extend another. Without a ``vendor`` of its own the
document replaces the built-in one; with a new name it must not use the same resource names.
"""

import copy
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from webhook.mapping.document.problem import FieldPath, MappingError, Problem, nearest_known
from webhook.mapping.document.strict import Strict
from webhook.mapping.document.strict_yaml import MAX_DEPTH, Document
from webhook.text import without_middle

Model = TypeVar("Model", bound=Strict)
_RENAMED: Final = {"largestCard": "largestDevice"}  # settings of before with their present names
_WANTED: Final = {
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "string_type": "text",
}
"""By type of error: what has to be written."""

_MEANT: Final = "did you mean `{}`?"  # the hint about a misspelled key: then it is told once, and not as a missing one
_MISSING: Final = "the key {!r} is missing"
MAX_ERRORS: Final = 100  # the most errors of one document that are processed: each is compared with all others


def validated(model: type[Model], data: Mapping[str, Any], document: Document) -> Model:
    """Validate data by its model. The document as written has the source and the lines.

    Raises:
        MappingError: every problem, with path, line and hint.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = [(path, *_told(each, path, model)) for path, each in _relevant(error.errors()[:MAX_ERRORS], data)]
        misspelled = {(*path[:-1], hint) for path, _, hint in found}
        raise MappingError(
            [
                placed(Problem(message, path, hint), document)
                for path, message, hint in found
                if not (
                    path
                    and message == _MISSING.format(path[-1])
                    and (*path[:-1], _MEANT.format(path[-1])) in misspelled
                )
            ]
        ) from None


def validated_part(
    model: type[Model], data: Mapping[str, Any], document: Document
) -> tuple[Model | None, tuple[Problem, ...], frozenset[FieldPath]]:
    """Validate data without the parts that have problems, which are returned, too, and the paths that were removed.

    A list with a mistake is removed as a whole, so that the paths of the rest are those of the document; and what lacks a
    required key: nothing is left if that is the document itself.
    """
    try:
        return validated(model, data, document), (), frozenset()
    except MappingError as error:
        problems = error.problems
    rest, paths = copy.deepcopy(dict(data)), [problem.path for problem in problems]
    removed: set[FieldPath] = set()
    for _ in range(MAX_DEPTH):
        removed.update(map(_without_index, paths))
        for path in removed:
            _remove(rest, path)
        try:
            return model.model_validate(rest), problems, frozenset(removed)
        except ValidationError as error:
            paths = [_document_path(each, rest)[:-1] for each in error.errors()]
        if () in paths:
            break
    return None, problems, frozenset(removed)


def _without_index(path: FieldPath) -> FieldPath:
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path


def _remove(data: dict[str, Any], path: FieldPath) -> None:
    node: Any = data
    for part in path[:-1]:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return
    if path and isinstance(node, dict):
        node.pop(path[-1], None)


def follows_from(problem: Problem, removed: Collection[FieldPath]) -> bool:
    """Return whether a problem may exist only because a part was removed: it is near, or names, that part."""
    path = problem.path
    for cause in filter(None, map(_without_index, removed)):
        parent = cause[:-1]
        beside = path[len(parent) : -1]  # what is deeper stands there, whatever is missing beside it
        if parent and path[: len(parent)] == parent and (not beside or cause[-1] in path):
            return True
        named = any(f"{quote}{cause[-1]}{quote}" in problem.message for quote in "'`")
        if named or (path[1:] and cause[: len(path)] == path):
            return True
    return False


def _relevant(errors: list[ErrorDetails], data: Mapping[str, Any]) -> list[tuple[FieldPath, ErrorDetails]]:
    """Choose one error for each path: among the alternatives of a union, the one whose type fits is the relevant one."""
    paths = [(_document_path(error, data), error) for error in sorted(errors, key=_of_other_type)]
    found: dict[FieldPath, ErrorDetails] = {}
    for path, error in paths:
        if not any(other[: len(path)] == path != other for other, _ in paths):
            found.setdefault(path, error)
    return list(found.items())


def _of_other_type(error: ErrorDetails) -> bool:
    literal = error["type"] == "literal_error" and not isinstance(error["input"], str)
    return literal or error["type"].endswith("_type")


def placed(problem: Problem, document: Document) -> Problem:
    """Return a problem with the source and the line in its document; without one of data that was not read from a text."""
    return replace(problem, source=document.source, line=document.line(problem.path) if document.lines else None)


def _unknown(key: str, known: Sequence[str]) -> tuple[str, str | None]:
    """What to say of a key that is none, and what to write instead."""
    if key in _RENAMED and _RENAMED[key] in known:
        return f"is called `{_RENAMED[key]}` now", "rename it"
    return f"unknown key {without_middle(repr(key))}", nearest_known(key, known) if known else None


_TOLD: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], tuple[str, str | None]]]] = {
    "refused": lambda _, about: (about["message"], about["hint"]),
    "value_error": lambda _, about: (str(about["error"]), None),
    "literal_error": lambda found, about: (f"{_quoted(found)} is not one of {about['expected']}", None),
    "string_pattern_mismatch": lambda found, about: (
        f"string should match pattern '{about['pattern']}', not {_quoted(found)}",
        _MEANT.format(found.lower()) if re.search(about["pattern"], found.lower()) else None,
    ),
    "too_short": lambda found, _: (f"is an empty {'map' if found == {} else 'list'}", "write one entry or more"),
    "too_long": lambda found, about: (f"has {len(found)} entries", f"at most {about['max_length']} are allowed"),
    "string_too_long": lambda found, about: (
        f"is {len(found)} characters long",
        f"at most {about['max_length']} are allowed",
    ),
}
"""By type of error: the message about a value, and the hint."""


def _told(error: ErrorDetails, path: FieldPath, model: type[Strict]) -> tuple[str, str | None]:
    """The message about an error, and the hint."""
    kind, found = error["type"], error["input"]
    if kind in _TOLD:
        return _TOLD[kind](found, error.get("ctx", {}))
    if kind == "extra_forbidden":
        return _unknown(str(path[-1]), _keys(_json_schema(model), path[:-1]))
    if kind == "missing":
        return _MISSING.format(path[-1]), None
    if kind == "string_type" and isinstance(found, int | float):
        return f"{json.dumps(found)} is not text", f'write "{json.dumps(found)}" in quotes'
    if kind in _WANTED:
        return _of_type(_WANTED[kind], found)
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {_quoted(found)}", None


def _quoted(found: object) -> str:
    return without_middle(repr(found))


def _of_type(wanted: str, found: object) -> tuple[str, str | None]:
    """The message about a value of another type than what is wanted, and the hint."""
    if found is None:
        return "is empty", f"write {wanted}, or remove the line"
    message = f"is {_quoted(found)}, not {wanted}"
    if not isinstance(found, str):
        return message, None
    if wanted == "a list":
        return message, f"write [{without_middle(found)}]"
    quoted = found in {"true", "false"} if wanted == "true or false" else wanted == "a whole number" and found.isdigit()
    return message, "remove the quotes" if quoted else None


def _document_path(error: ErrorDetails, data: Any) -> FieldPath:
    """Return the path of an error in the document, without the alternatives of unions that pydantic adds."""
    path: list[int | str] = []
    location = error["loc"]
    for part in location:
        is_missing_key = error["type"] == "missing" and part == location[-1]
        if isinstance(data, Mapping) and (part in data or is_missing_key):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        path.append(part)
    return tuple(path)


@cache
def _json_schema(model: type[Strict]) -> Mapping[str, Any]:
    return model.model_json_schema(by_alias=True)


def _keys(json_schema: Mapping[str, Any], path: FieldPath) -> list[str]:
    """Return the keys that the schema has at a path of a document."""
    nodes = [json_schema]
    for part in path:
        nodes = [child for node in nodes for child in _children(node, part, json_schema)]
    return sorted(
        {key for node in nodes for schema in _resolved(node, json_schema) for key in schema.get("properties", {})}
    )


def _children(node: Mapping[str, Any], part: int | str, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for schema in _resolved(node, root):
        others = schema.get("additionalProperties")
        found = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part, others)
        if isinstance(found, Mapping):
            yield found


def _resolved(node: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "$ref" in node:
        return _resolved(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    return [node, *(found for schema in node.get("anyOf", ()) for found in _resolved(schema, root))]


EXTENDS: Final = "extends"


def merge_documents(document: Document, builtin: Mapping[str, Document]) -> dict[str, Any]:
    """Return the data of a document, merged over the built-in one that it extends; `inherited_names` checks the result."""
    if EXTENDS not in document.data:
        return document.data
    base = document.data[EXTENDS]
    if not isinstance(base, str) or base not in builtin:
        of_alias = (name for name, each in builtin.items() if base in each.data.get("aliases", ()))
        hint = next((f"it is an alias: write `{name}`" for name in of_alias), nearest_known(str(base), builtin))
        if "family" in document.data:
            hint = f"for a vendor of your own write `vendor: {without_middle(str(base))}`"
        problem = Problem(f"{without_middle(repr(base))} is not a built-in mapping", (EXTENDS,), hint)
        raise MappingError([placed(problem, document)])
    merged: dict[str, Any] = _merge(
        builtin[base].data, {key: value for key, value in document.data.items() if key != EXTENDS}
    )
    return merged


def _merge(base: Any, changes: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    merged = base | {key: _merge(base.get(key), value) for key, value in changes.items()}
    removed = {key for key, value in changes.items() if value is None and key in base and key != "unit"}
    return {key: value for key, value in merged.items() if key not in removed}


def inherited_names(document: Document, data: Mapping[str, Any], builtin: Mapping[str, Document]) -> list[Problem]:
    """Report resource names that a document with a new vendor name inherits: two vendors cannot own one name."""
    base, after = document.data.get(EXTENDS), data.get("keys", {})
    if base is None or data.get("vendor") == base or not isinstance(after, dict):
        return []
    before = builtin[base].data.get("keys", {})
    named = {name: key["resource"] for name, key in after.items() if isinstance(key, dict) and "resource" in key}
    inherited = [name for name, resource in named.items() if resource == before.get(name, {}).get("resource")]
    message = f"with a vendor name of its own it still has the resource names of {', '.join(inherited)}"
    hint = (
        "give each a new `resource`, or remove the key with `null`; or remove `vendor` to replace the built-in mapping"
    )
    return [placed(Problem(message, ("keys",), hint), document)] * bool(inherited)
