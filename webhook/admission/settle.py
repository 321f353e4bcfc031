"""One container: its keys read, filled in and settled; in its own keys or in those of another vendor."""

import re
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.likely import report_devices, report_memory, report_zero
from webhook.admission.overrides import (
    DEFAULT_SCHEDULER,
    BareMeaning,
    Overrides,
    defaults_for,
    defaults_of_whole,
    device_for,
    missing_device,
    override_source,
    target_of,
    too_large,
)
from webhook.admission.served import (
    is_served,
    isolates,
    isolates_part,
    isolation_denied,
    isolation_lost,
    loses_isolation,
    moved_by_settings,
    serving,
    unserved,
)
from webhook.mapping.model.keys import Binding, Form, Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.requests.denials import LeftAlone
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.templates import MAX_SELECTED
from webhook.mapping.requests.values import (
    Defaults,
    KeyValue,
    KeyValues,
    Reading,
    bound_in,
    fewer,
    for_device_size,
    form_of,
    keys_for,
    number_for,
    step_between,
)
from webhook.mapping.requests.writing import NoEquivalent, Written, write
from webhook.quantity import GIB, Number, bytes_text, ceil_to, counted_in, exact_text, number_text
from webhook.reasons import Denied, Finding, Instead, Reason, Step
from webhook.request import ALL, UNLIMITED, Dimension, Memory, Percent, Request, Size

_SELECTED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}")
"""A model's name, a part of it, or a UUID: an attribute of a device has at most 64 characters."""


class Settled(Struct):
    """The settled request of one container.

    Attributes:
        requested: the container and its keys.
        target: the vendor that it is written for.
        request: its allocation, as the target's keys express it.
        form: the target's form that the keys take.
        filled: dimensions with their defaults.
        reading: the meaning of the source's keys, before anything is rounded or dropped for the target.
        read_back: the meaning of the keys of a translated request, read alone; None if it is not translated.
        translated: it is written in another vendor's keys.
        resources: resource names to write with their number, or None to remove.
        claim: the keys of its claim, of a target that has claims; otherwise empty.
        keys: target keys in labels and annotations: (key, name, text).
        dropped: annotations of the source that carried the request.
        findings: warnings for the user.
    """

    requested: ContainerRequest
    target: Vendor
    request: Request
    form: str
    filled: Defaults
    reading: Reading
    resources: dict[str, Number | None] = {}
    claim: dict[str, KeyValue] = {}
    keys: list[tuple[Key, str, str]] = []
    dropped: list[str] = []
    findings: list[Finding] = []
    read_back: Reading | None = None
    translated: bool = False

    def chosen_whole(self, overrides: Overrides) -> bool:
        """Return whether it is whole devices because somebody chose that for counts alone: nobody has to be warned."""
        return overrides.bare.whole and self.requested.bare


def limit_not_kept(form: Form, container: ContainerRequest) -> list[Finding]:
    """Return the warning of a form in which the vendor enforces no limit; nothing for other forms."""
    if form.unlimited is None:
        return []
    return [Finding(Reason.LIMIT_NOT_KEPT, " ".join(form.unlimited.split()), container.name)]


def default_text(dimension: Dimension, default: Default) -> str:
    """Return the beginning of the message about a default that applies."""
    missing = "device count" if dimension == "devices" else dimension
    return f"no {missing} requested: {default.value} by the {default.origin}'s default"


def _remedies(settled: Settled, form: Form, dimension: Dimension, overrides: Overrides, policy: Policy) -> str:
    """Return what to write instead of a default; what a bare count most probably means, whole devices, comes first."""
    container = settled.requested
    vendor = container.vendor
    keys, default = [form.keys[name] for name in vendor.by_dimension[dimension]], settled.filled[dimension]
    size = next((_spelled(container, key) for key in keys if _may_have(container, key, default)), None)
    if dimension != "memory" or overrides.bare.whole or not container.bare:
        return "" if size is None else f"; set {size} to change it"
    whole = next(keys_for(vendor, form.keys, "memory", Default(ALL, "mapping"), 1), None)
    choices = []
    if whole is not None and not settled.translated:
        choices.append(f"set {_spelled(container, form.keys[whole.key_name])}: {whole.text} for a whole device")
    choices += [] if size is None else [f"{'' if choices else 'set '}{size} for another size"]
    if not settled.translated or _has_whole(container, overrides, policy):
        choices.append(f"{'or ' if choices else ''}annotate the namespace {labels.BARE_DEVICES}: whole")
    assumed = " (share is assumed)" if overrides.bare.origin is None else ""
    return f"{assumed}; {', '.join(choices)}" if choices else assumed


def _may_have(container: ContainerRequest, key: Key, default: Default) -> bool:
    """Whether the vendor reads a key beside those of the container, with about the number of a default, if it reads these."""
    number = number_for(key, default.value, 1) or 1
    entry = KeyValue(key.name, _spelled(container, key), exact_text(number), number)
    before, after = (
        form_of(container.vendor, key_values)
        for key_values in (container.key_values, {**container.key_values, key.name: entry})
    )
    return before is None or not before.reads or (after is not None and after.reads)


def _has_whole(container: ContainerRequest, overrides: Overrides, policy: Policy) -> bool:
    """Whether a count alone would be permitted if it meant whole devices: many targets cannot express them."""
    try:
        settle(container, replace(overrides, bare=BareMeaning(whole=True, origin="namespace")), policy)
    except Denied:
        return False
    return True


class Unchanged(msgspec.Struct, frozen=True):
    """A requesting container that is left unchanged: no defaults, no translation, no placement, no shim.

    Attributes:
        requested: the container and its keys.
        why: a sentence, for explanations only.
        placed: its keys select their own scheduler, so that the pod cannot be moved to another vendor's scheduler.
        finding: the warning for the user, if there is one.
        share: it requests less than whole devices, which the guard keeps as it does others' shares.
    """

    requested: ContainerRequest
    why: str
    placed: bool = False
    finding: Finding | None = None
    share: bool = False


def several_bindings(container: ContainerRequest) -> bool:
    """Return whether its keys name different hardware, or different sizes by one kind of name."""
    keys = container.vendor.keys
    if not container.vendor.variables:
        return False
    bindings = {entry.binding for entry in container.all_key_values.values() if keys[entry.key_name].variables}
    return len(bindings) > 1


def left_several(container: ContainerRequest, target: Vendor) -> Unchanged:
    """Leave several sizes in one container (MIG slices) unchanged; deny other keys with several bindings."""
    for other in container.other_spellings:
        first = container.all_key_values[other.key_name]
        if first.binding == other.binding or not (first.binding and other.binding):
            message = f"{first} and {other} are two spellings of one key: keep one"
            raise container.deny(Reason.SPELLINGS_DIFFER, message, other)
    source = container.vendor
    if container.other_spellings and target is source and any(variable.rows for variable in source.variables.values()):
        return Unchanged(container, "several names in one container, which only its plugin can tell apart")
    listed = ", ".join(str(entry) for entry in (*container.all_key_values.values(), *container.other_spellings))
    message = f"{listed}: the keys of one container must name the same model or chip"
    raise container.deny(Reason.SPELLINGS_DIFFER, message)


def perhaps_counted(container: ContainerRequest, target: Vendor) -> str | None:
    """Return an unknown name that may be the device count, if no known key is."""
    if not container.keys.perhaps:
        return None
    keys = [container.vendor.keys[name] for name in container.vendor.by_dimension["devices"]]
    if any(key.name in container.key_values for key in keys):
        return None
    for name in container.keys.perhaps:
        key = next((key for key in keys if key.other_names is not None and key.other_names.fullmatch(name)), None)
        if key is not None and target is not container.vendor:
            message = f"{name} may be this cluster's name for the device count: add it to the names of the key"
            how = f"{key.name!r} with `extends: {container.vendor.name}`, or write {key.spellings[0].text}"
            raise container.deny(Reason.DIMENSION_MISSING, f"{message} {how}")
        if key is not None:
            return name
    return None


def keep_keys(container: ContainerRequest, reading: Reading, overrides: Overrides, policy: Policy) -> Settled:
    """Return a request in its own keys."""
    settled = Settled(
        container, container.vendor, reading.spelled or reading.request, reading.form.name, reading.filled, reading
    )
    settled.findings.extend([*reading.findings, *limit_not_kept(reading.form, container)])
    if container.keys.claimed is not None:
        settled.claim.update(container.key_values)
    for key_name, number in reading.corrections.items():
        _write_key(settled, reading.form.keys[key_name], number)
    for name, promoted in container.promoted.items():
        settled.resources.setdefault(name, promoted)
    for key_name, entry in reading.added.items():
        _fill_in(settled, reading.form.keys[key_name], entry.number, overrides, policy)
    return settled


def _fill_in(settled: Settled, key: Key, number: Number, overrides: Overrides, policy: Policy) -> None:
    """Write a key for a default, and warn about it."""
    name = _write_key(settled, key, number)
    for dimension in key.dimensions:
        default = settled.filled.get(dimension)
        if default is None or settled.chosen_whole(overrides):
            continue
        amount = getattr(settled.request, dimension)
        message = default_text(dimension, default)
        step: Step | None = None
        if amount != default.value and not isinstance(default.value, int):
            message = f"{message}, rounded up to {amount}"
            step = step_between(dimension, default.value, amount)
        message = f"{message}{_remedies(settled, settled.reading.form, dimension, overrides, policy)}"
        settled.findings.append(
            Finding(Reason.DEFAULT_FILLED, message, settled.requested.name, name, exact_text(number), step)
        )


def _spelled(container: ContainerRequest, key: Key) -> str:
    """Return the name of a key as the container has it, or with the variables of its other keys."""
    present = container.all_key_values.get(key.name)
    if present is not None:
        return present.key
    return key.spelled({"container": container.name, **bound_in(container.all_key_values)})


def _write_key(settled: Settled, key: Key, number: Number) -> str:
    """Write a key in the spelling that the container uses; return its name."""
    container = settled.requested
    name = _spelled(container, key)
    if "{" in name:
        raise container.deny(
            Reason.UNSUPPORTED_BY_VENDOR, f"{name} is required, and the other keys do not determine it: write it"
        )
    if key.place == "resource":
        settled.resources[name] = number
    else:
        settled.keys.append((key, name, exact_text(number)))
    return name


def _with(request: Request, dimension: Dimension, amount: Memory) -> Request:
    if dimension == "memory":
        return replace(request, memory=amount)
    return request if isinstance(amount, Size) else replace(request, cores=amount)


def settle(
    container: ContainerRequest, overrides: Overrides, policy: Policy, without: Collection[Dimension] = ()
) -> Settled | Unchanged:
    """Settle the request of one container, or leave it unchanged."""
    target, other_family = target_of(container.vendor, overrides, policy)
    target = target if target.claim is None else _of_partitions(container, target, policy)
    unchanged = _unchanged(container, target, overrides, policy)
    if unchanged is not None:
        return unchanged
    namespace = {} if container.keys.claimed is not None else overrides.defaults
    if without:
        namespace = {dimension: default for dimension, default in namespace.items() if dimension not in without}
    settler = _Settler(container, target, overrides, policy)
    try:
        settled = settler.settle(namespace) if target is container.vendor else settler.settle_away(namespace)
    except LeftAlone as left:
        unchanged = Unchanged(container, left.finding.message, placed=left.finding.reason is not Reason.SIZE_UNKNOWN)
        return _with_count(unchanged, policy)
    before = (*container.findings, *overrides.findings)
    if other_family is not None:
        before = (*before, replace(other_family, container=container.name))
    if before:
        settled.findings[:0] = before
    return settled


def _with_count(unchanged: Unchanged, policy: Policy) -> Unchanged:
    """Report a count that no node can have, of a container that stays as it is."""
    container = unchanged.requested
    keys, entries = container.vendor.keys, container.key_values.values()
    count = next((entry.number for entry in entries if keys[entry.key_name].dimensions == ("devices",)), 0)
    found = report_devices(container, container.vendor, int(count), policy)
    return unchanged if found is None or unchanged.finding is not None else replace(unchanged, finding=found)


def _unchanged(container: ContainerRequest, target: Vendor, overrides: Overrides, policy: Policy) -> Unchanged | None:
    """A container that is left unchanged whatever it requests; None for others."""
    source, copy = container.vendor, container.copy
    served = target is not source or is_served(container, overrides, policy)
    if not served and (copy is not None or container.other_spellings):
        raise unserved(container, policy)
    if copy is not None and copy.vendor.name in source.document.allowed_with:
        return Unchanged(container, source.document.allowed_with[copy.vendor.name], placed=True)
    if container.other_spellings or several_bindings(container):
        if moved_by_settings(container, target, overrides, policy) and isolates_part(container, policy):
            raise isolation_denied(container, target, policy)
        return left_several(container, target)
    if target is not source or copy is not None:
        _check_copies(container, target, policy)
    if overrides.bare.whole and container.plain:
        unchanged = _whole_devices(container, target, overrides, policy)
        if unchanged is not None:
            return _with_count(unchanged, policy)
    return None if served else _with_count(_left_unserved(container, overrides, policy), policy)


def _left_unserved(container: ContainerRequest, overrides: Overrides, policy: Policy) -> Unchanged:
    """Leave what another system of the cluster may serve: a form with `leave`, whole devices by a count alone."""
    try:
        settled = _Settler(container, container.vendor, overrides, policy).settle({})
    except LeftAlone as left:
        if left.finding.reason is not Reason.SIZE_UNKNOWN:
            return Unchanged(container, left.finding.message, placed=True)
    except Denied:
        pass
    else:
        keys = container.vendor.keys
        counted = all(not {"memory", "cores"} & {*keys[name].dimensions} for name in container.key_values)
        if not settled.filled and (container.plain or (counted and settled.request.whole)):
            why = f"devices that a plain device plugin may serve: neither `target` nor `served` names {container.vendor.name}"
            return Unchanged(container, why, share=_is_share(container, policy))
    raise unserved(container, policy)


def _of_partitions(container: ContainerRequest, target: Vendor, policy: Policy) -> Vendor:
    """The vendor of a target's partitions if the container's keys name one; else the target."""
    partitions = None if target.claim is None else policy.vendors.get(target.claim.partitions or "")
    return target if partitions is None or not named_row(container, partitions) else partitions


def named_row(container: ContainerRequest, target: Vendor) -> Binding:
    """The value of a variable in the container's keys that has a row in a target with claims; of another target nothing."""
    if target.claim is None:
        return ()
    variables = container.vendor.variables.values()
    bound = [pair for entry in container.key_values.values() for pair in entry.binding]
    bound += [(variable.name, name) for variable in variables if variable.everywhere for name in variable.write]
    return tuple(
        pair for pair in bound[:1] if pair[0] in target.variables and pair[1] in target.variables[pair[0]].rows
    )


def _is_share(container: ContainerRequest, policy: Policy) -> bool:
    """Whether what a plain device plugin serves is less than whole devices, such as one core; also if it cannot be read."""
    keys = container.vendor.keys
    if all(keys[entry.key_name].dimensions == ("devices",) for entry in container.key_values.values()):
        return False
    try:
        reading = read(container.vendor, container.key_values, {}, policy.largest_card, container.name)
    except (Denied, LeftAlone):
        return True
    return not reading.request.whole


def _whole_devices(
    container: ContainerRequest, target: Vendor, overrides: Overrides, policy: Policy
) -> Unchanged | None:
    """Whole devices that stay as they are sent: no one serves their vendor, or a kept scheduler may know no other name."""
    source = container.vendor
    if override_source(source, overrides, policy) == "itself":
        why = f"whole devices of a plain device plugin, as neither `target` nor `served` names {source.name}"
        return Unchanged(container, why, share=_is_share(container, policy))
    kept = _kept_elsewhere(container, target, overrides)
    if kept is None:
        return None
    try:
        settled = _Settler(container, target, overrides, policy).settle({})
        if not (settled.translated or settled.resources or settled.keys or settled.claim):
            return None  # The target's keys are these.
    except (Denied, LeftAlone):
        pass
    return Unchanged(container, kept.message, finding=kept, share=_is_share(container, policy))


def _kept_elsewhere(container: ContainerRequest, target: Vendor, overrides: Overrides) -> Finding | None:
    """The warning that whole devices stay as they are sent, for a scheduler that the user chose and that stays.

    That one may know the device plugin's own name only: what is written for the target's would keep the pod Pending.
    """
    place, source, scheduler = target.place, container.vendor.place, overrides.scheduler
    known = {DEFAULT_SCHEDULER, place.scheduler, *place.schedulers, source.scheduler, *source.schedulers}
    if not scheduler or scheduler in known or place.scheduler is None or place.conflict != "keep":
        return None
    if overrides.pod_target is not None or not container.vendor.same_family(target):
        return None
    keys = ", ".join(str(entry) for entry in container.key_values.values())
    message = f"schedulerName {scheduler} was kept, so {keys} stays as it is; {target.system} needs {place.scheduler}"
    return Finding(Reason.SCHEDULER_KEPT, message, container.name, "spec.schedulerName", scheduler)


def _check_copies(container: ContainerRequest, target: Vendor, policy: Policy) -> None:
    """Check that a copy means the same, and that a translated container has no maximum beyond its guarantee."""
    source, copy = container.vendor, container.copy
    if copy is not None:
        request, copied = (
            read(each.vendor, each.key_values, {}, policy.largest_card, container.name).request
            for each in (container, copy)
        )
        if request != copied:
            listed = " and ".join(
                ", ".join(str(entry) for entry in each.key_values.values()) for each in (container, copy)
            )
            message = f"{listed}: the keys of {copy.vendor.name} copy those of {source.name}, but mean {copied}"
            raise container.deny(Reason.TWO_VENDORS, f"{message} instead of {request}: request the same in both")
    if target is source:
        return
    for each in (container, copy):
        if each is None:
            continue
        for low, high in (*each.unequal_twins, *ceilings(each)):
            form = form_of(each.vendor, each.key_values)
            if form is not None and form.leave is not None:
                break  # it is not translated
            key = each.vendor.keys[high.key_name]
            if key.twin is not None and key.twin.render({**dict(high.binding), "container": each.name}) == high.key:
                message = f"the request {high} exceeds the limit {low}"
            else:
                message = f"{low} is the guarantee and {high} the maximum, and a translation carries one amount"
            remedy = f"leave {high.key} out" if key.twin is None else "write the same value to both"
            out: Instead = (((high.key, None),),) if key.twin is None else ()
            raise container.deny(Reason.TWINS_DIFFER, f"{message}: {remedy}", high, out)


def ceilings(container: ContainerRequest) -> Iterator[tuple[KeyValue, KeyValue]]:
    """Yield each requested key with the key that allows another amount than requested."""
    for entry in container.key_values.values():
        ceiling = container.vendor.keys[entry.key_name].ceiling
        if ceiling is not None and ceiling.of in container.key_values:
            requested = container.key_values[ceiling.of]
            if entry.number != requested.number * ceiling.per:
                yield requested, entry


def expressible(vendor: Vendor, key_values: KeyValues, overrides: Overrides, policy: Policy) -> bool:
    """Return whether the target of a pod can express what a container would request in these keys."""
    try:
        target, _ = target_of(vendor, overrides, policy)
        reading = read(vendor, key_values, {}, policy.largest_card, "", home=target is vendor)
        if target is vendor:
            return True
        defaults = defaults_for(target, target, overrides.defaults)[0]
        return _read_alike(target, write(target, reading.request, defaults, policy.largest_card, ""), policy)
    except (Denied, NoEquivalent):
        return False


def _read_alike(target: Vendor, written: Written, policy: Policy) -> bool:
    """Whether the active owners of an inactive target's names read what is written in them as it does."""
    if not target.inactive:
        return True
    read_by: dict[str, dict[str, KeyValue]] = {}
    for entry in written.keys.values():
        for owner in policy.resources.owners(entry.key):
            key_values = read_by.setdefault(owner.vendor, {})
            key_values[owner.key_name] = KeyValue(owner.key_name, entry.key, entry.text, entry.number, owner.binding)
    requests = [
        read(vendor, key_values, vendor.defaults, policy.largest_card, "").request
        for name, key_values in read_by.items()
        for vendor in [policy.vendors[name]]
    ]
    return requests == [written.reading.request]


class _Settler:
    """Settles one container with as many of the namespace's defaults as possible, in its own keys or in the target's."""

    __slots__ = ("_container", "_overrides", "_policy", "_target")

    def __init__(self, container: ContainerRequest, target: Vendor, overrides: Overrides, policy: Policy) -> None:
        self._container = container
        self._target = target
        self._overrides = overrides
        self._policy = policy

    def settle(self, namespace: Mapping[Dimension, Default | None]) -> Settled:
        """Settle with as many of the namespace's defaults as can be written without changing what is specified."""
        if not namespace:
            return self._settle_with(namespace)
        denial: Denied | None = None
        why = ""
        for applied in fewer(namespace):
            try:
                settled = self._settle_with(applied)
            except Denied as error:
                denial = error
                why = why or error.finding.message
                continue
            changed = self._changed(settled) if applied else None
            if changed is not None:
                why = why or changed
                continue
            for dimension, default in namespace.items():
                if dimension not in applied:
                    self._report_not_applied(settled, dimension, default, why)
            return settled
        assert denial is not None  # noqa: S101  (without the namespace's defaults nothing is changed by them)
        raise denial

    def settle_away(self, namespace: Mapping[Dimension, Default | None]) -> Settled:
        """Settle likewise in another vendor's keys; what the hardware isolates only by order."""
        container, target, policy = self._container, self._target, self._policy
        by_settings = moved_by_settings(container, target, self._overrides, policy)
        try:
            settled = self.settle(namespace)
        except LeftAlone:
            raise
        except Denied:
            if by_settings and isolates_part(container, policy) and not isolates(target):
                raise isolation_denied(container, target, policy) from None
            raise
        if loses_isolation(settled.reading, target, settled.form):
            if by_settings:
                raise isolation_denied(container, target, policy, by_order=True)
            settled.findings.append(isolation_lost(container, target))
        return settled

    def _settle_with(self, namespace: Mapping[Dimension, Default | None]) -> Settled:
        container, source, target = self._container, self._container.vendor, self._target
        defaults, without_key = defaults_for(source, target, namespace)
        home = target is source
        not_whole: dict[Dimension, Default] = {}
        if self._overrides.bare.whole and container.bare:
            defaults, not_whole = defaults_of_whole(defaults, self._overrides.bare, source, home=home)
        counted = perhaps_counted(container, target)
        default_count = defaults.pop("devices", None) if counted is not None else None
        reading = read(source, container.key_values, defaults, self._policy.largest_card, container.name, home=home)
        settled = keep_keys(container, reading, self._overrides, self._policy) if home else self._translate(reading)
        self._report_small(settled)
        request = reading.request
        found = (
            report_devices(container, target, request.devices or 1, self._policy),
            report_memory(container, target, reading, self._policy) if isinstance(request.memory, Size) else None,
            report_zero(container, request) if container.zero else None,
        )
        settled.findings.extend(finding for finding in found if finding is not None)
        for dimension in reading.passed_over:
            specified = ", ".join(str(entry) for entry in container.key_values.values())
            why = f"no key for it can be added to {specified}"
            self._report_not_applied(settled, dimension, defaults[dimension], why)
        if default_count is not None:
            self._report_not_applied(settled, "devices", default_count, f"{counted} may already be the count")
        for dimension, default in without_key.items():
            self._report_not_applied(settled, dimension, default, f"{target.name} has no key for it")
        for dimension, default in not_whole.items():
            self._report_not_applied(settled, dimension, default, "a count alone requests whole devices here")
        return settled

    def _report_small(self, settled: Settled) -> None:
        """Report a size that hardly anything can run in: its number was probably meant in another unit."""
        reading, memory = settled.reading, settled.reading.request.memory
        if "memory" not in reading.specified or not isinstance(memory, Size):
            return
        if memory.bytes >= self._policy.smallest_memory:
            return
        container = self._container
        for name in container.vendor.by_dimension["memory"]:
            entry, unit = container.key_values.get(name), reading.form.keys[name].unit
            if entry is not None and unit is not None:
                meant, number = entry.number * GIB, number_text(entry.number)
                advice = f"the key counts {counted_in(unit)}"
                if meant <= self._policy.largest_card:
                    advice = f"write {exact_text(ceil_to(Fraction(meant) / unit, 1))} for {number} GiB"
                message = f"{entry} is only {bytes_text(memory.bytes)} per device: {advice}"
                settled.findings.append(Finding(Reason.SIZE_TOO_SMALL, message, container.name, entry.key, entry.text))
                return

    def _report_not_applied(self, settled: Settled, dimension: Dimension, default: Default | None, why: str) -> None:
        named = default.named(dimension) if default is not None else f"the namespace's default-{dimension}: 0"
        message = f"{named} was not applied: {why}"
        field = f"{labels.DEFAULT_PREFIX}{dimension}"
        settled.findings.insert(0, Finding(Reason.DEFAULT_NOT_APPLIED, message, self._container.name, field))

    def _changed(self, settled: Settled) -> str | None:
        """Return how the namespace's defaults change a specified dimension, by rounding up in the target's keys."""
        reading = settled.reading
        rounded = [
            dimension
            for dimension in reading.specified
            if getattr(settled.request, dimension) != getattr(reading.request, dimension)
        ]
        if not rounded:
            return None
        overrides = replace(self._overrides, defaults={})
        try:
            alone = _Settler(self._container, self._target, overrides, self._policy).settle({}).request
        except Denied:
            return None
        for dimension in rounded:
            without, filled = getattr(alone, dimension), getattr(settled.request, dimension)
            if without != filled:
                return f"{dimension} would become {filled} instead of {without}"
        return None

    def _translate(self, reading: Reading) -> Settled:
        """Return the request of a reading in the target's keys, without the keys of the source."""
        container, target = self._container, self._target
        findings = list(reading.findings)
        request, written = self._write(reading, findings)
        settled = Settled(
            container,
            target,
            written.reading.request,
            written.form.name,
            reading.filled,
            reading,
            findings=findings,
            read_back=written.reading,
            translated=True,
        )
        self._report_defaults(settled, written)
        self._report_rounding(settled, request)
        self._remove_source(settled)
        self._add_target(settled, written)
        findings.extend(limit_not_kept(written.form, container))
        return settled

    def _write(self, reading: Reading, findings: list[Finding]) -> tuple[Request, Written]:
        """Write the request of a reading, if need be without dimensions that the mapping permits to drop.

        Returns:
            The request as it is written, before rounding, and its keys.

        Raises:
            LeftAlone: the target cannot express whole devices that a plain device plugin serves.
            Denied: the target cannot express it.
        """
        container, target, request = self._container, self._target, reading.request
        # The active owners of an inactive target's keys read them again: only the second pass knows their defaults.
        # A claim is never filled in.
        unfilled = target.inactive or target.claim is not None
        defaults = {} if unfilled else defaults_for(target, target, self._overrides.defaults)[0]
        if self._overrides.bare.whole and container.bare:  # then what is written is a count alone, or all of the memory
            defaults.pop("memory", None)
            defaults.pop("cores", None)
        requested_memory = request.memory
        try:
            return self._write_whole(request, defaults, findings)
        except NoEquivalent as error:
            failure = error
        if self._stays_plain(reading):
            keys = ", ".join(str(entry) for entry in container.key_values.values())
            message = f"{keys} requests whole devices, which {target.name} cannot express: left to the device plugin"
            raise LeftAlone(Finding(Reason.NO_EQUIVALENT, message, container.name))
        for dimension in target.document.drop:
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
        remedies = [self._plain(reading.request)]
        instead: Instead = ()
        if remedies == [None]:
            other, instead = self._other_keys(reading, defaults)
            remedies = [other, self._remedy(requested_memory), self._default_to_set(reading, defaults)]
        # Why it cannot is said only where nothing can be written instead.
        remedy = "; ".join([each for each in remedies if each is not None])
        rest = (
            f": {remedy}" if remedy else f" ({request}): {'; '.join(failure.reasons[:2]) or 'none of its forms fits'}"
        )
        message = f"{target.name} cannot express {requested}{rest}"
        if moved_by_settings(container, target, self._overrides, self._policy):
            message = f"{message}; {serving(container.vendor, self._policy)}"
        raise container.deny(Reason.NO_EQUIVALENT, message, instead=instead)

    def _other_keys(self, reading: Reading, defaults: Defaults) -> tuple[str | None, Instead]:
        """The key of memory or cores to leave out, replace or add, for the target to express the request; None if none is."""
        container, vendor = self._container, self._container.vendor
        amounts: Mapping[Dimension, Memory] = {"cores": Percent(50), "memory": Size(8 * GIB)}
        for dimension, amount in amounts.items():
            present = [
                container.key_values[name] for name in vendor.by_dimension[dimension] if name in container.key_values
            ]
            others = [
                (_spelled(container, vendor.keys[entry.key_name]), entry)
                for entry in keys_for(vendor, vendor.keys, dimension, Default(amount, "mapping"), 1)
                if entry.key_name not in container.key_values
            ]
            for entry in present:
                if len(vendor.keys[entry.key_name].dimensions) > 1:
                    continue
                rest = {name: other for name, other in container.key_values.items() if other is not entry}
                own = any(vendor.keys[name].place != "borrowed" for name in rest)  # else it requests in others' keys
                if own and self._expresses(rest, reading, defaults):
                    key = vendor.keys[entry.key_name]
                    names = self._with_twin(key, entry) if key.twin is not None else [entry.key]
                    twins = [name for name in names if name == entry.key or name in self._overrides.annotations]
                    return f"leave {' and '.join(twins)} out", (tuple((name, None) for name in twins),)
                for name, other in others:
                    if self._expresses({**rest, other.key_name: other}, reading, defaults):
                        return f"write {name} instead of {entry.key}", ()
            if present:
                continue
            for name, other in others:
                if self._expresses({**container.key_values, other.key_name: other}, reading, defaults):
                    return f"add {name}", ()
        return None, ()

    def _default_to_set(self, reading: Reading, defaults: Defaults) -> str | None:
        """The default of memory without which the target cannot express a source that has no sizes; None if others have."""
        source = self._container.vendor
        if reading.request.memory is not UNLIMITED or source.by_dimension["memory"]:
            return None
        size = Size(8 * GIB)
        try:
            self._write_whole(_with(reading.request, "memory", size), defaults, [])
        except NoEquivalent:
            return None
        setting = f"`defaults: {{memory: 8Gi}}` with `extends: {source.name}`"
        return f"set {setting}, or annotate the namespace {labels.DEFAULT_PREFIX}memory: 8Gi"

    def _expresses(self, key_values: KeyValues, before: Reading, defaults: Defaults) -> bool:
        """Whether the target can express what other keys of the source request, with no more defaults than `before`."""
        container, target = self._container, self._target
        own = defaults_for(container.vendor, target, self._overrides.defaults)[0]
        try:
            reading = read(container.vendor, key_values, own, self._policy.largest_card, container.name)
            _, written = self._write_whole(reading.request, defaults, [])
            return reading.filled.keys() <= before.filled.keys() and _read_alike(target, written, self._policy)
        except (Denied, NoEquivalent):
            return False

    def _stays_plain(self, reading: Reading) -> bool:
        """Whether it is whole devices that a plain device plugin serves as well, by choice, and no order of the pod's own."""
        chosen = self._overrides.bare.whole or "memory" in reading.specified
        own = self._overrides.pod_target is not None or not self._container.vendor.same_family(self._target)
        return chosen and not own and reading.request.whole and self._container.plain

    def _write_whole(self, request: Request, defaults: Defaults, findings: list[Finding]) -> tuple[Request, Written]:
        """Write a request with all its dimensions, or else with memory in the other unit if the pod selects its device.

        Raises:
            NoEquivalent: no form of the target can express it.
        """
        target, largest, name = self._target, self._policy.largest_card, self._container.name
        named = named_row(self._container, target)
        try:
            return request, write(target, request, defaults, largest, name, named=named)
        except NoEquivalent as error:
            failure = error
        device = device_for(target, self._overrides.selected, self._policy)
        if device is None or device.memory is None:
            raise failure
        converted = for_device_size(request, device.memory)
        if converted is None:
            excess = too_large(request.memory, device)
            raise failure if excess is None else NoEquivalent(excess, *failure.reasons)
        try:
            written = write(target, converted, defaults, largest, name)
        except NoEquivalent as error:
            raise NoEquivalent(*error.reasons, *failure.reasons) from None
        message = (
            f"memory {request.memory} per device was written as {converted.memory}: "
            f"{device.names} ({device.place} {device.label}) has {bytes_text(device.memory)} by the setting `cards`"
        )
        step = step_between("memory", request.memory, converted.memory)
        findings.append(Finding(Reason.DEVICE_MEMORY_ASSUMED, message, name, device.label, device.names, step))
        return converted, written

    def _plain(self, request: Request) -> str | None:
        """The count that requests these whole devices of a plain device plugin; None if it does not, or would be denied."""
        if not (self._overrides.bare.whole and request.whole and self._overrides.pod_target is None):
            return None
        vendors = [each for each in self._policy.in_force if each.family == self._target.family]
        names = [name for vendor in vendors for key in vendor.keys.values() for name in key.plain if not name.variables]
        return f"write {names[0].text}: {request.devices} alone for whole devices" if names else None

    def _remedy(self, memory: Memory | None) -> str | None:
        """What to configure for the target to express this memory; None if the device is known."""
        selected = self._overrides.selected
        if device_for(self._target, selected, self._policy) is not None:
            return None
        return missing_device(self._target, memory, selected, self._policy)

    def _report_defaults(self, settled: Settled, written: Written) -> None:
        for dimension, default in settled.filled.items():
            if settled.chosen_whole(self._overrides):
                continue
            keys = [
                f"{entry}"
                for key_name, entry in written.keys.items()
                if dimension in self._target.keys[key_name].dimensions
            ]
            message = default_text(dimension, default)
            if keys:
                message = f"{message}, written as {', '.join(keys)}"
            message = f"{message}{_remedies(settled, settled.reading.form, dimension, self._overrides, self._policy)}"
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
            if key.place in {"resource", "borrowed"}:
                settled.resources[entry.key] = None
            elif key.place == "annotation":
                settled.dropped.append(entry.key)
                if key.twin is not None:
                    settled.dropped.extend(self._with_twin(key, entry))
            if self._is_lost(key):
                means = "selects no devices of" if key.written == "items" else "has no meaning for"
                message = f"{entry} {means} {self._target.name} and was removed"
                settled.findings.append(
                    Finding(Reason.KEY_NOT_CARRIED, message, self._container.name, entry.key, entry.text)
                )

    def _is_lost(self, key: Key) -> bool:
        """Whether a key of the source says something that is not part of a request: a text too, unless a form reads by it."""
        if key.place == "nodeSelector" or key.ceiling is not None:
            return False
        if key.kind != "text" or key.place != "annotation" or key.row_of is not None:
            return key.kind == "other" or key.written == "items"
        return not any(
            key.name in when.keys for form in self._container.vendor.forms if form.reads for when in form.when
        )

    def _add_target(self, settled: Settled, written: Written) -> None:
        """Add the keys of the target."""
        target = self._target
        for key_name, entry in written.keys.items():
            key = target.keys[key_name]
            if key.retired is not None:
                message = f"{entry} was written, a retired key: {' '.join(key.retired.split())}"
                settled.findings.append(
                    Finding(Reason.KEY_RETIRED, message, self._container.name, entry.key, entry.text)
                )
            if key.place == "claim":
                settled.claim[key_name] = entry
            elif key.place == "resource":
                if not self._policy.resources.owners(entry.key):
                    message = f"{target.name} is inactive and no active vendor reads {entry.key}: choose another target"
                    raise self._container.deny(Reason.READ_BACK_DIFFERS, message)
                settled.resources[entry.key] = entry.number
            else:
                names = self._with_twin(key, entry) if key.twin is not None else [entry.key]
                settled.keys.extend((key, name, entry.text) for name in names)
        if target.claim is not None:
            settled.claim.update((entry.key_name, entry) for entry in self._selected())

    def _selected(self) -> Iterator[KeyValue]:
        """Yield the attributes of devices that the pod selects by annotations of the source."""
        selects = self._container.vendor.document.selects
        for key in self._target.keys.values():
            if key.selects is None:
                continue
            values: list[str] = []
            for sign, name in (
                ("", getattr(selects, key.selects)),
                ("!", getattr(selects, f"not_{key.selects}")),
            ):
                text = self._overrides.annotations.get(name, "") if name is not None else ""
                listed = [value for part in text.split(",") if (value := part.strip())]
                if len(listed) > MAX_SELECTED or not all(map(_SELECTED.fullmatch, listed)):
                    message = (
                        f"{name}: a claim selects by at most {MAX_SELECTED} names of letters, digits, spaces and ._:/+-"
                    )
                    raise self._container.deny(Reason.NO_EQUIVALENT, f"{message}, with commas between them")
                values += [f"{sign}{value.lower() if key.selects == 'model' else value}" for value in listed]
            if values:
                yield KeyValue(key.name, key.spellings[0].text, ",".join(dict.fromkeys(values)))

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
