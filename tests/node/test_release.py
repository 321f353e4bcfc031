"""A release, built twice from one commit as a person does: the same bytes, and each part of it can be used."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import webhook
from tests.node import images
from tests.parts import skip_part

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = images.ROOT
VERSION = webhook.__version__
REPOSITORY = "registry.example/team/vgpu-webhook"
PARTS = {
    f"vgpu_webhook-{VERSION}-py3-none-any.whl",
    f"vgpu_webhook-{VERSION}-py3-none-any.whl.cdx.json",
    f"vgpu_webhook-{VERSION}.tar.gz",
    f"vgpu-webhook-{VERSION}.tgz",
    f"vgpu-webhook-{VERSION}-linux-amd64.oci.tar",
    f"vgpu-webhook-{VERSION}-linux-amd64.cdx.json",
    f"vgpu-webhook-{VERSION}-notes.md",
    f"vgpu-webhook-{VERSION}-site.tgz",
    "mapping.schema.json",
    "settings.schema.json",
    "test.schema.json",
    f"kubectl-vgpu-{VERSION}.zip",
    "vgpu.yaml",
    "SHA256SUMS",
}


def build(dist: Path, commit: str) -> None:
    """Build a release into a folder, with the tools and the base image of this machine."""
    with images.buildah() as tool, images.index_mounts() as mounts:
        wanted = {
            "PYTHON_IMAGE": f"oci-archive:{images.base_image()}",
            "BUILD_FLAGS": " ".join(["--network=host", *mounts]),
            "IMAGE_REPOSITORY": REPOSITORY,
        }
        command = [sys.executable, "-m", "deploy.release", "--commit", commit, "--dist", str(dist)]
        done = subprocess.run(
            command, cwd=ROOT, env={**tool.environment, **wanted}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def commit() -> str:
    """What is released: the last commit, though there may be another one before this ends."""
    reason = images.why_not() or (None if (ROOT / ".git").exists() else "no git checkout")
    if reason:
        skip_part("release", f"no release can be built here: {reason}")
    command = ["git", "-c", f"safe.directory={ROOT}", "rev-parse", "HEAD"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


@pytest.fixture(scope="module")
def dist(commit: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A release of it."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder, commit)
    yield folder
    shutil.rmtree(folder)


def hashes(folder: Path) -> dict[str, str]:
    """The hash of each file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_release_is_complete(dist: Path) -> None:
    """Nothing is missing, nothing else is there, and the checksums are right."""
    machine = os.uname().machine
    assert {path.name for path in dist.iterdir()} == {
        name.replace("amd64", {"x86_64": "amd64", "aarch64": "arm64"}[machine]) for name in PARTS
    }
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, check=True, stdout=subprocess.DEVNULL)
    assert len((dist / "SHA256SUMS").read_text().splitlines()) == len(PARTS) - 1


def test_release_has_the_same_bytes_again(dist: Path, commit: str, tmp_path: Path) -> None:
    """Everything, the image too, is made of the commit and nothing else: not of the hour, the folder, the storage."""
    build(tmp_path / "again", commit)
    assert hashes(tmp_path / "again") == hashes(dist)


def test_wheel_is_installed_and_works(dist: Path, tmp_path: Path) -> None:
    """In a new environment, with the dependencies that it names and their locked versions."""
    [wheel] = dist.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    # Without hashes: pip would demand one of the wheel, too.
    constraints = tmp_path / "constraints.txt"
    lines = (ROOT / "deploy" / "image" / "requirements.txt").read_text().splitlines()
    constraints.write_text("".join(f"{line.split()[0]}\n" for line in lines if "==" in line))
    locked = ["--quiet", "--disable-pip-version-check", "--constraint", str(constraints)]
    subprocess.run([str(tmp_path / "env/bin/pip"), "install", *locked, str(wheel)], check=True)
    command = [
        str(tmp_path / "env/bin/vgpu-webhook"),
        "mutate",
        "-f",
        str(ROOT / "examples/pods/10-vcuda-to-nvidia.yaml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    [container] = yaml.safe_load(done.stdout)["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpumem"] == "4096"


def test_image_and_chart_agree(dist: Path) -> None:
    """The chart's default is the image under the name that the archive has."""
    [archive] = dist.glob("*.oci.tar")
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        [entry] = json.load(index)["manifests"]
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == f"{REPOSITORY}:{VERSION}"
    with tarfile.open(dist / f"vgpu-webhook-{VERSION}.tgz") as tar:
        values = tar.extractfile("vgpu-webhook/values.yaml")
        chart = tar.extractfile("vgpu-webhook/Chart.yaml")
        assert values is not None
        assert chart is not None
        assert yaml.safe_load(values)["image"]["repository"] == REPOSITORY
        assert yaml.safe_load(chart)["appVersion"] == VERSION


def test_contents_are_listed(dist: Path) -> None:
    """Of the image Debian's packages and Python's, of the wheel what is locked; neither says on which machine."""
    [image] = dist.glob("vgpu-webhook-*.cdx.json")
    [wheel] = dist.glob("vgpu_webhook-*.cdx.json")
    for path in (image, wheel):
        document = json.loads(path.read_text())
        assert document["bomFormat"] == "CycloneDX"
        names = {component["name"] for component in document["components"]}
        assert {"vgpu-webhook", "aiohttp", "kubernetes", "cryptography"} <= names
        assert ("libc6" in names) == (path == image)
        assert str(dist) not in path.read_text()
