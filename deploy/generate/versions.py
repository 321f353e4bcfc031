"""The version in files that cannot read it from webhook/__init__.py, where it is changed."""

import re
from pathlib import Path

from deploy.generate import CHART, DEPLOY
from webhook import __version__

_PLACES = {
    CHART / "Chart.yaml": r"(?m)^((?:version|appVersion): )\S+$",
    DEPLOY.parent / "Dockerfile": r"(ARG VERSION=)\S+",
    DEPLOY / "kustomize" / "overlays" / "example" / "kustomization.yaml": r"(newTag: )\S+",
    DEPLOY.parent / "docs" / "install.md": r"((?:registry\.example|localhost)/vgpu-webhook:)\d[\w.-]*",
}


def versioned() -> dict[Path, str]:
    """Return what these files have to be."""
    return {path: re.sub(place, rf"\g<1>{__version__}", path.read_text()) for path, place in _PLACES.items()}
