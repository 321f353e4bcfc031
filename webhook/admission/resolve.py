"""The whole pod: settle every requesting container, merge their keys, and read the result as a second pass would.

This part depends only on the keys, the overrides and the policy.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from webhook.admission.advice import advised
from webhook.admission.collect import collect
from webhook.admission.overrides import Overrides, target_of
from webhook.admission.settle import settle
from webhook.admission.settled import Settled, Unchanged, not_applied
from webhook.admission.survey import Claimed, PodKeys, changed
from webhook.admission.together import PodResult, number_in, together
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.values import NoWholeNumber, fewer
from webhook.quantity import Number
from webhook.reasons import Denied, Finding, Reason, deny
from webhook.request import Dimension

MAX_ENTRIES: Final = 256
"""Keys of a pod beyond which no advice is tried: no honest pod has as many, and each try takes as long as the decision."""

_Without: TypeAlias = Mapping[int, Collection[Dimension]]
"""The dimensions for which a container, by position, goes without the namespace's default."""


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
            not_applied = tuple(_not_applied(results, without, denial.finding.message))
            return replace(resolution, findings=(*resolution.findings, *not_applied))
        raise


def _settle_each(keys: PodKeys, overrides: Overrides, policy: Policy, without: _Without) -> list[Settled | Unchanged]:
    """Settle every requesting container separately."""
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


def _fewer_defaults(
    results: Sequence[Settled | Unchanged], namespace: Mapping[Dimension, Default | None]
) -> Iterator[_Without]:
    """Yield what to leave out: first of containers that write keys of the whole pod, then of all."""
    settled = [result for result in results if isinstance(result, Settled)]
    writing = [container for container in settled if container.keys]
    yield from _fewer_of(writing, namespace) if len(writing) < len(settled) else ()
    yield from _fewer_of(settled, namespace)


def _fewer_of(group: Sequence[Settled], namespace: Mapping[Dimension, Default | None]) -> Iterator[_Without]:
    """Yield what some containers leave out, less and less of the namespace's defaults."""
    defaults = {each.requested.position: _of_namespace(each, namespace) for each in group}
    every = {dimension for dimensions in defaults.values() for dimension in dimensions}
    for applied in fewer(dict.fromkeys(every)):
        without = {position: dimensions - applied.keys() for position, dimensions in defaults.items()}
        if any(without.values()):
            yield without


def _of_namespace(settled: Settled, namespace: Mapping[Dimension, Default | None]) -> set[Dimension]:
    """The dimensions in which the namespace decides what a container gets: it fills one in, or (None) has nothing do so."""
    filled, vendor = settled.reading.filled, settled.requested.vendor
    open_ones = vendor.defaults.keys() - settled.reading.specified
    return {
        dimension
        for dimension, default in namespace.items()
        if (
            dimension in open_ones
            if default is None
            else dimension in filled and filled[dimension].origin == "namespace"
        )
    }


def _not_applied(results: Sequence[Settled | Unchanged], without: _Without, why: str) -> Iterator[Finding]:
    for result in results:
        if isinstance(result, Settled):
            for dimension in sorted(without.get(result.requested.position, ())):
                yield not_applied(result.requested, dimension, result.reading.filled.get(dimension), why)


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
    first = together(results, keys, policy)
    if not first.changes and not any([container.translated for container in first.settled]):
        return first
    if _read_already(first, keys, overrides, policy):
        return first
    second = _second_pass(first, keys, overrides, policy)
    return replace(first, second_pass=_differences(first, second))


def _read_already(first: PodResult, keys: PodKeys, overrides: Overrides, policy: Policy) -> bool:
    """Whether translating has already read what a second pass would read: each container's new keys alone, nothing else."""
    if first.left or first.labels or first.annotations or keys.of_pod:
        return False
    several = len(first.settled) > 1
    return all(
        [
            _reads_alone(container, policy, several=several)
            and target_of(container.target, overrides, policy) is container.target
            for container in first.settled
        ]
    )


def _reads_alone(container: Settled, policy: Policy, *, several: bool) -> bool:
    """Whether a container has new keys only, and these are read by the target alone, which takes it by itself."""
    target, before = container.target, container.requested.keys
    if not container.translated or before.perhaps:
        return False
    if several and target.containers != "any":
        return False
    if before.init and target.init_containers == "denied":
        return False
    return before.resources.keys() <= container.resources.keys() and _reads(target, container.resources, policy)


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
        second = together(_settle_each(after, overrides, policy, {}), after, policy)
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
    expected = {container.requested.position: container for container in first.settled}
    for again in second.settled:
        before = expected.pop(again.requested.position, None)
        # For an inactive target, what the active vendor reads may differ although it is written again unchanged.
        if before is None or {again.reading.request, again.request} != {before.request} or _rewrites(again, after):
            raise again.requested.deny(Reason.READ_BACK_DIFFERS, _read_otherwise(before, again))
    for lost in expected.values():
        message = f"the resulting keys of {lost.target.name} would request nothing"
        raise lost.requested.deny(Reason.READ_BACK_DIFFERS, message)


def _read_otherwise(before: Settled | None, again: Settled) -> str:
    """What a second pass makes of a request."""
    vendor, found = again.requested.vendor, again.reading.request
    if before is None:
        return f"the resulting request would be read as {found} instead of nothing"
    by = "" if vendor is before.target else f" by {vendor.name}"
    differs = f" instead of {before.request}" if before.request != found else ", and changed again"
    return f"the resulting request would be read{by} as {found}{differs}"


def _rewrites(container: Settled, keys: PodKeys) -> bool:
    """Whether a second pass would write other numbers."""
    before = keys.containers[container.requested.position]
    if before.claimed is not None and before.claimed.entries != tuple(container.claim.values()):
        return True
    return any(
        name in before.resources
        if number is None
        else {*map(number_in, before.resources.get(name, (None,)))} != {number}
        for name, number in container.resources.items()
    )
