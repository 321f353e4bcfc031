"""Faults of the installation: its namespace, its trust, its disks, its versions."""

import base64
import contextlib
import datetime as dt
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from certs.x509 import make_ca
from tests.controlplane.client import Object
from tests.controlplane.objects import namespace
from tests.deploy import before
from tests.deploy.before import NoVersionBeforeError, unpack

from .scene import OWN, SECRET, SETTINGS, Scene

STATE = "state"
DISK = 256 * 1024
"""Bytes of a disk that is soon full."""


@contextmanager
def settings_again(scene: Scene) -> Iterator[None]:
    """The settings are written again by a person."""
    yield
    scene.settings()


@contextmanager
def settings_again_and_controllers(scene: Scene) -> Iterator[None]:
    """The same, and somebody who ends namespaces."""
    with settings_again(scene):
        scene.plane.start_controller_manager()
        yield
        scene.plane.stop_component("kube-controller-manager")


def namespace_lost(scene: Scene) -> None:
    """The webhook's own namespace is deleted with all that is in it, and created again; then a replica restarts."""
    plane, client = scene.plane, scene.client
    client.delete("v1", "namespaces", OWN).accepted()
    plane.wait_until(lambda: client.get("v1", "namespaces", OWN).status == 404, "the namespace is gone", 120)
    plane.create_namespace(namespace(OWN))
    plane.wait_until(lambda: scene.rejected(SETTINGS), "no settings", 120)
    scene.restart(0)
    plane.wait_until(scene.ready, "ready after the loss", 180)
    plane.wait_until(lambda: scene.rejected(SETTINGS), "no settings either", 120)


def config_maps_deleted(scene: Scene) -> None:
    """Everything is deleted at once."""
    scene.client.call("DELETE", f"/api/v1/namespaces/{OWN}/configmaps").accepted()
    scene.plane.wait_until(lambda: scene.rejected(SETTINGS), "no settings", 120)


def strangers_bundle(scene: Scene) -> None:
    """While no replica runs the Secret is lost, and somebody writes a CA of his own into caBundle; then all start."""
    stranger = make_ca("a stranger", dt.datetime.now(dt.UTC))
    bundle = base64.b64encode(stranger.certificate_pem).decode()

    def change(found: Object) -> None:
        for webhook in found["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle

    scene.kill(0, 1)
    scene.client.delete("v1", "secrets", SECRET, OWN).accepted()
    scene.change_configuration(change)
    scene.restart(0, 1)


@contextmanager
def disks_full(scene: Scene) -> Iterator[None]:
    """No file that a replica writes can grow, its log included, while it has something to log."""
    with _files_limited(scene):
        scene.client.delete("v1", "secrets", SECRET, OWN).accepted()
        yield


@contextmanager
def state_folder(scene: Scene) -> Iterator[None]:
    """Replicas keep their certificates in a folder, which has a small disk of its own where this user may mount one."""
    folder = scene.folder / STATE
    folder.mkdir()
    mounted = _mount(folder)
    try:
        for number in (0, 1):
            scene.restart(number, options=("--state-dir", str(folder)))
            scene.plane.wait_until(scene.ready, "ready with a state folder", 60)
        scene.plane.wait_until(scene.treats, "treated with a state folder", 60)
        yield
    finally:
        scene.restart(0, 1)
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        shutil.rmtree(folder)


@contextmanager
def state_folder_full(scene: Scene) -> Iterator[None]:
    """Its disk is full, and the certificate there is lost."""
    folder = scene.folder / STATE
    with _filled(folder / "others") if folder.is_mount() else _files_limited(scene):
        for name in ("tls.crt", "tls.key"):
            (folder / name).write_bytes(b"")
        yield


@contextmanager
def version_before(scene: Scene) -> Iterator[None]:
    """A replica has the previous version, as in the middle of a rollout."""
    folder = scene.folder / "before"
    try:
        unpack(before.version_before(), folder)
    except NoVersionBeforeError as error:
        pytest.skip(f"no version before this one: {error}")
    # Commits between two releases have one number, of which neither gives way to the other.
    (folder / "webhook" / "__init__.py").write_text('"""The version before."""\n\n__version__ = "0.0.1"\n')
    scene.restart(0, before=("sh", "-c", 'cd "$0" && exec "$@"', str(folder)))
    scene.plane.wait_until(scene.ready, "ready beside the version before", 60)
    yield
    scene.restart(0)


@contextmanager
def _files_limited(scene: Scene) -> Iterator[None]:
    """Replicas cannot write any file to more than nothing."""
    pids = [each.process.pid for each in scene.replicas]
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids}
    for pid, (_, hard) in limits.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    yield
    for pid, limit in limits.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)


@contextmanager
def _filled(file: Path) -> Iterator[None]:
    """A file takes all that is left of its disk."""
    with file.open("wb", buffering=0) as opened, contextlib.suppress(OSError):
        while opened.write(b"x" * 4096):
            pass
    yield
    file.unlink()


def _mount(folder: Path) -> bool:
    """Put a disk of its own there, where this user may."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
