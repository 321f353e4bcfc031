"""What to write instead of a denied pod: candidates of the finding, or by its reason, each tried before it is shown.

Nothing is guessed: a candidate requests no less than the pod does, keeps the other keys of its container, and counts only if
the corrected pod is not denied, and no amount of memory or cores ignored.
"""

import difflib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from webhook import labels
from webhook.admission.claims import counts
from webhook.admission.decision import Context, Decision
from webhook.admission.engine import decide
from webhook.mapping.model.policy import Policy
from webhook.patch import Slot, slots
from webhook.pod import ENV, Container, Pod, QuantityText, Resources, View, entries
from webhook.reasons import Finding, Reason
from webhook.request import Number

MAX_TRIES: Final = 64
"""The most pods that are tried for one correction."""

MAX_CORRECTIONS: Final = 8
"""The most denials that are corrected one after the other."""

_View = TypeVar("_View", bound=View)


def correction(pod: Pod, context: Context, policy: Policy, denial: Finding) -> dict[str, Any] | None:
    """Return the least change with which the pod is not denied, if it is known, as data for JSON.

    ``manifest`` has the parts of the pod that differ, as they should be, and ``remove`` the keys to remove, as text.
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
                if decision.denial is None and decision.status_json and not _ignores_sizes(decision, policy):
                    return _difference(pod, candidate, policy)
                if decision.denial is not None and decision.denial != why:
                    denied_again.append((candidate, decision.denial))
        waiting = denied_again
    return None


def _ignores_sizes(decision: Decision, policy: Policy) -> bool:
    """Whether memory or cores that the pod writes count no more, as beside whole devices."""
    ignored = (each for each in decision.warnings if each.reason is Reason.KEY_IGNORED)
    return any(_sizes(each.field or "", each.value or "1", policy) for each in ignored)


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
            for container in _containers(slot, policy, denial):
                yield _with_container(pod, slot, container)


def _containers(slot: Slot, policy: Policy, denial: Finding) -> Iterator[Container]:
    """Yield the denied container, corrected as the reason suggests."""
    container = slot.container
    corrected = _CORRECTED.get(denial.reason)
    if corrected is not None and (one := corrected(container, denial.field or "", policy)) is not None:
        yield one
        return
    sized = any(_sizes(name, text, policy) for side in _sides(container) for name, text in side.items())
    for instead in denial.instead:
        # The keys of a share are only for who has requested none; a label is no resource.
        if (len(instead) == 1 or not sized) and all(policy.resources.owners(name) for name, _ in instead):
            yield functools.reduce(lambda found, each: _with_number(found, *each), instead, container)


def _sides(container: Container) -> tuple[dict[str, QuantityText], dict[str, QuantityText]]:
    """The limits and the requests of a container."""
    resources = container.resources or Resources()
    return dict(resources.limits or {}), dict(resources.requests or {})


def _with_sides(container: Container, limits: dict[str, QuantityText], requests: dict[str, QuantityText]) -> Container:
    return _replace(container, resources=Resources(limits or None, requests or None))


def _named_in(field: str) -> str:
    return field.partition("[")[2].removesuffix("]")


def _without_env(container: Container, field: str, _: Policy) -> Container | None:
    if not field.startswith("env["):
        return None
    others = [entry for entry in msgspec.json.decode(container.env) if entry.get("name") != _named_in(field)]
    return _replace(container, env=msgspec.Raw(msgspec.json.encode(others)))


def _renamed(container: Container, field: str, policy: Policy) -> Container | None:
    limits, requests = _sides(container)
    beside = [*limits, *requests]
    meant = {key: _meant(key, beside, policy) for key in beside if not policy.resources.owners(key)}
    if not meant.get(_named_in(field)):
        return None
    sides = ({meant.get(key) or key: text for key, text in side.items()} for side in (limits, requests))
    return _with_sides(container, *sides)


def _with_limits_requested(container: Container, _: str, policy: Policy) -> Container:
    limits, requests = _sides(container)
    same = {key: limits[key] for key in requests.keys() & limits if policy.resources.owners(key)}
    return _with_sides(container, limits, requests | same)


_CORRECTED: Final[Mapping[Reason, Callable[[Container, str, Policy], Container | None]]] = {
    Reason.PRIVILEGED: lambda container, *_: _replace(container, security_context=None),
    Reason.GUARDED: _without_env,
    Reason.COLLISION: _without_env,
    Reason.NEAR_MISS: _renamed,
    Reason.LIMIT_DIFFERS: _with_limits_requested,
}
"""What a reason by itself suggests for the denied container."""


def _meant(name: str, beside: Sequence[str], policy: Policy) -> str | None:
    """The one key that a name was meant to be, if the container has not got that, too."""
    near = policy.near_miss(name, sorted(beside))
    meant = name.lower() if near is None else "" if near.choices else near.meant
    return meant if policy.resources.owners(meant) and meant not in beside else None


def _sizes(name: str, quantity: QuantityText, policy: Policy) -> bool:
    """Whether a resource requests memory or cores; 0 of them is none."""
    dimensions = {
        dimension
        for owner in policy.resources.owners(name)
        for dimension in policy.vendors[owner.vendor].keys[owner.key_name].dimensions
    }
    return not dimensions.isdisjoint({"memory", "cores"}) and counts(quantity)


def _with_number(container: Container, key: str, number: Number | None) -> Container:
    """The container with another number of a resource, in limits and in requests if it is there; None removes it."""
    limits, requests = _sides(container)
    for side in [side for side in (limits, requests) if key in side] or [limits, *([requests] if requests else [])]:
        if number is None:
            side.pop(key, None)
        else:
            side[key] = number if isinstance(number, int) else str(float(number))
    return _with_sides(container, limits, requests)


def _with_container(pod: Pod, slot: Slot, container: Container) -> Pod:
    containers = list(pod.spec.containers if slot.kind == "containers" else pod.spec.init_containers or [])
    containers[slot.position] = container
    return _with_spec(pod, **{"containers" if slot.kind == "containers" else "init_containers": containers})


def _with_spec(pod: Pod, **members: Any) -> Pod:
    return _replace(pod, spec=_replace(pod.spec, **members))


def _replace(view: _View, **members: Any) -> _View:
    return msgspec.structs.replace(view, **members)


def _difference(before: Pod, after: Pod, policy: Policy) -> dict[str, Any]:
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
    return {"manifest": manifest, "remove": list(dict.fromkeys(without))}


def _container_difference(before: Slot, after: Slot, policy: Policy, without: list[str]) -> dict[str, Any]:
    old, new = before.container, after.container
    if old.security_context != new.security_context:
        without.append(f"securityContext.privileged of container {old.name}")
    names = [entry.name for entry in entries(new.env, ENV)]
    without.extend(
        f"env {entry.name} of container {old.name}" for entry in entries(old.env, ENV) if entry.name not in names
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
