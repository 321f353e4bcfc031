"""The guard: deny or remove what lifts the limit of a share, and remove what only schedulers write."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, cast

from webhook.admission.advice import or_whole
from webhook.admission.decision import Allocation, Namespace, Plan
from webhook.admission.overrides import sized_request
from webhook.labels import GUARD
from webhook.mapping.model.guard import KEPT_PLACES, Action, Guard, GuardPlace, ValueSource
from webhook.mapping.model.shim import has_mark
from webhook.mapping.model.vendor import Owned, Vendor
from webhook.mapping.notation import NameSet
from webhook.patch import Slot
from webhook.pod import (
    EnvFrom,
    EnvVar,
    Placed,
    Volume,
    VolumeMount,
    capabilities_added,
    clean_path,
    paths_in,
    present,
    value_source,
)
from webhook.reasons import Finding, Reason, deny
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
    "securityContext.procMount": "lets the container change the kernel's settings of the whole node",
}
"""What fields do beside a share, by their paths, for people who want something else of them, such as accounting."""

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
    slot, share = allocation.slot, allocation.share
    if slot.container.security_context is not None or b"hostPath" in bytes(plan.pod.spec.volumes):
        _guard_isolation(plan, allocation)
    _guard_container(plan, slot, allocation.vendor, allocation.request, share=share)
    _show_devices(plan, slot, allocation.vendor, moved=allocation.moved)
    if allocation.copy is not None:
        _guard_container(plan, slot, allocation.copy, allocation.request, share=share)
    if present(slot.container.env_from):
        _report_env_from(plan, allocation)


def _guard_left(plan: Plan) -> None:
    """Apply the guard to containers that stay in their keys; what hides devices concerns those that request some."""
    for slot, vendor, share in plan.left_alone:
        _guard_container(plan, slot, vendor, None, share=bool(share))
        if share is not None:
            _show_devices(plan, slot, vendor, moved=False)


def _guard_others(plan: Plan) -> None:
    """Apply the rules that hold for any container of a pod with a share to those without one.

    A device plugin can take one container for another: HAMi's scheduler writes no part for a container that requests nothing,
    and its plugin takes the number of a part for that of a container.
    """
    shares = [each for each in plan.allocations if not each.request.whole]
    served = {each.slot.path for each in shares}
    others = [slot for slot in plan.slots if slot.path not in served]
    for vendor in dict.fromkeys(vendor for each in shares for vendor in (each.vendor, each.copy) if vendor is not None):
        marks = vendor.guard.anywhere
        for slot in others if marks else ():
            if has_mark(bytes(slot.container.env), marks):
                _guard_variables(plan, slot, vendor, None, share=True, other=True)


def _strip_owned(plan: Plan) -> None:
    """Remove the marks of every concerned vendor's scheduler, unless such a scheduler creates the pod."""
    metadata = plan.pod.metadata
    if metadata.annotations or metadata.labels:
        vendors = {vendor.name: vendor for allocation in plan.allocations for vendor in allocation.vendors}
        _strip(plan, plan.annotations, metadata.annotations or {}, "annotation", vendors.values())
        _strip(plan, plan.labels, metadata.labels or {}, "label", vendors.values())


def _strip(plan: Plan, texts: dict[str, str], keys: Mapping[str, str], what: str, vendors: Iterable[Vendor]) -> None:
    """Remove the marks among annotations or labels."""
    marks = _marks(plan.policy.marks, what).among(keys)
    if len(marks) > MAX_MARKS:
        message = f"{len(marks)} {what}s belong to schedulers: remove them from the manifest"
        raise deny(Reason.TOO_MANY, message, field=f"metadata.{what}s")
    for key in marks:
        owners = [vendor for vendor in vendors if key in _marks(vendor.owned, what)]
        if owners and not any(plan.context.user in vendor.owned_by for vendor in owners):
            texts.pop(key, None)
            names = " and ".join(dict.fromkeys([vendor.system for vendor in owners]))
            message = f"{what} {shorten(key)} belongs to the scheduler of {names} and was removed"
            message += ": remove it from the manifest"
            plan.findings.append(Finding(Reason.OWNED_STRIPPED, message, field=f"metadata.{what}s[{key}]"))


def _marks(owned: Owned, what: str) -> NameSet:
    return owned.annotations if what == "annotation" else owned.labels


def _guard_keys(plan: Plan, texts: dict[str, str], sent: Mapping[str, str], place: GuardPlace) -> None:
    """Apply the guard to annotations or labels of the pod, for every vendor under which some of its containers run."""
    allocations = {
        (allocation.vendor.name, allocation.share): allocation
        for allocation in plan.allocations
        if place in allocation.vendor.guard.places
    }
    for allocation in allocations.values():
        for key, value in sent.items():
            # What was removed, as a source's key or a scheduler's mark, lifts nothing.
            if not allocation.vendor.guard.guarded(key, place) or key not in texts:
                continue
            rule = allocation.vendor.guard.catch(key, value, whole=not allocation.share, place=place)
            if rule is None or value in plan.policy.settings.guard_exceptions.get(key, ()):
                continue
            shown = f"{place} {shorten(key)}"
            denial = f"the value of {shown} {_effect(rule)}: {_remedy(rule.harmless)}"
            whole = _way_out(allocation.vendor, rule, share=allocation.share)
            caught = _Caught(shown, f"metadata.{place}s[{key}]", value, whole=whole)
            if _removes(plan, rule, caught, denial):
                del texts[key]


def _guard_pod_fields(plan: Plan) -> None:
    """Apply the guard to fields of the pod, for every vendor under which some of its containers run."""
    spec = plan.pod.spec
    switches = {
        "hostPID": spec.host_pid,
        "hostIPC": spec.host_ipc,
        "shareProcessNamespace": spec.share_process_namespace,
    }
    values = {name: "true" for name, on in switches.items() if on}
    if spec.runtime_class_name:
        values["runtimeClassName"] = spec.runtime_class_name
    for vendor, share in dict.fromkeys((each.vendor, each.share) for each in plan.allocations):
        for name, value in values.items():
            caught = _Caught(f"{name}: {shorten(value)}", f"spec.{name}", value)
            _guard_field(plan, vendor, name, caught, share=share)


def _guard_isolation(plan: Plan, allocation: Allocation) -> None:
    """Apply the guard to the security context of a container with devices, and to what it mounts from the node."""
    vendor, slot, share = allocation.vendor, allocation.slot, allocation.share
    security = slot.container.security_context
    if security is not None and "field" in vendor.guard.places:
        field = "securityContext.capabilities.add"
        capabilities = security.capabilities
        if capabilities is not None and len(bytes(capabilities.add)) > MAX_CAPABILITIES:
            message = f"capabilities take more than {MAX_CAPABILITIES} bytes: remove those that Linux has not"
            raise deny(Reason.TOO_MANY, message, container=slot.name, field=field)
        added = capabilities_added(security)
        # Container runtimes take them in any case, some with the kernel's prefix.
        for name in dict.fromkeys([written.upper().removeprefix("CAP_") for written in added]):
            caught = _Caught(f"the capability {name}", field, name, slot.name)
            _guard_field(plan, vendor, "capabilities", caught, share=share)
        if security.proc_mount:
            mount = security.proc_mount
            caught = _Caught(f"procMount: {shorten(mount)}", "securityContext.procMount", mount, slot.name)
            _guard_field(plan, vendor, "procMount", caught, share=share)
    if "hostPath" in vendor.guard.places and b"hostPath" in bytes(plan.pod.spec.volumes):
        _guard_host_paths(plan, allocation)


def _guard_host_paths(plan: Plan, allocation: Allocation) -> None:
    """Apply the guard to paths of the node: of a `subPathExpr`, which is not known yet, to those of the whole volume."""
    vendor, slot = allocation.vendor, allocation.slot
    if len(slot.mounts) > MAX_MOUNTS:
        message = f"more than {MAX_MOUNTS} mounts beside a hostPath: split the container, or mount fewer"
        raise deny(Reason.TOO_MANY, message, container=slot.name, field="volumeMounts")
    for mount in slot.mounts:
        for volume in plan.volumes_called(mount.name):
            if volume.host_path is None:
                continue
            path = clean_path(f"{volume.host_path.path}/{'' if mount.sub_path_expr else mount.sub_path or ''}")
            if vendor.guard.guarded(path, "hostPath"):
                shown = f"the mount of the node's {shorten(path, 100)}"
                caught = _Caught(shown, f"volumeMounts[{mount.mount_path}]", path, slot.name)
                _guard_kept(plan, vendor, (path, None, "hostPath"), caught, share=allocation.share)


class _Caught(NamedTuple):
    """What the guard looks at: how messages call it, where it stands, its value, and its container.

    `effect`: one of its own, for messages; `whole`: the vendor whose whole devices are a way out.
    """

    shown: str
    field: str
    value: str | None
    container: str | None = None
    effect: str | None = None
    whole: Vendor | None = None


def _guard_field(plan: Plan, vendor: Vendor, name: str, caught: _Caught, *, share: bool) -> None:
    if vendor.guard.guarded(name, "field"):
        _guard_kept(plan, vendor, (name, caught.value, "field"), caught, share=share)


def _guard_kept(
    plan: Plan, vendor: Vendor, looked_up: tuple[str, str | None, GuardPlace], caught: _Caught, *, share: bool
) -> None:
    """Do what a rule for what is never removed says: deny, report or nothing."""
    name, value, place = looked_up
    rule = vendor.guard.catch(name, value, whole=not share, place=place)
    if rule is None:
        return
    if name == "runtimeClassName":
        hampered = "no library of the node limits a share" if share else f"the library that {vendor.system} adds fails"
        caught = caught._replace(effect=f"runs containers in a sandbox, where {hampered}")
        denial = f"{caught.shown} {caught.effect}: use another class"
    else:
        caught = caught._replace(effect=_EFFECTS.get(caught.field))
        denial = f"{caught.shown} {caught.effect or _effect(rule)}: remove it"
    if share and vendor.guard.catch(name, value, whole=True, place=place) is None:
        caught = caught._replace(whole=vendor)
    _removes(plan, rule, caught, denial)


def _removes(plan: Plan, rule: Guard, caught: _Caught, denial: str) -> bool:
    """Deny, report or let through what a rule catches; return whether it is to be removed, which is reported, too."""
    shown, field, value, container, effect, whole = caught
    # Asked only where a rule catches something: what is remembered of pods without that serves in any namespace.
    match _action(plan, rule):
        case "deny":
            denial += "" if whole is None else or_whole(plan, whole)
            denial += "" if field not in _EFFECTS else f"; the annotation {GUARD}: audit of the namespace permits it"
            plan.deny(Finding(Reason.GUARDED, denial, container, field, value))
        case "warn":
            message = f"{shown} {effect or _possible_effect(rule)} and was kept: remove it"
            plan.report_once(Finding(Reason.GUARD_KEPT, message, container, field, value))
        case "strip":
            _count_stripped(plan)
            message = f"{shown} {_effect(rule)} and was removed: remove it from the manifest"
            plan.findings.append(Finding(Reason.GUARD_STRIPPED, message, container, field, value))
            return True
        case "allow":
            pass
    return False


def _guard_container(plan: Plan, slot: Slot, vendor: Vendor, request: Request | None, *, share: bool) -> None:
    """Apply the guard to variables and mounts of one container; without a share, only to those that show devices."""
    if vendor.guard.marks and has_mark(b"".join(paths_in(slot.container)), vendor.guard.marks):
        _guard_mounts(plan, slot, vendor, share=share)
    if vendor.guard.rules and plan.watched(slot):
        _guard_variables(plan, slot, vendor, request, share=share)


def _report_env_from(plan: Plan, allocation: Allocation) -> None:
    """Report that guarded variables may come from where the webhook cannot look."""
    guard, slot = allocation.vendor.guard, allocation.slot
    names = guard.unseen if allocation.share else guard.unseen[: guard.unseen_beside_whole]
    if not names or b"{" not in bytes(slot.container.env_from) or _action_set(plan) == "allow":
        return
    if all(_by_vendor(plan, each) for each in slot.env_from):
        return
    more = len(names) - MOST_NAMED
    shown = ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    message = f"envFrom may set {shown}, unseen: take single keys of it in env instead"
    plan.findings.append(Finding(Reason.GUARD_BLIND, message, slot.name, "envFrom"))


def _by_vendor(plan: Plan, source: EnvFrom) -> bool:
    """Whether a source of variables is one that a vendor's own webhook refers to, and not the user's."""
    texts = plan.pod.metadata.annotations or {}
    own = tuple(f"{texts[key]}-" for key in plan.policy.references.intersection(texts) if texts[key])
    return source.config_map_ref is not None and source.config_map_ref.name.startswith(own)


def _guard_mounts(plan: Plan, slot: Slot, vendor: Vendor, *, share: bool) -> None:
    """Apply the guard to what the kubelet puts over paths of the device plugin's mounts, whichever field it is in.

    The kubelet puts the pod's mounts after those of device plugins (``GenerateRunContainerOptions``), and container runtimes
    sort by the number of parts of the path, keeping the order of equal ones (containerd's ``WithMounts``): so a mount at the
    same path covers the plugin's, one over a parent folder lies below it.
    """
    every = slot.placed
    if len(every) > MAX_MOUNTS:
        message = f"more than {MAX_MOUNTS} mounts, some of which may be guarded: split the container, or mount fewer"
        raise deny(Reason.TOO_MANY, message, container=slot.name, field="volumeMounts")
    for each in every:
        mount = each.mount
        if mount is not None and vendor.shim is not None and (each.path, mount.name) in vendor.shim.covers:
            plan.covered.append(slot)  # the shim's own, unless the container gets none
            continue
        rule, written = _over_mounts(plan, vendor, each, share=share)
        if rule is None or rule.exception:
            continue
        shown = f"the {each.shown} at {shorten(written, 100)}"
        caught = _Caught(shown, each.place, each.path, slot.name, whole=_way_out(vendor, rule, share=share))
        remedy = "write another path" if mount is None else "mount the volume elsewhere"
        denial = f"{shown} {_effect(rule)}: remove it, or {remedy}"
        if _removes(plan, rule, caught, denial):
            slot.drop(each.field, [each.entry])


def _over_mounts(plan: Plan, vendor: Vendor, placed: Placed, *, share: bool) -> tuple[Guard | None, str]:
    """The rule that catches what is put at a path, and the path as messages have it."""
    guard, path, mount = vendor.guard, placed.path, placed.mount
    if guard.guarded(path, "mount"):
        source = None if mount is None else _shown_by(mount, plan.volumes_called(mount.name))
        return guard.catch(path, None, source, whole=not share, place="mount"), path
    return guard.meant(placed.written, whole=not share) if placed.roundabout else None, placed.written


def _shown_by(mount: VolumeMount, volumes: Sequence[Volume]) -> ValueSource | None:
    """The source of a mount: the kind of its volume, and the path on the node; None for other kinds, or if not known."""
    host_path = volumes[0].host_path if len(volumes) == 1 else None
    if host_path is None or mount.sub_path_expr:
        return None
    return "hostPath", clean_path(f"{host_path.path}/{mount.sub_path or ''}")


def _guard_variables(
    plan: Plan, slot: Slot, vendor: Vendor, request: Request | None, *, share: bool, other: bool = False
) -> None:
    limits: Mapping[str, str] = {}
    unset: Mapping[str, str] = {}
    if vendor.shim is not None and request is not None:
        sized = sized_request(plan, vendor, request) if plan.policy.cards else request
        limits, unset = vendor.shim.values(sized, slot.name), vendor.shim.if_unset
    exceptions = plan.policy.settings.guard_exceptions
    gone: list[EnvVar] = []
    for entry in slot.env:
        name = entry.name
        if not vendor.guard.guarded(name):
            continue
        value = known_value(entry)
        rule = vendor.guard.catch(name, value, value_source(entry), whole=not share, other=other)
        # The vendor's own system writes an exception, whatever the namespace sets for variables that lift a limit.
        if rule is None or rule.exception:
            continue
        if value is not None and value in (limits.get(name), unset.get(name), *exceptions.get(name, ())):
            continue
        whole = None if other else _way_out(vendor, rule, share=share)
        caught = _Caught(f"env {shorten(name)}", f"env[{name}]", value, slot.name, whole=whole)
        denial = _denial(caught, rule, limits.get(name), requested=request is not None)
        if _removes(plan, rule, caught, denial):
            gone.append(entry)
    slot.drop("env", gone)


def _show_devices(plan: Plan, slot: Slot, vendor: Vendor, *, moved: bool) -> None:
    """Find variables that hide the container's own devices: the kubelet puts the pod's after those of the device plugin.

    Another webhook may write them to containers that request nothing in its own keys, before these are translated. If the
    request is translated (`moved`), they are removed; otherwise they are the user's, or another webhook's.
    """
    if not vendor.guard.rules:
        return
    named: dict[str, list[EnvVar]] = {}
    for entry in plan.watched(slot):
        if vendor.guard.guarded(entry.name):
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


def _action(plan: Plan, rule: Guard) -> Action:
    """The action for what a rule catches: the namespace's, or else the rule's own."""
    action = _action_set(plan)
    if action == "audit":
        return "allow" if rule.action == "allow" else "warn"
    if action is None or (action == "strip" and rule.place in KEPT_PLACES):
        return rule.action
    return action


def _action_set(plan: Plan) -> Action | Literal["audit"] | None:
    """The action that the namespace's annotation sets; an unknown value is reported and ignored."""
    invalid = invalid_action(plan.context.namespace)
    if invalid is not None:
        plan.report_once(invalid)
        return None
    return cast('Action | Literal["audit"] | None', plan.context.namespace.annotations.get(GUARD))


def invalid_action(namespace: Namespace) -> Finding | None:
    """The warning about an unknown value of the namespace's annotation."""
    value = namespace.annotations.get(GUARD)
    if value in {None, "deny", "strip", "allow", "audit"}:
        return None
    message = f"the namespace's annotation {GUARD}: {shorten(value)!r} was ignored: write deny, strip, allow or audit"
    return Finding(Reason.NAMESPACE_SETTING_INVALID, message, None, GUARD, value)


def known_value(entry: EnvVar) -> str | None:
    """The value of a variable; None if it is not known before the container starts.

    It is not known if it is set by ``valueFrom``, or refers to another variable, which the kubelet expands.
    """
    if present(entry.value_from):
        return None
    value = entry.value or ""
    return None if "$(" in value else value


def _way_out(vendor: Vendor, rule: Guard, *, share: bool) -> Vendor | None:
    """The vendor whose whole devices a rule lets through, beside a share of it."""
    return vendor if share and not rule.whole else None


def _effect(rule: Guard) -> str:
    """The effect of what a rule catches: beside whole devices, which have no limit, too, that of showing others."""
    return "shows devices that the container did not request" if rule.whole else "lifts the limit of the share"


def _possible_effect(rule: Guard) -> str:
    """The effect of a variable that is only reported, because it has none with every version of what reads it."""
    return f"may {_effect(rule).replace('lifts', 'lift').replace('shows', 'show')}"


def _denial(caught: _Caught, rule: Guard, limit: str | None, *, requested: bool) -> str:
    # If devices are requested, a value that hides them is no remedy.
    harmless = None if requested and rule.hides else rule.harmless
    if caught.value is None:
        effect = _possible_effect(rule).replace("may", "could")
        message = f"{caught.shown} gets its value only when the container starts, and it {effect}: "
        remedy = _remedy(harmless, "remove it" if rule.hides else "write the value itself, or remove it")
    else:
        message = f"the value of {caught.shown} {_effect(rule)}: "
        remedy = _remedy(harmless)
    return f"{message}remove it (the requested limit is {limit})" if limit is not None else f"{message}{remedy}"


def _remedy(harmless: Collection[str] | None, otherwise: str = "remove it") -> str:
    """The remedy for a guarded key."""
    if not harmless:
        return otherwise
    shown = sorted(value or '""' for value in harmless)
    return f"remove it, or write {' or '.join(shown)}"
