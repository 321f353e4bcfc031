"""One container: its keys read, filled in and settled, in its own keys or in those of another vendor.

Of a translation: what is written, what is removed, and what is lost or rounded.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from webhook import labels
from webhook.admission.advice import filled_in, not_expressed, other_unit, too_large, too_small
from webhook.admission.collect import ContainerRequest
from webhook.admission.intent import (
    DEFAULT_SCHEDULER,
    Intent,
    NamespaceDefaults,
    Overrides,
    check_ordered,
    is_part,
    is_served,
    isolates_part,
    isolation_denied,
    named_row,
    override_source,
    target_of,
    unserved,
)
from webhook.mapping.model.keys import Form, Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.values import KeyValue, LeftAlone, Reading, fewer, form_of, step_between
from webhook.mapping.writing import MAX_SELECTED, NoEquivalent, Written
from webhook.reasons import Denied, Finding, Reason
from webhook.request import ALL, DIMENSIONS, UNLIMITED, Dimension, Memory, Number, Request, Size, exact_text

USUAL_NODE: Final = 16
"""The devices of the largest usual nodes: the cloud machines and servers with the most have 16."""


class Settled(Struct):
    """The settled request of one container."""

    requested: ContainerRequest  # the container and its keys
    target: Vendor  # the vendor that it is written for
    request: Request  # its allocation, as the target's keys express it
    form: Form  # the target's form that the keys take
    reading: Reading  # the meaning of the source's keys, before anything is rounded or dropped for the target
    resources: dict[str, Number | None] = {}  # resource names to write with their number, or None to remove
    claim: dict[str, KeyValue] = {}  # the keys of its claim, of a target that has claims; otherwise empty
    keys: list[tuple[Key, str, str]] = []  # target keys in labels and annotations: (key, name, text)
    dropped: list[str] = []  # annotations of the source that carried the request
    findings: list[Finding] = []  # warnings for the user
    translated: bool = False  # it is written in another vendor's keys


class Unchanged(Struct, frozen=True):
    """A requesting container that is left unchanged: no defaults, no translation, no placement, no shim."""

    requested: ContainerRequest  # the container and its keys
    why: str  # a sentence, for explanations only
    # its keys select their own scheduler, so that the pod cannot be moved to another vendor's scheduler
    placed: bool = False
    finding: Finding | None = None  # the warning for the user, if there is one
    share: bool = False  # it requests less than whole devices, which the guard keeps as it does others' shares


def not_applied(container: ContainerRequest, dimension: Dimension, default: Default | None, why: str) -> Finding:
    """Return the warning that a default was not applied."""
    named = default.named(dimension) if default is not None else f"the namespace's default-{dimension}: 0"
    field = f"{labels.DEFAULT_PREFIX}{dimension}"
    return Finding(Reason.DEFAULT_NOT_APPLIED, f"{named} was not applied: {why}", container.name, field)


def settle(
    container: ContainerRequest, overrides: Overrides, policy: Policy, without: Collection[Dimension] = ()
) -> Settled | Unchanged:
    """Settle the request of one container, or leave it unchanged; `without` the namespace's defaults of some dimensions."""
    source, target = container.vendor, target_of(container.vendor, overrides, policy)
    if target is not source:
        check_ordered(target, override_source(source, overrides, policy), policy)
    partitions = policy.vendors.get(target.claim.partitions or "") if target.claim is not None else None
    if partitions is not None and named_row(container, partitions):
        target = partitions
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
    if intent.overrides.whole and container.plain:
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
    found = _too_many(container, container.vendor, int(count), policy)
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
    if intent.by_settings and isolates_part(intent):
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
    request, copied = (each.read(policy, {}).request for each in (container, copy))
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
    if not scheduler or scheduler in known or place.scheduler is None or place.conflict != "keep" or intent.chosen:
        return None
    needs = f"{target.system} needs {place.scheduler}"
    message = f"schedulerName {scheduler} was kept, so {container.shown} stays as it is; {needs}"
    return Finding(Reason.SCHEDULER_KEPT, message, container.name, "spec.schedulerName", scheduler)


def _stays_as_sent(intent: Intent) -> bool:
    """Whether the target's keys are those that the container has."""
    try:
        settled = _settled(intent, {}, {})
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
        settled = _settled(intent, {}, {})
    except Denied as denial:
        if isinstance(denial, LeftAlone) and denial.finding.reason is not Reason.SIZE_UNKNOWN:
            return Unchanged(container, denial.finding.message, placed=True)
        raise unserved(container, intent.policy) from None
    counted = all({"memory", "cores"}.isdisjoint(source.keys[name].dimensions) for name in container.key_values)
    if settled.reading.filled or not (container.plain or (counted and settled.request.whole)):
        raise unserved(container, intent.policy)
    why = f"devices that a plain device plugin may serve: the settings name no system here for {source.name}"
    return Unchanged(container, why, share=_is_share(intent))


def _away(intent: Intent, namespace: NamespaceDefaults) -> Settled:
    """Settle likewise in another vendor's keys; what the hardware isolates only by order."""
    try:
        settled = _with_most_defaults(intent, namespace)
    except Denied as denial:
        if isinstance(denial, LeftAlone) or not _isolated_away(intent):
            raise
        raise isolation_denied(intent) from None
    reading = settled.reading
    if reading.form.isolated and not (reading.request.whole or settled.form.isolated):
        if intent.by_settings:
            raise isolation_denied(intent, by_order=True)
        shown, share = intent.container.every_shown, f"the share in the keys of {intent.target.name}"
        message = f"{shown} was isolated by hardware; {share} is limited by software only"
        settled.findings.append(Finding(Reason.ISOLATION_LOST, message, intent.container.name))
    return settled


def _isolated_away(intent: Intent) -> bool:
    """Whether the settings alone move a part that the hardware isolates to a vendor that isolates none."""
    isolates = any(form.isolated for form in intent.target.forms)
    return not isolates and intent.by_settings and isolates_part(intent)


def _with_most_defaults(intent: Intent, namespace: NamespaceDefaults) -> Settled:
    """Settle with as many of the namespace's defaults as can be written without changing what is specified."""
    if not namespace:
        return _settled(intent, {}, {})
    denial: Denied | None = None
    why = ""
    for applied in fewer(namespace):
        try:
            left_out = {name: default for name, default in namespace.items() if name not in applied}
            settled = _settled(intent, applied, left_out, why)
        except Denied as error:
            denial = error
            why = why or error.finding.message
            continue
        changed = _changed(intent, settled) if applied else None
        if changed is None:
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
        request = _settled(alone, {}, {}).request
    except Denied:
        return None
    for dimension in rounded:
        without, filled = getattr(request, dimension), getattr(after, dimension)
        if without != filled:
            return f"{dimension} would become {filled} instead of {without}"
    return None


def _settled(intent: Intent, namespace: NamespaceDefaults, left_out: NamespaceDefaults, why: str = "") -> Settled:
    """Settle with all of these defaults of the namespace that can fill anything; why others are left out is reported."""
    container, target = intent.container, intent.target
    defaults = intent.defaults(namespace)
    omitted = dict.fromkeys(left_out, why)
    for dimension, default in namespace.items():
        if default is not None and defaults.get(dimension) is not default:
            expressed = dimension in target.expressed
            why = "a count alone requests whole devices here" if expressed else f"{target.name} has no key for it"
            omitted[dimension] = why
    counted = _perhaps_counted(container, target) if container.keys.perhaps else None
    applied = defaults
    if counted is not None and "devices" in defaults:
        applied = {name: default for name, default in defaults.items() if name != "devices"}
        omitted["devices"] = f"{counted} may already be the count"
    home = intent.home
    reading = container.read(intent.policy, applied, home=home)
    settled = _kept(intent, reading) if home else _translated(intent, reading)
    settled.findings += filter(None, _hardly_meant(settled, intent))
    for dimension in reading.passed_over:
        omitted.setdefault(dimension, f"no key for it can be added to {container.shown}")
    if omitted:
        known, names = {**defaults, **namespace, **left_out}, filter(omitted.get, DIMENSIONS)
        settled.findings[:0] = [not_applied(container, name, known[name], omitted[name]) for name in names]
    return settled


def _hardly_meant(settled: Settled, intent: Intent) -> Iterator[Finding | None]:
    """Yield warnings about hardly any memory, and about more than a device or node has, which settings may deny."""
    container, reading, policy = settled.requested, settled.reading, intent.policy
    request = reading.request
    memory = request.memory
    if isinstance(memory, Size) and memory.bytes < policy.smallest_memory and "memory" in reading.specified:
        yield too_small(reading, intent, memory)
    yield _too_many(container, settled.target, request.devices or 1, policy)
    memory = memory if intent.device is None else settled.request.memory  # as the system of that device counts it
    if isinstance(memory, Size) and memory.bytes > intent.most[0]:
        yield too_large(reading, intent, memory)
    if container.zero and request.memory in {ALL, UNLIMITED}:
        yield _zero_memory(container)


def _too_many(container: ContainerRequest, target: Vendor, devices: int, policy: Policy) -> Finding | None:
    """The warning about a count that no node can have; for parts, which may lie on one device, that each remains its own."""
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
    other = other_unit(container)
    if largest is not None:
        raise container.deny(Reason.TOO_LARGE, f"{message}the largest has {largest}{other}")
    message += f"hardly any has more than {USUAL_NODE}{other}; the setting `largestNode` says how many yours have"
    return Finding(Reason.IMPROBABLE, message, container.name)


def _zero_memory(container: ContainerRequest) -> Finding | None:
    """The warning about memory of 0, which counts as not written, where the container then gets all of it."""
    zeros = (container.zero.get(name) for name in container.vendor.by_dimension["memory"])
    entry = next(filter(None, zeros), None)
    if entry is None:
        return None
    message = f"{entry} counts as not written, so the container gets all memory of its devices: write how much it needs"
    return Finding(Reason.KEY_IGNORED, message, container.name, entry.key, entry.text)


def _perhaps_counted(container: ContainerRequest, target: Vendor) -> str | None:
    """An unknown name that may be the device count, if no known key is."""
    keys = container.vendor.keys
    counts = container.vendor.by_dimension["devices"]
    if not container.key_values.keys().isdisjoint(counts):
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
    settled = Settled(container, container.vendor, reading.spelled or reading.request, reading.form, reading)
    settled.findings += reading.findings
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
        finding = filled_in(intent, settled.reading, dimension, how)
        settled.findings.append(replace(finding, field=name, value=exact_text(number), step=step))


def _write_key(settled: Settled, key: Key, number: Number) -> str:
    """Write a key in the spelling that the container uses; return its name."""
    name = settled.requested.spelled(key)
    if "{" in name:
        message = f"{name} is required, and the other keys do not determine it: write it"
        raise settled.requested.deny(Reason.UNSUPPORTED_BY_VENDOR, message)
    if key.place == "resource":
        settled.resources[name] = number
    else:
        settled.keys.append((key, name, exact_text(number)))
    return name


_SELECTED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}")
"""A model's name, a part of it, or a UUID: an attribute of a device has at most 64 characters."""


def _translated(intent: Intent, reading: Reading) -> Settled:
    """Settle a request in the target's keys, without those of the source; report what is lost or rounded."""
    try:
        request, written, findings = _written_for(intent, reading)
    except NoEquivalent as failure:
        raise not_expressed(intent, reading, str(failure)) from None
    form = written.reading.form
    settled = Settled(intent.container, intent.target, written.reading.request, form, reading, translated=True)
    settled.findings += [*reading.findings, *findings]
    for dimension in reading.filled if not intent.whole_by_count else ():
        own = (str(entry) for name, entry in written.keys.items() if dimension in form.keys[name].dimensions)
        how = f", written as {entries}" if (entries := ", ".join(own)) else ""
        settled.findings.append(filled_in(intent, reading, dimension, how))
    _report_rounding(settled, request)
    _remove_source(settled)
    _add_target(intent, settled, written)
    return settled


def _written_for(intent: Intent, reading: Reading) -> tuple[Request, Written, tuple[Finding, ...]]:
    """The request of a reading as the target's keys, if need be without dimensions that the mapping permits to drop.

    Returns:
        The request as it is written, before rounding; its keys; and warnings.

    Raises:
        LeftAlone: the target cannot express whole devices that a plain device plugin serves.
        NoEquivalent: the target cannot express it.
    """
    container, target, request = intent.container, intent.target, reading.request
    try:
        return intent.written(request)
    except NoEquivalent as error:
        failure = error
    if _stays_plain(intent, reading):
        message = (
            f"{container.shown} requests whole devices, which {target.name} cannot express: left to the device plugin"
        )
        raise LeftAlone(Finding(Reason.NO_EQUIVALENT, message, container.name))
    dropped: list[Finding] = []
    for dimension in target.drop:
        amount = getattr(request, dimension)
        if amount is UNLIMITED:
            continue
        request = replace(request, **{dimension: UNLIMITED})
        message = f"{target.name} cannot limit {dimension}: the request of {amount} was dropped"
        dropped.append(Finding(Reason.DIMENSION_DROPPED, message, container.name))
        try:
            written_request, written, assumed = intent.written(request)
        except NoEquivalent as error:
            failure = error
            continue
        return written_request, written, (*assumed, *dropped)
    raise NoEquivalent(f"({request}): {'; '.join(failure.reasons[:2]) or 'none of its forms fits'}")


def _stays_plain(intent: Intent, reading: Reading) -> bool:
    """Whether it is whole devices that a plain device plugin serves as well, by choice, and no order of the pod's own."""
    meant = intent.overrides.whole or "memory" in reading.specified
    return meant and not intent.chosen and reading.request.whole and intent.container.plain


def _report_rounding(settled: Settled, request: Request) -> None:
    """Report limits and amounts that differ from `request`, because the target can express no others."""
    target = settled.target.name
    for dimension in ("memory", "cores"):
        before: Memory = getattr(request, dimension)
        after: Memory = getattr(settled.request, dimension)
        if before == after:
            continue
        reason = Reason.LIMIT_ADDED if before is UNLIMITED else Reason.ROUNDED
        message = f"{dimension} had no limit; {target} limits it to {after}"
        if before is not UNLIMITED:
            least = f"the least that {target} can express"
            message = f"{dimension} {before} per device was rounded up to {after}, {least}"
        step = step_between(dimension, before, after)
        settled.findings.append(Finding(reason, message, settled.requested.name, step=step))


def _remove_source(settled: Settled) -> None:
    """Remove the keys of the source, and those that copy them; report those that have no meaning for the target."""
    name, target = settled.requested.name, settled.target.name
    for container in filter(None, (settled.requested, settled.requested.copy)):
        for entry in container.all_key_values.values():
            key = container.vendor.keys[entry.key_name]
            if key.place in {"resource", "borrowed"}:
                settled.resources[entry.key] = None
            elif key.place == "annotation":
                settled.dropped += dict.fromkeys([entry.key, *settled.requested.with_twin(key, entry)])
            # Of a ceiling its request says the rest, if it is there.
            alone = key.ceiling is not None and key.ceiling.of not in container.key_values
            if alone or _is_lost(key, container.vendor.forms):
                means = "selects no devices of" if key.written == "items" else "has no meaning for"
                message = f"{entry} {means} {target} and was removed"
                settled.findings.append(Finding(Reason.KEY_NOT_CARRIED, message, name, entry.key, entry.text))


def _is_lost(key: Key, forms: Sequence[Form]) -> bool:
    """Whether a key of the source says something that is not part of a request: a text too, unless a form reads by it."""
    if key.place == "nodeSelector" or key.ceiling is not None:
        return False
    if key.kind != "text" or key.place != "annotation" or key.row_of is not None:
        return key.kind == "other" or key.written == "items"
    return not any(key.name in when.keys for form in forms if form.reads for when in form.when)


def _add_target(intent: Intent, settled: Settled, written: Written) -> None:
    target, container = settled.target, settled.requested
    for entry in written.keys.values():
        key = target.keys[entry.key_name]
        if key.retired is not None:
            message = f"{entry} was written, a retired key: {' '.join(key.retired.split())}"
            settled.findings.append(Finding(Reason.KEY_RETIRED, message, container.name, entry.key, entry.text))
        if key.place == "claim":
            settled.claim[key.name] = entry
        elif key.place != "resource":
            settled.keys += [(key, name, entry.text) for name in container.with_twin(key, entry)]
        elif intent.policy.resources.owners(entry.key):
            settled.resources[entry.key] = entry.number
        else:
            message = f"{target.name} is inactive and no active vendor reads {entry.key}: choose another target"
            raise container.deny(Reason.READ_BACK_DIFFERS, message)
    if target.claim is not None:
        settled.claim.update((entry.key_name, entry) for entry in _selected(intent))


def _selected(intent: Intent) -> Iterator[KeyValue]:
    """Yield the attributes of devices that the pod selects by annotations of the source."""
    selects = intent.container.vendor.selects
    for key in intent.target.keys.values():
        if key.selects is not None:
            signed = (("", getattr(selects, key.selects)), ("!", getattr(selects, f"not_{key.selects}")))
            listed = [f"{sign}{value}" for sign, name in signed if name for value in _listed(intent, name)]
            values = [value.lower() if key.selects == "model" else value for value in listed]
            if values:
                yield KeyValue(key.name, key.spellings[0].text, ",".join(dict.fromkeys(values)))


def _listed(intent: Intent, annotation: str) -> list[str]:
    """The names of devices in an annotation."""
    parts = map(str.strip, intent.overrides.annotations.get(annotation, "").split(","))
    listed = [value for value in parts if value]
    if len(listed) > MAX_SELECTED or not all(map(_SELECTED.fullmatch, listed)):
        message = f"{annotation}: a claim selects by at most {MAX_SELECTED} names of letters, digits, spaces and ._:/+-"
        raise intent.container.deny(Reason.NO_EQUIVALENT, f"{message}, with commas between them")
    return listed
