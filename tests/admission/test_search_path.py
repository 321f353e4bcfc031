"""The search path as the loader sees it: after the kubelet's expansion no element of it is empty.

`expanded` is written from Kubernetes' own rules, without the code under test, and compared with the kubelet's own code.
"""

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.admission.scene import SHIM, Held, Outcome, Scene, elsewhere, env, pod, run, vendor
from tests.controlplane.build import expansion
from tests.fuzz.enforcement import effective
from tests.go_program import BinariesMissingError
from tests.naming import each_of
from webhook.admission.decision import Plan
from webhook.admission.guard import guard_pod
from webhook.admission.shim import MAX_REFERENCES, MAX_VARIABLE, inject_shim
from webhook.mapping.model.shim import preload_list, resolved, search_path
from webhook.reasons import Denied, Reason

SHIMMED = vendor(shim=SHIM)
PATH = "LD_LIBRARY_PATH"


def expanded(text: str, values: Mapping[str, str]) -> str:
    """What the kubelet makes of a value: ``third_party/forked/golang/expansion/expand.go``, sign by sign."""
    done, at = "", 0
    while at < len(text):
        rest = text[at + 1 :]
        if text[at] != "$" or not rest:
            done, at = done + text[at], at + 1
        elif rest[0] == "$":
            done, at = done + "$", at + 2
        elif rest[0] == "(" and ")" in rest:
            name = rest[1 : rest.index(")")]
            done, at = done + values.get(name, f"$({name})"), at + len(name) + 3
        else:
            done, at = done + text[at : at + 2], at + 2
    return done


def environment(
    entries: Sequence[Mapping[str, Any]], sources: Mapping[str, str], env_from: Mapping[str, str]
) -> dict[str, str]:
    """The environment that a container starts with (``kubelet_pods.go``, makeEnvironmentVariables).

    Args:
        entries: its ``env``.
        sources: what the ConfigMap of an entry with ``valueFrom`` holds, by key; without one it is optional and missing.
        env_from: what ``envFrom`` brings.
    """
    result = dict(env_from)
    for entry in entries:
        if "valueFrom" in entry:
            key = entry["valueFrom"]["configMapKeyRef"]["key"]
            if key in sources:
                result[entry["name"]] = sources[key]
        else:
            result[entry["name"]] = expanded(entry.get("value") or "", result)
    return result


def injected(entries: list[dict[str, Any]], **container: Any) -> Outcome:
    """A container with these variables, after the shim was injected (twice)."""
    return run(inject_shim, pod({"name": "main", "env": entries, **container}), Scene([Held(SHIMMED)]))


def elements(path: str) -> list[str]:
    """The elements of a search path, for glibc."""
    return re.split("[:;]", path)


FROM: dict[str, Any] = {"envFrom": [{"configMapRef": {"name": "c"}}]}


@each_of(
    "before, path, after",
    [
        ([("E", "")], "/a:$(E)", "/opt/lib:/a"),
        ([("E", "")], "$(E):/b", "/opt/lib:/b"),
        ([("E", "")], "/a;$(E);/b", "/opt/lib:/a;/b"),
        ([("E", "")], "$(E)", "/opt/lib"),
        ([("E", "")], "$(E)/a", "/opt/lib:/a"),
        ([("E", "")], "/a$(E)", "/opt/lib:/a"),
        ([("E", "")], "/a:$(E)$(E)", "/opt/lib:/a"),
        ([("E", ":")], "/a$(E)", "/opt/lib:/a"),
        ([("E", "/x:")], "/a:$(E)", "/opt/lib:/a:/x"),
        ([("E", "/x::/y")], "/a:$(E)", "/opt/lib:/a:/x:/y"),
        ([("E", "/x")], "/a:$(E)", "/opt/lib:/a:$(E)"),
        ([("E", "/x:/y")], "$(E):/a", "/opt/lib:$(E):/a"),
        ([("E", "/x"), ("E", "")], "/a:$(E)", "/opt/lib:/a"),
        ([("E", ""), ("E", "/x")], "/a:$(E)", "/opt/lib:/a:$(E)"),
        ([("E", ""), elsewhere("E")], "/a:$(E)", "/opt/lib:/a:/$(E)/."),
        ([("F", ""), ("E", "$(F)")], "/a:$(E)", "/opt/lib:/a:/$(E)/."),
        ([elsewhere("E")], "/a:$(E)", "/opt/lib:/a:/$(E)/."),
        ([elsewhere("E")], "$(E)/a", "/opt/lib:/$(E)/a"),
        ([], "/a:$(E)", "/opt/lib:/a:/$(E)/."),
        ([("E", "")], "/a:$$(E)", "/opt/lib:/a:$$(E)"),
        ([("E", "")], "/a:$$$(E)", "/opt/lib:/a:$$"),
        ([("E", "")], "/a:$(E", "/opt/lib:/a:$(E"),
        ([("E", "")], "/a:/$(E)/.", "/opt/lib:/a://."),
    ],
)
def test_references_leave_no_empty_element(before: list[Any], path: str, after: str) -> None:
    """A known value that would is put in place of its reference and cleaned; one that is not known is made absolute."""
    entries = [*env(*before), {"name": PATH, "value": path}, {"name": "E", "value": "later"}]
    outcome = injected(entries)
    assert outcome.env()[PATH] == after
    found = environment(outcome.container()["env"], {"E": ""}, {})[PATH]
    assert "" not in elements(found)


@each_of("value", ["", ":", "/x:", ":/x", "/x", None])
def test_search_path_from_elsewhere_leaves_no_empty_element(value: str | None) -> None:
    """The value of a key may be empty or end in a colon, and an optional key may be missing."""
    sources = {} if value is None else {PATH: value}
    outcome = injected([elsewhere(PATH)])
    assert "" not in elements(environment(outcome.container()["env"], sources, {})[PATH])
    outcome = injected([], **FROM)
    assert "" not in elements(environment(outcome.container()["env"], {}, sources)[PATH])


def test_dropped_elements_are_reported() -> None:
    """By a warning, for what the user wrote is changed; a reference that stays is no reason for one."""
    assert injected(env(("E", ""), (PATH, "/a:$(E)"))).reasons == [Reason.PATH_CLEANED]
    assert injected([elsewhere("E"), *env((PATH, "/a:$(E)"))]).reasons == []


def test_a_variable_that_the_guard_removed_is_not_known() -> None:
    """It is not there any more when the kubelet expands."""

    def both(work: Plan) -> None:
        guard_pod(work)
        inject_shim(work)

    guarded = vendor(shim=SHIM, guard=[{"env": "E", "unless": [], "action": "strip"}])
    sent = pod({"name": "main", "env": env(("E", "/x"), (PATH, "/a:$(E)"))})
    assert run(both, sent, Scene([Held(guarded)])).env()[PATH] == "/opt/lib:/a:/$(E)/."


UNKNOWN = st.sampled_from(["", ":", ";", "/x", "/x:/y", ":/x", "/x:", ";/x:"])
KNOWN = UNKNOWN | st.sampled_from(["::", "/x::/y", ";;/x"])
PIECES = st.sampled_from(["/a", "/b", ":", ";", "$(E)", "$(F)", "$(G)", f"$({PATH})", "$$", "$", "(", ")"])
PATHS = st.lists(PIECES, max_size=8).map("".join).filter(lambda text: ")$(" not in text)
SEARCH = PATHS.map(lambda value: {"name": PATH, "value": value})
KEYS = ["E", "F", PATH]


def lists_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Variables that a search path may refer to, with such values or others from elsewhere, and a search path last."""
    others = st.builds(lambda name, value: {"name": name, "value": value}, st.sampled_from("EF"), values)
    before = st.lists(others | SEARCH | st.sampled_from(KEYS).map(elsewhere), max_size=6)
    return st.builds(lambda entries, last: [*entries, last], before, SEARCH | st.just(elsewhere(PATH)))


@given(
    st.tuples(lists_of(KNOWN), st.fixed_dictionaries(dict.fromkeys(KEYS, UNKNOWN)))
    | st.tuples(lists_of(UNKNOWN), st.dictionaries(st.sampled_from(KEYS), UNKNOWN))
)
def test_no_container_searches_the_current_directory(variables: tuple[list[dict[str, Any]], dict[str, str]]) -> None:
    """Whatever is known, not known, missing, defined twice, later or escaped, and wherever it stands in an element.

    Not closed, and so not here: an empty element inside a value that is not known (such as an earlier one, where an
    optional key is missing), or where two such values meet.
    """
    entries, sources = variables
    for container, env_from in (({}, {}), (FROM, sources)):
        made = injected(entries, **container).container()["env"]
        found = environment(made, sources, env_from)[PATH]
        assert elements(found)[0] == "/opt/lib"
        assert "" not in elements(found), made


@pytest.fixture(scope="module")
def kubelet(pytestconfig: pytest.Config) -> Path:
    """The kubelet's own expansion, built now if this machine has never built it."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            return expansion()
        except BinariesMissingError as error:
            pytest.fail(str(error), pytrace=False)


SIGNS = ["$", "$$", "$(", "(", ")", "$(E)", "$(F)", "$(G)", "$($(E))", "E", ":", "/x", "\n", "é"]
TEXTS = st.lists(st.sampled_from(SIGNS), max_size=10).map("".join).filter(lambda text: "$é" not in text)
"""Not a dollar before what is not ASCII: there the kubelet cuts the sign in two, and no element begins or ends."""


Case = tuple[str, dict[str, str]]
CASES = st.lists(st.tuples(TEXTS, st.dictionaries(st.sampled_from("EF"), TEXTS)), min_size=1, max_size=50)


def answers(kubelet: Path, cases: Sequence[Case]) -> list[str]:
    """What the kubelet makes of values beside these variables."""
    lines = "".join(json.dumps({"value": text, "variables": values}) + "\n" for text, values in cases)
    done = subprocess.run([kubelet], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.controlplane
@settings(deadline=None)
@given(CASES)
def test_references_expand_as_by_the_kubelet(kubelet: Path, cases: list[Case]) -> None:
    """Here, and in what is expected of generated pods."""
    theirs = answers(kubelet, cases)
    assert [expanded(text, values) for text, values in cases] == theirs
    for (text, values), answer in zip(cases, theirs, strict=True):
        before = env(*((name, value.replace("$", "$$")) for name, value in values.items()))
        assert effective({"env": [*before, *env(("X", text))]})["X"] == answer


@pytest.mark.controlplane
@settings(deadline=None)
@given(CASES)
def test_a_rewritten_path_means_the_same_to_the_kubelet(kubelet: Path, cases: list[Case]) -> None:
    """A known value in place of its reference changes nothing, whatever stands around it."""
    known: list[Case] = []
    for text, values in cases:
        names = [text[at + 2 :].partition(")")[0] for at in range(len(text)) if text.startswith("$(", at)]
        known.append((text, {name: values.get(name, "").replace("$", "") for name in names}))
    rewritten = [(resolved(text, values), values) for text, values in known]
    assert answers(kubelet, rewritten) == answers(kubelet, known)


def test_many_references_take_no_longer() -> None:
    """Values are put in place of references only up to a length: 64 of 100,000 signs would be megabytes."""
    entries = env(("E", "/x::" + "y" * 100_000), (PATH, ":".join(["$(E)"] * MAX_REFERENCES)))
    outcome = injected(entries)
    assert len(outcome.env()[PATH] or "") < 10_000


def test_too_many_references_are_denied() -> None:
    """Each is looked at, and no honest path has so many."""
    with pytest.raises(Denied, match=r"VGW318: .* references"):
        injected(env((PATH, ":".join(["$(E)"] * (MAX_REFERENCES + 1)))))


@each_of("letter, size", [("a", 1), ("é", 2), ("世", 3), ("😀", 4)])
def test_the_length_of_a_variable_is_that_of_linux(letter: str, size: int) -> None:
    """Bytes of ``NAME=value`` and a zero byte, as the variable is once it begins with the shim's directories."""
    led = len(injected(env((PATH, "/a"))).env()[PATH] or "") - len("/a")
    space = MAX_VARIABLE - len(PATH) - len("=") - led - len("\0")
    value = letter * (space // size) + "a" * (space % size)
    assert len(f"{PATH}={injected(env((PATH, value))).env()[PATH]}".encode()) + 1 == MAX_VARIABLE
    with pytest.raises(Denied, match="VGW318"):
        injected(env((PATH, f"{value}a")))


@pytest.mark.long
@pytest.mark.parametrize("led, hole", [(search_path, "::"), (search_path, ";:"), (preload_list, "  ")])
def test_empty_elements_cost_little(led: Callable[[tuple[str, ...], str], str], hole: str) -> None:
    """A path may be megabytes of them: each may cost a few times what an element costs, not ten times."""

    def seconds(text: str) -> float:
        began = process_time()
        led(("/opt/lib",), text)
        return process_time() - began

    without, with_ = (min(seconds(text * 60_000) for _ in range(5)) for text in (f"aa{hole[-1]}", f"a{hole}"))
    assert with_ < 6 * without
