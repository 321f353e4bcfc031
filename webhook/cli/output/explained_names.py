"""What `explain --name` prints of a key."""

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.cli.output.layout import heading, labelled
from webhook.explanation.glossary import Entry, Mark, Use
from webhook.text import shown

_MARKS: Final[Mapping[Mark, str]] = {
    "hint": "an annotation that its scheduler reads; it is left, and has no effect where the pod is translated",
    "owned": "as an annotation or label written by its scheduler only; it is removed from new pods",
    "known": "a resource name of another system under the same prefix: never read, and never taken for a misspelled key",
}


def as_text(entry: Entry) -> str:
    """Format for a terminal, with colors, which the caller strips if stdout is not a terminal."""
    return "".join(_lines(entry))


def unknown(entry: Entry) -> str:
    """The text about a name that is unknown."""
    near = f"; did you mean {' or '.join(entry.near)}?" if entry.near else "; `vgpu-webhook vendors` lists the keys"
    return shown(f"{entry.name} is not a key of any vendor{near}")


def _lines(entry: Entry) -> Iterator[str]:
    yield heading(entry.name)
    if entry.device_class is not None:
        text = (
            f"devices of the DeviceClass {entry.device_class}, claimed by the scheduler: no key of a mapping, unchanged"
        )
        yield from labelled("here", [text])
    if entry.owner is not None:
        yield from labelled("here", [f"a key of {entry.owner}"])
    if entry.choice is not None:
        yield from labelled("else", [f"the setting `{entry.choice}` has it read as the other's key"])
    for use in entry.uses:
        yield from _use(use)
    for vendor, mark in entry.marks:
        yield from labelled(vendor, [_MARKS[mark]])


def _use(use: Use) -> Iterator[str]:
    inactive = "" if use.in_force else ", inactive: not read here"
    about = f": {use.about}" if use.about else ""
    yield heading(f"{use.vendor}{inactive}{about}", indent=2)
    place = {"resource": "resource, in limits", "label": "label of the pod", "annotation": "annotation of the pod"}
    place["nodeSelector"] = "nodeSelector of the pod; read only"
    yield from labelled("place", [place[use.place]], 4)
    others = [key for key in use.keys if len(use.keys) > 1]
    if others:
        yield from labelled("spelled", [" or ".join(others)], 4)
    if use.container is not None:
        yield from labelled("for", [f"container {use.container}"], 4)
    if use.kinds[0] in {"devices", "memory", "cores"}:
        yield from labelled("specifies", [" and ".join(use.kinds)], 4)
        per = {"device": ", per device", "total": ", over all devices together", None: ""}[use.per]
        yield from labelled("1 is", [f"{use.unit}{per}"], 4)
    else:
        yield from labelled("specifies", [use.unit], 4)
    yield from labelled("legal", [use.legal], 4)
    yield from labelled("missing", use.missing, 4)
    yield from labelled("rules", use.rules, 4)
    yield from labelled("traps", use.traps, 4, "yellow")
