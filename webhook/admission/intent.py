"""What a request is to become, as pods, namespaces and settings choose: its target, its defaults, and its device.

With the memory of its device a percentage is a size, and a size a percentage. Which device a pod will get is not known at its
admission, unless the pod itself selects it. Only what the scheduler must obey counts: the node selector, and required node
affinity if each of its alternatives names the device.

A request that nothing serves, by the settings `target` and `served`, would never be placed. A part of a device that the
hardware isolates becomes a share that software limits by order only.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.decision import Context, Plan
from webhook.mapping.document import nearest_known
from webhook.mapping.model.keys import Binding, Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.shim import ARCH_LABEL
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.notation import parse_cores, parse_default_memory
from webhook.mapping.values import for_device_size, form_of, step_between
from webhook.mapping.writing import NoEquivalent, Written, write
from webhook.pod import NodeTerm, Pod, node_terms
from webhook.reasons import Denied, Finding, Reason, deny
from webhook.request import ALL, DIMENSIONS, MAX_DEVICES, UNLIMITED, Dimension, Percent, Request, Size, bytes_text
from webhook.text import shorten

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""What the API server writes for a pod that names none; a manifest that has not been through one means the same."""

MAX_NAMED: Final = 2
"""The most devices that a message names."""

MAX_NAME: Final = 63
"""The most characters of a label's value."""


class SelectedDevice(NamedTuple):
    """The device, or several alike, that a pod selects by one label of nodes."""

    label: str  # the label's key
    names: str  # the values of the label, for messages; several, if the pod accepts any of them
    memory: int  # bytes of each of them


def selected_devices(pod: Pod, policy: Policy) -> tuple[SelectedDevice, ...]:
    """Return the devices of known memory that a pod selects, one `SelectedDevice` for each label."""
    if not policy.cards:
        return ()
    selector = pod.spec.node_selector or {}
    terms, _ = node_terms(pod.spec.affinity)
    labels_of_nodes = dict.fromkeys(itertools.chain.from_iterable(policy.card_labels.values()))
    selected = ((label, _selected_values(label, selector.get(label), terms)) for label in labels_of_nodes)
    devices = [_selected_device(label, values, policy) for label, values in selected if values]
    return tuple(filter(None, devices))


def selected_architectures(pod: Pod) -> set[str] | None:
    """Return the architectures of the nodes that a pod selects; None if it selects none."""
    terms, _ = node_terms(pod.spec.affinity)
    return _selected_values(ARCH_LABEL, (pod.spec.node_selector or {}).get(ARCH_LABEL), terms)


def _selected_values(label: str, chosen: str | None, terms: list[NodeTerm]) -> set[str] | None:
    """The values of a label that the node selector and all terms allow; None if they allow every value."""
    lists = [
        [set(each.values or ()) for each in term.match_expressions or () if (each.key, each.operator) == (label, "In")]
        for term in terms
    ]
    values: set[str] | None = None
    if lists and all(lists):  # a node that any of the terms selects has one of these
        values = set().union(*[set.intersection(*each) for each in lists])
    if chosen is None:
        return values
    return {chosen} if values is None else values & {chosen}


def _selected_device(label: str, values: set[str], policy: Policy) -> SelectedDevice | None:
    names, (memory, *others) = sorted(values), {policy.cards.get(value) for value in values}
    if memory is None or others:
        return None
    text = " or ".join(name[:MAX_NAME] for name in names[:MAX_NAMED]) + (" or others" if names[MAX_NAMED:] else "")
    return SelectedDevice(label, text, memory)


def device_for(target: Vendor, devices: tuple[SelectedDevice, ...], policy: Policy) -> SelectedDevice | None:
    """Return the device of which a request written for `target` will get a share; None if that is not known.

    Labels of other hardware do not count, nor do several labels whose devices differ in memory.
    """
    names = policy.card_labels.get(target.family, ())
    known = [device for device in devices if device.label in names]
    return known[0] if len({device.memory for device in known}) == 1 else None


def sized_request(plan: Plan, vendor: Vendor, request: Request) -> Request:
    """Return the request with a size in place of a percentage of memory, if the pod selects a device of known memory."""
    if not isinstance(request.memory, Percent):
        return request
    device = device_for(vendor, selected_devices(plan.pod, plan.policy), plan.policy)
    return (None if device is None else for_device_size(request, device.memory)) or request


_COUNT: Final = re.compile(r"[1-9][0-9]{0,5}")


Origin: TypeAlias = Literal["pod", "namespace", "mapping", "served", "settings", "itself"]
"""Where the target is set; `itself`: nowhere, so the request stays in its keys."""


NamespaceDefaults: TypeAlias = Mapping[Dimension, Default | None]
"""The namespace's default of each dimension for which it sets one; None for no default."""


class Overrides(Struct, frozen=True):
    """The overrides of one pod: annotations as text, and the devices that the pod selects."""

    pod_target: str | None = None  # the pod's annotation `vgpu-webhook.io/target`
    namespace_target: str | None = None  # the namespace's
    defaults: NamespaceDefaults = {}  # from the namespace's annotations `vgpu-webhook.io/default-*`
    findings: tuple[Finding, ...] = ()  # warnings about what is invalid of these
    selected: tuple[SelectedDevice, ...] = ()  # the devices that the pod selects
    whole: bool = False  # a count of devices alone requests whole devices; otherwise a share of each, by the defaults
    decided: Literal["namespace", "settings"] | None = None  # who decided that; None: nobody, a share is assumed
    scheduler: str | None = None  # that the pod names; None for the default
    annotations: Mapping[str, str] = {}  # the pod's


def overrides_of(pod: Pod, context: Context, policy: Policy) -> Overrides:
    """Read the overrides of a pod and its namespace."""
    annotations = context.namespace.annotations
    defaults, findings = _namespace_defaults(annotations, policy) if annotations else ({}, ())
    whole, decided, invalid = _bare(annotations, defaults, policy)
    pod_annotations = pod.metadata.annotations
    return Overrides(
        pod_annotations.get(labels.TARGET) if pod_annotations else None,
        annotations.get(labels.TARGET) if annotations else None,
        defaults,
        findings if invalid is None else (*findings, invalid),
        selected_devices(pod, policy),
        whole,
        decided,
        pod.spec.scheduler_name,
        pod_annotations or {},
    )


def _bare(
    annotations: Mapping[str, str], defaults: NamespaceDefaults, policy: Policy
) -> tuple[bool, Literal["namespace", "settings"] | None, Finding | None]:
    """Whether a bare count requests whole devices; who decides: the namespace by annotation or default, or the settings."""
    text, invalid = annotations.get(labels.BARE_DEVICES), None
    if text in {"whole", "share"}:
        return text == "whole", "namespace", None
    if text is not None:
        message = (
            f"the namespace's annotation {labels.BARE_DEVICES}: {shorten(text, 40)!r} was ignored: write whole or share"
        )
        invalid = Finding(Reason.NAMESPACE_DEFAULT_INVALID, message, field=labels.BARE_DEVICES, value=text)
    if "memory" in defaults:
        memory = defaults["memory"]
        return memory is not None and memory.value == ALL, "namespace", invalid
    chosen = policy.settings.bare_devices
    return chosen == "whole", None if chosen is None else "settings", invalid


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
            defaults[dimension] = _default(dimension, text, policy.most_memory)
        except ValueError as error:
            message = f"the namespace's annotation {field}: {shorten(text, 40)!r} was ignored: {error}"
            findings.append(Finding(Reason.NAMESPACE_DEFAULT_INVALID, message, field=field, value=text))
    return defaults, tuple(findings)


def _default(dimension: Dimension, text: str, most_memory: int) -> Default | None:
    if dimension == "devices":
        if _COUNT.fullmatch(text) is None or int(text) > MAX_DEVICES:
            raise ValueError(f"write a whole number from 1 to {MAX_DEVICES}")
        return Default(int(text), "namespace")
    if dimension == "memory":
        memory = parse_default_memory(text)
        if isinstance(memory, Size) and memory.bytes > most_memory:
            raise ValueError(f"no device has more than {bytes_text(most_memory)}")
        return None if memory is None else Default(memory, "namespace")
    cores = parse_cores(text)
    return None if cores is None or cores is UNLIMITED else Default(cores, "namespace")


def target_of(vendor: Vendor, overrides: Overrides, policy: Policy) -> Vendor:
    """Return the vendor that a request in `vendor`'s keys is written for.

    A claim stays with its vendor. Otherwise the first of: the pod's annotation, the namespace's, the mapping's `translateTo`,
    the vendor itself if the setting `served` names it, the setting `target` (for vendors of the same hardware family only),
    the vendor itself.
    """
    if vendor.claim is not None:  # what is claimed already stays so
        return vendor
    match override_source(vendor, overrides, policy):
        case "pod" | "namespace" as origin:
            named = overrides.namespace_target if overrides.pod_target is None else overrides.pod_target
            return _annotated(f"{named}", origin, overrides.findings, policy)
        case "mapping":
            return policy.vendors[vendor.translate_to or ""]
        case "settings":
            return policy.vendors[policy.settings.target or ""]
        case "itself" if not vendor.target:
            message = (
                f"nothing serves the keys of {vendor.name} untranslated: set the annotation {labels.TARGET}, "
                "or ask the administrator for the setting `target`"
            )
            raise deny(Reason.NOT_A_TARGET, message)
    return vendor


def override_source(vendor: Vendor, overrides: Overrides, policy: Policy) -> Origin:
    """Return where the result of `target_of` is set, in the same order."""
    if overrides.pod_target is not None:
        return "pod"
    if overrides.namespace_target is not None:
        return "namespace"
    if vendor.translate_to is not None:
        return "mapping"
    if vendor.name in policy.settings.served:
        return "served"
    preset = policy.vendors.get(policy.settings.target or "")
    return "settings" if preset is not None and vendor.same_family(preset) else "itself"


def _annotated(name: str, origin: str, findings: tuple[Finding, ...], policy: Policy) -> Vendor:
    target = policy.vendor_called(name)
    if target is not None and target.target:
        return target
    known = [each.name for each in policy.vendors.values() if each.target]
    named = f"the {origin}'s annotation {labels.TARGET} names {name[:64]!r}"
    if target is None:
        aliases = (each for each, own in policy.names.items() if own in known)
        also = "".join(f" ({each.message})" for each in findings)
        message = f"{named}, which is not a vendor: {nearest_known(name, known, aliases)}{also}"
        raise deny(Reason.UNKNOWN_TARGET, message, field=labels.TARGET, value=name)
    message = f"{named}, which cannot be a target: write one of {', '.join(sorted(known))}"
    raise deny(Reason.NOT_A_TARGET, message, field=labels.TARGET, value=name)


def defaults_for(source: Vendor, target: Vendor, namespace: NamespaceDefaults) -> dict[Dimension, Default]:
    """Return the defaults that may fill a request of `source` for `target`: those for which it has a key."""
    defaults = {**source.defaults, **namespace} if namespace else source.defaults
    expressed = target.expressed & defaults.keys()
    return {name: default for name in DIMENSIONS if name in expressed and (default := defaults[name]) is not None}


class Intent(Struct, frozen=True):
    """A container's request, and the vendor that it is to be written for."""

    container: ContainerRequest
    target: Vendor
    overrides: Overrides
    policy: Policy

    @property
    def home(self) -> bool:
        """Whether it stays in its own keys."""
        return self.target is self.container.vendor

    @property
    def chosen(self) -> bool:
        """Whether the pod itself names the target, or it is other hardware: its own keys would not do as well."""
        return self.overrides.pod_target is not None or not self.container.vendor.same_family(self.target)

    @property
    def by_settings(self) -> bool:
        """Whether the setting `target` alone moves it to another vendor."""
        return not self.home and override_source(self.container.vendor, self.overrides, self.policy) == "settings"

    @property
    def whole_by_count(self) -> bool:
        """Whether it is a count alone that somebody has chosen to mean whole devices."""
        return self.overrides.whole and self.container.bare

    def defaults(self, namespace: NamespaceDefaults) -> dict[Dimension, Default]:
        """Return the defaults that may fill what its keys leave open, with these of the namespace.

        Of a count alone that requests whole devices all memory. At home in the keys of a system that fills in memory by itself
        the cores are written, too: all memory leaves them open.
        """
        source = self.container.vendor
        defaults = defaults_for(source, self.target, namespace)
        if self.whole_by_count:
            defaults.pop("cores", None)
            memory = defaults.get("memory")
            if memory is not None and memory.value != ALL:
                memory = defaults["memory"] = Default(ALL, self.overrides.decided or "settings")
            if memory is not None and self.home and "memory" in source.defaults and source.by_dimension["cores"]:
                defaults["cores"] = Default(ALL, memory.origin)
        return defaults

    @property
    def device(self) -> SelectedDevice | None:
        """The selected device of which it will get a share; None if that is not known."""
        return device_for(self.target, self.overrides.selected, self.policy) if self.overrides.selected else None

    @property
    def most(self) -> tuple[int, str]:
        """The bytes of the device of which it may get a share, and its name; empty if only what is sold is known."""
        device, family = self.device, self.target.family
        if device is not None:
            return device.memory, f"{device.names} ({device.label})"
        largest = self.policy.largest_devices.get(family)
        return (self.policy.largest_sold[family], "") if largest is None else (largest, "the largest device")

    @property
    def on_read_back(self) -> Mapping[Dimension, Default]:
        """The defaults under which the target's keys will be read again."""
        target = self.target
        # The active owners of an inactive target's keys read them again: only the second pass knows their defaults.
        # A claim is never filled in.
        if target.inactive or target.claim is not None:
            return {}
        defaults = defaults_for(target, target, self.overrides.defaults)
        if self.whole_by_count:  # then what is written is a count alone, or all of the memory
            defaults.pop("memory", None)
            defaults.pop("cores", None)
        return defaults

    def written(self, request: Request) -> tuple[Request, Written, tuple[Finding, ...]]:
        """Write a request with all its dimensions, or else with memory in the other unit if the pod selects its device.

        Returns:
            The request as it is written, before rounding; its keys; and what was assumed.

        Raises:
            NoEquivalent: no form of the target can express it.
        """
        target, largest, name, defaults = self.target, self.policy.most_memory, self.container.name, self.on_read_back
        named = named_row(self.container, target)
        try:
            return request, write(target, request, defaults, largest, name, named=named), ()
        except NoEquivalent as error:
            failure = error
        device = self.device
        if device is None:
            raise failure
        converted, selected = for_device_size(request, device.memory), f"{device.names} ({device.label})"
        if converted is None:
            if not isinstance(request.memory, Size):
                raise failure
            has = f"the {bytes_text(device.memory)} of {selected}"
            raise NoEquivalent(f"memory {request.memory} is more than {has}", *failure.reasons)
        try:
            written = write(target, converted, defaults, largest, name)
        except NoEquivalent as error:
            raise NoEquivalent(*error.reasons, *failure.reasons) from None
        message = (
            f"memory {request.memory} per device was written as {converted.memory}: "
            f"{selected} has {bytes_text(device.memory)} by the setting `cards`"
        )
        step = step_between("memory", request.memory, converted.memory)
        assumed = Finding(Reason.DEVICE_MEMORY_ASSUMED, message, name, device.label, device.names, step)
        return converted, written, (assumed,)


def named_row(container: ContainerRequest, target: Vendor) -> Binding:
    """The value of a variable in the container's keys that has a row in a target with claims; of another target nothing."""
    if target.claim is None:
        return ()
    variables = container.vendor.variables.values()
    bound = [pair for entry in container.key_values.values() for pair in entry.binding]
    bound += [(variable.name, name) for variable in variables if variable.everywhere for name in variable.write]
    rows = {(name, value) for name, variable in target.variables.items() for value in variable.rows}
    return tuple(bound[:1]) if rows.issuperset(bound[:1]) else ()


def is_served(container: ContainerRequest, policy: Policy) -> bool:
    """Return whether the settings say that the cluster serves the container's own keys, or do not say what it serves."""
    names = [entry.key for entry in container.all_key_values.values()]
    return container.keys.claimed is not None or policy.serves(container.vendor, names)


def check_ordered(target: Vendor, origin: Origin, policy: Policy) -> None:
    """Check that an annotation chooses what the cluster serves, or a maker's plain device plugin.

    That anything else runs here only the settings say.
    """
    if origin not in {"pod", "namespace"} or policy.serves(target, ()):
        return
    keys = [key for key in target.keys.values() if key.place == "resource"]
    served = policy.serves(target, [name.text for key in keys for name in key.spellings])
    if not served and not _is_plain_plugin(target, keys):
        message = f"the {origin}'s annotation {labels.TARGET} names {target.name}, which nothing here serves"
        message = f"{message}: {serving(target, policy)}"
        raise deny(Reason.NOT_SERVED, message, field=labels.TARGET, value=target.name)


def _is_plain_plugin(vendor: Vendor, resources: list[Key]) -> bool:
    """Whether a maker's device plugin is all that a vendor's resources take: no scheduler is written for it."""
    return vendor.place.scheduler is None and bool(resources) and all(key.plain for key in resources)


def unserved(container: ContainerRequest, policy: Policy) -> Denied:
    """Return the denial of keys that nothing in the cluster serves."""
    message = f"nothing here serves {container.every_shown}: {serving(container.vendor, policy)}"
    return container.deny(Reason.NOT_SERVED, message)


def serving(source: Vendor, policy: Policy) -> str:
    """Return what the cluster serves, and how to say that it serves another vendor, too."""
    names = [policy.settings.target, *policy.settings.served]
    vendors = [policy.vendors[name] for name in dict.fromkeys(names) if name is not None]
    listed = " and ".join(each.name if each.system == each.name else f"{each.name} ({each.system})" for each in vendors)
    served = ", ".join([*policy.settings.served, source.name])
    return (
        f"this cluster serves {listed}; if it has {source.name}, too, ask the administrator to set `served: [{served}]`"
    )


def isolates_part(intent: Intent) -> bool:
    """Return whether the keys request a part of a device that the hardware isolates."""
    form = form_of(intent.container.vendor, intent.container.key_values)
    return form is not None and form.isolated and is_part(intent.container, intent.policy)


def is_part(container: ContainerRequest, policy: Policy) -> bool:
    """Return whether the keys request less than whole devices; also if they cannot be read."""
    try:
        return not container.read(policy, {}).request.whole
    except Denied:
        return True


def isolation_denied(intent: Intent, *, by_order: bool = False) -> Denied:
    """Return the denial of a part that the hardware isolates; `by_order`: the target could express it as a share."""
    container, target = intent.container, intent.target.name
    message = f"{container.every_shown} is isolated by hardware, which {target} cannot do"
    order = f"; or give the isolation up by the annotation {labels.TARGET}: {target}" if by_order else ""
    return container.deny(Reason.NOT_SERVED, f"{message}: {serving(container.vendor, intent.policy)}{order}")
