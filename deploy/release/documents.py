"""What a release has in words: its notes, from the changelog, the matrix of vendors, and the JSON Schemas of documents."""

import re
import subprocess
import sys
from pathlib import Path

from deploy.release import ReleaseError
from deploy.release.source import Source

_SCHEMAS = ("mapping", "settings", "test")


def write_schemas(source: Source, dist: Path) -> None:
    """Write the schemas of what people write, as the released code has them, for editors."""
    for kind in _SCHEMAS:
        command = [sys.executable, "-m", "webhook", "schema", kind]
        printed = subprocess.run(command, cwd=source.folder, capture_output=True, check=True).stdout  # noqa: S603
        (dist / f"{kind}.schema.json").write_bytes(printed)


def write_matrix(source: Source, dist: Path) -> None:
    """Write what each vendor's requests become in each other's keys, as the released code derives it."""
    command = [sys.executable, "-m", "webhook", "vendors", "--matrix", "--markdown"]
    page = subprocess.run(command, cwd=source.folder, capture_output=True, check=True).stdout  # noqa: S603
    (dist / "matrix.md").write_bytes(page)


def write_notes(source: Source, dist: Path) -> None:
    """Write the section of the version.

    Raises:
        ReleaseError: the changelog has none.
    """
    changelog = (source.folder / "CHANGELOG.md").read_text()
    section = section_of(changelog, source.version)
    if section is None:
        raise ReleaseError(f"CHANGELOG.md has no section [{source.version}]: rename [Unreleased]")
    (dist / f"vgpu-webhook-{source.version}-notes.md").write_text(section + "\n")


def unreleased(source: Source) -> bool:
    """Whether the changelog has entries for a later version."""
    return bool(section_of((source.folder / "CHANGELOG.md").read_text(), "Unreleased"))


def section_of(changelog: str, version: str) -> str | None:
    """Return the entries of a version without its heading, None where it has none."""
    found = re.search(rf"^## \[{re.escape(version)}\].*\n((?:(?!## \[).*\n?)*)", changelog, re.MULTILINE)
    return found and found[1].strip()
