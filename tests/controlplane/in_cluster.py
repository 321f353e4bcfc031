"""The webhook as a user starts it outside a pod, for a cluster: with a kubeconfig and a URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from webhook.cluster.registration.desired import API_VERSION, COLLECTION, NAME, VALIDATING

from .plane import ControlPlane
from .processes import Process, free_ports
from .product import PROGRAM


def serve_command(plane: ControlPlane, port: int, *options: str, plain: int = 0) -> list[str]:
    """Return what starts it; it serves on one port, and is registered under that."""
    return [
        *PROGRAM,
        "serve",
        *("--kubeconfig", str(plane.kubeconfig), "--url", f"https://127.0.0.1:{port}/mutate"),
        *("--listen", f"127.0.0.1:{port}", "--plain-listen", f"127.0.0.1:{plain}"),
        *options,
    ]


def wait_ready(plane: ControlPlane, process: Process) -> None:
    """Return when it serves."""

    def ready() -> bool:
        process.check()
        return "ready:" in process.log.read_text()

    plane.wait_until(ready, "webhook ready", 60)


def _registered(plane: ControlPlane, path: str) -> bool:
    """Whether a configuration has been written, with the CA in each webhook."""
    found = plane.client.call("GET", path)
    webhooks = found.body.get("webhooks") or []
    written = "annotations" in found.body.get("metadata", {})
    return found.status == 200 and written and all(each["clientConfig"].get("caBundle") for each in webhooks)


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
        for collection in (COLLECTION, VALIDATING.collection):
            plane.wait_until(partial(_registered, plane, f"{collection}/{NAME}"), "registered", 30)
        yield process
        process.check()
        assert process.stop() == 0
    stop_validating(plane)
