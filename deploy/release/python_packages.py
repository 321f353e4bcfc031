"""The wheel and the sdist, by the build backend that is installed; the sdist has what is in the commit."""

import os
import subprocess
import sys
from pathlib import Path

from deploy.release.source import Source


def build(source: Source, dist: Path) -> Path:
    """Write both, and return the wheel.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--directory",
        str(dist),
        "--target",
        "sdist",
        "--target",
        "wheel",
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source.time), "PYTHONHASHSEED": "0"}
    subprocess.run(command, cwd=source.folder, env=environment, check=True, stdout=sys.stderr)  # noqa: S603
    [wheel] = dist.glob("*.whl")
    return wheel
