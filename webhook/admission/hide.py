"""Hides devices from containers that request none: CUDA images ask for all, and so see every device of the node.

The setting `hideDevices` switches it on. What it wrote is in the status, so that it takes it away again if a webhook that is
called later makes the container request a device.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from webhook.admission.claims import counts
from webhook.admission.decision import Plan
from webhook.admission.overrides import Overrides, target_of
from webhook.labels import STATUS
from webhook.mapping.model.keys import Key
from webhook.mapping.model.match_names import advised_names, spelled
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import NameSet
from webhook.patch import Slot
from webhook.pod import Pod, present
from webhook.reasons import Denied, Finding, Reason
from webhook.text import shorten

HIDING: Final = ("void", "none")
"""Values of a variable that hide all devices, the usual one first: with ``void``, NVIDIA's runtime does nothing."""

_PLACES: Final = frozenset({"resource", "label", "annotation"})
_MEMO: Final = "hiding"
_BYTES: Final = 4096
"""What it takes in the memory of a policy: some dozens of names, most of which the policy has anyway."""


@dataclass(frozen=True, slots=True)
class Hiding:
    """What hides the devices of a policy, and what requests them.

    Attributes:
        variables: the variables, each with the value that hides.
        resources: the resource names by which a container requests some, in whatever keys.
        idle: those of them that give none by themselves, whatever their number: a priority.
        keys: the labels and annotations by which a pod requests some.
    """

    variables: Mapping[str, str]
    resources: NameSet
    idle: NameSet
    keys: NameSet


def hiding_of(policy: Policy) -> Hiding | None:
    """What hides the devices of the settings `target` and `served`; None if no variable does."""
    known: Hiding | None = policy.memo.get(_MEMO)
    if known is None:
        known = _hiding(policy)
        if known is not None:
            policy.memo.keep(_MEMO, known, _BYTES)
    return known


def show_devices(plan: Plan) -> None:
    """Take away what hides devices from containers that request some by now: it was written when this one was called before.

    Runs before the guard, which reports what others have written.
    """
    hiding, before = hiding_of(plan.policy), _hidden_before(plan.pod)
    if hiding is None or not before:
        return
    by_keys = _carries(plan, hiding.keys)
    for slot in plan.slots:
        if slot.name in before and (by_keys or _requests(slot, hiding)):
            _show(slot, hiding.variables)


def hide_devices(plan: Plan) -> None:
    """Hide devices from containers that request none. Runs last: what other steps remove or write counts as it will be."""
    hiding = hiding_of(plan.policy)
    if hiding is None or _carries(plan, hiding.keys):
        return
    before = _hidden_before(plan.pod)
    for slot in plan.slots:
        if _requests(slot, hiding):
            continue
        written = [name for name, value in hiding.variables.items() if _hide(slot, name, value)]
        if written:
            message = (
                f"container {shorten(slot.name)} requests no device: {' and '.join(written)} hides those of the node"
            )
            plan.findings.append(Finding(Reason.HIDDEN, message))
        if written or slot.name in before:
            plan.hidden.append(slot.name)


def _hiding(policy: Policy) -> Hiding | None:
    families = _served_families(policy)
    variables = _variables(vendor for vendor in policy.in_force if vendor.family in families)
    if not variables:
        return None
    # The runtimes of several makers may read one variable.
    families |= {vendor.family for vendor in policy.in_force if not variables.keys().isdisjoint(_variables([vendor]))}
    return _requesting({*families, "any"}, variables, policy)


def _requesting(families: Collection[str], variables: Mapping[str, str], policy: Policy) -> Hiding:
    """What requests devices of some hardware, which these variables hide."""
    vendors = [vendor for vendor in policy.vendors.values() if vendor.family in families]
    named = list(_names(vendors))
    giving = {name for place, gives, name in named if place == "resource" and gives}
    idle = {name for place, _, name in named if place == "resource"} - giving
    keys = {name for place, gives, name in named if place != "resource" and gives}
    return Hiding(variables, NameSet.of(_let_through(vendors)), NameSet.of(idle), NameSet.of(keys))


def _let_through(vendors: Iterable[Vendor]) -> Iterator[str]:
    """The resource names by which vendors' pods are let through to the webhook."""
    for through in (vendor.lets_through for vendor in vendors):
        yield from through.resources
        yield from (f"{prefix}*" for prefix in through.prefixes)


def _served_families(policy: Policy) -> set[str]:
    """The hardware of the vendors that the settings name and that serve their own keys."""
    served = {policy.settings.target, *policy.settings.served}
    return {vendor.family for vendor in policy.in_force if vendor.name in served and _keeps_its_keys(vendor, policy)}


def _names(vendors: Iterable[Vendor]) -> Iterator[tuple[str, bool, str]]:
    """The resource names, labels and annotations of vendors: place, whether one gives devices by itself, and name."""
    for vendor in vendors:
        for key in vendor.keys.values():
            names = [name for template in key.templates for name in spelled(template, vendor.variables)]
            yield from ((key.place, _gives(vendor, key), name) for name in names if key.place in _PLACES)
        # Other systems, which no mapping reads, give devices by theirs.
        for advised in advised_names(vendor):
            if advised.place != "resource":
                yield advised.place, True, advised.name


def _gives(vendor: Vendor, key: Key) -> bool:
    """Whether a key gives devices by itself: of labels and annotations an amount, where the vendor has no resource names."""
    if key.place == "resource":
        return key.makes_request
    return vendor.annotation_keys and (key.makes_request or not {"memory", "cores"}.isdisjoint(key.dimensions))


def _keeps_its_keys(vendor: Vendor, policy: Policy) -> bool:
    """Whether a policy leaves requests in the keys of a vendor, where neither pod nor namespace says otherwise."""
    try:
        return target_of(vendor, Overrides(), policy) is vendor
    except Denied:
        return False


def _variables(vendors: Iterable[Vendor]) -> dict[str, str]:
    """The variables that hide devices, each with the value that does."""
    found: dict[str, str] = {}
    for vendor in vendors:
        for rule in vendor.guard.rules:
            value: Any = next((value for value in HIDING if value in (rule.harmless or ())), None)
            if rule.hides and value is not None:
                found |= {name: value for name in rule.names if "*" not in name}
    return found


class _Status(msgspec.Struct):
    hidden: frozenset[str] = frozenset()


def _hidden_before(pod: Pod) -> frozenset[str]:
    """The containers in which this webhook hid devices when it was called before, as its status says."""
    try:
        return msgspec.json.decode((pod.metadata.annotations or {}).get(STATUS, "{}"), type=_Status).hidden
    except (msgspec.DecodeError, RecursionError):
        return frozenset()


def _carries(plan: Plan, keys: NameSet) -> bool:
    """Whether the pod will have one of these labels or annotations, with another value than 0."""
    return any(counts(after[key]) for after in (plan.labels, plan.annotations) for key in keys.among(after))


def _requests(slot: Slot, hiding: Hiding) -> bool:
    """Whether a container will request a device of the hardware: a number that gives one."""
    if slot.claims or slot.container.claims:
        return True
    written = slot.resources
    sent = {name for side in slot.container.sides for name, number in side.items() if counts(number)}
    every = sent.difference(written).union([name for name, number in written.items() if number])
    return any(name not in hiding.idle for name in hiding.resources.among(every))


def _hide(slot: Slot, name: str, value: str) -> bool:
    """Set a variable, unless it hides the devices already, or has a reference, which no value replaces."""
    own = [entry for entry in slot.env if entry.name == name]
    if not own:
        slot.env_added.append({"name": name, "value": value})
        return True
    last = own[-1]  # of several with one name the last counts
    if present(last.value_from) or last.value in HIDING:
        return False
    slot.change("env", {id(last): [replace(last, value=value)]})
    return True


def _show(slot: Slot, variables: Mapping[str, str]) -> None:
    own = [each for each in slot.env if not present(each.value_from)]
    slot.drop("env", [each for each in own if each.name in variables and variables[each.name] == each.value])
