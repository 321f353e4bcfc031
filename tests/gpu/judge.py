"""Whether what was seen is what was promised: functions of readings."""

from dataclasses import dataclass, field
from typing import Any, Final

MIB: Final = 1 << 20
POINTS: Final = 10
"""How far from what was promised a share of time may be."""

Seen = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `ok` is none if the reading is only recorded; `failures` says what is not as promised."""

    kind: str
    vendor: str
    name: str
    promised: str
    seen: str
    ok: bool | None
    failures: tuple[str, ...] = ()
    detail: Seen = field(default_factory=dict)


def memory_failures(promised: int, seen: Seen) -> tuple[str, ...]:
    """Return what is wrong with a reading of memory, for a promise in MiB."""
    if "error" in seen:
        return (str(seen["error"]),)
    failures = [
        f"{name} is {seen[name] / MIB:.1f} MiB"
        for name in ("total", "device")
        if abs(seen[name] - promised * MIB) > MIB
    ]
    if not seen["below"]:
        failures.append(f"{seen['asked'] // MIB} MiB of {seen['free'] // MIB} free refused")
    if seen["beside"]:
        failures.append("more than is free granted")
    if seen["beyond"]:
        failures.append("more than promised granted")
    return tuple(failures)


def memory_text(seen: Seen) -> str:
    """Return a reading of memory for people."""
    if "error" in seen:
        return str(seen["error"])
    answers = {True: "granted", False: "refused"}
    return (
        f"{seen['total'] / MIB:.0f} MiB, {seen['asked'] // MIB} {answers[seen['below']]}, "
        f"more {answers[seen['beside']]}, beyond {answers[seen['beyond']]}"
    )


def lifted(promised: int, seen: Seen) -> bool | None:
    """Return whether more memory than promised was granted; none if there is no reading."""
    return None if "error" in seen else bool(seen["beyond"])


def share(seen: Seen, alone: Seen) -> float | None:
    """Return the share of time in percent, of the launches that there are without a limit."""
    if "error" in seen or "error" in alone:
        return None
    return float(100 * (seen["launches"] / seen["seconds"]) / (alone["launches"] / alone["seconds"]))


def cores_failures(promised: int, percent: float | None, seen: Seen) -> tuple[str, ...]:
    """Return what is wrong with a share of time."""
    if percent is None:
        return (str(seen.get("error", "nothing to compare with")),)
    return () if abs(percent - promised) <= POINTS else (f"{percent:.0f} % of the time",)
