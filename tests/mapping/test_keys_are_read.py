"""No key of a mapping is accepted, documented and then ignored."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from pydantic import BaseModel

from webhook.mapping import settings
from webhook.mapping.model import compiling, guard, keys, shim, vendor

ROOT = Path(__file__).parents[2]
BEFORE = {"api_version", "kind"}
"""Read before the schema is."""
WHOLE = {"Source", "Selects", "StateVolume", "Tolerated", "WrittenDelivery"}
"""Models of which all fields are read alike, not each by its name."""
ALIKE = {"Guard.mount", "Guard.hostPath"}
"""Likewise, as places of a guard."""
SOURCE = {f"CheckedSource.{name}" for name in ("adds", "date", "missing", "opened")}
FOR_PEOPLE = {*SOURCE, "Guard.read_by", "GuardList.read_by", "Vendor.unguarded"}
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


@pytest.mark.parametrize("module", [shim, vendor, keys, guard, settings], ids=lambda each: each.__name__[16:])
def test_every_key_of_the_schema_is_read(module: ModuleType) -> None:
    """By something, perhaps beside it: what is declared is not read by that alone."""
    read = read_outside()
    of_models = {
        f"{model.__name__}.{name}": name
        for model in models(module)
        if model.__name__ not in WHOLE
        for name in model.model_fields
    }
    assert len(of_models) > 10
    unread = {path for path, name in of_models.items() if name not in read | BEFORE}
    assert unread <= ALIKE | FOR_PEOPLE


def test_every_selection_is_read() -> None:
    """By some key of a claim, or else without any."""
    (read, _) = map(get_args, get_args(keys.Key.model_fields["selects"].annotation))
    assert {name.removeprefix("not_") for name in vendor.Selects.model_fields} == set(read)


@pytest.mark.parametrize("module", [shim, vendor], ids=["shim", "vendor"])
def test_everything_that_is_derived_is_read(module: ModuleType) -> None:
    """What is declared for type checkers alone, by something other than what compiles it from a document."""
    tree = ast.walk(ast.parse(inspect.getsource(module)))
    derived = {
        node.target.id
        for branch in tree
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert len(derived) > 9
    assert derived - read_outside(compiling) == set()
