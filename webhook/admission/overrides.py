"""What pods and namespaces override: the target, and the defaults for dimensions that a request omits."""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from webhook import labels
from webhook.admission.context import Context
from webhook.admission.selected_devices import SelectedDevice, selected_devices
from webhook.finding import Finding, deny
from webhook.mapping.document.problem import nearest_known
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.notation.amounts import parse_cores, parse_default_memory
from webhook.pod import Pod
from webhook.quantity import bytes_text
from webhook.reasons import Reason
from webhook.request import DIMENSIONS, MAX_DEVICES, UNLIMITED, Dimension, Size

OVERRIDES: Final = (labels.TARGET, labels.DEFAULT_DEVICES, labels.DEFAULT_MEMORY, labels.DEFAULT_CORES)
"""The annotations of a namespace that override something."""

_COUNT: Final = re.compile(r"[1-9][0-9]{0,5}")


Origin: TypeAlias = Literal["pod", "namespace", "mapping", "settings", "itself"]
"""Where the target is set; `itself`: nowhere, so the request stays in its keys."""


class Overrides(NamedTuple):
    """The overrides of one pod: annotations as text, and the devices that the pod selects.

    Attributes:
        pod_target: the pod's annotation `vgpu-webhook.io/target`.
        namespace_target: the namespace's.
        defaults: the namespace's, from its annotations `vgpu-webhook.io/default-*`; None for no default of a dimension.
        findings: warnings about invalid ones.
        selected: the devices that the pod selects.
    """

    pod_target: str | None = None
    namespace_target: str | None = None
    defaults: Mapping[Dimension, Default | None] = {}
    findings: tuple[Finding, ...] = ()
    selected: tuple[SelectedDevice, ...] = ()


def overrides_of(pod: Pod, context: Context, policy: Policy) -> Overrides:
    """Read the overrides of a pod and its namespace."""
    annotations = context.namespace.annotations
    defaults, findings = _namespace_defaults(annotations, policy) if annotations else ({}, ())
    pod_annotations = pod.metadata.annotations
    return Overrides(
        pod_annotations.get(labels.TARGET) if pod_annotations else None,
        annotations.get(labels.TARGET) if annotations else None,
        defaults,
        findings,
        selected_devices(pod, policy),
    )


def _namespace_defaults(
    annotations: Mapping[str, str], policy: Policy
) -> tuple[dict[Dimension, Default | None], tuple[Finding, ...]]:
    defaults: dict[Dimension, Default | None] = {}
    findings: list[Finding] = []
    for dimension in DIMENSIONS:
        field = f"{labels.DEFAULT_PREFIX}{dimension}"
        text = annotations.get(field)
        if text is None:
            continue
        try:
            defaults[dimension] = _default(dimension, text, policy.largest_card)
        except ValueError as error:
            message = f"the namespace's annotation {field}: {text!r} was ignored: {error}"
            findings.append(Finding(Reason.NAMESPACE_DEFAULT_INVALID, message, field=field, value=text))
    return defaults, tuple(findings)


def _default(dimension: Dimension, text: str, largest_card: int) -> Default | None:
    if dimension == "devices":
        if _COUNT.fullmatch(text) is None or int(text) > MAX_DEVICES:
            raise ValueError(f"write a whole number from 1 to {MAX_DEVICES}")
        return Default(int(text), "namespace")
    if dimension == "memory":
        memory = parse_default_memory(text)
        if isinstance(memory, Size) and memory.bytes > largest_card:
            raise ValueError(f"no device has more than {bytes_text(largest_card)}")
        return None if memory is None else Default(memory, "namespace")
    cores = parse_cores(text)
    return None if cores is None or cores is UNLIMITED else Default(cores, "namespace")


def target_of(vendor: Vendor, overrides: Overrides, policy: Policy) -> tuple[Vendor, Finding | None]:
    """Return the vendor that a request in `vendor`'s keys is written for, and a warning if its hardware is another family.

    The first of: the pod's annotation, the namespace's, the mapping's `translateTo`, the setting `target` (for vendors of
    the same hardware family only), the vendor itself.

    Raises:
        Denied: the annotation names no vendor, or one that is never written.
    """
    for name, origin in ((overrides.pod_target, "pod"), (overrides.namespace_target, "namespace")):
        if name is not None:
            return _annotated(vendor, name, origin, policy)
    if vendor.translate_to is not None:
        target = policy.vendors[vendor.translate_to]
        return target, _other_family(vendor, target)
    preset = policy.vendors.get(policy.settings.target or "")
    if preset is not None and vendor.same_family(preset):
        return preset, None
    if not vendor.target:
        message = (
            f"nothing serves the keys of {vendor.name} untranslated: set `target` in the settings, or the annotation "
            f"{labels.TARGET}"
        )
        raise deny(Reason.NOT_A_TARGET, message)
    return vendor, None


def override_source(vendor: Vendor, overrides: Overrides, policy: Policy) -> Origin:
    """Return where the result of `target_of` is set, in the same order."""
    if overrides.pod_target is not None:
        return "pod"
    if overrides.namespace_target is not None:
        return "namespace"
    if vendor.translate_to is not None:
        return "mapping"
    preset = policy.vendors.get(policy.settings.target or "")
    return "settings" if preset is not None and vendor.same_family(preset) else "itself"


def _annotated(vendor: Vendor, name: str, origin: str, policy: Policy) -> tuple[Vendor, Finding | None]:
    target = policy.vendors.get(name)
    if target is None:
        hint = nearest_known(name, (known.name for known in policy.vendors.values() if known.target))
        message = f"the {origin}'s annotation {labels.TARGET} names {name[:64]!r}, which is not a vendor: {hint}"
        raise deny(Reason.UNKNOWN_TARGET, message, field=labels.TARGET, value=name)
    if not target.target:
        raise deny(Reason.NOT_A_TARGET, f"{name} cannot be a target: choose another", field=labels.TARGET)
    return target, _other_family(vendor, target)


def _other_family(vendor: Vendor, target: Vendor) -> Finding | None:
    """The warning about a request that is translated to other hardware; None for the same hardware."""
    if vendor.same_family(target):
        return None
    message = f"translated from {vendor.name} to {target.name}: make sure that the image is built for that hardware"
    return Finding(Reason.OTHER_FAMILY, message, field=labels.TARGET, value=target.name)


def defaults_for(
    source: Vendor, target: Vendor, namespace: Mapping[Dimension, Default | None]
) -> tuple[dict[Dimension, Default], dict[Dimension, Default]]:
    """Return the defaults that may fill a request of `source` for `target`, and the namespace's for which it has no key."""
    without_key: dict[Dimension, Default] = {}
    if not namespace:
        expressed = target.expressed
        return {name: default for name, default in source.defaults.items() if name in expressed}, without_key
    defaults: dict[Dimension, Default] = {}
    for dimension in DIMENSIONS:
        default = namespace.get(dimension, source.defaults.get(dimension))
        if default is None:
            continue
        if dimension in target.expressed:
            defaults[dimension] = default
        elif default.origin == "namespace":
            without_key[dimension] = default
    return defaults, without_key
