"""Helm for the tests of the chart."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.controlplane.fixtures import Built

from .charts import Chart, chart
from .helm import VERSIONS, renderer, rendering


@pytest.fixture(scope="session")
def helm(built: Built) -> Iterator[Chart]:
    """The chart, by Helm 3, whose library renders in one process."""
    rendered = built(chart)
    with rendering(built(renderer)) as render:
        yield replace(rendered, renderer=render)


@pytest.fixture(scope="session")
def helm4(built: Built) -> Chart:
    """The chart, by Helm 4."""
    return built(lambda: chart(VERSIONS[1]))
