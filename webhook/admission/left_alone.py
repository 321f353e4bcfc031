"""Requesting containers that are left unchanged, and unknown names that may be counts."""

import msgspec

from webhook.admission.collect import ContainerRequest
from webhook.mapping.model.vendor import Vendor
from webhook.reasons import Reason


class Left(msgspec.Struct, frozen=True):
    """A requesting container that is left unchanged: no defaults, no translation, no placement, no shim.

    Attributes:
        why: a sentence, for explanations only.
        placed: its keys select their own scheduler, so that the pod cannot be moved to another vendor's scheduler.
    """

    requested: ContainerRequest
    why: str
    placed: bool = False


def several_bindings(one: ContainerRequest) -> bool:
    """Whether its keys name different hardware, or different sizes of one kind of name."""
    bindings = {said.binding for said in one.all_key_values.values() if one.vendor.keys[said.key_name].variables}
    return len(bindings) > 1


def left_several(one: ContainerRequest, target: Vendor) -> Left:
    """Deny keys that name different chips; leave several sizes in one container (MIG slices) unchanged.

    Raises:
        Denied: they name different chips, or would have to be translated.
    """
    for other in one.others:
        first = one.all_key_values[other.key_name]
        if first.binding == other.binding or not (first.binding and other.binding):
            message = f"{first} and {other} are two spellings of one key: keep one"
            raise one.deny(Reason.SPELLINGS_DIFFER, message, other)
    if one.others and target is one.vendor and any(variable.rows for variable in one.vendor.variables.values()):
        return Left(one, "several names in one container, which only its plugin can tell apart")
    listed = ", ".join(str(said) for said in (*one.all_key_values.values(), *one.others))
    raise one.deny(Reason.SPELLINGS_DIFFER, f"{listed}: the keys of one container must name the same model or chip")


def perhaps_counted(one: ContainerRequest, target: Vendor) -> str | None:
    """Return an unknown name that may be the device count, if no known key is.

    Raises:
        Denied: the request would be written for another vendor, and the number of devices is unknown.
    """
    keys = [one.vendor.keys[name] for name in one.vendor.by_dimension["devices"]]
    if any(key.name in one.key_values for key in keys):
        return None
    for name in one.keys.perhaps:
        key = next((key for key in keys if key.perhaps is not None and key.perhaps.fullmatch(name)), None)
        if key is not None and target is not one.vendor:
            message = f"{name} may be this cluster's name for the device count: add it to the names of the key"
            how = f"{key.name!r} with `extends: {one.vendor.name}`, or write {key.spellings[0].text}"
            raise one.deny(Reason.DIMENSION_MISSING, f"{message} {how}")
        if key is not None:
            return name
    return None
