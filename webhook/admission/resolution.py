"""The resolution of a pod's keys: its containers' requests, merged into changes of the pod, and the keys after them."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from webhook.admission.left_alone import Left
from webhook.admission.settled import Settled
from webhook.admission.survey import PodKeys
from webhook.finding import Finding
from webhook.mapping.model.vendor import Key
from webhook.reasons import Reason


class Resolution(msgspec.Struct, frozen=True):
    """The resolution of a pod's keys.

    Attributes:
        settled: the requesting containers, in order.
        labels, annotations: keys to write, or (None) to remove.
        findings: warnings, in the order of the containers.
        left: the requesting containers that are left unchanged.
        second_pass: by position, the result of a second pass for containers whose keys are then another vendor's than the
            target, or are written for another target: an inactive target's keys are read by their active owners.
    """

    settled: tuple[Settled, ...]
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}
    findings: tuple[Finding, ...] = ()
    left: tuple[Left, ...] = ()
    second_pass: dict[int, Settled] = {}

    @property
    def vendor_names(self) -> tuple[str, ...]:
        """The vendors in whose keys containers request."""
        return tuple(dict.fromkeys([container.requested.vendor.name for container in self.settled]))

    def passes(self, container: Settled) -> tuple[Settled, ...]:
        """Return a container of `settled`, and the result of a second pass if that is another vendor's."""
        second = self.second_pass.get(container.requested.position)
        return (container,) if second is None else (container, second)

    @property
    def changes(self) -> bool:
        """Whether anything is written or removed."""
        return bool(self.labels or self.annotations or any([container.resources for container in self.settled]))


def merge(settled: list[Settled], left: tuple[Left, ...], keys: PodKeys) -> Resolution:
    """Merge the results of a pod's containers.

    Raises:
        Denied: containers need different values of a key of the pod, or the user's value differs.
    """
    findings = [finding for container in settled for finding in container.findings]
    if len(settled) > 1:
        findings.extend(_single_device_lost(settled))
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {name: None for container in settled for name in container.dropped}
    if any([container.keys or container.translated for container in settled]):
        _merge_pod_keys(settled, keys, labels, annotations)
    return Resolution(tuple(settled), labels, annotations, tuple(findings), left)


def _single_device_lost(settled: list[Settled]) -> Iterator[Finding]:
    """Report containers that share one device under the source, and may get several under the target."""
    together = [
        container for container in settled if container.requested.vendor.together and not container.target.together
    ]
    if len(together) > 1:
        names = ", ".join(container.requested.name for container in together)
        source, target = together[0].requested.vendor.name, together[0].target.name
        yield Finding(
            Reason.SINGLE_DEVICE_LOST,
            f"{source} puts {names} on one device, {target} may use several: request in one container if that matters",
        )


def _merge_pod_keys(
    settled: list[Settled], keys: PodKeys, labels: dict[str, str | None], annotations: dict[str, str | None]
) -> None:
    """Merge the labels and annotations that the targets need: one value for the pod, or a list by position."""
    present = {"label": dict(keys.labels), "annotation": dict(keys.annotations)}
    needed: dict[tuple[str, str], tuple[Key, list[tuple[Settled, str]]]] = {}
    for container in settled:
        for key, name, text in container.keys:
            needed.setdefault((key.place, name), (key, []))[1].append((container, text))
    for (place, name), (key, texts) in needed.items():
        text = _listed(keys, texts) if key.listed else _common_value(name, texts)
        before = present[place].get(name)
        if before is not None and key.listed:
            before = ",".join(map(str.strip, before.split(",")))
        changes = labels if place == "label" else annotations
        if before is not None and before != text and (place == "label" or name not in annotations):
            message = f"{place} {name} is {before!r}, but the target needs {text!r}: remove it, or write that"
            raise texts[0][0].requested.deny(Reason.LABEL_CONFLICT, message)
        if before == text:
            changes.pop(name, None)
        else:
            changes[name] = text
    for container in settled:
        if container.translated:
            _check_spare_counts(container, present, needed.keys())


def _check_spare_counts(
    container: Settled, present: Mapping[str, Mapping[str, str]], needed: Iterable[tuple[str, str]]
) -> None:
    """Deny a count of the user's that the target would read although it needs none."""
    devices = container.request.devices
    for key in container.target.keys.values():
        if "devices" not in key.dimensions or key.place == "resource":
            continue
        for template in key.spellings:
            text = present[key.place].get(template.text)
            if text is not None and (key.place, template.text) not in needed and text != str(devices):
                message = f"{key.place} {template.text} is {text!r}, but the target needs {devices}: remove it"
                raise container.requested.deny(Reason.LABEL_CONFLICT, message)


def _listed(keys: PodKeys, texts: list[tuple[Settled, str]]) -> str:
    by_name = {container.requested.name: text for container, text in texts}
    return ",".join(by_name.get(container.name, "0") for container in keys.containers if not container.init)


def _common_value(name: str, texts: list[tuple[Settled, str]]) -> str:
    different = {text for _, text in texts}
    if len(different) > 1:
        values = " and ".join(sorted(different))
        message = f"{name} holds for the whole pod, but its containers need {values}: request the same in each"
        raise texts[0][0].requested.deny(Reason.CONTAINERS_DISAGREE, message)
    return different.pop()


def keys_after(resolution: Resolution, keys: PodKeys) -> PodKeys:
    """Return the keys of the pod after the changes of a resolution."""
    containers = list(keys.containers)
    for settled in resolution.settled:
        position = settled.requested.position
        before = containers[position]
        unchanged = [resource for resource in before.resources if resource[0] not in settled.resources]
        written = [(name, str(number), str(number)) for name, number in settled.resources.items() if number is not None]
        containers[position] = before._replace(resources=(*unchanged, *written))
    return PodKeys(
        tuple(containers),
        _after(keys.labels, resolution.labels),
        _after(keys.annotations, resolution.annotations),
        keys.node_selector,
    )


def _after(before: tuple[tuple[str, str], ...], changes: dict[str, str | None]) -> tuple[tuple[str, str], ...]:
    merged: dict[str, str | None] = {**dict(before), **changes}
    return tuple((name, text) for name, text in merged.items() if text is not None)
