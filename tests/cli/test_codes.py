"""The reason codes are explained on the terminal and in ``docs/codes.md``."""

import re
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

import webhook
from tests.cli.conftest import Run
from webhook.reasons import BY_CODE, Reason, ReasonKind

PAGE = Path(webhook.__file__).parent.parent / "docs" / "codes.md"


def test_the_page_is_up_to_date(run: Run) -> None:
    """``make docs`` was run after the reasons changed."""
    assert PAGE.read_text() == run("codes", "--markdown").stdout


def test_the_page_has_a_section_for_each_reason() -> None:
    """With its name, what it means, what to do and the status; the usual of both stands above the sections."""
    text = PAGE.read_text()
    assert "the remedy is to write what the message names." in text.partition("## Denials")[2].partition("###")[0]
    for reason in Reason:
        (section,) = re.findall(rf"^### {reason.code}\n(.*?)(?:^#|\Z)", text, re.MULTILINE | re.DOTALL)
        assert f"`{reason.slug}`" in section
        assert f"{reason.explanation.meaning}\n" in section
        usual = "Write what the message names." if reason.kind is ReasonKind.DENIAL else "Nothing."
        assert (f"\n\n{reason.explanation.remedy}\n" in section) == (reason.explanation.remedy != usual)
        if reason.status:
            assert (f", {reason.status}:" in section) == (reason.status != HTTPStatus.UNPROCESSABLE_ENTITY)


def test_every_text_is_of_a_reason() -> None:
    """``reasons.yaml`` explains each of ``reasons.py`` (see above), and nothing else, in the same order."""
    assert list(yaml.safe_load((PAGE.parents[1] / "webhook" / "reasons.yaml").read_text())) == [*BY_CODE]


def test_all_codes(run: Run) -> None:
    """One line for each."""
    lines = run("codes").stdout.splitlines()
    assert lines[0].split() == ["CODE", "KIND", "TITLE"]
    assert [line.split()[0] for line in lines[1:]] == [reason.code for reason in Reason]


@pytest.mark.parametrize("reason", Reason)
def test_one_code(run: Run, reason: Reason) -> None:
    """What it means, what it does and what to do; by code or by the name that metrics carry."""
    result = run("codes", reason.code)
    assert result.exit_code == 0
    keys = " ".join(result.stdout.split())
    assert keys.startswith(f"{reason.code}: {reason.explanation.title}")
    assert reason.explanation.meaning in keys
    assert f"What to do: {reason.explanation.remedy}" in keys
    assert run("codes", reason.code.lower()).stdout == run("codes", reason.slug).stdout == result.stdout


def test_unknown_code(run: Run) -> None:
    """A usage error that names near ones."""
    result = run("codes", "VGW019")
    assert result.exit_code == 1
    assert "VGW019 is not a reason code; did you mean" in result.stderr
