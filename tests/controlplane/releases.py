"""What the tests on the control plane did with each release of Kubernetes: recorded by a run, and a table of docs/support.md.

``KUBERNETES=1.30.14 RECORD=1 make test-cluster`` records a run in `releases.yaml`, if no test failed.
"""

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

RECORDED: Final = Path(__file__).with_name("releases.yaml")
WORKFLOW: Final = Path(__file__).parents[2] / ".github/workflows/nightly.yml"
HEAD: Final = "# Made by `KUBERNETES=1.30.14 RECORD=1 make test-cluster`, for each release: what its run did.\n"
NEEDS: Final = "needs Kubernetes "


def recorded() -> dict[str, Any]:
    """Return what each release's last run did, oldest release first."""
    found: dict[str, Any] = yaml.safe_load(RECORDED.read_text()) if RECORDED.exists() else {}
    return dict(sorted(found.items(), key=lambda row: _numbers(row[0])))


def older(version: str, than: str) -> bool:
    """Whether a version, as an API server reports its own, is older than another."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.removeprefix("v").partition("-")[0].split(".")]


def nightly() -> list[str]:
    """The releases that the workflow runs."""
    parts: list[str] = yaml.safe_load(WORKFLOW.read_text())["jobs"]["part"]["strategy"]["matrix"]["part"]
    return [part.removeprefix("kubernetes-") for part in parts if part.startswith("kubernetes-")]


def table() -> str:
    """Return the table: of each release of the workflow, what its last recorded run did."""
    lines = ["|Kubernetes|tests passed|need a newer one|on|", f"|{'---|' * 4}"]
    rows = recorded()
    for version in nightly():
        row = rows.get(version, {"passed": "", "skipped": (), "day": "not run yet"})
        lines.append(f"|{version}|{row['passed']}|{len(row['skipped']) or ''}|{row['day']}|")
    return "\n".join([*lines, ""])


def record(version: str, passed: Iterable[pytest.TestReport], skipped: Iterable[pytest.TestReport]) -> None:
    """Write down what a run without a failure did."""
    reasons = {report.nodeid: _reason(report) for report in skipped}
    strange = {test: reason for test, reason in reasons.items() if not reason.startswith(NEEDS)}
    assert not strange, f"these were not run, and not because of the release: {strange}"
    row = {
        "day": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
        "passed": sum(report.when == "call" for report in passed),
        "skipped": dict(sorted(reasons.items())),
    }
    rows = {**recorded(), version: row}
    ordered = dict(sorted(rows.items(), key=lambda each: _numbers(each[0])))
    RECORDED.write_text(HEAD + yaml.safe_dump(ordered, sort_keys=False, width=1000))


def _reason(report: pytest.TestReport) -> str:
    assert isinstance(report.longrepr, tuple)
    return str(report.longrepr[2]).removeprefix("Skipped: ")
