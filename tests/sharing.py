"""Which tests share a process where several processes run them: those of one cluster, for it takes long to start.

The groups of pytest-xdist 3.8 (`xdist_group`) are lost beside pytest 9.2, which no longer reads what xdist writes them to.
"""

from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_CLUSTERS: Final = ("tests/controlplane", "tests/deploy", "tests/faults")
_WHOLE: Final = frozenset(
    f"tests/{name}.py" for name in ("project/test_docs", "doctor/test_checks", "fuzz/test_fuzz", "decisions/any_to_any")
)
"""Files whose tests share what takes long besides: the commands of all pages, which are run once, policies."""


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
    """One process gets all tests of a file that needs a cluster."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        folder, _, _ = path.rpartition("/")
        return path if folder in _CLUSTERS or path in _WHOLE else nodeid

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget what is complete: all that was ever assigned would be counted again after each of thousands of tests."""
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        tests = self.assigned_work[node][scope]
        tests[nodeid] = True
        if all(tests.values()):
            del self.assigned_work[node][scope]
        self._reschedule(node)


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """What takes longest first, so that no process ends long after the others: by their time limits."""
    return sorted(items, key=_rank)


def _rank(item: pytest.Item) -> tuple[int, float]:
    if not item.get_closest_marker("controlplane"):
        return 1, 0
    limit = item.get_closest_marker("timeout")
    return 0, -(limit.args[0] if limit else 0)
