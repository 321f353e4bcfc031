"""``extends``: documents that contain only the differences from a built-in one.

Maps merge, lists are replaced, ``null`` removes. There is one level: the built-in document does not itself extend another.
Without a ``vendor`` of its own the document replaces the built-in one; with a new name it must not use the same resource
names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from pydantic import Field

from webhook.mapping.document.problem import FieldPath, MappingError, Problem, nearest_known
from webhook.mapping.document.schema import Guard, Long, Name, Strict
from webhook.mapping.document.strict_yaml import Document, parse
from webhook.mapping.document.validation import validated
from webhook.text import without_middle


class ListChoice(Strict):
    """A ConfigMap in which the administrator chooses the value of a variable that the system then writes into pods."""

    env: str
    config_maps: str = Field(description="label selector of the ConfigMaps")
    key: str = Field(description="key of the ConfigMap's data, which is YAML")
    path: list[str] = Field(min_length=1, description="keys that lead to the value")


class GuardList(Strict):
    """The variables that a library or container runtime reads: one list for all mappings that use it."""

    named: Name = Field(alias="list")
    about: str
    read_by: Long = Field(description="what reads the variables, unless an entry names something else, with the source")
    guard: list[Guard] = Field(min_length=1)
    chosen: list[ListChoice] = Field(
        [], description="where `check` looks for values that the setting `guardExceptions` should name"
    )


@cache
def guard_lists() -> Mapping[str, GuardList]:
    """Return the lists by name; the documents name their sources."""
    folder = resources.files("webhook.mapping") / "builtin" / "guards"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    documents = [document for file in files for document in parse(file.read_text(), file.name)]
    lists = [validated(GuardList, document.data, document) for document in documents]
    return {guard_list.named: guard_list for guard_list in lists}


EXTENDS: Final = "extends"


@dataclass(frozen=True, slots=True)
class Merged:
    """A document merged with the one that it extends.

    Attributes:
        data: the merged document, as plain data.
        document: the document as written, for its source and lines.
        overridden: the paths that differ from the extended document; empty without one.
    """

    data: Mapping[str, Any]
    document: Document
    overridden: frozenset[FieldPath] = frozenset()


def resolve_extends(document: Document, builtin: Mapping[str, Document]) -> Merged:
    """Merge a document over the built-in one that it extends.

    Raises:
        MappingError: it extends an unknown document, inherits resource names under another vendor name, or configures an
            unknown variable.
    """
    merged = merge_documents(document, builtin)
    problems = [*inherited_names(merged, builtin), *unknown_variables(merged, builtin)]
    if problems:
        raise MappingError(problems)
    return merged


def merge_documents(document: Document, builtin: Mapping[str, Document]) -> Merged:
    """Merge a document like `resolve`, but check nothing except what it extends.

    Raises:
        MappingError: it extends an unknown document.
    """
    if EXTENDS not in document.data:
        return Merged(document.data, document)
    base = document.data[EXTENDS]
    if not isinstance(base, str) or base not in builtin:
        hint = nearest_known(str(base), builtin)
        raise MappingError(
            [_problem(document, (EXTENDS,), f"{without_middle(repr(base))} is not a built-in mapping", hint)]
        )
    changes = {key: value for key, value in document.data.items() if key != EXTENDS}
    overridden: set[FieldPath] = set()
    data = _merge(builtin[base].data, changes, (), overridden)
    return Merged(data, document, frozenset(overridden))


def _merge(
    base: Mapping[str, Any], changes: Mapping[str, Any], path: FieldPath, overridden: set[FieldPath]
) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        here = (*path, key)
        if value is None and key in base and key != "unit":
            del merged[key]
            overridden.add(here)
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = _merge(base[key], value, here, overridden)
        else:
            if key not in base or base[key] != value:
                overridden.add(here)
            merged[key] = value
    return merged


def inherited_names(merged: Merged, builtin: Mapping[str, Document]) -> list[Problem]:
    """Report resource names that a document with a new vendor name inherits: two vendors cannot own one name."""
    document, base = merged.document, merged.document.data.get(EXTENDS)
    after = merged.data.get("keys", {})
    if base is None or merged.data.get("vendor") == base or not isinstance(after, dict):
        return []
    before = builtin[base].data.get("keys", {})
    inherited = [
        name
        for name, key in after.items()
        if isinstance(key, dict) and "resource" in key and key["resource"] == before.get(name, {}).get("resource")
    ]
    if not inherited:
        return []
    message = f"with a vendor name of its own it still has the resource names of {', '.join(inherited)}"
    hint = (
        "give each a new `resource`, or remove the key with `null`; or remove `vendor` to replace the built-in mapping"
    )
    return [_problem(document, ("keys",), message, hint)]


def unknown_variables(merged: Merged, builtin: Mapping[str, Document]) -> list[Problem]:
    """Report variables that a document configures or removes, but that the extended one does not define.

    One with `values` or `rows`, or in a key of the document's own, is a new variable.
    """
    document = merged.document
    base, variables = document.data.get(EXTENDS), document.data.get("variables")
    if base is None or not isinstance(variables, dict):
        return []
    defined, own_keys = builtin[base].data.get("variables", {}), str(document.data.get("keys"))
    return [
        _problem(
            document,
            ("variables", name),
            f"{base} has no variable called {without_middle(repr(name))}",
            nearest_known(name, defined) if defined else "remove it",
        )
        for name, variable in variables.items()
        if name not in defined and f"{{{name}}}" not in own_keys and _defines_nothing(variable)
    ]


def _defines_nothing(variable: object) -> bool:
    return variable is None or (isinstance(variable, dict) and not {"values", "rows"} & variable.keys())


def _problem(document: Document, path: FieldPath, message: str, hint: str | None) -> Problem:
    return Problem(message, path, hint, document.source, document.lines.get(path, document.lines.get(())))
