"""The version before the one under test: the last commit of the project's history whose program is another one."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = ("webhook", "certs")


class NoVersionBeforeError(Exception):
    """This copy of the project has no history that reaches so far; the text says why."""


def version_before(project: Path = ROOT) -> str:
    """Return the last commit whose program differs from the one that stands in the project's folder now.

    ``UPGRADE_FROM=COMMIT`` names an older one, such as the last without a certain feature.

    Raises:
        NoVersionBeforeError: there is none.
    """
    if named := os.environ.get("UPGRADE_FROM"):
        return _git(project, "rev-parse", "--verify", f"{named}^{{commit}}").decode().strip()
    commits = _git(project, "rev-list", "--first-parent", "HEAD").decode().split()
    for commit in commits:
        if _git(project, "diff", "--name-only", commit, "--", *PROGRAM):
            return commit
    shallow = _git(project, "rev-parse", "--is-shallow-repository").decode().strip() == "true"
    remedy = "a shallow clone: git fetch --unshallow" if shallow else "it begins with this program"
    raise NoVersionBeforeError(f"no other program in the {len(commits)} commits of this history ({remedy})")


def unpack(commit: str, folder: Path, project: Path = ROOT) -> None:
    """Write program and chart of a commit into a folder."""
    packed = _git(project, "archive", "--format=tar", commit, *PROGRAM, "deploy/chart")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def _git(project: Path, *arguments: str) -> bytes:
    command = ["git", "-c", f"safe.directory={project}", *arguments]
    english = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(command, cwd=project, env=english, capture_output=True, check=True, timeout=60).stdout
    except FileNotFoundError as error:
        raise NoVersionBeforeError("no git on this machine") from error
    except subprocess.CalledProcessError as error:
        raise NoVersionBeforeError(error.stderr.decode(errors="replace").strip()) from error
