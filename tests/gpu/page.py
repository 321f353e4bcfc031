"""What was seen on a real GPU, as a page: ``python -m tests.gpu.page > docs/gpu.md``."""

import json
import sys
from pathlib import Path
from typing import Any, Final

SEEN: Final = Path(__file__).with_name("seen.json")
"""The `result.json` of the last run on a GPU."""

_PAGE: Final = Path(__file__).with_suffix(".txt").read_text()


def page(seen: dict[str, Any]) -> str:
    """Format the page."""
    machine, rows = seen["machine"], seen["rows"]
    memory, cores, ways = (
        {row["name"]: row for row in rows if row["kind"] == each} for each in ("memory", "cores", "way")
    )
    device, container = memory.pop("without the library"), next(iter(memory))
    beside = [row for name, row in cores.items() if ", beside " in name]
    return _PAGE.format(
        **machine
        | {
            "mounts": machine["mounts"] or "each in a mount namespace of its own",
            "profiles": ", ".join(machine["profiles"]) or "none",
            "mig": machine["mig"].lower(),
        },
        slice=machine["time slices"].lower(),
        asserted=sum(row["ok"] is not None for row in rows),
        failed=f"{failed} were not" if (failed := sum(row["ok"] is False for row in rows)) else "were",
        recorded=sum(row["ok"] is None for row in rows),
        programs="a small CUDA program" + (f", and PyTorch {machine['torch']}," if machine["torch"] else ""),
        shares="".join(_share(name, row, cores.get(f"{name}, alone")) for name, row in memory.items()),
        device_memory=_amount(device["seen"]),
        beside=" and ".join(f"{row['promised']} became {_amount(row['seen'])}" for row in beside),
        slices=" and ".join(map(_amount, cores["two without the library"]["seen"].split(" and "))),
        container=container,
        ways="".join(
            f"|`{name}`|{_amount(row['without'])}|{_amount(row['seen'])}|\n"
            for name, row in ways.items()
            if row["promised"] == "closed"
        ),
        unread=", ".join(f"`{name}` ({row['promised']})" for name, row in ways.items() if row["seen"] == "denied"),
        emptied=ways["an empty environment"]["seen"],
        by_path=ways["the driver by its path"]["seen"],
    )


def _share(name: str, memory: dict[str, Any], cores: dict[str, Any] | None) -> str:
    numbers = [row and row[key].split()[0] for row in (memory, cores) for key in ("promised", "seen")]
    return f"|`{name}`|{memory['vendor']}|{'|'.join(each or '' for each in numbers)}|\n"


def _amount(text: str) -> str:
    """Return the first number of a reading with its unit."""
    return " ".join(text.split()[:2]).rstrip(",")


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(SEEN.read_text())))
