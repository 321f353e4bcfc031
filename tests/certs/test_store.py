"""The directory that keeps pairs: whole generations, private files, and no half of anything after a crash."""

import datetime as dt
import multiprocessing
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from certs.authority import issue, make_authority
from certs.pair import Pair
from certs.problem import StoreError
from certs.store import Directory, Stored
from certs.upkeep import keep_up

NOW = dt.datetime(2030, 5, 17, 12, tzinfo=dt.UTC)
NAMES = ["localhost"]
FILES = ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def made() -> Stored:
    """Give an authority and a leaf."""
    authority = make_authority("test", NOW)
    return Stored(authority, issue(authority, NAMES, NOW))


def pems(stored: Stored | None) -> list[bytes]:
    """Give what is stored, comparable."""
    assert stored is not None
    pairs: list[Pair | None] = [stored.authority, stored.leaf]
    return [pem for pair in pairs if pair is not None for pem in (pair.certificate_pem, pair.key_pem)]


def test_empty_and_missing_directories_hold_nothing(tmp_path: Path) -> None:
    """Where nothing is, nothing is read."""
    assert Directory(tmp_path).read() is None
    assert Directory(tmp_path / "missing").read() is None


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Under the names that clients look for, with and without a leaf."""
    directory, first = Directory(tmp_path), made()
    directory.write(first)
    assert pems(directory.read()) == pems(first)
    assert [(tmp_path / name).read_bytes() for name in FILES] == pems(first)
    without = Stored(first.authority, None)
    directory.write(without)
    assert pems(directory.read()) == pems(without)


def test_files_are_private(tmp_path: Path) -> None:
    """Nobody else may read them, whatever the umask."""
    before = os.umask(0)
    try:
        with Directory(tmp_path / "state").locked():
            Directory(tmp_path / "state").write(made())
    finally:
        os.umask(before)
    for name in FILES:
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_plain_files_are_read_and_replaced(tmp_path: Path) -> None:
    """A directory made by hand, or by an installer, is as good as our own."""
    directory, by_hand, ours = Directory(tmp_path), made(), made()
    for name, pem in zip(FILES, pems(by_hand), strict=True):
        (tmp_path / name).write_bytes(pem)
    assert pems(directory.read()) == pems(by_hand)
    directory.write(ours)
    assert pems(directory.read()) == pems(ours)
    assert [(tmp_path / name).read_bytes() for name in FILES] == pems(ours)


def test_old_generations_are_removed(tmp_path: Path) -> None:
    """No old key stays behind."""
    directory = Directory(tmp_path)
    for _ in range(3):
        directory.write(made())
    generations = [path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]
    assert len(generations) == 1


class CrashError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("fresh", [True, False])
def test_crash_at_any_moment_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fresh: bool
) -> None:
    """Whichever system call is the last, a reader finds one pair whole."""
    calls = ("replace", "symlink", "fsync", "mkdir", "open")
    for last in range(40):
        place = tmp_path / str(last)
        place.mkdir()
        directory, old, new = Directory(place), made(), made()
        if not fresh:
            directory.write(old)
        left = last
        with monkeypatch.context() as patch:

            def crashing(real: Any) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    nonlocal left
                    if left == 0:
                        raise CrashError
                    left -= 1
                    return real(*args, **kwargs)

                return call

            for name in calls:
                patch.setattr(os, name, crashing(getattr(os, name)))
            try:
                directory.write(new)
            except CrashError:
                crashed = True
            else:
                crashed = False
        found = directory.read()
        possible = [pems(new)] if not crashed else [pems(new)] + ([] if fresh else [pems(old)])
        assert (fresh and crashed and found is None) or pems(found) in possible
        if not crashed:
            return
    pytest.fail("more system calls than expected")


def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    """Five processes on one empty directory end with one authority and one leaf."""
    context = multiprocessing.get_context("spawn")
    found = context.SimpleQueue()
    processes = [context.Process(target=agree, args=(tmp_path / "state", found)) for _ in range(5)]
    for process in processes:
        process.start()
    results = {found.get() for _ in processes}
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert len(results) == 1


def agree(place: Path, found: Any) -> None:
    """Bring a directory up to date in a process of its own, and tell what it then holds."""
    material = keep_up(Directory(place), "test", NAMES, NOW)
    found.put(b"".join(pems(Stored(material.authority, material.leaf))))


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """What is in the way is named."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"), Directory(tmp_path / "file" / "state").locked():
        pass


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A folder where a file should be is told as such."""
    (tmp_path / "ca.crt").mkdir()
    with pytest.raises(StoreError, match=r"ca\.crt: Is a directory"):
        Directory(tmp_path).read()
