"""Expressions of documents: what may be written, and that they take linear time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.mapping.vendors import ACME, policy
from tests.naming import each_of
from webhook.mapping.notation import PatternError, check_pattern, expression, literal


@each_of("text", ["a|b", "[a-z0-9]+(_[a-z0-9]+)?", "(?:a)", "[$^(?]", "[]$]", r"\$\^", r"\d", "x*?", "é"])
def test_permitted(text: str) -> None:
    """Groups, classes, repetitions, alternatives; signs that stand for themselves."""
    check_pattern(text)


@each_of(
    "text, why",
    [
        ("a{600}", "steps, more than"),
        (r"\pL{100}", "steps, more than"),
        ("a" * 257, "longer than 256"),
        ("(" * 1000, "longer than 256"),
    ],
)
def test_too_large(text: str, why: str) -> None:
    """Whatever else is refused is in `mistakes/patterns.yaml`."""
    with pytest.raises(PatternError, match=why):
        check_pattern(text)


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
