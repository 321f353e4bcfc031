"""The webhook as its users run it: a process that serves over TLS, registered with a control plane by URL."""

import base64
import http.client
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tests.waiting import PATIENCE

from .client import Object, wait_until
from .objects import mutating
from .plane import ControlPlane
from .processes import Process, ProcessEndedError, free_ports
from .written import STATUS

PROGRAM = [sys.executable, "-m", "webhook"]
SETTINGS_PREFIX = "VGPU_WEBHOOK_"
WEBHOOK = "pods.vgpu-webhook.io"


@dataclass(frozen=True, slots=True)
class Product:
    """A webhook that is ready.

    Attributes:
        process: the server.
        url: where reviews go.
        plain: address and port of health and metrics.
        ca: the certificate authority that signed its certificate, PEM.
    """

    process: Process
    url: str
    plain: str
    ca: bytes

    def metrics(self) -> str:
        return _get(self.plain, "/metrics")[1]

    def registration(self, selector: Object, name: str = "vgpu-webhook") -> Object:
        """Return the configuration of a name that sends new pods of the selected namespaces here."""
        client = {"url": self.url, "caBundle": base64.b64encode(self.ca).decode()}
        called = {"reinvocationPolicy": "IfNeeded", "timeoutSeconds": 10, "namespaceSelector": selector}
        return mutating(name, WEBHOOK, client, **called)


@contextmanager
def serving(folder: Path, arguments: Sequence[str | Path]) -> Iterator[Product]:
    """Run `serve --standalone` with its state below a folder, ready when this returns."""
    listen, plain = (f"127.0.0.1:{port}" for port in free_ports(2))
    state = folder / "state"
    options = {"--listen": listen, "--plain-listen": plain, "--state-dir": str(state), "--drain-grace": "0"}
    command = [*PROGRAM, "serve", "--standalone", *chain.from_iterable(options.items()), *map(str, arguments)]
    with Process(command, folder / "webhook.log", _environment(os.environ)) as process:

        def ready() -> bool:
            process.check()
            try:
                return _get(plain, "/readyz")[0] == 200
            except OSError:
                return False

        wait_until(ready, "webhook ready")
        yield Product(process, f"https://{listen}/mutate", plain, (state / "ca.crt").read_bytes())
        process.check()
        if process.stop() != 0:
            raise ProcessEndedError(process.tail())


@contextmanager
def registered(
    product: Product, plane: ControlPlane, selector: Object, probe: Object, name: str = "vgpu-webhook"
) -> Iterator[None]:
    """Send new pods of the selected namespaces to the webhook until the end of the block.

    An API server takes a moment to learn of a new registration: the probe is a pod of such a namespace that the webhook
    changes, and is created as a dry run until it does.
    """
    configuration = product.registration(selector, name)
    plane.client.create(configuration).accepted()
    try:

        def in_force() -> bool:
            product.process.check()
            answer = plane.client.create(probe, dry_run=True)
            annotations = answer.body["metadata"].get("annotations", {})
            # Refused with our name in it: called, but not as it should; let the tests say what is wrong.
            return STATUS in annotations or WEBHOOK in answer.message

        plane.wait_until(in_force, f"the webhook is called with the pod {probe['metadata']['name']}")
        yield
    finally:
        group = configuration["apiVersion"]
        plane.client.delete(group, "mutatingwebhookconfigurations", configuration["metadata"]["name"]).accepted()


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Leave out the settings of whoever runs the tests."""
    return {name: value for name, value in inherited.items() if not name.startswith(SETTINGS_PREFIX)}


def _get(address: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
