"""The whole pod: settle every requesting container, merge their keys, and read the result as a second pass would.

This part depends only on the keys, the overrides and the policy.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from webhook.admission.advice import advised
from webhook.admission.collect import collect, grouped
from webhook.admission.intent import NamespaceDefaults, Overrides, defaults_for, target_of
from webhook.admission.settle import Settled, Unchanged, not_applied, settle
from webhook.admission.survey import Claimed, PodKeys, changed
from webhook.mapping.model.keys import Form, Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.reading import read
from webhook.mapping.values import KeyValue, NoWholeNumber, fewer, form_of
from webhook.mapping.writing import MAX_REQUESTS
from webhook.reasons import Denied, Finding, Reason, deny
from webhook.request import MAX_VALUE, UNLIMITED, Dimension, Number, exact_text, number_in, simplest

MAX_ENTRIES: Final = 256
"""Keys of a pod beyond which no advice is tried: no honest pod has as many, and each try takes as long as the decision."""

_Without: TypeAlias = Mapping[int, Collection[Dimension]]
"""The dimensions for which a container, by position, goes without the namespace's default."""


class PodResult(Struct, frozen=True):
    """The resolution of a pod's keys."""

    settled: tuple[Settled, ...]  # the requesting containers, in order
    labels: dict[str, str | None] = {}  # keys to write, or (None) to remove; annotations likewise
    annotations: dict[str, str | None] = {}
    findings: tuple[Finding, ...] = ()  # warnings, in the order of the containers
    left: tuple[Unchanged, ...] = ()  # the requesting containers that are left unchanged
    # by position, the result of a second pass for containers whose keys are then another vendor's than the target, or
    # are written for another target: an inactive target's keys are read by their active owners
    second_pass: Mapping[int, Settled] = {}

    @property
    def vendor_names(self) -> tuple[str, ...]:
        """The vendors in whose keys containers request."""
        return tuple(dict.fromkeys([container.requested.vendor.name for container in self.settled]))

    def passes(self, container: Settled) -> tuple[Settled, ...]:
        """Return a container of `settled`, and the result of a second pass if that is another vendor's."""
        second = self.second_pass.get(container.requested.position)
        return (container,) if second is None else (container, second)


def resolve(keys: PodKeys, overrides: Overrides, policy: Policy) -> PodResult:
    """Resolve a pod's keys."""
    try:
        return _resolved(keys, overrides, policy)
    except Denied as error:
        denial, finding = error, error.finding
        number = len(keys.labels) + len(keys.annotations) + sum([len(each.resources) for each in keys.containers])
        if not (finding.instead or finding.named or isinstance(error, NoWholeNumber)) or number > MAX_ENTRIES:
            raise

    def denied_for(other: PodKeys) -> Finding | None:
        """Why the pod is denied with other keys; None if it is not."""
        try:
            _resolved(other, overrides, policy)
        except Denied as again:
            return again.finding
        return None

    raise Denied(advised(denial, keys, denied_for))


def _resolved(keys: PodKeys, overrides: Overrides, policy: Policy) -> PodResult:
    """Resolve a pod's keys; raises as `resolve`."""
    results = _settle_each(keys, overrides, policy, {})
    try:
        return _checked(results, keys, overrides, policy)
    except Denied as denial:
        for without in _fewer_defaults(results, overrides.defaults):
            try:
                fewer_applied = _settle_each(keys, overrides, policy, without)
                resolution = _checked(fewer_applied, keys, overrides, policy)
            except Denied:
                continue
            notes = [
                not_applied(each.requested, name, each.reading.filled.get(name), denial.finding.message)
                for each in results
                if isinstance(each, Settled)
                for name in without.get(each.requested.position, ())
            ]
            return replace(resolution, findings=(*resolution.findings, *notes))
        raise


def _settle_each(keys: PodKeys, overrides: Overrides, policy: Policy, without: _Without) -> list[Settled | Unchanged]:
    containers = collect(keys, policy)
    if overrides.scheduler is not None and len(containers) > 1:
        of_scheduler = [
            each.vendor
            for each in containers
            if overrides.scheduler in (each.vendor.place.scheduler, *each.vendor.place.schedulers)
        ]
        if any([target_of(vendor, overrides, policy) is not vendor for vendor in of_scheduler]):
            # It is replaced with the keys of the container that it belongs to, and no reason to keep others' as they are.
            overrides = replace(overrides, scheduler=None)
    return [settle(container, overrides, policy, without.get(container.position, ())) for container in containers]


def _fewer_defaults(results: Sequence[Settled | Unchanged], namespace: NamespaceDefaults) -> Iterator[_Without]:
    """Yield what to leave out, more and more: first of containers that write keys of the whole pod, then of all."""
    settled = [result for result in results if isinstance(result, Settled)]
    writing = [container for container in settled if container.keys]
    for group in (writing, settled) if len(writing) < len(settled) else (settled,):
        defaults = {each.requested.position: _of_namespace(each, namespace) for each in group}
        for applied in fewer(dict.fromkeys(itertools.chain.from_iterable(defaults.values()))):
            without = {position: [each for each in some if each not in applied] for position, some in defaults.items()}
            if any(without.values()):
                yield without


def _of_namespace(settled: Settled, namespace: NamespaceDefaults) -> list[Dimension]:
    """The dimensions in which the namespace decides what a container gets: it fills one in, or (None) has nothing do so."""
    open_ones = settled.requested.vendor.defaults.keys() - settled.reading.specified
    filled = {dimension for dimension, default in settled.reading.filled.items() if default.origin == "namespace"}
    return [each for each, default in namespace.items() if each in (open_ones if default is None else filled)]


def keys_after(resolution: PodResult, keys: PodKeys) -> PodKeys:
    """Return the keys of the pod after the changes of a resolution."""
    containers = list(keys.containers)
    for settled in resolution.settled:
        position = settled.requested.position
        after = containers[position].having(settled.resources)
        claimed = Claimed(settled.target.name, tuple(settled.claim.values())) if settled.claim else after.claimed
        containers[position] = replace(after, claimed=claimed)
    labels, annotations = changed(keys.labels, resolution.labels), changed(keys.annotations, resolution.annotations)
    return PodKeys(tuple(containers), labels, annotations, keys.node_selector)


def _checked(results: Sequence[Settled | Unchanged], keys: PodKeys, overrides: Overrides, policy: Policy) -> PodResult:
    """Merge containers, and check the result by a second pass."""
    first = _together(results, keys, policy)
    writes = first.labels or first.annotations or any([each.resources or each.translated for each in first.settled])
    if not writes or _read_already(first, keys, overrides, policy):
        return first
    second = _second_pass(first, keys, overrides, policy)
    both = zip(first.settled, second.settled, strict=True)
    others = [again for one, again in both if not (one.target is again.requested.vendor is again.target)]
    return _merged(first.settled, first.left, keys, others) if others else first


def _read_already(first: PodResult, keys: PodKeys, overrides: Overrides, policy: Policy) -> bool:
    """Whether settling has already read what a second pass would read: each container's keys alone, nothing else."""
    if first.left or first.labels or first.annotations or keys.of_pod:
        return False
    several = len(first.settled) > 1
    return all([_reads_alone(container, overrides, policy, several=several) for container in first.settled])


def _reads_alone(container: Settled, overrides: Overrides, policy: Policy, *, several: bool) -> bool:
    """Whether a container has keys that are read by the target alone, which takes it by itself."""
    target, resources, before = container.target, container.resources, container.requested.keys
    if several and (target.containers != "any" or target.excludes):
        return False
    if not container.translated:
        return _reads_filled(container, overrides, policy)
    if before.perhaps or (before.init and target.init_containers == "denied"):
        return False
    alone = before.resources.keys() <= resources.keys() and _reads(target, resources, policy)
    return alone and target_of(target, overrides, policy) is target


def _reads_filled(container: Settled, overrides: Overrides, policy: Policy) -> bool:
    """Whether a container has got keys for defaults, and no others: they were read with its own when they were added."""
    vendor, reading = container.target, container.reading
    left = defaults_for(vendor, vendor, overrides.defaults).keys() - reading.specified - reading.filled.keys()
    if left or container.requested.copy is not None or not policy.serves(vendor, ()):
        return False
    # What was rounded up may be more than a device or node has; that nodes report a key is checked of those that are there.
    if container.request != reading.request or not vendor.unreported.isdisjoint(reading.added):
        return False
    added = {vendor.keys[name].only_name for name in reading.added}
    return container.resources.keys() == added and _reads(vendor, container.resources, policy)


def _reads(target: Vendor, resources: Mapping[str, Number | None], policy: Policy) -> bool:
    """Whether the target alone reads the written ones of these resources, all of them as amounts without variables."""
    for name, number in resources.items():
        if number is None:
            continue
        owners = policy.resources.exact.get(name, ())
        if type(number) is not int or not 0 < number <= MAX_VALUE or len(owners) != 1 or name in target.excludes:
            return False
        (owner,) = owners
        if owner.vendor != target.name or owner.binding or not target.keys[owner.key_name].makes_request:
            return False
    return True


def _second_pass(first: PodResult, keys: PodKeys, overrides: Overrides, policy: Policy) -> PodResult:
    """Read the result as the active vendors of its names will."""
    after = keys_after(first, keys)
    try:
        second = _together(_settle_each(after, overrides, policy, {}), after, policy)
    except Denied as denial:
        message = f"the resulting request would be denied: {denial.finding.message}"
        raise deny(Reason.READ_BACK_DIFFERS, message, container=denial.finding.container) from None
    _check_same(first, second, after)
    changed = {name for name, text in second.annotations.items() if after.annotations.get(name) != text}
    if second.labels or changed:
        message = f"the resulting request would be changed again: {', '.join([*second.labels, *changed])}"
        raise deny(Reason.READ_BACK_DIFFERS, message)
    return second


def _check_same(first: PodResult, second: PodResult, after: PodKeys) -> None:
    """Check that a second pass finds the requests of the first, and writes them as they are."""
    written = {container.requested.position: container for container in first.settled}
    for again in second.settled:
        before = written.pop(again.requested.position, None)
        # For an inactive target, what the active vendor reads may differ although it is written again unchanged.
        if before is None or {again.reading.request, again.request} != {before.request} or _rewrites(again, after):
            found, expected = again.reading.request, None if before is None else before.request
            differs = ", and changed again" if found == expected else f" instead of {expected or 'nothing'}"
            message = f"the resulting request would be read by {again.requested.vendor.name} as {found}{differs}"
            raise again.requested.deny(Reason.READ_BACK_DIFFERS, message)
    for lost in written.values():
        message = f"the resulting keys of {lost.target.name} would request nothing"
        raise lost.requested.deny(Reason.READ_BACK_DIFFERS, message)


def _rewrites(container: Settled, keys: PodKeys) -> bool:
    """Whether a second pass would write other numbers."""
    before = keys.containers[container.requested.position]
    if before.claimed is not None and before.claimed.entries != tuple(container.claim.values()):
        return True
    sent = before.resources
    return any({*map(number_in, sent.get(name, (None,)))} != {number} for name, number in container.resources.items())


def _together(results: Sequence[Settled | Unchanged], keys: PodKeys, policy: Policy) -> PodResult:
    """Merge containers that were settled separately, after the rules of their vendors."""
    settled = [result for result in results if isinstance(result, Settled)]
    left = tuple([result for result in results if isinstance(result, Unchanged)])
    for container in settled:
        _check_alone(container, left, settled, keys)
    if len(settled) > 1:
        _check_several(settled, policy)
    if any([container.translated for container in settled]):
        _name_containers(settled, keys.regular)
        if len(settled) > 1:
            _count_in_lists(settled)
    return _merged(settled, left, keys)


def _merged(
    settled: Sequence[Settled], left: tuple[Unchanged, ...], keys: PodKeys, others: Iterable[Settled] = ()
) -> PodResult:
    """Merge the results of a pod's containers; `others` are those of a second pass that are not the target's."""
    second_pass = {again.requested.position: again for again in others}
    findings = list(itertools.chain.from_iterable([container.findings for container in settled]))
    findings += filter(None, [each.finding for each in left])
    findings += _all_not_kept(settled, second_pass, keys)
    if len(settled) > 1:
        findings += _single_device_lost(settled)
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = dict.fromkeys([name for container in settled for name in container.dropped])
    if any([container.keys or container.translated for container in settled]):
        _merge_pod_keys(settled, keys, labels, annotations)
    return PodResult(tuple(settled), labels, annotations, tuple(findings), left, second_pass)


def _all_not_kept(settled: Sequence[Settled], second_pass: Mapping[int, Settled], keys: PodKeys) -> Iterator[Finding]:
    """Report what containers are not kept to, each by the vendor whose keys it has in the end."""
    for container in settled:
        unlimited = container.form.unlimited is not None or container.target.unlimited is not None
        if unlimited or container.requested.keys.init:
            again = second_pass.get(container.requested.position)
            owner = container.target if again is None else again.requested.vendor
            yield from _not_kept(container, owner, settled, keys)


def _not_kept(container: Settled, owner: Vendor, settled: Iterable[Settled], keys: PodKeys) -> Iterator[Finding]:
    """Report that a container is not kept to its request, or, by the owner of the written keys, the request for it."""
    requested = container.requested
    for why in filter(None, _unlimited(container, settled, keys)):
        yield Finding(Reason.LIMIT_NOT_KEPT, " ".join(why.split()), requested.name)
    if requested.keys.init and owner.init_containers == "ignored":
        message = f"{owner.system} serves no init containers: this one may get no device, or one without limits"
        yield Finding(Reason.LIMIT_NOT_KEPT, message, requested.name)
    elif requested.keys.sidecar and owner.native_sidecars == "freed":
        message = f"{owner.system} counts a native sidecar as an init container that ends: others may get its devices"
        yield Finding(Reason.LIMIT_NOT_KEPT, f"{message} while it runs", requested.name)


def _unlimited(container: Settled, settled: Iterable[Settled], keys: PodKeys) -> Iterator[str]:
    """Why a vendor enforces no limit: in the form of a container, and at all."""
    vendor, unlimited = container.target, container.target.unlimited
    if container.form.unlimited is not None:
        yield _form_after(container, settled).unlimited or ""
    if unlimited is not None and _limited(container):
        why, unless = (unlimited, {}) if isinstance(unlimited, str) else (unlimited.why, unlimited.unless)
        if not any(_has_text(vendor, name, text, keys) for name, text in unless.items()):
            yield why


def _form_after(container: Settled, settled: Iterable[Settled]) -> Form:
    """The form of a container's keys with the keys of the pod that are written for others."""
    vendor, own = container.target, container.requested.key_values
    if container.translated:
        return container.form
    written = [each for other in settled if other.target is vendor for each in other.keys]
    added = {key.name: KeyValue(key.name, name, text) for key, name, text in written}
    return form_of(vendor, {**own, **added}) or container.form


def _limited(container: Settled) -> bool:
    """Whether a container requests a limit that the vendor of no copy enforces."""
    request, copy = container.request, None if container.translated else container.requested.copy
    if copy is not None and copy.vendor.unlimited is None:
        return False
    return not request.whole and (request.memory, request.cores) != (UNLIMITED, UNLIMITED)


def _has_text(vendor: Vendor, key_name: str, text: str, keys: PodKeys) -> bool:
    """Whether the pod has a text in a key, or gets it from the vendor's mapping."""
    key = vendor.keys[key_name]
    written = (each for place, each in vendor.place.written.items() if place == key.place)
    sent = (keys.labels, keys.annotations, keys.node_selector)
    pairs = {pair for each in (*sent, *written) for pair in each.items()}
    return any((template.text, text) in pairs for template in key.spellings)


def _single_device_lost(settled: Sequence[Settled]) -> Iterator[Finding]:
    """Report containers that share one device under the source, and may get several under the target."""
    together = [
        container for container in settled if container.requested.vendor.one_device and not container.target.one_device
    ]
    if len(together) < 2:  # noqa: PLR2004  (one container has its device anyway)
        return
    source, target = together[0].requested.vendor, together[0].target
    on_one = f"{source.name} puts {_names(together)} on one device"
    if target.claim is None:
        message = f"{on_one}, {target.name} may use several: request in one container if that matters"
        yield Finding(Reason.SINGLE_DEVICE_LOST, message)
        return
    if target.claim.matching is None or not _fit_one_claim(together, source, target):
        message = f"{on_one}, which these claims of {target.name} cannot: request in one container"
        raise together[0].requested.deny(Reason.NO_EQUIVALENT, message)


def _fit_one_claim(together: Sequence[Settled], source: Vendor, target: Vendor) -> bool:
    """Whether containers can be requests of one claim, for shares of one device."""
    shares = [each for each in together if each.request.devices == 1 and not each.request.whole]
    alike = [each for each in shares if each.target is target and each.requested.vendor is source]
    return len(alike) == len(together) <= MAX_REQUESTS


def _merge_pod_keys(
    settled: Sequence[Settled], keys: PodKeys, labels: dict[str, str | None], annotations: dict[str, str | None]
) -> None:
    """Merge the labels and annotations that the targets need: one value for the pod, or a list by position."""
    present = {"label": keys.labels, "annotation": keys.annotations}
    needed: dict[tuple[str, str], tuple[Key, list[tuple[Settled, str]]]] = {}
    for container in settled:
        for key, name, text in container.keys:
            needed.setdefault((key.place, name), (key, []))[1].append((container, text))
    for (place, name), (key, texts) in needed.items():
        text = _listed(keys, texts) if key.listed else _common_value(key, name, texts)
        before, changes = present[place].get(name), labels if place == "label" else annotations
        if before is not None and key.listed:
            before = ",".join(map(str.strip, before.split(",")))
        if before == text:
            changes.pop(name, None)
        elif before is None or (place == "annotation" and name in annotations):
            changes[name] = text
        else:
            needs = f"{texts[0][0].target.name} needs {text!r}"
            message = f"{place} {name} is {before!r}, but {needs}: remove it, or write that"
            raise texts[0][0].requested.deny(Reason.LABEL_CONFLICT, message)
    for container in settled:
        _check_spare_counts(container, present, needed.keys())


def _check_spare_counts(
    container: Settled, present: Mapping[str, Mapping[str, str]], needed: Iterable[tuple[str, str]]
) -> None:
    """Deny a count of the user's that the target would read although it needs none."""
    devices = container.request.devices
    for key in container.target.keys.values() if container.translated else ():
        if "devices" not in key.dimensions or key.of_container:
            continue
        for template in key.spellings:
            text = present[key.place].get(template.text)
            if text is not None and (key.place, template.text) not in needed and text != str(devices):
                message = (
                    f"{key.place} {template.text} is {text!r}, but {container.target.name} needs {devices}: remove it"
                )
                raise container.requested.deny(Reason.LABEL_CONFLICT, message)


def _listed(keys: PodKeys, texts: list[tuple[Settled, str]]) -> str:
    by_name = {container.requested.name: text for container, text in texts}
    return ",".join(by_name.get(name, "0") for name in keys.regular)


def _common_value(key: Key, name: str, texts: list[tuple[Settled, str]]) -> str:
    different = {text for _, text in texts}
    if len(different) > 1:
        values = " and ".join(sorted(different))
        remedy = "keep the request of one" if "devices" in key.dimensions else "request the same in each"
        message = f"{name} holds for the whole pod, but its containers need {values}: {remedy}"
        raise texts[0][0].requested.deny(Reason.CONTAINERS_DISAGREE, message)
    return different.pop()


def _check_alone(container: Settled, left: tuple[Unchanged, ...], settled: Sequence[Settled], keys: PodKeys) -> None:
    """Check one container by what the rest of the pod is."""
    if container.requested.keys.init:
        _check_init(container)
    if left and container.translated:
        _check_stays(container, left)
    if container.target.excludes:
        _check_excluded(container, settled, keys)


def _check_init(container: Settled) -> None:
    source, target = container.requested.vendor, container.target
    if source.init_containers == "denied" or (container.translated and target.init_containers != "served"):
        name = source.name if source.init_containers == "denied" else target.name
        message = f"{name} does not serve init containers: move the request to a container"
        raise container.requested.deny(Reason.INIT_NOT_SERVED, message)


def _check_excluded(container: Settled, settled: Sequence[Settled], keys: PodKeys) -> None:
    """Check that the pod keeps no name with which the target takes none."""
    target, written = container.target, {each.requested.position: each.resources for each in settled}
    for position, other in enumerate(keys.containers):
        gone = written.get(position, {})
        for name, (limit, request) in other.resources.items():
            kept = name in target.excludes and name not in gone
            if kept and number_in(limit if limit is not None else request) != 0:
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


def _check_several(settled: Sequence[Settled], policy: Policy) -> None:
    """Check several containers by the rules of their source, and of their target."""
    _check_whole([container for container in settled if container.request.whole], policy)
    for vendor, group in grouped([(container.requested.vendor, container) for container in settled]):
        _check_source(vendor, group, policy)
    for vendor, group in grouped([(container.target, container) for container in settled]):
        _check_target(vendor, group)


def _check_whole(whole: Sequence[Settled], policy: Policy) -> None:
    """Check that one node can have the whole devices of containers that run side by side."""
    apart = [each for each in whole if each.target.containers != "shared" and not each.requested.keys.init]
    largest, devices = policy.settings.largest_node, sum(each.request.devices or 1 for each in apart)
    if largest is not None and len(apart) > 1 and devices > largest:
        names = " and ".join(each.requested.name for each in apart)
        message = f"containers {names} request {devices} whole devices of one node; the largest has {largest}"
        raise apart[-1].requested.deny(Reason.TOO_LARGE, message)


def _check_source(vendor: Vendor, group: Sequence[Settled], policy: Policy) -> None:
    """Check containers that request in the keys of one vendor."""
    if vendor.containers == "equal":
        requests = [(container, str(container.reading.request)) for container in group]
        _check_equal(vendor, requests, Reason.ONE_CONTAINER_ONLY)
        _check_sum(vendor, group, policy)
    moved = next((container for container in group if container.translated), None)
    if vendor.containers == "shared" and moved is not None:
        message = f"{vendor.name} allocates once for {_names(group)} together, {moved.target.name} would for each"
        raise moved.requested.deny(Reason.NO_EQUIVALENT, f"{message}: keep the request of one container")


def _check_target(vendor: Vendor, group: Sequence[Settled]) -> None:
    """Check containers that are written for one vendor, if any of them comes from another one."""
    moved = next((container for container in group if container.translated), None)
    if moved is None:
        return
    if vendor.containers == "equal":
        requests = [(container, str(container.request)) for container in group]
        _check_equal(vendor, requests, Reason.NO_EQUIVALENT)
    if vendor.containers in {"one", "shared"}:
        why = {
            "one": f"serves one container of a pod, but {_names(group)} request devices",
            "shared": f"would allocate once for {_names(group)} together, but each has a request of its own",
        }[vendor.containers]
        message = f"{vendor.name} {why}: keep the request of one container"
        raise moved.requested.deny(Reason.NO_EQUIVALENT, message)


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
        read(vendor, total, vendor.defaults, policy.most_memory, regular[0].requested.name)
    except Denied as denial:
        message = f"{vendor.name} adds up the requests of {_names(regular)}: {denial.finding.message}"
        raise deny(Reason.ONE_CONTAINER_ONLY, f"{message}; or keep the request of one container") from None


def _name_containers(settled: Iterable[Settled], regular: list[str]) -> None:
    """Name each translated container, if the target would assign keys of the pod to another one."""
    for container in settled:
        keys = container.target.keys.values() if container.translated else ()
        key = next((key for key in keys if key.kind == "container"), None)
        name = container.requested.name
        first = regular[:1] == [name] and key is not None and (key.absent == "first" or len(regular) == 1)
        if key is not None and not first:
            container.keys.append((key, key.spellings[0].text, name))


def _count_in_lists(settled: Iterable[Settled]) -> None:
    """Count each container's devices in a list by position that another one has: 0 there means that it requests none."""
    regular = [container for container in settled if not container.requested.keys.init]
    for target in {container.target.name: container.target for container in regular}.values():
        if not any([key.listed for key in target.keys.values()]):
            continue
        group = [container for container in regular if container.target is target]
        kept = [{} if each.translated else each.requested.all_key_values for each in group]
        lists = {name: key for each in group for key, name, _ in each.keys if key.listed}
        own = (entry for entries in kept for entry in entries.values())
        lists |= {entry.key: target.keys[entry.key_name] for entry in own if target.keys[entry.key_name].listed}
        for container, entries in zip(group, kept, strict=True):
            _count_in(lists, container, entries)


def _count_in(lists: Mapping[str, Key], container: Settled, own: Mapping[str, KeyValue]) -> None:
    """Count a container's devices in the lists that it does not write yet; one of its own keeps its text."""
    written = {name for _, name, _ in container.keys}
    for name, key in lists.items():
        if name not in written:
            text = own[key.name].text if key.name in own else str(container.request.devices)
            container.keys.append((key, name, text))
