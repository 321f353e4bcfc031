"""Faults of the objects that the webhook keeps or reads: certificates, webhook configuration, documents."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.controlplane.beside import beside
from tests.controlplane.client import Object
from tests.controlplane.objects import namespace

from .scene import GROUP, KIND, LAST_GOOD, NAME, OWN, SECRET, Scene

REVERT_EVERY = 0.8
"""Seconds after which somebody changes the configuration again."""


def secret_deleted(scene: Scene) -> None:
    """The certificates are gone."""
    scene.client.delete("v1", "secrets", SECRET, OWN).accepted()


@contextmanager
def configuration_deleted(scene: Scene) -> Iterator[None]:
    """Somebody deletes the webhook configuration again and again."""
    with _again_and_again(scene, lambda: scene.client.delete(GROUP, KIND, NAME)):
        yield


@contextmanager
def configuration_opened(scene: Scene) -> Iterator[None]:
    """A tool sets `Ignore`, without conditions, again and again."""

    def change(found: Object) -> None:
        for webhook in found["webhooks"]:
            webhook["failurePolicy"] = "Ignore"
            webhook.pop("matchConditions", None)

    with _again_and_again(scene, lambda: scene.change_configuration(change)):
        yield


def namespaces_kept_out(scene: Scene) -> None:
    """One edit after which no namespace is selected."""

    def change(found: Object) -> None:
        for webhook in found["webhooks"]:
            webhook["namespaceSelector"]["matchLabels"] = {"x": "y"}

    scene.change_configuration(change)


@contextmanager
def second_installation(scene: Scene) -> Iterator[None]:
    """Another release, with certificates of its own, writes the same webhook configuration."""
    answer = scene.client.create(namespace("gpu-second"))
    assert answer.status in {201, 409}
    with scene.extra(home="gpu-second"):
        yield


@contextmanager
def another_mapping(scene: Scene) -> Iterator[None]:
    """A good one comes, and goes."""
    scene.mapping("another", mapping("another"))
    yield
    scene.delete_config_map("another")


@contextmanager
def long_conditions(scene: Scene) -> Iterator[None]:
    """A mapping whose keys are more than an API server takes in one expression."""
    keys = [f"long.example/{number:05}{'x' * 32}" for number in range(2000)]
    scene.mapping("long", {**mapping("long"), "match": {"keys": keys}})
    yield
    scene.delete_config_map("long")


@contextmanager
def in_force_by_record(scene: Scene) -> Iterator[None]:
    """A document that was good, and is spoilt: it is in force by the record of the last good ones alone."""

    def recorded() -> bool:
        data = scene.client.get("v1", "configmaps", LAST_GOOD, OWN).body.get("data", {})
        return bool(data.get("spoilt") == json.dumps(document))

    # Another text each time: what an earlier fault left in the record is written again only where documents change.
    document = {**mapping("spoilt"), "about": f"at {time.monotonic_ns()}"}
    scene.mapping("spoilt", document)
    scene.plane.wait_until(recorded, "the document is kept", 60)
    scene.mapping("spoilt", {**document, "kesy": {}})
    scene.plane.wait_until(lambda: scene.rejected("spoilt"), "the document is rejected", 60)
    yield
    scene.delete_config_map("spoilt")


def last_good_deleted(scene: Scene) -> None:
    """The record of the last good documents is gone."""
    scene.delete_config_map(LAST_GOOD)


@contextmanager
def last_good_full(scene: Scene) -> Iterator[None]:
    """There are more good documents than it can hold."""
    names = [f"long-{number}" for number in range(3)]
    for name in names:
        text = f"{json.dumps(mapping(name))}\n# {'x' * 500_000}\n"
        scene.config_map(name, {"mapping.yaml": text}, {"vgpu-webhook.io/mapping": "true"})
    yield
    for name in names:
        scene.delete_config_map(name)


def mapping(vendor: str) -> Object:
    """A good one."""
    return {
        "vendor": vendor,
        "family": vendor,
        "keys": {"device": {"resource": f"{vendor}.example/gpu", "is": "devices"}},
        "forms": [{"name": "devices", "absent": {"memory": "all", "cores": "unlimited"}}],
    }


@contextmanager
def _again_and_again(scene: Scene, do: Callable[[], object]) -> Iterator[None]:
    def work(over: threading.Event) -> None:
        while not over.wait(REVERT_EVERY):
            do()

    do()
    with beside(work):
        yield
    # Repairs are slower and slower until it has been calm for ten minutes: the next fault is not to be this one's.
    scene.fresh = False
