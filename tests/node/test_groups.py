"""Control groups of version 2, as a folder: no root and no node are needed."""

from pathlib import Path

import pytest

from . import guard


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a hierarchy of version 2."""
    monkeypatch.setattr(guard, "CGROUPS", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    return tmp_path


def test_one_hierarchy(root: Path) -> None:
    """A group is made in the root, and its controllers are enabled there."""
    assert guard.hierarchies() == [root]
    assert (root / "cgroup.subtree_control").exists()


@pytest.mark.parametrize(
    "controllers, missing",
    [("cpu io memory pids\n", set()), ("pids\n", {"cpu", "memory"}), ("\n", {"cpu", "memory", "pids"})],
)
def test_controllers_that_could_not_be_enabled(root: Path, controllers: str, missing: set[str]) -> None:
    """In a container the kernel may refuse to enable them: then a group lacks what a kubelet needs."""
    group = root / "group"
    group.mkdir()
    (group / "cgroup.controllers").write_text(controllers)
    assert guard.missing_controllers(group) == missing


def test_version_1_has_a_hierarchy_for_each(tmp_path: Path) -> None:
    """A group there has no list of controllers."""
    assert guard.missing_controllers(tmp_path) == set()
