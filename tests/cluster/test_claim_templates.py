"""Which templates are made up for, make room and are deleted; what an API server does with them is tested on a real one."""

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import structlog
from structlog.testing import capture_logs

from tests.waiting import PATIENCE, alongside, turns
from webhook.cluster import claims
from webhook.cluster.claims import (
    GROUP,
    MAKING,
    MAX_NAMED,
    MAX_REPAIRS,
    PODS,
    REMEMBERED,
    RESOURCE,
    RETRY,
    UNUSED,
    ClaimTemplates,
    RefusedError,
)
from webhook.cluster.client import Answer, UnreachableError
from webhook.labels import CLAIM
from webhook.request import ClaimTemplate

from .fake_api import FakeApi
from .things import refusal

TEMPLATE = ClaimTemplate.of({"metadata": {}, "spec": {"devices": {}}})
CREATE = f"{GROUP}/namespaces/team/{RESOURCE}"
READ = "/api/v1/namespaces/team/pods/{}"


def pod(name: str) -> dict[str, Any]:
    """A pod that waits for the template."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE.name}]
    metadata = {"name": name, "namespace": "team", "resourceVersion": "1", "labels": {CLAIM: "true"}}
    return {"metadata": metadata, "spec": {"resourceClaims": claims}}


@asynccontextmanager
async def followed(answers: dict[str, Any], clock: list[float]) -> AsyncIterator[tuple[FakeApi, ClaimTemplates]]:
    """Templates of which none is known, and two pods that wait."""
    pods = [pod("a"), pod("b")]
    api = FakeApi({PODS: pods, f"{GROUP}/{RESOURCE}": [], **{READ.format(each): pod(each) for each in "ab"}, **answers})
    templates = ClaimTemplates(api, structlog.get_logger(), lambda _: [TEMPLATE], clock=lambda: clock[0])
    async with alongside(templates.pods.run()):
        await templates.pods.synced.wait()
        yield api, templates


@pytest.mark.parametrize("refused", [refusal(403, "Forbidden"), refusal(422, "Invalid")])
async def test_what_is_refused_is_tried_once_a_minute(refused: Any) -> None:
    """However often it is looked at, and with a line in the log each time."""
    clock = [0.0]
    async with followed({CREATE: refused}, clock) as (api, templates):
        with capture_logs() as logs:
            for seconds in (0.0, 5.0, RETRY - 10):
                clock[0] += seconds
                await templates.repair()
        assert [each["event"] for each in logs] == ["template_not_repaired"] * 2
        clock[0] += RETRY
        api.requests.clear()
        await templates.repair()
        assert sorted(each.what for each in api.requests) == ["GET a", "GET b", f"POST {RESOURCE}"]


async def test_a_silent_api_server_is_not_asked_for_each_pod() -> None:
    """Its watches say what is wrong."""
    silent = UnreachableError("no answer")
    async with followed({READ.format("a"): silent, READ.format("b"): silent}, [0.0]) as (api, templates):
        api.requests.clear()
        with capture_logs() as logs:
            await templates.repair()
        assert len(api.requests) == 1
        assert logs == []


async def test_what_the_api_server_changes_is_refused_and_deleted() -> None:
    """Without a feature gate it drops the capacities: a share would become a whole device."""
    stored = {"metadata": {"name": TEMPLATE.name, "uid": "made"}, "spec": {"metadata": {}, "spec": {}}}
    api = FakeApi({CREATE: stored, f"{CREATE}/{TEMPLATE.name}": stored})
    templates = ClaimTemplates(api, structlog.get_logger(), lambda _: [])
    with pytest.raises(RefusedError, match="DRAConsumableCapacity may be off"):
        await templates.provide("team", [TEMPLATE])
    assert [each.what for each in api.requests] == [f"POST {RESOURCE}", f"DELETE {TEMPLATE.name}"]


DAY: Final = 24 * 3600.0
NOW: Final = 2_000_000_000.0
TEAMS: Final = "/api/v1/namespaces/team/pods"


def other(number: int) -> ClaimTemplate:
    """A template like no other."""
    return ClaimTemplate.of({"spec": {"devices": {"requests": [{"name": f"gpu-{number}"}]}}})


def stamp(age: float) -> str:
    """When something was created that is so old, in seconds."""
    return dt.datetime.fromtimestamp(NOW - age, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Cluster(FakeApi):
    """One that stores templates and pods, in lists of all namespaces, too."""

    def __init__(self) -> None:
        super().__init__()
        self.paths = {f"{GROUP}/{RESOURCE}": RESOURCE, PODS: "pods"}
        self.bodies: list[dict[str, Any]] = []

    async def request(self, method: str, path: str, **more: Any) -> Answer:
        """As an API server, which fills metadata in."""
        if method == "GET" and path in self.paths:
            kind = {key: found for key, found in self.objects.items() if key.split("/")[-2] == self.paths[path]}
            items = [found for found in kind.values() if CLAIM in found["metadata"].get("labels", {})]
            return Answer(200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())
        if method == "DELETE":
            self.bodies.append(more["body"])
        if method == "POST":
            body = more["body"]
            metadata = {**body["metadata"], "uid": f"uid of {body['metadata']['name']}", "creationTimestamp": stamp(0)}
            metadata["namespace"] = path.split("/")[-2]
            more["body"] = {**body, "metadata": metadata}
        return await super().request(method, path, **more)

    def template(self, what: ClaimTemplate, age: float = 2 * DAY, team: str = "team", **metadata: Any) -> str:
        """Store one; return its path."""
        body = what.manifest(team, {CLAIM: "true"})
        more = {"uid": f"uid of {what.name}", "creationTimestamp": stamp(age), **metadata}
        path = f"{GROUP}/namespaces/{team}/{RESOURCE}/{more.get('name', what.name)}"
        self.put(path, {**body, "metadata": {**body["metadata"], **more}})
        return path

    def pod(self, name: str, *named: str, team: str = "team", **more: Any) -> None:
        """Store one that names templates, by default without the label of ours."""
        claims = [{"name": f"gpu-{each}", "resourceClaimTemplateName": each} for each in named]
        metadata = {"name": name, "namespace": team, **more.pop("metadata", {})}
        path = f"/api/v1/namespaces/{team}/pods/{name}"
        self.put(path, {"metadata": metadata, "spec": {"resourceClaims": claims}, **more})

    @property
    def templates(self) -> list[str]:
        """The names of what is stored."""
        return [key.rpartition("/")[2] for key in self.objects if f"/{RESOURCE}/" in key]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No review here is answered without its template because this machine is slow."""
    monkeypatch.setattr(claims, "SECONDS", PATIENCE)


@asynccontextmanager
async def of(api: Cluster, most: int = 4, clock: list[float] | None = None) -> AsyncIterator[ClaimTemplates]:
    """The templates of a cluster, as it is now."""
    times = clock or [0.0]
    log = structlog.get_logger()
    templates = ClaimTemplates(
        api,
        log,
        lambda metadata: [other(int(each)) for each in (metadata.annotations or {}).get("needs", "").split()],
        most=lambda: most,
        clock=lambda: times[0],
        now=lambda: NOW,
    )
    async with alongside(templates.templates.run(), templates.pods.run()):
        await templates.templates.synced.wait()
        await templates.pods.synced.wait()
        yield templates


async def collected(api: Cluster) -> list[str]:
    """What is left when nothing was named for long enough, as far as the watch shows."""
    clock = [0.0]
    async with of(api, clock=clock) as templates:
        await templates.collect()
        clock[0] += UNUSED
        await templates.collect()
    return api.templates


async def test_only_what_is_ours_old_and_unused_is_deleted() -> None:
    """By name, label and content, whatever its neighbours are; and as it was read."""
    api = Cluster()
    api.template(other(0))
    kept = {
        "another name": api.template(other(1), name="vgpu-mine"),
        "a name that only begins so": api.template(other(9), name=f"{other(9).name}0"),
        "another label": api.template(other(2), labels={CLAIM: "false"}),
        "other content": api.template(other(3), name=other(99).name),
        "too young": api.template(other(4), age=DAY),
        "of unknown age": api.template(other(5), creationTimestamp=""),
        "going already": api.template(other(6), deletionTimestamp=stamp(0)),
    }
    stored = api.objects[f"{CREATE}/{other(0).name}"]["metadata"]
    assert await collected(api) == [path.rpartition("/")[2] for path in kept.values()]
    assert api.bodies == [{"preconditions": {"uid": stored["uid"], "resourceVersion": stored["resourceVersion"]}}]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="without the label of ours"),
        pytest.param({"metadata": {"labels": {CLAIM: "true"}}}, id="with it"),
        pytest.param({"metadata": {"deletionTimestamp": stamp(0)}}, id="terminating, without it"),
        pytest.param({"metadata": {"deletionTimestamp": stamp(0), "labels": {CLAIM: "true"}}}, id="terminating"),
        pytest.param({"status": {"resourceClaimStatuses": [{"name": f"gpu-{other(0).name}"}]}}, id="with its claim"),
    ],
)
async def test_what_a_pod_uses_is_kept(more: dict[str, Any]) -> None:
    """Whatever labels it has, and whatever else pods name."""
    api = Cluster()
    api.template(other(0))
    api.template(other(1))
    api.pod("user", other(0).name, **more)
    api.pod("neighbor", other(0).name, "of-a-user")
    assert await collected(api) == [other(0).name]


async def test_of_a_pod_that_names_more_than_it_has_containers_a_bounded_part_is_stored() -> None:
    """A cluster with many such pods would fill the memory of a replica."""
    api = Cluster()
    names = [other(number).name for number in range(MAX_NAMED + 1)]
    api.pod("user", *names, metadata={"labels": {CLAIM: "true"}})
    async with of(api) as templates:
        (seen,) = templates.pods.objects.values()
        assert (seen.named, seen.waiting) == (tuple(names[:-1]), tuple(names[:-1]))


@pytest.mark.parametrize(
    "more", [{"status": {"phase": "Succeeded"}}, {"status": {"phase": "Failed"}}, {"team": "elsewhere"}], ids=str
)
async def test_pods_that_use_nothing_here(more: dict[str, Any]) -> None:
    """Claims of those that have ended are gone, and names are of a namespace."""
    api = Cluster()
    api.template(other(0))
    api.pod("user", other(0).name, **more)
    assert await collected(api) == []


@pytest.mark.parametrize("changed", [{"uid": "of another one"}, {"resourceVersion": "77"}])
async def test_what_has_changed_meanwhile_is_kept(changed: dict[str, str]) -> None:
    """Another one of that name, or one with another label."""
    api = Cluster()
    path = api.template(other(0))

    def before(method: str, _: str) -> None:
        if method == "DELETE":
            api.objects[path]["metadata"] |= changed

    api.before = before
    with capture_logs() as logs:
        assert await collected(api) == [other(0).name]
    (told,) = logs
    assert (told["event"], told["template"]) == ("template_not_deleted", f"team/{other(0).name}")
    assert told["error"].startswith("409")


async def test_all_namespaces_are_collected_at_once() -> None:
    """However many there are: what is created in a day can be deleted in one pass; an error concerns one namespace."""
    api = Cluster()
    for number in range(2000):
        api.template(other(number % 20), team=f"team-{number // 20}")
    api.answers[f"{GROUP}/namespaces/team-0/{RESOURCE}"] = refusal(403, "Forbidden")
    with capture_logs():
        assert len(await collected(api)) == 20


async def test_a_template_with_other_content_than_its_name_says_serves_no_pod() -> None:
    """Its author would choose what others get; who looks at the cluster is told, and nothing is deleted."""
    api = Cluster()
    api.template(other(3), name=other(0).name)
    api.template(other(1))
    async with of(api) as templates:
        assert [templates.known("team", [other(number)]) for number in (0, 1, 2)] == [False, True, False]
        with pytest.raises(RefusedError, match=f"{other(0).name} has other content than its name says"):
            await templates.provide("team", [other(0), other(1)])
        assert api.templates == [other(0).name, other(1).name]


async def test_the_oldest_unused_ones_make_room() -> None:
    """At the bound, whatever their age: the new one is there before the answer. What pods name stays."""
    api = Cluster()
    api.template(other(0), age=50)
    api.template(other(1), age=40)
    api.template(other(2), age=30)
    api.template(other(3), age=20, team="elsewhere")
    api.pod("user", other(0).name)
    planted = api.template(other(5), age=90, name=other(99).name).rpartition("/")[2]
    async with of(api, most=3) as templates:
        await templates.provide("team", [other(4)])
        assert api.templates == [other(0).name, other(3).name, planted, other(4).name]
        assert templates.counts == {"created": 1, "deleted": 2}


async def test_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only so many that the pod's own is there before the answer: what is new may be of a pod that is on its way."""
    monkeypatch.setattr(claims, "CLEARED", 1)
    api = Cluster()
    for number, age in enumerate((20, 30, 10)):
        api.template(other(number), age=age)
    async with of(api, most=3) as templates:
        await templates.provide("team", [other(3)])
        assert api.templates == [other(0).name, other(2).name, other(3).name]


async def test_all_go_that_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an earlier version, or since the setting is lower."""
    monkeypatch.setattr(claims, "CLEARED", 1)
    api = Cluster()
    for number in range(9):
        api.template(other(number))
    async with of(api, most=3) as templates:
        await templates.provide("team", [other(99)])
        assert len(api.templates) == 3


async def test_a_flood_of_refused_pods_leaves_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    """Of templates that nobody names; none of them is denied, and room is made once for all that wait for it."""
    api = Cluster()
    async with of(api, most=10) as templates:
        for number in range(20):
            await asyncio.gather(*[templates.provide("team", [other(10 * number + each)]) for each in range(10)])
            assert len(api.templates) <= 10
        assert templates.counts["refused"] == 0
        assert other(199).name in api.templates
        assert not caplog.records


async def test_what_made_room_is_created_again() -> None:
    """Though it was created a moment ago."""
    api = Cluster()
    async with of(api, most=1) as templates:
        for number in (0, 1, 0):
            await templates.provide("team", [other(number)])
            assert api.templates == [other(number).name]


async def test_only_what_is_used_is_a_reason_to_refuse() -> None:
    """What is there is still given, and other namespaces are not concerned; the API server is asked once a second."""
    api, clock = Cluster(), [0.0]
    for number in range(3):
        api.template(other(number))
        api.pod(f"user-{number}", other(number).name)
    async with of(api, most=3, clock=clock) as templates:
        for number in (3, 4):
            with pytest.raises(RefusedError, match=r"name 3 other ResourceClaimTemplates.*templatesPerNamespace"):
                await templates.provide("team", [other(number)])
        await templates.provide("team", [other(0)])
        await templates.provide("elsewhere", [other(0)])
        assert [each.path for each in api.requests].count(TEAMS) == 1
        del api.objects[f"{TEAMS}/user-1"]
        clock[0] += REMEMBERED
        await templates.provide("team", [other(3)])
        assert api.templates == [other(0).name, other(2).name, other(0).name, other(3).name]


async def test_planted_ones_take_no_room() -> None:
    """Nobody who may write templates can take the bound of a namespace by others than ours."""
    api = Cluster()
    for number in range(9):
        api.template(other(number), name=f"vgpu-{number:020x}")
    async with of(api, most=1) as templates:
        await templates.provide("team", [other(0)])
        assert templates.counts == {"created": 1}
        assert TEAMS not in [each.path for each in api.requests], "it looked for what is unused"


async def test_what_was_not_created_takes_no_room() -> None:
    """Nor what waits for that."""
    api = Cluster()
    async with of(api, most=1) as templates:
        api.before = lambda method, _: refusal(403, "Forbidden") if method == "POST" else None
        with pytest.raises(RefusedError):
            await templates.provide("team", [other(0)])
        api.before = lambda *_: None
        await templates.provide("team", [other(1)])
        assert api.templates == [other(1).name]


async def test_two_replicas_make_room_at_once() -> None:
    """What the other one has deleted is gone."""
    api = Cluster()
    for number in range(3):
        api.template(other(number))
    async with of(api, most=3) as first, of(api, most=3) as second:
        await asyncio.gather(first.provide("team", [other(3)]), second.provide("team", [other(4)]))
        assert sorted(api.templates) == sorted([other(3).name, other(4).name])
        assert first.counts["deleted"] + second.counts["deleted"] == 3


async def test_another_replica_has_made_room() -> None:
    """And the watch does not show that yet."""
    api = Cluster()
    for number in range(3):
        api.template(other(number))
    async with of(api, most=3) as first, of(api, most=3) as second:
        await first.provide("team", [other(3)])
        api.pod("user", other(3).name)
        await second.provide("team", [other(4)])
        assert api.templates == [other(3).name, other(4).name]


async def test_a_namespace_does_not_take_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the API server, or for room, is bounded for each, and for all."""
    size = MAKING + len(other(0).spec_json)
    monkeypatch.setattr(claims, "MAX_MAKING", 4 * size)
    monkeypatch.setattr(claims, "SECONDS", 0.0)
    monkeypatch.setattr(claims, "AT_ONCE", 99)
    asked, go = [], asyncio.Event()

    class Silent(Cluster):
        async def request(self, method: str, path: str, **more: Any) -> Answer:
            if method == "POST":
                asked.append(path.split("/")[-2])
                await go.wait()
                raise UnreachableError("no answer")
            return await super().request(method, path, **more)

    api = Silent()
    async with of(api, most=3) as templates:
        for team in ("a", "b", "c"):
            await templates.provide(team, [other(number) for number in range(9)])
        await turns()
        assert asked == ["a", "a", "a", "b"]
        assert templates.counts == {"late": 4}, "those are answered before their templates are there"
        go.set()
        await turns()
        await templates.provide("c", [other(0)])
        await turns()
        assert asked[4:] == ["c"], "what is over still takes a place"
        assert not templates._making_in  # noqa: SLF001


async def test_the_age_is_that_of_what_is_there() -> None:
    """It may have been made again since the watch showed it."""
    api = Cluster()
    path = api.template(other(0))

    def before(method: str, what: str) -> None:
        if (method, what) == ("GET", CREATE):
            api.objects[path]["metadata"]["creationTimestamp"] = stamp(0)

    api.before = before
    assert await collected(api) == [other(0).name]


async def test_nothing_is_read_for_young_ones() -> None:
    """Every ten minutes."""
    api = Cluster()
    api.template(other(0), age=0)
    assert await collected(api) == [other(0).name]
    assert CREATE not in [each.path for each in api.requests]


async def test_the_hour_begins_when_the_last_pod_is_gone() -> None:
    """One that is terminating is still there."""
    api, clock = Cluster(), [0.0]
    api.template(other(0))
    api.pod("user", other(0).name, metadata={"labels": {CLAIM: "true"}, "deletionTimestamp": stamp(0)})
    async with of(api, clock=clock) as templates:
        for _ in range(2):
            await templates.collect()
            clock[0] += UNUSED
        del api.objects[f"{TEAMS}/user"]
        templates.pods._stored.drop("team/user")  # noqa: SLF001
        await templates.collect()
        assert api.templates
        clock[0] += UNUSED
        await templates.collect()
        assert not api.templates


def waiting(api: Cluster, name: str, number: int, team: str, status: str | None = None) -> None:
    """Store a pod that waits for a template, as its status says."""
    metadata = {"labels": {CLAIM: "true"}, "annotations": {"needs": str(number) if status is None else status}}
    api.pod(name, other(number).name, team=team, metadata=metadata)


async def test_namespaces_take_turns() -> None:
    """Pods that nothing helps, of one namespace, do not hold up others."""
    api = Cluster()
    for number in range(3 * MAX_REPAIRS):
        waiting(api, f"forged-{number}", number, "a-hostile-one", status="")
    waiting(api, "honest", 1, "team")
    async with of(api) as templates:
        await templates.repair()
        assert api.templates == [other(1).name]
        assert (
            sum(each.path.startswith("/api/v1/namespaces/a-hostile-one/") for each in api.requests) == MAX_REPAIRS - 1
        )


async def test_pods_of_a_namespace_take_turns() -> None:
    """Forged ones, which are tried again after a minute, do not hold up one that was not tried yet."""
    api, clock = Cluster(), [0.0]
    for number in range(3 * MAX_REPAIRS):
        waiting(api, f"forged-{number}", number, "team", status="")
    waiting(api, "honest", 999, "team")
    async with of(api, clock=clock) as templates:
        for _ in range(4):
            clock[0] += RETRY
            await templates.repair()
        assert api.templates == [other(999).name]


async def test_a_pod_that_needs_no_more_is_forgotten() -> None:
    """Also by what the turns are made of."""
    api = Cluster()
    waiting(api, "pod", 1, "team")
    async with of(api) as templates:
        await templates.repair()
        waiting(api, "gone", 2, "team")
        templates._pods_changed(["team/pod", "team/gone"])  # noqa: SLF001
        assert templates._waiting == {"team": {"team/pod": None}}  # noqa: SLF001
        templates.pods._stored.drop("team/pod")  # noqa: SLF001
        templates._pods_changed(["team/pod"])  # noqa: SLF001
        assert templates._waiting == {}  # noqa: SLF001
        assert templates._not_before == {}  # noqa: SLF001


async def test_who_waits() -> None:
    """For a template of which a claim is still missing; not one that is terminating."""
    api = Cluster()
    named = other(0).name
    metadata = {"labels": {CLAIM: "true"}}
    statuses = {"resourceClaimStatuses": [{"name": "a"}]}
    for name, more in {"waits": {}, "terminating": {"deletionTimestamp": stamp(0)}}.items():
        api.pod(name, named, metadata=metadata | more, status=statuses)
        claims = [{"name": each, "resourceClaimTemplateName": named} for each in ("a", "b")]
        api.objects[f"{TEAMS}/{name}"]["spec"] = {"resourceClaims": claims}
    async with of(api) as templates:
        assert {key: view.waiting for key, view in templates.pods.objects.items()} == {
            "team/waits": (named,),
            "team/terminating": (),
        }


async def test_beside_a_pod_that_cannot_be_read_nothing_is_deleted() -> None:
    """It may name any of them."""
    api = Cluster()
    api.template(other(0))
    api.pod("unreadable")
    api.objects[f"{TEAMS}/unreadable"]["spec"] = {"resourceClaims": "none"}
    assert await collected(api) == [other(0).name]
