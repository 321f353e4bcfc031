"""The shim: the library that enforces a share, found by the loader of a container; and how it gets there.

A delivery brings it: with volumes, mounts and an init container. A second pass recognizes the edits of the first and changes
nothing, and puts the library first again if another webhook has put something before it.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from webhook import labels
from webhook.admission.decision import ENFORCE_LABEL, Allocation, Plan
from webhook.admission.intent import selected_architectures, sized_request
from webhook.admission.resolve import PodResult
from webhook.admission.settle import Settled
from webhook.mapping.model.shim import (
    ARCH_LABEL,
    KEPT_LIBRARY_PATH,
    LD_LIBRARY_PATH,
    LD_PRELOAD,
    MAX_INDEXED,
    NO_DELIVERY,
    PRELOAD_FILE,
    Delivery,
    Need,
    PodEntry,
    Shim,
    absolute,
    has_empty_element,
    inside,
    preload_list,
    resolved,
    search_path,
)
from webhook.mapping.model.vendor import system_names
from webhook.patch import Slot
from webhook.pod import ENV, EnvVar, Placed, Volume, VolumeMount, clean_path, entries, present
from webhook.reasons import Finding, Reason, deny
from webhook.request import UNLIMITED, exact_text, number_in
from webhook.text import shorten


def keep_environment(plan: Plan, resolution: PodResult) -> None:
    """Add the variables of a translated request that follow from its keys, and report those that are not known.

    Variables of the pod are kept, and those that the target's own plugin sets are left to it.
    """
    for allocation, first in zip(plan.allocations, resolution.settled, strict=True):
        for settled in resolution.passes(first):
            if settled.translated and settled.requested.vendor.environment:
                _keep(plan, allocation, settled)


def _keep(plan: Plan, allocation: Allocation, settled: Settled) -> None:
    source, target, requested = settled.requested.vendor, settled.target, settled.requested
    source_system, target_system = system_names(source, target)
    slot = allocation.slot
    taken = {entry.name for entry in entries(slot.container.env, ENV)}
    taken.update([entry["name"] for entry in slot.env_added], target.environment)
    wanted = {name: key for name, key in source.environment.items() if name not in taken}
    for name, key in wanted.items():
        entry = requested.key_values.get(key or "")
        if entry is not None:
            devices = (settled.request.devices or 1) if source.keys[entry.key_name].total else 1
            value = exact_text(Fraction(entry.number) / devices)
            slot.env_added.append({"name": name, "value": value})
            message = (
                f"env {name}={value} was added: the plugin of {source_system} sets it, that of {target_system} does not"
            )
            plan.findings.append(Finding(Reason.VARIABLE_ADDED, message, requested.name, f"env[{name}]", value))
    missing = [name for name, key in wanted.items() if (key or "") not in requested.key_values]
    if missing:
        message = (
            f"{', '.join(missing)}: set by the plugin of {source_system}, not by that of {target_system}: "
            "set it in the pod if the program needs it"
        )
        plan.findings.append(Finding(Reason.VARIABLE_MISSING, message, requested.name))


ShimEnv = Mapping[str, list[EnvVar]]
"""The variables of a container that its shim may write, by name; a name may occur several times."""

MAX_MORE: Final = 1024
"""The most bytes that a volume's source may have more than the shim's and is still compared: defaults, other spellings."""

MAX_COMMAND: Final = 64 * 1024
"""The most bytes of a command that is compared with that of the init container."""

_NOT_SERVED: Final = "this cluster serves no image volumes"

_BY_DEFAULT: Final = frozenset({"/var/run/secrets/kubernetes.io/serviceaccount", "/dev/termination-log"})
"""Where API servers mount the token into every container, and have its termination message."""

_members = msgspec.json.Decoder(dict[str, Any] | None)

MAX_SAME: Final = 16
"""The most entries of one name in a container's env, of which only the last counts: honest pods have one, seldom two."""

MAX_VARIABLE: Final = 128 * 1024
"""The most bytes of a variable as ``NAME=value`` and a zero byte with which Linux starts a program: ``MAX_ARG_STRLEN``,
execve(2)."""

MAX_PATHS: Final = 256 * 1024
"""The most characters of all search and preload paths of a pod together: two of the longest, or 2,048 for each of the most
containers that may request."""

MAX_REFERENCES: Final = 64
"""The most references to other variables in one search path: honest ones have one or two."""

_PATHS: Final = frozenset({LD_LIBRARY_PATH, LD_PRELOAD})

_PATH_FIELD: Final = f"env[{LD_LIBRARY_PATH}]"


def inject_shim(plan: Plan) -> None:
    """Inject the shim of its mapping into every container with a share.

    Runs after the guard, which may remove a variable that is written here. Fills `Plan.deliveries`:
    ``plugin`` if the device plugin brings the shim, else the delivery's name.
    """
    check_node_folders(plan)
    delivered: list[tuple[Slot, Delivery]] = []
    for allocation in plan.allocations:
        shim = allocation.vendor.shim if allocation.share else None
        if shim is None or not shim.serves(allocation.form):
            continue
        delivery = _inject(plan, allocation, shim)
        if delivery.volumes:
            delivered.append((allocation.slot, delivery))
        elif allocation.vendor.claim is not None:
            _report_uncounted(plan, allocation)
    if delivered:
        _deliver(plan, delivered)
    check_covered(plan, {slot.path for slot, _ in delivered})


def check_covered(plan: Plan, served: Collection[str]) -> None:
    """Deny mounts over the file of preloaded libraries in containers that get no library."""
    for slot in plan.covered:
        if slot.path not in served:
            message = f"the mount at {PRELOAD_FILE} could lift the limit: remove it, or mount the volume elsewhere"
            raise deny(Reason.GUARDED, message, container=slot.name, field=f"volumeMounts[{PRELOAD_FILE}]")


def _report_uncounted(plan: Plan, allocation: Allocation) -> None:
    """Warn of the limits that the driver of claims has no capacity for: without the library nothing enforces them."""
    request, vendor = allocation.request, allocation.vendor
    for dimension in [dimension for key in vendor.keys.values() if not key.counted for dimension in key.dimensions]:
        amount = getattr(request, dimension)
        if amount is not None and amount is not UNLIMITED:
            message = f"{vendor.name} cannot limit {dimension} without its shim: the request of {amount} has no effect"
            plan.findings.append(Finding(Reason.DIMENSION_DROPPED, message, allocation.slot.name))


def _inject(plan: Plan, allocation: Allocation, shim: Shim) -> Delivery:
    """Edit the environment of one container, and return the delivery that brings the library into it."""
    slot, container = allocation.slot, allocation.slot.name
    if shim.mode == "plugin":
        plan.deliveries[container] = "plugin"
        return NO_DELIVERY
    request = sized_request(plan, allocation.vendor, allocation.request) if plan.policy.cards else allocation.request
    unmet = shim.unmet(request)
    if unmet is not None:
        _leave_to_plugin(plan, allocation, shim, unmet)
        return NO_DELIVERY
    delivery, why = _choose_delivery(plan, shim, container)
    plan.deliveries[container] = delivery.kind
    undelivered = delivery.kind == "none"
    if undelivered and shim.limit == "env":
        _report_undelivered(plan, allocation, why)
        return NO_DELIVERY
    values = shim.values(request, container)
    if shim.indexed and (request.devices or 0) > MAX_INDEXED:
        message = f"the enforcing library needs variables for each of {request.devices} devices: request at most {MAX_INDEXED}"
        raise deny(Reason.TOO_MANY, message, container=container)
    env = _shim_env(plan, slot, shim, values)
    if shim.library_path:
        _lead_search_path(plan, slot, shim, env)
    if not undelivered:
        if shim.preload:
            _lead_preload(slot, shim.preload, env)
        _set_variables(slot, values, env)
        # The pod's own was judged by the guard.
        _set_variables(slot, {name: value for name, value in shim.if_unset.items() if name not in env}, env)
    elif shim.own_path is not None:
        _set_variables(slot, {shim.own_path["name"]: shim.own_path["value"]}, env)
    return delivery


def _report_undelivered(plan: Plan, allocation: Allocation, why: str) -> None:
    by_plugin = allocation.vendor.claim is None
    enforced = "the device plugin enforces the limit" if by_plugin else "the driver may enforce limits"
    message = f"the library that enforces the share was not added, {enforced}: {why}"
    plan.findings.append(Finding(Reason.LEFT_TO_PLUGIN, message, allocation.slot.name))
    _report_unused(plan, why)


def _leave_to_plugin(plan: Plan, allocation: Allocation, shim: Shim, unmet: Need) -> None:
    container = allocation.slot.name
    amount = getattr(allocation.request, unmet)
    message = f"no limit for the enforcing library follows from {unmet} {amount} before the device is known"
    remedy = "request memory as a size" if unmet == "memory" else "request cores in percent"
    if shim.without == "deny":
        raise deny(Reason.LIMIT_NOT_MET, f"{message}: {remedy}", container=container)
    plan.deliveries[container] = "plugin"
    note = f"{message}; the device plugin enforces it: {remedy} to use the enforcing library"
    plan.findings.append(Finding(Reason.LEFT_TO_PLUGIN, note, container))
    _report_unused(plan, f"{message}: {remedy}")


def _shim_env(plan: Plan, slot: Slot, shim: Shim, values: Mapping[str, str]) -> ShimEnv:
    """The variables of the container that the shim may write, without those that the guard has removed."""
    env: dict[str, list[EnvVar]] = {}
    for entry in slot.env:
        if entry.name in shim.names or entry.name in values:
            env.setdefault(entry.name, []).append(entry)
            if len(env[entry.name]) > MAX_SAME:
                message = f"env {entry.name} is set more than {MAX_SAME} times: set it once"
                raise deny(Reason.TOO_MANY, message, container=slot.name, field=f"env[{entry.name}]")
            _check_length(slot, entry.name, entry.value)
            if entry.name in _PATHS:
                _check_paths(plan, slot, entry.name, entry.value or "")
    return env


def _check_length(slot: Slot, name: str, value: str | None) -> None:
    length = len(f"{name}={value or ''}".encode()) + 1
    if length > MAX_VARIABLE:
        message = f"env {name} takes {length} bytes; no program starts with one of more than {MAX_VARIABLE}: shorten it"
        raise deny(Reason.TOO_MANY, message, container=slot.name, field=f"env[{name}]")


def _check_paths(plan: Plan, slot: Slot, name: str, value: str) -> None:
    """Deny paths that take long to be rewritten: their elements and references are looked at one by one."""
    plan.paths += len(value)
    references = value.count("$(")
    if plan.paths > MAX_PATHS:
        message = f"{LD_LIBRARY_PATH} and {LD_PRELOAD} of the pod have more than {MAX_PATHS} characters: shorten them"
    elif references > MAX_REFERENCES:
        message = f"env {name} has {references} references to variables: write at most {MAX_REFERENCES}"
    else:
        return
    raise deny(Reason.TOO_MANY, message, container=slot.name, field=f"env[{name}]")


def _lead_search_path(plan: Plan, slot: Slot, shim: Shim, env: ShimEnv) -> None:
    """Put the shim's directories first in ``LD_LIBRARY_PATH``, before the user's."""
    own = env.get(LD_LIBRARY_PATH)
    if own is None:
        if not shim.leave_unset:
            _add_search_path(plan, slot, shim)
        return
    # Only references need to know what other variables are before one of them.
    every = slot.env if any(["$(" in (entry.value or "") for entry in own]) else own
    values: dict[str, str] = {}
    changed: dict[int, list[EnvVar]] = {}
    before: list[str] = []
    for entry in every:
        value = None if present(entry.value_from) else entry.value or ""
        if entry.name == LD_LIBRARY_PATH and value is not None:
            before.append(resolved(value, values))
            value = search_path(shim.library_path, before[-1])
            if value != (entry.value or ""):
                _check_length(slot, LD_LIBRARY_PATH, value)
                changed[id(entry)] = [replace(entry, value=value)]
        elif entry is own[-1]:
            # Of several the kubelet uses the last; an earlier one matters only to references.
            changed[id(entry)] = _kept_value_from(slot, shim, entry)
        _learn(values, entry.name, value)
    slot.change("env", changed)
    if any(map(has_empty_element, before)):
        message = (
            "empty elements of LD_LIBRARY_PATH, which the loader reads as the current directory, were removed: "
            "write no colon at either end and no two in a row"
        )
        plan.findings.append(Finding(Reason.PATH_CLEANED, message, slot.name, _PATH_FIELD))


def _learn(values: dict[str, str], name: str, value: str | None) -> None:
    """Record the value of a variable from here on, if it is known (not None) and the kubelet expands nothing in it."""
    if value is None or "$" in value:
        values.pop(name, None)
    else:
        values[name] = value


def _add_search_path(plan: Plan, slot: Slot, shim: Shim) -> None:
    if b"{" in bytes(slot.container.env_from):
        # If none of the sources has it, the reference stays literal: a directory that does not exist.
        slot.env_added.append(shim.path_before_env_from)
        return
    slot.env_added.append(shim.path_alone)
    plan.findings.append(Finding(Reason.IMAGE_PATH_ASSUMED, shim.path_assumed, slot.name, _PATH_FIELD))


def _kept_value_from(slot: Slot, shim: Shim, entry: EnvVar) -> list[EnvVar]:
    """An entry with ``valueFrom`` under another name, and one after it that refers to it."""
    used = {each.name for each in slot.env}
    names = (KEPT_LIBRARY_PATH if number == 1 else f"{KEPT_LIBRARY_PATH}_{number}" for number in itertools.count(1))
    renamed = next(name for name in names if name not in used)
    value = f"{':'.join(shim.library_path)}:{absolute(renamed)}"
    return [replace(entry, name=renamed), EnvVar(LD_LIBRARY_PATH, value)]


def _lead_preload(slot: Slot, files: tuple[str, ...], env: ShimEnv) -> None:
    """Put the shim's files first in ``LD_PRELOAD``, before the user's."""
    own = env.get(LD_PRELOAD)
    if own is None:
        slot.env_added.append({"name": LD_PRELOAD, "value": ":".join(files)})
        return
    changed: dict[int, list[EnvVar]] = {}
    for entry in own:
        if present(entry.value_from):
            raise deny(
                Reason.PRELOAD_BY_REFERENCE,
                f"env {LD_PRELOAD} is set by valueFrom, so the enforcing library cannot be put first: "
                "write the value itself, or remove it",
                container=slot.name,
                field=f"env[{LD_PRELOAD}]",
            )
        value = entry.value or ""
        preload = preload_list(files, value)
        if preload != value:
            _check_length(slot, LD_PRELOAD, preload)
            changed[id(entry)] = [replace(entry, value=preload)]
    slot.change("env", changed)


def _set_variables(slot: Slot, values: Mapping[str, str], env: ShimEnv) -> None:
    """Add the variables that the library reads; those of the pod must have the same values."""
    for name, value in values.items():
        if name not in env:
            # As the API server stores it: without an empty value.
            slot.env_added.append({"name": name, "value": value} if value else {"name": name})
            continue
        for entry in env[name]:
            if present(entry.value_from) or (entry.value or "") != value:
                problem = "is set by valueFrom" if present(entry.value_from) else "has another value"
                raise deny(
                    Reason.COLLISION,
                    f"env {name} of the pod {problem}, but the enforcing library needs {name}={value}: remove it",
                    container=slot.name,
                    field=f"env[{name}]",
                    value=entry.value,
                )


def _choose_delivery(plan: Plan, shim: Shim, container: str) -> tuple[Delivery, str]:
    """Choose how a shim reaches the containers of this pod; of none, also say why.

    The namespace's annotation decides. Without one, it is the only delivery of the mapping, or of several the first that the
    namespace's Pod Security level permits. A cluster without image volumes has none in either case. What was passed over is
    noted once for the pod.
    """
    kind = plan.chosen(labels.SHIM) if plan.context.namespace.annotations else None
    if kind == "none":
        return NO_DELIVERY, f"the namespace's annotation {labels.SHIM} is none"
    deliveries = _for_architecture(plan, shim, container) if shim.by_architecture else shim.deliveries
    chosen = [delivery for delivery in deliveries if delivery.kind == kind]
    if chosen and (kind != "image" or plan.context.image_volumes):
        return chosen[0], ""
    delivery, why = _permitted(plan, deliveries, container)
    if delivery is NO_DELIVERY:
        preferred = "the mapping prefers none" if len(shim.deliveries) > 1 else "the mapping's delivery is none"
        return delivery, why or preferred
    if kind is not None:
        _report_unused(plan, _NOT_SERVED if chosen else "the mapping has no such delivery")
    return delivery, ""


def _permitted(plan: Plan, deliveries: Sequence[Delivery], container: str) -> tuple[Delivery, str]:
    """The first delivery that is possible here; of none, also why those before it are not."""
    passed_over: dict[str, str] = {}
    for delivery in deliveries:
        why = _forbids(plan, delivery, only=len(deliveries) == 1)
        if why:
            passed_over[delivery.kind] = why
        elif delivery.kind == "none":
            break
        else:
            for name, reason in passed_over.items():
                message = f"delivery {name} was passed over for {delivery.kind}: {reason}"
                _note_once(plan, Finding(Reason.DELIVERY_PASSED_OVER, message, container))
            return delivery, ""
    return NO_DELIVERY, "; ".join(dict.fromkeys(passed_over.values()))


def _for_architecture(plan: Plan, shim: Shim, container: str) -> tuple[Delivery, ...]:
    """The deliveries for the architecture that the pod selects; if that is not one of the shim's, for its default."""
    selected = selected_architectures(plan.pod)
    names = [name for name in shim.by_architecture if selected is None or name in selected] or [*shim.by_architecture]
    if selected is not None and selected != {names[0]}:
        others = shorten(", ".join(sorted(selected - {names[0]})), 40)
        message = f"the library is that for {names[0]}, but the pod may run on {others}: select one {ARCH_LABEL}"
        _note_once(plan, Finding(Reason.ARCHITECTURE_ASSUMED, message, container, ARCH_LABEL))
    return shim.by_architecture[names[0]]


def _note_once(plan: Plan, finding: Finding) -> None:
    """Note of the first container what concerns the pod."""
    if not any([finding.message == each.message for each in plan.findings]):
        plan.findings.append(finding)


def _forbids(plan: Plan, delivery: Delivery, *, only: bool) -> str:
    """Why a delivery is not possible here; empty if it is."""
    if delivery.kind == "image" and not plan.context.image_volumes:
        return _NOT_SERVED
    level = plan.context.namespace.labels.get(ENFORCE_LABEL, plan.context.pod_security_default)
    if delivery.privileged and not only and level != "privileged":
        known = level if level == "baseline" else "restricted"  # as the API server takes an unknown one
        return f"the namespace's Pod Security level {known} permits no {delivery.kind}"
    return ""


def _report_unused(plan: Plan, why: str) -> None:
    """Warn if the namespace sets a delivery that a container does not get."""
    kind = plan.chosen(labels.SHIM)
    if kind not in {None, "none"}:
        message = f"the namespace's annotation {labels.SHIM}: {kind} has no effect: {why}"
        plan.report_once(Finding(Reason.DELIVERY_UNUSED, message, None, labels.SHIM, kind))


def _deliver(plan: Plan, delivered: Sequence[tuple[Slot, Delivery]]) -> None:
    """Add the volumes of deliveries to the pod and their mounts to containers, unless they are present."""
    deliveries = tuple({id(delivery): delivery for _, delivery in delivered}.values())
    for delivery in deliveries:
        if delivery.installer is not None:
            _add_installer(plan, delivery, delivery.installer, delivered)
    if len(deliveries) == 1 and not plan.volumes:
        plan.volumes_added.extend(deliveries[0].volumes)
    else:
        for entry in itertools.chain.from_iterable(delivery.volumes for delivery in deliveries):
            _add_volume(plan, entry)
    _mount_all(plan, delivered, deliveries)


def _mount_all(plan: Plan, delivered: Sequence[tuple[Slot, Delivery]], deliveries: Sequence[Delivery]) -> None:
    by_container = {slot.path: delivery for slot, delivery in delivered}
    installed = {delivery.library for delivery in deliveries if delivery.installer is not None}
    for slot in plan.slots:
        if slot.kind == "initContainers" and slot.name in installed:
            continue
        own = by_container.get(slot.path, NO_DELIVERY)
        mounts = own.mounts
        if slot.placed:
            _check_unwritable(slot, deliveries)
            mounts = tuple([each for each in mounts if not _mounted(slot, each, own)])
        slot.mounts_added.extend(mounts)


def _add_installer(
    plan: Plan, delivery: Delivery, installer: PodEntry, delivered: Sequence[tuple[Slot, Delivery]]
) -> None:
    """Put the init container that brings a library before those of the pod, unless it is present."""
    found = next((slot for slot in plan.slots if slot.name == delivery.library), None)
    if found is None:
        plan.installers += [] if installer in plan.installers else [installer]
        return
    difference = _difference(found, installer, delivery)
    if difference:
        message = f"container {found.name} is not the enforcing library's: it has {difference}; rename the pod's own"
        raise deny(Reason.COLLISION, message, container=found.name, field="name")
    _check_order(found, delivery, delivered)


def _check_order(found: Slot, delivery: Delivery, delivered: Sequence[tuple[Slot, Delivery]]) -> None:
    """Check that the library is there before the first container that needs it."""
    earlier = next((slot for slot, other in delivered if other is delivery and slot.kind == found.kind), None)
    if earlier is not None and earlier.position < found.position:
        message = f"it needs the library that the init container {found.name} brings: put it after that one"
        raise deny(Reason.COLLISION, message, container=earlier.name, field="initContainers")


def _difference(slot: Slot, installer: PodEntry, delivery: Delivery) -> str:
    """What of a container could bring another library than the shim's; empty for the shim's own.

    API servers add defaults and the token of the service account, other webhooks variables.
    """
    container = slot.container
    mounts = _other_mounts(slot, delivery)
    loading = [entry for entry in slot.env if entry.name.startswith("LD_") or entry.name == "PATH"]
    differences = (
        (slot.kind != "initContainers", "its place in `containers`"),
        (_decoded(container.image) != installer["image"], "another image"),
        (_decoded(container.command) != installer["command"] or b'"' in bytes(container.args), "another command"),
        (present(container.restart_policy), "a restartPolicy"),
        (loading or b"{" in bytes(container.env_from), "variables that decide what it runs"),
        (mounts, mounts),
    )
    return next((what for differs, what in differences if differs), "")


def _other_mounts(slot: Slot, delivery: Delivery) -> str:
    """What an init container mounts beside the library; empty if that is all."""
    mounts = [each for each in slot.placed if each.path not in _BY_DEFAULT]
    for each in mounts:
        if each.mount is None or each.mount.name != delivery.library:
            return f"a {each.shown} at {shorten(each.path)}"
    own = [(each.path, each.mount.sub_path or each.mount.sub_path_expr) for each in mounts if each.mount is not None]
    return "" if own == [(delivery.mount_path, None)] else "other mounts"


def _decoded(raw: msgspec.Raw) -> Any:
    """An image or a command; None for one that is absent, or too long to be the shim's."""
    return msgspec.json.decode(raw) if 0 < len(bytes(raw)) <= MAX_COMMAND else None


def _add_volume(plan: Plan, entry: PodEntry) -> None:
    name = entry["name"]
    volumes = plan.volumes_called.get(name, [])
    field = f"spec.volumes[{name}]"
    if len(volumes) > 1:
        message = f"volume {name}, the enforcing library's, is defined {len(volumes)} times: remove them"
        raise deny(Reason.COLLISION, message, field=field)
    added = [volume for volume in plan.volumes_added if volume["name"] == name]
    if not all([_same_volume(volume, entry) for volume in volumes]) or added[:1] not in ([], [entry]):
        kind = next(key for key in entry if key != "name")
        content = f"hostPath {entry['hostPath']['path']}" if kind == "hostPath" else kind
        message = f"volume {name} is not the enforcing library's ({content}): rename the pod's own"
        raise deny(Reason.COLLISION, message, field=field)
    if not volumes and not added:
        plan.volumes_added.append(entry)


def _same_volume(volume: Volume, entry: PodEntry) -> bool:
    if "hostPath" in entry:
        host_path, ours = volume.host_path, entry["hostPath"]
        return host_path is not None and host_path.path == ours["path"] and (host_path.type or "") == ours["type"]
    for key, raw in (("emptyDir", volume.empty_dir), ("image", volume.image), ("csi", volume.csi)):
        if key in entry:
            members = _members.decode(raw) if 0 < len(bytes(raw)) <= len(repr(entry)) + MAX_MORE else None
            return members is not None and _comparable(members) == _comparable(entry[key])
    return False


def _comparable(members: Mapping[str, Any]) -> dict[str, Any]:
    """The source of a volume as it can be compared: the API server rewrites sizes, and omits empty members."""
    return {
        key: value if not isinstance(value, str) or (number := number_in(value)) is None else number
        for key, value in members.items()
        if value != "" and value is not None
    }


def _check_unwritable(slot: Slot, deliveries: Sequence[Delivery]) -> None:
    """Deny mounts through which a container could write to the library's folder on the node."""
    libraries = {delivery.library for delivery in deliveries}
    for mount in slot.mounts:
        if mount.name in libraries and not mount.read_only:
            message = f"the mount of the enforcing library's volume {mount.name} is writable: remove it, or set readOnly: true"
            raise deny(Reason.COLLISION, message, container=slot.name, field=f"volumeMounts[{mount.name}]")


def check_node_folders(plan: Plan) -> None:
    """Deny mounts through which any container could write to a folder of the node with a shim's library for all pods."""
    folders = plan.policy.shim_folders
    for slot in plan.slots if folders and plan.volumes else ():
        for mount, path in _writable(plan, slot):
            if any(inside(path, folder) or inside(folder, path.rstrip("/")) for folder in folders):
                where = f"the mount of the node's {shorten(path, 100)}, by which shims reach pods"
                message = f"{where}, is writable: remove it, or set readOnly: true"
                field = f"volumeMounts[{mount.mount_path}]"
                raise deny(Reason.COLLISION, message, container=slot.name, field=field)


def _writable(plan: Plan, slot: Slot) -> Iterator[tuple[VolumeMount, str]]:
    """The mounts through which a container writes to the node, with their paths there: several, if the pod is not valid."""
    for mount in slot.mounts:
        for volume in () if mount.read_only else plan.volumes_called.get(mount.name, ()):
            if volume.host_path is not None:
                yield mount, clean_path(f"{volume.host_path.path}/{mount.sub_path or ''}")


def _mounted(slot: Slot, entry: PodEntry, delivery: Delivery) -> bool:
    """Whether a mount is already present.

    What is over a parent folder covers nothing: container runtimes mount in the order of the depth of paths.
    """
    mount_path = entry["mountPath"]
    ours = {other["mountPath"]: other for other in delivery.mounts}
    mounted = False
    for each in slot.placed:
        path, mount = each.path, each.mount
        own = ours.get(path) if mount is not None and path in ours and _same_mount(mount, ours[path]) else None
        if own is not None and path == mount_path:
            mounted = True
        elif own is None and (inside(path, mount_path) or _leads_to(each, delivery)):
            what = f"the {each.shown} is" if mount is None else f"volume {mount.name} is mounted"
            shown = f"{what} at {shorten(path, 100)}, where the webhook mounts {entry['name']}"
            remedy = "write another path" if mount is None else "mount it elsewhere"
            raise deny(Reason.COLLISION, f"{shown}: {remedy}", container=slot.name, field=each.place)
    return mounted


def _leads_to(placed: Placed, delivery: Delivery) -> bool:
    """Whether a path may lead to a delivery's by a roundabout way."""
    return placed.roundabout and any([mark in placed.written.encode() for mark in delivery.marks])


def _same_mount(mount: VolumeMount, entry: PodEntry) -> bool:
    sent = (mount.name, mount.sub_path or "", bool(mount.read_only), mount.sub_path_expr or "")
    return sent == (entry["name"], entry.get("subPath", ""), entry.get("readOnly", False), "")
