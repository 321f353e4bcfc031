"""Events about workloads: each once, and never more than the API server can be given."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.decided import decided
from webhook.cluster import events as module
from webhook.cluster.client import UnreachableError
from webhook.cluster.events import (
    MAX_OWNERS,
    MAX_REMEMBERED,
    OwnerEvents,
    WorkloadEvent,
)
from webhook.labels import TARGET
from webhook.pod import OwnerReference
from webhook.replica.in_cluster import told_of_change

OWNER = OwnerReference("apps/v1", "ReplicaSet", "train-5d4f", "uid")


class Queue:
    """Collects what would be written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, str]] = []
        self.some = asyncio.Event()

    def put(self, subject: Any, reason: str, message: str, _type: str) -> None:
        assert not subject.version, "each replica would write its own Event"
        self.written.append((f"{subject.kind}/{subject.name}", reason, message))
        self.some.set()


def of(api: Any = None) -> tuple[OwnerEvents, Queue]:
    """Events through an API server."""
    queue = Queue()
    return OwnerEvents(cast("Any", api), cast("Any", queue)), queue


def test_a_translation_is_told() -> None:
    """With both vendors, and what else the author did not write; nothing is told of a pod that stays in its keys."""

    def told(limits: dict[str, str], scheduler: str) -> str:
        spec = {"schedulerName": scheduler, "containers": [{"name": "main", "resources": {"limits": limits}}]}
        pod = {"metadata": {"name": "p", "annotations": {TARGET: "nvidia"}}, "spec": spec}
        return told_of_change(decided(pod))

    half = {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"}
    assert told(half, "hami-scheduler") == "pods of this template are translated from vcuda to nvidia"
    text = told(half, "default-scheduler")
    assert text.startswith(
        "pods of this template are translated from vcuda to nvidia: VGW509: schedulerName set to hami"
    )
    own = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    assert told(own, "hami-scheduler") == ""
    assert told(own, "default-scheduler").startswith("pods of this template are changed: VGW509")


def test_the_same_is_new_once() -> None:
    """By owner, and by whatever was said; the oldest is forgotten first."""
    events, _ = of()
    assert [events.is_new("a", "p", "x"), events.is_new("a", "p", "x"), events.is_new("a", "q", "x")] == [
        True,
        False,
        True,
    ]
    for number in range(MAX_REMEMBERED - 1):
        events.is_new(str(number))
    assert not events.is_new("a", "q", "x")
    assert events.is_new("a", "p", "x")


@pytest.mark.parametrize(
    "owner, told",
    [
        (OwnerReference("v1", "Other", "n" * 253, "u" * 64), True),
        (OwnerReference("v1", "Other", "name", "u" * 65), False),
        (OwnerReference("v1", "Other", "n" * 254, "uid"), False),
        (OwnerReference("v1", "K" * 254, "name", "uid"), False),
        (OwnerReference("v" * 318, "Other", "name", "uid"), False),
    ],
)
def test_of_an_owner_that_cannot_be_there_nothing_is_told(owner: OwnerReference, told: bool) -> None:  # noqa: FBT001
    """Nor is it remembered: the API server does not check how long these are."""
    events, _ = of()
    assert events.is_new(owner.uid, "x") == (len(owner.uid) <= 64)
    assert len(events._remembered) == (len(owner.uid) <= 64)  # noqa: SLF001
    events.put(WorkloadEvent("team", owner, "PodsChanged", "m" * 2000, "Normal"))
    assert events._waiting.qsize() == told  # noqa: SLF001
    assert not told or len(events._waiting.get_nowait().message.encode()) == 1024  # noqa: SLF001


async def test_a_name_that_is_a_path_is_not_looked_up() -> None:
    """Pods are validated after their webhooks; nothing is read with the rights of this one."""
    events, queue = of()
    owner = OwnerReference("apps/v1", "ReplicaSet", "../../../../api/v1/secrets?x=", "uid")
    events.put(WorkloadEvent("team", owner, "PodsChanged", "m", "Normal"))
    await written(events, queue)
    assert queue.written[0][0] == "ReplicaSet/../../../../api/v1/secrets?x="


async def written(events: OwnerEvents, queue: Queue) -> None:
    """Run until something is written."""
    running, some = asyncio.create_task(events.run()), asyncio.create_task(queue.some.wait())
    done, _ = await asyncio.wait({running, some}, return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    some.cancel()
    for task in done:
        task.result()


async def test_too_many_wait_for_a_later_pod() -> None:
    """What cannot be written now is not remembered as written."""
    events, queue = of()
    for number in range(MAX_OWNERS):
        assert events.is_new(str(number))
        events.put(WorkloadEvent("n", OwnerReference("v1", "Other", "o", "u"), "PodsChanged", "m", "Normal"))
    assert not events.is_new("late")
    await written(events, queue)
    assert events.is_new("late")


@pytest.mark.parametrize(
    "answer, subject",
    [
        (
            {"metadata": {"ownerReferences": [{"kind": "Deployment", "name": "train", "controller": True}]}},
            "Deployment/train",
        ),
        ({"metadata": {"ownerReferences": [{"kind": "Other", "name": "o"}]}}, "ReplicaSet/train-5d4f"),
        (
            {"metadata": {"ownerReferences": [{"kind": "Other", "name": "o", "uid": "u" * 65, "controller": True}]}},
            "ReplicaSet/train-5d4f",
        ),
        ({"metadata": {}}, "ReplicaSet/train-5d4f"),
        (None, "ReplicaSet/train-5d4f"),
    ],
)
async def test_the_owner_of_the_owner(monkeypatch: pytest.MonkeyPatch, answer: Any, subject: str) -> None:
    """Where it can be read; otherwise the owner itself."""
    paths: list[str] = []

    async def read(_api: object, path: str, kind: Any) -> Any:
        paths.append(path)
        if answer is None:
            raise UnreachableError("away")
        return msgspec.convert(answer, kind)

    monkeypatch.setattr(module, "read_object", read)
    events, queue = of(SimpleNamespace())
    events.put(WorkloadEvent("team", OWNER, "PodsChanged", "m", "Normal"))
    await written(events, queue)
    assert queue.written == [(subject, "PodsChanged", "m")]
    assert paths == ["/apis/apps/v1/namespaces/team/replicasets/train-5d4f"]
