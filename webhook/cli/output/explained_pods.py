"""What `explain` prints of objects: one model, as text for a terminal or as JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from webhook.cli.output.layout import Row, block, heading, labelled
from webhook.cli.output.yaml_output import yaml_text
from webhook.explanation.model import (
    Amount,
    ContainerExplained,
    Correction,
    PodExplained,
    Refusal,
    Rounding,
    Share,
    ShimShown,
    ShownKey,
    Told,
    WordWritten,
)

_STEP: Final = 4
"""Columns that a container's lines stand further right than the pod's."""


@dataclass(frozen=True, slots=True)
class PodPart:
    """A pod of an object.

    Attributes:
        path: where it is in the object; empty for the object itself.
        pod: what became of it.
    """

    path: str
    pod: PodExplained


@dataclass(frozen=True, slots=True)
class ObjectExplained:
    """One object of the input.

    Attributes:
        title: how messages name it: ``deployment/demo``.
        notes: what only concerns the command.
        pods: the pods in it; none for a kind that holds none.
    """

    title: str
    notes: tuple[str, ...]
    pods: tuple[PodPart, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All objects of the input."""

    objects: tuple[ObjectExplained, ...]

    @property
    def denied(self) -> bool:
        """Whether any pod is denied."""
        return any(not part.pod.allowed for one in self.objects for part in one.pods)


def as_text(explanation: Explanation) -> str:
    """For a terminal; colors are in it, and for the caller to strip where there is no terminal."""
    return "\n".join("".join(_object(one)) for one in explanation.objects)


def _object(one: ObjectExplained) -> Iterator[str]:
    if not one.pods:
        yield heading(f"{one.title}: holds no pod that is treated")
    for number, part in enumerate(one.pods):
        if number:
            yield "\n"
        yield from _pod(f"{one.title}, {part.path}" if part.path else one.title, part.pod)
    yield from labelled("note", one.notes)


def _pod(title: str, pod: PodExplained) -> Iterator[str]:
    color = "red" if not pod.allowed else None
    verdict = "denied" if not pod.allowed else "allowed"
    mode = "" if pod.mode == "enforce" else f" (mode {pod.mode})"
    yield heading(f"{title} in namespace {pod.namespace}{mode}: {verdict}, {pod.outcome} ({pod.code})", color)
    if not pod.containers and pod.refusal is None:
        yield from labelled("because", [pod.meaning])
    for container in pod.containers:
        yield from _container(container, [told for told in pod.told if told.container == container.name])
    yield from labelled("pod", [_placed(one.field, one.before, one.after) for one in pod.placed])
    named = {container.name for container in pod.containers}
    others = [told for told in pod.told if told.container not in named]
    yield from labelled("lost", [_told(told) for told in others if told.lost], color="yellow")
    yield from labelled("told", [_told(told) for told in others if not told.lost and not told.shown], color="yellow")
    if pod.refusal is not None:
        yield from _refusal(pod.refusal)


def _placed(field: str, before: str | None, after: str | None) -> Row:
    if before == after:
        return f"{field}: {after}", "as it is"
    if after is None:
        return f"{field}: {before}", "is removed"
    return f"{field}: {after}", "is added" if before is None else f"instead of {before}"


def _container(one: ContainerExplained, told: list[Told]) -> Iterator[str]:
    kind = "init container" if one.init else "container"
    yield from _title(kind, one)
    yield from _rows("asked", map(_word, one.asked))
    if one.left is not None:
        yield from _rows("means", [f"left as it stands: {one.left}"])
    elif one.meaning:
        yield from _rows("means", _meaning(one))
    if one.target is not None and one.target != one.vendor:
        yield from _rows("target", [(one.target, f"because: {one.because}")])
    if one.request is not None:
        yield from _rows("written", map(_word_written, one.written) if one.written else ["nothing: it is all there"])
    yield from _rows("removed", one.removed)
    yield from _rows("rounded", map(_rounding, one.rounded))
    yield from _rows("lost", [_told(each) for each in told if each.lost], "yellow")
    if one.allocation is not None and one.allocation != one.request:
        yield from _rows("gets", [_share(one.allocation)])
    if one.shim is not None:
        yield from _shim(one.shim)
    yield from _rows("told", [_told(each) for each in told if not each.lost and not each.shown], "yellow")


def _title(kind: str, one: ContainerExplained) -> Iterator[str]:
    form = f" ({one.form})" if one.form else ""
    yield from (f"  {line}\n" for line in heading(f"{kind} {one.name}, in the keys of {one.vendor}{form}").splitlines())


def _rows(label: str, rows: Iterable[str | Row], color: str = "cyan") -> Iterator[str]:
    return labelled(label, rows, _STEP, color)


def _word(key: ShownKey) -> Row:
    place = "" if key.place == "resource" else f"{key.place} "
    return f"{place}{key.key}: {key.value}", key.says


def _word_written(key: WordWritten) -> Row:
    place = "" if key.place == "resource" else f"{key.place} "
    return f"{place}{key.key}: {key.value}", f"{key.says}; {key.why}" if key.says else key.why


def _meaning(one: ContainerExplained) -> list[str | Row]:
    rows: list[str | Row] = [(_amount(each), each.where) for each in one.meaning]
    if all(each.amount == "100%" for each in one.meaning if each.dimension != "devices"):
        rows.append("whole devices: nobody else gets a part of them")
    return rows


def _amount(one: Amount) -> str:
    if one.dimension == "devices":
        return _cards(int(one.amount))
    amount = _of(one.amount, one.dimension)
    return amount if one.amount == "free" else f"{amount} per device"


def _cards(devices: int | None) -> str:
    return "? devices" if devices is None else "1 device" if devices == 1 else f"{devices} devices"


def _of(amount: str, dimension: str) -> str:
    if amount == "free":
        return f"no limit of {dimension}"
    if amount == "100%":
        return f"all {dimension}"
    return f"{_spaced(amount)} of {dimension}"


def _spaced(amount: str) -> str:
    return f"{amount[:-2]} MiB" if amount.endswith("Mi") else amount.replace("%", " %")


def _share(request: Share) -> str:
    if request.whole:
        return f"{_cards(request.devices)}, whole"
    return f"{_cards(request.devices)}, each with {_of(request.memory, 'memory')} and {_of(request.cores, 'cores')}"


def _rounding(one: Rounding) -> Row:
    by = f", {_spaced(one.by)}" if one.by else ""
    return f"{one.what}: {_limit(one.before)} became {_limit(one.after)}{by}", one.code


def _limit(amount: str) -> str:
    return "no limit" if amount == "free" else _spaced(amount)


def _shim(shim: ShimShown) -> Iterator[str]:
    rows: list[str | Row] = [f"{shim.delivery}: {shim.why}" if shim.delivery else shim.why]
    rows += [(f"mount {path}", volume) for path, volume in shim.mounts.items()]
    for variable in shim.variables:
        if variable.value is None:
            rows.append(f"env {variable.name} is removed")
        else:
            before = "" if variable.before is None else f" (it was {variable.before or 'empty'})"
            rows.append(f"env {variable.name}={variable.value}{before}")
    yield from _rows("shim", rows)


def _told(told: Told) -> str:
    return f"{told.code} {told.message}"


def _refusal(refusal: Refusal) -> Iterator[str]:
    label = "denied" if refusal.enforced else "would be"
    told = refusal.told
    where = "" if told.container is None else f"container {told.container}: "
    denied = "" if refusal.enforced else "denied: "
    yield from labelled(label, [f"{denied}{told.code} {where}{told.message}"], color="red")
    yield from labelled("remedy", [refusal.remedy], color="green")
    if refusal.instead is not None:
        yield from _instead(refusal.instead)


def _instead(instead: Correction) -> Iterator[str]:
    if instead.without:
        yield from labelled("leave out", instead.without, color="green")
    if instead.manifest:
        yield from labelled("write", ["this instead; with it the pod is not refused:"], color="green")
        yield from block(yaml_text(instead.manifest).splitlines(), 12)
