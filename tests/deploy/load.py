"""Pods that are created all the time, and what became of each."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.controlplane.beside import beside
from tests.controlplane.client import Answer

from .releases import TEAM, Release, touched

CLIENTS = 4
PAUSE = 0.05
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
        """Count one."""
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
        delete_pods(release)


def delete_pods(release: Release) -> None:
    """Delete the pods of the opted-in namespace: pods that wait for a scheduler are trouble to the doctor."""
    path = f"/api/v1/namespaces/{TEAM}/pods"
    release.plane.client.call("DELETE", path, query={"gracePeriodSeconds": "0"}, seconds=LONG).accepted()
