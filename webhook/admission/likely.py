"""What is hardly meant: more than a device or node has, which settings may deny, or hardly any memory, or memory of 0.

A count of devices is one of different devices of one node, except where a vendor counts parts: these may lie on one.
"""

from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from webhook.admission.advice import expresses
from webhook.admission.collect import ContainerRequest
from webhook.admission.overrides import SelectedDevice
from webhook.admission.settled import Intent, Settled
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.reading import oversized
from webhook.mapping.values import KeyValue, Reading, form_of, sizes_meant
from webhook.quantity import GIB, Number, bytes_text, ceil_to, counted_in, exact_text, number_text
from webhook.reasons import Finding, Reason
from webhook.request import ALL, UNLIMITED, Request, Size


def hardly_meant(settled: Settled, device: SelectedDevice | None, intent: Intent) -> list[Finding]:
    """Report what of a request is hardly meant; `device`: that of which it gets a share, if it is known."""
    container, target, request, policy = settled.requested, settled.target, settled.reading.request, intent.policy
    found = (
        report_small(settled, device, intent),
        report_devices(container, target, request.devices or 1, policy),
        report_memory(settled, device, policy),
        report_zero(container, request) if container.zero else None,
    )
    return [finding for finding in found if finding is not None]


USUAL_NODE: Final = 16
"""The devices of the largest usual nodes: the cloud machines and servers with the most have 16."""


def report_devices(container: ContainerRequest, target: Vendor, devices: int, policy: Policy) -> Finding | None:
    """Report a count that no node can have; for parts, that each remains a device of its own."""
    source = container.vendor
    if source.counts_parts and devices > 1 and any([variable.rows for variable in source.variables.values()]):
        counted = " and ".join(str(entry) for entry in container.key_values.values())
        each = f"{counted} is {devices} devices, not one larger one"
        message = f"{each}, and most programs use one: for more memory write a larger slice"
        return Finding(Reason.IMPROBABLE, message, container.name)
    largest = policy.settings.largest_node
    if target.counts_parts or devices <= (largest or USUAL_NODE):
        return None
    message = f"{container.shown}: {devices} devices are {devices} physical GPUs of one node; "
    other = _other_unit(container)
    if largest is not None:
        raise container.deny(Reason.TOO_LARGE, f"{message}the largest has {largest}{other}")
    message += f"hardly any has more than {USUAL_NODE}{other}; the setting `largestNode` says how many yours have"
    return Finding(Reason.IMPROBABLE, message, container.name)


def _other_unit(container: ContainerRequest) -> str:
    """What a count may have been meant as: memory, or shares of one device."""
    keys = container.vendor.keys
    if any(keys[name].sized for name in container.key_values):
        return ""
    sizes = (key for key in keys.values() if key.sized and key.place == "resource" and key.unit)
    named = next((name for key in sizes if _reads_alone(container.vendor, key, name := key.spelled({}))), None)
    return "" if named is None else f": if memory was meant, write {named}"


def _reads_alone(vendor: Vendor, key: Key, name: str) -> bool:
    """Whether a vendor reads a key alone, under a name without variables."""
    form = None if "{" in name else form_of(vendor, {key.name: KeyValue(key.name, name, "1", 1)})
    return form is not None and form.reads


def report_zero(container: ContainerRequest, request: Request) -> Finding | None:
    """Report memory of 0, which counts as not written, where the container then gets all of it."""
    zeros = (container.zero.get(name) for name in container.vendor.by_dimension["memory"])
    entry = next(filter(None, zeros), None)
    if entry is None or request.memory not in {ALL, UNLIMITED}:
        return None
    message = f"{entry} counts as not written, so the container gets all memory of its devices: write how much it needs"
    return Finding(Reason.KEY_IGNORED, message, container.name, entry.key, entry.text)


def report_small(settled: Settled, device: SelectedDevice | None, intent: Intent) -> Finding | None:
    """Report a size that hardly anything can run in: its number was probably meant in another unit."""
    container, reading, policy = settled.requested, settled.reading, intent.policy
    memory = reading.request.memory
    if "memory" not in reading.specified or not isinstance(memory, Size) or memory.bytes >= policy.smallest_memory:
        return None
    sized = _sized_by(container, reading)
    if sized is None:
        return None
    key, entry, unit = sized
    meant, advice = entry.number * GIB, f"the key counts {counted_in(unit)}"
    number, most = ceil_to(Fraction(meant) / unit, 1), _most(settled, device, policy)[0]
    key_values = {**container.key_values, key.name: replace(entry, text=exact_text(number), number=number)}
    if meant <= most and expresses(intent, key_values, reading):
        advice = f"write {exact_text(number)} for {number_text(entry.number)} GiB"
    message = f"{entry} is only {bytes_text(memory.bytes)} per device: {advice}"
    return Finding(Reason.SIZE_TOO_SMALL, message, container.name, entry.key, entry.text)


def _sized_by(container: ContainerRequest, reading: Reading) -> tuple[Key, KeyValue, Number] | None:
    """The key that specifies memory, its value and its unit; None without one."""
    names = [name for name in container.vendor.by_dimension["memory"] if name in container.key_values]
    keys = [(reading.form.keys[name], container.key_values[name]) for name in names]
    return next(((key, entry, key.unit) for key, entry in keys if key.unit is not None), None)


def report_memory(settled: Settled, device: SelectedDevice | None, policy: Policy) -> Finding | None:
    """Report more memory per device than the selected one, as its system counts, the largest one, or any that is sold has."""
    container, reading = settled.requested, settled.reading
    memory = reading.request.memory if device is None or device.memory is None else settled.request.memory
    most, named = _most(settled, device, policy)
    if not isinstance(memory, Size) or memory.bytes <= most:
        return None
    has = f"{f'{named} has' if named else 'none that is sold has more than'} {bytes_text(most)}"
    message = f"memory {memory} per device: {has}"
    sized = _sized_by(container, reading) if memory == reading.request.memory else None
    if sized is not None:
        key, entry, unit = sized
        sizes = sizes_meant(key, entry, memory.bytes, most)
        meant = [each for each in sizes if each[1] * unit >= policy.smallest_memory]
        message = f"{oversized(key, entry, memory, has, meant)}{f'; {has}' if meant else ''}"
    if named:
        raise container.deny(Reason.TOO_LARGE, message)
    return Finding(Reason.IMPROBABLE, message, container.name)


def _most(settled: Settled, device: SelectedDevice | None, policy: Policy) -> tuple[int, str]:
    """The bytes of the device of which it may get a share, and its name; empty if only what is sold is known."""
    if device is not None and device.memory is not None:
        return device.memory, f"{device.names} ({device.label})"
    family = settled.target.family
    largest = policy.largest_devices.get(family)
    return (policy.largest_sold[family], "") if largest is None else (largest, "the largest device")
