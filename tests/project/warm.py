"""``vgpu-webhook`` for the commands of pages, forked from a process that has imported what they need.

Dozens of commands would each take longer to start than to run. The program is what is installed otherwise; `serve`, to which
pages send signals, is the installed one itself.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from webhook.cli import COMMANDS, PROGRAM, main
from webhook.mapping.load import load_policy

_SCRIPT = """\
#!/bin/sh
[ "$1" != serve ] || exec '{program}' "$@"
exec '{python}' -IS '{client}' '{address}' "$@"
"""

_CLIENT = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
    sys.exit(int(server.recv(8)))
"""


@contextmanager
def warm_program(folder: Path) -> Iterator[Path]:
    """Give a folder for the head of ``PATH``, whose ``vgpu-webhook`` is answered as long as the context lasts."""
    address, client, script = folder / "socket", folder / "client.py", folder / PROGRAM
    client.write_text(_CLIENT)
    installed = Path(sys.executable).with_name(PROGRAM)
    script.write_text(_SCRIPT.format(program=installed, python=sys.executable, client=client, address=address))
    script.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        command = [sys.executable, "-X", "utf8", "-m", "tests.project.warm", str(listening.fileno())]
        root = Path(__file__).parents[2]
        server = subprocess.Popen(command, cwd=root, pass_fds=[listening.fileno()], start_new_session=True)
    try:
        yield folder
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _serve(listening: socket.socket) -> None:
    """Run each command in a process of its own."""
    for name in COMMANDS:
        import_module(f"webhook.cli.commands.{name.replace('-', '_')}")
    load_policy()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listening.accept()
        with connection:
            if os.fork() == 0:
                connection.send(str(_run(connection)).encode())
                os._exit(0)


def _run(connection: socket.socket) -> int:
    """Run a command where its caller is, and return its exit code."""
    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    arguments, folder, environment = json.loads(message)
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        main(arguments, prog_name=PROGRAM)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001  (as the interpreter would)
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as inherited:
        _serve(inherited)
