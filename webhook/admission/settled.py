"""The request of one container on its way: what is intended, whether the cluster serves it, what it got, or why it stays.

A request that nothing serves, by the settings `target` and `served`, would never be placed. A part of a device that the
hardware isolates becomes a share that software limits by order only.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.overrides import Origin, Overrides, SelectedDevice, defaults_for, device_for, override_source
from webhook.mapping.model.keys import Binding, Form, Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.values import (
    KeyValue,
    Reading,
    bound_in,
    for_device_size,
    form_of,
    step_between,
)
from webhook.mapping.writing import NoEquivalent, Written, write
from webhook.reasons import Denied, Finding, Reason, deny
from webhook.request import ALL, Dimension, Number, Request, Size, bytes_text


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

    def defaults(self, namespace: Mapping[Dimension, Default | None]) -> dict[Dimension, Default]:
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
        """The selected device of which it will get a share, if its memory is known."""
        return device_for(self.target, self.overrides.selected, self.policy) if self.overrides.selected else None

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
        target, largest, name, defaults = self.target, self.policy.largest_card, self.container.name, self.on_read_back
        named = named_row(self.container, target)
        try:
            return request, write(target, request, defaults, largest, name, named=named), ()
        except NoEquivalent as error:
            failure = error
        device = self.device
        if device is None or device.memory is None:
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


class Settled(Struct):
    """The settled request of one container."""

    requested: ContainerRequest  # the container and its keys
    target: Vendor  # the vendor that it is written for
    request: Request  # its allocation, as the target's keys express it
    form: Form  # the target's form that the keys take
    reading: Reading  # the meaning of the source's keys, before anything is rounded or dropped for the target
    resources: dict[str, Number | None] = {}  # resource names to write with their number, or None to remove
    claim: dict[str, KeyValue] = {}  # the keys of its claim, of a target that has claims; otherwise empty
    keys: list[tuple[Key, str, str]] = []  # target keys in labels and annotations: (key, name, text)
    dropped: list[str] = []  # annotations of the source that carried the request
    findings: list[Finding] = []  # warnings for the user
    translated: bool = False  # it is written in another vendor's keys


class Unchanged(Struct, frozen=True):
    """A requesting container that is left unchanged: no defaults, no translation, no placement, no shim."""

    requested: ContainerRequest  # the container and its keys
    why: str  # a sentence, for explanations only
    # its keys select their own scheduler, so that the pod cannot be moved to another vendor's scheduler
    placed: bool = False
    finding: Finding | None = None  # the warning for the user, if there is one
    share: bool = False  # it requests less than whole devices, which the guard keeps as it does others' shares


def not_applied(container: ContainerRequest, dimension: Dimension, default: Default | None, why: str) -> Finding:
    """Return the warning that a default was not applied."""
    named = default.named(dimension) if default is not None else f"the namespace's default-{dimension}: 0"
    field = f"{labels.DEFAULT_PREFIX}{dimension}"
    return Finding(Reason.DEFAULT_NOT_APPLIED, f"{named} was not applied: {why}", container.name, field)


def spelled_in(container: ContainerRequest, key: Key) -> str:
    """Return the name of a key as the container has it, or with the variables of its other keys."""
    present = container.all_key_values.get(key.name)
    if present is not None:
        return present.key
    return key.spelled({"container": container.name, **bound_in(container.all_key_values)})


def with_twin(key: Key, entry: KeyValue, container: str) -> list[str]:
    """The name that a key is written under, and its twin's."""
    if key.twin is None:
        return [entry.key]
    binding = {**dict(entry.binding), "container": container}
    names = (key.spellings[0].render(binding), key.twin.render(binding))
    return [name for name in names if name is not None]


def is_served(container: ContainerRequest, policy: Policy) -> bool:
    """Return whether the settings say that the cluster serves the container's own keys, or do not say what it serves."""
    if container.keys.claimed is not None:
        return True
    return policy.serves(container.vendor, [entry.key for entry in container.all_key_values.values()])


def check_ordered(target: Vendor, origin: Origin, policy: Policy) -> None:
    """Check that an annotation chooses what the cluster serves, or a maker's plain device plugin.

    That anything else runs here only the settings say.
    """
    if origin not in {"pod", "namespace"}:
        return
    keys = [key for key in target.keys.values() if key.place == "resource"]
    if not _is_plain_plugin(target, keys) and not policy.serves(
        target, [name.text for key in keys for name in key.spellings]
    ):
        message = f"the {origin}'s annotation {labels.TARGET} names {target.name}, which nothing here serves"
        message = f"{message}: {serving(target, policy)}"
        raise deny(Reason.NOT_SERVED, message, field=labels.TARGET, value=target.name)


def _is_plain_plugin(vendor: Vendor, resources: Collection[Key]) -> bool:
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
