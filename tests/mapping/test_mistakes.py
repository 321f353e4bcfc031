"""What a person reads about each mistake of a document or the settings: place, message and hint, to the letter.

A file of `mistakes/` has a document that is in order, and mistakes in it: texts that are changed or added, or values that are
set (null takes one away); then documents beside it, and settings. ``--update-golden`` writes `told` anew.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mapping.vendors import policy, problems
from tests.naming import naming
from tests.yaml_text import dump_table, load_yaml, put

FILES = sorted(Path(__file__).with_name("mistakes").iterdir())
KNOWN = re.compile(r"known are (acme, )?aliyun, .*\)")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_mistakes(file: Path, *, update_golden: bool) -> None:
    """A hint at the wrong place, or none, is as bad as a wrong message; without the mistake, the document is in order."""
    table = load_yaml(file.read_text())
    document = table.get("document", "")
    policy(*[document] * bool(document))
    for mistake in table["mistakes"]:
        with naming(mistake):
            settings = mistake.get("settings", "")
            found = problems(*mistaken(document, mistake), settings=settings)
            told = "\n".join(KNOWN.sub("known are …)", str(problem)) for problem in found)
            assert update_golden or told == mistake["told"]
            mistake["told"] = told
    if update_golden:
        file.write_text(dump_table(table))


def mistaken(document: str, mistake: dict[str, Any]) -> list[str]:
    """The documents with the mistake."""
    for old, new in mistake.get("change", {}).items():
        assert old in document
        document = document.replace(old, new, 1)
    document += mistake.get("add", "")
    if "set" in mistake:
        data = load_yaml(document)
        for path, value in mistake["set"].items():
            put(data, path, value)
        document = yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False)
    return [*[document] * bool(document), *mistake.get("beside", ())]
