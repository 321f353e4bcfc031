"""Faults of the installation: its namespace, its trust, its disks, its versions."""

import base64
import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

from certs.x509 import make_ca
from tests.controlplane.client import Object
from tests.controlplane.objects import namespace

from .scene import OWN, SECRET, SETTINGS, Scene


@contextmanager
def settings_again(scene: Scene) -> Iterator[None]:
    """The settings are written again by a person."""
    yield
    scene.settings()


@contextmanager
def settings_again_and_controllers(scene: Scene) -> Iterator[None]:
    """The same, and somebody who ends namespaces."""
    with settings_again(scene):
        scene.plane.start_controller_manager()
        yield
        scene.plane.stop_component("kube-controller-manager")


def namespace_lost(scene: Scene) -> None:
    """The webhook's own namespace is deleted with all that is in it, and created again; then a replica restarts."""
    plane, client = scene.plane, scene.client
    client.delete("v1", "namespaces", OWN).accepted()
    plane.wait_until(lambda: client.get("v1", "namespaces", OWN).status == 404, "the namespace is gone", 120)
    plane.create_namespace(namespace(OWN))
    plane.wait_until(lambda: scene.rejected(SETTINGS), "no settings", 120)
    scene.restart(0)
    plane.wait_until(scene.ready, "ready after the loss", 180)
    plane.wait_until(lambda: scene.rejected(SETTINGS), "no settings either", 120)


def config_maps_deleted(scene: Scene) -> None:
    """Everything is deleted at once."""
    scene.client.call("DELETE", f"/api/v1/namespaces/{OWN}/configmaps").accepted()
    scene.plane.wait_until(lambda: scene.rejected(SETTINGS), "no settings", 120)


def strangers_bundle(scene: Scene) -> None:
    """While no replica runs the Secret is lost, and somebody writes a CA of his own into caBundle; then all start."""
    stranger = make_ca("a stranger", dt.datetime.now(dt.UTC))
    bundle = base64.b64encode(stranger.certificate_pem).decode()

    def change(found: Object) -> None:
        for webhook in found["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle

    scene.kill(0, 1)
    scene.client.delete("v1", "secrets", SECRET, OWN).accepted()
    scene.change_configuration(change)
    scene.restart(0, 1)
