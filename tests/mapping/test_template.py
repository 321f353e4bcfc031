"""Keys with variable parts: rendered, listed, matched."""

import re

from tests.naming import each_of
from webhook.mapping.model.keys import Template, Variable

CHIP = Variable(values=["A", "B.1"])
PROFILE = Variable(rows={}, others=r"[0-9]g\.x|y")
MODEL = Variable(values="[a-z]+_[0-9]+g")
VARIABLES = {"chip": CHIP, "profile": PROFILE, "my-model": MODEL}


def test_rendered() -> None:
    """Every part is filled in, or nothing is rendered."""
    template = Template("x/{chip}-{my-model}")
    assert template.variables == ("chip", "my-model")
    assert template.render({"chip": "A", "my-model": "m_1g", "other": "o"}) == "x/A-m_1g"
    assert template.render({"chip": "A"}) is None
    assert Template("x/plain").render({}) == "x/plain"


def test_listed_names() -> None:
    """Names whose variables are lists can be listed, each with what it binds; a pattern or container cannot."""
    assert list(Template("x/{chip}.m").names(VARIABLES)) == [
        ("x/A.m", (("chip", "A"),)),
        ("x/B.1.m", (("chip", "B.1"),)),
    ]
    assert list(Template("x/plain").names(VARIABLES)) == [("x/plain", ())]
    assert list(Template("x/{my-model}").names(VARIABLES)) == []
    assert list(Template("x/{container}").names(VARIABLES)) == []


@each_of(
    "text, key, groups",
    [
        ("x/{my-model}_c", "x/a_16g_c", {"my_model": "a_16g"}),
        ("x/{my-model}_c", "x/a_16g_cc", None),
        ("x/{profile}", "x/1g.x", {"profile": "1g.x"}),
        ("x/{profile}", "x/1gyx", None),
        ("x/{profile}-z", "x/y-z", {"profile": "y"}),
        ("x/{chip}-{profile}", "x/B.1-y", {"chip": "B.1", "profile": "y"}),
        ("x/{chip}-{profile}", "x/Bx1-y", None),
        ("n/c.{container}.m", "n/c.main-1.m", {"container": "main-1"}),
        ("n/c.{container}.m", "n/c.Main.m", None),
        ("n/c.{container}.m", "n/c..m", None),
        ("n.{container}", "nx" + "main", None),
    ],
)
def test_matched(text: str, key: str, groups: dict[str, str] | None) -> None:
    """What cannot be listed is matched as a whole; dots are dots, alternatives of a pattern stay in their place."""
    pattern = Template(text).pattern(VARIABLES)
    assert pattern is not None
    match = re.fullmatch(pattern, key)
    assert (match.groupdict() if match else None) == groups


def test_no_pattern_where_all_names_are_listed() -> None:
    """A dictionary look-up does it."""
    assert Template("x/{chip}").pattern(VARIABLES) is None
    assert Template("x/plain").pattern(VARIABLES) is None
