"""The webhook as a user starts it outside a pod, for a cluster: with a kubeconfig and a URL."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from webhook.cluster.policy.documents import SETTINGS_NAME
from webhook.cluster.registration.wanted import API_VERSION, MUTATING, NAME, VALIDATING

from .client import Answer
from .objects import namespace, settings
from .plane import ControlPlane
from .processes import Process, free_ports

BRISK = """
from certs import rotation
from webhook.cli import main
from webhook.cluster.registration import writer
writer.LEAD = 1.0
rotation.RETURN_TIME = 3.0
main(prog_name="vgpu-webhook")
"""
"""The program, which waits less for API servers to learn of a configuration, and for replicas to write a CA back."""


def serve_command(plane: ControlPlane, port: int, *options: str, plain: int = 0) -> list[str]:
    """Return what starts it; it serves on one port, and is registered under that."""
    return [
        *(sys.executable, "-c", BRISK, "serve"),
        *("--kubeconfig", str(plane.kubeconfig), "--url", f"https://127.0.0.1:{port}/mutate"),
        *("--listen", f"127.0.0.1:{port}", "--plain-listen", f"127.0.0.1:{plain}"),
        *options,
    ]


def wait_ready(plane: ControlPlane, process: Process) -> None:
    """Return when it serves."""

    def ready() -> bool:
        process.check()
        return "ready:" in process.log.read_text()

    plane.wait_until(ready, "webhook ready")


def _registered(plane: ControlPlane, path: str) -> bool:
    """Whether a configuration has been written, with the CA in each webhook."""
    found = plane.client.call("GET", path)
    webhooks = found.body.get("webhooks") or []
    written = "annotations" in found.body.get("metadata", {})
    return found.status == 200 and written and all(each["clientConfig"].get("caBundle") for each in webhooks)


def calls(plane: ControlPlane, webhook: str) -> int:
    """How often the API server has called one of the webhooks, as it counts itself."""
    text = plane.client.call("GET", "/metrics").body["text"]
    metric = "apiserver_admission_webhook_request_total{"
    found = [line for line in text.splitlines() if line.startswith(metric) and webhook in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in found)


def unregister(plane: ControlPlane) -> None:
    """Delete the mutating configuration."""
    plane.client.delete(API_VERSION, MUTATING.plural, NAME)


def stop_validating(plane: ControlPlane) -> None:
    """Delete the validating configuration, which would hold back the pods of whatever test comes next."""
    plane.client.delete(API_VERSION, VALIDATING.plural, NAME)


@contextmanager
def serving(plane: ControlPlane, folder: Path, *options: str) -> Iterator[Process]:
    """Run it until the end of the block; it is ready and registered, and nothing may end it but us.

    Afterwards the mutating configuration is left, for tests of an outage, but not the validating one.
    """
    (port,) = free_ports(1)
    with Process(serve_command(plane, port, *options, "--drain-grace", "0"), folder / "webhook.log") as process:
        wait_ready(plane, process)
        for collection in (MUTATING.collection, VALIDATING.collection):
            plane.wait_until(partial(_registered, plane, f"{collection}/{NAME}"), "registered")
        yield process
        process.check()
        assert process.stop() == 0
    stop_validating(plane)


@contextmanager
def installed(plane: ControlPlane, folder: Path, own: str, text: str, *options: str) -> Iterator[Process]:
    """Run it in a namespace of its own, with settings, until the end of the block; nothing stays registered."""
    plane.create_namespace(namespace(own))
    plane.client.create(settings(text), own).accepted()
    with serving(plane, folder, "--release-namespace", own, "--ca-settle", "1", *options) as process:
        yield process
    unregister(plane)


def set_settings(plane: ControlPlane, own: str, text: str) -> Answer:
    """Change the settings of a release."""
    return plane.client.patch("v1", "configmaps", SETTINGS_NAME, {"data": settings(text)["data"]}, own)
