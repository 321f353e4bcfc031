"""The pages of words and of pairs are those of the built-in mappings, and the terminal shows the same."""

from pathlib import Path

import pytest

import webhook
from tests.cli.conftest import Run
from webhook.mapping.load import load_policy

DOCS = Path(webhook.__file__).parent.parent / "docs"


@pytest.mark.parametrize("page, arguments", [("words.md", ()), ("matrix.md", ("--matrix",))])
def test_pages_are_up_to_date(run: Run, page: str, arguments: tuple[str, ...]) -> None:
    """`make docs` was run after the mappings were changed."""
    assert (DOCS / page).read_text() == run("vendors", "--markdown", *arguments).stdout


def test_matrix_has_every_pair(run: Run) -> None:
    """A line for each source, a sign for each target; who is only read has no column."""
    lines = run("vendors", "--matrix").stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.split() and line.split()[0] in SOURCES}
    assert rows.keys() == SOURCES
    assert {len(signs) for signs in rows.values()} == {len(SOURCES) - 1}
    assert {sign for signs in rows.values() for sign in signs} == {"=", "~", "?", "-", "."}


SOURCES = set(load_policy().vendors)


def test_one_row_says_why(run: Run) -> None:
    """With a vendor's name: what came of its requests, and why the others are refused."""
    text = run("vendors", "vcuda", "--matrix").stdout
    assert "no word of aliyun says memory 100 %" in text
    assert any(line.split()[:2] == ["nvidia", "exact"] for line in text.splitlines())
