"""Images for the tests, as OCI archives, built by buildah without any container registry and kept in the user's cache.

`python -m tests.node.images` builds those of the product ahead of a test run, and prints where they are.
"""

import contextlib
import hashlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.release import ReleaseError, archives, image
from tests.cache import cached, say
from tests.deploy.before import PROGRAM, unpack
from tests.go_program import BinariesMissingError

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"

PRODUCT_IMAGE = "localhost/vgpu-webhook:test"
"""The name that the product's image has in its archive, and so in a node that imports it."""

IMAGE_BEFORE = "localhost/vgpu-webhook:before"
"""The name of the image with the program of the version before."""

BASE_IMAGE = "localhost/python:bookworm"
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
ARCHIVE = "image.tar"

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def product_image() -> Path:
    """Return the archive of the product's image, built now unless this machine has built it from the same files."""
    base = base_image()
    inputs = [DOCKERFILE, ROOT / ".dockerignore", *context_files()]
    builders = [Path(file) for file in (__file__, image.__file__, archives.__file__)]
    digest = _digest(ROOT, [*inputs, *builders], base.parent.name)
    # A hundred megabytes for each state of the sources.
    return cached("product-image", digest, lambda folder: _build_product(base, folder / ARCHIVE), days=1) / ARCHIVE


def image_before(commit: str) -> Path:
    """Return the archive of the product's image with the program of another commit, which takes seconds to build.

    It is one more layer, in which the packages `webhook` and `certs` are that commit's. Python, dependencies, user and entry
    point stay those of this version: an upgrade from it shows what the two programs and charts make of each other.
    """
    product = product_image()
    digest = _digest(ROOT, [], product.parent.name, commit, inspect.getsource(_build_before))
    return cached("image-before", digest, lambda folder: _build_before(product, commit, folder), days=1) / ARCHIVE


def base_image() -> Path:
    """Return the archive of a Python made of Debian packages, in place of the one that the Dockerfile names.

    It is built once on a machine: the same archive however often it is asked for.
    """
    return (
        cached("base-image", _digest(ROOT, [], SUITE, PACKAGES, inspect.getsource(_build_base)), _build_base) / ARCHIVE
    )


def built(folder: Path, name: str) -> Path:
    """Return the archive of an image that is `FROM scratch`.

    Args:
        folder: has a Dockerfile, and every file that it copies.
        name: of the image in its archive.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())

    def build(target: Path) -> None:
        with buildah() as tool:
            tool.run("build", "--quiet", "--timestamp", "0", "--tag", name, folder)
            tool.push(name, target / ARCHIVE)

    modes = (f"{path.stat().st_mode:o}" for path in files)
    return cached("small-image", _digest(folder, files, name, *modes), build) / ARCHIVE


def why_not() -> str | None:
    """Return why no image can be built on this machine, or nothing."""
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} is not installed: tests/node/install.sh installs it on Debian and Ubuntu"
    return "building an image without a container engine's daemon needs root" if os.geteuid() else None


def context_files() -> list[Path]:
    """Return the files that a build of the product's image gets, in order."""
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    roots = [ROOT / pattern[1:] for pattern in patterns if pattern.startswith("!")]
    files = (path for root in roots for path in ([root] if root.is_file() else root.rglob("*")))
    return sorted(path for path in files if path.is_file() and "__pycache__" not in path.parts)


@dataclass(frozen=True, slots=True)
class Buildah:
    """buildah with a storage of its own.

    Attributes:
        environment: leads to that storage; programs that run buildah themselves can be started with it.
    """

    environment: dict[str, str]

    def run(self, *arguments: str | Path) -> str:
        """Run one command and return what it prints.

        Raises:
            BinariesMissingError: it failed.
        """
        command = ["buildah", *map(str, arguments)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def push(self, image: str, archive: Path) -> None:
        self.run("push", "--quiet", image, f"oci-archive:{archive}:{image}")


@contextlib.contextmanager
def buildah() -> Iterator[Buildah]:
    """Provide buildah for a while, with a storage that is gone afterwards.

    Raises:
        BinariesMissingError: it cannot run here; the text says why.
    """
    reason = why_not()
    if reason:
        raise BinariesMissingError(reason)
    with tempfile.TemporaryDirectory(prefix="vgpu-webhook-buildah.") as folder:
        configuration = Path(folder) / "storage.conf"
        configuration.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
        )
        storage = {
            "BUILDAH_ISOLATION": "chroot",
            "STORAGE_DRIVER": "vfs",
            "CONTAINERS_STORAGE_CONF": str(configuration),
        }
        yield Buildah({**os.environ, **storage})


@contextlib.contextmanager
def index_mounts() -> Iterator[list[str]]:
    """Provide options for `buildah build` by which pip reaches the index that this machine's pip reaches.

    They mount files for as long as a step runs: nothing of them becomes part of the image.
    """
    listed = subprocess.check_output([sys.executable, "-m", "pip", "config", "list"], text=True)
    settings = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = value.strip("'")
    with tempfile.NamedTemporaryFile("w", prefix="pip.", suffix=".conf") as file:
        # A setting that is a path leads nowhere in a container.
        lines = [f"{key} = {value}" for key, value in settings.items() if not value.startswith("/")]
        file.write("\n".join(["[global]", f"cert = {CERTIFICATES}", *lines, ""]))
        file.flush()
        mounts = [f"--volume={file.name}:/etc/pip.conf:ro"]
        if "cert" in settings:
            mounts.append(f"--volume={settings['cert']}:{CERTIFICATES}:ro")
        yield mounts


def _build_product(base: Path, archive: Path) -> None:
    """Build the product's image from an archive of its base, and write its archive."""
    say(f"building {PRODUCT_IMAGE} (once for each state of its sources, about two minutes) …")
    with buildah() as tool, index_mounts() as mounts:
        options = ["--network", "host", "--build-arg", f"PYTHON=oci-archive:{base}", *mounts]
        image.build(ROOT, archive, PRODUCT_IMAGE, options=options, environment=tool.environment)


def _build_before(product: Path, commit: str, folder: Path) -> None:
    """Put a commit's program in the place of the product's, and write the archive."""
    with buildah() as tool, tempfile.TemporaryDirectory(prefix="vgpu-webhook-before.") as code:
        unpack(commit, Path(code))
        container = tool.run("from", f"oci-archive:{product}")
        root = Path(tool.run("mount", container))
        [packages] = root.glob("opt/vgpu-webhook/lib/python3*/site-packages")
        for name in PROGRAM:
            shutil.rmtree(packages / name)
            shutil.copytree(Path(code) / name, packages / name)
        folders = [f"/{(packages / name).relative_to(root)}" for name in PROGRAM]
        tool.run("umount", container)
        # As deploy/image/install.sh does: nothing in a replica can be written to.
        tool.run("run", "--user=0", container, "--", "python3", "-m", "compileall", "-q", *folders)
        tool.run(
            "commit", "--quiet", "--disable-compression", container, f"oci-archive:{folder / ARCHIVE}:{IMAGE_BEFORE}"
        )


def _build_base(folder: Path) -> None:
    """Put Debian's smallest system and its Python into an image, without what its package manager leaves behind."""
    say(f"building {BASE_IMAGE} from Debian packages (once, about three minutes) …")
    with buildah() as tool:
        container = tool.run("from", "scratch")
        root = Path(tool.run("mount", container))
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr}")
        for name in ("var/cache/apt", "var/lib/apt/lists", "var/log", "dev"):
            shutil.rmtree(root / name)
            (root / name).mkdir()
        tool.run("umount", container)
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        tool.run("config", "--env", path, "--cmd", "python3", container)
        # Not compressed: it is read far more often than moved.
        tool.run(
            "commit", "--quiet", "--disable-compression", container, f"oci-archive:{folder / ARCHIVE}:{BASE_IMAGE}"
        )


def _digest(folder: Path, files: Iterable[Path], *texts: str) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:20]


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{product_image()}\n")
    except (BinariesMissingError, ReleaseError) as error:
        sys.exit(f"error: {error}")
