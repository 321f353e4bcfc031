"""Expressions and patterns of documents, of guarded names too: what may be written, and that they take linear time."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mapping.vendors import ACME, policy, problems, vendor
from tests.naming import each_of
from webhook.mapping.document import Problems
from webhook.mapping.model.guard import compile_guards, guard_lists
from webhook.mapping.notation import PatternError, check_pattern, expression, glob_pattern, literal


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


@given(text=st.text(alphabet="ab*", max_size=6), name=st.text(alphabet="ab", max_size=8))
def test_patterns_match_as_the_obvious_ones_do(text: str, name: str) -> None:
    """The linear pattern and the one with a plain `.*` for every star agree."""
    obvious = re.fullmatch(".*".join(map(re.escape, text.split("*"))), name)
    assert (re.fullmatch(glob_pattern(text), name) is not None) == (obvious is not None)


def test_long_names_are_matched_in_linear_time() -> None:
    """A name under admission can be megabytes long: the square of that would not end within any test's time."""
    made = vendor(f"{ACME}guard:\n- {{env: 'A*b*b*b*C', unless: []}}\n").guard
    assert made.catch("A" + "b" * 2_000_000, "1") is None


def test_long_paths_are_checked_in_linear_time() -> None:
    """A document is somebody's input too: two to the power of 511 would not end within any test's time."""
    path = "/a" * 511 + ":"
    delivery = f"[{{hostPath: {{volume: v, path: '{path}', mountPath: /x}}}}]"
    assert problems(f"{ACME}shim: {{limit: plugin, delivery: {delivery}, libraryPath: {{prefix: [/x]}}}}\n")


def test_lists_name_no_lists() -> None:
    """One level, and each entry by itself in order."""
    for guard_list in guard_lists().values():
        assert all(entry.named is None for entry in guard_list.guard)
        problems = Problems()
        compile_guards(guard_list.guard, None, problems)
        assert problems.found == []


def test_a_guard_may_name_where_a_plugin_mounts() -> None:
    """Nothing of ours is mounted there then, so every mount of the pod is its own."""
    delivery = "[{hostPath: {volume: v, path: /lib, mountPath: /opt}}]"
    document = f"{ACME}shim: {{mode: plugin, limit: plugin, delivery: {delivery}, libraryPath: {{prefix: [/opt]}}}}\n"
    made = vendor(f"{document}guard:\n- {{mount: /opt, unless: []}}\n").guard
    assert made.catch("/opt", None, place="mount") is not None
    assert problems(f"{document.replace('mode: plugin', 'mode: inject')}guard:\n- {{mount: /opt, unless: []}}\n")
