"""Every watch, list and command with hostile objects: the others stay in force, and what is not read is named."""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from certs.store import Serving
from tests.captured_log import CapturedLog
from tests.waiting import alongside, until
from webhook.cluster.claims import GROUP, RESOURCE, ClaimTemplates, RefusedError
from webhook.cluster.client import (
    MAX_DEPTH,
    Answer,
    OversizeError,
    UnreadableError,
    list_objects,
    mended,
    read_object,
    split,
)
from webhook.cluster.events import EventQueue, OwnerEvents, WorkloadEvent
from webhook.cluster.policy.documents import LastGood
from webhook.cluster.reflector import Reflector
from webhook.cluster.registration.wanted import Site
from webhook.doctor.reading import Item
from webhook.mapping.load import load_policy
from webhook.pod import OwnerReference
from webhook.replica import in_cluster
from webhook.replica.in_cluster import ClusterOptions, InCluster
from webhook.replica.run import Background, Certificates
from webhook.request import ClaimTemplate
from webhook.server.metrics import Metrics

from .fake_api import END, FakeApi
from .hostile import DEEP, HOSTILE, UNHARMED, hostile, listed, sent, stored
from .test_reflector import Thing
from .things import LIST_PATH

POLICY = load_policy()
PLAIN = json.dumps(stored("plain")).encode()


@pytest.fixture(autouse=True)
def _loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas do not read the mappings again."""
    monkeypatch.setattr(in_cluster, "load_policy", lambda: POLICY)


def cluster(api: FakeApi, captured: CapturedLog) -> InCluster:
    """All that a replica follows."""
    where = ClusterOptions(None, None, None, None, "managed", claims=True)
    certificates = Certificates(Serving(), captured.log)
    return InCluster(
        api, "vgpu-webhook", Site("https://x.example/mutate"), where, captured.log, certificates=certificates
    )


def watches() -> dict[str, tuple[FakeApi, CapturedLog, Reflector[Any, Any], InCluster]]:
    """Every watch of a replica, each with an API server of its own."""
    found = {}
    names = [name for name, _ in cluster(FakeApi(), CapturedLog())._reflectors()]  # noqa: SLF001
    for position, name in enumerate(names):
        api, captured = FakeApi(), CapturedLog()
        whole = cluster(api, captured)
        found[f"{name} {position}"] = (api, captured, [*whole._reflectors()][position][1], whole)  # noqa: SLF001
    return found


def named(captured: CapturedLog) -> list[tuple[str, str]]:
    """What was reported as unreadable, each with the reason."""
    lines = [line.kwargs for line in captured.lines if line.kwargs["event"] == "object_unreadable"]
    assert all({"kind", "namespace", "name", "why", "partly"} <= line.keys() for line in lines)
    return [(f"{line['namespace']}/{line['name']}", line["why"]) for line in lines]


def stores(reflector: Reflector[Any, Any], key: str) -> Callable[[], bool]:
    """Whether an object is stored, when it is asked."""
    return lambda: key in reflector.objects


@pytest.mark.parametrize("how", sorted(HOSTILE))
async def test_every_watch(how: str) -> None:
    """In its list and in its events: the neighbours are stored, each hostile one is reported once, and the watch goes on."""
    for name, (api, captured, reflector, whole) in watches().items():
        path = reflector._path  # noqa: SLF001
        api.answers[path] = Answer(200, listed(hostile(how), PLAIN, hostile(how, "other")))
        later = json.dumps(stored("later")).encode()
        api._watches = deque(  # noqa: SLF001
            [[sent("MODIFIED", hostile(how)), sent("ADDED", hostile(how, "third")), sent("ADDED", later)]]
        )
        async with alongside(reflector.run()):
            await until(stores(reflector, "team/later"), f"{name} after {how}")
            assert "team/plain" in reflector.objects, name
            assert [each.method for each in api.requests] == ["GET", "WATCH"], name
            assert reflector.bugs == 0
        if how not in UNHARMED:
            assert [each for each, _ in named(captured)] == ["team/odd", "team/other", "team/third"], name
            assert reflector.unreadable == 3
            assert b'_unreadable_objects_total{kind="' + name.split()[0].encode() + b'"} 3.0' in exposed(whole)


def exposed(whole: InCluster) -> bytes:
    """The metrics of a replica."""
    metrics = Metrics()
    metrics.also(whole.metrics)
    metrics.also_bugs(whole.bugs)
    return metrics.text()


def followed(*script: list[Any], lists: list[Any], view: Any = None, **rest: Any) -> tuple[FakeApi, CapturedLog, Any]:
    """A watch of things."""
    api, captured = FakeApi({LIST_PATH: deque(lists)}, script), CapturedLog()
    take = view or (lambda thing: thing.value)

    async def sleep(_: float) -> None:
        await asyncio.sleep(0)

    return api, captured, Reflector(api, LIST_PATH, Thing, take, captured.log, sleep=sleep, **rest)


async def test_what_is_read_in_part_is_in_force() -> None:
    """Managed fields do not hide an object; another type does, and what was stored of it is dropped."""
    events = [
        sent("ADDED", hostile("deep", "a", value="new")),
        sent("MODIFIED", hostile("labels of another type", "b")),
        sent("DELETED", hostile("deep", "c")),
        sent("ADDED", hostile("labels that are no characters", "d", value="new")),
    ]
    kept = [json.dumps(stored(name, value="old")).encode() for name in "bc"]
    api, captured, reflector = followed(events, lists=[Answer(200, listed(*kept))])
    async with alongside(reflector.run()):
        await api.over.wait()
        assert reflector.objects == {"team/a": "new", "team/d": "new"}
    assert named(captured) == [
        ("team/a", "nested too deeply"),
        ("team/b", "Expected `object | null`, got `array` - at `$.metadata.labels`"),
        ("team/d", "invalid UTF-8"),
    ]


async def test_lines_that_are_no_events() -> None:
    """They are counted, and neither end the watch nor change its version."""
    garbage = [b"<html>", b"", b'{"type":"ADDED","object":', sent("BOOKMARK", b"[]"), b'{"type":7,"object":{}}', DEEP]
    script = [sent("ADDED", PLAIN.replace(b'"7"', b'"8"')), *garbage, END]
    api, captured, reflector = followed(script, lists=[Answer(200, listed())])
    async with alongside(reflector.run()):
        await api.over.wait()
        assert reflector.unreadable == len(garbage)
        assert list(reflector.objects) == ["team/plain"]
        assert api.requests[-1].query["resourceVersion"] == "8"
    assert [each for each, _ in named(captured)] == ["/"] * len(garbage)


async def test_the_watch_goes_on_after_what_cannot_be_read() -> None:
    """An API server that has forgotten older versions would answer with an error."""
    unread = hostile("labels of another type", "b").replace(b'"7"', b'"9"')
    api, _, reflector = followed([sent("ADDED", unread), END], lists=[Answer(200, listed())])
    async with alongside(reflector.run()):
        await api.over.wait()
        assert api.requests[-1].query["resourceVersion"] == "9"


async def test_the_same_is_reported_once_until_it_is_mended() -> None:
    """Also by a new list; another reason, or the same again after it was read, is another report."""
    bad, worse = hostile("deep", "a"), hostile("labels of another type", "a")
    plain = json.dumps(stored("a")).encode()
    lists = [Answer(200, listed(each)) for each in (bad, bad, plain, bad)]
    gone = sent("ERROR", b'{"code":410}')
    events = [sent("MODIFIED", each) for each in (plain, bad, worse, bad, bad)]
    _, captured, reflector = followed([sent("MODIFIED", bad), gone], [*events, gone], [gone], [], lists=lists)
    async with alongside(reflector.run()):
        await until(lambda: reflector.unreadable == 5)
    assert [why.partition(" ")[0] for _, why in named(captured)] == ["nested", "nested", "Expected", "nested", "nested"]


async def test_an_error_about_one_object() -> None:
    """In what is stored of it, or in whoever is told: it is logged with its place, and the others go on."""

    def view(thing: Thing) -> str:
        if thing.metadata.name == "odd":
            raise KeyError("secret")
        return thing.value

    def changed(keys: Any) -> None:
        if "team/odd" in keys or "team/told" in keys:
            raise ZeroDivisionError

    odd, told = (json.dumps(stored(name)).encode() for name in ("odd", "told"))
    events = [sent("ADDED", odd), sent("ADDED", told), sent("ADDED", PLAIN)]
    api, captured, reflector = followed(events, lists=[Answer(200, listed(odd, PLAIN))], view=view, changed=changed)
    async with alongside(reflector.run()):
        await api.over.wait()
        assert reflector.objects.keys() == {"team/plain", "team/told"}
        assert (reflector.unreadable, reflector.bugs) == (1, 1)
        assert len(api.requests) == 2
    lines = [line.kwargs for line in captured.lines]
    assert [(line["event"], line["error"]) for line in lines] == [
        ("object_unreadable", "KeyError"),
        ("bug", "ZeroDivisionError"),
    ]
    assert all(any("test_hostile_objects" in place for place in line["traceback"]) for line in lines)
    assert "secret" not in str(lines)


async def test_an_unforeseen_error_does_not_end_a_watch() -> None:
    """It lists again after a pause."""
    api, captured, reflector = followed(lists=[ZeroDivisionError(), Answer(200, listed(PLAIN))])
    async with alongside(reflector.run()):
        await api.over.wait()
        assert list(reflector.objects) == ["team/plain"]
    assert captured.logged == ["bug"]
    assert reflector.bugs == 1


async def test_a_page_that_is_too_large() -> None:
    """Smaller ones are requested, from the same place on."""
    api = FakeApi({LIST_PATH: deque([OversizeError("x"), OversizeError("x"), Answer(200, listed(PLAIN))])})
    assert [item.metadata.name for item in await list_objects(api, LIST_PATH, Item)] == ["plain"]
    assert [each.query["limit"] for each in api.requests] == ["500", "62", "7"]
    api = FakeApi({LIST_PATH: deque([OversizeError("x")] * 9)})
    with pytest.raises(OversizeError):
        await list_objects(api, LIST_PATH, Item)
    assert len(api.requests) == 4


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"metadata":{"resourceVersion":"1"}}', listed()[:-2], DEEP]
)
async def test_what_is_no_list(body: bytes) -> None:
    """It is never an empty one."""
    with pytest.raises(UnreadableError):
        await list_objects(FakeApi({LIST_PATH: Answer(200, body)}), LIST_PATH, Item)


@pytest.mark.parametrize("how", sorted(HOSTILE))
async def test_lists_of_commands(how: str) -> None:
    """Each object that is not read is named, and the others are returned."""
    api = FakeApi({LIST_PATH: Answer(200, listed(hostile(how), PLAIN)), "/one": Answer(200, hostile(how))})
    found = [item.metadata.name for item in await list_objects(api, LIST_PATH, Item)]
    assert "plain" in found
    assert how in UNHARMED or [str(each).partition(":")[0] for each in api.unread] == ["things team/odd"]
    if "odd" in found:
        assert (await read_object(api, "/one", Item)).metadata.name == "odd"
    else:
        with pytest.raises(UnreadableError):
            await read_object(api, "/one", Item)


async def test_the_record_of_last_good_documents() -> None:
    """It is read whatever its managed fields are, so that a replica starts."""
    path = "/api/v1/namespaces/vgpu-webhook/configmaps/vgpu-webhook-last-good"
    api = FakeApi({path: Answer(200, hostile("deep", data={"acme": "text"}))})
    assert (await LastGood(api, "vgpu-webhook").read()).texts == {"acme": "text"}


async def test_events_about_workloads() -> None:
    """An owner with deep managed fields is read, and one that cannot be read is the subject itself; neither ends the task."""
    captured = CapturedLog()
    owned = {
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
        ]
    }
    deep = json.dumps({"metadata": {**owned, "managedFields": []}}).encode().replace(b"[]", DEEP)
    root = "/apis/apps/v1/namespaces/team/replicasets"
    api = FakeApi({f"{root}/deep": Answer(200, deep), f"{root}/odd": Answer(200, b'{"metadata": 7}')})
    queue = EventQueue(api, captured.log)
    events = OwnerEvents(api, queue)
    async with alongside(events.run()):
        for name in ("deep", "odd"):
            events.put(WorkloadEvent("team", OwnerReference("apps/v1", "ReplicaSet", name, name), "R", "m", "Normal"))
        await until(lambda: len(queue._waiting) == 2)  # noqa: SLF001
    assert [key[:3] for key in queue._waiting.values] == [("Deployment", "team", "d"), ("ReplicaSet", "team", "odd")]  # noqa: SLF001


async def test_a_template_that_cannot_be_read_is_not_ours() -> None:
    """One stored under the name that a pod needs: whoever made it, the pod is denied."""
    needed = ClaimTemplate.of({"spec": {"devices": {}}})
    path = f"{GROUP}/namespaces/team/{RESOURCE}"
    for spec in (b'"spec": ' + DEEP, b'"spec": {"a": ' + DEEP + b"}", b'"spec": {"a": 1e999}'):
        stored_one = json.dumps(stored(needed.name)).encode().replace(b'"spec": {}', spec)
        api = FakeApi({f"{path}/{needed.name}": Answer(200, stored_one)})
        api.put(f"{path}/{needed.name}", {"metadata": {}})
        with pytest.raises(RefusedError, match="other content"):
            await ClaimTemplates(api, structlog.get_logger(), lambda _: ()).provide("team", [needed])


async def test_one_repair_that_fails() -> None:
    """By an unforeseen error: the other pods are repaired, and the error is logged with its place."""
    captured = CapturedLog()
    claim = [{"name": "c", "resourceClaimTemplateName": ClaimTemplate.of({"spec": {}}).name}]
    pods = [json.dumps(stored(name, spec={"resourceClaims": claim})).encode() for name in ("odd", "plain")]
    asked: list[str] = []

    def needed(metadata: Any) -> list[ClaimTemplate]:
        asked.append(metadata.name)
        return [ClaimTemplate.of({"spec": {}})] if metadata.name == "plain" else [1 // 0]  # type: ignore[list-item]

    api = FakeApi({"/api/v1/pods": Answer(200, listed(*pods))})
    for name in ("odd", "plain"):
        api.put(f"/api/v1/namespaces/team/pods/{name}", stored(name))
    templates = ClaimTemplates(api, captured.log, needed)
    async with alongside(templates.pods.run()):
        await templates.pods.synced.wait()
        await templates.repair()
    assert sorted(asked) == ["odd", "plain"]
    assert templates.bugs == 1
    (bug,) = (line.kwargs for line in captured.lines if line.kwargs["event"] == "bug")
    assert (bug["pod"], bug["error"]) == ("team/odd", "ZeroDivisionError")


async def test_work_that_fails_starts_again() -> None:
    """With growing pauses, each time logged with its place, also where it was the work of a group."""
    captured = CapturedLog()
    pauses: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async def fails() -> None:
        raise ZeroDivisionError

    async def work() -> None:
        nonlocal now
        now += 100.0 if len(pauses) == 3 else 0.0
        if len(pauses) < 5:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fails())

    background = Background(captured.log, lambda: now, sleep)
    await background.keep("a task", work)
    assert pauses == [1.0, 2.0, 4.0, 1.0, 2.0]
    assert background.bugs == 5
    assert all(line.kwargs["error"] == "ZeroDivisionError" for line in captured.lines)
    assert all("fails" in line.kwargs["traceback"][-1] for line in captured.lines)


async def test_no_part_of_a_replica_ends_another() -> None:
    """Whatever fails starts again; what it has to do with the reviews goes on meanwhile."""
    captured = CapturedLog()
    api = FakeApi(otherwise=403)
    whole = cluster(api, captured)
    background = Background(captured.log, sleep=lambda _: asyncio.sleep(0))
    calls = 0

    async def fails() -> None:
        nonlocal calls
        calls += 1
        raise ZeroDivisionError

    whole._owner_events.run = fails  # type: ignore[method-assign,union-attr]  # noqa: SLF001
    async with alongside(whole.run(background)):
        await until(lambda: calls > 3)
        await until(lambda: any(each.path == "/api/v1/namespaces" for each in api.requests))
    assert background.bugs >= 3
    reflectors = [reflector for _, reflector in whole._reflectors()]  # noqa: SLF001
    for each in reflectors:
        each.bugs = 2
    assert f"vgpu_webhook_bugs_total {2 * len(reflectors)}.0".encode() in exposed(whole)
    assert {line.kwargs["task"] for line in captured.lines if line.kwargs["event"] == "bug"} == {"owner events"}


ORDINARY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.just("items"), inner, max_size=4),
    max_leaves=30,
)


@given(ORDINARY, st.booleans())
def test_ordinary_json_stays(data: Any, ascii_only: bool) -> None:  # noqa: FBT001
    """Mending changes nothing in it, whatever stands in its texts."""
    text = json.dumps(data, ensure_ascii=ascii_only).encode("utf-8", "replace")
    assert json.loads(mended(text)) == json.loads(text)


@given(st.lists(ORDINARY.map(lambda each: {"metadata": each})), ORDINARY)
def test_lists_are_split(items: list[Any], rest: Any) -> None:
    """Into their items and the rest, wherever brackets and quotes stand in their texts."""
    text = json.dumps({"a": rest, "kind": "items", "items": items, "metadata": {"items": rest}}).encode()
    head, found = split(text)
    assert [json.loads(each) for each in found] == items
    assert json.loads(head) == {"a": rest, "kind": "items", "items": [], "metadata": {"items": rest}}


@given(st.integers(1, 3 * MAX_DEPTH))
def test_levels_that_are_kept(levels: int) -> None:
    """So many, and null for what is deeper; what follows stays."""
    text = b'{"a":' * levels + b"1" + b"}" * levels
    data = json.loads(mended(b'{"deep":' + text + b',"after":[1]}'))
    assert data["after"] == [1]
    depth, value = 0, data["deep"]
    while isinstance(value, dict):
        depth, value = depth + 1, value["a"]
    assert (depth, value) == ((levels, 1) if levels < MAX_DEPTH else (MAX_DEPTH - 1, None))


def test_texts_without_an_end_take_linear_time() -> None:
    """A quote that is never closed is one text: that it is looked for again from each quote took minutes."""
    assert mended(b'"' + b'\\"' * 2**20)[:1] == b'"'
