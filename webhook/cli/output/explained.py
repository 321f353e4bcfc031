"""The output of `explain`, for objects and for names, as text for a terminal."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.cli.output.tables import LabelledRow, block, heading, labelled
from webhook.cli.output.yaml_output import yaml_text
from webhook.explanation.glossary import GlossaryEntry, Mark, Use
from webhook.explanation.model import (
    ContainerExplained,
    Correction,
    DenialExplained,
    FindingExplained,
    PodExplained,
    Rounding,
    Share,
    ShimShown,
    ShownAmount,
    ShownKey,
    WrittenKey,
)
from webhook.text import shown

_MARKS: Final[Mapping[Mark, str]] = {
    "hint": "an annotation that its scheduler reads; it is left, and has no effect where the pod is translated",
    "owned": "as an annotation or label written by its scheduler only; it is removed from new pods",
    "known": "a name of another system: never read, and never taken for a misspelled key",
}


def names_text(entry: GlossaryEntry) -> str:
    """Format for a terminal, with colors, which the caller strips if stdout is not a terminal."""
    return "".join(_lines(entry))


def unknown(entry: GlossaryEntry) -> str:
    """The text about a name that is unknown."""
    near = f"; did you mean {' or '.join(entry.near)}?" if entry.near else "; `vgpu-webhook vendors` lists the keys"
    return shown(f"{entry.name} is not a key of any vendor{near}")


def _lines(entry: GlossaryEntry) -> Iterator[str]:
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
    if entry.advice:
        yield from labelled("advice", entry.advice)


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


_STEP: Final = 4
"""Columns by which a container's lines are indented more than the pod's."""


@dataclass(frozen=True, slots=True)
class PodPart:
    """A pod of an object.

    Attributes:
        path: its path in the object; empty for the object itself.
        pod: its explanation.
    """

    path: str
    pod: PodExplained


@dataclass(frozen=True, slots=True)
class ObjectExplained:
    """One object of the input.

    Attributes:
        title: its name in messages: ``deployment/demo``.
        notes: messages of the command itself.
        pods: the pods in it; empty for a kind without pods.
    """

    title: str
    notes: tuple[str, ...]
    pods: tuple[PodPart, ...]


@dataclass(frozen=True, slots=True)
class ExplainedObjects:
    """All objects of the input."""

    objects: tuple[ObjectExplained, ...]

    @property
    def denied(self) -> bool:
        """Whether any pod is denied."""
        return any(not part.pod.allowed for obj in self.objects for part in obj.pods)


def pods_text(explanation: ExplainedObjects) -> str:
    """Format for a terminal, with colors, which the caller strips if stdout is not a terminal."""
    return "\n".join("".join(_object(obj)) for obj in explanation.objects)


def _object(obj: ObjectExplained) -> Iterator[str]:
    if not obj.pods:
        yield heading(f"{obj.title}: no pod found in it")
    for number, part in enumerate(obj.pods):
        if number:
            yield "\n"
        yield from _pod(f"{obj.title}, {part.path}" if part.path else obj.title, part.pod)
    yield from labelled("note", obj.notes)


def _pod(title: str, pod: PodExplained) -> Iterator[str]:
    color = "red" if not pod.allowed else None
    verdict = "denied" if not pod.allowed else "allowed"
    mode = "" if pod.mode == "enforce" else f" (mode {pod.mode})"
    yield heading(f"{title} in namespace {pod.namespace}{mode}: {verdict}, {pod.outcome} ({pod.code})", color)
    if not pod.containers and pod.denial is None:
        yield from labelled("because", [pod.meaning])
    for container in pod.containers:
        yield from _container(container, [finding for finding in pod.findings if finding.container == container.name])
    yield from labelled("pod", [_placed(placed.field, placed.before, placed.after) for placed in pod.placed])
    named = {container.name for container in pod.containers}
    others = [finding for finding in pod.findings if finding.container not in named]
    yield from labelled("lost", map(_finding, filter(_is_lost, others)), color="yellow")
    yield from labelled("warnings", map(_finding, filter(_is_warning, others)), color="yellow")
    yield from labelled("notes", map(_finding, filter(_is_note, others)))
    if pod.denial is not None:
        yield from _denial(pod.denial)


def _placed(field: str, before: str | None, after: str | None) -> LabelledRow:
    if before == after:
        return f"{field}: {after}", "unchanged"
    if after is None:
        return f"{field}: {before}", "is removed"
    return f"{field}: {after}", "is added" if before is None else f"instead of {before}"


def _container(container: ContainerExplained, findings: list[FindingExplained]) -> Iterator[str]:
    yield from _title(container)
    yield from _rows("keys", map(_shown_key, container.keys))
    if container.unchanged is not None:
        yield from _rows("means", [f"stays unchanged: {container.unchanged}"])
    elif container.meaning:
        yield from _rows("means", _meaning(container))
    if container.target is not None and container.target != container.vendor:
        yield from _rows("target", [(container.target, f"because: {container.because}")])
    if container.request is not None:
        yield from _rows("written", map(_written_key, container.written) if container.written else ["nothing"])
    yield from _rows("removed", container.removed)
    yield from _rows("rounded", map(_rounding, container.rounded))
    yield from _rows("lost", map(_finding, filter(_is_lost, findings)), "yellow")
    if container.allocation is not None and container.allocation != container.request:
        yield from _rows("gets", [_share(container.allocation)])
    if container.shim is not None:
        yield from _shim(container.shim)
    yield from _rows("warnings", map(_finding, filter(_is_warning, findings)), "yellow")
    yield from _rows("notes", map(_finding, filter(_is_note, findings)))


def _title(container: ContainerExplained) -> Iterator[str]:
    kind = "init container" if container.init else "container"
    form = f" ({container.form})" if container.form else ""
    title = f"{kind} {container.name}, in the keys of {container.vendor}{form}"
    yield from (f"  {line}\n" for line in heading(title).splitlines())


def _rows(label: str, rows: Iterable[str | LabelledRow], color: str = "cyan") -> Iterator[str]:
    return labelled(label, rows, _STEP, color)


def _shown_key(key: ShownKey) -> LabelledRow:
    place = "" if key.place == "resource" else f"{key.place} "
    return f"{place}{key.key}: {key.value}", key.meaning


def _written_key(key: WrittenKey) -> LabelledRow:
    place = "" if key.place == "resource" else f"{key.place} "
    return f"{place}{key.key}: {key.value}", f"{key.meaning}; {key.why}" if key.meaning else key.why


def _meaning(container: ContainerExplained) -> list[str | LabelledRow]:
    rows: list[str | LabelledRow] = [(_amount(amount), amount.where) for amount in container.meaning]
    if all(amount.amount == "100%" for amount in container.meaning if amount.dimension != "devices"):
        rows.append("whole devices: not shared with other pods")
    return rows


def _amount(amount: ShownAmount) -> str:
    if amount.dimension == "devices":
        return _devices(int(amount.amount))
    text = _of(amount.amount, amount.dimension)
    return text if amount.amount == "unlimited" else f"{text} per device"


def _devices(devices: int | None) -> str:
    return "? devices" if devices is None else "1 device" if devices == 1 else f"{devices} devices"


def _of(amount: str, dimension: str) -> str:
    if amount == "unlimited":
        return f"no limit of {dimension}"
    if amount == "100%":
        return f"all {dimension}"
    return f"{_spaced(amount)} of {dimension}"


def _spaced(amount: str) -> str:
    return f"{amount[:-2]} MiB" if amount.endswith("Mi") else amount.replace("%", " %")


def _share(request: Share) -> str:
    if request.whole:
        return f"{_devices(request.devices)}, whole"
    return f"{_devices(request.devices)}, each with {_of(request.memory, 'memory')} and {_of(request.cores, 'cores')}"


def _rounding(rounding: Rounding) -> LabelledRow:
    difference = f", {_spaced(rounding.difference)}" if rounding.difference else ""
    return f"{rounding.what}: {_limit(rounding.before)} became {_limit(rounding.after)}{difference}", rounding.code


def _limit(amount: str) -> str:
    return "no limit" if amount == "unlimited" else _spaced(amount)


def _shim(shim: ShimShown) -> Iterator[str]:
    rows: list[str | LabelledRow] = [f"{shim.delivery}: {shim.why}" if shim.delivery else shim.why]
    rows += [(f"mount {path}", volume) for path, volume in shim.mounts.items()]
    for variable in shim.variables:
        if variable.value is None:
            rows.append(f"env {variable.name} is removed")
        else:
            before = "" if variable.before is None else f" (it was {variable.before or 'empty'})"
            rows.append(f"env {variable.name}={variable.value}{before}")
    yield from _rows("shim", rows)


def _is_lost(finding: FindingExplained) -> bool:
    return finding.lost


def _is_warning(finding: FindingExplained) -> bool:
    return not finding.lost and not finding.note


def _is_note(finding: FindingExplained) -> bool:
    return not finding.lost and finding.note


def _finding(finding: FindingExplained) -> str:
    return f"{finding.code} {finding.message}"


def _denial(denial: DenialExplained) -> Iterator[str]:
    label = "denied" if denial.enforced else "would be"
    finding = denial.finding
    where = "" if finding.container is None else f"container {finding.container}: "
    denied = "" if denial.enforced else "denied: "
    yield from labelled(label, [f"{denied}{finding.code} {where}{finding.message}"], color="red")
    yield from labelled("remedy", [denial.remedy], color="green")
    if denial.correction is not None:
        yield from _correction(denial.correction)


def _correction(correction: Correction) -> Iterator[str]:
    if correction.remove:
        yield from labelled("remove", correction.remove, color="green")
    if correction.manifest:
        yield from labelled("write", ["this instead; with it the pod is not denied:"], color="green")
        yield from block(yaml_text(correction.manifest).splitlines(), 12)
