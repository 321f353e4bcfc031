"""Names that only the source's system knows: a translated pod keeps them, and one warning lists them."""

import json
from functools import cache
from typing import Any

import pytest

from tests.naming import each_of
from webhook.admission import Context, Decision, Namespace, decide
from webhook.labels import INJECT
from webhook.mapping.document.problem import MappingError
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

DOCUMENTS = """
vendor: old
family: x
system: Old
keys: {gpu: {resource: old.example/gpu, is: devices}}
forms: [{name: whole, memory: all, cores: 100}]
translateTo: new
hints: [old.example/hint]
belongs: [old.example/*, queue.example/name, pool=old, shared.example/both, new.example/hint, new.example/text]
place: {nodeSelector: {placed: "yes"}, tolerations: [{key: taint.example/old}], labels: {placed.example/l: x}}
---
vendor: other
family: x
system: Other
keys: {gpu: {resource: other.example/gpu, is: devices}, left: {resource: other.example/left, is: other}}
forms: [{when: {left: present}, leave: left to it}, {name: whole, memory: all, cores: 100}]
belongs: [other.example/*, queue.example/name]
---
vendor: new
family: x
system: New
keys:
  gpu: {resource: new.example/gpu, is: devices}
  text: {label: new.example/text, is: text}
forms: [{name: whole, memory: all, cores: 100}]
hints: [new.example/hint]
belongs: [shared.example/both]
"""


@cache
def policy() -> Policy:
    """The policy of these documents."""
    return build_policy(parse(DOCUMENTS, "test"))


def decided(spec: dict[str, Any], *keys: str, **metadata: dict[str, str]) -> Decision:
    """The decision on a pod whose containers have these keys."""
    containers = [{"name": f"c{i}", "resources": {"limits": {key: "1"}}} for i, key in enumerate(keys)]
    pod = {"metadata": {"name": "p", **metadata}, "spec": {"containers": containers, **spec}}
    context = Context(Namespace("n", {INJECT: "enabled"}), "privileged")
    return decide(decode_pod(json.dumps(pod).encode()), context, policy())


def reported(decision: Decision) -> list[str]:
    """The messages about names that were kept."""
    assert decision.allowed
    return [finding.message for finding in decision.warnings if finding.reason is Reason.BELONGINGS_KEPT]


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    """A spec with required node affinity."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [*expressions]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def preferred(expression: dict[str, Any]) -> dict[str, Any]:
    """A spec with preferred node affinity."""
    terms = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


IN_SPEC: dict[str, tuple[dict[str, Any], str | None]] = {
    "selector, whatever its value": ({"nodeSelector": {"old.example/pool": "a"}}, "nodeSelector old.example/pool"),
    "selector with the value": ({"nodeSelector": {"pool": "old"}}, "nodeSelector pool=old"),
    "selector with another value": ({"nodeSelector": {"pool": "new"}}, None),
    "selector of the mapping": ({"nodeSelector": {"placed": "yes"}}, "nodeSelector placed=yes"),
    "affinity": (required({"key": "old.example/x", "operator": "Exists"}), "node affinity old.example/x"),
    "one of its values": (
        required({"key": "a", "operator": "Exists"}, {"key": "pool", "operator": "In", "values": ["x", "old"]}),
        "node affinity pool=old",
    ),
    "none of its values": (required({"key": "pool", "operator": "In", "values": ["x"]}), None),
    "preference": (preferred({"key": "old.example/x", "operator": "Exists"}), "node affinity old.example/x"),
    "away from its nodes": (required({"key": "pool", "operator": "NotIn", "values": ["old"]}), None),
    "none of its nodes": (required({"key": "old.example/x", "operator": "DoesNotExist"}), None),
    "toleration": ({"tolerations": [{"key": "old.example/t", "operator": "Exists"}]}, "toleration old.example/t"),
    "toleration of a value": ({"tolerations": [{"key": "pool", "value": "old"}]}, "toleration pool=old"),
    "toleration of the mapping": ({"tolerations": [{"key": "taint.example/old"}]}, "toleration taint.example/old"),
    "toleration of everything": ({"tolerations": [{"operator": "Exists"}, {"key": "queue.example/names"}]}, None),
    "gate": ({"schedulingGates": [{"name": "old.example/g"}]}, "scheduling gate old.example/g"),
    "gate of somebody else": ({"schedulingGates": [{"name": "kueue.example/old.example/g"}]}, None),
    "nothing": ({"affinity": None, "tolerations": None, "schedulingGates": None}, None),
}


@each_of("what", IN_SPEC)
def test_names_in_the_spec(what: str) -> None:
    """Node selector, affinity, tolerations and gates, if they lead to the source's nodes or wait for its scheduler."""
    spec, expected = IN_SPEC[what]
    found = reported(decided(spec, "old.example/gpu"))
    assert found == (
        [f"remove or replace what only Old knows, for New serves the request: {expected}"]
        if expected is not None
        else []
    )
    assert reported(decided(spec, "new.example/gpu")) == []


def test_one_warning_for_all_names() -> None:
    """Also for labels and annotations; hints are reported as hints, and what the target knows is not."""
    labels = {"queue.example/name": "q", "placed.example/l": "x", "shared.example/both": "1", "new.example/text": "t"}
    annotations = {"old.example/hint": "1", "old.example/gang": "g", "new.example/hint": "1", "pool": "old"}
    spec = {"nodeSelector": {"shared.example/both": "1"}}
    decision = decided(spec, "old.example/gpu", labels=labels, annotations=annotations)
    (message,) = reported(decision)
    assert message.endswith(": label queue.example/name, label placed.example/l, annotation old.example/gang")
    assert [f.field for f in decision.warnings if f.reason is Reason.HINT_NOT_CARRIED] == ["old.example/hint"]


def test_no_more_than_a_line() -> None:
    """Of many names the first ones are listed."""
    labels = {f"old.example/{n}": "x" for n in range(10)}
    (message,) = reported(decided({}, "old.example/gpu", labels=labels))
    assert message.count("label ") == 8
    assert message.endswith("old.example/7 and 2 more")
    (message,) = reported(decided({}, "old.example/gpu", labels={f"old.example/{'n' * 120}": "x"}))
    assert message.endswith(f": label old.example/{'n' * 87}…")


def test_systems_that_still_serve_a_container_know_their_names() -> None:
    """Also beside a container that is translated: what one of the pod's systems knows has a meaning."""
    labels = {"queue.example/name": "q"}
    assert len(reported(decided({}, "old.example/gpu", labels=labels))) == 1
    assert reported(decided({}, "old.example/gpu", "other.example/gpu", labels=labels)) == []
    assert reported(decided({}, "old.example/gpu", "other.example/left", labels=labels)) == []
    assert reported(decided({}, "other.example/gpu", labels=labels)) == []


@each_of("name", ["", "a=b=c", "a*=b", "{x}.example/a", "a=*", "*", "a" * 1000])
def test_names_that_match_too_much(name: str) -> None:
    """An empty name, one for every key, and values with patterns are invalid."""
    with pytest.raises(MappingError):
        build_policy(parse(DOCUMENTS.replace("pool=old", json.dumps(name)), "test"))
