"""How the library of a shim reaches a container: which delivery, and its volumes, mounts and init container.

A second pass recognizes the edits of the first and changes nothing.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from webhook import labels
from webhook.admission.decision import ENFORCE_LABEL, Plan
from webhook.admission.overrides import selected_architectures
from webhook.mapping.model.shim import ARCH_LABEL, NO_DELIVERY, Delivery, PodEntry, Shim, has_mark, inside
from webhook.patch import Slot
from webhook.pod import Placed, Volume, VolumeMount, clean_path, present
from webhook.quantity import Number, QuantityError, parse_quantity
from webhook.reasons import Finding, Reason, deny
from webhook.text import shorten

MAX_MORE: Final = 1024
"""The most bytes that a volume's source may have more than the shim's and is still compared: defaults, other spellings."""

MAX_COMMAND: Final = 64 * 1024
"""The most bytes of a command that is compared with that of the init container."""

NOT_SERVED: Final = "this cluster serves no image volumes"

_BY_DEFAULT: Final = frozenset({"/var/run/secrets/kubernetes.io/serviceaccount", "/dev/termination-log"})
"""Where API servers mount the token into every container, and have its termination message."""

_members = msgspec.json.Decoder(dict[str, Any] | None)


def choose_delivery(plan: Plan, shim: Shim, container: str) -> tuple[Delivery, str]:
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
    if chosen and (kind != "image" or _image_volumes(plan)):
        return chosen[0], ""
    delivery, passed_over = _permitted(plan, deliveries)
    if delivery.kind == "none":
        preferred = "the mapping prefers none" if len(shim.deliveries) > 1 else "the mapping's delivery is none"
        return delivery, "; ".join(dict.fromkeys(passed_over.values())) or preferred
    _note_passed_over(plan, delivery, passed_over, container)
    if kind is not None:
        report_unused(plan, NOT_SERVED if chosen else "the mapping has no such delivery")
    return delivery, ""


def _note_passed_over(plan: Plan, delivery: Delivery, passed_over: Mapping[str, str], container: str) -> None:
    for name, reason in passed_over.items():
        message = f"delivery {name} was passed over for {delivery.kind}: {reason}"
        _note_once(plan, Finding(Reason.DELIVERY_PASSED_OVER, message, container))


def _permitted(plan: Plan, deliveries: Sequence[Delivery]) -> tuple[Delivery, dict[str, str]]:
    """The first delivery that is possible here, and why those before it are not."""
    passed_over: dict[str, str] = {}
    for delivery in deliveries:
        why = _forbids(plan, delivery, only=len(deliveries) == 1)
        if not why:
            return delivery, passed_over
        passed_over[delivery.kind] = why
    return NO_DELIVERY, passed_over


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
    if delivery.kind == "image" and not _image_volumes(plan):
        return NOT_SERVED
    level = _pod_security(plan)
    if delivery.privileged and not only and level != "privileged":
        return f"the namespace's Pod Security level {level} permits no {delivery.kind}"
    return ""


def _image_volumes(plan: Plan) -> bool:
    """Whether the cluster serves image volumes, by the settings or else by what is known of it."""
    served = plan.policy.settings.image_volumes
    return plan.context.image_volumes if served is None else served


def report_unused(plan: Plan, why: str) -> None:
    """Warn if the namespace sets a delivery that a container does not get."""
    kind = plan.chosen(labels.SHIM)
    if kind not in {None, "none"}:
        message = f"the namespace's annotation {labels.SHIM}: {kind} has no effect: {why}"
        plan.report_once(Finding(Reason.DELIVERY_UNUSED, message, None, labels.SHIM, kind))


def _pod_security(plan: Plan) -> str:
    """The level that the namespace enforces; an unknown one counts as restricted, as for the API server."""
    level = plan.context.namespace.labels.get(ENFORCE_LABEL)
    if level is not None:
        return level if level in {"privileged", "baseline"} else "restricted"
    return plan.policy.settings.pod_security_default or plan.context.pod_security_default


def deliver(plan: Plan, delivered: Sequence[tuple[Slot, Delivery]]) -> None:
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
        key: _amount(value) if isinstance(value, str) else value
        for key, value in members.items()
        if value != "" and value is not None
    }


def _amount(text: str) -> str | Number:
    try:
        return parse_quantity(text)
    except QuantityError:
        return text


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
    return placed.roundabout and has_mark(placed.written.encode(), delivery.marks)


def _same_mount(mount: VolumeMount, entry: PodEntry) -> bool:
    sent = (mount.name, mount.sub_path or "", bool(mount.read_only), mount.sub_path_expr or "")
    return sent == (entry["name"], entry.get("subPath", ""), entry.get("readOnly", False), "")
