"""What to write instead of a denied pod: candidates that follow from the reason, each tried before it is shown.

Nothing is guessed: a candidate requests no less than the pod does, keeps the other keys of its container, and counts only if
the corrected pod is not denied.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

import msgspec

from webhook import labels
from webhook.admission.decision import Context
from webhook.admission.engine import decide
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Condition, Form, Key, Vendor
from webhook.mapping.requests.denials import gibibytes_meant, share_keys, share_meant, sizes_meant
from webhook.mapping.requests.values import KeyValue, form_of
from webhook.patch import Slot, slots
from webhook.pod import Container, Pod, QuantityText, Resources, View, decode_env
from webhook.quantity import Number, QuantityError, ceil_to, parse_quantity, simplest
from webhook.reasons import Finding, Reason


@dataclass(frozen=True, slots=True)
class Correction:
    """What to write instead: tried, and not denied.

    Attributes:
        manifest: the parts of the pod that differ, as they should be.
        remove: the keys to remove, as text.
    """

    manifest: Mapping[str, Any]
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of one vendor in a container.

    Attributes:
        key_values: its resources.
        labels: the pod's labels that apply to it: counts of devices.
    """

    vendor: Vendor
    key_values: dict[str, KeyValue]
    labels: dict[str, KeyValue]

    @property
    def all(self) -> dict[str, KeyValue]:
        """The keys with a number other than 0."""
        return {name: entry for name, entry in {**self.labels, **self.key_values}.items() if entry.number}

    @property
    def counts(self) -> tuple[Number, ...]:
        """The numbers of devices that they request."""
        return tuple(
            entry.number for entry in self.all.values() if "devices" in self.vendor.keys[entry.key_name].dimensions
        )


def _keys_of(pod: Pod, container: Container, policy: Policy) -> _Keys | None:
    resources = container.resources or Resources()
    key_values: dict[str, KeyValue] = {}
    vendor: Vendor | None = None
    for key, quantity in {**(resources.requests or {}), **(resources.limits or {})}.items():
        owners = policy.resources.owners(key)
        if not owners:
            continue
        if vendor is not None and vendor.name != owners[0].vendor:
            return None
        vendor = policy.vendors[owners[0].vendor]
        try:
            number = parse_quantity(str(quantity))
        except QuantityError:
            continue
        key_values[owners[0].key_name] = KeyValue(owners[0].key_name, key, str(quantity), number, owners[0].binding)
    if vendor is None:
        return None
    labels: dict[str, KeyValue] = {}
    for key, text in (pod.metadata.labels or {}).items():
        for owner in policy.labels.owners(key):
            if owner.vendor == vendor.name and text.isdigit() and text.isascii():
                labels[owner.key_name] = KeyValue(owner.key_name, key, text, int(text[:9]), owner.binding)
    return _Keys(vendor, key_values, labels)


def with_other_numbers(pod: Pod, container: Container, policy: Policy, denial: Finding) -> Iterator[Container]:
    """Yield the container with other numbers for its keys, the likeliest first.

    In this order: a share instead of a fraction of a device, the nearest numbers that the vendor accepts, a count of one
    device, and the keys without one that the vendor does not accept beside the others.
    """
    keys = _keys_of(pod, container, policy)
    if keys is None:
        return
    denying = _denying_form(keys, denial)
    yield from _as_share(container, keys, denial)
    # A form denies numbers only if its message names a greater one.
    if denying is None or "{above}" in (denying.document.deny or ""):
        yield from _with_legal_numbers(container, keys, policy, denial)
    yield from _with_count(container, keys, denying, missing=denial.reason is Reason.ZERO_DEVICES)
    if denying is not None:
        yield from _without_denied(container, keys, denying)


def _denying_form(keys: _Keys, denial: Finding) -> Form | None:
    """Return the form that caused a denial; None if another rule did."""
    form = form_of(keys.vendor, keys.all)
    caused = denial.reason is Reason.UNSUPPORTED_BY_VENDOR and form is not None and form.document.deny is not None
    return form if caused else None


def _with_legal_numbers(container: Container, keys: _Keys, policy: Policy, denial: Finding) -> Iterator[Container]:
    """Yield the container with the nearest numbers of one key that its vendor accepts: the denied key first."""
    too_large = denial.reason is Reason.TOO_LARGE
    for entry in sorted(keys.key_values.values(), key=lambda entry: entry.key != denial.field):
        for number in _numbers(keys.vendor, entry, keys, policy.largest_card, too_large=too_large):
            yield _with_number(container, entry.key, number)


def _with_count(container: Container, keys: _Keys, denying: Form | None, *, missing: bool) -> Iterator[Container]:
    """Yield the container with a count of one device, if that is missing, or the denying form is for requests without it."""
    conditions = () if denying is None else denying.when
    for name in keys.vendor.by_dimension["devices"]:
        key = keys.vendor.keys[name]
        if key.place == "resource" and (missing or any(_needs(condition, name) for condition in conditions)):
            binding = {variable: text for entry in keys.key_values.values() for variable, text in entry.binding}
            spelled = keys.key_values[name].key if name in keys.key_values else key.spelled(binding)
            yield _with_number(container, spelled, 1)


def _without_denied(container: Container, keys: _Keys, denying: Form) -> Iterator[Container]:
    """Yield the container without one of the keys whose presence makes the form deny it."""
    for condition in denying.when:
        for name in condition.keys:
            if condition.present and name in keys.key_values:
                yield _with_number(container, keys.key_values[name].key, None)


def _as_share(container: Container, keys: _Keys, denial: Finding) -> Iterator[Container]:
    """Yield the container with one device instead of a fraction of one, and that fraction in the keys for a share."""
    for entry in keys.key_values.values():
        if entry.key != denial.field or denial.reason is not Reason.NOT_WHOLE or not 0 < entry.number < 1:
            continue
        if keys.vendor.keys[entry.key_name].dimensions == ("devices",):
            sizes = {"memory", "cores"}
            specified = any(sizes & set(keys.vendor.keys[name].dimensions) for name in keys.all)
            container = _with_number(container, entry.key, 1)
            for name, number in () if specified else share_keys(keys.vendor, entry):
                container = _with_number(container, name, number)
            yield container


def _needs(condition: Condition, key_name: str) -> bool:
    return key_name in condition.keys and condition.absent and not condition.present


def _numbers(vendor: Vendor, entry: KeyValue, keys: _Keys, largest_card: int, *, too_large: bool) -> list[Number]:
    """Return other numbers that may be meant by a key: never less than its own, unless its unit was mistaken for another."""
    key = vendor.keys[entry.key_name]
    share = share_meant(key, entry.number)
    if share is not None and key.written != "decimal":
        return [share]
    legal: set[Number] = set()
    for form in vendor.forms:
        if form.reads:
            legal.update(_legal(form, form.keys[entry.key_name], entry.number, keys.counts))
    legal = {number for number in legal if number > entry.number}
    if not too_large:
        size = gibibytes_meant(key, entry.number) if key.written != "decimal" else None
        return [*([] if size is None else [size]), *sorted(legal)]
    likely = [number for _, number in sizes_meant(key, entry, entry.number * (key.unit or 1), largest_card)]
    if key.unit is not None and not key.sized and "devices" not in key.dimensions:
        legal.add(simplest(Fraction(100) / key.unit))
    return [number for number in dict.fromkeys([*likely, *sorted(legal)]) if number != entry.number]


def _legal(form: Form, key: Key, number: Number, counts: tuple[Number, ...]) -> Iterator[Number]:
    """Yield the nearest numbers above that a form accepts."""
    for condition in form.when:
        if condition.keys == (key.name,) and condition.numbers is not None:
            above = condition.numbers.ceil(number)
            if above is not None:
                yield above
    for devices in (1, *(count for count in counts if key.total and count > 1)):
        share: Number | None = ceil_to(Fraction(number) / devices, key.step if key.written == "decimal" else 1)
        if key.values is not None and share is not None:
            share = key.values.ceil(share)
        if share is not None:
            yield simplest(share * devices)


def _with_number(container: Container, key: str, number: Number | None) -> Container:
    """The container with another number of a resource, in limits and in requests if it is there; None removes it."""
    resources = container.resources or Resources()
    limits, requests = dict(resources.limits or {}), dict(resources.requests or {})
    if number is None:
        limits.pop(key, None)
        requests.pop(key, None)
    else:
        text: QuantityText = number if isinstance(number, int) else str(float(number))
        in_limits, in_requests = key in limits, key in requests
        if in_limits or not in_requests:
            limits[key] = text
        if in_requests or (requests and not in_limits):
            requests[key] = text
    return _with_resources(container, limits, requests)


def renamed(container: Container, key: str, meant: str) -> Container:
    """Return the container with another name for one of its resources."""
    resources = container.resources or Resources()
    limits, requests = (
        {meant if name == key else name: value for name, value in (side or {}).items()}
        for side in (resources.limits, resources.requests)
    )
    return _with_resources(container, limits, requests)


def _with_resources(
    container: Container, limits: dict[str, QuantityText], requests: dict[str, QuantityText]
) -> Container:
    return msgspec.structs.replace(container, resources=Resources(limits or None, requests or None))


MAX_TRIES: Final = 64
"""The most pods that are tried for one correction."""

MAX_CORRECTIONS: Final = 3
"""The most denials that are corrected one after the other."""

_NUMBERS: Final = {
    Reason.NOT_WHOLE,
    Reason.NOT_LEGAL,
    Reason.NOT_DIVISIBLE,
    Reason.TOO_LARGE,
    Reason.UNSUPPORTED_BY_VENDOR,
    Reason.ZERO_DEVICES,
}
"""Denials that another number may prevent."""


_View = TypeVar("_View", bound=View)


def correction(pod: Pod, context: Context, policy: Policy, denial: Finding) -> Correction | None:
    """Return the least change with which the pod is not denied, if it is known.

    Args:
        pod: the denied pod.
        context: as for `decide`.
        policy: as for `decide`.
        denial: why it is denied.
    """
    tries = 0
    waiting = [(pod, denial)]
    for _ in range(MAX_CORRECTIONS):
        denied_again: list[tuple[Pod, Finding]] = []
        for denied, why in waiting:
            for candidate in _candidates(denied, policy, why):
                tries += 1
                if tries > MAX_TRIES:
                    return None
                decision = decide(candidate, context, policy)
                if decision.denial is None and decision.status_json:
                    return _difference(pod, candidate, policy)
                if decision.denial is not None and decision.denial != why:
                    denied_again.append((candidate, decision.denial))
        waiting = denied_again
    return None


def _candidates(pod: Pod, policy: Policy, denial: Finding) -> Iterator[Pod]:
    """Yield pods in which the reason of the denial is gone, the likeliest first."""
    reason = denial.reason
    spec = pod.spec
    if reason is Reason.NODE_NAME and spec.node_name:
        selector = {**(spec.node_selector or {}), "kubernetes.io/hostname": spec.node_name}
        yield _with_spec(pod, node_name=None, node_selector=selector)
    elif reason is Reason.SCHEDULER_CONFLICT:
        yield _with_spec(pod, scheduler_name=None)
    elif reason is Reason.UNKNOWN_TARGET and denial.field == labels.TARGET and denial.value:
        names = [vendor.name for vendor in policy.vendors.values() if vendor.target]
        for name in difflib.get_close_matches(denial.value, names, n=1):
            annotations = {**(pod.metadata.annotations or {}), labels.TARGET: name}
            yield _replace(pod, metadata=_replace(pod.metadata, annotations=annotations))
    for slot in slots(pod):
        if slot.name == denial.container:
            for container in _containers(pod, slot, policy, denial):
                yield _with_container(pod, slot, container)


def _containers(pod: Pod, slot: Slot, policy: Policy, denial: Finding) -> Iterator[Container]:
    """Yield the denied container, corrected as the reason suggests."""
    container, reason, field = slot.container, denial.reason, denial.field or ""
    inside = field.partition("[")[2].removesuffix("]")
    if reason is Reason.PRIVILEGED:
        yield _replace(container, security_context=None)
    elif reason in {Reason.GUARDED, Reason.COLLISION} and field.startswith("env["):
        others = [entry for entry in msgspec.json.decode(container.env) if entry.get("name") != inside]
        yield _replace(container, env=msgspec.Raw(msgspec.json.encode(others)))
    elif reason is Reason.NEAR_MISS and container.resources is not None:
        beside = [*(container.resources.limits or {}), *(container.resources.requests or {})]
        near = policy.near_miss(inside, sorted(beside))
        if near is not None and near.meant and not near.choices:
            yield renamed(container, inside, near.meant)
    elif reason is Reason.LIMIT_DIFFERS and container.resources is not None:
        limits = container.resources.limits or {}
        requests = container.resources.requests or {}
        same = {
            key: limits[key] if key in limits and policy.resources.owners(key) else requests[key] for key in requests
        }
        yield _replace(container, resources=_replace(container.resources, requests=same))
    elif reason in _NUMBERS:
        yield from with_other_numbers(pod, container, policy, denial)


def _with_container(pod: Pod, slot: Slot, container: Container) -> Pod:
    containers = list(pod.spec.containers if slot.kind == "containers" else pod.spec.init_containers or [])
    containers[slot.position] = container
    return _with_spec(pod, **{"containers" if slot.kind == "containers" else "init_containers": containers})


def _with_spec(pod: Pod, **members: Any) -> Pod:
    return _replace(pod, spec=_replace(pod.spec, **members))


def _replace(view: _View, **members: Any) -> _View:
    return msgspec.structs.replace(view, **members)


def _difference(before: Pod, after: Pod, policy: Policy) -> Correction:
    """The differences between two pods, as a part of a manifest."""
    manifest: dict[str, Any] = {}
    without: list[str] = []
    annotations = after.metadata.annotations or {}
    if annotations != (before.metadata.annotations or {}):
        manifest["metadata"] = {"annotations": {labels.TARGET: annotations[labels.TARGET]}}
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
    return Correction(manifest, tuple(dict.fromkeys(without)))


def _container_difference(before: Slot, after: Slot, policy: Policy, without: list[str]) -> dict[str, Any]:
    old, new = before.container, after.container
    if old.security_context != new.security_context:
        without.append(f"securityContext.privileged of container {old.name}")
    names = [entry.name for entry in decode_env(new.env)]
    without.extend(
        f"env {entry.name} of container {old.name}" for entry in decode_env(old.env) if entry.name not in names
    )
    if old.resources == new.resources or new.resources is None:
        return {}
    shown: dict[str, dict[str, QuantityText]] = {}
    for side in ("limits", "requests"):
        resources_before = getattr(old.resources, side) or {}
        resources = getattr(new.resources, side) or {}
        keys = {key: value for key, value in resources.items() if policy.resources.owners(key)}
        if keys:
            shown[side] = keys
        without.extend(f"{key} of container {old.name}" for key in resources_before if key not in resources)
    return {"resources": shown} if shown else {}
