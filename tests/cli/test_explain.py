"""``explain``: what becomes of manifests and why, and what keys mean, for people."""

import json
from collections import Counter
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Run
from tests.cli.width import too_long
from tests.decisions.test_cases import FOLDERS
from tests.explanation.test_pods import explained_case
from tests.naming import each_of
from webhook.cli.commands.explain import object_text
from webhook.labels import KEYS

ROOT = Path(__file__).parents[2]
DENIED = """\
apiVersion: v1
kind: Pod
metadata: {name: wrong}
spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 8Ti}}}]}
"""


@each_of("folder", FOLDERS)
def test_text_of_a_case(folder: Path) -> None:
    """It fits the terminal, holds nothing that would command it, and lists each finding once."""
    explained = explained_case(folder)
    text = object_text({"title": "pod/demo", "notes": (), "pods": [{"path": "", **explained}]})
    plain = [line.replace("\x1b[0m", "") for line in text.splitlines()]
    for line in plain:
        shown = "".join(part.partition("m")[2] if number else part for number, part in enumerate(line.split("\x1b[")))
        assert not [*too_long(shown)]
        assert shown.isprintable()
        assert shown == shown.rstrip()
    words = " ".join(click.unstyle(text).split())
    listed = Counter(" ".join(f"{each['code']} {each['message']}".split()) for each in explained["findings"])
    assert {line: words.count(line) for line in listed} == dict(listed)


def test_colour_only_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere, and with NO_COLOR, plain text of the same keys."""
    plain = run("explain", "-f", "-", stdin=DENIED).stdout
    colored = run("explain", "-f", "-", stdin=DENIED, color=True).stdout
    assert "\x1b[" not in plain
    assert "\x1b[31m" in colored
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("explain", "-f", "-", stdin=DENIED, color=True).stdout == plain


def test_nothing_in_a_manifest_commands_the_terminal(run: Run) -> None:
    """Control characters of names and values are replaced."""
    pod = DENIED.replace("name: main", 'name: "ma\\x1b[2Jin"').replace("name: wrong", 'name: "wr\\x07ong"')
    output = run("explain", "-f", "-", stdin=pod, color=True).stdout
    assert "\x1b[2J" not in output
    assert "\x07" not in output


def test_our_own_labels_and_annotations(run: Run) -> None:
    """On what they stand, what may be written and what it does; misspelled ones are recognized."""
    for key in KEYS:
        printed = run("explain", "--name", key.name).stdout
        assert all(part in " ".join(printed.split()) for part in (f"{key.place} of a {key.kind}", key.purpose))
        (use, *_) = json.loads(run("explain", "--name", key.name, "-o", "json").stdout)["own"]
        assert use["place"] in {"label", "annotation"}
    assert f"did you mean {KEYS[0].name}?" in run("explain", "--name", f"{KEYS[0].name}s").stderr
