"""ResourceClaimTemplates on a real API server: created before an answer, refused, planted, made up for, collected."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from tests.waiting import PATIENCE, alongside, until, until_told
from webhook.cluster import claims, connection
from webhook.cluster.bounded import deep_size
from webhook.cluster.claims import KEPT, RESOURCE, UNUSED, ClaimTemplates, RefusedError
from webhook.cluster.client import Answer, Api
from webhook.cluster.connection import connect
from webhook.labels import CLAIM
from webhook.quantity import MIB
from webhook.request import ClaimTemplate

from .client import Object
from .objects import mapping, namespace, settings
from .own_plane import OwnPlane
from .plane import ControlPlane
from .test_doctor import examine

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.kubernetes("1.36", why="older API servers drop the capacity of a claim"),
]

VERSION = "resource.k8s.io/v1"
NUMBERS = itertools.count()
LONG_CLAIMS = 3000


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
    """An API server whose requests are counted; `go` holds those that create back, `deleting` is called before one deletes."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.requests: list[str] = []
        self.go = asyncio.Event()
        self.go.set()
        self.deleting: Callable[[str], None] = lambda _: None

    async def request(self, method: str, path: str, **more: Any) -> Answer:
        """Pass a request on."""
        self.requests.append(f"{method} {path}")
        if method == "POST":
            await self.go.wait()
        if method == "DELETE":
            await asyncio.to_thread(self.deleting, path)
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


async def test_no_such_namespace(control_plane: ControlPlane) -> None:
    """It was deleted a moment ago."""
    async with running(control_plane) as (_, templates):
        with pytest.raises(RefusedError, match='namespaces "gone" not found'):
            await templates.provide("gone", [template()])


async def test_a_late_one_is_created_after_the_answer(control_plane: ControlPlane, team: str) -> None:
    """The review waits for half a second, and the request goes on."""
    async with running(control_plane) as (api, templates):
        api.go.clear()
        await asyncio.wait_for(templates.provide(team, [template()]), PATIENCE)
        assert templates.counts == {"late": 1}
        api.go.set()
        await until(lambda: templates.counts["created"])


async def test_a_missing_one_is_made_up_for(control_plane: ControlPlane, team: str) -> None:
    """What pods wait for, and nothing else: not for those that have their claims, end, or name what exists."""
    client = control_plane.client
    async with running(control_plane) as (api, templates):
        waiting = await asyncio.to_thread(client.create, pod(template().name), team)
        served = await asyncio.to_thread(client.create, pod("vgpu-elsewhere"), team)
        statuses = [{"name": "gpu-0", "resourceClaimName": "claim"}]
        name = f"{served.accepted()['metadata']['name']}/status"
        status = {"status": {"resourceClaimStatuses": statuses}}
        await asyncio.to_thread(lambda: client.patch("v1", "pods", name, status, team).accepted())
        waits = f"{team}/{waiting.accepted()['metadata']['name']}"
        await until(
            lambda: (
                [view.waiting for view in templates.pods.objects.values()]
                in ([(), (template().name,)], [(template().name,), ()])
            )
        )
        await templates.repair()
        assert stored(control_plane, team) == [template().name]
        assert templates.counts == {"created": 1, "repaired": 1}
        await until(lambda: known(templates, team))
        api.requests.clear()
        await templates.repair()
        assert not api.requests
        assert waits in templates.pods.objects


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


async def test_refused_pods_leave_no_more_than_the_bound(
    control_plane: ControlPlane, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is denied as long as no pod names what is there; then what they name stays, and the last one is denied."""
    monkeypatch.setattr(claims, "SECONDS", PATIENCE)
    client, most = control_plane.client, 4

    def sized(number: int) -> ClaimTemplate:
        return template(f"{number}Gi")

    async with running(control_plane, most=lambda: most) as (_, templates):
        for number in range(1, 41):
            await templates.provide(team, [sized(number)])
            assert len(await asyncio.to_thread(stored, control_plane, team)) <= most
        assert templates.counts["refused"] == 0
        left = await asyncio.to_thread(stored, control_plane, team)
        assert sized(40).name in left
        pods = [pod(sized(number).name) for number in range(101, 101 + most)]
        for number, each in enumerate(pods, 101):
            await asyncio.to_thread(client.create, each, team)
            await templates.provide(team, [sized(number)])
        used = {sized(number).name for number in range(101, 101 + most)}
        assert set(await asyncio.to_thread(stored, control_plane, team)) == used
        with pytest.raises(RefusedError, match="templatesPerNamespace"):
            await templates.provide(team, [sized(1)])
        await asyncio.to_thread(client.delete, "v1", "pods", pods[0]["metadata"]["name"], team)

        async def given() -> bool:
            with contextlib.suppress(RefusedError):
                await templates.provide(team, [sized(1)])
            return sized(1).name in await asyncio.to_thread(stored, control_plane, team)

        await until_told(given, "room for another one")


async def test_what_is_not_ours_or_used_is_not_collected(control_plane: ControlPlane, team: str) -> None:
    """Whatever its label says, or those of the pod; nor what changes at that moment."""
    client, clock = control_plane.client, [0.0]
    mine = {"apiVersion": VERSION, "kind": "ResourceClaimTemplate", "spec": spec("80Gi")}
    mine["metadata"] = {"name": "mine", "labels": {CLAIM: "true"}}
    await asyncio.to_thread(lambda: client.create(mine, team).accepted())
    unlabelled = pod("mine", template().name)
    del unlabelled["metadata"]["labels"]
    await asyncio.to_thread(lambda: client.create(unlabelled, team).accepted())
    times: dict[str, Any] = {"clock": lambda: clock[0], "now": lambda: 2_000_000_000.0 + KEPT}
    async with running(control_plane, **times) as (api, templates):
        await templates.provide(team, [template(), template("8Gi"), template("9Gi")])
        await until(lambda: len(known(templates, team)) == 4)
        await templates.collect()
        clock[0] += UNUSED

        def label(path: str) -> None:
            if path.endswith(f"{team}/{RESOURCE}/{template('9Gi').name}"):
                changed = {"metadata": {"labels": {"team.example/kept": "true"}}}
                client.patch(VERSION, RESOURCE, template("9Gi").name, changed, team).accepted()

        api.deleting = label
        await templates.collect()
        await until(lambda: len(known(templates, team)) == 3)
    left = await asyncio.to_thread(stored, control_plane, team)
    assert sorted(left) == sorted(["mine", template().name, template("9Gi").name])


async def test_long_names_of_pods_are_not_remembered(
    control_plane: ControlPlane, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do they hold up the reading of others, though a page of them is larger than is read."""
    monkeypatch.setattr(connection, "MAX_BODY", 3 * MIB)
    claims = [
        {"name": f"{number:063}", "resourceClaimTemplateName": f"vgpu-{number:0248}"} for number in range(LONG_CLAIMS)
    ]
    for _ in range(6):
        long = pod()
        long["spec"]["resourceClaims"] = claims
        (await asyncio.to_thread(control_plane.client.create, long, team)).accepted()
    async with running(control_plane) as (_, templates):
        found = [view for key, view in templates.pods.objects.items() if key.startswith(f"{team}/")]
        assert len(found) == 6
        assert deep_size(found) < 2000


class Gateless(OwnPlane):
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


UNTOLD = """
vendor: dra-hami
extends: dra-hami
claim: {distinct: null}
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "text, message", [(None, "refuses what resource claims need"), (UNTOLD, "drops the capacities")]
)
def test_check_finds_it(gateless: ControlPlane, text: str | None, message: str) -> None:
    """With the constraint that the API server then refuses, and without; nothing is stored; also in tests/doctor."""
    own = f"own-{next(NUMBERS)}"
    gateless.create_namespace(namespace(own))
    gateless.client.create(settings("target: dra-hami"), own).accepted()
    if text is not None:
        gateless.client.create(mapping("untold", text), own).accepted()
    found = examine(gateless.kubeconfig, own).checks["feature-gate"]
    assert (found["level"], message in found["message"]) == ("error", True), found
    assert "DRAConsumableCapacity" in found["hint"]
    assert stored(gateless, own) == []
