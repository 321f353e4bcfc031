"""The chart's package, by Helm, with what Artifact Hub shows of it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.release import ReleaseError
from deploy.release.archives import pack_again
from deploy.release.documents import section_of
from deploy.release.source import Source
from tests.deploy.helm import VERSIONS, Helm

UNSET = '  repository: ""\n'
_KINDS: Final = ("added", "changed", "deprecated", "removed", "fixed", "security")
_BULLET: Final = re.compile(r"^- (.+(?:\n {2,}\S.*)*)|^### (\w+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def build(source: Source, dist: Path, repository: str, site: str) -> None:
    """Write the package.

    Args:
        source: has the chart.
        dist: where to.
        repository: the one that the image is going to be published in: the package's default. Empty: it stays required.
        site: the URL of the project's repository. Empty: the package names none.

    Raises:
        ReleaseError: the chart has other values than this program knows.
        BinariesMissingError: there is no Helm, and none can be built.
        subprocess.CalledProcessError: Helm failed.
    """
    chart = source.folder / "deploy" / "chart"
    if repository:
        values = (chart / "values.yaml").read_text()
        if values.count(UNSET) != 1:
            raise ReleaseError(f"{chart / 'values.yaml'}: image.repository is not the only empty repository")
        (chart / "values.yaml").write_text(values.replace(UNSET, f"  repository: {repository}\n"))
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump(described(about, source, repository, site), sort_keys=False))
    helm = Helm(VERSIONS[0]).program()
    command = [str(helm), "package", str(chart), "--destination", str(dist)]
    subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603
    pack_again(dist / f"vgpu-webhook-{source.version}.tgz", source.time)


def described(about: dict[str, Any], source: Source, repository: str, site: str) -> dict[str, Any]:
    """Return Chart.yaml with what only a release knows, in the annotations of https://artifacthub.io/docs/topics/annotations/helm."""
    lists: dict[str, list[dict[str, str]]] = {"changes": changes(source)}
    places: dict[str, Any] = {}
    if repository:
        lists["images"] = [{"name": "vgpu-webhook", "image": f"{repository}:{source.version}"}]
    if site:
        pages = f"{site}/blob/v{source.version}/docs/README.md"
        lists["links"] = [{"name": "support", "url": f"{site}/issues"}, {"name": "Documentation", "url": pages}]
        places = {"home": site, "sources": [site]}
    written = {f"artifacthub.io/{name}": yaml.safe_dump(each, sort_keys=False) for name, each in lists.items() if each}
    return {**about, **places, "annotations": {**about["annotations"], **written}}


def changes(source: Source) -> list[dict[str, str]]:
    """Return the entries of the version in the changelog, each with its kind, and links as their text."""
    section = section_of((source.folder / "CHANGELOG.md").read_text(), source.version) or ""
    kind, found = "", []
    for entry, heading in _BULLET.findall(section):
        if heading:
            kind = heading.lower()
        elif kind in _KINDS:
            found.append({"kind": kind, "description": _LINK.sub(r"\1", " ".join(entry.split()))})
    return found
