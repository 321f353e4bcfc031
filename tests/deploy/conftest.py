"""Helm for the tests of the chart."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.controlplane.fixtures import Built

from .charts import Chart, chart
from .helm import VERSIONS, renderer, rendering


@pytest.fixture(scope="session")
def helms(built: Built) -> Iterator[dict[str, Chart]]:
    """The chart by each version of Helm, of which the first renders in one process."""
    charts = built(lambda: {version: chart(version) for version in VERSIONS})
    with rendering(built(renderer)) as render:
        yield {**charts, "v3": replace(charts["v3"], renderer=render)}


@pytest.fixture(scope="session")
def helm(helms: dict[str, Chart]) -> Chart:
    """The chart, by Helm 3."""
    return helms["v3"]


@pytest.fixture(scope="session")
def helm4(helms: dict[str, Chart]) -> Chart:
    """The chart, by Helm 4."""
    return helms["v4"]
