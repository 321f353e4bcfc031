"""What to write instead: told with a denial, or a warning about a default, once that is certain.

Whatever is advised has been tried: the target can express it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.overrides import Overrides, SelectedDevice, defaults_for, device_for, target_of
from webhook.admission.served import serving
from webhook.admission.settled import NOT_FILLED, Intent, Settled, spelled_in, with_twin
from webhook.admission.survey import ContainerKeys, PodKeys, changed
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import KeyValue, KeyValues, Reading, form_of, keys_for, number_for
from webhook.mapping.requests.writing import NoEquivalent, Written, write
from webhook.quantity import GIB, Number, exact_text
from webhook.reasons import Denied, Finding, Instead, Reason
from webhook.request import ALL, UNLIMITED, Dimension, Memory, Percent, Request, Size

MAX_FOLLOWED: Final = 2
"""How many of the choices that a denial offers are tried."""

_AMOUNTS: Final[Mapping[Dimension, Memory]] = {"cores": Percent(50), "memory": Size(8 * GIB)}
"""What stands for any amount, where a key for one is tried."""


def remedies(settled: Settled, dimension: Dimension, intent: Intent, whole_permitted: Callable[[], bool]) -> str:
    """Return what to write instead of a default; `whole_permitted`: whether a count alone might mean whole devices."""
    container, default = intent.container, settled.filled[dimension]
    keys = (settled.reading.form.keys[name] for name in container.vendor.by_dimension[dimension])
    size = next((spelled_in(container, key) for key in keys if _may_have(container, key, default)), None)
    if dimension == "memory" and container.bare and not intent.overrides.bare.whole:
        return _of_bare_count(settled, size, intent, whole_permitted)
    return "" if size is None else f"; set {size} to change it"


def _of_bare_count(settled: Settled, size: str | None, intent: Intent, whole_permitted: Callable[[], bool]) -> str:
    """What to write instead of a default of memory; what a bare count most probably means, whole devices, comes first."""
    container, keys = intent.container, settled.reading.form.keys
    choices = []
    if not settled.translated:
        whole = next(keys_for(container.vendor, keys, "memory", Default(ALL, "mapping"), 1), None)
        if whole is not None:
            choices = [f"{spelled_in(container, keys[whole.key_name])}: {whole.text} for a whole device"]
    choices += [] if size is None else [f"{size} for another size"]
    choices[:1] = [f"set {choice}" for choice in choices[:1]]
    if not settled.translated or whole_permitted():
        choices.append(f"{'or ' if choices else ''}annotate the namespace {labels.BARE_DEVICES}: whole")
    assumed = " (share is assumed)" if intent.overrides.bare.origin is None else ""
    return f"{assumed}; {', '.join(choices)}" if choices else assumed


def _may_have(container: ContainerRequest, key: Key, default: Default) -> bool:
    """Whether the vendor reads a key beside those of the container, with about the number of a default, if it reads these."""
    number = number_for(key, default.value, 1) or 1
    entry = KeyValue(key.name, spelled_in(container, key), exact_text(number), number)
    before, after = (
        form_of(container.vendor, key_values)
        for key_values in (container.key_values, {**container.key_values, key.name: entry})
    )
    return before is None or not before.reads or (after is not None and after.reads)


def not_expressed(intent: Intent, reading: Reading, why: str) -> Denied:
    """Return the denial of a request that the target cannot express; why is said only where nothing can be written instead."""
    container, request = intent.container, reading.request
    instead: Instead = ()
    remedy = _plain(intent, request)
    if remedy is None:
        other, instead = _other_keys(intent, reading)
        remedy = "; ".join(filter(None, (other, _device(intent, request.memory), _default_to_set(intent, request))))
    message = f"{intent.target.name} cannot express {container.shown}{f': {remedy}' if remedy else f' {why}'}"
    if intent.by_settings:
        message = f"{message}; {serving(container.vendor, intent.policy)}"
    return container.deny(Reason.NO_EQUIVALENT, message, instead=instead)


def _plain(intent: Intent, request: Request) -> str | None:
    """The count that requests these whole devices of a plain device plugin; None if it does not, or would be denied."""
    if not (intent.overrides.bare.whole and request.whole and intent.overrides.pod_target is None):
        return None
    plain = next(_plain_names(intent.policy, intent.target.family), None)
    return None if plain is None else f"write {plain}: {request.devices} alone for whole devices"


def _plain_names(policy: Policy, family: str) -> Iterator[str]:
    """The names of some hardware that plain device plugins serve."""
    for vendor in policy.in_force:
        for key in vendor.keys.values() if vendor.family == family else ():
            yield from (name.text for name in key.plain if not name.variables)


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
                return f"add {spelled_in(container, vendor.keys[other.key_name])}", ()
    return None, ()


def _without(
    intent: Intent, reading: Reading, entry: KeyValue, others: Iterable[KeyValue]
) -> tuple[str | None, Instead]:
    """What to write without one of the keys; None if the target cannot express that either."""
    container, keys = intent.container, intent.container.vendor.keys
    rest = {name: other for name, other in container.key_values.items() if other is not entry}
    own = any(keys[name].place != "borrowed" for name in rest)  # else it requests in others' keys
    if own and _expresses(intent, rest, reading):
        names = with_twin(keys[entry.key_name], entry, container.name)
        twins = [name for name in names if name == entry.key or name in intent.overrides.annotations]
        return f"leave {' and '.join(twins)} out", (tuple((name, None) for name in twins),)
    for other in others:
        if _expresses(intent, {**rest, other.key_name: other}, reading):
            return f"write {spelled_in(container, keys[other.key_name])} instead of {entry.key}", ()
    return None, ()


def _expresses(intent: Intent, key_values: KeyValues, before: Reading) -> bool:
    """Whether the target can express what other keys of the source request, with no more defaults than `before`."""
    container, target = intent.container, intent.target
    own = defaults_for(container.vendor, target, intent.overrides.defaults)[0]
    try:
        reading = read(container.vendor, key_values, own, intent.policy.largest_card, container.name)
        _, written, _ = intent.written(reading.request)
        return reading.filled.keys() <= before.filled.keys() and _read_alike(target, written, intent.policy)
    except (Denied, NoEquivalent):
        return False


def _default_to_set(intent: Intent, request: Request) -> str | None:
    """The default of memory without which the target cannot express a source that has no sizes; None if others have."""
    source = intent.container.vendor
    if request.memory is not UNLIMITED or source.by_dimension["memory"]:
        return None
    try:
        intent.written(replace(request, memory=_AMOUNTS["memory"]))
    except NoEquivalent:
        return None
    setting = f"`defaults: {{memory: 8Gi}}` with `extends: {source.name}`"
    return f"set {setting}, or annotate the namespace {labels.DEFAULT_PREFIX}memory: 8Gi"


def _device(intent: Intent, memory: Memory | None) -> str | None:
    """What to configure or select so that the target can express the memory; None if a known device would not help."""
    target, policy, devices = intent.target, intent.policy, intent.overrides.selected
    sized = isinstance(memory, Size)
    known = device_for(target, devices, policy) is not None
    if known or memory is UNLIMITED or memory is None or not _expresses_only(target, sized=not sized):
        return None
    names = policy.card_labels.get(target.family, ())
    selected = [device for device in devices if device.label in names]
    needed = f"{memory} is a {'percentage' if sized else 'size'} on a known device only"
    if not policy.cards or not names:
        keys = "`cards`" if names else "`cards` and `cardLabels`"
        select = f"select one by nodeSelector {' '.join(names[:1])}".rstrip()
        return f"{needed}: ask the administrator to set {keys}, and {select}"
    if not selected:
        return f"{needed}: select one of the setting `cards` by nodeSelector {names[0]}"
    return _ambiguous(selected)


def _ambiguous(selected: list[SelectedDevice]) -> str:
    """What keeps the memory of selected devices from being known."""
    first = selected[0]  # if only one has a known memory, that one is the device
    where = f"{first.names} ({first.place} {first.label})"
    if not first.known:
        return f"the setting `cards` lacks the memory of {where}: ask the administrator to add it"
    if first.memory is None:
        return f"{where} differ in memory: select one device"
    return f"{' and '.join(device.label for device in selected)} name devices that differ in memory: keep one"


def _expresses_only(target: Vendor, *, sized: bool) -> bool:
    """Whether the target expresses memory in sizes only, or (not `sized`) in percentages only."""
    kinds = {target.keys[name].sized for name in target.by_dimension["memory"]}
    rows = [row for variable in target.variables.values() for row in variable.rows.values()]
    kinds |= {True for row in rows if isinstance(row.memory, Size)}
    return kinds == {sized}


def expressible(vendor: Vendor, key_values: KeyValues, overrides: Overrides, policy: Policy) -> bool:
    """Return whether the target of a pod can express what a container would request in these keys."""
    try:
        target, _ = target_of(vendor, overrides, policy)
        reading = read(vendor, key_values, NOT_FILLED, policy.largest_card, "", home=target is vendor)
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
    vendors = [(policy.vendors[name], key_values) for name, key_values in read_by.items()]
    readings = [read(vendor, entries, vendor.defaults, policy.largest_card, "") for vendor, entries in vendors]
    return [reading.request for reading in readings] == [written.reading.request]


_Choice: TypeAlias = tuple[tuple[str, Number | None], ...]


def followed(denial: Finding, keys: PodKeys, denied_for: Callable[[PodKeys], Finding | None]) -> Finding:
    """A denial, with what is denied next if what it says to write is denied, too: people want to know both at once."""
    named, instead = (
        [(choice, denied_for(_keys_with(keys, denial.container, choice))) for choice in choices]
        for choices in (denial.named, denial.instead[:MAX_FOLLOWED])
    )
    next_ = next((each for each in _again(named, instead) if each.container in {None, denial.container}), None)
    if next_ is None or (next_.reason, next_.field) == (denial.reason, denial.field):
        return denial
    choices = (*_permitted(instead), *denial.instead[MAX_FOLLOWED:], *_continued(instead))
    return replace(denial, message=f"{denial.message}; even then, {next_.message}", instead=choices)


_Tried: TypeAlias = list[tuple[_Choice, Finding | None]]


def _permitted(tried: _Tried) -> Iterator[_Choice]:
    return (choice for choice, again in tried if again is None)


def _continued(tried: _Tried) -> Iterator[_Choice]:
    """The denied choices, each with what may then be written."""
    for choice, again in tried:
        yield from () if again is None else ((*choice, *more) for more in again.instead)


def _again(named: _Tried, instead: _Tried) -> Iterator[Finding]:
    """The denials that follow: of what is named, and of choices if all of these are denied."""
    tried = [*named, *(instead if all(again is not None for _, again in instead) else ())]
    return (again for _, again in tried if again is not None)


def _keys_with(keys: PodKeys, container: str | None, choice: Iterable[tuple[str, Number | None]]) -> PodKeys:
    """The keys of a pod with other numbers of some of them: of its own, or else of a container's."""
    numbers = {name: None if number is None else exact_text(number) for name, number in choice}
    labels, annotations = (
        changed(texts, {name: numbers.pop(name) for name in texts if name in numbers})
        for texts in (keys.labels, keys.annotations)
    )
    containers = [_with(each, numbers) if each.name == container else each for each in keys.containers]
    return PodKeys(tuple(containers), labels, annotations, keys.node_selector)


def _with(container: ContainerKeys, numbers: Mapping[str, str | None]) -> ContainerKeys:
    """A container with these numbers of its resources, and (None) without some."""
    kept = {name: amounts for name, amounts in container.resources.items() if name not in numbers}
    written = {name: (text, text) for name, text in numbers.items() if text is not None}
    return replace(container, resources=kept | written)
