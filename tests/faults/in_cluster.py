"""Faults of the cluster: its API server, its store, the way to them, its size."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.controlplane import objects
from tests.controlplane.client import Object
from tests.controlplane.own_plane import Relay

from .in_objects import mapping
from .scene import LATE, OPTED_IN, OWN, TEAM, Scene

NAMESPACES = 5000
MAPPINGS = 2000


@contextmanager
def api_server_stopped(scene: Scene) -> Iterator[None]:
    """It ends, and is started again."""
    scene.plane.stop_component("kube-apiserver")
    yield
    scene.plane.start_component("kube-apiserver")
    scene.plane.wait_ready()


@contextmanager
def store_stopped(scene: Scene) -> Iterator[None]:
    """Etcd ends under the API server, and is started again."""
    scene.plane.stop_component("etcd")
    yield
    scene.plane.start_component("etcd")
    scene.plane.wait_ready()


@contextmanager
def way_cut(scene: Scene) -> Iterator[None]:
    """Replicas cannot reach the API server, which can reach them."""
    scene.ways.relay(Relay.cut)
    yield
    scene.ways.relay(Relay.mend)


@contextmanager
def stale_label(scene: Scene) -> Iterator[None]:
    """A namespace opts in while watches deliver nothing; the pods are created there."""
    labels = f"/api/v1/namespaces/{LATE}"
    merge = "application/merge-patch+json"
    scene.ways.relay(Relay.hush)
    time.sleep(0.5)
    scene.client.call("PATCH", labels, {"metadata": {"labels": OPTED_IN}}, content_type=merge).accepted()
    time.sleep(1)
    scene.stream.namespace = LATE
    yield
    scene.stream.namespace = TEAM
    # Calls that are under way end within their time-out: answered after the label went, they are rightly let through.
    time.sleep(6)
    none = dict.fromkeys(OPTED_IN)
    scene.client.call("PATCH", labels, {"metadata": {"labels": none}}, content_type=merge).accepted()
    scene.ways.relay(Relay.cut)
    scene.ways.relay(Relay.mend)


def many_namespaces(scene: Scene) -> None:
    """Thousands of namespaces are created, and stay."""

    def made(number: int) -> Object:
        return objects.namespace(f"many-{number}", OPTED_IN if number % 2 else {})

    scene.create_many("/api/v1/namespaces", made, NAMESPACES)


@contextmanager
def many_mappings(scene: Scene) -> Iterator[None]:
    """Thousands of good mappings come, and go."""

    def made(number: int) -> Object:
        return objects.mapping(f"many-{number}", json.dumps(mapping(f"many-{number}")))

    path = f"/api/v1/namespaces/{OWN}/configmaps"
    scene.create_many(path, made, MAPPINGS)
    scene.plane.wait_until(scene.rejects, "some are rejected", 300)
    yield
    scene.client.call("DELETE", path, query={"labelSelector": "vgpu-webhook.io/mapping"}).accepted()
