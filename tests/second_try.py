"""A second try, told at the end of the run, for tests that wait for programs that are not ours; all others have one.

A pure test that fails once is wrong, and so is one marked `once`: a pod that was let through, a replica that was lost, or
a right that was too wide would be hidden by a try that goes well.
"""

from typing import Final

import pytest

REAL: Final = ("controlplane", "node", "browser")
NEVER: Final = ("once", "faults")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give a second try to who may have one; not to somebody who looks at a failure in the debugger."""
    for item in items:
        markers = {marker.name for marker in item.iter_markers()}
        if markers.intersection(REAL) and not markers.intersection(NEVER) and not config.getoption("usepdb"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests passed only at the second try, and what was wrong at the first."""
    stats = terminalreporter.stats
    failed = {report.nodeid for outcome in ("failed", "error") for report in stats.get(outcome, [])}
    first = {report.nodeid: report for report in stats.get("rerun", []) if report.nodeid not in failed}
    if first:
        terminalreporter.write_line(f"{len(first)} passed on the second try: {', '.join(first)}", yellow=True)
    for name, report in first.items():
        terminalreporter.write_line(f"  {name}: {_cause(report)}")


def _cause(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash is not None else report.longreprtext).partition("\n")[0]
