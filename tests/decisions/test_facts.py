"""The steps see only the facts of a review: nothing that any document names is missing from them."""

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.depth import few_or_all, in_turn
from tests.generators.requests import requesting_pods
from webhook.admission import Context, Namespace, decide
from webhook.cli.commands.schema import mapping_json_schema
from webhook.labels import INJECT, TARGET
from webhook.mapping.document import parse
from webhook.mapping.load import build_policy, builtin
from webhook.mapping.model.names import ReadKeys
from webhook.mapping.model.policy import Policy, watching
from webhook.mapping.notation import NameSet
from webhook.pod import decode_pod

Json = dict[str, Any]

EVERY_KEY = (Path(__file__).parent / "every_key.yaml").read_text()
SETTINGS = "cards: {X100: 40Gi}\n"
NAMESPACE = Namespace("n", {INJECT: "enabled"})
ABOUT_DOCUMENTS = {"apiVersion", "kind", "about", "sources", "sharedNames", "match", "translateTo", "drop", "inactive"}
"""Keys of the schema whose values name nothing in a pod, or what other keys name."""


@cache
def documents() -> tuple[Any, ...]:
    """All documents as data, the built-in ones included."""
    return (*(document.data for document in builtin().values()), *(each.data for each in parse(EVERY_KEY, "own")))


@cache
def reduced() -> Policy:
    """The policy of these documents."""
    return build_policy(parse(EVERY_KEY, "own"), parse(SETTINGS, "settings")[0])


@cache
def unreduced() -> Policy:
    """The same policy, under which everything in a pod is a fact."""
    policy = replace(reduced())
    policy.__dict__["read_keys"] = ReadKeys(NameSet.of(["*"]), NameSet(), policy.near)
    policy.__dict__["watched_variables"] = watching(["*"])
    policy.__dict__["marks_of_mounts"] = policy.__dict__["marks_of_belongings"] = lambda raw: b"[" in raw
    return policy


def named(data: Any) -> Iterator[str]:
    """Every text in a document, also those that are keys of a map; something for each variable and star."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in ABOUT_DOCUMENTS:
                yield from (key, *named(value))
    elif isinstance(data, list):
        for value in data:
            yield from named(value)
    elif isinstance(data, str):
        yield re.sub(r"\{[^{}]*\}", "main", data).replace("*", "x")


def schema_keys(
    node: Mapping[str, Any], root: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The path of every key of the schema."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    for choice in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from schema_keys(choice, root, path)
    for key, value in node.get("properties", {}).items():
        yield (*path, key)
        yield from schema_keys(value, root, (*path, key))
    for inner in (node.get("additionalProperties"), node.get("items")):
        if isinstance(inner, dict):
            yield from schema_keys(inner, root, (*path, "*"))


def used(
    data: Any, node: Mapping[str, Any], root: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The paths of the schema's keys that a document has."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    for choice in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from used(data, choice, root, path)
    if isinstance(data, dict):
        for key, value in data.items():
            if key in node.get("properties", {}):
                yield (*path, key)
                yield from used(value, node["properties"][key], root, (*path, key))
            elif isinstance(more := node.get("additionalProperties"), dict):
                yield from used(value, more, root, (*path, "*"))
    elif isinstance(data, list) and isinstance(node.get("items"), dict):
        for value in data:
            yield from used(value, node["items"], root, (*path, "*"))


def test_documents_have_every_key_of_the_schema() -> None:
    """A new key of the schema is in `every_key.yaml` or a built-in document, so that the next test draws what it names."""
    schema = mapping_json_schema()
    mapping = schema["$defs"]["Mapping"]
    found = set(itertools.chain.from_iterable(used(data, mapping, schema) for data in documents()))
    missing = [path for path in dict.fromkeys(schema_keys(mapping, schema)) if path not in found]
    assert missing == [], "add them to every_key.yaml"


def _main(pod: Json) -> Json:
    """The last container of a pod."""
    container: Json = pod["spec"]["containers"][-1]
    return container


def _preferred(name: str) -> Json:
    """An affinity that prefers nodes with a label."""
    preference = {"weight": 1, "preference": {"matchExpressions": [{"key": name, "operator": "Exists"}]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}


Change = Callable[[Json, str], object]
OF_KEYS: tuple[Change, ...] = (
    lambda pod, name: pod["metadata"]["labels"].update({name: "true"}),
    lambda pod, name: pod["metadata"]["annotations"].update({name: "true"}),
    lambda pod, name: pod["spec"].setdefault("nodeSelector", {}).update({name: "X100"}),
    lambda pod, name: pod["spec"].update(affinity=_preferred(name)),
    lambda pod, name: pod["spec"].update(tolerations=[{"key": name, "operator": "Exists"}]),
    lambda pod, name: pod["spec"].update(schedulingGates=[{"name": name}]),
)
"""What a document names, as a label, an annotation, in the node selector, as a preference, a toleration and a gate."""

REFERENCE = {"configMapKeyRef": {"name": "true-x", "key": "k"}}
OF_OTHERS: tuple[Change, ...] = (
    lambda pod, name: _main(pod).setdefault("env", []).append({"name": name, "value": "1"}),
    lambda pod, name: _main(pod).setdefault("env", []).append({"name": name, "valueFrom": REFERENCE}),
    lambda pod, name: _main(pod).setdefault("volumeMounts", []).append({"name": "v", "mountPath": name}),
    lambda pod, name: pod["spec"].setdefault("volumes", []).append({"name": name, "emptyDir": {}}),
)
"""What a document names, as a variable, a mount and a volume."""


OWN = [each.data["vendor"] for each in parse(EVERY_KEY, "own")]


@few_or_all
@pytest.mark.parametrize("source", [data["vendor"] for data in documents()])
def test_facts_are_all_that_decides(source: str, most: int) -> None:
    """Whatever any document names, wherever it is in a pod: deciding by the facts alone makes no difference."""
    random_ = random.Random(source)
    names = {data["vendor"]: sorted({*named(data)}) for data in documents()}
    pods = requesting_pods(reduced().vendors[source], random_)
    for at, name in enumerate(names[source]):
        changes = OF_KEYS if "/" in name[1:] and name[0] != "/" else OF_OTHERS
        for change in changes if source in OWN else in_turn(changes, at, most):
            _compare(next(pods), random_.choice([None, "nvidia", "acme", "noted"]), change, name)


@pytest.mark.parametrize("target", ["acme", "noted"])
def test_facts_are_all_that_decides_of_a_target(target: str) -> None:
    """The same of what the target's document names, and its guard, its shim and its place read or write."""
    random_ = random.Random(target)
    (data,) = (data for data in documents() if data.get("vendor") == target)
    pods = requesting_pods(reduced().vendors["nvidia"], random_)
    for name in sorted({*named(data)}):
        for change in (*OF_KEYS, *OF_OTHERS):
            _compare(next(pods), target, change, name)


def _compare(pod: Json, target: str | None, change: Change, name: str) -> None:
    context = Context(Namespace("n", {INJECT: "enabled"}, {} if target is None else {TARGET: target}), "privileged")
    change(pod, name)
    view = decode_pod(json.dumps(pod).encode())
    assert decide(view, context, reduced()) == decide(view, context, unreduced()), (name, pod)
