"""The whole pod: settle every requesting container, merge the keys of the pod, and read the result as a second pass would.

This part depends only on the keys, the overrides and the policy.
"""

from collections.abc import Container, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from webhook import labels
from webhook.admission.collect import collect
from webhook.admission.left_alone import Left
from webhook.admission.overrides import Overrides
from webhook.admission.settle import Settled, settle
from webhook.admission.several import check_several
from webhook.admission.survey import PodKeys
from webhook.finding import Denied, Finding, deny
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Key, Vendor
from webhook.mapping.requests.defaults import fewer
from webhook.quantity import Number, QuantityError, parse_quantity
from webhook.reasons import Reason
from webhook.request import Dimension


class Resolution(msgspec.Struct, frozen=True):
    """The resolution of a pod's keys.

    Attributes:
        settled: the requesting containers, in order.
        labels, annotations: keys to write, or (None) to remove.
        findings: warnings, in the order of the containers.
        left: the requesting containers that are left unchanged.
        elsewhere: by position, what a second pass makes of containers whose keys then are another vendor's than the target,
            or are written for another target: an inactive target's keys are read by whoever owns them.
    """

    settled: tuple[Settled, ...]
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}
    findings: tuple[Finding, ...] = ()
    left: tuple[Left, ...] = ()
    elsewhere: dict[int, Settled] = {}

    @property
    def vendors(self) -> tuple[Vendor, ...]:
        """The vendors whose keys are read or written, each once."""
        every = (*self.settled, *self.elsewhere.values())
        found = {vendor.name: vendor for one in every for vendor in (one.requested.vendor, one.target)}
        return tuple(found.values())

    @property
    def marks(self) -> tuple[bytes, ...]:
        """What stands in undecoded volumes or mounts that could meet the shim of any of these vendors."""
        shims = [vendor.shim for vendor in self.vendors if vendor.shim is not None]
        return tuple(dict.fromkeys(mark for shim in shims for one in shim.deliveries for mark in one.marks))

    @property
    def vendor_names(self) -> tuple[str, ...]:
        """The vendors whose keys request."""
        return tuple(dict.fromkeys(one.requested.vendor.name for one in self.settled))

    def passes(self, one: Settled) -> tuple[Settled, ...]:
        """A container of `settled`, and what a second pass makes of it where that is another vendor's."""
        again = self.elsewhere.get(one.requested.position)
        return (one,) if again is None else (one, again)

    @property
    def changes(self) -> bool:
        """Whether anything is written or removed."""
        return bool(self.labels or self.annotations or any(one.resources for one in self.settled))


def resolve(keys: PodKeys, given: Overrides, policy: Policy) -> Resolution:
    """The resolution of a pod's keys.

    Raises:
        Denied: a container is refused, or what would be written would be read differently.
    """
    settled, left = _settle_all(keys, given, policy)
    try:
        return _checked(settled, left, keys, given, policy)
    except Denied as refusal:
        shared = {one.requested.position: _shared_defaults(one) for one in settled}
        for kept in fewer({name: default for defaults in shared.values() for name, default in defaults.items()}):
            without = {position: defaults.keys() - kept.keys() for position, defaults in shared.items()}
            if not any(without.values()):
                continue
            try:
                resolution = _checked(*_settle_all(keys, given, policy, without), keys, given, policy)
            except Denied:
                continue
            told = [
                Finding(
                    Reason.DEFAULT_NOT_APPLIED,
                    f"{shared[one.requested.position][dimension].named(dimension)} was not applied: {refusal.finding.message}",
                    one.requested.name,
                    f"{labels.DEFAULT_PREFIX}{dimension}",
                )
                for one in resolution.settled
                for dimension in sorted(without[one.requested.position])
            ]
            return replace(resolution, findings=(*resolution.findings, *told))
        raise


def _elsewhere(first: Resolution, second: Resolution) -> dict[int, Settled]:
    return {
        again.requested.position: again
        for one, again in zip(first.settled, second.settled, strict=True)
        if again.requested.vendor is not one.target or again.target is not one.target
    }


def _shared_defaults(one: Settled) -> dict[Dimension, Default]:
    """The namespace's defaults of a container that writes labels or annotations, which hold for the whole pod."""
    return {name: default for name, default in one.filled.items() if one.keys and default.origin == "namespace"}


def _settle_all(
    keys: PodKeys, given: Overrides, policy: Policy, without: Mapping[int, Container[Dimension]] | None = None
) -> tuple[list[Settled], tuple[Left, ...]]:
    """Settle every requesting container separately; `without` the namespace's defaults of some dimensions, by position."""
    every = [
        settle(asking, given, policy, (without or {}).get(asking.position, ())) for asking in collect(keys, policy)
    ]
    settled = [one for one in every if isinstance(one, Settled)]
    left = tuple(one for one in every if isinstance(one, Left))
    for one in settled:
        _check_init(one)
        _check_stays(one, left)
    check_several(settled, policy)
    regular = [container.name for container in keys.containers if not container.init]
    for one in settled:
        if one.translated:
            _name_asker(one, regular)
    return settled, left


def _check_init(one: Settled) -> None:
    if not one.requested.keys.init:
        return
    source, target = one.requested.vendor, one.target
    if source.refuses_init or (one.translated and not target.serves_init):
        name = source.name if source.refuses_init else target.name
        message = f"{name} does not serve init containers: move the request to a container"
        raise one.requested.deny(Reason.INIT_NOT_SERVED, message)


def _check_stays(one: Settled, left: tuple[Left, ...]) -> None:
    """A container is not moved away from who serves another one of the pod in the keys of the same vendor.

    Raises:
        Denied: it would be, and the other one could then not be served.
    """
    stays = next((other for other in left if other.placed and other.requested.vendor is one.requested.vendor), None)
    if one.translated and stays is not None:
        message = (
            f"container {stays.requested.name} stays in its keys ({stays.why}), but this one would be translated to"
        )
        raise one.requested.deny(
            Reason.CONTAINERS_DISAGREE, f"{message} {one.target.name}: split the pod, or set no target"
        )


def _checked(
    settled: list[Settled], left: tuple[Left, ...], keys: PodKeys, given: Overrides, policy: Policy
) -> Resolution:
    first = _merged(settled, left, keys)
    if first.changes or any(one.translated for one in first.settled):
        second = _second_pass(first, keys, given, policy)
        return replace(first, elsewhere=_elsewhere(first, second))
    return first


def _merged(settled: list[Settled], left: tuple[Left, ...], keys: PodKeys) -> Resolution:
    findings = [finding for one in settled for finding in one.findings]
    findings.extend(_one_card_lost(settled))
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {key: None for one in settled for key in one.dropped}
    _merge_pod_words(settled, keys, labels, annotations)
    return Resolution(tuple(settled), labels, annotations, tuple(findings), left)


def _name_asker(one: Settled, regular: list[str]) -> None:
    """Says which container asks, where the target's keys hold for the pod and would be taken for another one's."""
    word = next((word for word in one.target.keys.values() if word.kind == "container"), None)
    if word is None or (regular[:1] == [one.requested.name] and (word.absent == "first" or len(regular) == 1)):
        return
    one.keys.append((word, word.spellings[0].text, one.requested.name))


def _one_card_lost(settled: list[Settled]) -> Iterable[Finding]:
    """Containers that the source puts on one device, and the target anywhere."""
    together = [one for one in settled if one.requested.vendor.together and not one.target.together]
    if len(together) > 1:
        names = ", ".join(one.requested.name for one in together)
        source, target = together[0].requested.vendor.name, together[0].target.name
        yield Finding(
            Reason.ONE_CARD_LOST,
            f"{source} puts {names} on one device, {target} may use several: request in one container if that matters",
        )


def _merge_pod_words(
    settled: list[Settled], keys: PodKeys, labels: dict[str, str | None], annotations: dict[str, str | None]
) -> None:
    """Labels and annotations that the targets need: one value for the pod, or a list by position."""
    there = {"label": dict(keys.labels), "annotation": dict(keys.annotations)}
    wanted: dict[tuple[str, str], tuple[Key, list[tuple[Settled, str]]]] = {}
    for one in settled:
        for word, key, text in one.keys:
            wanted.setdefault((word.place, key), (word, []))[1].append((one, text))
    for (place, key), (word, texts) in wanted.items():
        text = _listed(keys, texts) if word.listed else _agreed(key, texts)
        before = there[place].get(key)
        changes = labels if place == "label" else annotations
        if before is not None and before != text and (place == "label" or key not in annotations):
            message = f"{place} {key} is {before!r}, but the target needs {text!r}: remove it, or write that"
            raise texts[0][0].requested.deny(Reason.LABEL_CONFLICT, message)
        if before == text:
            changes.pop(key, None)
        else:
            changes[key] = text
    for one in settled:
        if one.translated:
            _check_spare_counts(one, there, wanted.keys())


def _check_spare_counts(one: Settled, there: dict[str, dict[str, str]], wanted: Iterable[tuple[str, str]]) -> None:
    """Deny a count of the user's that the target would read although it needs none."""
    for word in one.target.keys.values():
        if "devices" not in word.dimensions or word.place == "resource":
            continue
        for template in word.spellings:
            text = there[word.place].get(template.text)
            if text is not None and (word.place, template.text) not in wanted and text != str(one.request.devices):
                message = (
                    f"{word.place} {template.text} is {text!r}, but the target needs {one.request.devices}: remove it"
                )
                raise one.requested.deny(Reason.LABEL_CONFLICT, message)


def _listed(keys: PodKeys, texts: list[tuple[Settled, str]]) -> str:
    by_name = {one.requested.name: text for one, text in texts}
    return ",".join(by_name.get(container.name, "0") for container in keys.containers if not container.init)


def _agreed(key: str, texts: list[tuple[Settled, str]]) -> str:
    different = {text for _, text in texts}
    if len(different) > 1:
        values = " and ".join(sorted(different))
        message = f"{key} holds for the whole pod, but its containers need {values}: request the same in each"
        raise texts[0][0].requested.deny(Reason.CONTAINERS_DISAGREE, message)
    return different.pop()


def _second_pass(first: Resolution, keys: PodKeys, given: Overrides, policy: Policy) -> Resolution:
    """Read the result as the active vendors of its names will.

    Raises:
        Denied: it would be changed again, or mean something else.
    """
    after = words_after(first, keys)
    try:
        second = _merged(*_settle_all(after, given, policy), after)
    except Denied as refusal:
        message = f"the resulting request would be denied: {refusal.finding.message}"
        raise deny(Reason.READ_BACK_DIFFERS, message, container=refusal.finding.container) from None
    meant = {one.requested.position: one for one in first.settled}
    for one in second.settled:
        before = meant.pop(one.requested.position, None)
        # For an inactive target, what the active vendor reads may differ although it is written again as it stands.
        if before is None or {one.reading.request, one.request} != {before.request} or _moves(one, after):
            asked = before.request if before is not None else "nothing"
            message = f"the resulting request would be read as {one.reading.request} instead of {asked}"
            raise one.requested.deny(Reason.READ_BACK_DIFFERS, message)
    if meant:
        lost = next(iter(meant.values()))
        raise lost.requested.deny(
            Reason.READ_BACK_DIFFERS, f"the resulting keys of {lost.target.name} would request nothing"
        )
    there = dict(after.annotations)
    changed = {key for key, text in second.annotations.items() if there.get(key) != text}
    if second.labels or changed:
        message = f"the resulting request would be changed again: {', '.join([*second.labels, *changed])}"
        raise deny(Reason.READ_BACK_DIFFERS, message)
    return second


def _moves(one: Settled, keys: PodKeys) -> bool:
    """Whether a second pass would write other numbers."""
    there = {name: (limit, request) for name, limit, request in keys.containers[one.requested.position].resources}
    for name, number in one.resources.items():
        limit, request = there.get(name, (None, None))
        if number is None:
            if name in there:
                return True
        elif _number(limit) != number or _number(request) != number:
            return True
    return False


def _number(text: str | None) -> Number | None:
    try:
        return None if text is None else parse_quantity(text)
    except QuantityError:
        return None


def words_after(resolution: Resolution, keys: PodKeys) -> PodKeys:
    """The keys as they will stand once the resolution is written."""
    containers = list(keys.containers)
    for one in resolution.settled:
        position = one.requested.position
        container = containers[position]
        kept = [entry for entry in container.resources if entry[0] not in one.resources]
        added = [(name, str(number), str(number)) for name, number in one.resources.items() if number is not None]
        containers[position] = container._replace(resources=(*kept, *added))
    return PodKeys(
        tuple(containers),
        _after(keys.labels, resolution.labels),
        _after(keys.annotations, resolution.annotations),
        keys.node_selector,
    )


def _after(there: tuple[tuple[str, str], ...], changes: dict[str, str | None]) -> tuple[tuple[str, str], ...]:
    merged: dict[str, str | None] = {**dict(there), **changes}
    return tuple((key, text) for key, text in merged.items() if text is not None)
