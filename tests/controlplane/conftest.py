"""The webhook beside the control plane, with what the examples need."""

from collections.abc import Iterator
from http import HTTPStatus

import pytest

from webhook.labels import INJECT

from . import examples, releases
from .cluster import SELECTED, Cluster
from .plane import ControlPlane
from .product import Product, registered, serving


@pytest.fixture(scope="session")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The real server in a process of its own, with the namespaces and mappings of the examples."""
    folder = tmp_path_factory.mktemp("webhook")
    with serving(
        folder, ["--mappings", examples.MAPPINGS, "--settings", examples.SETTINGS, "--namespaces", examples.NAMESPACES]
    ) as product:
        yield product


@pytest.fixture(scope="session")
def cluster(control_plane: ControlPlane, webhook: Product) -> Iterator[Cluster]:
    """The control plane with that server registered for opted-in namespaces, and what the examples need."""
    for namespace in examples.namespaces():
        labels = namespace["metadata"].get("labels", {})
        more = SELECTED if INJECT in labels else {}
        control_plane.create_namespace({**namespace, "metadata": {**namespace["metadata"], "labels": labels | more}})
    runtime_class = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    created = control_plane.client.create({**runtime_class, "handler": "nvidia"})
    assert created.status in (HTTPStatus.CREATED, HTTPStatus.CONFLICT), "a second try finds that of the first"
    with registered(webhook, control_plane, {"matchLabels": SELECTED}, probe=examples.example("01").pod):
        yield Cluster(control_plane, webhook)


@pytest.fixture(autouse=True)
def _new_enough(request: pytest.FixtureRequest) -> None:
    """Skip a test of what older releases of Kubernetes do not have, and say which has it."""
    mark = request.node.get_closest_marker("kubernetes")
    if mark is None:
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    served = plane.client.call("GET", "/version").accepted()["gitVersion"]
    if releases.older(served, mark.args[0]):
        pytest.skip(f"{releases.NEEDS}{mark.args[0]}: {mark.kwargs['why']}")
