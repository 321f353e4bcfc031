"""``python -m deploy.release`` builds a release into dist/, or a part of one, and the checksums of what is there.

Every file has the time of the commit, and what is not committed is left out, so the same commit gives the same bytes with
the same tools and the same base image. Syft and Helm are built from their Go modules the first time.

Environment variables, and variables of ``make release``:

TAG               require that the version is that of the tag, and that no entry of the changelog is under Unreleased
IMAGE_REPOSITORY  where the image is going to be published: its name, and the default of the chart's package
SITE              the URL of the project's repository: for the chart's package
DOWNLOADS         the URL below which the files of the release are going to be published: for the plugin of kubectl
PYTHON_IMAGE      another base image than the Dockerfile's; ``oci-archive:FILE`` works, too
PLATFORM          another platform than this machine's; its steps need QEMU in ``binfmt_misc``
BUILD_FLAGS       more options of ``buildah build``, such as a mounted CA of your network
SYFT, HELM        programs to use instead of those that would be built
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.release import ReleaseError, chart, documents, image, krew, python_packages, sbom
from deploy.release.source import ROOT, Source, export
from tests.go_program import BinariesMissingError

CHECKSUMS = "SHA256SUMS"
INSIGHTS = ".github/security-insights.yml"


def main(arguments: list[str]) -> None:
    """Build what is wanted.

    Raises:
        ReleaseError: a part of it cannot be built.
        BinariesMissingError: a program is missing.
        subprocess.CalledProcessError: a program failed.
    """
    wanted = _parsed(arguments)
    if wanted.part == "checksums":
        write_checksums(wanted.dist)
        return
    if wanted.part != "parts":
        image.required()
    if wanted.dist.exists() and any(wanted.dist.iterdir()) and not (wanted.dist / CHECKSUMS).exists():
        raise ReleaseError(f"{wanted.dist} has files that are no release, and it would be replaced: remove it first")
    with tempfile.TemporaryDirectory(prefix="vgpu-webhook-release.") as folder:
        source = export(Path(folder) / "source", commit=wanted.commit)
        if wanted.tag:
            _check_tag(source, wanted.tag)
        if source.dirty:
            _say("this checkout has changes that are not committed: they are not part of the release")
        dist = Path(folder) / "dist"
        dist.mkdir()
        if wanted.part != "image":
            _build_parts(source, dist)
        if wanted.part != "parts":
            _build_image(source, dist)
        write_checksums(dist)
        # Whole or not at all: where a part failed, what was there stays.
        shutil.rmtree(wanted.dist, ignore_errors=True)
        shutil.copytree(dist, wanted.dist)
    _say(f"{wanted.dist} has version {source.version} of commit {source.revision[:12]}")
    if wanted.part == "parts":
        _say("the release is incomplete: it has no image")


def write_checksums(dist: Path) -> None:
    """Write the hash of each file, as `sha256sum --check` reads them."""
    names = sorted(path.name for path in dist.iterdir() if path.name != CHECKSUMS)
    lines = [f"{hashlib.sha256((dist / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (dist / CHECKSUMS).write_text("".join(lines))


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("part", nargs="?", default="all", choices=["all", "parts", "image", "checksums"])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder, which is replaced")
    parser.add_argument("--commit", default="HEAD", help="what is built; the last commit by default")
    parser.add_argument("--tag", help="the tag that is released: refuse another version, and unreleased entries")
    return parser.parse_args(arguments)


def _check_tag(source: Source, tag: str) -> None:
    if tag != f"v{source.version}":
        raise ReleaseError(f"the tag is {tag}, and webhook/__init__.py has version {source.version}")
    if documents.unreleased(source):
        raise ReleaseError(f"CHANGELOG.md has entries under [Unreleased]: move them to [{source.version}]")
    if "/OWNER/" in (source.folder / INSIGHTS).read_text():
        raise ReleaseError(f"{INSIGHTS} does not say who publishes the repository: replace OWNER")


def _build_parts(source: Source, dist: Path) -> None:
    documents.write_notes(source, dist)
    documents.write_site(source, dist)
    documents.write_schemas(source, dist)
    wheel = python_packages.build(source, dist)
    sbom.of_wheel(source, wheel)
    chart.build(source, dist, os.environ.get("IMAGE_REPOSITORY", ""), os.environ.get("SITE", ""))
    krew.build(source, dist, os.environ.get("DOWNLOADS", ""))


def _build_image(source: Source, dist: Path) -> None:
    archive = dist / f"vgpu-webhook-{source.version}-{image.platform_of(os.environ)}.oci.tar"
    name = f"{os.environ.get('IMAGE_REPOSITORY') or 'vgpu-webhook'}:{source.version}"
    labels = {"VERSION": source.version, "REVISION": source.revision}
    image.build(source.folder, archive, name, time=source.time, labels=labels, options=image.options_of(os.environ))
    sbom.of_image(source, archive)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ReleaseError, BinariesMissingError, subprocess.CalledProcessError) as problem:
        sys.exit(f"error: {problem}")
