"""The plain manifests: what the chart renders with the library of the device plugin, as a kustomize base; counts are whole.

A component changes that to a library that the webhook brings, as the chart does.
"""

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
    found = {"namespace.yaml": _namespace(), **_rendered(helm, "plugin")}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(found),
    }
    return _texts({**found, "kustomization.yaml": kustomization})


def inject(helm: Path) -> dict[str, str]:
    """The files of the component: objects that the base lacks, and patches for what it has otherwise.

    Args:
        helm: the program.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    before, after = _rendered(helm, "plugin"), _rendered(helm, "inject")
    added = {file: manifest for file, manifest in after.items() if file not in before}
    changed = {file: manifest for file, manifest in after.items() if manifest != before.get(file, manifest)}
    removed = {file: _removed(manifest) for file, manifest in before.items() if file not in after}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": sorted(added),
        "patches": [{"path": file} for file in sorted({**changed, **removed})],
    }
    return _texts({**added, **changed, **removed, "kustomization.yaml": kustomization})


def _rendered(helm: Path, mode: str) -> dict[str, Any]:
    """The objects of the chart in a mode of the shim, by the names of their files."""
    command = [
        str(helm),
        "template",
        "vgpu-webhook",
        str(CHART),
        "--namespace",
        NAMESPACE,
        "--set",
        "image.repository=vgpu-webhook",
        "--set",
        f"shim.mode={mode},settings.bareDevices=whole",
    ]
    rendered = subprocess.run(  # noqa: S603  (our own chart)
        [*command, "--no-hooks", "--kube-version", "1.36.0"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, Any] = {}
    for manifest in yaml.safe_load_all(rendered):
        if manifest is not None:
            _without_helm(manifest)
            name = manifest["metadata"]["name"].removeprefix("vgpu-webhook").strip("-")
            file = "-".join(filter(None, [manifest["kind"].lower(), name])) + ".yaml"
            assert file not in found, file  # noqa: S101
            found[file] = manifest
    return found


def _removed(manifest: dict[str, Any]) -> dict[str, Any]:
    """The patch that takes an object away."""
    metadata = {key: manifest["metadata"][key] for key in ("name", "namespace")}
    return {"$patch": "delete", "apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata}


def _texts(found: dict[str, Any]) -> dict[str, str]:
    return {file: _HEAD + _dump(manifest) for file, manifest in found.items()}


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
