"""The common part of serving with and without a cluster: certificates, log, and the main loop."""

import asyncio
import datetime as dt
import ipaddress
import re
import socket
import sys
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from certs.ca import SERVING_LIFE, CertificateError
from certs.plan import SETTLE, Rules
from certs.serving import Serving
from webhook.replica.certificates import Certificates
from webhook.server import logs

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from webhook.server.listener import Endpoint

CLUSTER_DOMAIN: Final = "cluster.local"
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class StartError(Exception):
    """Invalid options, files that cannot be used, or an endpoint that is not available."""


_HOST_NAME: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CertificateOptions:
    """The options about certificates.

    Attributes:
        state_dir: the folder of the server's own CA and serving certificate; None: the default place.
        certificate_dir: the folder of a provided pair.
        settle: seconds within which all callers have learned of a CA.
        certificate_days: how long a serving certificate is valid.
        extra_names: additional DNS names and IP addresses.
        cluster_domain: the domain of the cluster's Services.
        client_ca_file: the CAs of client certificates, which callers then have to present.
        inject_ca_from: ``NAMESPACE/NAME`` of cert-manager's Certificate, whose CAs cert-manager itself injects.
    """

    state_dir: Path | None = None
    certificate_dir: Path | None = None
    settle: float = SETTLE
    certificate_days: int = SERVING_LIFE.days
    extra_names: tuple[str, ...] = ()
    cluster_domain: str = CLUSTER_DOMAIN
    client_ca_file: Path | None = None
    inject_ca_from: str | None = None

    def rules(self, ca: str, names: Iterable[str]) -> Rules:
        """Return the rules for the server's own certificates, under a CA of this name."""
        life = dt.timedelta(days=self.certificate_days)
        return Rules(ca, tuple(dict.fromkeys([*names, *self.extra_names])), life)

    def check(self) -> None:
        """Check that the options are valid.

        Raises:
            StartError: options exclude each other, or a value is invalid.
        """
        if self.state_dir is not None and self.certificate_dir is not None:
            raise StartError("--state-dir and --certificate-dir exclude each other: use one of them")
        for name in self.extra_names:
            if not can_be_called(name):
                raise StartError(f"--extra-name {name}: must be a DNS name or an IP address, such as gpu.example.com")
        if _HOST_NAME.fullmatch(self.cluster_domain) is None:
            raise StartError(f"--cluster-domain {self.cluster_domain}: must be a DNS name, such as cluster.local")
        if self.inject_ca_from is not None and not all(self.inject_ca_from.partition("/")):
            raise StartError(f"--inject-ca-from {self.inject_ca_from}: write NAMESPACE/NAME of a Certificate")


def certificates_of(options: CertificateOptions, log: "FilteringBoundLogger", *, watched: bool = False) -> Certificates:
    """Make certificates without a source yet, except for client CAs; `watched` as for `Certificates`.

    Raises:
        StartError: the file of client CAs cannot be used.
    """
    file = options.client_ca_file
    try:
        tls = Serving(None if file is None else file.read_bytes())
    except OSError as error:
        raise StartError(f"--client-ca-file {file}: {error.strerror}") from error
    except CertificateError as error:
        raise StartError(f"--client-ca-file {file}: {error}") from error
    certificates = Certificates(tls, log, settle=options.settle, watched=watched)
    if file is not None:
        certificates.follow_clients(file)
    return certificates


async def started(certificates: Certificates) -> None:
    """Read a directory for the first time, so that its problems end the program.

    Raises:
        StartError: the directory or its content cannot be used.
    """
    assert certificates.upkeep is not None  # noqa: S101  (set by the caller)
    try:
        await certificates.upkeep.start()
    except CertificateError as error:
        raise StartError(str(error)) from error


def logger(level: str) -> "FilteringBoundLogger":
    """Make a logger of JSON lines on stderr, for this program and its libraries."""
    log = logs.make_logger(level, sys.stderr.buffer)
    logs.take_over(log)
    return log


def run_to_end(work: Awaitable[None]) -> None:
    """Run until the work ends.

    Raises:
        StartError: an endpoint is not available.
    """

    async def main() -> None:
        await work

    try:
        asyncio.run(main())
    except OSError as error:
        raise StartError(f"cannot listen: {error.strerror or error}") from error


def serving_names(listen: "Endpoint") -> list[str]:
    """The names by which clients can call a server on this machine."""
    names = [*LOOPBACK, socket.gethostname(), listen.host or ""]
    return list(dict.fromkeys(filter(can_be_called, names)))


def can_be_called(name: str) -> bool:
    """Whether a client can call a server by a name: a DNS name, or an address of one machine."""
    try:
        return not ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return _HOST_NAME.fullmatch(name) is not None
