"""The one control plane of a test run, started when the first test requests it; a plugin, for several folders share it."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import pytest

from webhook.mapping.load import load_policy

from . import build, releases
from .plane import ControlPlane

PLANE = pytest.StashKey[ControlPlane]()
T = TypeVar("T")


class Built(Protocol):
    """Calls what builds or needs programs."""

    def __call__(self, make: Callable[[], T]) -> T:
        """Return what it makes; fail with what it says is missing."""


@pytest.fixture(scope="session")
def built(pytestconfig: pytest.Config) -> Built:
    """Of programs that are built where this machine has never built them."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def made(make: Callable[[], T]) -> T:
        # Building takes minutes, and whoever waits wants to see that it goes on.
        with capture.global_and_fixture_disabled():
            try:
                return make()
            except build.BinariesMissingError as error:
                pytest.fail(str(error), pytrace=False)

    return made


@pytest.fixture(scope="session")
def control_plane(
    pytestconfig: pytest.Config, built: Built, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The one control plane of this run: etcd and the API server."""
    with ControlPlane(built(build.find), tmp_path_factory.mktemp("controlplane")) as plane:
        pytestconfig.stash[PLANE] = plane
        yield plane


@pytest.fixture(scope="session")
def controllers(control_plane: ControlPlane, built: Built) -> ControlPlane:
    """The same with the controller manager: workloads get their pods."""
    built(control_plane.start_controller_manager)
    return control_plane


@pytest.fixture(scope="session")
def scheduler(controllers: ControlPlane, built: Built) -> ControlPlane:
    """The same with the scheduler too: pods are bound to nodes that tests create as objects."""
    names = [place for vendor in load_policy().vendors.values() if (place := vendor.place.scheduler)]
    built(lambda: controllers.start_scheduler(names))
    return controllers


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records what a release of Kubernetes did."""
    parser.addoption(
        "--record-release", action="store_true", help="record this run in tests/controlplane/releases.yaml"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Record a whole run. After a failure, say where the logs of the control plane are; pytest keeps those of three runs."""
    # Each process of several has a part of the run, and its own summary.
    if config.getoption("--record-release") and exitstatus == 0 and not hasattr(config, "workerinput"):
        stats = terminalreporter.stats
        releases.record(build.version(), stats.get("passed", ()), stats.get("skipped", ()))
    plane = config.stash.get(PLANE, None)
    if plane is not None and exitstatus != 0:
        terminalreporter.write_sep("-", "control plane")
        terminalreporter.write_line(f"logs: {plane.folder.parent}/*/*.log")
