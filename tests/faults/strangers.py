"""What strangers do to a replica's port of reviews; they do not care who answers."""

import contextlib
import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from tests.controlplane.beside import together

from .scene import Replica


def connection(replica: Replica) -> http.client.HTTPSConnection:
    """One to the port; it opens with what is sent first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", replica.port, timeout=20, context=context)


def send(opened: http.client.HTTPSConnection, review: bytes) -> None:
    """Send a review and read the answer, if there is one."""
    try:
        opened.request("POST", "/mutate", review, {"Content-Type": "application/json"})
        opened.getresponse().read()
    except (OSError, http.client.HTTPException):
        opened.close()


@contextmanager
def idle(replica: Replica, count: int) -> Iterator[None]:
    """Hold TLS connections open without sending anything."""
    held: list[http.client.HTTPSConnection] = []

    def connect(_: int) -> None:
        stranger = connection(replica)
        with contextlib.suppress(OSError):
            stranger.connect()
            held.append(stranger)

    try:
        together(connect, count)
        yield
    finally:
        for each in held:
            each.close()
