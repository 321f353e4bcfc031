"""Undecoded lists of variables: what matters is found, however it is written, and hundreds of others stay undecoded."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.naming import each_of
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import WatchedVariables

NAMES = ["ACME_OFF", "ACME_MEMORY", "LD_PRELOAD", "LD_LIBRARY_PATH", "ACME_POLICY_A"]
WATCHED = WatchedVariables([*NAMES[:-1], "ACME_POLICY*"])


@each_of("name", NAMES)
@each_of("dump", ['{"name":"%s"}', '{ "name" :\t"%s" }', '{"value":"x","name":"%s"}', '\n{"name"\n:\r"%s"}'])
def test_watched_name_is_found(name: str, dump: str) -> None:
    """However the JSON is laid out."""
    assert WATCHED.among(f"[{dump % 'A'},{dump % name}]".encode())


def test_escaped_name_does_not_hide() -> None:
    """A name, or the key before it, may be spelled with escapes."""
    for text in (r'[{"name":"\u0041CME_OFF"}]', r'[{"n\u0061me":"ACME_OFF"}]'):
        assert json.loads(text) == [{"name": "ACME_OFF"}]
        assert WATCHED.among(text.encode())


@each_of(
    "entries",
    [
        [],
        [{"name": "A", "value": "ACME_OFF"}],
        [{"name": "MY_ACME_OFF", "value": '\\ " / \n'}],
        [{"name": "ACME_OFFICE", "value": "1"}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ],
)
def test_ordinary_list_is_left_undecoded(entries: list[Any]) -> None:
    """No name of these is watched."""
    assert not WATCHED.among(json.dumps(entries).encode())


def test_absent_list_and_no_names() -> None:
    """Nothing to look at, or nothing to look for."""
    assert not WATCHED.among(b"")
    assert not WATCHED.among(b"null")
    assert not WatchedVariables([]).among(b'[{"name":"ACME_OFF"}]')


@given(
    entries=st.lists(st.tuples(st.sampled_from([*NAMES, "A", "LD", "é"]) | st.text(max_size=5), st.text(max_size=9)))
)
def test_nothing_is_missed(entries: list[tuple[str, str]]) -> None:
    """Every watched name of a decoded list is found in the undecoded one."""
    matters = any(name in NAMES for name, _ in entries)
    for ascii_only in (True, False):
        text = json.dumps([{"name": name, "value": value} for name, value in entries], ensure_ascii=ascii_only)
        assert WATCHED.among(text.encode("utf-8", "surrogatepass")) or not matters


def test_pattern_without_a_beginning_is_found_in_every_list() -> None:
    """Better a list decoded for nothing than a variable missed."""
    assert WatchedVariables(["*_OFF"]).among(b'[{"name":"A"}]')


def test_more_names_than_an_expression_can_hold() -> None:
    """Every list is decoded then."""
    many = WatchedVariables(f"{number}_{'X' * 200}" for number in range(20_000))
    assert many.among(b'[{"name":"A"}]')
    assert not many.among(b"")


def test_policy_watches_guard_shim_and_plugin() -> None:
    """The variables that any vendor's guard or shim looks for, and those that a device plugin sets."""
    watched = load_policy().watched_variables
    for name in ("NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_DEVICE_MEMORY_LIMIT_0", "ALIYUN_COM_GPU_MEM_DEV"):
        assert watched.among(json.dumps([{"name": name, "value": "1"}]).encode())
    assert not watched.among(b'[{"name":"PATH","value":"/bin"}]')


@each_of("name", ['A"B', "C\\D", "T\tB", "E/F"])
def test_name_that_json_escapes(name: str) -> None:
    """Kubernetes permits nearly any character in a name; some encoders write a slash with a backslash."""
    text = json.dumps([{"name": name}])
    for written in (text, text.replace("/", "\\/")):
        assert WatchedVariables([name]).among(written.encode())
