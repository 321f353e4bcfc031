"""The image, built from its Dockerfile: small, and run by nobody in particular. test_release.py builds it twice."""

import json
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import webhook
from tests.node import images
from tests.parts import skip_part

pytestmark = [pytest.mark.node, pytest.mark.timeout(1200)]

NOBODY = 65532
LARGEST = 70_000_000
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n"


@pytest.fixture(scope="module")
def archive() -> Path:
    """The product's image, built from these files."""
    reason = images.why_not()
    if reason:
        skip_part("image", f"no image can be built here: {reason}")
    return images.product_image()


def manifest(archive: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest and the configuration of the only image of an archive."""
    with tarfile.open(archive) as tar:

        def read(name: str) -> Any:
            file = tar.extractfile(name)
            assert file is not None
            return json.load(file)

        [entry] = read("index.json")["manifests"]
        found = read(f"blobs/{entry['digest'].replace(':', '/')}")
        return found, read(f"blobs/{found['config']['digest'].replace(':', '/')}")


def test_configuration_says_what_it_is(archive: Path) -> None:
    """A kubelet sees by a number that the user is not root; the labels have the version that the code has."""
    _, configuration = manifest(archive)
    config = configuration["config"]
    assert config["User"] == f"{NOBODY}:{NOBODY}"
    assert config["Entrypoint"] == ["/opt/vgpu-webhook/bin/vgpu-webhook"]
    assert config["Labels"]["org.opencontainers.image.version"] == webhook.__version__


def test_image_adds_no_more_than_it_needs(archive: Path) -> None:
    """One layer on top of Python's, with nothing outside its folder, and nothing of what the build was done with."""
    found, _ = manifest(archive)
    *_, own = found["layers"]
    with tarfile.open(archive) as outer, tempfile.TemporaryFile() as file:
        blob = outer.extractfile(f"blobs/{own['digest'].replace(':', '/')}")
        assert blob is not None
        file.write(blob.read())
        file.seek(0)
        with tarfile.open(fileobj=file) as layer:
            members = layer.getmembers()
    assert sum(member.size for member in members) <= LARGEST
    assert {Path(member.name).parts[:2] for member in members} <= {("opt",), ("opt", "vgpu-webhook")}
    assert {member.mtime for member in members} == {0}
    assert not [member.name for member in members if member.mode & 0o022 and not member.issym()]


@pytest.fixture(scope="module")
def bundle(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for runc, with the files of the image."""
    with images.buildah() as tool:
        container = tool.run("from", f"oci-archive:{archive}")
        folder = tmp_path_factory.mktemp("bundle")
        (folder / "rootfs").symlink_to(tool.run("mount", container))
        yield folder


def run(bundle: Path, archive: Path, *arguments: str, text: str = "") -> str:
    """Run a program as the image's user, on a read-only root, with no capability, and return what it prints."""
    _, configuration = manifest(archive)
    spec = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": NOBODY, "gid": NOBODY},
            "args": list(arguments),
            "env": configuration["config"]["Env"],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": str((bundle / "rootfs").readlink()), "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/source",
                "type": "bind",
                "source": str(images.ROOT / "deploy" / "image"),
                "options": ["rbind", "ro"],
            },
        ],
        "linux": {"namespaces": [{"type": name} for name in ("pid", "mount", "ipc", "network")]},
    }
    (bundle / "config.json").write_text(json.dumps(spec))
    name = f"vgpu-webhook-{uuid.uuid4().hex}"  # of the control group, too
    command = ["runc", "--root", str(bundle / "state"), "run", "--bundle", str(bundle), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=text, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_image_passes_its_own_check(archive: Path, bundle: Path) -> None:
    """As a user who can write nowhere, it imports everything and changes nothing."""
    printed = run(bundle, archive, "/source/check.sh", "/opt/vgpu-webhook")
    assert webhook.__version__ in printed


def test_image_decides_about_a_pod(archive: Path, bundle: Path) -> None:
    """The program that the image starts reads a pod and prints it."""
    entry = "/opt/vgpu-webhook/bin/vgpu-webhook"
    assert "name: a" in run(bundle, archive, entry, "mutate", "-f", "-", text=POD)
