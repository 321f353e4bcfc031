"""One container: its keys read, filled in and settled; in its own keys or in those of another vendor."""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from webhook import labels
from webhook.admission.advice import filled_in
from webhook.admission.collect import ContainerRequest
from webhook.admission.likely import hardly_meant, report_devices
from webhook.admission.overrides import (
    DEFAULT_SCHEDULER,
    Overrides,
    defaults_for,
    defaults_of_whole,
    device_for,
    override_source,
    target_of,
)
from webhook.admission.served import (
    check_ordered,
    is_part,
    is_served,
    isolates_part,
    isolation_denied,
    isolation_lost,
    unserved,
)
from webhook.admission.settled import NOT_FILLED, Intent, Settled, Unchanged, named_row, not_applied, spelled_in
from webhook.admission.translate import translated
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Claiming, Default, Vendor
from webhook.mapping.reading import read
from webhook.mapping.values import KeyValue, LeftAlone, Reading, fewer, form_of, step_between
from webhook.quantity import Number, exact_text
from webhook.reasons import Denied, Finding, Reason
from webhook.request import Dimension


def settle(
    container: ContainerRequest, overrides: Overrides, policy: Policy, without: Collection[Dimension] = ()
) -> Settled | Unchanged:
    """Settle the request of one container, or leave it unchanged; `without` the namespace's defaults of some dimensions."""
    source, target = container.vendor, target_of(container.vendor, overrides, policy)
    if target is not source:
        check_ordered(target, override_source(source, overrides, policy), policy)
    target = target if target.claim is None else _of_partitions(container, target, target.claim, policy)
    intent = Intent(container, target, overrides, policy)
    unchanged = _unchanged(intent)
    if unchanged is not None:
        return unchanged
    namespace = {} if container.keys.claimed is not None else overrides.defaults
    namespace = {dimension: default for dimension, default in namespace.items() if dimension not in without}
    try:
        settled = _with_most_defaults(intent, namespace) if intent.home else _away(intent, namespace)
    except LeftAlone as left:
        placed = left.finding.reason is not Reason.SIZE_UNKNOWN
        return _with_count(Unchanged(container, left.finding.message, placed=placed), policy)
    before = [*container.findings, *overrides.findings]
    if target is not source and not source.same_family(target):
        message = f"translated from {source.name} to {target.name}: make sure that the image is built for that hardware"
        before.append(Finding(Reason.OTHER_FAMILY, message, container.name, labels.TARGET, target.name))
    if before:
        settled.findings[:0] = before
    return settled


def _of_partitions(container: ContainerRequest, target: Vendor, claim: Claiming, policy: Policy) -> Vendor:
    """The vendor of a target's partitions if the container's keys name one; else the target."""
    partitions = policy.vendors.get(claim.partitions or "")
    return target if partitions is None or not named_row(container, partitions) else partitions


def _unchanged(intent: Intent) -> Unchanged | None:
    """A container that is left unchanged whatever it requests; None for others."""
    container, source, copy = intent.container, intent.container.vendor, intent.container.copy
    served = not intent.home or is_served(container, intent.policy)
    if not served and (copy is not None or container.other_spellings):
        raise unserved(container, intent.policy)
    if copy is not None and copy.vendor.name in source.allowed_with:
        return Unchanged(container, source.allowed_with[copy.vendor.name], placed=True)
    if _several_bindings(container):
        return _left_several(intent)
    if copy is not None:
        _check_copy(container, copy, intent.policy)
    if not intent.home:
        _check_ceilings(container)
    return _left_to_others(intent, served=served)


def _left_to_others(intent: Intent, *, served: bool) -> Unchanged | None:
    """A container of whole devices, or of what the cluster does not serve, that another system may serve."""
    container, source = intent.container, intent.container.vendor
    if intent.overrides.bare.whole and container.plain:
        if override_source(source, intent.overrides, intent.policy) == "itself":
            why = f"whole devices of a plain device plugin: the settings name no system here for {source.name}"
            return _with_count(Unchanged(container, why, share=_is_share(intent)), intent.policy)
        kept = _kept_elsewhere(intent)
        if kept is not None and not _stays_as_sent(intent):
            return Unchanged(container, kept.message, finding=kept, share=_is_share(intent))
    return None if served else _with_count(_left_unserved(intent), intent.policy)


def _with_count(unchanged: Unchanged, policy: Policy) -> Unchanged:
    """Report a count that no node can have, of a container that stays as it is; under `leave` another system counts."""
    container = unchanged.requested
    form = form_of(container.vendor, container.key_values)
    if form is not None and form.leave is not None:
        return unchanged
    keys, entries = container.vendor.keys, container.key_values.values()
    count = next((entry.number for entry in entries if keys[entry.key_name].dimensions == ("devices",)), 0)
    found = report_devices(container, container.vendor, int(count), policy)
    return unchanged if found is None or unchanged.finding is not None else replace(unchanged, finding=found)


def _several_bindings(container: ContainerRequest) -> bool:
    """Whether its keys name different hardware or sizes, or one has several spellings."""
    keys = container.vendor.keys
    if container.other_spellings or not container.vendor.variables:
        return bool(container.other_spellings)
    bindings = {entry.binding for entry in container.all_key_values.values() if keys[entry.key_name].variables}
    return len(bindings) > 1


def _left_several(intent: Intent) -> Unchanged:
    """Leave several sizes in one container (MIG slices) unchanged; deny other keys with several bindings."""
    container, source = intent.container, intent.container.vendor
    if intent.by_settings and isolates_part(container, intent.policy):
        raise isolation_denied(intent)
    _check_spellings(container)
    if container.other_spellings and intent.home and any(variable.rows for variable in source.variables.values()):
        return Unchanged(container, "several names in one container, which only its plugin can tell apart")
    message = f"{container.every_shown}: the keys of one container must name the same model or chip"
    raise container.deny(Reason.SPELLINGS_DIFFER, message)


def _check_spellings(container: ContainerRequest) -> None:
    """Deny two spellings of one key."""
    for other in container.other_spellings:
        first = container.all_key_values[other.key_name]
        if first.binding == other.binding or not (first.binding and other.binding):
            message = f"{first} and {other} are two spellings of one key: keep one"
            raise container.deny(Reason.SPELLINGS_DIFFER, message, other)


def _check_copy(container: ContainerRequest, copy: ContainerRequest, policy: Policy) -> None:
    """Check that a copy means the same."""
    request, copied = (
        read(each.vendor, each.key_values, NOT_FILLED, policy.largest_card, container.name).request
        for each in (container, copy)
    )
    if request != copied:
        listed = f"{container.shown} and {copy.shown}"
        message = f"{listed}: the keys of {copy.vendor.name} copy those of {container.vendor.name}, but mean {copied}"
        raise container.deny(Reason.TWO_VENDORS, f"{message} instead of {request}: request the same in both")


def _check_ceilings(container: ContainerRequest) -> None:
    """Check that a translated container has no maximum beyond its guarantee."""
    for each in filter(None, (container, container.copy)):
        unequal = [*each.unequal_twins, *_ceilings(each)]
        form = form_of(each.vendor, each.key_values) if unequal else None
        if not unequal or (form is not None and form.leave is not None):
            continue  # it is not translated
        low, high = unequal[0]
        message = f"{low} and {high} differ, and a translation carries one amount"
        if each.vendor.keys[high.key_name].twin is not None:
            raise container.deny(Reason.TWINS_DIFFER, f"{message}: write the same value to both", high)
        raise container.deny(Reason.TWINS_DIFFER, f"{message}: leave {high.key} out", high, (((high.key, None),),))


def _ceilings(container: ContainerRequest) -> Iterator[tuple[KeyValue, KeyValue]]:
    """Each requested key with the key that allows another amount than requested."""
    for entry in container.key_values.values():
        ceiling = container.vendor.keys[entry.key_name].ceiling
        if ceiling is not None and ceiling.of in container.key_values:
            requested = container.key_values[ceiling.of]
            if entry.number != requested.number * ceiling.per:
                yield requested, entry


def _kept_elsewhere(intent: Intent) -> Finding | None:
    """The warning that whole devices stay as they are sent, for a scheduler that the user chose and that stays.

    That one may know the device plugin's own name only: what is written for the target's would keep the pod Pending.
    """
    container, target, scheduler = intent.container, intent.target, intent.overrides.scheduler
    place, source = target.place, container.vendor.place
    known = {DEFAULT_SCHEDULER, place.scheduler, *place.schedulers, source.scheduler, *source.schedulers}
    if not scheduler or scheduler in known or place.scheduler is None or place.conflict != "keep":
        return None
    if intent.chosen:
        return None
    needs = f"{target.system} needs {place.scheduler}"
    message = f"schedulerName {scheduler} was kept, so {container.shown} stays as it is; {needs}"
    return Finding(Reason.SCHEDULER_KEPT, message, container.name, "spec.schedulerName", scheduler)


def _stays_as_sent(intent: Intent) -> bool:
    """Whether the target's keys are those that the container has."""
    try:
        settled = _settled(intent, NOT_FILLED)
    except Denied:
        return False
    return not (settled.translated or settled.resources or settled.keys or settled.claim)


def _is_share(intent: Intent) -> bool:
    """Whether what a plain device plugin serves is less than whole devices, such as one core."""
    container, keys = intent.container, intent.container.vendor.keys
    counted = all(keys[name].dimensions == ("devices",) for name in container.key_values)
    return not counted and is_part(container, intent.policy)


def _left_unserved(intent: Intent) -> Unchanged:
    """Leave what another system of the cluster may serve: a form with `leave`, whole devices by a count alone."""
    container, source = intent.container, intent.container.vendor
    try:
        settled = _settled(intent, NOT_FILLED)
    except Denied as denial:
        if isinstance(denial, LeftAlone) and denial.finding.reason is not Reason.SIZE_UNKNOWN:
            return Unchanged(container, denial.finding.message, placed=True)
        raise unserved(container, intent.policy) from None
    counted = all({"memory", "cores"}.isdisjoint(source.keys[name].dimensions) for name in container.key_values)
    if settled.reading.filled or not (container.plain or (counted and settled.request.whole)):
        raise unserved(container, intent.policy)
    why = f"devices that a plain device plugin may serve: the settings name no system here for {source.name}"
    return Unchanged(container, why, share=_is_share(intent))


_Namespace: TypeAlias = Mapping[Dimension, Default | None]
"""The namespace's default of each dimension for which it sets one; None for no default."""


def _away(intent: Intent, namespace: _Namespace) -> Settled:
    """Settle likewise in another vendor's keys; what the hardware isolates only by order."""
    try:
        settled = _with_most_defaults(intent, namespace)
    except Denied as denial:
        if not isinstance(denial, LeftAlone) and _isolated_away(intent):
            raise isolation_denied(intent) from None
        raise
    reading = settled.reading
    if reading.form.isolated and not (reading.request.whole or settled.form.isolated):
        if intent.by_settings:
            raise isolation_denied(intent, by_order=True)
        settled.findings.append(isolation_lost(intent.container, intent.target))
    return settled


def _isolated_away(intent: Intent) -> bool:
    """Whether the settings alone move a part that the hardware isolates to a vendor that isolates none."""
    return (
        intent.by_settings
        and isolates_part(intent.container, intent.policy)
        and not any(form.isolated for form in intent.target.forms)
    )


def _with_most_defaults(intent: Intent, namespace: _Namespace) -> Settled:
    """Settle with as many of the namespace's defaults as can be written without changing what is specified."""
    if not namespace:
        return _settled(intent, namespace)
    denial: Denied | None = None
    why = ""
    for applied in fewer(namespace):
        try:
            settled = _settled(intent, applied)
        except Denied as error:
            denial = error
            why = why or error.finding.message
            continue
        changed = _changed(intent, settled) if applied else None
        if changed is None:
            for dimension in [dimension for dimension in namespace if dimension not in applied]:
                settled.findings.insert(0, not_applied(intent.container, dimension, namespace[dimension], why))
            return settled
        why = why or changed
    assert denial is not None  # noqa: S101  (without the namespace's defaults nothing is changed by them)
    raise denial


def _changed(intent: Intent, settled: Settled) -> str | None:
    """Return how the namespace's defaults change a specified dimension, by rounding up in the target's keys."""
    before, after = settled.reading.request, settled.request
    specified = settled.reading.specified
    rounded = [dimension for dimension in specified if getattr(before, dimension) != getattr(after, dimension)]
    if not rounded:
        return None
    alone = Intent(intent.container, intent.target, replace(intent.overrides, defaults={}), intent.policy)
    try:
        request = _settled(alone, NOT_FILLED).request
    except Denied:
        return None
    for dimension in rounded:
        without, filled = getattr(request, dimension), getattr(after, dimension)
        if without != filled:
            return f"{dimension} would become {filled} instead of {without}"
    return None


def _settled(intent: Intent, namespace: _Namespace) -> Settled:
    """Settle with all of these defaults of the namespace that can fill anything."""
    container, source, target, policy = intent.container, intent.container.vendor, intent.target, intent.policy
    defaults = defaults_for(source, target, namespace)
    if intent.whole_by_count:
        defaults = defaults_of_whole(defaults, intent.overrides.bare, source, home=intent.home)
    others = _set_aside(namespace, defaults) if namespace else ()
    counted = _perhaps_counted(container, target)
    default_count = defaults.pop("devices", None) if counted is not None else None
    reading = read(source, container.key_values, defaults, policy.largest_card, container.name, home=intent.home)
    settled = _kept(intent, reading) if intent.home else translated(intent, reading)
    device = device_for(target, intent.overrides.selected, policy)
    settled.findings += hardly_meant(settled, device, intent)
    for dimension in reading.passed_over:
        why = f"no key for it can be added to {container.shown}"
        settled.findings.insert(0, not_applied(container, dimension, defaults[dimension], why))
    if default_count is not None:
        why = f"{counted} may already be the count"
        settled.findings.insert(0, not_applied(container, "devices", default_count, why))
    for dimension in others:
        expressed = dimension in target.expressed
        why = "a count alone requests whole devices here" if expressed else f"{target.name} has no key for it"
        settled.findings.insert(0, not_applied(container, dimension, namespace[dimension], why))
    return settled


def _set_aside(namespace: _Namespace, defaults: Mapping[Dimension, Default]) -> list[Dimension]:
    """The dimensions of which the namespace's default is not among those that may fill anything."""
    return [name for name, default in namespace.items() if default and defaults.get(name) is not default]


def _perhaps_counted(container: ContainerRequest, target: Vendor) -> str | None:
    """An unknown name that may be the device count, if no known key is."""
    keys = container.vendor.keys
    counts = container.vendor.by_dimension["devices"]
    if not container.keys.perhaps or not container.key_values.keys().isdisjoint(counts):
        return None
    patterns = [(keys[name], pattern) for name in counts if (pattern := keys[name].other_names) is not None]
    found = [(key, name) for name in container.keys.perhaps for key, pattern in patterns if pattern.fullmatch(name)]
    if not found:
        return None
    key, counted = found[0]
    if target is not container.vendor:
        message = f"{counted} may be this cluster's name for the device count: add it to the names of the key"
        how = f"{key.name!r} with `extends: {container.vendor.name}`, or write {key.spellings[0].text}"
        raise container.deny(Reason.DIMENSION_MISSING, f"{message} {how}")
    return counted


def _kept(intent: Intent, reading: Reading) -> Settled:
    """A request in its own keys."""
    container = intent.container
    settled = Settled(
        container,
        container.vendor,
        reading.spelled or reading.request,
        reading.form,
        reading,
        findings=[*reading.findings],
    )
    if container.keys.claimed is not None:
        settled.claim.update(container.key_values)
    for key_name, number in reading.corrections.items():
        _write_key(settled, reading.form.keys[key_name], number)
    for name, promoted in container.promoted.items():
        settled.resources.setdefault(name, promoted)
    for key_name, entry in reading.added.items():
        _fill_in(intent, settled, reading.form.keys[key_name], entry.number)
    return settled


def _fill_in(intent: Intent, settled: Settled, key: Key, number: Number) -> None:
    """Write a key for a default, and warn about it."""
    name = _write_key(settled, key, number)
    for dimension in key.dimensions if not intent.whole_by_count else ():
        default = settled.reading.filled.get(dimension)
        if default is None:
            continue
        how, step, value, amount = "", None, default.value, getattr(settled.request, dimension)
        if not isinstance(value, int) and amount != value:
            how, step = f", rounded up to {amount}", step_between(dimension, value, amount)
        finding = filled_in(intent, settled, dimension, how)
        settled.findings.append(replace(finding, field=name, value=exact_text(number), step=step))


def _write_key(settled: Settled, key: Key, number: Number) -> str:
    """Write a key in the spelling that the container uses; return its name."""
    name = spelled_in(settled.requested, key)
    if "{" in name:
        message = f"{name} is required, and the other keys do not determine it: write it"
        raise settled.requested.deny(Reason.UNSUPPORTED_BY_VENDOR, message)
    if key.place == "resource":
        settled.resources[name] = number
    else:
        settled.keys.append((key, name, exact_text(number)))
    return name
