"""The chart's package, by Helm."""

import subprocess
import sys
from pathlib import Path

from deploy.release import ReleaseError
from deploy.release.archives import pack_again
from deploy.release.source import Source
from tests.deploy.helm import VERSIONS, Helm

UNSET = '  repository: ""\n'


def build(source: Source, dist: Path, repository: str) -> None:
    """Write the package.

    Args:
        source: has the chart.
        dist: where to.
        repository: the one that the image is going to be published in: the package's default. Empty: it stays required.

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
    helm = Helm(VERSIONS[0]).program()
    command = [str(helm), "package", str(chart), "--destination", str(dist)]
    subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603
    pack_again(dist / f"vgpu-webhook-{source.version}.tgz", source.time)
