"""References to ConfigMaps that only the source's scheduler creates: removed if another vendor serves the pod.

The source's own webhook may have been called before. It names the ConfigMaps in an annotation of the pod, and lets variables,
``envFrom`` and volumes take their content from there. If another scheduler places the pod nobody creates them, and its
containers would never start.
"""

from typing import Final

from webhook.admission.plan import Plan
from webhook.finding import Finding, deny
from webhook.patch import Slot
from webhook.pod import config_maps_from, config_maps_mounted, decode_env, value_source
from webhook.reasons import Reason

MAX_REFERENCES: Final = 256
"""The most references that are removed from one pod: an honest pod has a handful."""


def drop_references(plan: Plan) -> None:
    """Remove what the webhook of a translated request's source wrote for that system alone.

    Runs before the guard, which would deny variables with ``valueFrom``.

    Raises:
        Denied: `Reason.TOO_MANY`: more than any system writes.
    """
    keys: dict[str, tuple[str, str]] = {}
    for allocation in plan.allocations:
        key = allocation.source.document.config_maps
        if key is not None and key != allocation.vendor.document.config_maps:
            keys[key] = allocation.source.name, allocation.vendor.name
    annotations = plan.pod.metadata.annotations or {}
    for key, (source, target) in keys.items():
        if key not in annotations:
            continue
        plan.edits.annotations.values[key] = None
        dropped = _dropped(plan, f"{annotations[key]}-") if annotations[key] else []
        listed = f" with {', '.join(dict.fromkeys(dropped))}" if dropped else ""
        message = f"annotation {key} was removed{listed}: {source}'s webhook wrote it, and {target} does not use it"
        plan.findings.append(Finding(Reason.REFERENCES_DROPPED, message, field=key, value=annotations[key]))


def _dropped(plan: Plan, prefix: str) -> list[str]:
    """Remove references to ConfigMaps whose names have a prefix; return them as messages name them."""
    dropped: list[str] = []
    for slot in plan.slots:
        dropped += _of_container(plan, slot, prefix)
    for index, name in config_maps_mounted(plan.pod.spec.volumes):
        if name.startswith(prefix):
            plan.edits.volumes_removed.add(index)
            dropped.append("a volume")
    if len(dropped) > MAX_REFERENCES:
        raise deny(
            Reason.TOO_MANY,
            f"{len(dropped)} references to ConfigMaps {prefix}* have to be removed: remove them from the manifest",
        )
    return dropped


def _of_container(plan: Plan, slot: Slot, prefix: str) -> list[str]:
    dropped: list[str] = []
    for index, entry in enumerate(decode_env(slot.container.env)):
        kind, name = value_source(entry) or ("", "")
        if kind == "configMapKeyRef" and name.startswith(prefix):
            plan.edits.container(slot).env_removed.add(index)
            dropped.append(f"env {entry.name}")
    for index, name in config_maps_from(slot.container.env_from):
        if name.startswith(prefix):
            plan.edits.container(slot).env_from_removed.add(index)
            dropped.append("an envFrom")
    return dropped
