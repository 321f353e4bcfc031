"""A request written for another vendor: as it is, without what the target lets drop, or with memory by the device."""

from collections.abc import Iterator

from msgspec.structs import replace

from webhook.admission.container_request import ContainerRequest
from webhook.admission.overrides import Overrides, defaults_for
from webhook.admission.selected_devices import device_for, missing_device, too_large
from webhook.admission.settled import Settled, default_text, limit_not_kept
from webhook.finding import Finding
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Key, Vendor
from webhook.mapping.requests.conversion import for_device_size, step_between
from webhook.mapping.requests.key_values import KeyValue
from webhook.mapping.requests.result import Defaults, Reading
from webhook.mapping.requests.writing import NoEquivalent, Written, write
from webhook.quantity import bytes_text
from webhook.reasons import Reason
from webhook.request import UNLIMITED, Dimension, Memory, Request, Size


class Translator:
    """Translates the request of one container."""

    __slots__ = ("_container", "_overrides", "_policy", "_target")

    def __init__(self, container: ContainerRequest, target: Vendor, overrides: Overrides, policy: Policy) -> None:
        self._container = container
        self._target = target
        self._overrides = overrides
        self._policy = policy

    def translate(self, reading: Reading) -> Settled:
        """Return the request of a reading in the target's keys, without the keys of the source.

        Raises:
            Denied: the target cannot express it, or nobody reads the keys.
        """
        container, target = self._container, self._target
        findings = list(reading.findings)
        request, written = self._write(reading.request, findings)
        settled = Settled(
            container,
            target,
            written.reading.request,
            written.form.name,
            reading.filled,
            reading,
            findings=findings,
            read_back=written.reading,
        )
        self._report_defaults(settled, written)
        self._report_rounding(settled, request)
        self._remove_source(settled)
        self._add_target(settled, written)
        findings.extend(limit_not_kept(written.form, container))
        return settled

    def _write(self, request: Request, findings: list[Finding]) -> tuple[Request, Written]:
        """Write a request, if need be without dimensions that the mapping permits to drop.

        Returns:
            The request as it is written, before rounding, and its keys.

        Raises:
            Denied: the target cannot express it.
        """
        container, target = self._container, self._target
        # The active owners of an inactive target's keys read them again: only the second pass knows their defaults.
        defaults = {} if target.inactive else defaults_for(target, target, self._overrides.defaults)[0]
        requested_memory = request.memory
        try:
            return self._write_whole(request, defaults, findings)
        except NoEquivalent as error:
            failure = error
        for dimension in target.drop:
            amount = getattr(request, dimension)
            if amount is UNLIMITED:
                continue
            request = _with(request, dimension, UNLIMITED)
            try:
                written_request, written = self._write_whole(request, defaults, findings)
            except NoEquivalent as error:
                failure = error
                continue
            message = f"{target.name} cannot limit {dimension}: the request of {amount} was dropped"
            findings.append(Finding(Reason.DIMENSION_DROPPED, message, container.name))
            return written_request, written
        requested = ", ".join(str(entry) for entry in container.key_values.values())
        remedy = self._remedy(requested_memory)
        # What to write instead comes first: little more fits into a message.
        start = f"{requested} ({request}): " if remedy is None else f"{requested}: {remedy}; "
        message = f"{target.name} cannot express {start}{_first_reasons(failure)}"
        raise container.deny(Reason.NO_EQUIVALENT, message)

    def _write_whole(self, request: Request, defaults: Defaults, findings: list[Finding]) -> tuple[Request, Written]:
        """Write a request with all its dimensions, or else with memory in the other unit if the pod selects its device.

        Raises:
            NoEquivalent: no form of the target can express it.
        """
        target, largest, name = self._target, self._policy.largest_card, self._container.name
        try:
            return request, write(target, request, defaults, largest, name)
        except NoEquivalent as error:
            failure = error
        device = device_for(target, self._overrides.selected, self._policy)
        if device is None or device.memory is None:
            raise failure
        converted = for_device_size(request, device.memory)
        if converted is None:
            excess = too_large(request.memory, device)
            raise failure if excess is None else NoEquivalent((excess, *failure.reasons))
        try:
            written = write(target, converted, defaults, largest, name)
        except NoEquivalent as error:
            raise NoEquivalent((*error.reasons, *failure.reasons)) from None
        message = (
            f"memory {request.memory} per device was written as {converted.memory}: "
            f"{device.names} ({device.place} {device.label}) has {bytes_text(device.memory)} by the setting `cards`"
        )
        step = step_between("memory", request.memory, converted.memory)
        findings.append(Finding(Reason.DEVICE_MEMORY_ASSUMED, message, name, device.label, device.names, step))
        return converted, written

    def _remedy(self, memory: Memory | None) -> str | None:
        """What to configure for the target to express this memory; None if the device is known."""
        selected = self._overrides.selected
        if device_for(self._target, selected, self._policy) is not None:
            return None
        return missing_device(self._target, memory, selected, self._policy)

    def _report_defaults(self, settled: Settled, written: Written) -> None:
        for dimension, default in settled.filled.items():
            keys = [
                f"{entry}"
                for key_name, entry in written.keys.items()
                if dimension in self._target.keys[key_name].dimensions
            ]
            message = default_text(dimension, default)
            if keys:
                message = f"{message}, written as {', '.join(keys)}"
            settled.findings.append(Finding(Reason.DEFAULT_FILLED, message, self._container.name))

    def _report_rounding(self, settled: Settled, request: Request) -> None:
        """Report limits and amounts that differ from `request`, because the target can express no others."""
        for dimension in ("memory", "cores"):
            before: Memory = getattr(request, dimension)
            after: Memory = getattr(settled.request, dimension)
            if before == after:
                continue
            if before is UNLIMITED:
                message = f"{dimension} had no limit; {self._target.name} limits it to {after}"
                reason = Reason.LIMIT_ADDED
            else:
                least = f"the least that {self._target.name} can express"
                message = f"{dimension} {before} per device was rounded up to {after}, {least}"
                reason = Reason.ROUNDED
            step = step_between(dimension, before, after)
            settled.findings.append(Finding(reason, message, self._container.name, step=step))

    def _remove_source(self, settled: Settled) -> None:
        """Remove the keys of the source; report those that have no meaning for the target."""
        for entry, key in self._source_keys():
            if key.place == "resource":
                settled.resources[entry.key] = None
            elif key.place == "annotation":
                settled.dropped.append(entry.key)
                if key.twin is not None:
                    settled.dropped.extend(self._with_twin(key, entry))
            if key.kind == "other" and key.place != "nodeSelector" and key.ceiling is None:
                message = f"{entry} has no meaning for {self._target.name} and was removed"
                settled.findings.append(
                    Finding(Reason.KEY_NOT_CARRIED, message, self._container.name, entry.key, entry.text)
                )

    def _add_target(self, settled: Settled, written: Written) -> None:
        """Add the keys of the target.

        Raises:
            Denied: nobody reads them.
        """
        target = self._target
        for key_name, entry in written.keys.items():
            key = target.keys[key_name]
            if key.retired is not None:
                message = f"{entry} was written, a retired key: {' '.join(key.retired.split())}"
                settled.findings.append(
                    Finding(Reason.KEY_RETIRED, message, self._container.name, entry.key, entry.text)
                )
            if key.place == "resource":
                if not self._policy.resources.owners(entry.key):
                    message = f"{target.name} is inactive and no active vendor reads {entry.key}: choose another target"
                    raise self._container.deny(Reason.READ_BACK_DIFFERS, message)
                settled.resources[entry.key] = entry.number
            else:
                names = self._with_twin(key, entry) if key.twin is not None else [entry.key]
                settled.keys.extend((key, name, entry.text) for name in names)

    def _source_keys(self) -> Iterator[tuple[KeyValue, Key]]:
        """The keys of the source as they are in the pod, and those that copy them."""
        for container in (self._container, self._container.copy):
            if container is not None:
                for entry in container.all_key_values.values():
                    yield entry, container.vendor.keys[entry.key_name]

    def _with_twin(self, key: Key, entry: KeyValue) -> list[str]:
        """The name that a key is written under, and its twin's."""
        binding = {**dict(entry.binding), "container": self._container.name}
        names = [template.render(binding) for template in (key.spellings[0], *([key.twin] if key.twin else []))]
        return [name for name in names if name is not None]


def _with(request: Request, dimension: Dimension, amount: Memory) -> Request:
    if dimension == "memory":
        return replace(request, memory=amount)
    return request if isinstance(amount, Size) else replace(request, cores=amount)


def _first_reasons(failure: NoEquivalent) -> str:
    """The nearest forms, as many as fit into a message."""
    return "; ".join(failure.reasons[:2]) or "none of its forms fits"
