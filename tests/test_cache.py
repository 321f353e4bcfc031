"""What tests keep between runs: made once, whole, and removed when nothing uses it any more."""

import os
import time
from pathlib import Path

import pytest

from tests.cache import cached


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def write(folder: Path) -> None:
    """Make something."""
    (folder / "a").write_text(str(time.time_ns()))


def test_made_once_for_each_hash() -> None:
    """The second time it is there; another hash is another one."""
    first = (cached("thing", "1", write) / "a").read_text()
    assert (cached("thing", "1", write) / "a").read_text() == first
    assert (cached("thing", "2", write) / "a").read_text() != first


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    """Half of it would be taken for the whole."""

    def fail(folder: Path) -> None:
        write(folder)
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        cached("thing", "1", fail)
    assert not [path for path in (tmp_path / "vgpu-webhook" / "thing").iterdir() if path.is_dir()]


def test_unused_is_removed() -> None:
    """What was used within the time stays, and so does what is under another name."""
    old, used, other = cached("thing", "old", write), cached("thing", "used", write), cached("other", "old", write)
    for folder in (old, used, other):
        os.utime(folder, (0, 0))
    cached("thing", "used", write)
    cached("thing", "new", write, days=1)
    assert not old.exists()
    assert (used / "a").exists()
    assert (other / "a").exists()
