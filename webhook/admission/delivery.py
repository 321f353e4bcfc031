"""The delivery of the shim's library to a container: the permitted way, and its volumes and mounts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from webhook import labels
from webhook.admission.context import ENFORCE_LABEL
from webhook.admission.plan import Plan
from webhook.finding import Finding, deny
from webhook.mapping.model.shim import NO_DELIVERY, Delivery, Entry, Shim
from webhook.mapping.model.shim_rules import inside
from webhook.patch import Slot
from webhook.pod import Volume, VolumeMount, clean_path, decode_mounts
from webhook.quantity import Number, QuantityError, parse_quantity
from webhook.reasons import Reason
from webhook.text import shorten

MAX_EMPTY_DIR: Final = 1024
"""The most bytes of an ``emptyDir`` that is compared with the shim's, which has two members."""

KINDS: Final = ("hostPath", "none")
"""The values of the namespace's annotation for the shim."""

_members = msgspec.json.Decoder(dict[str, Any] | None)


class Choice(NamedTuple):
    """The delivery for one pod; if it is `none`, `why` is the reason for messages."""

    delivery: Delivery
    why: str


def choose_delivery(plan: Plan, shim: Shim) -> Choice:
    """Choose how a shim reaches the containers of this pod.

    The namespace's annotation decides. Without one, it is the only delivery of the mapping, or of several the first that the
    namespace's Pod Security level permits.
    """
    kind = _kind_set(plan) if plan.context.namespace.annotations else None
    if kind == "none":
        return Choice(NO_DELIVERY, f"the namespace's annotation {labels.SHIM} is none")
    if kind is not None:
        for delivery in shim.deliveries:
            if delivery.kind == kind:
                return Choice(delivery, "")
    if len(shim.deliveries) == 1:
        return Choice(shim.deliveries[0], "the mapping's delivery is none")
    level = _pod_security(plan)
    for delivery in shim.deliveries:
        if delivery.kind == "none" or level == "privileged":
            why = f"the namespace's Pod Security level {level} permits no hostPath"
            return Choice(delivery, why if level != "privileged" else "the mapping prefers none")
    return Choice(NO_DELIVERY, f"the namespace's Pod Security level {level} permits no delivery of the mapping")


def _kind_set(plan: Plan) -> str | None:
    """The kind of delivery that the namespace's annotation sets; an unknown one is ignored, and reported once per pod."""
    value = plan.context.namespace.annotations.get(labels.SHIM)
    if value is None or value in KINDS:
        return value
    message = (
        f"the namespace's annotation {labels.SHIM}: {shorten(value, 40)!r} was ignored: write {' or '.join(KINDS)}"
    )
    plan.report_once(Finding(Reason.NAMESPACE_SETTING_INVALID, message, None, labels.SHIM, value))
    return None


def _pod_security(plan: Plan) -> str:
    """The level that the namespace enforces; an unknown one counts as restricted, as for the API server."""
    level = plan.context.namespace.labels.get(ENFORCE_LABEL)
    if level is not None:
        return level if level in {"privileged", "baseline"} else "restricted"
    return plan.policy.settings.pod_security_default or plan.context.pod_security_default


def deliver(plan: Plan, delivered: Sequence[tuple[Slot, Delivery]]) -> None:
    """Add the volumes of deliveries to the pod and their mounts to containers, unless they are present.

    Raises:
        Denied: `Reason.COLLISION`: another volume has the name, or another mount the path.
    """
    deliveries = tuple({id(delivery): delivery for _, delivery in delivered}.values())
    lists = [plan.pod.spec.volumes, *[slot.container.volume_mounts for slot in plan.slots]]
    if len(deliveries) == 1 and not deliveries[0].meets(b"".join(lists)):
        plan.edits.volumes.extend(deliveries[0].volumes)
        for slot, delivery in delivered:
            plan.edits.container(slot).mounts.extend(delivery.mounts)
        return
    volumes = plan.volumes() if any([delivery.meets(bytes(lists[0])) for delivery in deliveries]) else {}
    for delivery in deliveries:
        for entry in delivery.volumes:
            _add_volume(plan, volumes.get(entry["name"], []), entry)
    by_container = {slot.path: delivery for slot, delivery in delivered}
    libraries = frozenset(delivery.library for delivery in deliveries)
    for slot in plan.slots:
        own = by_container.get(slot.path)
        raw = bytes(slot.container.volume_mounts)
        if any([delivery.meets(raw) for delivery in deliveries]):
            _mount_beside(plan, slot, own, libraries)
        elif own is not None:
            plan.edits.container(slot).mounts.extend(own.mounts)


def _mount_beside(plan: Plan, slot: Slot, delivery: Delivery | None, libraries: frozenset[str]) -> None:
    """Mount a delivery in a container that may already have a mount with its names or paths."""
    removed = plan.edits.container(slot).mounts_removed
    mounts = [mount for i, mount in enumerate(decode_mounts(slot.container.volume_mounts)) if i not in removed]
    _check_unwritable(slot, mounts, libraries)
    if delivery is not None:
        present = [(clean_path(mount.mount_path), mount) for mount in mounts]
        missing = [entry for entry in delivery.mounts if not _mounted(slot, present, entry, delivery)]
        plan.edits.container(slot).mounts.extend(missing)


def _add_volume(plan: Plan, present: list[Volume], entry: Entry) -> None:
    name = entry["name"]
    if not present and not plan.edits.volumes:
        plan.edits.volumes.append(entry)
        return
    if len(present) > 1:
        raise deny(
            Reason.COLLISION, f"volume {name} is defined {len(present)} times: keep one", field=f"spec.volumes[{name}]"
        )
    added = next(iter([volume for volume in plan.edits.volumes if volume["name"] == name]), None)
    if not all([_same_volume(volume, entry) for volume in present]) or added not in (None, entry):
        message = f"volume {name} is not the shim's ({_content(entry)}): rename the pod's own"
        raise deny(Reason.COLLISION, message, field=f"spec.volumes[{name}]")
    if not present and added is None:
        plan.edits.volumes.append(entry)


def _content(entry: Entry) -> str:
    return f"hostPath {entry['hostPath']['path']}" if "hostPath" in entry else "emptyDir"


def _same_volume(volume: Volume, entry: Entry) -> bool:
    if "hostPath" in entry:
        host_path, ours = volume.host_path, entry["hostPath"]
        return host_path is not None and host_path.path == ours["path"] and (host_path.type or "") == ours["type"]
    if not 0 < len(bytes(volume.empty_dir)) <= MAX_EMPTY_DIR:
        return False
    members = _members.decode(volume.empty_dir)
    return members is not None and _empty_dir(members) == _empty_dir(entry["emptyDir"])


def _empty_dir(members: Mapping[str, Any]) -> dict[str, str | Number]:
    """An emptyDir as it can be compared: the API server rewrites sizes, and omits empty members."""
    return {key: _amount(str(value)) for key, value in members.items() if value != ""}


def _amount(text: str) -> str | Number:
    try:
        return parse_quantity(text)
    except QuantityError:
        return text


def _check_unwritable(slot: Slot, mounts: Sequence[VolumeMount], libraries: frozenset[str]) -> None:
    """Deny mounts through which a container could write to the library's folder on the node."""
    for mount in mounts:
        if mount.name in libraries and not mount.read_only:
            message = f"the mount of the shim's volume {mount.name} is writable: remove it, or set readOnly: true"
            raise deny(Reason.COLLISION, message, container=slot.name, field=f"volumeMounts[{mount.name}]")


def _mounted(slot: Slot, present: Sequence[tuple[str, VolumeMount]], entry: Entry, delivery: Delivery) -> bool:
    """Whether a mount is already present.

    Raises:
        Denied: another one is at its path, or inside the library's folder, where it would replace the library.
    """
    mount_path = entry["mountPath"]
    mounted = False
    for path, mount in present:
        if path == mount_path and _same_mount(mount, entry):
            mounted = True
        elif path == mount_path or (mount_path == delivery.mount_path and inside(path, mount_path)):
            raise deny(
                Reason.COLLISION,
                f"volume {mount.name} is mounted at {path}, where the shim mounts {entry['name']}: mount it elsewhere",
                container=slot.name,
                field=f"volumeMounts[{path}]",
            )
    return mounted


def _same_mount(mount: VolumeMount, entry: Entry) -> bool:
    read_only: bool = entry.get("readOnly", False)
    if mount.sub_path_expr:
        return False
    return (mount.name, mount.sub_path or "", bool(mount.read_only)) == (
        entry["name"],
        entry.get("subPath", ""),
        read_only,
    )
