"""No test of the gate depends on the machine's speed: the pattern is found in the text of the tests, wherever one comes back.

Left out is what is not of the gate: folders and files of long loops and measurements, and tests that are marked so.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.waiting import PATIENCE

TESTS: Final = Path(__file__).parents[1]
NOT_OF_THE_GATE: Final = frozenset({"faults", "long", "systems"})
FOLDERS: Final = frozenset({"faults", "fuzz", "mutants", "systems"})
PERMITTED: Final[dict[str, str]] = {
    "waiting.py": "the common place for waits",
    "controlplane/client.py": "the same without a loop",
    "controlplane/test_final_pods.py": "a webhook of somebody else takes its time there",
    "go_program.py": "says now and then that a build goes on",
    "node/guard.py": "ends the node, whatever became of the tests",
}
CLOCKS: Final = frozenset({"monotonic", "perf_counter", "process_time", "thread_time", "time"})
KEEP: Final = frozenset({"abs", "list", "max", "median", "min", "round", "sorted", "sum"})
"""Functions of seconds that give seconds."""
WAITS: Final = {"wait_for": 1, "timeout": 0, "wait_until": 2, "wait": 0, "join": 0, "settimeout": 0}
"""Calls that wait, and the place of their limit; in others it is the argument `timeout`."""
WAIT_BY_NAME: Final = frozenset(
    {
        "HTTPConnection",
        "HTTPSConnection",
        "acquire",
        "communicate",
        "create_connection",
        "get",
        "result",
        "run",
        "urlopen",
    }
)


def found_in(text: str) -> list[tuple[int, str]]:
    """Return the lines of a module that depend on the machine's speed, and how."""
    tree = ast.parse(text)
    if any(
        _is_marked(node.value) for node in tree.body if isinstance(node, ast.Assign) and _names(node) == {"pytestmark"}
    ):
        return []
    kept = _Gate().visit(tree)
    timed, numbers = _timed(kept), _numbers(kept)
    return sorted({(node.lineno, why) for node in _code(kept) for why in _luck(node, timed, numbers)})


class _Gate(ast.NodeTransformer):
    """Takes tests out that are not of the gate."""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST | None:
        return None if any(map(_is_marked, node.decorator_list)) else self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST | None:
        return self.visit_FunctionDef(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        """What is done again and again until an event has its pace by the limit of the wait for it."""
        if isinstance(node.test, ast.UnaryOp):
            node.test = ast.Constant(value=True)
        return self.generic_visit(node)


def _code(tree: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr))


def _is_marked(node: ast.AST) -> bool:
    if isinstance(node, ast.List):
        return any(map(_is_marked, node.elts))
    return _name(node.func if isinstance(node, ast.Call) else node) in NOT_OF_THE_GATE


def _luck(node: ast.AST, timed: set[str], numbers: dict[str, float]) -> Iterator[str]:
    if isinstance(node, ast.Assert):
        compared = [each for each in ast.walk(node.test) if isinstance(each, ast.Compare)]
        if any(_is_timed(each, timed) for each in compared):
            yield "a clock is compared"
    if not isinstance(node, ast.Call):
        return
    name = _name(node.func)
    arguments = dict(enumerate(node.args))
    if name in {"sleep", "wait_for_timeout"} and _number(arguments.get(0), numbers) != 0:
        yield "sleeps"
    by_name = {keyword.arg: keyword.value for keyword in node.keywords}
    waits = name in WAITS.keys() | WAIT_BY_NAME
    limits = (arguments.get(WAITS.get(name, -1)), by_name.get("timeout") if waits else None)
    if any(seconds is not None and seconds < PATIENCE for seconds in (_number(each, numbers) for each in limits)):
        yield f"waits for less than {PATIENCE:g} s"


def _timed(tree: ast.AST) -> set[str]:
    """Return the names of what holds or returns seconds of a clock, wherever it came through."""
    timed: set[str] = set()
    while True:
        more = {name for node in ast.walk(tree) for name in _passed_on(node, timed)} - timed
        if not more:
            return timed
        timed |= more


def _passed_on(node: ast.AST, timed: set[str]) -> set[str]:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        return _names(node) if _is_timed(node.value, timed) else set()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        returns = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None]
        return {node.name} if any(_is_timed(each, timed) for each in returns) else set()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
        return {_name(node.func.value)} if any(_is_timed(each, timed) for each in node.args) else set()
    return set()


def _is_timed(node: ast.AST, timed: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in timed
    if isinstance(node, ast.Call):
        name = _name(node.func)
        reads = not node.args and name.removesuffix("_ns") in CLOCKS
        return reads or name in timed or (name in KEEP and any(_is_timed(each, timed) for each in node.args))
    return any(_is_timed(each, timed) for each in ast.iter_child_nodes(node))


def _numbers(tree: ast.Module) -> dict[str, float]:
    """Return the constants of a module."""
    return {
        name: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for name in _names(node)
        if isinstance(node.value.value, int | float)
    }


def _number(node: ast.AST | None, numbers: dict[str, float]) -> float | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int | float) else None
    return numbers.get(node.id) if isinstance(node, ast.Name) else None


def _names(node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_each_permission_is_needed() -> None:
    """Whoever no longer needs it gives it back."""
    assert [path for path in PERMITTED if not found_in((TESTS / path).read_text(encoding="utf-8"))] == []


def test_no_test_of_the_gate_depends_on_luck() -> None:
    """Whoever needs a clock passes one in, or waits as `tests/waiting.py` does; a measurement is marked `long`."""
    found = [
        f"tests/{path}:{line}: {why}"
        for path in sorted(each.relative_to(TESTS) for each in TESTS.rglob("*.py"))
        if not FOLDERS.intersection(path.parts) and str(path) not in PERMITTED
        for line, why in found_in((TESTS / path).read_text(encoding="utf-8"))
    ]
    assert found == []
