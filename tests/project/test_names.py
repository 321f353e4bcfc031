"""One word, one meaning: a public class, type or function has a name of its own."""

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

COMMANDS: Final = "webhook/cli/commands/"
"""A command has the name that users type, as its module."""


def public_names(path: Path) -> list[str]:
    """The classes, functions and type aliases of a module."""
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            names.append(ast.unparse(node.target))
    return [name for name in names if not name.startswith("_")]


def test_no_public_name_occurs_twice() -> None:
    """Constants aside: `MAX_…` says what of its own module."""
    places = defaultdict(list)
    for top in ("webhook", "certs"):
        for path in sorted((ROOT / top).rglob("*.py")):
            where = str(path.relative_to(ROOT))
            for name in public_names(path):
                if where != f"{COMMANDS}{name}.py":
                    places[name].append(where)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
