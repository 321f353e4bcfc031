"""What refers to ConfigMaps that only the source's scheduler makes: gone where another vendor serves the pod.

The system's own webhook may have been called before: it names the ConfigMaps in an annotation of the pod and has variables,
``envFrom`` and volumes take their content from there. Where another scheduler places the pod nobody makes them, and its
containers would never start.
"""

from typing import Final

from webhook.admission.plan import Plan
from webhook.finding import Finding, deny
from webhook.patch import Slot
from webhook.pod import config_maps_from, config_maps_mounted, decode_env, value_source
from webhook.reasons import Reason

MAX_REFERENCES: Final = 256
"""References that are taken from one pod: an honest one has a handful."""


def drop_references(work: Plan) -> None:
    """Takes away what the webhook of a translated request's source wrote for that system alone.

    Runs before the guard, which would deny variables that take their value from elsewhere.

    Raises:
        Denied: `Reason.TOO_MANY`: more than any system writes.
    """
    keys: dict[str, tuple[str, str]] = {}
    for holding in work.allocations:
        key = holding.source.document.config_maps
        if key is not None and key != holding.vendor.document.config_maps:
            keys[key] = holding.source.name, holding.vendor.name
    there = work.pod.metadata.annotations or {}
    for key, (source, target) in keys.items():
        if key not in there:
            continue
        work.edits.annotations.values[key] = None
        dropped = _dropped(work, f"{there[key]}-") if there[key] else []
        listed = f" with {', '.join(dict.fromkeys(dropped))}" if dropped else ""
        message = f"annotation {key} was removed{listed}: {source}'s webhook wrote it, and {target} does not use it"
        work.findings.append(Finding(Reason.REFERENCES_DROPPED, message, field=key, value=there[key]))


def _dropped(work: Plan, beginning: str) -> list[str]:
    """Removes what refers to ConfigMaps whose names begin so; what it is called."""
    found: list[str] = []
    for slot in work.slots:
        found += _of_container(work, slot, beginning)
    for index, name in config_maps_mounted(work.pod.spec.volumes):
        if name.startswith(beginning):
            work.edits.volumes_removed.add(index)
            found.append("a volume")
    if len(found) > MAX_REFERENCES:
        raise deny(
            Reason.TOO_MANY,
            f"{len(found)} references to ConfigMaps {beginning}* have to be removed: remove them from the manifest",
        )
    return found


def _of_container(work: Plan, slot: Slot, beginning: str) -> list[str]:
    found: list[str] = []
    for index, entry in enumerate(decode_env(slot.container.env)):
        kind, name = value_source(entry) or ("", "")
        if kind == "configMapKeyRef" and name.startswith(beginning):
            work.edits.container(slot).env_removed.add(index)
            found.append(f"env {entry.name}")
    for index, name in config_maps_from(slot.container.env_from):
        if name.startswith(beginning):
            work.edits.container(slot).env_from_removed.add(index)
            found.append("an envFrom")
    return found
