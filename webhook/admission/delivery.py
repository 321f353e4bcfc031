"""The delivery of the shim's library to a container: the permitted way, and its volumes and mounts."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from webhook import labels
from webhook.admission.plan import Plan
from webhook.finding import Finding, deny
from webhook.mapping.model.shim import NO_DELIVERY, Delivery, Entry, Shim
from webhook.mapping.model.shim_rules import inside
from webhook.patch import Slot
from webhook.pod import Volume, VolumeMount, decode_mounts, decode_volumes
from webhook.quantity import Number, QuantityError, parse_quantity
from webhook.reasons import Reason
from webhook.text import shorten

ENFORCE_LABEL: Final = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: the Pod Security level that its pods must keep to."""
MAX_EMPTY_DIR: Final = 1024
"""Bytes of an ``emptyDir`` that is compared with the shim's: it has two members."""
KINDS: Final = ("hostPath", "none")

_members = msgspec.json.Decoder(dict[str, Any] | None)


class Choice(NamedTuple):
    """The delivery for one pod, and why it is `none` if it is, as the end of a sentence that says what to do."""

    delivery: Delivery
    why: str


def choose_delivery(work: Plan, shim: Shim) -> Choice:
    """The way by which a shim reaches the containers of this pod.

    The namespace's annotation decides; without one the only delivery of the mapping; of several the first that the
    namespace's Pod Security level permits.
    """
    ordered = _ordered(work)
    if ordered == "none":
        return Choice(NO_DELIVERY, f"the namespace's annotation {labels.SHIM} is none")
    if ordered is not None:
        for delivery in shim.deliveries:
            if delivery.kind == ordered:
                return Choice(delivery, "")
    if len(shim.deliveries) == 1:
        return Choice(shim.deliveries[0], "the mapping's delivery is none")
    level = _pod_security(work)
    for delivery in shim.deliveries:
        if delivery.kind == "none" or level == "privileged":
            why = f"the namespace's Pod Security level {level} permits no hostPath"
            return Choice(delivery, why if level != "privileged" else "the mapping prefers none")
    return Choice(NO_DELIVERY, f"the namespace's Pod Security level {level} permits no delivery of the mapping")


def _ordered(work: Plan) -> str | None:
    """The delivery that the namespace's annotation sets; an unknown one is ignored, and reported once per pod."""
    value = work.context.namespace.annotations.get(labels.SHIM)
    if value is None or value in KINDS:
        return value
    message = (
        f"the namespace's annotation {labels.SHIM}: {shorten(value, 40)!r} was ignored: write {' or '.join(KINDS)}"
    )
    work.report_once(Finding(Reason.NAMESPACE_SETTING_UNREADABLE, message, None, labels.SHIM, value))
    return None


def _pod_security(work: Plan) -> str:
    """The level that the namespace enforces; one that is not known counts as restricted, as for the API server."""
    level = work.context.namespace.labels.get(ENFORCE_LABEL)
    if level is not None:
        return level if level in {"privileged", "baseline"} else "restricted"
    return work.policy.settings.pod_security_default or work.context.pod_security_default


def deliver(work: Plan, delivered: Sequence[tuple[Slot, Delivery]]) -> None:
    """Adds the volumes of deliveries to the pod and their mounts to containers, as far as they are not there yet.

    Raises:
        Denied: `Reason.COLLISION`: something else has the name of a volume or stands at the path of a mount.
    """
    deliveries = tuple({id(delivery): delivery for _, delivery in delivered}.values())
    raw_volumes = bytes(work.pod.spec.volumes)
    volumes: dict[str, list[Volume]] = {}
    if any(delivery.meets(raw_volumes) for delivery in deliveries):
        for volume in decode_volumes(work.pod.spec.volumes):
            volumes.setdefault(volume.name, []).append(volume)
    for delivery in deliveries:
        for entry in delivery.volumes:
            _add_volume(work, volumes.get(entry["name"], []), entry)
    wanted = {slot.path: delivery for slot, delivery in delivered}
    libraries = frozenset(delivery.library for delivery in deliveries)
    for slot in work.slots:
        own = wanted.get(slot.path)
        raw = bytes(slot.container.volume_mounts)
        if any(one.meets(raw) for one in deliveries):
            _mount_beside(work, slot, own, libraries)
        elif own is not None:
            work.edits.container(slot).mounts.extend(own.mounts)


def _mount_beside(work: Plan, slot: Slot, delivery: Delivery | None, libraries: frozenset[str]) -> None:
    """Mounts a delivery where something of its names, or at its paths, may already stand."""
    mounts = decode_mounts(slot.container.volume_mounts)
    _check_unwritable(slot, mounts, libraries)
    if delivery is not None:
        there = [(_normal(mount.mount_path), mount) for mount in mounts]
        missing = [entry for entry in delivery.mounts if not _stands(slot, there, entry, delivery)]
        work.edits.container(slot).mounts.extend(missing)


def _normal(path: str) -> str:
    """A path as the container runtime takes it, which cleans it; nearly all are clean, and cost nothing."""
    if "//" in path or "/." in path or path[:1] != "/" or path[-1:] == "/":
        return posixpath.normpath(f"/{path.lstrip('/')}")
    return path


def _add_volume(work: Plan, there: list[Volume], entry: Entry) -> None:
    name = entry["name"]
    if len(there) > 1:
        raise deny(
            Reason.COLLISION, f"volume {name} is defined {len(there)} times: keep one", field=f"spec.volumes[{name}]"
        )
    added = next((volume for volume in work.edits.volumes if volume["name"] == name), None)
    if not all(_same_volume(volume, entry) for volume in there) or added not in (None, entry):
        message = f"volume {name} is not the shim's ({_content(entry)}): rename the pod's own"
        raise deny(Reason.COLLISION, message, field=f"spec.volumes[{name}]")
    if not there and added is None:
        work.edits.volumes.append(entry)


def _content(entry: Entry) -> str:
    return f"hostPath {entry['hostPath']['path']}" if "hostPath" in entry else "emptyDir"


def _same_volume(volume: Volume, entry: Entry) -> bool:
    if "hostPath" in entry:
        there, wanted = volume.host_path, entry["hostPath"]
        return there is not None and there.path == wanted["path"] and (there.type or "") == wanted["type"]
    if not 0 < len(bytes(volume.empty_dir)) <= MAX_EMPTY_DIR:
        return False
    members = _members.decode(volume.empty_dir)
    return members is not None and _empty_dir(members) == _empty_dir(entry["emptyDir"])


def _empty_dir(members: Mapping[str, Any]) -> dict[str, str | Number]:
    """An emptyDir as it can be compared: the API server rewrites sizes, and leaves out what is empty."""
    return {key: _amount(str(value)) for key, value in members.items() if value != ""}


def _amount(text: str) -> str | Number:
    try:
        return parse_quantity(text)
    except QuantityError:
        return text


def _check_unwritable(slot: Slot, mounts: Sequence[VolumeMount], libraries: frozenset[str]) -> None:
    """The library's folder is the node's: no container may write to it by way of the volume that is added here."""
    for mount in mounts:
        if mount.name in libraries and not mount.read_only:
            message = f"the mount of the shim's volume {mount.name} is writable: remove it, or set readOnly: true"
            raise deny(Reason.COLLISION, message, container=slot.name, field=f"volumeMounts[{mount.name}]")


def _stands(slot: Slot, there: Sequence[tuple[str, VolumeMount]], entry: Entry, delivery: Delivery) -> bool:
    """Whether a mount is already there.

    Raises:
        Denied: another one stands at its path, or inside the library's folder, where it would replace the library.
    """
    wanted = entry["mountPath"]
    stands = False
    for path, mount in there:
        if path == wanted and _same_mount(mount, entry):
            stands = True
        elif path == wanted or (wanted == delivery.mount_path and inside(path, wanted)):
            raise deny(
                Reason.COLLISION,
                f"volume {mount.name} is mounted at {path}, where the shim mounts {entry['name']}: mount it elsewhere",
                container=slot.name,
                field=f"volumeMounts[{path}]",
            )
    return stands


def _same_mount(mount: VolumeMount, entry: Entry) -> bool:
    read_only: bool = entry.get("readOnly", False)
    if mount.sub_path_expr:
        return False
    return (mount.name, mount.sub_path or "", bool(mount.read_only)) == (
        entry["name"],
        entry.get("subPath", ""),
        read_only,
    )
