"""The chart, rendered: sets of values, and the objects that come out."""

import os
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.client import Object
from tests.yaml_text import load_yaml, load_yaml_all

from .helm import VERSIONS, Helm, HelmError, Renderer

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
RELEASE = "vgpu-webhook"
NAMESPACE = "gpu-system"
KUBERNETES = "1.36.3"
"""What the chart is rendered for; the oldest is in Chart.yaml."""

INJECT = ("--set", "shim.mode=inject")
REQUIRED = (*INJECT, "--set", "image.repository=vgpu-webhook,settings.bareDevices=share")
"""Values that the chart has no defaults for, as options."""

VALUES: dict[str, Object] = load_yaml((Path(__file__).parent / "values.yaml").read_text())
STATIC: str = VALUES["static"]["registration"]["manifest"]
WHOLE: Object = VALUES["mappings"]["mappings"]["acme"]
PROXY: Object = VALUES["everything"]["networkPolicy"]["extraEgress"][0]
"""A rule that lets pods out to a proxy."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart as one version of Helm sees it."""

    helm: Path
    kubernetes: str = KUBERNETES
    folder: Path = field(default=CHART)
    renderer: Renderer | None = None

    def run(self, *arguments: str, text: str | None = None) -> str:
        """Return what Helm prints.

        Raises:
            HelmError: it failed.
        """
        command = [str(self.helm), *arguments]
        # It ends before collecting garbage is worth its time, and beside others in all cores it has none for threads.
        environment = {**os.environ, "GOGC": "off", "GOMAXPROCS": "1"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, input=text, timeout=120, env=environment
        )
        if done.returncode != 0:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def template(self, *arguments: str, text: str = "{}", release: str = RELEASE, namespace: str = NAMESPACE) -> str:
        """Return what `helm template` prints for values in a text, before which those of options come."""
        return self._rendered(*arguments, text=text, release=release, namespace=namespace)[0]

    def notes(self, text: str, *arguments: str) -> str:
        """Return what Helm prints after an installation: only where there is a renderer, for Helm 3 asks a cluster first."""
        return self._rendered(*arguments, text=text)[1]

    def _rendered(
        self, *arguments: str, text: str, release: str = RELEASE, namespace: str = NAMESPACE
    ) -> tuple[str, str]:
        options = ["--namespace", namespace, "--kube-version", self.kubernetes, "--values", "-", *arguments]
        rendered = _once if self.folder == CHART else _rendered  # only this chart is sure to stay as it is
        return rendered(self, release, str(self.folder), *options, text=text)

    def render(
        self, values: Object, *arguments: str, release: str = RELEASE, namespace: str = NAMESPACE
    ) -> list[Object]:
        """Return the objects of one set of values, of which those that are required are some unless they say otherwise."""
        values = {
            **values,
            "shim": {"mode": "inject", **values.get("shim", {})},
            "image": {"repository": "vgpu-webhook", **values.get("image", {})},
            "settings": {"bareDevices": "share", **values.get("settings", {})},
        }
        text = yaml.safe_dump(values)
        return list(load_yaml_all(self.template(*arguments, text=text, release=release, namespace=namespace)))


def _rendered(chart: Chart, *command: str, text: str) -> tuple[str, str]:
    if chart.renderer is not None:
        return chart.renderer(*command, text=text)
    return chart.run("template", *command, text=text), ""


_once = cache(_rendered)


def chart(version: str = VERSIONS[0], kubernetes: str = KUBERNETES) -> Chart:
    """Return the chart for one version of Helm, built now if this machine has never built it."""
    return Chart(Helm(version).program(), kubernetes)


def one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    """Return the only object of a kind (and a name)."""
    [found] = [each for each in objects if each["kind"] == kind and name in {None, each["metadata"]["name"]}]
    return found


def pod_of(workload: Object) -> Any:
    """Return the pod's spec of a workload, or of a pod."""
    return workload["spec"] if workload["kind"] == "Pod" else workload["spec"]["template"]["spec"]
