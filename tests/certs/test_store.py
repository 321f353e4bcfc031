"""The directory that keeps pairs: private files, and a CA that survives a crash."""

import asyncio
import fcntl
import os
import resource
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from certs.rotation import decode
from certs.store import Directory, Snapshot, read_file
from certs.x509 import StoreError
from tests.certs.made import ca, state
from tests.waiting import PATIENCE, until

NAMES = ["localhost"]
FILES = ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def made() -> dict[str, bytes]:
    """Give a CA and a serving certificate, as files."""
    return state().files()


def put(directory: Directory, files: dict[str, bytes]) -> None:
    """Write, whatever is there."""
    assert directory.write_blocking(files, directory.read_blocking().version)


def test_empty_and_missing_directories_hold_nothing(tmp_path: Path) -> None:
    """Where nothing is, nothing is read."""
    assert Directory(tmp_path).read_blocking().files is None
    assert Directory(tmp_path / "missing").read_blocking().files is None


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Under the names that clients look for; what is no longer there is gone."""
    directory, first = Directory(tmp_path), made()
    put(directory, {**first, "rotate": b"ca"})
    assert directory.read_blocking().files == {**first, "rotate": b"ca"}
    assert [(tmp_path / name).read_bytes() for name in FILES] == [first[name] for name in FILES]
    put(directory, first)
    assert directory.read_blocking().files == first
    assert not (tmp_path / "rotate").exists()


def test_who_was_slower_writes_nothing(tmp_path: Path) -> None:
    """What was read has changed since: it has to be read again."""
    directory, first = Directory(tmp_path), made()
    before = directory.read_blocking()
    put(directory, first)
    assert not directory.write_blocking(made(), before.version)
    assert directory.read_blocking().files == first


@pytest.mark.parametrize("moment", range(5))
def test_a_reader_while_the_first_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Whatever it sees can be used: a CA is never seen without its key."""
    directory, reads = Directory(tmp_path), []

    def reading(path: Path) -> bytes | None:
        reads.append(path)
        if len(reads) == moment + 1:
            assert directory.write_blocking(made(), "anything")
        return read_file(path)

    monkeypatch.setattr("certs.store._version", lambda _: "anything")
    monkeypatch.setattr("certs.store.read_file", reading)
    found = decode(directory.read_blocking().files)
    assert (found is None) == (moment > 3)


def test_one_writes_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the comparison to the last file: others wait."""
    read, locked = Directory.read_blocking, []

    def look(directory: Directory) -> Snapshot:
        with (directory.path / ".lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                locked.append(lock.name)
        return read(directory)

    version = Directory(tmp_path).read_blocking().version
    monkeypatch.setattr(Directory, "read_blocking", look)
    assert Directory(tmp_path).write_blocking(made(), version)
    assert locked


def test_files_are_private(tmp_path: Path) -> None:
    """Nobody else may read them, whatever the umask."""
    before = os.umask(0)
    try:
        put(Directory(tmp_path / "state"), made())
    finally:
        os.umask(before)
    for name in FILES:
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


async def test_changes_by_others_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By content; an own write is none."""
    mine, other = Directory(tmp_path, poll=0), Directory(tmp_path)
    await mine.write(made(), (await mine.read()).version)
    read, looks = Directory.read_blocking, []

    def look(directory: Directory) -> Snapshot:
        looks.append(directory)
        return read(directory)

    monkeypatch.setattr(Directory, "read_blocking", look)
    waiting = asyncio.create_task(mine.changed())
    await until(lambda: waiting.done() or len(looks) > 5)
    assert not waiting.done()
    await asyncio.to_thread(put, other, made())
    await asyncio.wait_for(waiting, PATIENCE)


class CrashError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("fresh", [True, False])
def test_a_crash_costs_no_ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fresh: bool) -> None:
    """Whichever system call is the last, what is found afterwards can be used; who starts then cleans up."""
    old = state()
    new = old.trusting(ca(1).certificate)
    for last in range(60):
        place = tmp_path / str(last)
        directory = Directory(place)
        if not fresh:
            put(directory, old.files())
        left, version, crashed = last, directory.read_blocking().version, True
        with monkeypatch.context() as patch:

            def crashing(real: Any) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    nonlocal left
                    if left == 0:
                        raise CrashError
                    left -= 1
                    return real(*args, **kwargs)

                return call

            for name in ("replace", "open", "unlink", "mkdir"):
                patch.setattr(os, name, crashing(getattr(os, name)))
            with suppress(CrashError):
                directory.write_blocking(new.files(), version)
                crashed = False
        found = decode(directory.read_blocking().files)
        assert (found is None and fresh and crashed) or (found is not None and old.signers[0].certificate in found.cas)
        put(directory, old.files())
        assert not [path for path in place.iterdir() if path.suffix == ".new"]
        if not crashed:
            return
    pytest.fail("more system calls than expected")


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """What is in the way is named."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        put(Directory(tmp_path / "file" / "state"), made())


def test_what_could_not_be_written_whole_is_taken_away(tmp_path: Path) -> None:
    """As on a full disk: what was there is there, each try leaves nothing, and with room it works."""
    directory = Directory(tmp_path / "state")
    put(directory, made())
    before, usual = directory.read_blocking(), sorted(directory.path.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        for _ in range(3):
            with pytest.raises(StoreError, match="File too large"):
                directory.write_blocking({"rotate": b"ca", **made()}, before.version)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert directory.read_blocking() == before
    assert sorted(directory.path.iterdir()) == usual
    assert directory.write_blocking(made(), before.version)


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A folder where a file should be is reported as such."""
    (tmp_path / "ca.crt").mkdir()
    with pytest.raises(StoreError, match=r"ca\.crt: Is a directory"):
        Directory(tmp_path).read_blocking()
