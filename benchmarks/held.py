"""The webhook, which tells what its memory of decisions holds: ``python -m benchmarks.held serve --state-dir DIRECTORY …``.

On SIGUSR1 it writes ``held.json`` into that directory: entries, and bytes as counted (`webhook.mapping.model.policy`).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.processes import Server
from webhook.cli import main
from webhook.mapping.model.policy import Memo

NAME: Final = "held.json"
PATIENCE: Final = 10.0
"""Seconds within which the server tells."""


class Held(NamedTuple):
    """What the memories of a server hold."""

    entries: int
    size: int


def held(server: Server, state: Path) -> Held:
    """Ask a server that runs this module.

    Raises:
        TimeoutError: it does not answer.
    """
    assert server.pid is not None
    answer = state / NAME
    answer.unlink(missing_ok=True)
    os.kill(server.pid, signal.SIGUSR1)
    patience = time.monotonic() + PATIENCE
    while not answer.exists():
        if time.monotonic() > patience:
            raise TimeoutError(f"{server.name} does not tell what it holds")
        time.sleep(0.01)
    return Held(*json.loads(answer.read_text(encoding="utf-8")))


def tell(memos: list[Memo], state: Path) -> None:
    """Write what all memories hold together."""
    counted = Held(sum(map(len, memos)), sum(memo.size for memo in memos))
    new = state / f"{NAME}.new"
    new.write_text(json.dumps(counted), encoding="utf-8")
    new.replace(state / NAME)


if __name__ == "__main__":
    memos: list[Memo] = []
    made = Memo.__init__

    def remembered(memo: Memo, *arguments: Any) -> None:
        """Make a memory, and know of it."""
        made(memo, *arguments)
        memos.append(memo)

    vars(sys.modules[Memo.__module__])["Memo"].__init__ = remembered
    state = Path(sys.argv[sys.argv.index("--state-dir") + 1])
    signal.signal(signal.SIGUSR1, lambda _number, _frame: tell(memos, state))
    main(prog_name="vgpu-webhook")
