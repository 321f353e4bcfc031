"""The plain manifests: what the chart renders with its defaults, as a kustomize base, and an overlay that changes it."""

import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.generate import CHART

NAMESPACE: Final = "vgpu-webhook"
_HEAD: Final = "# Written by `make manifests` from deploy/chart: change that.\n"
_HELMS: Final = {"helm.sh/chart", "app.kubernetes.io/managed-by"}
"""Labels that are Helm's."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def base(helm: Path) -> dict[str, str]:
    """The files of the base: one for each object, and the kustomization that lists them.

    Args:
        helm: the program.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    command = [str(helm), "template", "vgpu-webhook", str(CHART), "--namespace", NAMESPACE]
    rendered = subprocess.run(  # noqa: S603  (our own chart)
        [*command, "--no-hooks", "--kube-version", "1.36.0"], capture_output=True, text=True, check=True
    ).stdout
    files = {"namespace.yaml": _HEAD + _dump(_namespace())}
    for manifest in yaml.safe_load_all(rendered):
        if manifest is not None:
            _without_helm(manifest)
            name = manifest["metadata"]["name"].removeprefix("vgpu-webhook").strip("-")
            file = "-".join(filter(None, [manifest["kind"].lower(), name])) + ".yaml"
            assert file not in files, file  # noqa: S101
            files[file] = _HEAD + _dump(manifest)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(files),
    }
    files["kustomization.yaml"] = _HEAD + _dump(kustomization)
    return files


def _namespace() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def _without_helm(manifest: dict[str, Any]) -> None:
    metadata = [manifest["metadata"]]
    template = manifest.get("spec", {}).get("template")
    if template:
        metadata.append(template["metadata"])
    for each in metadata:
        for label in _HELMS:
            each.get("labels", {}).pop(label, None)


def _dump(document: Any) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)
