"""Documents that nobody would write by mistake: every key of the schema with values that it was not made for.

One starts from a document that is in order, and puts hostile values at places of the schema; or is no YAML at all.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.mapping.vendors import ACME
from webhook.cli.commands.schema import mapping_json_schema
from webhook.mapping.document import parse
from webhook.mapping.load import builtin
from webhook.mapping.settings import Settings

SCHEMA = mapping_json_schema()
SETTINGS_SCHEMA = Settings.model_json_schema(by_alias=True)
EXTENSIONS = st.sampled_from(sorted(builtin())).map(lambda name: {"extends": name})
OWN = [parse(ACME, "")[0].data, *(document.data for document in builtin().values())]

PATTERNS = [
    "(?i)a", "(?i:a)", "(?P<m>a)", "(?<m>a)", "(a+)+b", "a{1000}", "(a{900}){900}", "^a$", r"\ba", r"a\Z", r"\1", "(?=a)",
    "(?<!a)", "(?>a)", "a++", "[", "(", ")", "*", "a\\", r"\Qa", r"\C", r"\p{L}{900}", "(" * 120 + ")" * 120, ".*", "", "[^a]",
    "(?#x)", "a|", "|", "[[:alpha:]]", "[a-", "(a|a)*b", "a{,5}", "a{5,1}", "\\x{10FFFF}", "é+",
]  # fmt: skip
KEYS = [
    "{x}/gpu", "{x}", "{x}{x}", "{x}{y}{z}", "{container}", "{}", "{", "}", "{X}", "*", "**", "*a*", "*/*", "a", "a*", "app",
    "cpu", "memory", "pods", "hugepages-2Mi", "attachable-volumes-x", "kubernetes.io/x", "x.k8s.io/y", "a/b/c", "/", "a/",
    "nvidia.com/gpu", "x.example/" + "a" * 63, "x.example/" + "a" * 400, "X.example/a", "x.example/ä", "x.example/a b",
    "'", "a'b", "/a", "x.example/*", "*.example/a", "x.example/{x}-{y}", "\n", "\x7f", "😀",
]  # fmt: skip
AMOUNTS = [
    "all", "unlimited", "1Mi", "1%", "0", "-1", "1e18", "1e-9", "1e99999", "9" * 60, "1n", "0.0000000001", "Inf", "nan", "1Zi",
    "%", "٣", "absent", "present", "1..", "..1", "1..9 by 0", "0..0", "9..1", "1.." + "9" * 50, "0.5..1e9",
    "1..99999999 by 0.001",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 100, 101, 2**31, 2**63 - 1, 2**63, -(2**63), 10**39, -(10**39)]
TEXTS = st.sampled_from([*PATTERNS, *KEYS, *AMOUNTS, "x", "y", "acme", "gpu", "truthy", "none", "nvidia"])
SCALARS = st.one_of(TEXTS, st.sampled_from(NUMBERS), st.booleans(), st.none(), st.text(max_size=5))


def _long(value: Any) -> Any:
    return st.sampled_from([2, 33, 65, 600, 3000]).map(lambda count: [value] * count)


def _different(count: int) -> dict[str, Any]:
    return {f"k{number}": {"memory": "1Gi"} for number in range(count)}


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = st.one_of(
    SCALARS,
    SCALARS,
    st.lists(SCALARS, max_size=4),
    SCALARS.flatmap(_long),
    st.sampled_from([33, 65, 600, 3000]).map(lambda count: [f"v{number}" for number in range(count)]),
    st.sampled_from([1, 33, 600, 3000]).map(_different),
    st.dictionaries(TEXTS, SCALARS, max_size=3),
    st.sampled_from([5, 31, 40, 200]).map(_nested),
    st.sampled_from([300, 2000, 100_000]).flatmap(
        lambda count: st.sampled_from(["a" * count, "*a" * count, "(" * count])
    ),
)


@st.composite
def _value(draw: st.DrawFn, node: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Any:
    """What a place of the schema may hold, or nearly; hostile at random."""
    node = _resolved(node, root)
    if "anyOf" in node or "oneOf" in node:
        return draw(_value(draw(st.sampled_from(node.get("anyOf") or node["oneOf"])), root, depth))
    if depth > 6 or draw(st.integers(0, 5)) == 0:
        return draw(HOSTILE)
    if "enum" in node or "const" in node:
        return draw(st.sampled_from(node.get("enum") or [node["const"]]))
    if node.get("type") == "object":
        if "properties" in node:
            names = draw(st.lists(st.sampled_from(sorted(node["properties"])), min_size=1, max_size=3, unique=True))
            return {name: draw(_value(node["properties"][name], root, depth + 1)) for name in names}
        more = node.get("additionalProperties")
        keys = draw(st.lists(TEXTS, max_size=3))
        return {key: draw(_value(more if isinstance(more, dict) else {}, root, depth + 1)) for key in keys}
    if node.get("type") == "array":
        return [draw(_value(node["items"], root, depth + 1)) for _ in range(draw(st.integers(0, 3)))]
    if node.get("type") == "integer":
        return draw(st.sampled_from(NUMBERS))
    if node.get("type") == "boolean":
        return draw(st.booleans())
    return draw(TEXTS)


def _resolved(node: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    return root["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


@st.composite
def named(draw: st.DrawFn) -> dict[str, Any]:
    """One in which only what becomes a pattern or a name is hostile: everything that reads it gets to see it."""
    data = copy.deepcopy(OWN[0])
    data["variables"] = {"x": {"values": draw(st.one_of(st.sampled_from(PATTERNS), st.just(["a", "b"])))}}
    if draw(st.booleans()):
        data["variables"]["y"] = {
            "rows": {"a": {}, "b.c": {"memory": "1Gi"}},
            "others": draw(st.sampled_from(PATTERNS)),
        }
    key = st.one_of(
        st.sampled_from(["acme.com/{x}-n", "acme.com/{x}-{y}", "acme.com/{y}", "acme.com/{x}*"]), st.sampled_from(KEYS)
    )
    data["keys"]["gpu"]["resource"] = draw(st.one_of(st.just("acme.com/{x}-gpu"), key))
    for what in draw(st.sets(st.sampled_from(["owned", "hints", "known", "requestKey", "match"]))):
        if what == "requestKey":
            data["keys"]["more"] = {"label": "acme.com/more", "requestKey": draw(key), "is": "other"}
        elif what == "match":
            data["match"] = {draw(st.sampled_from(["keys", "resources"])): [draw(key)]}
        else:
            data[what] = draw(st.lists(key, max_size=3))
    return data


@st.composite
def mappings(draw: st.DrawFn) -> dict[str, Any]:
    """A mapping document in which some places are hostile."""
    data = draw(EXTENSIONS) if draw(st.booleans()) else copy.deepcopy(draw(st.sampled_from(OWN)))
    properties = SCHEMA["$defs"]["Mapping"]["properties"]
    for _ in range(draw(st.integers(1, 3))):
        _changed(draw, data, properties)
    return data


def _changed(draw: st.DrawFn, data: dict[str, Any], properties: Mapping[str, Any]) -> None:
    """One key, whole; or something inside of what it already says."""
    key = draw(st.sampled_from(sorted({*properties, "extends"})))
    inner: Any = data.get(key)
    if not inner or draw(st.booleans()):
        data[key] = draw(_value(properties.get(key, {}), SCHEMA))
        return
    while isinstance(inner, dict | list) and inner:
        at: Any = draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else list(range(len(inner)))))
        if not isinstance(inner[at], dict | list) or not inner[at] or draw(st.integers(0, 3)) == 0:
            inner[at] = draw(_of_the_type(inner[at]))
            return
        inner = inner[at]


def _of_the_type(present: Any) -> st.SearchStrategy[Any]:
    """Hostile, but mostly of the type of what is there, so that it is looked at by more than the schema."""
    alike: st.SearchStrategy[Any] = SCALARS
    if isinstance(present, str):
        alike = TEXTS
    elif isinstance(present, int):
        alike = st.sampled_from(NUMBERS)
    elif isinstance(present, list):
        alike = st.sampled_from([0, 2, 30, 60, 600]).map(lambda count: present * count)
    elif isinstance(present, dict):
        alike = st.sampled_from([0, 30, 60, 500]).map(
            lambda count: {f"{key}{number or ''}": value for key, value in present.items() for number in range(count)}
        )
    return st.one_of(alike, alike, alike, HOSTILE)


SETTINGS = _value(SETTINGS_SCHEMA, SETTINGS_SCHEMA)
BROKEN = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["[" * 100_000, "{" * 5000, "a: " * 3000, "- " * 5000, "&a [*a]", "\x00", "\ud800", "!!python/object:x", "%"]
    ),
    st.sampled_from(
        ["vendor: x\n" * 3000, "".join(f"k{n}: 1\n" for n in range(20_000)), "x" * 2_000_000, "---\n" * 5000]
    ),
)


def text_of(data: Any) -> str:
    """As a file: JSON is YAML, a line to each entry."""
    return json.dumps(data, indent=1, ensure_ascii=False)
