"""The reason codes are explained on the terminal and in ``docs/codes.md``."""

import re
from http import HTTPStatus

import pytest
import yaml

from deploy.generate.codes import PAGE, page
from tests.cli.conftest import Run
from webhook.reasons import BY_CODE, REASON_GROUPS, Reason, ReasonKind, explanation_of


def test_the_page_is_up_to_date() -> None:
    """``make docs`` was run after the reasons changed."""
    assert PAGE.read_text() == page()


def test_the_page_has_a_section_for_each_reason() -> None:
    """Below what its group does: with its name, what it means, what else to do and an unusual status."""
    text = PAGE.read_text()
    for reason in Reason:
        (section,) = re.findall(rf"^### {reason.code}\n(.*?)(?:^#|\Z)", text, re.MULTILINE | re.DOTALL)
        assert f"`{reason.slug}`" in section
        assert explanation_of(reason).meaning in section
        said = explanation_of(reason).remedy or explanation_of(reason).meaning
        written = explanation_of(reason).group in {"amount", "key"}
        if reason.kind is ReasonKind.DENIAL and written and explanation_of(reason).example:
            said = f"“{explanation_of(reason).example}”."
        assert section.rstrip().endswith(said)
        if reason.status:
            assert (f" ({reason.status}):" in section) == (reason.status != HTTPStatus.UNPROCESSABLE_ENTITY)
        above = text.partition(f"### {reason.code}\n")[0].rpartition("\n## ")[2]
        assert above.startswith("\n\n".join(REASON_GROUPS[explanation_of(reason).group]))


def test_no_remedy_is_empty_words() -> None:
    """Each says more than its group, and each group has codes."""
    remedies = [explanation_of(reason).remedy for reason in Reason]
    assert not {"Nothing.", "Remove it.", "Write what the message names."} & set(remedies)
    assert not {remedy for _, remedy in REASON_GROUPS.values()} & set(remedies)
    assert {explanation_of(reason).group for reason in Reason} == set(REASON_GROUPS)
    told = [each for each in Reason if each.kind in {ReasonKind.WARNING, ReasonKind.DENIAL}]
    without = [each.code for each in told if bool(explanation_of(each).remedy) == bool(explanation_of(each).example)]
    assert not [code for code in without if explanation_of(BY_CODE[code]).group != "nothing"]


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
    assert keys.startswith(f"{reason.code}: {explanation_of(reason).title}")
    assert explanation_of(reason).meaning in keys
    assert f"What to do: {explanation_of(reason).advice}" in keys
    assert run("codes", reason.code.lower()).stdout == run("codes", reason.slug).stdout == result.stdout
