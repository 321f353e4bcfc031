"""Imports every module of the named packages, and everything that their functions import: `imports.py PACKAGE...`."""  # noqa: INP001  (a script among others)

import ast
import importlib
import pkgutil
import sys

LAZY = ("kubernetes.client", "kubernetes.aio.client")
"""Packages that import a module when an attribute is used, so that a missing one would be found at run time only."""


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
                _reject_lazy(alias.name if alias.asname else alias.name.partition(".")[0])
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                _reject_lazy(f"{node.module}.{alias.name}")
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def _reject_lazy(name: str) -> None:
    for lazy in LAZY:
        if f"{lazy}.".startswith(f"{name}.") or name in (f"{lazy}.models", f"{lazy}.api"):
            raise ImportError(f"{name} is imported as a whole: import the names that are used, from {lazy}")


if __name__ == "__main__":
    main(sys.argv[1:])
