"""The device that a pod selects its node by: with its memory, a percentage is a size, and a size a percentage.

Which device a pod will get is not known at its admission, unless the pod itself selects it. Only what the scheduler must
obey counts: the node selector, and required node affinity if each of its alternatives names the device.
"""

from typing import Final, Literal, NamedTuple

import msgspec

from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.pod import Pod, View, present
from webhook.quantity import bytes_text
from webhook.request import Memory, Percent, Size

MAX_NAMED: Final = 2
"""The most devices that a message names."""

MAX_NAME: Final = 63
"""The most characters of a label's value."""


class SelectedDevice(NamedTuple):
    """The device, or several, that a pod selects by one label of nodes.

    Attributes:
        label: the label's key.
        place: where the pod selects it.
        names: the values of the label, for messages; several, if the pod accepts any of them.
        known: whether all of them are in the setting `cards`; if not, `names` has only the others.
        memory: bytes of each of them; None if that is not known, or they differ.
    """

    label: str
    place: Literal["nodeSelector", "nodeAffinity"]
    names: str
    known: bool
    memory: int | None


class _Requirement(View, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(View, frozen=True):
    match_expressions: list[_Requirement] | None = None


class _Selector(View, frozen=True):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(View, frozen=True):
    required: _Selector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class _Affinity(View, frozen=True):
    node_affinity: _NodeAffinity | None = None


_affinity = msgspec.json.Decoder(_Affinity | None)


def selected_devices(pod: Pod, policy: Policy) -> tuple[SelectedDevice, ...]:
    """Return the devices that a pod selects, one `SelectedDevice` for each label; none if no device is configured."""
    if not policy.cards:
        return ()
    selector = pod.spec.node_selector or {}
    terms = _required_terms(pod.spec.affinity)
    devices: list[SelectedDevice] = []
    for label in dict.fromkeys(label for labels in policy.card_labels.values() for label in labels):
        chosen = selector.get(label)
        values = _in_each(label, terms)
        if chosen is not None:
            values = {chosen} if values is None else values & {chosen}
        if values:
            devices.append(
                _selected_device(label, "nodeAffinity" if chosen is None else "nodeSelector", values, policy)
            )
    return tuple(devices)


def _required_terms(affinity: msgspec.Raw) -> list[_Term]:
    """The alternatives of required node affinity; none if it is invalid, and so selects no device."""
    try:
        decoded = _affinity.decode(affinity) if present(affinity) else None
    except (msgspec.DecodeError, RecursionError):
        return []
    if decoded is None or decoded.node_affinity is None or decoded.node_affinity.required is None:
        return []
    return decoded.node_affinity.required.node_selector_terms or []


def _in_each(label: str, terms: list[_Term]) -> set[str] | None:
    """The values that a label can have on a node that any of the terms selects; None if a term allows every value."""
    possible: set[str] = set()
    for term in terms:
        lists = [
            set(requirement.values or ())
            for requirement in term.match_expressions or ()
            if requirement.key == label and requirement.operator == "In"
        ]
        if not lists:
            return None
        possible |= set.intersection(*lists)
    return possible if terms else None


def _selected_device(
    label: str, place: Literal["nodeSelector", "nodeAffinity"], values: set[str], policy: Policy
) -> SelectedDevice:
    known = policy.cards
    sizes = {known.get(value) for value in values}
    unknown = sorted(value for value in values if value not in known)
    names = unknown or sorted(values)
    text = " or ".join(name[:MAX_NAME] for name in names[:MAX_NAMED]) + (" or others" if names[MAX_NAMED:] else "")
    return SelectedDevice(label, place, text, not unknown, sizes.pop() if len(sizes) == 1 else None)


def device_for(target: Vendor, devices: tuple[SelectedDevice, ...], policy: Policy) -> SelectedDevice | None:
    """Return the device of which a request written for `target` will get a share; None if that is not known.

    Labels of other hardware do not count, nor do several labels whose devices differ in memory.
    """
    labels = policy.card_labels.get(target.family, ())
    known = [device for device in devices if device.label in labels and device.memory is not None]
    return known[0] if len({device.memory for device in known}) == 1 else None


def missing_device(
    target: Vendor, memory: Memory | None, devices: tuple[SelectedDevice, ...], policy: Policy
) -> str | None:
    """Return what to write so that the target can express the memory; None if a known device would not help."""
    sized = isinstance(memory, Size)
    if not isinstance(memory, Size | Percent) or not _expresses_only(target, sized=not sized):
        return None
    labels = policy.card_labels.get(target.family, ())
    selected = [device for device in devices if device.label in labels]
    kind = "percentage" if sized else "size"
    if not policy.cards or not labels:
        keys = "`cards`" if labels else "`cards` and `cardLabels`"
        select = f"select one by nodeSelector {labels[0]}" if labels else "select one by nodeSelector"
        return f"{memory} is a {kind} on a known device only: set {keys} in the settings, and {select}"
    if not selected:
        return f"{memory} is a {kind} on a known device only: select one of the setting `cards` by nodeSelector {labels[0]}"
    first = next((device for device in selected if device.memory is None), selected[0])
    where = f"{first.names} ({first.place} {first.label})"
    if not first.known:
        return f"the setting `cards` lacks the memory of {where}: add it there"
    if first.memory is None:
        return f"{where} differ in memory: select one device"
    return f"{' and '.join(device.label for device in selected)} name devices that differ in memory: keep one"


def _expresses_only(target: Vendor, *, sized: bool) -> bool:
    """Whether the target expresses memory in sizes only, or (not `sized`) in percentages only."""
    kinds = {target.keys[name].sized for name in target.by_dimension["memory"]}
    rows = [row for variable in target.variables.values() for row in variable.rows.values()]
    kinds |= {True for row in rows if isinstance(row.memory, Size)}
    return kinds == {sized}


def too_large(memory: Memory | None, device: SelectedDevice) -> str | None:
    """Return a sentence about a size that is more than the device has; None if it is not."""
    if isinstance(memory, Size) and device.memory is not None and memory.bytes > device.memory:
        selected = f"{device.names} ({device.place} {device.label})"
        return f"memory {memory} is more than the {bytes_text(device.memory)} of {selected}"
    return None
