"""Edits to a pod become operations that apply to exactly the object that was sent; and the two appliers of the tests."""

import json
from typing import Any

import jsonpatch
import pytest

from tests.strict_patch import PatchError, apply_strictly
from webhook.patch import ContainerEdits, PodEdits, escape, slots
from webhook.pod import decode_pod


def edited(pod: Any, edit: Any) -> Any:
    """The pod after an edit, applied by the strictest reader and by the most lenient."""
    view = decode_pod(json.dumps(pod).encode())
    edits = PodEdits(view)
    edit(edits, *(edits.container(slot) for slot in slots(view)))
    operations = edits.operations()
    strict = apply_strictly(pod, operations)
    assert strict == jsonpatch.apply_patch(pod, json.loads(json.dumps(operations)))
    return strict


def with_container(**members: Any) -> Any:
    """A pod with one container."""
    return {"metadata": {}, "spec": {"containers": [{"name": "c", **members}]}}


@pytest.mark.parametrize(
    "resources, after",
    [
        (None, {"limits": {"a/b": "2"}, "requests": {"a/b": "2"}}),
        ({}, {"limits": {"a/b": "2"}, "requests": {"a/b": "2"}}),
        ({"limits": None}, {"limits": {"a/b": "2"}, "requests": {"a/b": "2"}}),
        ({"limits": {}}, {"limits": {"a/b": "2"}, "requests": {"a/b": "2"}}),
        ({"limits": {"x": "1"}}, {"limits": {"x": "1", "a/b": "2"}, "requests": {"a/b": "2"}}),
        ({"requests": {"a/b": "1"}}, {"requests": {"a/b": "2"}, "limits": {"a/b": "2"}}),
        ({"limits": {"a/b": "2000m"}}, {"limits": {"a/b": "2000m"}, "requests": {"a/b": "2"}}),
        ({"limits": {"a/b": 2}, "requests": {"a/b": "x"}}, {"limits": {"a/b": 2}, "requests": {"a/b": "2"}}),
        ({"limits": {"old/~": "1"}}, {"limits": {"a/b": "2"}, "requests": {"a/b": "2"}}),
        (
            {"limits": {"old/~": "1"}, "requests": {"old/~": "1", "cpu": 1}, "f": 1},
            {"limits": {"a/b": "2"}, "requests": {"cpu": 1, "a/b": "2"}, "f": 1},
        ),
    ],
)
def test_resources_stand_in_limits_and_requests(resources: Any, after: Any) -> None:
    """Whatever maps are there: one name is written to both, another taken from both, a right value left as it is spelled."""

    def edit(_: PodEdits, container: ContainerEdits) -> None:
        container.resources |= {"a/b": 2, "old/~": None}

    pod = with_container() if resources is None else with_container(resources=resources)
    assert edited(pod, edit)["spec"]["containers"][0]["resources"] == after


@pytest.mark.parametrize("resources", [None, {}, {"limits": None, "requests": {}}, {"limits": {"x": "1"}}])
def test_taking_away_what_is_not_there_is_nothing(resources: Any) -> None:
    """No ``remove`` of a missing key, no empty maps for nothing."""
    pod = with_container(resources=resources)
    assert edited(pod, lambda _, container: container.resources.update({"a/b": None})) == pod


@pytest.mark.parametrize("present", [{}, {"env": None}, {"env": []}])
def test_lists_are_made_where_there_is_none(present: Any) -> None:
    """Absent, null and empty lists all take an entry."""
    pod = edited(
        with_container(**present), lambda _, container: container.env_appended.append({"name": "A", "value": "a"})
    )
    assert pod["spec"]["containers"][0]["env"] == [{"name": "A", "value": "a"}]


def test_changes_inside_a_list_keep_their_places() -> None:
    """Removing, renaming, changing and inserting entries at once: earlier indexes keep their meaning."""
    env = [{"name": name, "value": name} for name in "abcde"]

    def edit(_: PodEdits, container: ContainerEdits) -> None:
        container.env_removed.update({0, 3})
        container.env_values[1] = "B"
        container.env_names[2] = "renamed"
        container.env_inserted[3] = {"name": "new"}
        container.env_appended.append({"name": "last"})

    pod = edited(with_container(env=env), edit)
    assert pod["spec"]["containers"][0]["env"] == [
        {"name": "b", "value": "B"},
        {"name": "renamed", "value": "c"},
        {"name": "new"},
        {"name": "e", "value": "e"},
        {"name": "last"},
    ]


@pytest.mark.parametrize("present", [{}, {"labels": None}, {"labels": {}}, {"labels": {"a~/b": "1", "gone/x": "y"}}])
def test_maps_are_made_where_there_is_none(present: Any) -> None:
    """A key is written whatever is there, another taken away if it is there."""
    pod = {"metadata": present, "spec": {"containers": [{"name": "c"}]}}

    def edit(edits: PodEdits, _: ContainerEdits) -> None:
        edits.labels.values.update({"a~/b": "2", "gone/x": None})

    assert edited(pod, edit)["metadata"]["labels"] == {"a~/b": "2"}


def test_nothing_to_do_is_no_operation() -> None:
    """What is there already is not written again; the stamp comes only with something else."""
    pod = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c"}]}}
    edits = PodEdits(decode_pod(json.dumps(pod).encode()))
    edits.labels.values.update({"a": "1", "b": None})

    def stamp() -> None:
        edits.labels.values["l"] = "m"
        edits.annotations.values["s"] = "t"

    assert edits.operations(stamp) == ()
    edits.labels.values["a"] = "2"
    stamped = apply_strictly(pod, edits.operations(stamp))
    assert stamped["metadata"] == {"labels": {"a": "2", "l": "m"}, "annotations": {"s": "t"}}


def test_slots_are_init_containers_first() -> None:
    """As the kubelet starts them."""
    pod = {"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "j"}]}}
    found = slots(decode_pod(json.dumps(pod).encode()))
    assert [(slot.name, slot.path) for slot in found] == [
        ("i", "/spec/initContainers/0"),
        ("j", "/spec/initContainers/1"),
        ("c", "/spec/containers/0"),
    ]


@pytest.mark.parametrize("key, token", [("a/b", "a~1b"), ("a~b", "a~0b"), ("~1", "~01"), ("", ""), ("~/", "~0~1")])
def test_keys_as_tokens(key: str, token: str) -> None:
    """RFC 6901: `~` before `/`, or `~1` would become a slash."""
    assert escape(key) == token


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/missing/key", "value": 1},
        {"op": "add", "path": "/list", "value": []},
        {"op": "add", "path": "/map", "value": {}},
        {"op": "add", "path": "/list/2", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "replace", "path": "/list/1", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": "/list/-"},
        {"op": "remove", "path": "/text/0"},
        {"op": "test", "path": "/text", "value": "t"},
        {"op": "copy", "path": "/list/0", "from": "/text"},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/m~2", "value": 1},
    ],
)
def test_the_strict_applier_is_strict(operation: Any) -> None:
    """It refuses whatever some applier, or the API server, could refuse or some user regret."""
    with pytest.raises(PatchError):
        apply_strictly({"list": [0], "map": {}, "text": "t"}, [operation])
