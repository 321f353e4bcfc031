"""What to write instead: told with a denial, or a warning, once that is certain.

Whatever is advised has been tried: in the whole pod for a denial (`advised`), else whether the target can express it.
Of single numbers tells `mapping.values`.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import Final

from msgspec.structs import replace

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.decision import Plan
from webhook.admission.intent import Intent, Overrides, defaults_for, overrides_of, serving
from webhook.admission.survey import PodKeys, changed
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.reading import oversized, read
from webhook.mapping.values import (
    KeyValue,
    KeyValues,
    NoWholeNumber,
    Numbered,
    Reading,
    form_of,
    keys_for,
    no_whole_number,
    number_for,
    sizes_meant,
)
from webhook.mapping.writing import NoEquivalent, Written, write
from webhook.reasons import Denied, Finding, Instead, Reason
from webhook.request import (
    ALL,
    GIB,
    UNLIMITED,
    Dimension,
    Memory,
    Number,
    Percent,
    Request,
    Size,
    bytes_text,
    ceil_to,
    counted_in,
    exact_text,
    number_text,
)

MAX_FOLLOWED: Final = 2
"""How many of the choices that a denial offers are tried."""

_AMOUNTS: Final[Mapping[Dimension, Memory]] = {"cores": Percent(50), "memory": Size(8 * GIB)}
"""What stands for any amount, where a key for one is tried."""


def filled_in(intent: Intent, reading: Reading, dimension: Dimension, how: str) -> Finding:
    """Return the warning about a default that applies, with what to write instead."""
    default, missing = reading.filled[dimension], "device count" if dimension == "devices" else dimension
    message = f"no {missing} requested: {default.value} by the {default.origin}'s default{how}"
    return Finding(Reason.DEFAULT_FILLED, f"{message}{_remedies(intent, reading, dimension)}", intent.container.name)


def _remedies(intent: Intent, reading: Reading, dimension: Dimension) -> str:
    """What to write instead of a default."""
    container, default = intent.container, reading.filled[dimension]
    keys = (reading.form.keys[name] for name in container.vendor.by_dimension[dimension])
    may_have = (key for key in keys if key.name in reading.added or _may_have(container, key, default))
    size = next((container.spelled(key) for key in may_have), None)
    if dimension == "memory" and container.bare and not intent.overrides.whole:
        return _of_bare_count(intent, reading, size)
    return "" if size is None else f"; set {size} to change it"


def _of_bare_count(intent: Intent, reading: Reading, size: str | None) -> str:
    """What to write instead of a default of memory; what a bare count most probably means, whole devices, comes first."""
    container, keys = intent.container, reading.form.keys
    choices = []
    if intent.home:
        whole = next(keys_for(container.vendor, keys, "memory", Default(ALL, "mapping"), 1), None)
        if whole is not None:
            choices = [f"{container.spelled(keys[whole.key_name])}: {whole.text} for a whole device"]
    choices += [] if size is None else [f"{size} for another size"]
    choices[:1] = [f"set {choice}" for choice in choices[:1]]
    if intent.home or _permits_whole(intent):
        choices.append(f"{'or ' if choices else ''}annotate the namespace {labels.BARE_DEVICES}: whole")
    assumed = " (share is assumed)" if intent.overrides.decided is None else ""
    return f"{assumed}; {', '.join(choices)}" if choices else assumed


def _permits_whole(intent: Intent) -> bool:
    """Whether a count alone would be permitted if it meant whole devices: many targets cannot express them."""
    return (intent.container.plain and not intent.chosen) or _expresses_whole(intent.target, intent.policy)


def or_whole(plan: Plan, vendor: Vendor) -> str:
    """Return the end of a remedy that offers whole devices; empty where the vendor serves none."""
    policy = plan.policy
    plain = _plain_name(vendor, overrides_of(plan.pod, plan.context, policy), policy)
    return ", or request whole devices" if plain is not None or _expresses_whole(vendor, policy) else ""


def _expresses_whole(vendor: Vendor, policy: Policy) -> bool:
    try:
        write(vendor, Request(1, ALL, ALL), {}, policy.most_memory, "")
    except NoEquivalent:
        return False
    return True


def _plain_name(vendor: Vendor, overrides: Overrides, policy: Policy) -> str | None:
    """The name under which a plain device plugin serves a count alone as whole devices of such hardware; None if none does."""
    if not overrides.whole or overrides.pod_target is not None:
        return None
    keys = (key for each in policy.in_force if each.family == vendor.family for key in each.keys.values())
    return next((name.text for key in keys for name in key.plain if not name.variables), None)


def _may_have(container: ContainerRequest, key: Key, default: Default) -> bool:
    """Whether the vendor reads a key beside those of the container, with about the number of a default, if it reads these."""
    vendor, present, number = container.vendor, container.key_values, number_for(key, default.value, 1) or 1
    entry = KeyValue(key.name, container.spelled(key), exact_text(number), number)
    return not _reads(vendor, present) or _reads(vendor, {**present, key.name: entry})


def _reads(vendor: Vendor, key_values: KeyValues) -> bool:
    """Whether keys are a request by themselves."""
    form = form_of(vendor, key_values)
    return form is not None and form.reads


def not_expressed(intent: Intent, reading: Reading, why: str) -> Denied:
    """Return the denial of a request that the target cannot express; why is said only where nothing can be written instead."""
    container, request = intent.container, reading.request
    instead: Instead = ()
    plain = _plain_name(intent.target, intent.overrides, intent.policy)
    whole = f"write {plain}: {request.devices} alone for whole devices" if plain is not None else ""
    if request.whole and whole:
        remedy = whole
    else:
        other, instead = _other_keys(intent, reading)
        remedies = (other, _device(intent, request.memory), _size_to_write(intent, request))
        remedy = "; ".join(filter(None, remedies)) or whole
    message = f"{intent.target.name} cannot express {container.shown}{f': {remedy}' if remedy else f' {why}'}"
    if intent.by_settings:
        message = f"{message}; {serving(container.vendor, intent.policy)}"
    return container.deny(Reason.NO_EQUIVALENT, message, instead=instead)


def _other_keys(intent: Intent, reading: Reading) -> tuple[str | None, Instead]:
    """The key of memory or cores to leave out, replace or add, for the target to express the request; None if none is."""
    container, vendor = intent.container, intent.container.vendor
    for dimension, amount in _AMOUNTS.items():
        names = vendor.by_dimension[dimension]
        present = [container.key_values[name] for name in names if name in container.key_values]
        added = list(keys_for(vendor, vendor.keys, dimension, Default(amount, "mapping"), 1))
        others = [entry for entry in added if entry.key_name not in container.key_values]
        for entry in present:
            if len(vendor.keys[entry.key_name].dimensions) == 1:
                found, instead = _without(intent, reading, entry, others)
                if found is not None:
                    return found, instead
        for other in others if not present else ():
            if _expresses(intent, {**container.key_values, other.key_name: other}, reading):
                return f"add {container.spelled(vendor.keys[other.key_name])}", ()
    return None, ()


def _without(
    intent: Intent, reading: Reading, entry: KeyValue, others: Iterable[KeyValue]
) -> tuple[str | None, Instead]:
    """What to write without one of the keys; None if the target cannot express that either."""
    container, keys = intent.container, intent.container.vendor.keys
    rest = {name: other for name, other in container.key_values.items() if other is not entry}
    own = any(keys[name].place != "borrowed" for name in rest)  # else it requests in others' keys
    if own and _expresses(intent, rest, reading):
        names = container.with_twin(keys[entry.key_name], entry)
        twins = [name for name in names if name == entry.key or name in intent.overrides.annotations]
        return f"leave {' and '.join(twins)} out", (tuple((name, None) for name in twins),)
    for other in others:
        if _expresses(intent, {**rest, other.key_name: other}, reading):
            return f"write {container.spelled(keys[other.key_name])} instead of {entry.key}", ()
    return None, ()


def _expresses(intent: Intent, key_values: KeyValues, before: Reading) -> bool:
    """Whether the target can express what other keys of the source request, with no more defaults than `before`."""
    container, target, policy = intent.container, intent.target, intent.policy
    own = defaults_for(container.vendor, target, intent.overrides.defaults)
    try:
        reading = read(container.vendor, key_values, own, policy.most_memory, container.name)
        _, written, _ = intent.written(reading.request)
        return reading.filled.keys() <= before.filled.keys() and (not target.inactive or _owned(written, policy))
    except (Denied, NoEquivalent):
        return False


def _owned(written: Written, policy: Policy) -> bool:
    """Whether the active owners of an inactive target's names know all of them, and fill in no defaults of their own."""
    keys, entries = written.reading.form.keys, written.keys.values()
    owners = [owner.vendor for entry in entries for owner in policy.resources.owners(entry.key)]
    filled = {dimension for name in owners for dimension in policy.vendors[name].defaults}
    named = {dimension for entry in entries for dimension in keys[entry.key_name].dimensions}
    return filled <= named and len(owners) == len(entries)


def _size_to_write(intent: Intent, request: Request) -> str | None:
    """The target's keys with the size that it needs and a source without sizes cannot have, or a default for all such pods."""
    source, target = intent.container.vendor, intent.target
    if request.memory is not UNLIMITED or source.by_dimension["memory"]:
        return None
    try:
        _, written, _ = intent.written(replace(request, memory=_AMOUNTS["memory"]))
    except NoEquivalent:
        return None
    resources = all(target.keys[name].place == "resource" for name in written.keys)
    keys = (
        f"write {' and '.join(sorted(map(str, written.keys.values())))} alone for 8 GiB per device, or "
        if resources
        else ""
    )
    default = f"`defaults: {{memory: 8Gi}}` with `extends: {source.name}`"
    return f"{keys}set {default}, or annotate the namespace {labels.DEFAULT_PREFIX}memory: 8Gi"


def _device(intent: Intent, memory: Memory | None) -> str | None:
    """What to configure or select so that the target can express the memory; None if a known device would not help."""
    target, policy, sized = intent.target, intent.policy, isinstance(memory, Size)
    if intent.device is not None or memory is UNLIMITED or not _expresses_only(target, sized=not sized):
        return None
    names = policy.card_labels.get(target.family, ())
    needed = f"{memory} is a {'percentage' if sized else 'size'} on a device of known memory only"
    if policy.cards and names:
        return f"{needed}: select one of those in the setting `cards` by nodeSelector {names[0]}"
    keys = "`cards`" if names else "`cards` and `cardLabels`"
    select = f"select one by nodeSelector {' '.join(names[:1])}".rstrip()
    return f"{needed}: ask the administrator to set {keys}, and {select}"


def _expresses_only(target: Vendor, *, sized: bool) -> bool:
    """Whether the target expresses memory in sizes only, or (not `sized`) in percentages only."""
    kinds = {target.keys[name].sized for name in target.by_dimension["memory"]}
    rows = [row for variable in target.variables.values() for row in variable.rows.values()]
    kinds |= {True for row in rows if isinstance(row.memory, Size)}
    return kinds == {sized}


def advised(denied: Denied, keys: PodKeys, denied_for: Callable[[PodKeys], Finding | None]) -> Finding:
    """A denial, with what is denied next if what it says to write is denied, too: people want to know both at once."""
    container = denied.finding.container

    @cache
    def tried(choice: Numbered) -> Finding | None:
        return denied_for(_keys_with(keys, container, dict(choice)))

    def accepted(choice: Numbered) -> bool:
        again = tried(choice)
        return again is None or again.container != container

    denial = no_whole_number(denied, accepted) if isinstance(denied, NoWholeNumber) else denied.finding
    named, instead = (
        [(choice, tried(choice)) for choice in choices] for choices in (denial.named, denial.instead[:MAX_FOLLOWED])
    )
    permitted = [choice for choice, again in instead if again is None or again.container not in {None, container}]
    next_ = _next(denial, [*named, *instead] if not permitted else named)
    if next_ is None:
        return denial
    # The denied ones, each with what may then be written.
    continued = [
        tuple({**dict(choice), **dict(more)}.items())
        for choice, again in instead
        for more in (again.instead if again and choice not in permitted else ())
    ]
    choices = (*permitted, *denial.instead[MAX_FOLLOWED:], *continued)
    return replace(denial, message=f"{denial.message}; even then, {next_.message}", instead=choices)


def _next(denial: Finding, tried: Iterable[tuple[object, Finding | None]]) -> Finding | None:
    """The first denial of what was tried that says more of the container than the one before."""
    found = next((each for _, each in tried if each and each.container in {None, denial.container}), None)
    same = found is None or (found.reason, found.field) == (denial.reason, denial.field)
    return None if same else found


def _keys_with(keys: PodKeys, container: str | None, choice: Mapping[str, Number | None]) -> PodKeys:
    """The keys of a pod with other numbers of some of them: of its own, or else of a container's."""
    texts = {name: None if number is None else exact_text(number) for name, number in choice.items()}
    labels, annotations = (
        changed(own, {name: text for name, text in texts.items() if name in own})
        for own in (keys.labels, keys.annotations)
    )
    own_texts = {**keys.labels, **keys.annotations}
    of_container = {name: number for name, number in choice.items() if name not in own_texts}
    containers = [each.having(of_container) if each.name == container else each for each in keys.containers]
    return PodKeys(tuple(containers), labels, annotations, keys.node_selector)


def other_unit(container: ContainerRequest) -> str:
    """Return what a count may have been meant as: memory, or shares of one device."""
    keys = container.vendor.keys
    if any(keys[name].sized for name in container.key_values):
        return ""
    sizes = ((key.name, key.spelled({})) for key in keys.values() if key.sized and key.place == "resource" and key.unit)
    alone = (KeyValue(key_name, name, "1", 1) for key_name, name in sizes if "{" not in name)
    named = next((each.key for each in alone if _reads(container.vendor, {each.key_name: each})), None)
    return "" if named is None else f": if memory was meant, write {named}"


def too_small(reading: Reading, intent: Intent, memory: Size) -> Finding | None:
    """Return the warning about a size that hardly anything can run in: its number was probably meant in another unit."""
    container = intent.container
    sized = _sized_by(container, reading)
    if sized is None:
        return None
    key, entry, unit = sized
    meant, advice = entry.number * GIB, f"the key counts {counted_in(unit)}"
    number, (most, _) = ceil_to(Fraction(meant) / unit, 1), intent.most
    key_values = {**container.key_values, key.name: replace(entry, text=exact_text(number), number=number)}
    if meant <= most and _expresses(intent, key_values, reading):
        advice = f"write {exact_text(number)} for {number_text(entry.number)} GiB"
    message = f"{entry} is only {bytes_text(memory.bytes)} per device: {advice}"
    return Finding(Reason.SIZE_TOO_SMALL, message, container.name, entry.key, entry.text)


def _sized_by(container: ContainerRequest, reading: Reading) -> tuple[Key, KeyValue, Number] | None:
    """The key that specifies memory, its value and its unit; None without one."""
    names = [name for name in container.vendor.by_dimension["memory"] if name in container.key_values]
    keys = [(reading.form.keys[name], container.key_values[name]) for name in names]
    return next(((key, entry, key.unit) for key, entry in keys if key.unit is not None), None)


def too_large(reading: Reading, intent: Intent, memory: Size) -> Finding:
    """Return the warning about more memory per device than any that is sold has; deny more than a known one has."""
    container, (most, named) = intent.container, intent.most
    has = f"{f'{named} has' if named else 'none that is sold has more than'} {bytes_text(most)}"
    message = f"memory {memory} per device: {has}"
    sized = _sized_by(container, reading) if memory == reading.request.memory else None
    if sized is not None:
        key, entry, unit = sized
        sizes = sizes_meant(key, entry, memory.bytes, most)
        meant = [each for each in sizes if each[1] * unit >= intent.policy.smallest_memory]
        message = f"{oversized(key, entry, memory, has, meant)}{f'; {has}' if meant else ''}"
    if named:
        raise container.deny(Reason.TOO_LARGE, message)
    return Finding(Reason.IMPROBABLE, message, container.name)
