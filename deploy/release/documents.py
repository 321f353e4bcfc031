"""What a release has in words: its pages as a site, notes from the changelog, schemas of documents."""

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from deploy.release import ReleaseError
from deploy.release.archives import pack_again
from deploy.release.source import Source

_SCHEMAS = ("mapping", "settings", "test")


def write_site(source: Source, dist: Path) -> None:
    """Pack the pages of the released code, in a folder named after the version, with a list of versions beside it."""
    archive = dist / f"vgpu-webhook-{source.version}-site.tgz"
    with tempfile.TemporaryDirectory(prefix="vgpu-webhook-site.") as folder:
        command = [sys.executable, "-m", "deploy.site", folder]
        subprocess.run(command, cwd=source.folder, stdout=subprocess.DEVNULL, check=True)  # noqa: S603
        with tarfile.open(archive, "w:gz") as packed:
            for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
                packed.add(path, str(path.relative_to(folder)))
    pack_again(archive, source.time)


def write_schemas(source: Source, dist: Path) -> None:
    """Write the schemas of what people write, as the released code has them, for editors."""
    for kind in _SCHEMAS:
        command = [sys.executable, "-m", "webhook", "schema", kind]
        printed = subprocess.run(command, cwd=source.folder, capture_output=True, check=True).stdout  # noqa: S603
        (dist / f"{kind}.schema.json").write_bytes(printed)


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
