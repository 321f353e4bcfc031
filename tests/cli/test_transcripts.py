"""What commands print of small files, to the letter: a table of `transcripts/` for each subject.

`files` stand in the current folder, those of the table and of its rules' own; each of a rule's `runs` is a command line, with
`< FILE` as in a shell. `out`, `err` and `exit` are what comes of it. ``$SHARES`` is the policy of the examples, ``$ROOT`` this
repository; digests read DIGEST. ``--update-golden`` writes what comes of it anew.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import EXAMPLES, SHARES, Run
from tests.naming import naming
from tests.yaml_text import dump_table, load_yaml
from webhook import __version__

ROOT = EXAMPLES.parent
HERE = Path(__file__).with_name("transcripts")
FILES = sorted(HERE.iterdir())


def every_run() -> Iterator[dict[str, Any]]:
    """Each command of the tables, with what it prints."""
    for file in FILES:
        for rule in load_yaml(file.read_text())["rules"]:
            yield from rule["runs"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_transcript(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path, *, update_golden: bool
) -> None:
    """Each command prints what its table says, and ends with its exit code."""
    monkeypatch.setenv("KUBECONFIG", "none")
    table = load_yaml(file.read_text())
    for number, rule in enumerate(table["rules"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in {**table.get("files", {}), **rule.get("files", {})}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        monkeypatch.chdir(folder)
        for at, told in enumerate(rule["runs"]):
            with naming(f"{rule['rule']}: {told['run']}"):
                found = {"run": told["run"], **outcome(run, told["run"])}
                assert update_golden or found == told
                rule["runs"][at] = found
    if update_golden:
        file.write_text(dump_table(table))


def test_the_pure_parser_reads_the_same(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where libyaml is not there."""
    monkeypatch.setattr("webhook.mapping.document._LOADER", yaml.SafeLoader)
    test_transcript(run, tmp_path, monkeypatch, HERE / "reading.yaml", update_golden=False)


def outcome(run: Run, line: str) -> dict[str, Any]:
    """What comes of a command line: what is not empty, and an exit code that is not 0."""
    command, given, name = line.replace("$SHARES", shlex.join(SHARES)).replace("$ROOT", str(ROOT)).partition(" < ")
    result = run(*shlex.split(command), stdin=Path(name).read_text() if given else None)
    printed = {"out": readable(result.stdout), "err": readable(result.stderr), "exit": result.exit_code}
    return {key: value for key, value in printed.items() if value}


def readable(text: str) -> str:
    """Without what differs from one machine or version to the next: places, digests, and words of the YAML parser."""
    text = re.sub(
        r"(not YAML|does not permit): .*", r"\1: …", text.replace(f"{ROOT}/", "").replace(__version__, "VERSION")
    )
    return re.sub(r"\b[0-9a-f]{12}\b", "DIGEST", text)
