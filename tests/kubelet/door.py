"""The way to the API server from outside the enclave: a port here, the same port in there. Run as a script."""

import asyncio
import ctypes
import os
import socket
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.kubelet.carry import carry

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


def enter(pid: int) -> None:
    """Move this process into the namespaces of another one; sockets that are open stay where they were opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    both = [(Path(f"/proc/{pid}/ns/{name}"), kind) for name, kind in (("user", CLONE_NEWUSER), ("net", CLONE_NEWNET))]
    # Who is in a user namespace may not enter it again.
    files = [(path, kind) for path, kind in both if path.readlink() != Path("/proc/self/ns", path.name).readlink()]
    opened = [(os.open(path, os.O_RDONLY), kind) for path, kind in files]
    for descriptor, kind in opened:
        if libc.setns(descriptor, kind) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"setns: {os.strerror(error)}")
        os.close(descriptor)


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
