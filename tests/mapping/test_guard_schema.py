"""Guard, owned keys and hints of a document: what is compiled from them, and what is refused."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.naming import each_of
from webhook.mapping.document.guard import PLACES, Guard
from webhook.mapping.document.problem import Problem, Problems
from webhook.mapping.document.validation import guard_lists
from webhook.mapping.model import schema
from webhook.mapping.model.guard import Guards, compile_guards
from webhook.mapping.model.keys import Variable
from webhook.mapping.model.shim import Shim, compile_shim
from webhook.mapping.model.vendor import Owned, compile_owned, union
from webhook.mapping.notation import glob_pattern


def shim(**env: str) -> Shim:
    """A shim that writes these variables, a search path and a preload."""
    document = {
        "limit": "env",
        "needs": ["memory"],
        "delivery": [{"hostPath": {"volume": "lib", "path": "/opt", "mountPath": "/opt"}}],
        "libraryPath": {"prefix": ["/opt"]},
        "preload": {"prefix": ["/opt/a.so"]},
        "env": {"ACME_MEMORY": "{memory}m", **env},
    }
    problems = Problems()
    made = compile_shim(schema.Shim.model_validate(document), [], problems)
    assert problems.found == []
    return made


def compiled(*rules: dict[str, Any], with_shim: Shim | None = None) -> tuple[Guards, list[Problem]]:
    """The guard of a document with these rules."""
    problems = Problems()
    made = compile_guards([Guard.model_validate(rule) for rule in rules], with_shim, problems)
    return made, problems.found


def guards(*rules: dict[str, Any], with_shim: Shim | None = None) -> Guards:
    """A guard without problems."""
    made, problems = compiled(*rules, with_shim=with_shim)
    assert problems == []
    return made


@each_of(
    "pattern, name, caught",
    [
        ("X", "X", True),
        ("X", "XY", False),
        ("X", "x", False),
        ("X*", "X", True),
        ("X*", "XYZ", True),
        ("X*", "AX", False),
        ("*_OFF", "A_OFF", True),
        ("*_OFF", "A_OFF2", False),
        ("A*B*C", "AxxBxxC", True),
        ("A*B*C", "AC", False),
        ("A.B", "AxB", False),
        ("A*", "A\nB", True),
    ],
)
def test_names_are_patterns(pattern: str, name: str, *, caught: bool) -> None:
    """A star stands for anything, everything else for itself; the whole name counts."""
    made = guards({"env": ["OTHER", pattern], "unless": []})
    assert (made.catch(name, "1") is not None) == caught
    assert made.guarded(name) == caught


@each_of(
    "rule",
    [
        {"env": "ACME_*", "unless": []},
        {"env": "ACME_MEMORY", "lifts": ["0m", "0", "unlimited"]},
        {"env": "ACME_MEMORY", "lifts": "truthy"},
        {"env": "SWITCH", "unless": ["True", ""]},
    ],
)
def test_rule_beside_what_the_shim_writes(rule: dict[str, Any]) -> None:
    """`unless: []` spares the shim's values by itself; other rules may name its variables, but not its values."""
    guards(rule, with_shim=shim(SWITCH="True"))


def test_loader_variables_can_be_guarded_without_a_shim_that_writes_them() -> None:
    """A vendor that injects nothing may forbid them."""
    assert guards({"env": "LD_PRELOAD", "unless": []}).catch("LD_PRELOAD", "/x") is not None


VARIABLES: dict[str, Any] = {
    "chip": {"values": ["A-1", "B.2"]},
    "size": {"rows": {"1g": {"cores": 1}}, "others": "[2-9]g"},
    "any": {"values": "[a-z]+"},
}


def owned(*keys: str | dict[str, str], hints: tuple[str, ...] = ()) -> tuple[Owned, list[Problem]]:
    """What is compiled from lists of owned keys and hints."""
    variables = {name: Variable.model_validate(value) for name, value in VARIABLES.items()}
    entries = [key if isinstance(key, str) else schema.OwnedLabel.model_validate(key) for key in keys]
    problems = Problems()
    return compile_owned(entries, hints, variables, (), problems), problems.found


@each_of(
    "pattern, key, inside",
    [
        ("a.io/node", "a.io/node", True),
        ("a.io/node", "a.io/nodes", False),
        ("a.io/*", "a.io/x/y", True),
        ("a.io/*-done", "a.io/-done", True),
        ("a.io/*-done", "b.a.io/x-done", False),
        ("*a.io/x*", "b.a.io/x1", True),
        ("a.io/use-{chip}-uuid", "a.io/use-A-1-uuid", True),
        ("a.io/use-{chip}-uuid", "a.io/use-B.2-uuid", True),
        ("a.io/use-{chip}-uuid", "a.io/use-Bx2-uuid", False),
        ("a.io/use-{chip}-uuid", "a.io/use-{chip}-uuid", False),
        ("a.io/{size}*", "a.io/1g.5", True),
        ("a.io/{size}*", "a.io/3g", True),
        ("a.io/{size}*", "a.io/0g", False),
        ("a.io/{any}", "a.io/abc", True),
        ("a.io/{any}", "a.io/ABC", False),
    ],
)
def test_keys_are_patterns(pattern: str, key: str, *, inside: bool) -> None:
    """A star stands for anything, a variable for its values, in owned keys and in hints alike."""
    made, problems = owned(pattern, {"label": pattern})
    assert problems == []
    assert (key in made.annotations) == inside
    assert (key in made.labels) == inside
    assert made.annotations.among(["z", key]) == [key] * inside
    assert owned(hints=(pattern,))[0].hint(key) == inside
    others, _ = owned("b.io/x", {"label": "b.io/*"}, hints=("b.io/{chip}",))
    assert [part.among(["z", key]) for part in (union([others, made]).annotations, union([made, others]).labels)] == [
        [key] * inside
    ] * 2
    assert union([others, owned(hints=(pattern,))[0]]).hint(key) == inside


def test_labels_and_annotations_are_apart() -> None:
    """An owned label says nothing about annotations, nor the other way round."""
    made, _ = owned("a.io/x", {"label": "a.io/y"})
    assert "a.io/y" not in made.annotations
    assert "a.io/x" not in made.labels


def test_owned_key_is_never_a_hint() -> None:
    """A key that only a scheduler may write is stripped, and not reported as a lost hint."""
    made, _ = owned("a.io/gpu-ids", hints=("a.io/*",))
    assert made.hint("a.io/wish")
    assert not made.hint("a.io/gpu-ids")


@given(text=st.text(alphabet="ab*", max_size=6), name=st.text(alphabet="ab", max_size=8))
def test_patterns_match_as_the_obvious_ones_do(text: str, name: str) -> None:
    """The linear pattern and the one with a plain `.*` for every star agree."""
    import re

    obvious = re.fullmatch(".*".join(map(re.escape, text.split("*"))), name)
    assert (re.fullmatch(glob_pattern(text), name) is not None) == (obvious is not None)


def test_long_names_are_matched_in_linear_time() -> None:
    """A name under admission can be megabytes long: the square of that would not end within any test's time."""
    made = guards({"env": "A*b*b*b*C", "unless": []})
    assert made.catch("A" + "b" * 2_000_000, "1") is None


def test_a_named_list_stands_where_it_is_named() -> None:
    """Its rules come in its place: what stands before it decides first."""
    made = guards(
        {"env": "CUDA_REDIRECT", "unless": [], "action": "allow"}, {"list": "hami-core"}, {"env": "Z", "unless": []}
    )
    rule = made.catch("CUDA_REDIRECT", "/x")
    assert rule is not None
    assert rule.action == "allow"
    assert [rule.names for rule in made.rules][-1] == ("Z",)
    assert made.catch("CUDA_DISABLE_CONTROL", "true") is not None


def test_places_are_apart() -> None:
    """A rule for an annotation says nothing of a label or a variable of that name."""
    made = guards({"annotation": ["a.io/x", "a.io/y*"], "lifts": ["none"]}, {"label": "a.io/z", "unless": ["on"]})
    for key, place in [("a.io/x", "annotation"), ("a.io/yes", "annotation"), ("a.io/z", "label")]:
        for other in PLACES:
            assert (made.catch(key, "None", place=other) is not None) == (place == other)
    assert made.catch("a.io/z", "on", place="label") is None


def test_lists_name_no_lists() -> None:
    """One level, and each entry by itself in order."""
    for guard_list in guard_lists().values():
        assert all(entry.named is None for entry in guard_list.guard)
        problems = Problems()
        compile_guards(guard_list.guard, None, problems)
        assert problems.found == []


def test_whole_devices_know_only_rules_that_say_so() -> None:
    """A rule without `whole` is passed over, and the next looked at."""
    made = guards({"env": "X", "unless": [], "action": "strip"}, {"env": "X", "lifts": ["all"], "whole": True})
    found = [made.catch("X", value, whole=whole) for value, whole in [("all", False), ("all", True), ("0", True)]]
    assert [rule.action if rule is not None else None for rule in found] == ["strip", "deny", None]


def test_values_that_hide_devices() -> None:
    """Only those, to the letter, and only where an entry says so."""
    made = guards(
        {"env": "SHOWN_*", "unless": ["none", ""], "whole": True, "hides": True},
        {"env": "OTHER", "unless": ["none"]},
    )
    values = ("none", "", "NONE", "all", None)
    assert [made.hides("SHOWN_DEVICES", value) for value in values] == [True, True, False, False, False]
    assert not made.hides("OTHER", "none")
    assert not made.hides("A", "none")
