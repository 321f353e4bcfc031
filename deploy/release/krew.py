"""The plugin for kubectl, as krew installs it: an archive with a script that runs the program, and the manifest."""

import hashlib
import time
import zipfile
from pathlib import Path
from typing import Final

from deploy.release.source import Source

_SCRIPT: Final = """\
#!/bin/sh
# kubectl vgpu runs vgpu-webhook, a Python program that is installed on its own.
command -v vgpu-webhook > /dev/null || {
    echo 'error: kubectl vgpu runs vgpu-webhook: install it, for instance by "pipx install vgpu-webhook"' >&2
    exit 127
}
exec vgpu-webhook "$@"
"""
_MANIFEST: Final = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: vgpu
spec:
  version: v{version}
  shortDescription: Explain and check GPU share requests
  description: |
    Shows what the admission webhook vgpu-webhook makes of GPU share requests, and why: of manifests,
    of workloads in a cluster, and of an installation.
  caveats: |
    It runs the program vgpu-webhook, a Python package of the same name: pipx install vgpu-webhook
  platforms:
  - selector:
      matchExpressions:
      - {{key: os, operator: In, values: [linux, darwin]}}
    uri: {uri}
    sha256: {sha256}
    files:
    - {{from: kubectl-vgpu, to: .}}
    - {{from: LICENSE, to: .}}
    bin: kubectl-vgpu
"""


def build(source: Source, dist: Path, downloads: str) -> None:
    """Write the archive, and ``vgpu.yaml``, the manifest for an index of krew.

    Args:
        source: what is released.
        dist: where to.
        downloads: the URL below which the files of the release are going to be published. Empty: the manifest serves only
            ``krew install --manifest --archive``.
    """
    archive = dist / f"kubectl-vgpu-{source.version}.zip"
    made = time.gmtime(source.time)[:6]
    with zipfile.ZipFile(archive, "w") as packed:
        for name, text, mode in (
            ("kubectl-vgpu", _SCRIPT, 0o755),
            ("LICENSE", (source.folder / "LICENSE").read_text(), 0o644),
        ):
            entry = zipfile.ZipInfo(name, made)
            entry.external_attr = mode << 16
            packed.writestr(entry, text)
    uri = f"{downloads.rstrip('/')}/{archive.name}" if downloads else archive.name
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    (dist / "vgpu.yaml").write_text(_MANIFEST.format(version=source.version, uri=uri, sha256=sha256))
