"""Helm for the tests of the chart, and releases of it."""

from collections.abc import Iterator

import pytest

from tests.controlplane import build
from tests.go_program import BinariesMissingError
from tests.kubelet.enclave import why_not
from tests.kubelet.node_plane import NodePlane

from .charts import Chart, chart
from .helm import VERSIONS
from .releases import OPTED_IN, TEAM, Release, namespace


def _built(version: str, pytestconfig: pytest.Config) -> Chart:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            return chart(version)
        except BinariesMissingError as error:
            pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config) -> Chart:
    """The chart, by Helm 3."""
    return _built(VERSIONS[0], pytestconfig)


@pytest.fixture(scope="session")
def helm4(pytestconfig: pytest.Config) -> Chart:
    """The chart, by Helm 4."""
    return _built(VERSIONS[1], pytestconfig)


def _binaries(pytestconfig: pytest.Config) -> build.Binaries:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            return build.find()
        except BinariesMissingError as error:
            pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def node_plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodePlane]:
    """A control plane with a node on which pods really run, and Services that lead to them."""
    reason = why_not()
    if reason:
        pytest.skip(
            "no namespaces for pods and Services on this machine, so the release is tried by URL only, in "
            f"test_installation_by_url.py: {reason}"
        )
    with NodePlane(_binaries(pytestconfig), tmp_path_factory.mktemp("node")) as plane:
        yield plane


@pytest.fixture(scope="session")
def open_node_plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodePlane]:
    """The same without an enclave, which any machine can have: no Service leads anywhere."""
    with NodePlane(_binaries(pytestconfig), tmp_path_factory.mktemp("open-node"), enclosed=False) as plane:
        yield plane


@pytest.fixture(scope="session")
def any_release(helm: Chart, node_plane: NodePlane) -> Release:
    """The one release of that cluster, in whatever state tests have left it; and a namespace that has opted in."""
    namespace(node_plane, TEAM, OPTED_IN)
    return Release(helm, node_plane)


@pytest.fixture
def release(any_release: Release) -> Release:
    """The release, installed with the chart's defaults, well and registered."""
    any_release.ensure()
    return any_release
