"""The shim: what makes the library that enforces a share present in a container and found by its loader.

Recognises its own earlier work, so that a second pass changes nothing, and puts the library first again where another
webhook has put something before it.
"""

from collections.abc import Mapping
from itertools import count
from typing import Final

from webhook.admission.delivery import choose_delivery, deliver
from webhook.admission.plan import Allocation, Plan
from webhook.finding import Finding, deny
from webhook.labels import SHIM
from webhook.mapping.model.dynamic_loader import (
    KEPT_LIBRARY_PATH,
    LD_LIBRARY_PATH,
    LD_PRELOAD,
    absolute,
    has_empty_element,
    preload_list,
    resolved,
    search_path,
)
from webhook.mapping.model.shim import NO_DELIVERY, Delivery, Need, Shim
from webhook.patch import ContainerEdits, Slot
from webhook.pod import EnvVar, decode_env, present
from webhook.reasons import Reason
from webhook.request import Request

Found = Mapping[str, list[tuple[int, EnvVar]]]
"""Variables of a container that matter to its shim, by name, each with its index: a name may stand there twice."""

MAX_SAME: Final = 16
"""Entries of one name in a container's env, of which only the last counts: an honest one has one, seldom two."""

_NOTHING: Final[Found] = {}


def inject_shim(work: Plan) -> None:
    """Gives every container with a share the shim of the mapping under which it runs.

    Runs after the guard, which may remove a variable that is written here. Fills `Plan.deliveries`:
    ``plugin`` where the shim is the device plugin's business, else the delivery's name.

    Raises:
        Denied: something of the pod's collides with the shim, its limit cannot be written and the mapping denies that,
            or ``LD_PRELOAD`` comes from elsewhere.
    """
    delivered: list[tuple[Slot, Delivery]] = []
    for holding in work.allocations:
        shim = holding.vendor.shim
        if shim is None or not holding.share or not shim.serves(holding.form):
            continue
        delivery = _inject(work, holding, shim)
        if delivery.volumes:
            delivered.append((holding.slot, delivery))
    if delivered:
        deliver(work, delivered)


def _inject(work: Plan, holding: Allocation, shim: Shim) -> Delivery:
    """Edits the environment of one container, and returns what is to bring the library into it."""
    container = holding.slot.name
    if shim.mode == "plugin":
        work.deliveries[container] = "plugin"
        return NO_DELIVERY
    unmet = shim.unmet(holding.request)
    if unmet is not None:
        _leave_to_plugin(work, holding, shim, unmet)
        return NO_DELIVERY
    delivery, why = choose_delivery(work, shim)
    work.deliveries[container] = delivery.kind
    bare = delivery.kind == "none"
    if bare and shim.limit == "env":
        message = f"no shim was injected, the device plugin enforces the limit: {why}"
        work.findings.append(Finding(Reason.LEFT_TO_PLUGIN, message, container))
        _report_unused(work, why)
        return NO_DELIVERY
    edits = work.edits.container(holding.slot)
    found = _find(work, holding, shim, edits)
    if shim.library_path:
        _lead_search_path(work, edits, shim, found)
    if bare:
        return NO_DELIVERY
    if shim.preload:
        _lead_preload(edits, shim, found)
    _set_variables(edits, shim, shim.values(holding.request, container), found)
    return delivery


def _leave_to_plugin(work: Plan, holding: Allocation, shim: Shim, unmet: Need) -> None:
    container = holding.slot.name
    message = f"no limit for the shim follows from {_amount_text(holding.request, unmet)} before the device is known"
    remedy = "request memory as a size" if unmet == "memory" else "request cores in percent"
    if shim.refuse_unmet:
        raise deny(Reason.LIMIT_NOT_MET, f"{message}: {remedy}", container=container)
    work.deliveries[container] = "plugin"
    note = f"{message}; the device plugin enforces it: {remedy} to use the shim"
    work.findings.append(Finding(Reason.LEFT_TO_PLUGIN, note, container))
    _report_unused(work, f"{message}: {remedy}")


def _report_unused(work: Plan, why: str) -> None:
    """Warn where the namespace wants a delivery that a container does not get."""
    wanted = work.context.namespace.annotations.get(SHIM)
    if wanted == "hostPath":
        message = f"the namespace's annotation {SHIM}: {wanted} has no effect: {why}"
        work.report_once(Finding(Reason.DELIVERY_UNUSED, message, None, SHIM, wanted))


def _amount_text(request: Request, dimension: Need) -> str:
    return f"{dimension} {request.memory if dimension == 'memory' else request.cores}"


def _find(work: Plan, holding: Allocation, shim: Shim, edits: ContainerEdits) -> Found:
    """The variables of the container that the shim may write, without those that the guard has taken away."""
    if not work.watched(holding.slot):
        return _NOTHING
    found: dict[str, list[tuple[int, EnvVar]]] = {}
    for index, entry in enumerate(decode_env(holding.slot.container.env)):
        if entry.name in shim.names and index not in edits.env_removed:
            found.setdefault(entry.name, []).append((index, entry))
            if len(found[entry.name]) > MAX_SAME:
                message = f"env {entry.name} is set more than {MAX_SAME} times: set it once"
                raise deny(Reason.TOO_MANY, message, container=holding.slot.name, field=f"env[{entry.name}]")
    return found


def _lead_search_path(work: Plan, edits: ContainerEdits, shim: Shim, found: Found) -> None:
    """Puts the shim's directories first in ``LD_LIBRARY_PATH``, keeping what the user has there."""
    entries = found.get(LD_LIBRARY_PATH)
    if entries is None:
        _add_search_path(work, edits, shim)
        return
    last, seen, dropped = entries[-1][0], 0, False
    refers = any("$(" in (entry.value or "") for _, entry in entries)
    env = list(enumerate(decode_env(edits.slot.container.env))) if refers else []
    values: dict[str, str] = {}
    for index, entry in entries:
        for other, earlier in env[seen:index]:
            if other not in edits.env_removed:
                _learn(values, earlier.name, None if present(earlier.value_from) else earlier.value or "")
        seen = index + 1
        if present(entry.value_from):
            # Of several the kubelet takes the last; an earlier one only serves to be referred to.
            if index == last:
                _keep_from_elsewhere(edits, shim, index)
            _learn(values, LD_LIBRARY_PATH, None)
            continue
        value = resolved(entry.value or "", values)
        dropped = dropped or has_empty_element(value)
        path = search_path(shim.library_path, value)
        if path != (entry.value or ""):
            edits.env_values[index] = path
        _learn(values, LD_LIBRARY_PATH, path)
    if dropped:
        message = (
            "empty elements of LD_LIBRARY_PATH, which the loader reads as the current directory, were removed: "
            "write no colon at either end and no two in a row"
        )
        work.findings.append(Finding(Reason.PATH_CLEANED, message, edits.slot.name, f"env[{LD_LIBRARY_PATH}]"))


def _learn(values: dict[str, str], name: str, value: str | None) -> None:
    """Notes what a variable holds from here on, if that is known (not None) and the kubelet expands nothing in it."""
    if value is None or "$" in value:
        values.pop(name, None)
    else:
        values[name] = value


def _add_search_path(work: Plan, edits: ContainerEdits, shim: Shim) -> None:
    if b"{" in bytes(edits.slot.container.env_from):
        # Where none of the sources has it, the reference stays literal: a directory that does not exist.
        edits.env_appended.append(shim.path_before_env_from)
        return
    edits.env_appended.append(shim.path_alone)
    assumed = f"assumed to be {':'.join(shim.image_default)}" if shim.image_default else "assumed to be empty"
    message = f"LD_LIBRARY_PATH replaces the image's own, {assumed}: set it in the pod if the image needs another"
    work.findings.append(Finding(Reason.IMAGE_PATH_ASSUMED, message, edits.slot.name, f"env[{LD_LIBRARY_PATH}]"))


def _keep_from_elsewhere(edits: ContainerEdits, shim: Shim, index: int) -> None:
    """Renames an entry whose value comes from elsewhere, and refers to it from one of ours right after it."""
    taken = {entry.name for entry in decode_env(edits.slot.container.env)}
    names = (KEPT_LIBRARY_PATH if number == 1 else f"{KEPT_LIBRARY_PATH}_{number}" for number in count(1))
    kept = next(name for name in names if name not in taken)
    edits.env_names[index] = kept
    value = f"{':'.join(shim.library_path)}:{absolute(kept)}"
    edits.env_inserted[index + 1] = {"name": LD_LIBRARY_PATH, "value": value}


def _lead_preload(edits: ContainerEdits, shim: Shim, found: Found) -> None:
    """Puts the shim's files first in ``LD_PRELOAD``, keeping what the user has there."""
    entries = found.get(LD_PRELOAD)
    if entries is None:
        edits.env_appended.append(shim.preload_alone)
        return
    for index, entry in entries:
        if present(entry.value_from):
            raise deny(
                Reason.PRELOAD_FROM_ELSEWHERE,
                "env LD_PRELOAD is set by valueFrom, so the shim cannot be put first: "
                "write the value itself, or remove it",
                container=edits.slot.name,
                field=f"env[{LD_PRELOAD}]",
            )
        value = entry.value or ""
        preload = preload_list(shim.preload, value)
        if preload != value:
            edits.env_values[index] = preload


def _set_variables(edits: ContainerEdits, shim: Shim, values: Mapping[str, str], found: Found) -> None:
    """Adds what the library reads; what already stands there has to say the same."""
    for variable in shim.variables:
        name = variable.name
        value = values.get(name)
        if value is None:
            continue
        entries = found.get(name)
        if entries is None:
            edits.env_appended.append({"name": name, "value": value})
            continue
        for _, entry in entries:
            if present(entry.value_from) or (entry.value or "") != value:
                theirs = "is set by valueFrom" if present(entry.value_from) else "has another value"
                raise deny(
                    Reason.COLLISION,
                    f"env {name} of the pod {theirs}, but the shim needs {name}={value}: remove it",
                    container=edits.slot.name,
                    field=f"env[{name}]",
                    value=entry.value,
                )
