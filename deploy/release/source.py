"""The commit that is released: its files alone, whatever else is in the folder, and its time."""

import io
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from deploy.release import ReleaseError

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Source:
    """What is built.

    Attributes:
        folder: has the files of the commit.
        version: the one in webhook/__init__.py.
        revision: the commit.
        time: when it was made, in seconds since 1970: the time of everything that has to have one.
        dirty: whether the checkout has changes that are not in it.
    """

    folder: Path
    version: str
    revision: str
    time: int
    dirty: bool


def export(folder: Path, root: Path = ROOT, commit: str = "HEAD") -> Source:
    """Write the files of a commit into a folder.

    Raises:
        ReleaseError: there is no git, no checkout, or no version.
    """
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "--format=tar", commit))) as archive:
        archive.extractall(folder, filter="data")
    found = re.search(r'^__version__ = "(.+)"$', (folder / "webhook" / "__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise ReleaseError("webhook/__init__.py has no version")
    revision, time = _git(root, "log", "-1", "--format=%H %ct", commit).decode().split()
    return Source(folder, found[1], revision, int(time), bool(_git(root, "status", "--porcelain")))


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", "-c", f"safe.directory={root}", *arguments]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, check=True).stdout  # noqa: S603
    except FileNotFoundError as error:
        raise ReleaseError("a release is built from a git checkout: install git") from error
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"a release is built from a git checkout: {error.stderr.decode().strip()}") from error
