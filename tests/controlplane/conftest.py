"""The control plane of a test run, started when the first test asks for it."""

from collections.abc import Iterator

import pytest

from . import build, examples
from .cluster import Cluster
from .plane import ControlPlane
from .product import Product, registered, serving

PLANE = pytest.StashKey[ControlPlane]()


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The one control plane of this run: etcd and the API server."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    # Building takes minutes, and whoever waits wants to see that it goes on.
    with capture.global_and_fixture_disabled():
        try:
            binaries = build.find()
        except build.BinariesMissingError as error:
            pytest.fail(str(error), pytrace=False)
    with ControlPlane(binaries, tmp_path_factory.mktemp("controlplane")) as plane:
        pytestconfig.stash[PLANE] = plane
        yield plane


@pytest.fixture(scope="session")
def controllers(control_plane: ControlPlane) -> ControlPlane:
    """The same with the controller manager: workloads get their pods."""
    try:
        control_plane.start_controller_manager()
    except build.BinariesMissingError as error:
        pytest.fail(str(error), pytrace=False)
    return control_plane


@pytest.fixture(scope="session")
def scheduler(controllers: ControlPlane) -> ControlPlane:
    """The same with the scheduler too: pods are bound to nodes that tests create as objects."""
    try:
        controllers.start_scheduler()
    except build.BinariesMissingError as error:
        pytest.fail(str(error), pytrace=False)
    return controllers


@pytest.fixture(scope="session")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The real server in a process of its own, with the namespaces and mappings of the examples."""
    folder = tmp_path_factory.mktemp("webhook")
    with serving(folder, ["--mappings", examples.MAPPINGS, "--namespaces", examples.NAMESPACES]) as product:
        yield product


@pytest.fixture(scope="session")
def cluster(control_plane: ControlPlane, webhook: Product) -> Iterator[Cluster]:
    """The control plane with that server registered for opted-in namespaces, and what the examples need."""
    for namespace in examples.namespaces():
        control_plane.create_namespace(namespace)
    runtime_class = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    control_plane.client.create({**runtime_class, "handler": "nvidia"}).accepted()
    selector = {"matchLabels": {"vgpu-webhook.io/inject": "enabled"}}
    with registered(webhook, control_plane, selector, probe=examples.example("01").pod):
        yield Cluster(control_plane, webhook)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """After a failure, say where the logs of the control plane are; pytest keeps those of the last three runs."""
    plane = config.stash.get(PLANE, None)
    if plane is not None and exitstatus != 0:
        terminalreporter.write_sep("-", "control plane")
        terminalreporter.write_line(f"logs: {plane.folder.parent}/*/*.log")
