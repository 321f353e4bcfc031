"""``certs show`` and ``certs rotate`` on a folder; what they do in a cluster stands with the control plane's tests."""

import datetime as dt
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from certs.authority import issue, make_authority
from certs.directory import Directory
from certs.kept import Asked, Kept, Retired, decode, fingerprint
from certs.pair import Pair
from certs.serving import Demands, Serving
from tests.cli.conftest import Run

NOW = dt.datetime.now(dt.UTC)


def keep(folder: Path, kept: Kept) -> Path:
    """A folder that keeps something."""
    directory = Directory(folder)
    assert directory.replace(kept.files(), directory.look().version)
    return folder


def kept_in(folder: Path) -> Kept:
    """What a folder keeps."""
    kept = decode(Directory(folder).look().files).kept
    assert kept is not None
    return kept


@pytest.fixture
def kept() -> Kept:
    """An authority, one that is coming, one that has retired, and a leaf."""
    authority, coming, old = (make_authority(name, NOW) for name in ("current", "coming", "old"))
    leaf = issue(authority, ["localhost", "127.0.0.1"], NOW)
    return Kept(authority, coming, (Retired(old.certificate, NOW + dt.timedelta(days=30)),), leaf)


def test_show(run: Run, tmp_path: Path, kept: Kept) -> None:
    """Every certificate with its end; no key."""
    assert kept.authority is not None
    assert kept.coming is not None
    assert kept.leaf is not None
    folder = keep(tmp_path / "state", kept)
    result = run("certs", "show", "--state-dir", str(folder))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == [f"{folder}:"]
    shown = {(words[0], words[1], words[2]) for words in lines[1:4]}
    assert shown == {
        ("authority", "current", fingerprint(kept.authority.certificate)[:16]),
        ("authority", "coming", fingerprint(kept.coming.certificate)[:16]),
        ("authority", "retired", fingerprint(kept.retired[0].certificate)[:16]),
    }
    assert lines[4][:2] == ["leaf", fingerprint(kept.leaf.certificate)[:16]]
    assert "for localhost, 127.0.0.1" in result.stdout
    assert f"kept until {kept.retired[0].until:%Y-%m-%d}" in result.stdout
    assert "PRIVATE" not in result.stdout


def test_show_as_json(run: Run, tmp_path: Path, kept: Kept) -> None:
    """Whole fingerprints, for scripts."""
    assert kept.leaf is not None
    assert kept.authority is not None
    result = run("certs", "show", "--state-dir", str(keep(tmp_path / "state", kept)), "-o", "json")
    told = json.loads(result.stdout)
    assert told["leaf"]["fingerprint"] == fingerprint(kept.leaf.certificate)
    assert told["leaf"]["authority"] == fingerprint(kept.authority.certificate)
    assert [one["state"] for one in told["authorities"]].count("current") == 1
    assert (told["asked"], told["problems"], told["served"]) == (None, [], None)
    assert "PRIVATE" not in result.stdout


def test_what_cannot_be_used_is_said(run: Run, tmp_path: Path, kept: Kept) -> None:
    """A leaf whose key is another's."""
    assert kept.authority is not None
    other = issue(kept.authority, ["localhost"], NOW)
    files = kept.files() | {"tls.key": other.key_pem}
    directory = Directory(tmp_path / "state")
    directory.replace(files, directory.look().version)
    result = run("certs", "show", "--state-dir", str(tmp_path / "state"))
    assert result.exit_code == 0
    assert "problem: the leaf has a key that belongs to another certificate" in result.stdout


def test_nothing_kept(run: Run, tmp_path: Path) -> None:
    """An empty folder, and none at all."""
    assert run("certs", "show", "--state-dir", str(tmp_path)).stdout == f"{tmp_path}: nothing is kept\n"
    result = run("certs", "rotate", "--state-dir", str(tmp_path))
    assert result.exit_code == 1
    assert "holds no certificates yet: start the webhook first" in result.stderr
    result = run("certs", "show", "--state-dir", str(tmp_path / "missing"))
    assert (result.exit_code, result.stderr) == (1, f"error: {tmp_path / 'missing'}: no such folder\n")


def test_a_folder_or_a_cluster(run: Run, tmp_path: Path) -> None:
    """Not both."""
    result = run("certs", "show", "--state-dir", str(tmp_path), "--release-namespace", "ours")
    assert result.exit_code == 1
    assert "--state-dir stands for itself" in result.stderr


@pytest.mark.parametrize(
    "arguments, before, asked, said",
    [
        ((), None, Asked.LEAF, "leaf"),
        (("--authority",), None, Asked.AUTHORITY, "authority"),
        (("--authority",), Asked.LEAF, Asked.AUTHORITY, "authority"),
        ((), Asked.AUTHORITY, Asked.AUTHORITY, "leaf"),
    ],
)
def test_rotate(  # noqa: PLR0917  (pytest passes them by name)
    run: Run, tmp_path: Path, kept: Kept, arguments: tuple[str, ...], before: Asked | None, asked: Asked, said: str
) -> None:
    """The request stands beside what is kept, and nothing else changes; a new authority brings a new leaf anyway."""
    without = replace(kept, coming=None, asked=before)
    folder = keep(tmp_path / "state", without)
    result = run("certs", "rotate", "--state-dir", str(folder), *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"asked for a new {said} in {folder}" in result.stdout
    now = kept_in(folder)
    assert now.asked is asked
    assert replace(now, asked=None).files() == replace(without, asked=None).files()


def test_one_is_coming_already(run: Run, tmp_path: Path, kept: Kept) -> None:
    """That is said."""
    folder = keep(tmp_path / "state", kept)
    assert "has a coming authority already" in run("certs", "rotate", "--authority", "--state-dir", str(folder)).stdout


@pytest.fixture
def shown(kept: Kept) -> Iterator[tuple[Pair, str]]:
    """A server that shows a leaf of its own, and its address."""
    assert kept.authority is not None
    other = issue(kept.authority, ["localhost"], NOW)
    serving = Serving()
    serving.swap(other.certificate_pem, other.key_pem, NOW, Demands(("localhost",), (kept.authority.certificate,)))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with serving.context.wrap_socket(connection, server_side=True):
                pass

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield other, f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join(10)


def test_what_is_served(run: Run, tmp_path: Path, kept: Kept, shown: tuple[Pair, str]) -> None:
    """A server is asked, and what it shows compared with what is kept."""
    other, address = shown
    result = run("certs", "show", "--state-dir", str(keep(tmp_path / "state", kept)), "--address", address)
    expected = (
        f"{address} serves another leaf, {fingerprint(other.certificate)[:16]}, until {other.not_after:%Y-%m-%d}\n"
    )
    assert result.stdout.endswith(expected)


def test_nobody_there(run: Run, tmp_path: Path, kept: Kept) -> None:
    """A server that is not to be had is said to be so."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    result = run("certs", "show", "--state-dir", str(keep(tmp_path / "state", kept)), "--address", address)
    assert result.exit_code == 0
    assert f"{address} serves what cannot be seen from here: " in result.stdout
