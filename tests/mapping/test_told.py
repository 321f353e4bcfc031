"""What a person reads about each mistake of a document or the settings: place, message and hint, to the letter.

`problems.txt` has them side by side; ``--update-golden`` writes it anew from what the code does now.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.mapping import test_guard_schema, test_policy, test_settings, test_shim_schema
from tests.mapping.vendors import problems
from webhook.mapping.document.problem import Problem

GOLDEN = Path(__file__).with_name("problems.txt")


def found() -> Iterator[Problem]:
    """Every problem of the tables of mistakes."""
    with_shim = test_guard_schema.shim(SWITCH="True", COUNT="{devices}")
    for rule, *_ in test_guard_schema.MISTAKES:
        yield from test_guard_schema.compiled({"env": "FINE", "unless": []}, rule, with_shim=with_shim)[1]
    for rule, _ in test_guard_schema.ENTRIES:
        yield from test_guard_schema.compiled(rule)[1]
    for changes, *_ in test_shim_schema.MISTAKES:
        yield from test_shim_schema.compiled(changes)[1]
    for texts, settings, *_ in test_policy.CONTRADICTIONS:
        yield from problems(*texts, settings=settings)
    for written, *_ in test_settings.CARDS:
        yield from problems(settings=f"cards:\n  B: {written}\n")


def test_every_mistake_is_told_as_before(*, update_golden: bool) -> None:
    """A hint at the wrong place, or none, is as bad as a wrong message."""
    vendors = re.compile(r"known are (acme, )?aliyun, .*\)")
    text = "".join(f"{vendors.sub('known are …)', str(problem))}\n" for problem in found())
    if update_golden:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
