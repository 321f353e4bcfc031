"""No key of a mapping is accepted, documented and then ignored."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from webhook.mapping.document import guard, settings
from webhook.mapping.model import keys as keys_and_forms
from webhook.mapping.model import schema
from webhook.mapping.model import vendor as compiled
from webhook.mapping.model.vendor import Vendor

ROOT = Path(__file__).parents[2]
BEFORE = {"api_version", "kind"}
"""Read before the schema is."""
WHOLE = {"Source", "Selects", "Toleration"}
"""Models of which all fields are read alike, not each by its name."""
ALIKE = {"Guard.mount", "Guard.hostPath"}
"""Likewise, as places of a guard."""
SOURCE = {f"CheckedSource.{name}" for name in ("adds", "date", "missing", "opened")}
FOR_PEOPLE = {*SOURCE, "Guard.read_by", "Mapping.unguarded"}
"""What only readers of a document need."""


def read_outside(*modules: object) -> set[str]:
    """The names of attributes that the code of the webhook reads, but for these modules."""
    own = {Path(inspect.getfile(module)) for module in modules}  # type: ignore[arg-type]
    return {name for path in (ROOT / "webhook").rglob("*.py") if path not in own for name in attributes(path)}


@cache
def attributes(path: Path) -> frozenset[str]:
    """The names of attributes in a file."""
    return frozenset(node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))


def models(module: object) -> Iterator[type[BaseModel]]:
    """The models of a schema."""
    for each in vars(module).values():
        if inspect.isclass(each) and issubclass(each, BaseModel) and each.__module__ == getattr(module, "__name__", ""):
            yield each


@pytest.mark.parametrize(
    "module", [schema, keys_and_forms, guard, settings], ids=["mappings", "keys", "guards", "settings"]
)
def test_every_key_of_the_schema_is_read(module: object) -> None:
    """By something other than the schema; keys and forms also by what compiles them, beside it."""
    read = read_outside(*[module] * (module is not keys_and_forms))
    keys = {
        f"{model.__name__}.{name}": name
        for model in models(module)
        if model.__name__ not in WHOLE
        for name in model.model_fields
    }
    assert len(keys) > 10
    unread = {path for path, name in keys.items() if name not in read | BEFORE}
    assert unread <= ALIKE | FOR_PEOPLE


def test_every_part_of_a_vendor_is_read() -> None:
    """By something other than what compiles it from a document."""
    read = read_outside(compiled)
    assert [each.name for each in fields(Vendor) if each.name not in read] == []
