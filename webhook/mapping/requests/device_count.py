"""The number of devices that keys request: of the form, of a key, or derived from another number."""

from fractions import Fraction

from webhook.finding import Denied, deny
from webhook.mapping.model.vendor import Derived, Vendor
from webhook.mapping.requests.key_values import KeyValue, KeyValues
from webhook.mapping.requests.reader import Reader
from webhook.reasons import Reason
from webhook.request import MAX_DEVICES


def count_devices(reader: Reader) -> int | None:
    """Return the number of devices; None if nothing specifies it.

    Raises:
        Denied: the number is not allowed, or larger than any node has.
    """
    devices, entry = _counted(reader)
    if devices is not None and devices > MAX_DEVICES:
        derived = reader.form.devices
        instead = f"write {derived.per} for each" if isinstance(derived, Derived) else "write the number of devices"
        raise _too_many(entry or reader.form.name, devices, instead, reader.container)
    return devices


def _counted(reader: Reader) -> tuple[int | None, KeyValue | None]:
    """Return the number of devices, and the key that specifies it."""
    derived = reader.form.devices
    if isinstance(derived, int):
        reader.ignore("devices")
        return derived, None
    if isinstance(derived, Derived):
        entry = reader.key_values.get(derived.key)
        return (None, None) if entry is None else (_derived(reader, derived, entry), entry)
    entry = reader.counted("devices")
    if entry is None:
        return reader.row.devices if reader.row is not None else None, None
    return int(reader.legal(reader.form.keys[entry.key_name], entry, entry.number)), entry


def _derived(reader: Reader, derived: Derived, entry: KeyValue) -> int:
    """Derive the number of devices from another number, for example one device per 100 % of cores."""
    count = Fraction(entry.number, 1) / derived.per
    if count.denominator == 1:
        return int(count)
    if derived.rounding is None:
        raise reader.deny(Reason.NOT_DIVISIBLE, f"{entry} is not a multiple of {derived.per}: write one", entry)
    rounded = count.__floor__() if derived.rounding == "down" else count.__ceil__()
    if rounded == 0:
        raise reader.deny(Reason.NOT_LEGAL, f"{entry} is less than one device: write {derived.per} or more", entry)
    if derived.rounding == "down":
        reader.report_less(entry, entry.number, rounded * derived.per)
    return rounded


def check_derived_counts(vendor: Vendor, key_values: KeyValues, container: str) -> None:
    """Check that no number counts more devices than any node has, before anything else that may be wrong with it.

    Raises:
        Denied: one does.
    """
    for form in vendor.forms:
        derived = form.devices
        entry = key_values.get(derived.key) if isinstance(derived, Derived) and form.reads else None
        if isinstance(derived, Derived) and entry is not None and entry.number > MAX_DEVICES * derived.per:
            raise _too_many(entry, int(-(-entry.number // derived.per)), f"write {derived.per} for each", container)


def _too_many(entry: KeyValue | str, devices: int, instead: str, container: str) -> Denied:
    message = f"{entry} requests {devices} devices, more than any node has: {instead}"
    field, value = (entry.key, entry.text) if isinstance(entry, KeyValue) else (None, None)
    return deny(Reason.TOO_LARGE, message, container=container, field=field, value=value)
