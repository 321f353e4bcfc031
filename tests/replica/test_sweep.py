"""The sweep: which replica makes it and how often, what it counts, and in which pages."""

import asyncio
import datetime as dt
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tests.cluster.fake_api import FakeApi
from webhook.admission.decision import Namespace
from webhook.cluster.client.api import UnreachableError
from webhook.mapping.load import load_policy
from webhook.replica import sweep
from webhook.replica.sweep import LEASE, Sweep

POLICY = load_policy()
TEAM = Namespace("team", {"vgpu-webhook.io/inject": "enabled"})
PODS = "/api/v1/namespaces/team/pods"
PATH = f"/apis/coordination.k8s.io/v1/namespaces/gpu/leases/{LEASE}"
START = dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC)


def pod(limits: dict[str, str], **metadata: Any) -> dict[str, Any]:
    """A pod with one container."""
    container = {"name": "main", "resources": {"limits": limits, "requests": limits}}
    return {"metadata": {"name": "p", **metadata}, "spec": {"containers": [container]}}


GPU = {"nvidia.com/gpu": "1"}
OURS = {"vgpu-webhook.io/status": "{}"}
STORED = [
    pod(GPU),
    pod({"cpu": "1"}),
    pod(GPU, annotations=OURS),
    pod(GPU, labels={"vgpu-webhook.io/inject": "disabled"}),
]


def replica(api: FakeApi) -> Sweep:
    """One replica."""
    return Sweep(api, "gpu", lambda: [TEAM], lambda: POLICY, structlog.get_logger())


def exposed(replica: Sweep) -> dict[str, float]:
    """The samples of its metric, by state."""
    return {sample.labels["state"]: sample.value for metric in replica.metrics() for sample in metric.samples}


async def test_what_is_counted() -> None:
    """The rule of the check `untouched`, in pages, without pods that have ended; a pod that opts out is as it should be."""
    api = FakeApi({PODS: STORED})
    swept = replica(api)
    assert exposed(swept) == {}
    await swept.turn(START)
    assert exposed(swept) == {"missed": 1, "outdated": 1}
    lists = [request.query for request in api.requests if request.path == PODS]
    assert [query.get("continue") for query in lists] == [None, "1", "2", "3"]
    assert all(query["limit"] == "500" and "status.phase!=Succeeded" in query["fieldSelector"] for query in lists)


async def test_one_replica_sweeps() -> None:
    """Every ten minutes, however often each of them looks; another one takes over when that one is gone."""
    api = FakeApi({PODS: STORED})
    first, second = replica(api), replica(api)
    sweeps = []
    for minute in range(60):
        before = len(api.requests)
        turns = [second, first] if minute else [first, second]
        for each in turns if minute < 35 else [second]:
            await each.turn(START + dt.timedelta(minutes=minute))
        if any(request.path == PODS for request in api.requests[before:]):
            sweeps.append(minute)
        assert len([each for each in turns if exposed(each)]) == 1 or minute >= 35
    assert sweeps == [0, 10, 20, 30, 41, 51]
    assert exposed(second)
    await first.turn(START + dt.timedelta(minutes=61))
    assert exposed(first) == {}


async def test_both_at_once() -> None:
    """The Lease can be written once: the other one does not list."""
    api = FakeApi({PODS: STORED})
    both = replica(api), replica(api)
    await asyncio.gather(*(each.turn(START) for each in both))
    assert sorted(map(len, map(exposed, both))) == [0, 2]
    assert sum(request.path == PODS for request in api.requests) == len(STORED)


async def test_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, the rest is not looked at."""
    monkeypatch.setattr(sweep, "MAX_PODS", 1)
    api = FakeApi({PODS: STORED})
    await replica(api).turn(START)
    assert sum(request.path == PODS for request in api.requests) == 2


@pytest.mark.parametrize("answers", [{PATH: 403}, {PODS: 403}, {PODS: UnreachableError("gone")}])
async def test_what_fails(answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged, and no number stays; the next turn may succeed."""
    monkeypatch.setattr(sweep, "TURN", 0.0)
    monkeypatch.setattr(sweep, "PERIOD", 0.0)
    api = FakeApi({PODS: STORED})
    swept = replica(api)
    with capture_logs() as lines:
        swept = replica(api)
        await swept.turn(START)
        assert exposed(swept)
        api.answers.update(answers)
        task = asyncio.create_task(swept.run())
        while not lines:  # noqa: ASYNC110  (of the stand-in)
            await asyncio.sleep(0)
        assert exposed(swept) == {}
        api.answers = {PODS: STORED}
        while not exposed(swept):  # noqa: ASYNC110
            await asyncio.sleep(0)
        task.cancel()
    assert {line["event"] for line in lines} == {"sweep_failed"}
