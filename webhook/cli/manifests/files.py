"""Which files a command reads where a folder is named."""

from pathlib import Path
from typing import Final

SUFFIXES: Final = {".yaml", ".yml", ".json"}


def files_in(place: Path) -> list[Path]:
    """The YAML and JSON files in a folder and below it, in the order of their paths; anything else is a file itself."""
    if not place.is_dir():
        return [place]
    return sorted(each for each in place.rglob("*") if each.suffix in SUFFIXES and each.is_file())
