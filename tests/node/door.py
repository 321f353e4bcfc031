"""The way to the API server from outside the node's network: a port here, the same port in there. Run as a script."""

import asyncio
import ctypes
import os
import socket
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.controlplane.carry import carry

CLONE_NEWNET = 0x40000000


def enter(pid: int) -> None:
    """Move this process into the network of another one; sockets that are open stay where they were opened."""
    with Path(f"/proc/{pid}/ns/net").open("rb") as network:
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"setns: {os.strerror(error)}")


async def serve(listening: socket.socket, port: int) -> None:
    """Carry everything, forever."""
    connect = partial(asyncio.open_connection, "127.0.0.1", port)
    server = await asyncio.start_server(lambda *near: carry(near, connect), sock=listening)
    await server.serve_forever()


def main() -> None:
    """Listen out here, then go in there; arguments: the port, and the pid of a process in there."""
    port, pid = int(sys.argv[1]), int(sys.argv[2])
    listening = socket.create_server(("127.0.0.1", port))
    enter(pid)
    asyncio.run(serve(listening, port))


if __name__ == "__main__":
    main()
