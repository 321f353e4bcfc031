"""The shim: the library that enforces a share, brought into a container and found by its loader.

A second pass recognizes the edits of the first and changes nothing, and puts the library first again if another webhook has
put something before it.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction
from itertools import count
from typing import Final

from msgspec.structs import replace

from webhook.admission.decision import Allocation, Plan
from webhook.admission.delivery import check_node_folders, choose_delivery, deliver, report_unused
from webhook.admission.overrides import sized_request
from webhook.admission.settled import Settled
from webhook.admission.together import PodResult
from webhook.mapping.model.shim import (
    KEPT_LIBRARY_PATH,
    LD_LIBRARY_PATH,
    LD_PRELOAD,
    MAX_INDEXED,
    NO_DELIVERY,
    PRELOAD_FILE,
    Delivery,
    Need,
    Shim,
    absolute,
    has_empty_element,
    preload_list,
    resolved,
    search_path,
)
from webhook.mapping.model.vendor import system_names
from webhook.patch import Slot
from webhook.pod import ENV, EnvVar, entries, present
from webhook.quantity import exact_text
from webhook.reasons import Finding, Reason, deny
from webhook.request import UNLIMITED


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
        deliver(plan, delivered)
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
    delivery, why = choose_delivery(plan, shim, container)
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
    report_unused(plan, why)


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
    report_unused(plan, f"{message}: {remedy}")


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
    names = (KEPT_LIBRARY_PATH if number == 1 else f"{KEPT_LIBRARY_PATH}_{number}" for number in count(1))
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
