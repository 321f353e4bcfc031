"""What serving with and without a cluster have in common: the certificate, the log, the end."""

import asyncio
import datetime as dt
import ipaddress
import re
import socket
import sys
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from certs.problem import CertificateError
from certs.serving import Serving
from certs.store import Directory
from certs.upkeep import keep_up
from webhook.cli.failure import Failure
from webhook.server import logs

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from webhook.server.listener import Endpoint
    from webhook.server.run import Addresses

_HOST_NAME: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", re.IGNORECASE)


def served(state_dir: Path, authority: str, names: Iterable[str]) -> Serving:
    """The certificate of a state folder, made or renewed where need be.

    Raises:
        Failure: the folder cannot be used, or what is in it.
    """
    now = dt.datetime.now(dt.UTC)
    try:
        material = keep_up(Directory(state_dir), authority, list(dict.fromkeys(names)), now)
        return Serving(material.leaf.certificate_pem, material.leaf.key_pem, now)
    except CertificateError as error:
        raise Failure([str(error)]) from error
    except OSError as error:
        raise Failure([f"{error.filename}: {error.strerror}"]) from error


def logger(level: str) -> "FilteringBoundLogger":
    """JSON lines on stderr, for this program and for the libraries under it."""
    log = logs.make_logger(level, sys.stderr.buffer)
    logs.take_over(log)
    return log


def announce_to(state_dir: Path, addresses: "Addresses") -> None:
    """One readable line, once reviews are answered."""
    click.echo(f"ready: {addresses} (clients trust {state_dir / 'ca.crt'})")


def run_to_end(work: Awaitable[None]) -> None:
    """Serves until the end.

    Raises:
        Failure: an endpoint is not to be had.
    """

    async def main() -> None:
        await work

    try:
        asyncio.run(main())
    except OSError as error:
        raise Failure([f"cannot listen: {error.strerror or error}"]) from error


def names_of(listen: "Endpoint") -> list[str]:
    """The names under which a server on this machine can be called."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), listen.host or ""]
    return list(dict.fromkeys(filter(_can_be_called, names)))


def _can_be_called(name: str) -> bool:
    try:
        return not ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return _HOST_NAME.fullmatch(name) is not None
