"""The image as an OCI archive, by buildah: without a daemon, and without root where user namespaces are permitted."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.release import ReleaseError
from deploy.release.archives import pack_again


def build(
    context: Path,
    archive: Path,
    name: str,
    *,
    time: int = 0,
    labels: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Build the image of a folder and write its archive.

    Args:
        context: the project's files.
        archive: where to.
        name: of the image in its archive, with a tag.
        time: of its files, in seconds since 1970.
        labels: the Dockerfile's arguments VERSION and REVISION.
        options: more of buildah's.
        environment: buildah's, such as BUILDAH_ISOLATION and STORAGE_DRIVER.

    Raises:
        ReleaseError: it failed.
    """
    scratch = f"localhost/{archive.name.lower()}"
    arguments = {"SOURCE_DATE_EPOCH": str(time), **(labels or {})}
    build_arguments = [text for key, value in arguments.items() for text in ("--build-arg", f"{key}={value}")]
    build_options = ["--quiet", "--timestamp", str(time), *build_arguments, *options]
    _buildah(["build", *build_options, "--tag", scratch, str(context)], environment)
    try:
        # An archive that is there would get a second image.
        archive.unlink(missing_ok=True)
        _buildah(["push", "--quiet", scratch, f"oci-archive:{archive}:{name}"], environment)
    finally:
        _buildah(["rmi", scratch], environment)
    pack_again(archive, time)


def required() -> None:
    """Make sure that an image can be built.

    Raises:
        ReleaseError: buildah is not installed.
    """
    if shutil.which("buildah") is None:
        raise ReleaseError(
            "buildah is not installed, and builds the image of a release: install it (tests/node/install.sh does on Debian "
            "and Ubuntu), or run `make release-parts` for everything else"
        )


def options_of(environment: Mapping[str, str]) -> list[str]:
    """Return further options of buildah, from the variables PYTHON_IMAGE, PLATFORM and BUILD_FLAGS."""
    options = shlex.split(environment.get("BUILD_FLAGS", ""))
    if environment.get("PYTHON_IMAGE"):
        options += ["--build-arg", f"PYTHON={environment['PYTHON_IMAGE']}"]
    if environment.get("PLATFORM"):
        options += ["--platform", environment["PLATFORM"]]
    return options


def platform_of(environment: Mapping[str, str]) -> str:
    """Return the platform of the image, as file names have it: `linux-amd64`."""
    machines = {"x86_64": "amd64", "aarch64": "arm64"}
    machine = os.uname().machine
    return (environment.get("PLATFORM") or f"linux/{machines.get(machine, machine)}").replace("/", "-")


def _buildah(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    command = ["buildah", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise ReleaseError(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
