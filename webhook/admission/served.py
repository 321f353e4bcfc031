"""What the cluster serves, by the settings `target` and `served`: a request that it does not serve would never be placed.

A part of a device that the hardware isolates becomes a share that software limits by order only.
"""

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.overrides import Overrides, override_source
from webhook.admission.settled import Intent
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.denials import LeftAlone
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import Reading, form_of
from webhook.reasons import Denied, Finding, Reason


def is_served(container: ContainerRequest, overrides: Overrides, policy: Policy) -> bool:
    """Return whether somebody says that the cluster serves the container's own keys, or nobody says what it serves."""
    source = container.vendor
    if container.keys.claimed is not None or override_source(source, overrides, policy) != "itself":
        return True
    return policy.serves(source, [entry.key for entry in container.all_key_values.values()])


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
    source = container.vendor
    form = form_of(source, container.key_values)
    if form is None or not form.isolated:
        return False
    try:
        return not read(source, container.key_values, {}, policy.largest_card, container.name).request.whole
    except (Denied, LeftAlone):
        return True


def isolates(target: Vendor) -> bool:
    """Return whether a vendor has parts of devices that the hardware isolates."""
    return any(form.isolated for form in target.forms)


def loses_isolation(reading: Reading, target: Vendor, form: str) -> bool:
    """Return whether a part that the hardware isolates is limited by software only in a form of the target."""
    if not reading.form.isolated or reading.request.whole:
        return False
    return not any(each.isolated for each in target.forms if each.name == form)


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
