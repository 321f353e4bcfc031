"""The files that a command reads if the argument is a folder."""

from pathlib import Path
from typing import Final

SUFFIXES: Final = {".yaml", ".yml", ".json"}


def files_in(place: Path) -> list[Path]:
    """List the YAML and JSON files in a folder and below it, sorted by path; anything else counts as a file."""
    if not place.is_dir():
        return [place]
    return sorted(each for each in place.rglob("*") if each.suffix in SUFFIXES and each.is_file())
