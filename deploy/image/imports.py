"""Imports every module of the named packages, and everything that their functions import: `imports.py PACKAGE...`."""  # noqa: INP001  (a script among others)

import ast
import importlib
import pkgutil
import sys


def main(packages: list[str]) -> None:
    """Import them; what is missing is an ImportError that names it."""
    for package in packages:
        root = importlib.import_module(package)
        for found in pkgutil.walk_packages(root.__path__, f"{package}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name.partition(".")[0] in packages:
            with open(path, "rb") as file:  # noqa: PTH123  (it may run before anything else is installed)
                _import_names(ast.parse(file.read()))


def _import_names(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
