"""Which tests share a process where several processes run them: those of one cluster, for it takes long to start.

The groups of pytest-xdist 3.8 (`xdist_group`) are lost beside pytest 9.2, which no longer reads what xdist writes them to.
"""

from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

NODE_PLANE: Final = frozenset({"removal", "rename", "rights", "rollout"})
"""Files of `tests/deploy` whose tests share the one cluster with a node, and the one release on it."""
_CLUSTERS: Final = ("tests/controlplane", "tests/deploy", "tests/faults")
_WHOLE: Final = frozenset({"tests/project/test_docs.py"})
"""Files whose tests share what takes long besides: here the commands of all pages, which are run once."""


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
    """One process gets all tests that need the cluster with a node, and all of a file that needs another."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        folder, _, file = path.rpartition("/")
        if folder == "tests/deploy" and _subject(file) in NODE_PLANE:
            return folder
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
    """What takes longest first, so that no process ends long after the others: the node's, then by their time limits."""
    return sorted(items, key=_rank)


def _rank(item: pytest.Item) -> tuple[int, float]:
    node = "node_plane" in getattr(item, "fixturenames", ())
    if node != (item.path.parent.name == "deploy" and _subject(item.path.name) in NODE_PLANE):
        raise pytest.UsageError(
            f"{item.nodeid}: NODE_PLANE in tests/sharing.py has to name the files that need that cluster"
        )
    if not item.get_closest_marker("controlplane"):
        return 2, 0
    limit = item.get_closest_marker("timeout")
    return (0 if node else 1), -(limit.args[0] if limit else 0)


def _subject(file: str) -> str:
    return file.removeprefix("test_").removesuffix(".py")
