"""The guard: deny or remove what lifts the limit of a share, and remove what only schedulers write.

And devices are hidden from containers that request none: CUDA images ask for all, and so see every device of the node. The
setting `hideDevices` switches it on. What it wrote is in the status, so that it takes it away again if another webhook, called
later, makes the container request a device.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from webhook.admission.advice import or_whole
from webhook.admission.claims import counts
from webhook.admission.decision import Allocation, Plan, status_in
from webhook.admission.intent import Overrides, sized_request, target_of
from webhook.labels import GUARD
from webhook.mapping.model.guard import KEPT_PLACES, Guard, GuardPlace, ValueSource
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import NameSet
from webhook.patch import Slot
from webhook.pod import (
    ABSENT,
    EnvVar,
    Placed,
    SecurityContext,
    Volume,
    VolumeMount,
    capabilities_added,
    clean_path,
    present,
    refers,
    value_source,
)
from webhook.reasons import Denied, Finding, Reason, deny
from webhook.request import Request
from webhook.text import shorten

MAX_MARKS: Final = 256
"""The most marks of schedulers, and variables and the like, that are removed from one pod: an honest copy has a handful."""

MAX_CAPABILITIES: Final = 1024
"""The most bytes of the capabilities that a container adds: Linux has 41, with names of at most 22 characters."""

MOST_NAMED: Final = 2
"""Variables that the report about ``envFrom`` names."""

_EFFECTS: Final = {
    "spec.hostPID": "shows the container the processes of the whole node, and opens their files",
    "spec.hostIPC": "shows the container the shared memory of the whole node",
    "spec.shareProcessNamespace": "shows the processes of a share to the pod's other containers",
    "spec.runtimeClassName": "runs containers in a sandbox, where no library of the node works",
    "securityContext.procMount": "lets the container change the kernel's settings of the whole node",
}
"""What fields do beside a share, by their paths, for people who want something else of them, such as accounting."""

HIDING: Final = ("void", "none")
"""Values of a variable that hide all devices, the usual one first: with ``void``, NVIDIA's runtime does nothing."""

_PLACES: Final = frozenset({"resource", "label", "annotation"})
_MEMO: Final = "hiding"
_BYTES: Final = 4096
"""What it takes in the memory of a policy: some dozens of names, most of which the policy has anyway."""

MAX_MOUNTS: Final = 1024
"""The most mounts of a container that are compared with guarded paths: honest containers have a handful."""


def guard_pod(plan: Plan) -> None:
    """Remove what schedulers own, and apply the guard of each container's mapping to what lifts a limit.

    Runs after the allocations are known, and before the shim is injected: a stripped variable may be one that the shim
    writes.
    """
    _strip_owned(plan)
    spec, metadata = plan.pod.spec, plan.pod.metadata
    if metadata.annotations:
        _guard_keys(plan, plan.annotations, metadata.annotations, "annotation")
    if metadata.labels:
        _guard_keys(plan, plan.labels, metadata.labels, "label")
    if spec.runtime_class_name or spec.host_pid or spec.host_ipc or spec.share_process_namespace:
        _guard_pod_fields(plan)
    for allocation in plan.allocations:
        _guard_allocation(plan, allocation)
    _guard_left(plan)
    if len(plan.slots) > 1:
        _guard_others(plan)


def _guard_allocation(plan: Plan, allocation: Allocation) -> None:
    """Apply the guard to a container that has devices."""
    slot, vendor = allocation.slot, allocation.vendor
    if slot.container.security_context is not None and "field" in vendor.guard.places:
        _guard_security(plan, allocation, slot.container.security_context)
    if plan.volumes and "hostPath" in vendor.guard.places:
        _guard_host_paths(plan, allocation)
    _guard_container(plan, slot, vendor, allocation.request, share=allocation.share)
    if slot.env:
        _report_hiding(plan, slot, vendor, moved=allocation.moved)
    if allocation.copy is not None:
        _guard_container(plan, slot, allocation.copy, allocation.request, share=allocation.share)
    if slot.container.env_from is not ABSENT:
        _report_env_from(plan, allocation)


def _guard_left(plan: Plan) -> None:
    """Apply the guard to containers that stay in their keys; what hides devices concerns those that request some."""
    for slot, vendor, share in plan.left_alone:
        _guard_container(plan, slot, vendor, None, share=bool(share))
        if share is not None:
            _report_hiding(plan, slot, vendor, moved=False)


def _guard_others(plan: Plan) -> None:
    """Apply the rules that hold for any container of a pod with a share to those without one.

    A device plugin can take one container for another: HAMi's scheduler writes no part for a container that requests nothing,
    and its plugin takes the number of a part for that of a container.
    """
    shares = {each.slot.path: each for each in plan.allocations if each.share}
    vendors = [each for share in shares.values() for each in (share.vendor, share.copy) if each and each.guard.anywhere]
    for vendor in dict.fromkeys(vendors):
        for slot in plan.slots:
            if slot.path not in shares:
                _guard_variables(plan, slot, vendor, None, share=True, other=True)


def _strip_owned(plan: Plan) -> None:
    """Remove the marks of every concerned vendor's scheduler, unless such a scheduler creates the pod."""
    metadata = plan.pod.metadata
    if not (metadata.annotations or metadata.labels):
        return
    vendors = {vendor.name: vendor for allocation in plan.allocations for vendor in allocation.vendors}.values()
    if metadata.annotations:
        _strip(plan, "annotation", plan.annotations, metadata.annotations, vendors)
    if metadata.labels:
        _strip(plan, "label", plan.labels, metadata.labels, vendors)


def _strip(plan: Plan, what: str, texts: dict[str, str], sent: Mapping[str, str], vendors: Iterable[Vendor]) -> None:
    """Remove the marks that belong to one of these vendors among annotations or labels."""
    marks = _marks(sent, [getattr(vendor.owned, f"{what}s") for vendor in vendors])
    if len(marks) > MAX_MARKS:
        message = f"{len(marks)} {what}s belong to schedulers: remove them from the manifest"
        raise deny(Reason.TOO_MANY, message, field=f"metadata.{what}s")
    for key in marks:
        owners = [each for each in vendors if key in getattr(each.owned, f"{what}s")]
        if not any(plan.context.user in vendor.owned_by for vendor in owners):
            texts.pop(key, None)
            names = " and ".join(dict.fromkeys([vendor.system for vendor in owners]))
            message = f"{what} {shorten(key)} belongs to the scheduler of {names} and was removed"
            message += ": remove it from the manifest"
            plan.findings.append(Finding(Reason.OWNED_STRIPPED, message, field=f"metadata.{what}s[{key}]"))


def _marks(sent: Mapping[str, str], owned: Iterable[NameSet]) -> list[str]:
    """The keys that are in one of these sets, in their order."""
    found = {key for names in owned for key in names.among(sent)}
    return [key for key in sent if key in found] if found else []


def _guard_keys(plan: Plan, texts: dict[str, str], sent: Mapping[str, str], place: GuardPlace) -> None:
    """Apply the guard to annotations or labels of the pod, for every vendor under which some of its containers run."""
    exceptions = plan.policy.settings.guard_exceptions
    for vendor, share in _running(plan):
        # What was removed, as a source's key or a scheduler's mark, lifts nothing.
        for key in filter(texts.__contains__, vendor.guard.guarded(sent, place)):
            value = sent[key]
            if value in exceptions.get(key, ()):
                continue
            rule = vendor.guard.catch(key, value, whole=not share, place=place)
            caught = _Caught(f"{place} {shorten(key)}", f"metadata.{place}s[{key}]", value, vendor, share)
            if _removes(plan, rule, caught):
                del texts[key]


def _running(plan: Plan) -> Iterable[tuple[Vendor, bool]]:
    """The vendors under which containers run, and whether these have shares."""
    return {(each.vendor.name, each.share): (each.vendor, each.share) for each in plan.allocations}.values()


def _guard_pod_fields(plan: Plan) -> None:
    """Apply the guard to fields of the pod, for every vendor under which some of its containers run."""
    spec = plan.pod.spec
    for vendor, share in _running(plan):
        for name, value, remedy in (
            ("hostPID", "true" if spec.host_pid else None, "remove it"),
            ("hostIPC", "true" if spec.host_ipc else None, "remove it"),
            ("shareProcessNamespace", "true" if spec.share_process_namespace else None, "remove it"),
            ("runtimeClassName", spec.runtime_class_name, "use another class"),
        ):
            if value:
                rule = vendor.guard.catch(name, value, whole=not share, place="field")
                shown = f"{name}: {shorten(value)}"
                _removes(plan, rule, _Caught(shown, f"spec.{name}", value, vendor, share, remedy=remedy))


def _guard_security(plan: Plan, allocation: Allocation, security: SecurityContext) -> None:
    """Apply the guard to the security context of a container with devices."""
    vendor, slot, share = allocation.vendor, allocation.slot, allocation.share
    field = "securityContext.capabilities.add"
    if security.capabilities is not None and len(bytes(security.capabilities.add)) > MAX_CAPABILITIES:
        message = f"capabilities take more than {MAX_CAPABILITIES} bytes: remove those that Linux has not"
        raise deny(Reason.TOO_MANY, message, container=slot.name, field=field)
    # Container runtimes take them in any case, some with the kernel's prefix.
    for name in dict.fromkeys([written.upper().removeprefix("CAP_") for written in capabilities_added(security)]):
        rule = vendor.guard.catch("capabilities", name, whole=not share, place="field")
        _removes(plan, rule, _Caught(f"the capability {name}", field, name, vendor, share, slot.name, "remove it"))
    if security.proc_mount:
        rule = vendor.guard.catch("procMount", security.proc_mount, whole=not share, place="field")
        shown, field = f"procMount: {shorten(security.proc_mount)}", "securityContext.procMount"
        _removes(plan, rule, _Caught(shown, field, security.proc_mount, vendor, share, slot.name, "remove it"))


def _guard_host_paths(plan: Plan, allocation: Allocation) -> None:
    """Apply the guard to paths of the node: of a `subPathExpr`, which is not known yet, to those of the whole volume."""
    vendor, slot, share = allocation.vendor, allocation.slot, allocation.share
    _check_number(slot)
    for mount in slot.mounts:
        for volume in plan.volumes_called.get(mount.name, ()):
            if volume.host_path is None:
                continue
            path = clean_path(f"{volume.host_path.path}/{'' if mount.sub_path_expr else mount.sub_path or ''}")
            rule = vendor.guard.catch(path, None, whole=not share, place="hostPath")
            shown, field = f"the mount of the node's {shorten(path, 100)}", f"volumeMounts[{mount.mount_path}]"
            _removes(plan, rule, _Caught(shown, field, path, vendor, share, slot.name, "remove it"))


class _Caught(NamedTuple):
    """What a rule catches."""

    shown: str  # how messages call it
    field: str  # where it stands
    value: str | None  # its value; None if that is not known
    vendor: Vendor  # whose rule it is
    share: bool  # whether a share is guarded, and no whole devices
    container: str | None = None  # its container
    remedy: str = ""  # what to do; by default, to remove it or to write a value that the rule lets through
    limit: str | None = None  # the value that the shim writes
    requested: bool = False  # whether the container requests devices, so that a value which hides them is no remedy
    other: bool = False  # whether another container has the share


def _removes(plan: Plan, rule: Guard | None, caught: _Caught) -> bool:
    """Deny, report or let through what a rule catches; return whether it is to be removed, which is reported, too."""
    if rule is None:
        return False
    shown, field, value, container = caught.shown, caught.field, caught.value, caught.container
    # Asked only where a rule catches something: what is remembered of pods without that serves in any namespace.
    action = _action(plan, rule)
    if action == "deny":
        denial = f"{_denial(caught, rule)}{_way_out(plan, caught, rule)}"
        plan.deny(Finding(Reason.GUARDED, denial, container, field, value))
    if action == "warn":
        message = f"{shown} {_EFFECTS.get(field) or _effect(rule, 'may')} and was kept: remove it"
        plan.report_once(Finding(Reason.GUARD_KEPT, message, container, field, value))
    if action == "strip":
        _count_stripped(plan)
        message = f"{shown} {_effect(rule)} and was removed: remove it from the manifest"
        plan.findings.append(Finding(Reason.GUARD_STRIPPED, message, container, field, value))
    return action == "strip"


def _guard_container(plan: Plan, slot: Slot, vendor: Vendor, request: Request | None, *, share: bool) -> None:
    """Apply the guard to variables and mounts of one container; without a share, only to those that show devices."""
    if "mount" in vendor.guard.places and slot.placed:
        _guard_mounts(plan, slot, vendor, share=share)
    if slot.env:
        _guard_variables(plan, slot, vendor, request, share=share)


def _report_env_from(plan: Plan, allocation: Allocation) -> None:
    """Report that guarded variables may come from where the webhook cannot look."""
    guard, slot = allocation.vendor.guard, allocation.slot
    names = guard.unseen[not allocation.share]
    texts = plan.pod.metadata.annotations or {}
    # What a vendor's own webhook refers to is not the user's.
    own = tuple(f"{texts[key]}-" for key in plan.policy.references.intersection(texts) if texts[key])
    if not names or all(refers(each.config_map_ref, own) for each in slot.env_from) or plan.chosen(GUARD) == "allow":
        return
    more = len(names) - MOST_NAMED
    shown = ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    message = f"envFrom may set {shown}, unseen: take single keys of it in env instead"
    plan.findings.append(Finding(Reason.GUARD_BLIND, message, slot.name, "envFrom"))


def _guard_mounts(plan: Plan, slot: Slot, vendor: Vendor, *, share: bool) -> None:
    """Apply the guard to what the kubelet puts over paths of the device plugin's mounts, whichever field it is in.

    The kubelet puts the pod's mounts after those of device plugins (``GenerateRunContainerOptions``), and container runtimes
    sort by the number of parts of the path, keeping the order of equal ones (containerd's ``WithMounts``): so a mount at the
    same path covers the plugin's, one over a parent folder lies below it.
    """
    _check_number(slot)
    gone: list[Placed] = []
    guarded = {*vendor.guard.guarded([each.path for each in slot.placed], "mount")}
    for each in slot.placed:
        mount = each.mount
        if mount is not None and vendor.shim is not None and (each.path, mount.name) in vendor.shim.covers:
            plan.covered.append(slot)  # the shim's own, unless the container gets none
            continue
        if each.path in guarded:
            source = None if mount is None else _shown_by(mount, plan.volumes_called.get(mount.name, ()))
            rule = vendor.guard.catch(each.path, None, source, whole=not share, place="mount")
        else:
            rule = vendor.guard.meant(each.written, whole=not share) if each.roundabout else None
        if rule is None:
            continue
        written = each.path if each.path in guarded else each.written
        shown = f"the {each.shown} at {shorten(written, 100)}"
        remedy = f"remove it, or {'write another path' if mount is None else 'mount the volume elsewhere'}"
        if _removes(plan, rule, _Caught(shown, each.place, each.path, vendor, share, slot.name, remedy)):
            gone.append(each)
    if gone:
        slot.remove(gone)


def _check_number(slot: Slot) -> None:
    if len(slot.placed) > MAX_MOUNTS:
        message = f"more than {MAX_MOUNTS} mounts, some of which may be guarded: split the container, or mount fewer"
        raise deny(Reason.TOO_MANY, message, container=slot.name, field="volumeMounts")


def _shown_by(mount: VolumeMount, volumes: Sequence[Volume]) -> ValueSource | None:
    """The source of a mount: the kind of its volume, and the path on the node; None for other kinds, or if not known."""
    host_path = volumes[0].host_path if len(volumes) == 1 else None
    if host_path is None or mount.sub_path_expr:
        return None
    return "hostPath", clean_path(f"{host_path.path}/{mount.sub_path or ''}")


def _guard_variables(
    plan: Plan, slot: Slot, vendor: Vendor, request: Request | None, *, share: bool, other: bool = False
) -> None:
    guarded = _guarded_env(slot, vendor)
    if not guarded:
        return
    limits, unset = _written(plan, slot, vendor, request)
    exceptions = plan.policy.settings.guard_exceptions
    gone: list[EnvVar] = []
    for entry in guarded:
        name, value = entry.name, known_value(entry)
        rule = vendor.guard.catch(name, value, value_source(entry), whole=not share, other=other)
        limit = limits.get(name)
        if rule is None or (value is not None and value in (limit, unset.get(name), *exceptions.get(name, ()))):
            continue
        caught = _Caught(f"env {shorten(name)}", f"env[{name}]", value, vendor, share, slot.name, "", limit)
        if _removes(plan, rule, caught._replace(requested=request is not None, other=other)):
            gone.append(entry)
    if gone:
        slot.drop("env", gone)


def _written(
    plan: Plan, slot: Slot, vendor: Vendor, request: Request | None
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The variables that the shim writes for a request, and those that it writes where the pod has none."""
    if vendor.shim is None or request is None:
        return {}, {}
    sized = sized_request(plan, vendor, request) if plan.policy.cards else request
    return vendor.shim.values(sized, slot.name), vendor.shim.if_unset


def _guarded_env(slot: Slot, vendor: Vendor) -> list[EnvVar]:
    """The variables of a container that a vendor's rules list."""
    names = {*vendor.guard.guarded([entry.name for entry in slot.env])}
    return [entry for entry in slot.env if entry.name in names] if names else []


def _report_hiding(plan: Plan, slot: Slot, vendor: Vendor, *, moved: bool) -> None:
    """Find variables that hide the container's own devices: the kubelet puts the pod's after those of the device plugin.

    Another webhook may write them to containers that request nothing in its own keys, before these are translated. If the
    request is translated (`moved`), they are removed; otherwise they are the user's, or another webhook's.
    """
    named: dict[str, list[EnvVar]] = {}
    for entry in _guarded_env(slot, vendor):
        named.setdefault(entry.name, []).append(entry)
    for name, entries in named.items():
        value = known_value(entries[-1])
        if not vendor.guard.hides(name, value):
            continue  # of several with one name the last counts
        message = f"env {shorten(name)}={value!r} hides the devices that the container requests"
        if moved:
            for _ in entries:
                _count_stripped(plan)
            slot.drop("env", entries)
            message = f"{message} and was removed"
        else:
            message = f"{message}: remove it"
        plan.findings.append(Finding(Reason.DEVICES_HIDDEN, message, slot.name, f"env[{name}]", value))


def _count_stripped(plan: Plan) -> None:
    plan.stripped += 1
    if plan.stripped > MAX_MARKS:
        message = f"more than {MAX_MARKS} variables, keys and mounts have to be removed: remove them from the manifest"
        raise deny(Reason.TOO_MANY, message)


def _action(plan: Plan, rule: Guard) -> str:
    """The action for what a rule catches: the namespace's, or else the rule's own."""
    action = plan.chosen(GUARD)
    if action == "audit":
        return "allow" if rule.action == "allow" else "warn"
    return rule.action if action is None or (action == "strip" and rule.place in KEPT_PLACES) else action


def known_value(entry: EnvVar) -> str | None:
    """The value of a variable; None if it is not known before the container starts.

    It is not known if it is set by ``valueFrom``, or refers to another variable, which the kubelet expands.
    """
    if present(entry.value_from):
        return None
    value = entry.value or ""
    return None if "$(" in value else value


def _effect(rule: Guard, may: str = "") -> str:
    """The effect of what a rule catches: beside whole devices, which have no limit, too, that of showing others."""
    verb, what = (
        ("show", "devices that the container did not request") if rule.whole else ("lift", "the limit of the share")
    )
    return f"{may} {verb} {what}" if may else f"{verb}s {what}"


def _way_out(plan: Plan, caught: _Caught, rule: Guard) -> str:
    """What permits what a rule denies."""
    whole = or_whole(plan, caught.vendor) if caught.share and not (rule.whole or caught.other) else ""
    audited = caught.field in _EFFECTS and caught.field != "spec.runtimeClassName"
    return f"{whole}; the annotation {GUARD}: audit of the namespace permits it" if audited else whole


def _denial(caught: _Caught, rule: Guard) -> str:
    """What is wrong, then what to write instead."""
    effect = _EFFECTS.get(caught.field) or _effect(rule)
    if caught.remedy:
        return f"{caught.shown} {effect}: {caught.remedy}"
    harmless = [] if caught.requested and rule.hides else sorted(value or '""' for value in rule.harmless or ())
    remedy = f"remove it, or write {' or '.join(harmless)}" if harmless else "remove it"
    if caught.limit is not None:
        remedy = f"remove it (the requested limit is {caught.limit})"
    elif caught.value is None and not (harmless or rule.hides):
        remedy = "write the value itself, or remove it"
    if caught.value is None:
        effect = _effect(rule, "could")
        return f"{caught.shown} gets its value only when the container starts, and it {effect}: {remedy}"
    return f"the value of {caught.shown} {effect}: {remedy}"


class Hiding(Struct, frozen=True):
    """What hides the devices of a policy, and what requests them."""

    variables: Mapping[str, str]  # the variables, each with the value that hides
    resources: NameSet  # the resource names by which a container requests some, in whatever keys
    idle: NameSet  # those of them that give none by themselves, whatever their number: a priority
    keys: NameSet  # the labels and annotations by which a pod requests some


_NOT_HIDING: Final = Hiding({}, NameSet(), NameSet(), NameSet())


def hiding_of(policy: Policy) -> Hiding:
    """What hides the devices of the settings `target` and `served`: no variable if the setting `hideDevices` is off."""
    if not policy.settings.hide_devices:
        return _NOT_HIDING
    known: Hiding | None = policy.memo.get(_MEMO)
    if known is None:
        known = _hiding(policy)
        policy.memo.keep(_MEMO, known, _BYTES)
    return known


def show_devices(plan: Plan) -> None:
    """Take away what hides devices from containers that request some by now: it was written when this one was called before.

    Runs before the guard, which reports what others have written.
    """
    hiding, before = hiding_of(plan.policy), {*status_in(plan.pod.metadata).hidden}
    if not before:
        return
    by_keys, written = _carries(plan, hiding.keys), hiding.variables.items()
    for slot in plan.slots:
        if slot.name in before and (by_keys or _requests(slot, hiding)):
            slot.drop(
                "env",
                [each for each in slot.env if (each.name, each.value) in written and not present(each.value_from)],
            )


def hide_devices(plan: Plan) -> None:
    """Hide devices from containers that request none. Runs last: what other steps remove or write counts as it will be."""
    hiding = hiding_of(plan.policy)
    if not hiding.variables or _carries(plan, hiding.keys):
        return
    before = {*status_in(plan.pod.metadata).hidden}
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


def _hiding(policy: Policy) -> Hiding:
    served = {policy.settings.target, *policy.settings.served}
    families = {each.family for each in policy.in_force if each.name in served and _keeps_its_keys(each, policy)}
    variables = _variables(vendor for vendor in policy.in_force if vendor.family in families)
    # The runtimes of several makers may read one variable.
    families |= {vendor.family for vendor in policy.in_force if not variables.keys().isdisjoint(_variables([vendor]))}
    return _requesting({*families, "any"}, variables, policy) if variables else _NOT_HIDING


def _requesting(families: Collection[str], variables: Mapping[str, str], policy: Policy) -> Hiding:
    """What requests devices of some hardware, which these variables hide."""
    vendors = [vendor for vendor in policy.vendors.values() if vendor.family in families]
    through = [vendor.lets_through for vendor in vendors]
    resources = [name for each in through for name in (*each.resources, *(f"{prefix}*" for prefix in each.prefixes))]
    named = list(_names(vendors))
    giving = {name for place, gives, name in named if place == "resource" and gives}
    idle = {name for place, _, name in named if place == "resource"} - giving
    keys = {name for place, gives, name in named if place != "resource" and gives}
    return Hiding(variables, NameSet.of(resources), NameSet.of(idle), NameSet.of(keys))


def _names(vendors: Iterable[Vendor]) -> Iterator[tuple[str, bool, str]]:
    """The resource names, labels and annotations of vendors: place, whether one gives devices by itself, and name."""
    for vendor in vendors:
        for key in vendor.keys.values():
            names = [name for template in key.templates for name in template.globs(vendor.variables)]
            yield from ((key.place, _gives(vendor, key), name) for name in names if key.place in _PLACES)
        # Other systems, which no mapping reads, give devices by theirs.
        for other in vendor.names_of_others("label", "annotation"):
            yield other.place, True, other.name


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
