"""Helm for the tests of the chart."""

import pytest

from tests.go_program import BinariesMissingError

from .charts import Chart, chart
from .helm import VERSIONS


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
