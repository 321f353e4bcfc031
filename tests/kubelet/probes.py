"""Probes of a container: when they are due, what they find, and what follows from a row of them."""

import http.client
import time
from dataclasses import dataclass
from typing import Self

from tests.controlplane.client import Object

from .volumes import UnsupportedError


@dataclass
class Probe:
    """One probe of a running container.

    Attributes:
        passed: the outcome in force: None before there was enough of either.
    """

    address: str
    port: int
    path: str
    period: float
    timeout: float
    passes_needed: int
    failures_needed: int
    due: float
    passed: bool | None = None
    last: str = ""
    _passes: int = 0
    _failures: int = 0

    @classmethod
    def read(cls, container: Object, kind: str, address: str) -> Self | None:
        """The probe of a container as it stands in the API server, with all defaults."""
        given = container.get(kind)
        if given is None:
            return None
        if "httpGet" not in given or given["httpGet"]["scheme"] != "HTTP":
            raise UnsupportedError(f"{kind}: {given}")
        asked = given["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        return cls(
            address,
            ports.get(asked["port"], asked["port"]),
            asked["path"],
            given["periodSeconds"],
            given["timeoutSeconds"],
            given["successThreshold"],
            given["failureThreshold"],
            time.monotonic() + given.get("initialDelaySeconds", 0),
        )

    def run_if_due(self) -> None:
        """Ask once, if it is time to."""
        now = time.monotonic()
        if now < self.due:
            return
        self.due = now + self.period
        good, self.last = self._ask()
        self._passes, self._failures = (self._passes + 1, 0) if good else (0, self._failures + 1)
        if self._passes >= self.passes_needed:
            self.passed = True
        elif self._failures >= self.failures_needed:
            self.passed = False

    def _ask(self) -> tuple[bool, str]:
        connection = http.client.HTTPConnection(self.address, self.port, timeout=self.timeout)
        try:
            connection.request("GET", self.path, headers={"User-Agent": "kube-probe/1.36", "Connection": "close"})
            response = connection.getresponse()
            return 200 <= response.status < 400, f"{response.status} {response.read(200).decode(errors='replace')}"
        except (OSError, http.client.HTTPException) as error:
            return False, str(error)
        finally:
            connection.close()
