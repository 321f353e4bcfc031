"""The chart, rendered: sets of values, and the objects that come out."""

import os
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.client import Object
from tests.yaml_text import load_yaml_all

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

STATIC = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: 00-vgpu-webhook}
webhooks:
- name: enforce.vgpu-webhook.io
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: gpu-system, name: vgpu-webhook, path: /mutate, port: 443}}
  failurePolicy: Fail
  sideEffects: None
  timeoutSeconds: 5
  namespaceSelector: {matchLabels: {vgpu-webhook.io/inject: enabled}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}]
"""

WHOLE: Object = {
    "vendor": "acme",
    "family": "acme",
    "keys": {"card": {"resource": "acme.example/card", "is": "devices"}},
    "forms": [{"name": "cards", "absent": {"memory": "all", "cores": "unlimited"}}],
}

PROXY: Object = {
    "to": [{"ipBlock": {"cidr": "192.0.2.3/32"}}],
    "ports": [{"port": 3128, "protocol": "TCP"}],
}
"""A rule that lets pods out to a proxy."""

VALUES: dict[str, Object] = {
    "default": {},
    "plugin": {"shim": {"mode": "plugin"}},
    "own-installer": {"shim": {"installer": {"enabled": False}}},
    "installer-elsewhere": {
        "shim": {
            "installer": {
                "namespace": "kube-system",
                "image": {"tag": "", "digest": "sha256:" + "0123456789abcdef" * 4},
            }
        }
    },
    "mappings": {
        "settings": {
            "target": "nvidia",
            "neverTouched": ["a", "b"],
            "podSecurityDefault": "baseline",
            "optInLabel": "gpu/in",
        },
        "mappings": {
            "nvidia": {"defaults": {"memory": "8000Mi"}, "place": {"scheduler": "gpu-scheduler"}},
            "vcuda": {"shim": None},
            "acme": WHOLE,
        },
    },
    "plugin-and-mapping": {
        "shim": {"mode": "plugin"},
        "mappings": {"nvidia": {"place": {"scheduler": "gpu-scheduler"}}},
    },
    "cert-manager": {"certificates": {"mode": "certManager", "extraNames": ["webhook.example", "192.0.2.1"]}},
    "cert-manager-issuer": {
        "registration": {"url": "https://webhook.example:8443/mutate"},
        "certificates": {
            "mode": "certManager",
            "certManager": {"issuerRef": {"name": "company", "kind": "ClusterIssuer", "group": "cert-manager.io"}},
        },
    },
    "secret": {
        "certificates": {"mode": "secret", "secretName": "our-certificate", "clientCaConfigMap": "api-server-ca"},
        "clusterDomain": "cluster.example",
    },
    "static": {"registration": {"mode": "static", "manifest": STATIC}},
    "static-elsewhere": {"registration": {"mode": "static"}},
    "off": {"registration": {"mode": "off"}},
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
    },
    "bare": {
        "replicaCount": 1,
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "given"},
        "priorityClassName": "",
        "drain": {"preStopSeconds": 0, "graceSeconds": 0},
        "resources": {},
    },
    "private-api-server": {
        "hostNetwork": True,
        "containerPorts": {"webhook": 10250, "metrics": 9090},
        "networkPolicy": {"apiServerCidrs": ["192.0.2.0/28"], "apiServerPorts": [8443]},
    },
    "everything": {
        "nameOverride": "shares",
        "fullnameOverride": "gpu-shares",
        "commonLabels": {"team": "platform"},
        "replicaCount": 3,
        "image": {"repository": "registry.example/vgpu-webhook", "digest": "sha256:" + "0123456789abcdef" * 4},
        "imagePullSecrets": [{"name": "registry"}],
        "certificates": {"caSettleSeconds": 0, "extraNames": ["webhook.example"]},
        "logLevel": "debug",
        "extraArgs": ["--reuse-port"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        "terminationGracePeriodSeconds": 60,
        "service": {"annotations": {"a": "b"}},
        "serviceAccount": {"annotations": {"a": "b"}, "tokenExpirationSeconds": 600},
        "podAnnotations": {"a": "b"},
        "podLabels": {"a": "b"},
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]
                }
            }
        },
        "networkPolicy": {
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "extraEgress": [PROXY],
        },
        "test": {"namespaces": [NAMESPACE], "extraArgs": ["--help"]},
    },
}


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
        return chart.renderer.render(*command, text=text)
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
