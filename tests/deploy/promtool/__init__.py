"""promtool, built from Prometheus' Go modules: what the chart's alerts and the queries of its dashboard are tried with.

``PROMTOOL`` (the path of a program) comes first.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.go_program import GoProgram

Found: TypeAlias = list[tuple[dict[str, str], float]]
"""What a query shows: labels, and the value."""

WITHOUT_GO = (
    "promtool is built with Go for the tests of the chart's alerts: install Go 1.26 from https://go.dev/dl/ (any from 1.21 "
    "on fetches what it lacks), or set PROMTOOL to the path of one of Prometheus 3"
)


def promtool() -> Path:
    """Return where the program is, built now if this machine has never built it.

    Raises:
        BinariesMissingError: it is not there, and cannot be built.
    """
    package = "github.com/prometheus/prometheus/cmd/promtool"
    # It looks for no targets: the clients of all clouds would be most of the program.
    program = GoProgram(
        "promtool", Path(__file__).parent, ("go.mod", "go.sum"), package, "-s -w", WITHOUT_GO, tags="remove_all_sd"
    )
    return program.program("PROMTOOL")


def evaluated(
    tool: Path,
    folder: Path,
    series: Iterable[tuple[str, str]],
    queries: Sequence[str],
    *,
    minute: int,
    rules: Mapping[str, Any] | None = None,
) -> dict[str, Found]:
    """What Prometheus' own engine makes of queries.

    Args:
        tool: promtool.
        folder: for its files.
        series: each with its samples, one a minute, as promtool writes them.
        queries: the queries, all different.
        minute: when they are asked.
        rules: groups of rules that are evaluated beside them.

    Raises:
        AssertionError: it did not evaluate one of them.
    """
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules or {"groups": []}))
    unit = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": [
            {"expr": query, "eval_time": f"{minute}m", "exp_samples": [{"labels": "no_such_series", "value": 1}]}
            for query in queries
        ],
    }
    units = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [unit]}
    (folder / "queries.yaml").write_text(yaml.safe_dump(units))
    # It has no way to ask, only to expect: what was not expected stands in what it prints.
    done = subprocess.run(
        [tool, "test", "rules", "queries.yaml"], cwd=folder, capture_output=True, text=True, check=False
    )
    printed = done.stdout + done.stderr
    found = {json.loads(query): _found(got) for query, got in _RESULT.findall(printed)}
    if missing := [query for query in queries if query not in found]:
        raise AssertionError(f"promtool did not evaluate {missing}:\n{printed}")
    return found


_RESULT = re.compile(r"expr: (\".*\"), time: \S+\n +exp: .*no_such_series.*\n +got: (.*)")
_SAMPLE = re.compile(r'\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\} (\S+?)(?:,|$)')
_LABEL = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')


def _found(printed: str) -> Found:
    return [
        ({name: json.loads(text) for name, text in _LABEL.findall(labels)}, float(value))
        for labels, value in _SAMPLE.findall(printed)
    ]
