"""Requesting containers that are left unchanged, and unknown names that may be counts."""

import msgspec

from webhook.admission.container_request import ContainerRequest
from webhook.mapping.model.vendor import Vendor
from webhook.reasons import Reason


class Left(msgspec.Struct, frozen=True):
    """A requesting container that is left unchanged: no defaults, no translation, no placement, no shim.

    Attributes:
        requested: the container and its keys.
        why: a sentence, for explanations only.
        placed: its keys select their own scheduler, so that the pod cannot be moved to another vendor's scheduler.
    """

    requested: ContainerRequest
    why: str
    placed: bool = False


def several_bindings(container: ContainerRequest) -> bool:
    """Return whether its keys name different hardware, or different sizes by one kind of name."""
    keys = container.vendor.keys
    if not container.vendor.variables:
        return False
    bindings = {entry.binding for entry in container.all_key_values.values() if keys[entry.key_name].variables}
    return len(bindings) > 1


def left_several(container: ContainerRequest, target: Vendor) -> Left:
    """Leave several sizes in one container (MIG slices) unchanged; deny other keys with several bindings.

    Raises:
        Denied: they name different chips, or would have to be translated.
    """
    for other in container.other_spellings:
        first = container.all_key_values[other.key_name]
        if first.binding == other.binding or not (first.binding and other.binding):
            message = f"{first} and {other} are two spellings of one key: keep one"
            raise container.deny(Reason.SPELLINGS_DIFFER, message, other)
    source = container.vendor
    if container.other_spellings and target is source and any(variable.rows for variable in source.variables.values()):
        return Left(container, "several names in one container, which only its plugin can tell apart")
    listed = ", ".join(str(entry) for entry in (*container.all_key_values.values(), *container.other_spellings))
    message = f"{listed}: the keys of one container must name the same model or chip"
    raise container.deny(Reason.SPELLINGS_DIFFER, message)


def perhaps_counted(container: ContainerRequest, target: Vendor) -> str | None:
    """Return an unknown name that may be the device count, if no known key is.

    Raises:
        Denied: the request would be written for another vendor, and the number of devices is unknown.
    """
    if not container.keys.perhaps:
        return None
    keys = [container.vendor.keys[name] for name in container.vendor.by_dimension["devices"]]
    if any(key.name in container.key_values for key in keys):
        return None
    for name in container.keys.perhaps:
        key = next((key for key in keys if key.perhaps is not None and key.perhaps.fullmatch(name)), None)
        if key is not None and target is not container.vendor:
            message = f"{name} may be this cluster's name for the device count: add it to the names of the key"
            how = f"{key.name!r} with `extends: {container.vendor.name}`, or write {key.spellings[0].text}"
            raise container.deny(Reason.DIMENSION_MISSING, f"{message} {how}")
        if key is not None:
            return name
    return None
