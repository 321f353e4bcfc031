"""The whole pod: settle every requesting container, merge their keys, and read the result as a second pass would.

This part depends only on the keys, the overrides and the policy.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from webhook import labels
from webhook.admission.collect import collect
from webhook.admission.likely import check_node
from webhook.admission.overrides import Overrides, target_of
from webhook.admission.settle import Settled, Unchanged, expressible, settle
from webhook.admission.survey import Claimed, PodKeys
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.denials import NoWholeNumber, no_whole_number
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.templates import MAX_REQUESTS
from webhook.mapping.requests.values import KeyValue, fewer
from webhook.quantity import Number, QuantityError, exact_text, parse_quantity, simplest
from webhook.reasons import Denied, Finding, Reason, deny
from webhook.request import UNLIMITED, Dimension

MAX_FOLLOWED: Final = 2
"""How many of the choices that a denial offers are tried."""

MAX_ENTRIES: Final = 256
"""Keys of a pod beyond which none is tried: no honest pod has as many, and each try takes as long as the decision."""


class PodResult(msgspec.Struct, frozen=True):
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
    left: tuple[Unchanged, ...] = ()
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


def merge(settled: list[Settled], left: tuple[Unchanged, ...], keys: PodKeys) -> PodResult:
    """Merge the results of a pod's containers."""
    findings = [finding for container in settled for finding in container.findings]
    findings += [each.finding for each in left if each.finding is not None]
    for container in settled:
        findings.extend(_not_kept(container, keys))
    if len(settled) > 1:
        findings.extend(_single_device_lost(settled))
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {name: None for container in settled for name in container.dropped}
    if any([container.keys or container.translated for container in settled]):
        _merge_pod_keys(settled, keys, labels, annotations)
    return PodResult(tuple(settled), labels, annotations, tuple(findings), left)


def _not_kept(container: Settled, keys: PodKeys) -> Iterator[Finding]:
    """Report that the vendor which serves a container does not keep it to its request, or the request for it."""
    vendor, requested = container.target, container.requested
    unlimited = vendor.document.unlimited
    request = container.request
    copy = None if container.translated else requested.copy
    enforced = copy is not None and copy.vendor.document.unlimited is None
    if (
        unlimited is not None
        and not enforced
        and not request.whole
        and (request.memory, request.cores) != (UNLIMITED, UNLIMITED)
    ):
        why, unless = (unlimited, {}) if isinstance(unlimited, str) else (unlimited.why, unlimited.unless)
        if not any(_has_text(vendor, name, text, keys) for name, text in unless.items()):
            yield Finding(Reason.LIMIT_NOT_KEPT, " ".join(why.split()), requested.name)
    if requested.keys.init and vendor.document.init_containers == "ignored":
        message = f"{vendor.system} serves no init containers: this one may get no device, or one without limits"
        yield Finding(Reason.LIMIT_NOT_KEPT, message, requested.name)
    elif requested.keys.sidecar and vendor.document.native_sidecars == "freed":
        message = f"{vendor.system} counts a native sidecar as an init container that ends: others may get its devices"
        yield Finding(Reason.LIMIT_NOT_KEPT, f"{message} while it runs", requested.name)


def _has_text(vendor: Vendor, key_name: str, text: str, keys: PodKeys) -> bool:
    """Whether the pod has a text in a key, or gets it from the vendor's mapping."""
    key = vendor.keys[key_name]
    written = (each for place, each in vendor.place.written.items() if place == key.place)
    sent = (keys.labels, keys.annotations, keys.node_selector)
    pairs = {pair for each in (*sent, *written) for pair in each.items()}
    return any((template.text, text) in pairs for template in key.spellings)


def _single_device_lost(settled: list[Settled]) -> Iterator[Finding]:
    """Report containers that share one device under the source, and may get several under the target."""
    together = [
        container
        for container in settled
        if container.requested.vendor.document.one_device and not container.target.document.one_device
    ]
    if len(together) < 2:  # noqa: PLR2004  (one container has its device anyway)
        return
    names = _names(together)
    source, target = together[0].requested.vendor.name, together[0].target
    if target.claim is None:
        yield Finding(
            Reason.SINGLE_DEVICE_LOST,
            f"{source} puts {names} on one device, {target.name} may use several: request in one container if that matters",
        )
    elif (why := _not_in_one_claim(together)) is not None:
        message = f"{source} puts {names} on one device, and {why}: request in one container"
        raise together[0].requested.deny(Reason.NO_EQUIVALENT, message)


def _not_in_one_claim(together: Sequence[Settled]) -> str | None:
    """Why containers cannot be requests of one claim, on one device; None if they can."""
    first = together[0]
    if first.target.claim is None or first.target.claim.matching is None:
        return f"each would get a claim of {first.target.name}, perhaps of another"
    if len(together) > MAX_REQUESTS:
        return f"a claim has at most {MAX_REQUESTS} requests"
    if any(each.target is not first.target or each.requested.vendor is not first.requested.vendor for each in together):
        return "they would get claims of their own, perhaps of others"
    if any(each.request.devices != 1 or each.request.whole for each in together):
        return "whole or several devices for one of them leave it no room for the others"
    return None


def _merge_pod_keys(
    settled: list[Settled], keys: PodKeys, labels: dict[str, str | None], annotations: dict[str, str | None]
) -> None:
    """Merge the labels and annotations that the targets need: one value for the pod, or a list by position."""
    present = {"label": keys.labels, "annotation": keys.annotations}
    needed: dict[tuple[str, str], tuple[Key, list[tuple[Settled, str]]]] = {}
    for container in settled:
        for key, name, text in container.keys:
            needed.setdefault((key.place, name), (key, []))[1].append((container, text))
    for (place, name), (key, texts) in needed.items():
        text = _listed(keys, texts) if key.listed else _common_value(key, name, texts)
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
        if "devices" not in key.dimensions or key.of_container:
            continue
        for template in key.spellings:
            text = present[key.place].get(template.text)
            if text is not None and (key.place, template.text) not in needed and text != str(devices):
                message = f"{key.place} {template.text} is {text!r}, but the target needs {devices}: remove it"
                raise container.requested.deny(Reason.LABEL_CONFLICT, message)


def _listed(keys: PodKeys, texts: list[tuple[Settled, str]]) -> str:
    by_name = {container.requested.name: text for container, text in texts}
    return ",".join(by_name.get(container.name, "0") for container in keys.containers if not container.init)


def _common_value(key: Key, name: str, texts: list[tuple[Settled, str]]) -> str:
    different = {text for _, text in texts}
    if len(different) > 1:
        values = " and ".join(sorted(different))
        remedy = "keep the request of one" if "devices" in key.dimensions else "request the same in each"
        message = f"{name} holds for the whole pod, but its containers need {values}: {remedy}"
        raise texts[0][0].requested.deny(Reason.CONTAINERS_DISAGREE, message)
    return different.pop()


def keys_after(resolution: PodResult, keys: PodKeys) -> PodKeys:
    """Return the keys of the pod after the changes of a resolution."""
    containers = list(keys.containers)
    for settled in resolution.settled:
        position = settled.requested.position
        before = containers[position]
        unchanged = {name: texts for name, texts in before.resources.items() if name not in settled.resources}
        written = {name: str(number) for name, number in settled.resources.items() if number is not None}
        resources = unchanged | {name: (text, text) for name, text in written.items()}
        claimed = Claimed(settled.target.name, tuple(settled.claim.values())) if settled.claim else before.claimed
        containers[position] = replace(before, resources=resources, claimed=claimed)
    labels, annotations = _with(keys.labels, resolution.labels), _with(keys.annotations, resolution.annotations)
    return PodKeys(tuple(containers), labels, annotations, keys.node_selector)


def _with(texts: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Texts with others in their place, or (None) without them."""
    return {name: text for name, text in {**texts, **changes}.items() if text is not None}


def check_several(settled: Sequence[Settled], policy: Policy) -> None:
    """Check several containers by the rules of their source, and of their target."""
    if len(settled) == 1:
        return
    whole = [each for each in settled if each.request.whole and each.target.document.containers != "shared"]
    check_node([(each.requested, each.request.devices or 1) for each in whole if not each.requested.keys.init], policy)
    for vendor, group in _grouped((container.requested.vendor, container) for container in settled):
        if vendor.document.containers == "equal":
            requests = [(container, str(container.reading.request)) for container in group]
            _check_equal(vendor, requests, Reason.ONE_CONTAINER_ONLY)
            _check_sum(vendor, group, policy)
        moved = next((container for container in group if container.translated), None)
        if vendor.document.containers == "shared" and moved is not None:
            message = f"{vendor.name} allocates once for {_names(group)} together, {moved.target.name} would for each"
            raise moved.requested.deny(Reason.NO_EQUIVALENT, f"{message}: keep the request of one container")
    for vendor, group in _grouped((container.target, container) for container in settled):
        moved = next((container for container in group if container.translated), None)
        if moved is None:
            continue
        if vendor.document.containers == "equal":
            requests = [(container, str(container.request)) for container in group]
            _check_equal(vendor, requests, Reason.NO_EQUIVALENT)
        why = {
            "one": f"serves one container of a pod, but {_names(group)} request devices",
            "shared": f"would allocate once for {_names(group)} together, but each has a request of its own",
        }.get(vendor.document.containers)
        if why is not None:
            message = f"{vendor.name} {why}: keep the request of one container"
            raise moved.requested.deny(Reason.NO_EQUIVALENT, message)


def _grouped(pairs: Iterable[tuple[Vendor, Settled]]) -> list[tuple[Vendor, list[Settled]]]:
    """The containers of each vendor that has more than one."""
    groups: dict[str, tuple[Vendor, list[Settled]]] = {}
    for vendor, container in pairs:
        groups.setdefault(vendor.name, (vendor, []))[1].append(container)
    return [group for group in groups.values() if len(group[1]) > 1]


def _names(group: Iterable[Settled]) -> str:
    return ", ".join(container.requested.name for container in group)


def _check_equal(vendor: Vendor, requests: Sequence[tuple[Settled, str]], reason: Reason) -> None:
    """Where requests are summed and divided over all devices, each container gets the same, whatever it requests."""
    (first, expected), *others = requests
    for container, request in others:
        if request != expected:
            message = (
                f"{vendor.name} adds up the requests of a pod and gives each container the same, but "
                f"{first.requested.name} requests {expected}, {container.requested.name} {request}: "
                "request the same in each, or in one only"
            )
            raise container.requested.deny(reason, message)


def _check_sum(vendor: Vendor, group: Sequence[Settled], policy: Policy) -> None:
    """Check that the sum over the containers that run side by side is a request of the vendor, too."""
    regular = [container for container in group if not container.requested.keys.init]
    if len(regular) < 2:  # noqa: PLR2004  (a single container was read already)
        return
    total: dict[str, KeyValue] = {}
    for entry in itertools.chain.from_iterable(container.requested.key_values.values() for container in regular):
        before = total.get(entry.key_name)
        number = simplest(entry.number + before.number) if before is not None else entry.number
        total[entry.key_name] = replace(entry, number=number, text=exact_text(number))
    try:
        read(vendor, total, vendor.defaults, policy.largest_card, regular[0].requested.name)
    except Denied as denial:
        message = f"{vendor.name} adds up the requests of {_names(regular)}: {denial.finding.message}"
        raise deny(Reason.ONE_CONTAINER_ONLY, f"{message}; or keep the request of one container") from None


_Without: TypeAlias = Mapping[int, Collection[Dimension]]
"""The dimensions for which a container, by position, goes without the namespace's default."""


def resolve(keys: PodKeys, overrides: Overrides, policy: Policy) -> PodResult:
    """Resolve a pod's keys."""
    try:
        return _resolved(keys, overrides, policy)
    except Denied as denial:
        finding = denial.finding
        number = len(keys.labels) + len(keys.annotations) + sum([len(each.resources) for each in keys.containers])
        if not (finding.instead or finding.named) or number > MAX_ENTRIES:
            raise
    raise Denied(_followed(finding, keys, overrides, policy))


def _followed(denial: Finding, keys: PodKeys, overrides: Overrides, policy: Policy) -> Finding:
    """A denial, with what is denied next if what it says to write is denied, too: people want to know both at once."""
    named, instead = (
        [(choice, _denied_next(keys, denial.container, choice, overrides, policy)) for choice in choices]
        for choices in (denial.named, denial.instead[:MAX_FOLLOWED])
    )
    denied = [again for _, again in named if again is not None]
    if all(again is not None for _, again in instead):
        denied += [again for _, again in instead if again is not None]
    next_ = next((each for each in denied if each.container in {None, denial.container}), None)
    if next_ is None or (next_.reason, next_.field) == (denial.reason, denial.field):
        return denial
    choices = [choice for choice, again in instead if again is None]
    choices += denial.instead[MAX_FOLLOWED:]
    choices += [(*choice, *more) for choice, again in instead if again is not None for more in again.instead]
    return replace(denial, message=f"{denial.message}; even then, {next_.message}", instead=tuple(choices))


def _denied_next(
    keys: PodKeys,
    container: str | None,
    choice: Iterable[tuple[str, Number | None]],
    overrides: Overrides,
    policy: Policy,
) -> Finding | None:
    """Why a pod is denied with other numbers in the keys of a container; None if it is not."""
    try:
        _resolved(_keys_with(keys, container, choice), overrides, policy)
    except Denied as again:
        return again.finding
    return None


def _keys_with(keys: PodKeys, container: str | None, choice: Iterable[tuple[str, Number | None]]) -> PodKeys:
    """The keys of a pod with other numbers of some of them: of its own, or else of a container's."""
    numbers = {name: None if number is None else exact_text(number) for name, number in choice}
    labels, annotations = (
        _with(texts, {name: numbers.pop(name) for name in texts if name in numbers})
        for texts in (keys.labels, keys.annotations)
    )
    written = {name: (text, text) for name, text in numbers.items() if text is not None}
    changed = [
        replace(
            each, resources={name: each.resources[name] for name in each.resources if name not in numbers} | written
        )
        if each.name == container
        else each
        for each in keys.containers
    ]
    return PodKeys(tuple(changed), labels, annotations, keys.node_selector)


def _resolved(keys: PodKeys, overrides: Overrides, policy: Policy) -> PodResult:
    """Resolve a pod's keys; raises as `resolve`."""
    results = _settle_each(keys, overrides, policy, {})
    try:
        return _checked(results, keys, overrides, policy)
    except Denied as denial:
        for without in _fewer_defaults(results):
            try:
                fewer_applied = _settle_each(keys, overrides, policy, without)
                resolution = _checked(fewer_applied, keys, overrides, policy)
            except Denied:
                continue
            not_applied = tuple(_not_applied(results, without, denial.finding.message))
            return replace(resolution, findings=(*resolution.findings, *not_applied))
        raise


def _settle_each(keys: PodKeys, overrides: Overrides, policy: Policy, without: _Without) -> list[Settled | Unchanged]:
    """Settle every requesting container separately."""
    try:
        containers = collect(keys, policy)
    except NoWholeNumber as error:
        vendor, found = error.vendor, error.finding
        message, instead, named = no_whole_number(
            vendor, error.entry, lambda share: expressible(vendor, share, overrides, policy)
        )
        raise Denied(replace(found, message=message, instead=instead, named=named)) from None
    if overrides.scheduler is not None and len(containers) > 1:
        of_scheduler = [
            each.vendor
            for each in containers
            if overrides.scheduler in (each.vendor.place.scheduler, *each.vendor.place.schedulers)
        ]
        if any([target_of(vendor, overrides, policy)[0] is not vendor for vendor in of_scheduler]):
            # It is replaced with the keys of the container that it belongs to, and no reason to keep others' as they are.
            overrides = replace(overrides, scheduler=None)
    return [settle(container, overrides, policy, without.get(container.position, ())) for container in containers]


def _fewer_defaults(results: Sequence[Settled | Unchanged]) -> Iterator[_Without]:
    """Yield what to leave out: first of containers that write keys of the whole pod, then of all."""
    settled = [result for result in results if isinstance(result, Settled)]
    writing = [container for container in settled if container.keys]
    for group in (writing, settled) if len(writing) < len(settled) else (settled,):
        defaults = {
            each.requested.position: {dim: own for dim, own in each.filled.items() if own.origin == "namespace"}
            for each in group
        }
        for applied in fewer({name: default for each in defaults.values() for name, default in each.items()}):
            without = {position: each.keys() - applied.keys() for position, each in defaults.items()}
            if any(without.values()):
                yield without


def _not_applied(results: Sequence[Settled | Unchanged], without: _Without, why: str) -> Iterator[Finding]:
    for result in results:
        if isinstance(result, Settled):
            for dimension in sorted(without.get(result.requested.position, ())):
                message = f"{result.filled[dimension].named(dimension)} was not applied: {why}"
                field = f"{labels.DEFAULT_PREFIX}{dimension}"
                yield Finding(Reason.DEFAULT_NOT_APPLIED, message, result.requested.name, field)


def _together(results: Sequence[Settled | Unchanged], keys: PodKeys, policy: Policy) -> PodResult:
    """Merge containers that were settled separately."""
    settled = [result for result in results if isinstance(result, Settled)]
    left = tuple([result for result in results if isinstance(result, Unchanged)])
    for container in settled:
        if container.requested.keys.init:
            _check_init(container)
        if left and container.translated:
            _check_stays(container, left)
        if container.target.document.excludes:
            _check_excluded(container, settled, keys)
    if len(settled) > 1:
        check_several(settled, policy)
    translated = [container for container in settled if container.translated]
    if translated:
        regular = [container.name for container in keys.containers if not container.init]
        for container in translated:
            _name_container(container, regular)
        _count_in_lists([container for container in settled if not container.requested.keys.init])
    return merge(settled, left, keys)


def _check_init(container: Settled) -> None:
    source, target = container.requested.vendor, container.target
    if source.document.init_containers == "denied" or (
        container.translated and target.document.init_containers != "served"
    ):
        name = source.name if source.document.init_containers == "denied" else target.name
        message = f"{name} does not serve init containers: move the request to a container"
        raise container.requested.deny(Reason.INIT_NOT_SERVED, message)


def _check_excluded(container: Settled, settled: Sequence[Settled], keys: PodKeys) -> None:
    """Check that the pod keeps no name with which the target takes none."""
    target, written = container.target, {each.requested.position: each.resources for each in settled}
    for position, other in enumerate(keys.containers):
        for name, (limit, request) in other.resources.items():
            kept = name in target.document.excludes and name not in written.get(position, {})
            if kept and _number(limit if limit is not None else request) != 0:
                message = (
                    f"{target.name} takes no pod that also requests {name}, as container {other.name} does: split it"
                )
                raise container.requested.deny(Reason.ONE_CONTAINER_ONLY, message)


def _check_stays(container: Settled, left: tuple[Unchanged, ...]) -> None:
    """Check that no container is translated while another one needs the scheduler of the same source."""
    source = container.requested.vendor
    stays = next((other for other in left if other.placed and other.requested.vendor is source), None)
    if stays is not None:
        message = (
            f"container {stays.requested.name} stays in its keys ({stays.why}), but this one would be translated to "
            f"{container.target.name}: split the pod, or set no target"
        )
        raise container.requested.deny(Reason.CONTAINERS_DISAGREE, message)


def _name_container(container: Settled, regular: list[str]) -> None:
    """Name the container that requests, if the target would assign keys of the pod to another one."""
    key = next((key for key in container.target.keys.values() if key.kind == "container"), None)
    name = container.requested.name
    if key is None or (regular[:1] == [name] and (key.absent == "first" or len(regular) == 1)):
        return
    container.keys.append((key, key.spellings[0].text, name))


def _count_in_lists(regular: Collection[Settled]) -> None:
    """Count each container's devices in a list by position that another one has: 0 there means that it requests none."""
    lists = {
        (container.target.name, name): key for container in regular for key, name in _entries(container) if key.listed
    }
    for container in regular:
        written = {name for _, name, _ in container.keys}
        for (target, name), key in lists.items():
            if target == container.target.name and name not in written:
                own = None if container.translated else container.requested.all_key_values.get(key.name)
                container.keys.append((key, name, str(container.request.devices) if own is None else own.text))


def _entries(container: Settled) -> Iterator[tuple[Key, str]]:
    """Yield the keys that a container is to have, and those that it has and keeps."""
    for key, name, _ in container.keys:
        yield key, name
    if not container.translated:
        for entry in container.requested.all_key_values.values():
            yield container.target.keys[entry.key_name], entry.key


def _checked(results: Sequence[Settled | Unchanged], keys: PodKeys, overrides: Overrides, policy: Policy) -> PodResult:
    """Merge containers, and check the result by a second pass."""
    first = _together(results, keys, policy)
    if not first.changes and not any([container.translated for container in first.settled]):
        return first
    if _read_already(first, keys, overrides, policy):
        return first
    second = _second_pass(first, keys, overrides, policy)
    return replace(first, second_pass=_differences(first, second))


def _read_already(first: PodResult, keys: PodKeys, overrides: Overrides, policy: Policy) -> bool:
    """Whether translating has already read what a second pass would read: each container's new keys alone, nothing else.

    True only if nothing else of the pod is a key, each container has the new keys only, each of them has the target as its
    one reader, the target stays where it is, and takes each container by itself.
    """
    if first.left or first.labels or first.annotations or keys.labels or keys.annotations or keys.node_selector:
        return False
    settled = first.settled
    for container in settled:
        target, read_back, before = container.target, container.read_back, container.requested.keys
        if (
            read_back is None
            or read_back.corrections
            or read_back.spelled is not None
            or (len(settled) > 1 and target.document.containers != "any")
            or (before.init and target.document.init_containers == "denied")
            or before.perhaps
            or not all([name in container.resources for name in before.resources])
            or not _reads(target, container.resources, policy)
            or target_of(target, overrides, policy)[0] is not target
        ):
            return False
    return True


def _reads(target: Vendor, resources: Mapping[str, Number | None], policy: Policy) -> bool:
    """Whether the target alone reads the written ones of these resources, all of them as amounts without variables."""
    for name, number in resources.items():
        if number is None:
            continue
        owners = policy.resources.exact.get(name, ())
        if type(number) is not int or number <= 0 or len(owners) != 1:
            return False
        (owner,) = owners
        if owner.vendor != target.name or owner.binding or not target.keys[owner.key_name].makes_request:
            return False
    return True


def _differences(first: PodResult, second: PodResult) -> dict[int, Settled]:
    """The containers that a second pass finds in another vendor's keys than the target's, or with another target."""
    return {
        again.requested.position: again
        for before, again in zip(first.settled, second.settled, strict=True)
        if again.requested.vendor is not before.target or again.target is not before.target
    }


def _second_pass(first: PodResult, keys: PodKeys, overrides: Overrides, policy: Policy) -> PodResult:
    """Read the result as the active vendors of its names will."""
    after = keys_after(first, keys)
    try:
        second = _together(_settle_each(after, overrides, policy, {}), after, policy)
    except Denied as denial:
        message = f"the resulting request would be denied: {denial.finding.message}"
        raise deny(Reason.READ_BACK_DIFFERS, message, container=denial.finding.container) from None
    expected = {container.requested.position: container for container in first.settled}
    for again in second.settled:
        before = expected.pop(again.requested.position, None)
        # For an inactive target, what the active vendor reads may differ although it is written again unchanged.
        if before is None or {again.reading.request, again.request} != {before.request} or _rewrites(again, after):
            requested = before.request if before is not None else "nothing"
            message = f"the resulting request would be read as {again.reading.request} instead of {requested}"
            raise again.requested.deny(Reason.READ_BACK_DIFFERS, message)
    if expected:
        lost = next(iter(expected.values()))
        raise lost.requested.deny(
            Reason.READ_BACK_DIFFERS, f"the resulting keys of {lost.target.name} would request nothing"
        )
    changed = {name for name, text in second.annotations.items() if after.annotations.get(name) != text}
    if second.labels or changed:
        message = f"the resulting request would be changed again: {', '.join([*second.labels, *changed])}"
        raise deny(Reason.READ_BACK_DIFFERS, message)
    return second


def _rewrites(container: Settled, keys: PodKeys) -> bool:
    """Whether a second pass would write other numbers."""
    before = keys.containers[container.requested.position]
    if before.claimed is not None and before.claimed.entries != tuple(container.claim.values()):
        return True
    return any(
        name in before.resources if number is None else {*map(_number, before.resources.get(name, (None,)))} != {number}
        for name, number in container.resources.items()
    )


def _number(text: str | None) -> Number | None:
    try:
        return None if text is None else parse_quantity(text)
    except QuantityError:
        return None
