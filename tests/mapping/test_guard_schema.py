"""Patterns of guarded names: linear, and as the obvious ones; the lists that documents name."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.mapping.vendors import ACME, problems, vendor
from webhook.mapping.document import Problems
from webhook.mapping.model.guard import compile_guards, guard_lists
from webhook.mapping.notation import glob_pattern


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
