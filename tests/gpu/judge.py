"""Whether what was seen is what was promised: functions of readings."""

from dataclasses import dataclass
from typing import Any, Final

from .pods import Container
from .ways import Way

MIB: Final = 1 << 20
POINTS: Final = 10
"""How far from what was promised a share of time may be."""

Seen = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    `ok` is none if the reading is only recorded; `failures` says what is not as promised. Of a way out, `without` is what is
    seen where the webhook is not.
    """

    kind: str
    vendor: str
    name: str
    promised: str
    seen: str
    ok: bool | None
    failures: tuple[str, ...] = ()
    without: str = ""


def memory_row(kind: str, container: Container, seen: Seen) -> Row:
    """Judge what a container sees of its memory."""
    failures = memory_failures(container.memory, seen)
    promised = f"{container.memory} MiB"
    return Row(kind, container.vendor, container.title, promised, memory_text(seen), not failures, failures)


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


def share(seen: Seen, alone: Seen) -> float | None:
    """Return the share of time in percent, of the launches that there are without a limit."""
    if "error" in seen or "error" in alone:
        return None
    return float(100 * (seen["launches"] / seen["seconds"]) / (alone["launches"] / alone["seconds"]))


def cores_row(container: Container, how: str, seen: Seen, alone: Seen, *, by_process: bool) -> Row:
    """Judge a share of time; where the driver shows no use by process it is only recorded, for no library can limit it."""
    assert container.cores is not None
    percent = share(seen, alone)
    failures = cores_failures(container.cores, percent, seen)
    ok = not failures if by_process or percent is None else None
    name = f"{container.title}, {how}"
    return Row("cores", container.vendor, name, f"{container.cores} %", cores_text(seen, alone), ok, failures)


def cores_failures(promised: int, percent: float | None, seen: Seen) -> tuple[str, ...]:
    """Return what is wrong with a share of time."""
    if percent is None:
        return (str(seen.get("error", "nothing to compare with")),)
    return () if abs(percent - promised) <= POINTS else (f"{percent:.0f} % of the time",)


def cores_text(seen: Seen, alone: Seen) -> str:
    """Return a share of time for people."""
    percent = share(seen, alone)
    return str(seen.get("error", "")) if percent is None else f"{percent:.0f} % of the time"


def memory_way(way: Way, promised: int, opened: Seen, closed: Seen | None) -> Row:
    """Judge a way to more memory."""
    escaped = "error" not in opened and opened["beyond"]
    held = closed is None or not memory_failures(promised, closed)
    text = "denied" if closed is None else memory_text(closed)
    return _way(way, memory_text(opened), text, escaped=escaped, held=held, asserted=True)


def cores_way(way: Way, promised: int, opened: Seen, closed: Seen, alone: Seen, *, by_process: bool) -> Row:
    """Judge a way to more of the time."""
    without, stored = share(opened, alone), share(closed, alone)
    escaped = without is not None and without > promised + POINTS
    held = stored is not None and stored <= promised + POINTS
    texts = (cores_text(opened, alone), cores_text(closed, alone))
    return _way(way, *texts, escaped=escaped, held=held, asserted=by_process)


def _way(way: Way, without: str, stored: str, *, escaped: bool, held: bool, asserted: bool) -> Row:
    """Judge a way: it lifts the limit where the webhook is not, and does not where it is."""
    failures = []
    if way.lifts and not escaped:
        failures.append("does not lift the limit without the webhook")
    if not held:
        failures.append("lifts the limit in what the webhook stores")
    ok = not failures if asserted and way.lifts else None
    return Row("way", "nvidia", way.variable, way.why or "closed", stored, ok, tuple(failures), without)
