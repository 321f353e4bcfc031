"""What becomes of a pod is operations that apply to exactly the object that was sent; and the two appliers of the tests."""

import itertools
import json
from typing import Any

import jsonpatch
import msgspec
import pytest

from tests.strict_patch import apply_strictly
from webhook.patch import Edits, Operation, change, escape, slots, write_list, write_map
from webhook.pod import EnvVar, decode_pod


def applied(sent: Any, operations: list[Operation]) -> Any:
    """What was sent after the operations, by the strictest reader and by the most lenient."""
    data = json.loads(msgspec.json.encode(operations))
    strict = apply_strictly(sent, data)
    assert strict == jsonpatch.apply_patch(sent, data)
    return strict


def resources_after(container: Any, **numbers: int | None) -> Any:
    """The resources of a container in which numbers are written, or taken out."""
    pod = {"spec": {"containers": [{"name": "c", **container}]}}
    (slot,) = slots(decode_pod(json.dumps(pod).encode()))
    slot.resources.update(numbers)
    operations: list[Operation] = []
    slot.write(operations)
    return applied(pod, operations)["spec"]["containers"][0].get("resources")


@pytest.mark.parametrize(
    "resources, after",
    [
        ({"limits": None}, {"limits": {"a/b": "2"}, "requests": {"a/b": "2"}}),
        ({"requests": {"a/b": "1"}}, {"requests": {"a/b": "2"}, "limits": {"a/b": "2"}}),
        ({"limits": {"a/b": 2}, "requests": {"a/b": "x"}}, {"limits": {"a/b": 2}, "requests": {"a/b": "2"}}),
        (
            {"limits": {"old/~": "1"}, "requests": {"old/~": "1", "cpu": 1}, "f": 1},
            {"limits": {"a/b": "2"}, "requests": {"cpu": 1, "a/b": "2"}, "f": 1},
        ),
    ],
)
def test_resources_stand_in_limits_and_requests(resources: Any, after: Any) -> None:
    """Whatever maps are there: one name is written to both, another taken from both, a right value left as it is spelled."""
    container = {} if resources is None else {"resources": resources}
    assert resources_after(container, **{"a/b": 2, "old/~": None}) == after


def variables(*names: str) -> list[EnvVar]:
    """Variables of these names."""
    return [EnvVar(name, name) for name in names]


def test_entries_become_others() -> None:
    """Left out or replaced, by one or more: the others keep their place, an edited one what nobody reads."""
    env = [{"name": name, "value": "1", "later": name} for name in "abc"]
    sent = msgspec.json.decode(json.dumps(env), type=list[EnvVar])
    for counts in itertools.product([None, 0, 1, 2, 3], repeat=3):
        edits: Edits = {}
        for entry, count in zip(sent, counts, strict=True):
            if count is not None:
                change(sent, edits, {id(entry): [EnvVar(entry.name, str(number)) for number in range(count)]})
        expected = [
            {"name": each["name"], "value": str(number), **({} if number else {"later": each["name"]})}
            for each, count in zip(env, counts, strict=True)
            for number in range(count or 0)
        ]
        kept = [each for each, count in zip(env, counts, strict=True) if count is None]
        operations: list[Operation] = []
        write_list("/env", sent, edits, operations)
        after = applied({"env": env}, operations)["env"]
        assert sorted(map(json.dumps, after)) == sorted(json.dumps(each) for each in (*expected, *kept))
        assert [each["name"] for each in after] == sorted(each["name"] for each in after)


def test_a_reference_that_goes_is_taken_out() -> None:
    """A value in its place is written."""
    sent = msgspec.json.decode('[{"name": "b", "valueFrom": {"x": {}}}]', type=list[EnvVar])
    operations: list[Operation] = []
    write_list("/env", sent, {0: (EnvVar("b", "3"),)}, operations)
    assert applied({"env": [{"name": "b", "valueFrom": {"x": {}}}]}, operations) == {
        "env": [{"name": "b", "value": "3"}]
    }


@pytest.mark.parametrize("present", [{}, {"m": None}, {"m": {}}, {"m": {"a~/b": "1", "gone/x": "y"}}])
def test_maps_are_made_where_there_is_none(present: Any) -> None:
    """A key is written whatever is there, another taken away if it is there."""
    operations: list[Operation] = []
    write_map("/m", present.get("m"), {"a~/b": "2"}, operations)
    assert applied(present, operations) == {"m": {"a~/b": "2"}}


def test_what_was_dropped_or_replaced_is_gone() -> None:
    """Of equal entries only the one that is meant."""
    env = [{"name": name, "value": "1"} for name in "aab"]
    pod = {"spec": {"containers": [{"name": "c", "env": env}]}}
    (slot,) = slots(decode_pod(json.dumps(pod).encode()))
    first, second, third = slot.env
    slot.drop("env", [second])
    slot.change("env", {id(third): variables("c", "d")})
    assert slot.env == [first, *variables("c", "d")]
    slot.drop("env", [slot.env[1]])
    assert slot.env == [first, *variables("d")]


@pytest.mark.parametrize("key, token", [("a/b", "a~1b"), ("a~b", "a~0b"), ("~1", "~01"), ("", ""), ("~/", "~0~1")])
def test_keys_as_tokens(key: str, token: str) -> None:
    """RFC 6901: `~` before `/`, or `~1` would become a slash."""
    assert escape(key) == token
