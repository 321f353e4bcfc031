"""What to write instead of a pod that is refused: candidates that follow from the reason, each tried before it is shown.

Nothing is guessed: a candidate asks for no less than the pod does, keeps its container's other words, and counts only where
the corrected pod is not refused any more.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

import msgspec

from webhook.admission.context import Context
from webhook.admission.engine import decide
from webhook.admission.explanation import Correction
from webhook.admission.orders import TARGET
from webhook.finding import Finding
from webhook.mapping.policy import MIB, Policy
from webhook.mapping.refusal import spelling
from webhook.mapping.said import Said, form_of
from webhook.mapping.vendor import Condition, Form, Vendor, Word
from webhook.patch import Slot, slots
from webhook.pod import Container, Pod, QuantityText, Resources, View, decode_env
from webhook.quantity import Number, QuantityError, ceil_to, parse_quantity, simplest
from webhook.reasons import Reason

MAX_TRIES: Final = 64
"""Pods that are tried for one correction."""

MAX_STEPS: Final = 3
"""Refusals that are corrected one after the other."""

_NUMBERS: Final = {
    Reason.NOT_WHOLE,
    Reason.NOT_LEGAL,
    Reason.NOT_DIVISIBLE,
    Reason.TOO_LARGE,
    Reason.REFUSED_BY_VENDOR,
    Reason.ZERO_DEVICES,
}
"""Refusals that another number may help."""


_View = TypeVar("_View", bound=View)


def correction(pod: Pod, context: Context, policy: Policy, denial: Finding) -> Correction | None:
    """The least that has to change for the pod not to be refused, if that is known.

    Args:
        pod: that is refused.
        context: as for `decide`.
        policy: as for `decide`.
        denial: why it is refused.
    """
    tries = 0
    waiting = [(pod, denial)]
    for _ in range(MAX_STEPS):
        next_ones: list[tuple[Pod, Finding]] = []
        for refused, why in waiting:
            for candidate in _candidates(refused, policy, why):
                tries += 1
                if tries > MAX_TRIES:
                    return None
                decision = decide(candidate, context, policy)
                if decision.denial is None and decision.account:
                    return _difference(pod, candidate, policy)
                if decision.denial is not None and decision.denial != why:
                    next_ones.append((candidate, decision.denial))
        waiting = next_ones
    return None


def _candidates(pod: Pod, policy: Policy, denial: Finding) -> Iterator[Pod]:
    """Pods that answer the refusal, the likeliest first."""
    reason = denial.reason
    spec = pod.spec
    if reason is Reason.NODE_NAME and spec.node_name:
        selector = {**(spec.node_selector or {}), "kubernetes.io/hostname": spec.node_name}
        yield _with_spec(pod, node_name=None, node_selector=selector)
    elif reason is Reason.SCHEDULER_CONFLICT:
        yield _with_spec(pod, scheduler_name=None)
    elif reason is Reason.UNKNOWN_TARGET and denial.field == TARGET and denial.value:
        names = [vendor.name for vendor in policy.vendors.values() if vendor.target]
        for name in difflib.get_close_matches(denial.value, names, n=1):
            annotations = {**(pod.metadata.annotations or {}), TARGET: name}
            yield _replace(pod, metadata=_replace(pod.metadata, annotations=annotations))
    for slot in slots(pod):
        if slot.name == denial.container:
            for container in _containers(pod, slot, policy, denial):
                yield _with_container(pod, slot, container)


def _containers(pod: Pod, slot: Slot, policy: Policy, denial: Finding) -> Iterator[Container]:
    """The refused container, corrected in the ways that its reason suggests."""
    container, reason, field = slot.container, denial.reason, denial.field or ""
    inside = field.partition("[")[2].removesuffix("]")
    if reason is Reason.PRIVILEGED:
        yield _replace(container, security_context=None)
    elif reason in {Reason.GUARDED, Reason.COLLISION} and field.startswith("env["):
        kept = [entry for entry in msgspec.json.decode(container.env) if entry.get("name") != inside]
        yield _replace(container, env=msgspec.Raw(msgspec.json.encode(kept)))
    elif reason is Reason.NEAR_MISS and (near := policy.near.look(inside)) is not None:
        yield _renamed(container, inside, near.meant)
    elif reason is Reason.LIMIT_DIFFERS and container.resources is not None:
        limits = container.resources.limits or {}
        requests = container.resources.requests or {}
        same = {
            key: limits[key] if key in limits and policy.resources.owners(key) else requests[key] for key in requests
        }
        yield _replace(container, resources=_replace(container.resources, requests=same))
    elif reason in _NUMBERS:
        yield from _with_other_numbers(pod, container, policy, denial)


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one vendor in a container, with the labels that say how many cards."""

    vendor: Vendor
    said: dict[str, Said]
    counts: tuple[Number, ...]


def _words(pod: Pod, container: Container, policy: Policy) -> _Words | None:
    resources = container.resources or Resources()
    said: dict[str, Said] = {}
    vendor: Vendor | None = None
    for key, quantity in {**(resources.requests or {}), **(resources.limits or {})}.items():
        owners = policy.resources.owners(key)
        if not owners:
            continue
        vendor = policy.vendors[owners[0].vendor]
        try:
            number = parse_quantity(str(quantity))
        except QuantityError:
            continue
        said[owners[0].word] = Said(owners[0].word, key, str(quantity), number, owners[0].binding)
    if vendor is None:
        return None
    counts = [one.number for one in said.values() if "devices" in vendor.words[one.word].dimensions]
    for key, text in (pod.metadata.labels or {}).items():
        if text.isdigit() and any(owner.vendor == vendor.name for owner in policy.labels.owners(key)):
            counts.append(int(text))
    return _Words(vendor, said, tuple(counts))


def _with_other_numbers(pod: Pod, container: Container, policy: Policy, denial: Finding) -> Iterator[Container]:
    words = _words(pod, container, policy)
    if words is None:
        return
    vendor = words.vendor
    refusing = form_of(vendor, {name: said for name, said in words.said.items() if said.number})
    by_form = denial.reason is Reason.REFUSED_BY_VENDOR and refusing is not None and refusing.deny is not None
    if not by_form or "{above}" in ((refusing.deny if refusing else None) or ""):
        # What the refusal is about first, and the nearest number first.
        for said in sorted(words.said.values(), key=lambda one: one.key != denial.field):
            for number in sorted(_numbers(vendor, said, words, policy.largest_card)):
                yield _with_number(container, said.key, number)
    missing = denial.reason is Reason.ZERO_DEVICES
    conditions: tuple[Condition, ...] = refusing.when if by_form and refusing is not None else ()
    for name in vendor.by_dimension["devices"]:
        word = vendor.words[name]
        if word.place == "resource" and (missing or any(_needs(condition, name) for condition in conditions)):
            binding = {key: value for said in words.said.values() for key, value in said.binding}
            key = words.said[name].key if name in words.said else spelling(word, binding)
            yield _with_number(container, key, 1)
    for condition in conditions:
        for name in condition.words:
            if name in words.said and condition.present:
                yield _with_number(container, words.said[name].key, None)


def _needs(condition: Condition, word: str) -> bool:
    return word in condition.words and condition.absent and not condition.present


def _numbers(vendor: Vendor, said: Said, words: _Words, largest_card: int) -> set[Number]:
    """Other numbers of a word that could have been meant: never less, unless its unit was taken for another."""
    found: set[Number] = set()
    for form in vendor.forms:
        if form.deny is None:
            found.update(_legal(form, form.words[said.word], said.number, words.counts))
    found = {number for number in found if number > said.number}
    word = vendor.words[said.word]
    if word.unit is not None and word.sized:
        for meant in (said.number, said.number * MIB):
            if word.unit <= meant <= largest_card:
                found.add(ceil_to(Fraction(meant) / word.unit, 1))
    elif word.unit is not None and word.kind == "amount" and "devices" not in word.dimensions:
        found.add(simplest(Fraction(100) / word.unit))
    return found - {said.number}


def _legal(form: Form, word: Word, number: Number, counts: tuple[Number, ...]) -> Iterator[Number]:
    """The nearest numbers above that a form takes."""
    for condition in form.when:
        if condition.words == (word.name,) and condition.numbers is not None:
            above = condition.numbers.ceil(number)
            if above is not None:
                yield above
    for devices in (1, *(count for count in counts if word.total and count > 1)):
        share: Number | None = ceil_to(Fraction(number) / devices, word.grain)
        if word.values is not None and share is not None:
            share = word.values.ceil(share)
        if share is not None:
            yield simplest(share * devices)


def _with_number(container: Container, key: str, number: Number | None) -> Container:
    """The container with a resource at a number, in limits and wherever else it stands; None takes it away."""
    resources = container.resources or Resources()
    limits, requests = dict(resources.limits or {}), dict(resources.requests or {})
    if number is None:
        limits.pop(key, None)
        requests.pop(key, None)
    else:
        text: QuantityText = number if isinstance(number, int) else str(float(number))
        if key in requests:
            requests[key] = text
        if key in limits or key not in requests:
            limits[key] = text
    return _with_resources(container, limits, requests)


def _renamed(container: Container, key: str, meant: str) -> Container:
    resources = container.resources or Resources()
    limits, requests = (
        {meant if name == key else name: value for name, value in (side or {}).items()}
        for side in (resources.limits, resources.requests)
    )
    return _with_resources(container, limits, requests)


def _with_resources(
    container: Container, limits: dict[str, QuantityText], requests: dict[str, QuantityText]
) -> Container:
    return _replace(container, resources=Resources(limits or None, requests or None))


def _with_container(pod: Pod, slot: Slot, container: Container) -> Pod:
    there = pod.spec.containers if slot.kind == "containers" else pod.spec.init_containers or []
    changed = [container if index == slot.position else one for index, one in enumerate(there)]
    return _with_spec(pod, **{"containers" if slot.kind == "containers" else "init_containers": changed})


def _with_spec(pod: Pod, **members: Any) -> Pod:
    return _replace(pod, spec=_replace(pod.spec, **members))


def _replace(view: _View, **members: Any) -> _View:
    return msgspec.structs.replace(view, **members)


def _difference(before: Pod, after: Pod, policy: Policy) -> Correction:
    """What is different, as a part of a manifest."""
    manifest: dict[str, Any] = {}
    without: list[str] = []
    annotations = after.metadata.annotations or {}
    if annotations != (before.metadata.annotations or {}):
        manifest["metadata"] = {"annotations": {TARGET: annotations[TARGET]}}
    spec: dict[str, Any] = {}
    if after.spec.node_name != before.spec.node_name:
        without.append("spec.nodeName")
        spec["nodeSelector"] = after.spec.node_selector
    if after.spec.scheduler_name != before.spec.scheduler_name:
        without.append("spec.schedulerName")
    for old, new in zip(slots(before), slots(after), strict=True):
        if old.container != new.container:
            shown = _container_difference(old, new, policy, without)
            if shown:
                spec.setdefault(new.kind, []).append({"name": new.name, **shown})
    if spec:
        manifest["spec"] = spec
    return Correction(manifest, tuple(without))


def _container_difference(before: Slot, after: Slot, policy: Policy, without: list[str]) -> dict[str, Any]:
    old, new = before.container, after.container
    if old.security_context != new.security_context:
        without.append(f"securityContext.privileged of container {old.name}")
    kept = [entry.name for entry in decode_env(new.env)]
    without.extend(
        f"env {entry.name} of container {old.name}" for entry in decode_env(old.env) if entry.name not in kept
    )
    if old.resources == new.resources or new.resources is None:
        return {}
    shown: dict[str, dict[str, QuantityText]] = {}
    for side in ("limits", "requests"):
        was = getattr(old.resources, side) or {}
        now = getattr(new.resources, side) or {}
        words = {key: value for key, value in now.items() if policy.resources.owners(key)}
        if words:
            shown[side] = words
        without.extend(f"{key} of container {old.name}, in {side}" for key in was if key not in now)
    return {"resources": shown} if shown else {}
