"""Programs and installation files of other systems, at pinned commits, built once and kept in the user's cache.

Sources are fetched from GitHub, or from `SYSTEMS_SOURCES`: a folder with a clone of each in `OWNER+NAME` (or a bare repository
`OWNER+NAME/repo`).
"""

import datetime as dt
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from tests.cache import cached, say
from tests.go_program import BinariesMissingError

TABLE = Path(__file__).with_name("sources.yaml")


@dataclass(frozen=True, slots=True)
class Source:
    """One row of the table.

    Attributes:
        name: of the row.
        repository: owner and name on GitHub.
        commit: its whole hash.
        release: the release that the commit is, or follows.
        packages: of the programs; a program has its package's own name.
        files: folders that are kept beside the programs.
    """

    name: str
    repository: str
    commit: str
    release: str
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def folder(self) -> Path:
        """Return the folder with `bin` and the files, made now if this machine has never made it.

        Raises:
            BinariesMissingError: there is no Go or git, or one of them failed.
        """
        go = _program("go")
        inputs = [self.commit, *self.packages, *self.files, _run([go, "env", "GOVERSION", "GOOS", "GOARCH"])]
        digest = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:20]
        return cached(f"systems-{self.name}", digest, lambda folder: self._make(go, folder))

    def _make(self, go: str, folder: Path) -> None:
        began = time.monotonic()
        say(f"building {self.name}, {self.repository} at {self.commit[:8]} (once, some minutes) …")
        with tempfile.TemporaryDirectory() as scratch:
            tree = Path(scratch)
            git = [_program("git"), "-C", scratch]
            _run([*git, "init", "-q"])
            _run([*git, "fetch", "-q", "--depth", "1", self._remote(), self.commit])
            _run([*git, "checkout", "-q", "FETCH_HEAD"])
            for package in self.packages:
                output = folder / "bin" / Path(package).name
                _run(
                    [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(output), package], tree
                )
            for name in self.files:
                shutil.copytree(tree / name, folder / name)
        say(f"… built in {time.monotonic() - began:.0f} s")

    def _remote(self) -> str:
        local = os.environ.get("SYSTEMS_SOURCES")
        if not local:
            return f"https://github.com/{self.repository}"
        clone = Path(local) / self.repository.replace("/", "+")
        return str(clone / "repo" if (clone / "repo" / "HEAD").exists() else clone)


def first_line(source: Source) -> str:
    """How a file of outcomes begins: what was run, and when."""
    return f"{source.repository} {source.release} ({source.commit[:8]}), run on {dt.datetime.now(dt.UTC):%Y-%m-%d}"


@cache
def sources() -> dict[str, Source]:
    """The table."""
    return {
        name: Source(
            name,
            row["repository"],
            row["commit"],
            str(row["release"]),
            tuple(row.get("packages", ())),
            tuple(row.get("files", ())),
        )
        for name, row in yaml.safe_load(TABLE.read_text()).items()
    }


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise BinariesMissingError(f"the systems are built with Go 1.26 from git repositories: install {name}")
    return found


def _run(command: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stdout
