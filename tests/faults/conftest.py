"""The cluster of the faults, and what its alerts are tried with."""

from collections.abc import Iterator

import pytest

from tests.controlplane import build
from tests.controlplane.own_plane import OwnPlane
from tests.deploy.charts import chart, one
from tests.deploy.promtool import promtool
from tests.go_program import BinariesMissingError

from .scene import TEAM, Scene
from .service import Probe, ways
from .stream import Stream
from .witnesses import Alerts


@pytest.fixture(scope="module")
def scene(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A cluster of its own, with two replicas behind a Service; it ends with the faults, for it takes room and time."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            binaries, rendered = build.find(), chart()
        except BinariesMissingError as error:
            pytest.fail(str(error), pytrace=False)
    looked_at = one(rendered.render({}), "Deployment")["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    probe = Probe(looked_at["periodSeconds"], looked_at["timeoutSeconds"], looked_at["failureThreshold"])
    with OwnPlane(binaries, tmp_path_factory.mktemp("plane")) as plane, ways(plane, probe) as both:
        scene = Scene(plane, both, Stream(plane.client, TEAM), tmp_path_factory.mktemp("replicas"))
        with scene.stack:
            scene.begin()
            yield scene
        # It would wait for the end of watches that nobody ends.
        plane.stop_component("kube-apiserver")


@pytest.fixture(scope="module")
def alerts(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Alerts:
    """The chart's alerts, rendered for that cluster."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            tool, rendered = promtool(), chart()
        except BinariesMissingError as error:
            pytest.fail(str(error), pytrace=False)
    rule = one(rendered.render({"prometheusRule": {"enabled": True}}), "PrometheusRule")
    return Alerts(tool, rule["spec"], tmp_path_factory.mktemp("alerts"))
