"""The whole pod: settle every requesting container, merge their keys, and read the result as a second pass would.

This part depends only on the keys, the overrides and the policy.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from webhook import labels
from webhook.admission.collect import collect
from webhook.admission.left_alone import Left
from webhook.admission.overrides import Overrides
from webhook.admission.resolution import Resolution, keys_after, merge
from webhook.admission.settle import settle
from webhook.admission.settled import Settled
from webhook.admission.several import check_several
from webhook.admission.survey import PodKeys
from webhook.finding import Denied, Finding, deny
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default
from webhook.mapping.requests.defaults import fewer
from webhook.quantity import Number, QuantityError, parse_quantity
from webhook.reasons import Reason
from webhook.request import Dimension


def resolve(keys: PodKeys, overrides: Overrides, policy: Policy) -> Resolution:
    """Resolve a pod's keys.

    Raises:
        Denied: a container is denied, or what would be written would be read differently.
    """
    settled, left = _settle_all(keys, overrides, policy)
    try:
        return _checked(settled, left, keys, overrides, policy)
    except Denied as denial:
        shared = {container.requested.position: _shared_defaults(container) for container in settled}
        for applied in fewer({name: default for defaults in shared.values() for name, default in defaults.items()}):
            without = {position: defaults.keys() - applied.keys() for position, defaults in shared.items()}
            if not any(without.values()):
                continue
            try:
                resolution = _checked(*_settle_all(keys, overrides, policy, without), keys, overrides, policy)
            except Denied:
                continue
            not_applied = [
                Finding(
                    Reason.DEFAULT_NOT_APPLIED,
                    f"{shared[requested.position][dimension].named(dimension)} was not applied: {denial.finding.message}",
                    requested.name,
                    f"{labels.DEFAULT_PREFIX}{dimension}",
                )
                for requested in (container.requested for container in resolution.settled)
                for dimension in sorted(without[requested.position])
            ]
            return replace(resolution, findings=(*resolution.findings, *not_applied))
        raise


def _shared_defaults(container: Settled) -> dict[Dimension, Default]:
    """The namespace's defaults of a container that writes labels or annotations, which apply to the whole pod."""
    if not container.keys:
        return {}
    return {name: default for name, default in container.filled.items() if default.origin == "namespace"}


def _settle_all(
    keys: PodKeys, overrides: Overrides, policy: Policy, without: Mapping[int, Collection[Dimension]] | None = None
) -> tuple[list[Settled], tuple[Left, ...]]:
    """Settle every requesting container separately; `without` the namespace's defaults of some dimensions, by position."""
    results = [
        settle(container, overrides, policy, (without or {}).get(container.position, ()))
        for container in collect(keys, policy)
    ]
    settled = [result for result in results if isinstance(result, Settled)]
    left = tuple(result for result in results if isinstance(result, Left))
    for container in settled:
        _check_init(container)
        _check_stays(container, left)
    check_several(settled, policy)
    regular = [container.name for container in keys.containers if not container.init]
    for container in settled:
        if container.translated:
            _name_container(container, regular)
    return settled, left


def _check_init(container: Settled) -> None:
    if not container.requested.keys.init:
        return
    source, target = container.requested.vendor, container.target
    if source.denies_init_containers or (container.translated and not target.serves_init_containers):
        name = source.name if source.denies_init_containers else target.name
        message = f"{name} does not serve init containers: move the request to a container"
        raise container.requested.deny(Reason.INIT_NOT_SERVED, message)


def _check_stays(container: Settled, left: tuple[Left, ...]) -> None:
    """Check that no container is translated while another one needs the scheduler of the same source.

    Raises:
        Denied: it is, and the other container could then not be served.
    """
    source = container.requested.vendor
    stays = next((other for other in left if other.placed and other.requested.vendor is source), None)
    if container.translated and stays is not None:
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


def _checked(
    settled: list[Settled], left: tuple[Left, ...], keys: PodKeys, overrides: Overrides, policy: Policy
) -> Resolution:
    """Merge containers, and check the result by a second pass.

    Raises:
        Denied: they do not fit together, or the result would be changed again or mean something else.
    """
    first = merge(settled, left, keys)
    if first.changes or any(container.translated for container in first.settled):
        second = _second_pass(first, keys, overrides, policy)
        return replace(first, second_pass=_differences(first, second))
    return first


def _differences(first: Resolution, second: Resolution) -> dict[int, Settled]:
    """The containers that a second pass finds in another vendor's keys than the target's, or with another target."""
    return {
        again.requested.position: again
        for before, again in zip(first.settled, second.settled, strict=True)
        if again.requested.vendor is not before.target or again.target is not before.target
    }


def _second_pass(first: Resolution, keys: PodKeys, overrides: Overrides, policy: Policy) -> Resolution:
    """Read the result as the active vendors of its names will.

    Raises:
        Denied: it would be changed again, or mean something else.
    """
    after = keys_after(first, keys)
    try:
        second = merge(*_settle_all(after, overrides, policy), after)
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
    annotations = dict(after.annotations)
    changed = {name for name, text in second.annotations.items() if annotations.get(name) != text}
    if second.labels or changed:
        message = f"the resulting request would be changed again: {', '.join([*second.labels, *changed])}"
        raise deny(Reason.READ_BACK_DIFFERS, message)
    return second


def _rewrites(container: Settled, keys: PodKeys) -> bool:
    """Whether a second pass would write other numbers."""
    resources = {
        name: (limit, request) for name, limit, request in keys.containers[container.requested.position].resources
    }
    for name, number in container.resources.items():
        limit, request = resources.get(name, (None, None))
        if number is None:
            if name in resources:
                return True
        elif _number(limit) != number or _number(request) != number:
            return True
    return False


def _number(text: str | None) -> Number | None:
    try:
        return None if text is None else parse_quantity(text)
    except QuantityError:
        return None
