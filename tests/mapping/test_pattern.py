"""Expressions of documents: what may be written, and that they take linear time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.mapping.vendors import ACME, policy, problems
from tests.naming import each_of
from webhook.mapping.notation import PatternError, check_pattern, expression, literal


@each_of("text", ["a|b", "[a-z0-9]+(_[a-z0-9]+)?", "(?:a)", "[$^(?]", "[]$]", r"\$\^", r"\d", "x*?", "é"])
def test_permitted(text: str) -> None:
    """Groups, classes, repetitions, alternatives; signs that stand for themselves."""
    check_pattern(text)


@each_of(
    "text, why",
    [
        ("(?i)a", "no flags"),
        ("a(?i:b)", "no flags"),
        ("(?s)a", "no flags"),
        ("(?P<m>a)", "no flags, names"),
        ("(?=a)", "invalid perl operator"),
        ("(?!a)", "invalid perl operator"),
        ("(?<=a)b", "invalid"),
        ("(?>a)", "invalid perl operator"),
        (r"(a)\1", "invalid escape"),
        ("^a", "whole names are matched"),
        ("a$|b", "whole names are matched"),
        (r"\Aa", "whole names are matched"),
        (r"a\z", "whole names are matched"),
        (r"a\Z", "invalid escape"),
        (r"\ba", "whole names are matched"),
        (r"a\B", "whole names are matched"),
        (r"\Qa", "is not supported"),
        (r"\C", "is not supported"),
        ("[", "missing ]"),
        ("(", "missing )"),
        ("a)", "unexpected )"),
        ("*", "no argument"),
        ("a++", "bad repetition"),
        ("a\\", "trailing"),
        ("a{600}", "steps, more than"),
        ("a{1001}", "repetition size"),
        ("(a{100}){100}", "repetition size"),
        (r"\pL{100}", "steps, more than"),
        ("a" * 257, "longer than 256"),
        ("(" * 1000, "longer than 256"),
    ],
)
def test_refused(text: str, why: str) -> None:
    """With the reason, at the line of the document."""
    with pytest.raises(PatternError, match=why.replace(")", r"\)").replace("(", r"\(").replace("]", r"\]")):
        check_pattern(text)
    document = ACME.replace("acme.com/core", '"acme.com/{m}"') + "variables:\n  m:\n    " + f"values: '{text}'\n"
    (found,) = problems(document)
    assert (found.path, found.line) == (("variables", "m", "values"), 11)


def test_composed() -> None:
    """Alternatives stay in their place, and a variable is a group."""
    found = expression(f"{literal('a.b/x ')}(?P<m>(?:a|b))-(?P<n_o>(?:[0-9]+))")
    assert found.groups("a.b/x b-12") == {"m": "b", "n_o": "12"}
    assert found.groups("a.b/x b-12x") is None
    assert not found.matches("axb/x b-1")
    assert not found.matches("a.b/x b-1\ud800")


@each_of("text", ["(a+)+b", "(a|aa)+b", "(a*)*b", "(a|a)*b", "([a-z]+)*[0-9]", "(.*)(.*)(.*)(.*)b"])
def test_linear_time(text: str) -> None:
    """What a backtracking engine needs more than a lifetime for."""
    made = policy(
        ACME.replace("acme.com/gpu", '"acme.com/{m}-gpu"') + f"variables: {{m: {{values: '{text}'}}}}\n"
        "owned: ['acme.com/mark-{m}']\n"
    )
    name = "a" * 200_000
    assert made.resources.owners(f"acme.com/{name}-gpu") == ()
    assert f"acme.com/mark-{name}" not in made.vendors["acme"].owned.annotations
    assert made.resources.owners(f"acme.com/{name}b-gpu" if "[0-9]" not in text else f"acme.com/{name}0-gpu")


def test_used_by_threads() -> None:
    """A policy is compiled beside the reviews."""
    found = expression("(?P<m>[a-z]+)-x{1,20}")
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda number: found.groups(f"{'a' * (number % 40 + 1)}-xx"), range(4000))
    assert [len(result["m"]) for result in results if result] == [number % 40 + 1 for number in range(4000)]
