"""What to write instead of a denied pod: candidates that follow from the reason, each tried before it is shown.

Nothing is guessed: a candidate requests no less than the pod does, keeps the other keys of its container, and counts only if
the corrected pod is not denied.
"""

import difflib
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec

from webhook import labels
from webhook.admission.context import Context
from webhook.admission.engine import decide
from webhook.explanation.model import Correction
from webhook.explanation.numbers import renamed, with_other_numbers
from webhook.finding import Finding
from webhook.mapping.model.policy import Policy
from webhook.patch import Slot, slots
from webhook.pod import Container, Pod, QuantityText, View, decode_env
from webhook.reasons import Reason

MAX_TRIES: Final = 64
"""The most pods that are tried for one correction."""

MAX_STEPS: Final = 3
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
    for _ in range(MAX_STEPS):
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
    elif reason is Reason.NEAR_MISS and (near := policy.near.find(inside)) is not None:
        if not near.choices:
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
