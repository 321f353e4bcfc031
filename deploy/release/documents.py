"""What a release has in words: its notes, from the changelog, the matrix of vendors, and the JSON Schemas of documents."""

import json
import re
import subprocess
import sys
from pathlib import Path

from deploy.release import ReleaseError
from deploy.release.source import Source

_SCHEMAS = """
import json, sys
from webhook.mapping.document.settings import Settings, mapping_json_schema
json.dump({"mapping": mapping_json_schema(), "settings": Settings.model_json_schema(by_alias=True)}, sys.stdout)
"""
_HEAD = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def write_schemas(source: Source, dist: Path) -> None:
    """Write the schemas of mappings and settings, as the released code has them, for editors."""
    command = [sys.executable, "-c", _SCHEMAS]
    printed = subprocess.run(command, cwd=source.folder, capture_output=True, check=True).stdout  # noqa: S603
    for name, schema in json.loads(printed).items():
        document = {**_HEAD, **schema, "title": f"vgpu-webhook {name}"}
        (dist / f"{name}.schema.json").write_text(json.dumps(document, indent=2) + "\n")


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
