"""Faults of the replicas, and of those who call them."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.controlplane.beside import beside, together

from . import strangers
from .scene import TEAM, Scene, limited
from .stream import gpu_pod

CLOCK = """
import datetime, msgspec.yaml, runpy, sys, time, types

# It asks for the class itself when it decodes.
msgspec.yaml._datetime = types.SimpleNamespace(datetime=datetime.datetime, date=datetime.date)

class Ahead(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(days=70)

datetime.datetime, real = Ahead, time.time
time.time = lambda: real() + 70 * 86400
sys.argv = sys.argv[3:]
runpy.run_module("webhook", run_name="__main__", alter_sys=True)
"""
"""Runs the program that it is put before by another clock; a clock of the system would be everybody's."""

IDLE = 200
"""Connections: more than a replica permits."""


@contextmanager
def one_killed(scene: Scene) -> Iterator[None]:
    """One ends without notice, and is started again."""
    scene.kill(0)
    yield
    scene.restart(0)


@contextmanager
def all_killed(scene: Scene) -> Iterator[None]:
    """All end without notice, and are started again."""
    scene.kill(0, 1)
    yield
    scene.restart(0, 1)


@contextmanager
def one_suspended(scene: Scene) -> Iterator[None]:
    """One stands still, its connections too."""
    scene.signal(signal.SIGSTOP, 0)
    yield
    scene.signal(signal.SIGCONT, 0)


@contextmanager
def all_suspended(scene: Scene) -> Iterator[None]:
    """All stand still."""
    scene.signal(signal.SIGSTOP, 0, 1)
    yield
    scene.signal(signal.SIGCONT, 0, 1)


@contextmanager
def few_connections(scene: Scene) -> Iterator[None]:
    """A replica permits few connections."""
    scene.restart(0, options=("--connections", "64"))
    scene.plane.wait_until(scene.ready, "ready with few connections", 60)
    yield
    scene.restart(0)


@contextmanager
def few_descriptors(scene: Scene) -> Iterator[None]:
    """A replica may open few files."""
    scene.restart(0, before=limited("-n 96"))
    scene.plane.wait_until(scene.ready, "ready with few descriptors", 60)
    yield
    scene.restart(0)


@contextmanager
def idle_connections(scene: Scene) -> Iterator[None]:
    """Somebody opens more connections than that, and says nothing."""
    with strangers.idle(scene.replicas[0], IDLE):
        yield


@contextmanager
def clock_ahead(scene: Scene) -> Iterator[None]:
    """The clock of a replica's node is 70 days ahead: its certificate looks old to it."""
    scene.restart(0, before=(sys.executable, "-c", CLOCK))
    scene.plane.wait_until(lambda: scene.get(scene.replicas[0], "/healthz")[0] == 200, "it runs", 120)
    yield
    # Both have written certificates against each other, and for a minute are slow to write more.
    scene.fresh = False


def huge_namespaces(scene: Scene) -> None:
    """Somebody sends reviews whose namespace is millions of letters."""
    body = _review("n" * 6_500_000)

    def send(number: int) -> None:
        with closing(strangers.connection(scene.replicas[number % 2])) as connection:
            strangers.send(connection, body)

    together(send, 30)


@contextmanager
def denials(scene: Scene) -> Iterator[None]:
    """Somebody sends reviews that are denied, as many as he can."""
    body = _review(TEAM, limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "-1"})

    def work(over: threading.Event) -> None:
        with closing(strangers.connection(scene.replicas[0])) as connection:
            while not over.is_set():
                strangers.send(connection, body)

    with beside(work, 8):
        yield


def _review(namespace: str, limits: dict[str, str] | None = None) -> bytes:
    request = {
        "uid": "1",
        "operation": "CREATE",
        "namespace": namespace,
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": gpu_pod("stranger", limits),
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
