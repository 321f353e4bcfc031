"""ResourceClaimTemplates on a real API server: created before an answer, refused, planted, collected."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from tests.waiting import PATIENCE, alongside, until
from webhook.cluster.claims import KEPT, RESOURCE, UNUSED, ClaimTemplates, RefusedError
from webhook.cluster.client import Answer, Api
from webhook.cluster.connection import connect
from webhook.labels import CLAIM
from webhook.request import ClaimTemplate

from .client import Object
from .objects import namespace
from .plane import ControlPlane

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.kubernetes("1.36", why="older API servers drop the capacity of a claim"),
]

VERSION = "resource.k8s.io/v1"
NUMBERS = itertools.count()


def spec(memory: str = "4Gi") -> dict[str, Any]:
    """What a template says, with all that the API server would fill in."""
    exactly = {"deviceClassName": "gpu.example", "allocationMode": "ExactCount", "count": 1}
    exactly["capacity"] = {"requests": {"memory": memory}}
    return {"metadata": {}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


def template(memory: str = "4Gi") -> ClaimTemplate:
    """One with its name."""
    return ClaimTemplate.of(spec(memory))


def pod(*names: str) -> Object:
    """A pod that names templates."""
    claims = [{"name": f"gpu-{number}", "resourceClaimTemplateName": name} for number, name in enumerate(names)]
    metadata = {"name": f"claims-{next(NUMBERS)}", "labels": {CLAIM: "true"}}
    body: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    body["spec"] = {"containers": [{"name": "main", "image": "app"}], "resourceClaims": claims}
    return body


class Counted:
    """An API server whose requests are counted; `go` holds those that create back."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.requests: list[str] = []
        self.go = asyncio.Event()
        self.go.set()

    async def request(self, method: str, path: str, **more: Any) -> Answer:
        self.requests.append(f"{method} {path}")
        if method == "POST":
            await self.go.wait()
        return await self.api.request(method, path, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.api, name)


@asynccontextmanager
async def running(plane: ControlPlane, **more: Any) -> AsyncIterator[tuple[Counted, ClaimTemplates]]:
    """Follow the templates and pods of a control plane."""
    api = Counted(await connect(plane.kubeconfig))
    templates = ClaimTemplates(api, structlog.get_logger(), lambda _: [template()], **more)
    async with alongside(templates.templates.run(), templates.pods.run()):
        await templates.templates.synced.wait()
        await templates.pods.synced.wait()
        yield api, templates
    await api.close()


def known(templates: ClaimTemplates, team: str) -> list[str]:
    """The templates of a namespace that are known: other tests have theirs."""
    return [key.partition("/")[2] for key in templates.templates.objects if key.startswith(f"{team}/")]


def pods_of(templates: ClaimTemplates, team: str) -> list[tuple[str, ...]]:
    """For which templates the pods of a namespace wait."""
    return [view.waiting for key, view in templates.pods.objects.items() if key.startswith(f"{team}/")]


@pytest.fixture
def team(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of its own."""
    name = f"claims-{next(NUMBERS)}"
    control_plane.create_namespace(namespace(name))
    yield name
    for resource, version in (("pods", "v1"), (RESOURCE, VERSION)):
        for found in control_plane.client.list(version, resource, name):
            control_plane.client.delete(version, resource, found["metadata"]["name"], name)


def stored(plane: ControlPlane, team: str) -> list[str]:
    """The templates there."""
    return [each["metadata"]["name"] for each in plane.client.list(VERSION, RESOURCE, team)]


async def test_one_request_for_all_reviews(control_plane: ControlPlane, team: str) -> None:
    """Those that wait share it, those that follow need none; what is stored is what was sent."""
    async with running(control_plane) as (api, templates):
        await asyncio.gather(*[templates.provide(team, [template()]) for _ in range(20)])
        await templates.provide(team, [template()])
        await until(lambda: known(templates, team))
        await templates.provide(team, [template()])
        assert [each for each in api.requests if each.startswith("POST")] == [
            f"POST /apis/resource.k8s.io/v1/namespaces/{team}/{RESOURCE}"
        ]
        assert templates.templates.objects[f"{team}/{template().name}"].genuine
    assert stored(control_plane, team) == [template().name]


async def test_of_another_replica(control_plane: ControlPlane, team: str) -> None:
    """Two replicas create it at once: one of them finds that of the other."""
    async with running(control_plane) as (_, first), running(control_plane) as (_, second):
        await asyncio.gather(first.provide(team, [template()]), second.provide(team, [template()]))
        assert first.counts + second.counts == {"created": 1, "existed": 1}


async def test_a_planted_one_is_refused(control_plane: ControlPlane, team: str) -> None:
    """Before the watch shows it and after; it is left to whoever made it."""
    planted = {"apiVersion": VERSION, "kind": "ResourceClaimTemplate", "spec": spec("80Gi")}
    planted["metadata"] = {"name": template().name, "labels": {CLAIM: "true"}}
    async with running(control_plane) as (_, templates):
        await asyncio.to_thread(control_plane.client.create, planted, team)
        for _ in range(2):
            with pytest.raises(RefusedError, match="other content than its name says: delete it"):
                await templates.provide(team, [template()])
            await until(lambda: known(templates, team))
    assert stored(control_plane, team) == [template().name]


async def test_a_quota_refuses(control_plane: ControlPlane, team: str) -> None:
    """With the text of the API server; asked once a second, however many pods there are."""
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    quota["spec"] = {"hard": {f"count/{RESOURCE}.resource.k8s.io": "0"}}
    made = control_plane.client.create(quota, team).accepted()
    made["status"] = {"hard": quota["spec"]["hard"], "used": {f"count/{RESOURCE}.resource.k8s.io": "0"}}
    control_plane.client.patch("v1", "resourcequotas", "none/status", {"status": made["status"]}, team).accepted()
    async with running(control_plane) as (api, templates):
        for _ in range(5):
            with pytest.raises(RefusedError, match="exceeded quota: none"):
                await templates.provide(team, [template()])
        assert sum(each.startswith("POST") for each in api.requests) == 1


async def test_a_late_one_is_created_after_the_answer(control_plane: ControlPlane, team: str) -> None:
    """The review waits for half a second, and the request goes on."""
    async with running(control_plane) as (api, templates):
        api.go.clear()
        await asyncio.wait_for(templates.provide(team, [template()]), PATIENCE)
        assert templates.counts == {"late": 1}
        api.go.set()
        await until(lambda: templates.counts["created"])


async def test_what_nobody_names_is_collected(control_plane: ControlPlane, team: str) -> None:
    """A day after it was created, and an hour after the last pod."""
    clock, day = [0.0], [0.0]
    times: dict[str, Any] = {"clock": lambda: clock[0], "now": lambda: day[0]}
    async with running(control_plane, **times) as (_, templates):
        made = await asyncio.to_thread(control_plane.client.create, pod(template().name), team)
        await templates.provide(team, [template(), template("8Gi")])
        await until(lambda: len(known(templates, team)) == 2 and pods_of(templates, team))
        day[0] = 2_000_000_000.0 + KEPT
        await templates.collect()
        clock[0] += UNUSED
        await templates.collect()
        await until(lambda: len(known(templates, team)) == 1)
        assert stored(control_plane, team) == [template().name]
        name = made.accepted()["metadata"]["name"]
        await asyncio.to_thread(control_plane.client.delete, "v1", "pods", name, team)
        await until(lambda: not pods_of(templates, team))
        await templates.collect()
        assert len(known(templates, team)) == 1
        clock[0] += UNUSED
        day[0] = 0.0  # it is too new
        await templates.collect()
        assert len(known(templates, team)) == 1
        day[0] = 2_000_000_000.0 + KEPT
        await templates.collect()
        await until(lambda: not known(templates, team))
        assert stored(control_plane, team) == []


class Gateless(ControlPlane):
    """A control plane without consumable capacity, as from 1.34 on by default."""

    def _run(self, component: str, *arguments: str) -> None:
        gate = ["--feature-gates=DRAConsumableCapacity=false"] if component == "kube-apiserver" else []
        super()._run(component, *arguments, *gate)


@pytest.fixture(scope="module")
def gateless(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One of these."""
    with Gateless(control_plane.binaries, tmp_path_factory.mktemp("gateless")) as plane:
        yield plane


@pytest.mark.long
async def test_a_dropped_capacity_is_refused(gateless: ControlPlane) -> None:
    """A share would become a whole device: so nothing is left of it; also in tests/cluster."""
    gateless.create_namespace(namespace("team"))
    async with running(gateless) as (_, templates):
        with pytest.raises(RefusedError, match="DRAConsumableCapacity may be off"):
            await templates.provide("team", [template()])
        assert stored(gateless, "team") == []
        with contextlib.suppress(RefusedError):
            await templates.provide("team", [template()])
