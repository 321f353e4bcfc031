"""What kube-proxy does: each Service's cluster IP is answered by its endpoints. Run as a module, in the enclave.

A connection goes to one of the ready endpoints; if there is none, to one that serves while it ends; else nobody listens,
and it is refused. Connections outlive their endpoint's place in the list, as they do in a cluster.
"""

import asyncio
import random
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.controlplane.client import Client, Object
from tests.kubelet.carry import Streams, carry
from tests.kubelet.enclave import KUBERNETES

INTERVAL = 1.0
"""Seconds by which a node may be late to hear of endpoints: as in a busy cluster, and less than the drain."""
SERVICE_NAME = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True, order=True)
class Front:
    """A cluster IP and a port of it."""

    address: str
    port: int


@dataclass
class Proxy:
    """The Services of one API server."""

    client: Client
    _backs: dict[Front, list[tuple[str, int]]] = field(default_factory=dict)
    _servers: dict[Front, asyncio.Server] = field(default_factory=dict)

    async def run(self) -> None:
        """Follow Services and EndpointSlices forever."""
        api = urlsplit(self.client.server)
        await self._listen(Front(KUBERNETES, 443), lambda: (api.hostname or "", api.port or 0))
        while True:
            backs = await asyncio.to_thread(self._read)
            self._backs = backs
            for front in [front for front in self._servers if not backs.get(front)]:
                self._servers.pop(front).close()
            for front in [front for front, found in backs.items() if found and front not in self._servers]:
                assign = ["ip", "address", "replace", f"{front.address}/32", "dev", "lo"]
                await asyncio.to_thread(subprocess.run, assign, check=True)
                self._servers[front] = await self._listen(front, lambda front=front: random.choice(self._backs[front]))
            await asyncio.sleep(INTERVAL)

    async def _listen(self, front: Front, choose: Any) -> asyncio.Server:
        async def connect() -> Streams:
            return await asyncio.open_connection(*choose())

        return await asyncio.start_server(lambda *near: carry(near, connect), front.address, front.port)

    def _read(self) -> dict[Front, list[tuple[str, int]]]:
        slices = self.client.list("discovery.k8s.io/v1", "endpointslices")
        backs = {}
        for service in self.client.list("v1", "services"):
            metadata, spec = service["metadata"], service["spec"]
            if "selector" not in spec or spec.get("clusterIP", "None") == "None":
                continue
            own = [
                each
                for each in slices
                if each["metadata"]["namespace"] == metadata["namespace"]
                and each["metadata"].get("labels", {}).get(SERVICE_NAME) == metadata["name"]
            ]
            for port in spec["ports"]:
                backs[Front(spec["clusterIP"], port["port"])] = _endpoints(own, port.get("name", ""))
        return backs


def _endpoints(slices: list[Object], port_name: str) -> list[tuple[str, int]]:
    ready, ending = [], []
    for each in slices:
        ports = [port["port"] for port in each.get("ports") or [] if port.get("name", "") == port_name]
        for endpoint in each.get("endpoints") or []:
            conditions = endpoint.get("conditions", {})
            found = [(endpoint["addresses"][0], port) for port in ports]
            if conditions.get("ready"):
                ready += found
            elif conditions.get("serving"):
                ending += found
    return ready or ending


def main() -> None:
    """Arguments: URL of the API server, token, file of its CA."""
    asyncio.run(Proxy(Client(*sys.argv[1:4])).run())


if __name__ == "__main__":
    main()
