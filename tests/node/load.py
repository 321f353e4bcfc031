"""Pods that are created all the time, and what became of each."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.controlplane.beside import beside
from tests.controlplane.client import Answer
from tests.controlplane.plane import ControlPlane

from .releases import TEAM, Release, events, touched

CLIENTS = 4
PAUSE = 0.05
GRACE = 10.0
"""Seconds of `drain.graceSeconds`, by the chart's default."""

LONG = 300.0
"""Seconds for thousands of pods to be deleted by one call."""


@dataclass
class Load:
    """Creations so far.

    Attributes:
        refused: what the API server said of pods that it did not create.
        untouched: how many were created without the webhook's status.
    """

    created: int = 0
    untouched: int = 0
    refused: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, answer: Answer | OSError) -> None:
        with self._lock:
            if isinstance(answer, OSError):
                self.refused.append(repr(answer))
            elif answer.status != 201:
                self.refused.append(f"{answer.status}: {answer.message}")
            else:
                self.created += 1
                self.untouched += not touched(answer)


@contextmanager
def load(release: Release) -> Iterator[Load]:
    """Create pods with a GPU share in the opted-in namespace until the end of the block; then they are deleted."""
    total = Load()

    def work(over: threading.Event) -> None:
        while not over.wait(PAUSE):
            try:
                total.add(release.create(TEAM))
            except OSError as error:
                total.add(error)

    try:
        with beside(work, CLIENTS):
            yield total
    finally:
        delete_pods(release.plane)


@contextmanager
def unnoticed(release: Release, *, drain: bool = True) -> Iterator[Load]:
    """Pods are created in a block: none may be refused, each has to be treated, and the replicas that go have drained."""
    logs = {name: _open_log(release, name) for name in release.ready()}
    with load(release) as pods:
        yield pods
        release.plane.wait_until(lambda: pods.created > 100, "a hundred pods", 120)
    assert pods.refused == [], pods.refused[0]
    assert pods.untouched == 0
    alive = {pod["metadata"]["name"] for pod in release.replicas()}
    if drain:
        assert logs.keys() - alive
    for name in logs.keys() - alive:
        with os.fdopen(logs[name], encoding="utf-8", closefd=False) as log:
            text = log.read()
        assert drained(text) or not drain, f"{name} has not drained: {text[-2000:]}"
    for descriptor in logs.values():
        os.close(descriptor)


def delete_pods(plane: ControlPlane, namespace: str = TEAM) -> None:
    """Delete the pods of a namespace: pods that wait for a scheduler are trouble to the doctor."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    plane.client.call("DELETE", path, query={"gracePeriodSeconds": "0"}, seconds=LONG).accepted()


def drained(log: str) -> bool:
    """Whether a replica began the grace period on SIGTERM, left nothing unanswered, and ended itself.

    That it answers until the end of that period: tests/server/test_drain.py.
    Whoever creates pods would not notice: an API server repeats a call that is cut off, and keeps a connection for the next.

    Args:
        log: what it has written; a runtime may have put something before each line.
    """
    lines = events(log)
    ends = [line for line in lines if line["event"] in {"draining", "stopping", "stopped"}]
    if [line["event"] for line in ends] != ["draining", "stopping", "stopped"]:
        return False
    troubled = any(line["level"] == "error" for line in lines[lines.index(ends[0]) :])
    return ends[0]["grace"] == GRACE and ends[1]["in_flight"] == 0 and not troubled


def _open_log(release: Release, replica: str) -> int:
    """Open the log of a replica: the kubelet removes it together with the pod, and an open file stays."""
    return os.open(release.log(replica), os.O_RDONLY)
