"""What the cluster serves, by the settings `target` and `served`: a request that it does not serve would never be placed.

A part of a device that the hardware isolates becomes a share that software limits by order only.
"""

from collections.abc import Collection

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.overrides import Origin
from webhook.admission.settled import Intent
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.reading import read
from webhook.mapping.values import form_of
from webhook.reasons import Denied, Finding, Reason, deny


def is_served(container: ContainerRequest, policy: Policy) -> bool:
    """Return whether the settings say that the cluster serves the container's own keys, or do not say what it serves."""
    if container.keys.claimed is not None:
        return True
    return policy.serves(container.vendor, [entry.key for entry in container.all_key_values.values()])


def check_ordered(target: Vendor, origin: Origin, policy: Policy) -> None:
    """Check that an annotation chooses what the cluster serves, or a maker's plain device plugin.

    That anything else runs here only the settings say.
    """
    if origin not in {"pod", "namespace"}:
        return
    keys = [key for key in target.keys.values() if key.place == "resource"]
    if not _is_plain_plugin(target, keys) and not policy.serves(
        target, [name.text for key in keys for name in key.spellings]
    ):
        message = f"the {origin}'s annotation {labels.TARGET} names {target.name}, which nothing here serves"
        message = f"{message}: {serving(target, policy)}"
        raise deny(Reason.NOT_SERVED, message, field=labels.TARGET, value=target.name)


def _is_plain_plugin(vendor: Vendor, resources: Collection[Key]) -> bool:
    """Whether a maker's device plugin is all that a vendor's resources take: no scheduler is written for it."""
    return vendor.place.scheduler is None and bool(resources) and all(key.plain for key in resources)


def unserved(container: ContainerRequest, policy: Policy) -> Denied:
    """Return the denial of keys that nothing in the cluster serves."""
    keys = ", ".join(map(str, container.all_key_values.values()))
    message = f"nothing here serves {keys}: {serving(container.vendor, policy)}"
    return container.deny(Reason.NOT_SERVED, message)


def serving(source: Vendor, policy: Policy) -> str:
    """Return what the cluster serves, and how to say that it serves another vendor, too."""
    names = [policy.settings.target, *policy.settings.served]
    vendors = [policy.vendors[name] for name in dict.fromkeys(names) if name is not None]
    listed = " and ".join(each.name if each.system == each.name else f"{each.name} ({each.system})" for each in vendors)
    served = ", ".join([*policy.settings.served, source.name])
    return (
        f"this cluster serves {listed}; if it has {source.name}, too, ask the administrator to set `served: [{served}]`"
    )


def isolates_part(container: ContainerRequest, policy: Policy) -> bool:
    """Return whether the keys request a part of a device that the hardware isolates."""
    form = form_of(container.vendor, container.key_values)
    return form is not None and form.isolated and is_part(container, policy)


def is_part(container: ContainerRequest, policy: Policy) -> bool:
    """Return whether the keys request less than whole devices; also if they cannot be read."""
    try:
        return not read(container.vendor, container.key_values, {}, policy.largest_card, container.name).request.whole
    except Denied:
        return True


def isolation_denied(intent: Intent, *, by_order: bool = False) -> Denied:
    """Return the denial of a part that the hardware isolates; `by_order`: the target could express it as a share."""
    container, target = intent.container, intent.target.name
    message = f"{container.every_shown} is isolated by hardware, which {target} cannot do"
    order = f"; or give the isolation up by the annotation {labels.TARGET}: {target}" if by_order else ""
    return container.deny(Reason.NOT_SERVED, f"{message}: {serving(container.vendor, intent.policy)}{order}")


def isolation_lost(container: ContainerRequest, target: Vendor) -> Finding:
    """Return the warning that a part loses its isolation, by order."""
    keys = ", ".join(map(str, container.all_key_values.values()))
    message = f"{keys} was isolated by hardware; the share in the keys of {target.name} is limited by software only"
    return Finding(Reason.ISOLATION_LOST, message, container.name)
