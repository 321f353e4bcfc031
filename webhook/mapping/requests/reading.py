"""Keys → request: read a container's keys by the rules of their vendor, with defaults, to a settled request."""

from webhook.finding import Denied, Finding, deny
from webhook.mapping.model.vendor import Default, Derived, Form, Vendor
from webhook.mapping.requests.conversion import settle
from webhook.mapping.requests.defaults import completed, divides, filled_in
from webhook.mapping.requests.denials import LeftAlone, denied, left_alone, spelling, without_row
from webhook.mapping.requests.device_count import check_derived_counts, count_devices
from webhook.mapping.requests.key_values import KeyValue, KeyValues, form_of, row_of, unconfigured_size
from webhook.mapping.requests.per_device import amount_of
from webhook.mapping.requests.reader import Reader
from webhook.mapping.requests.result import Defaults, Reading
from webhook.reasons import Reason
from webhook.request import ALL, DIMENSIONS, Cores, Dimension, Memory, Request, Size


def read(
    vendor: Vendor, key_values: KeyValues, defaults: Defaults, largest_card: int, container: str, *, home: bool = False
) -> Reading:
    """Read the keys of one container.

    The specified keys alone choose the form. Defaults fill what it leaves open, or complete keys that make no request by
    themselves. A default that would change what is specified is passed over.

    Args:
        vendor: the vendor of the keys.
        key_values: the keys that are set, without those that are 0.
        defaults: the defaults to fill in, already restricted to those that can be written.
        largest_card: bytes; more memory per device is denied as a wrong unit.
        container: the name of the container, for messages.
        home: the request stays in these keys, so they must express what is filled in.

    Raises:
        LeftAlone: the form is left unchanged; or, with `home`, the size of a name is not known.
        Denied: the vendor denies the keys, they make no request, or a value is invalid.
    """

    def read_form(form: Form, key_values: KeyValues, defaults: Defaults) -> Reading:
        row, unknown = row_of(vendor, key_values)
        reader = Reader(vendor, form, key_values, largest_card, container, row)
        return _read_form(reader, unknown, defaults, home=home)

    form = form_of(vendor, key_values)
    if form is not None and form.leave is not None:
        raise left_alone(vendor, form, key_values, container)
    if form is not None and form.deny is None:
        return filled_in(vendor, key_values, form, defaults, read_form, home=home)
    reading = completed(vendor, key_values, defaults, read_form, home=home)
    if reading is not None:
        return reading
    check_derived_counts(vendor, key_values, container)
    if form is not None:
        raise denied(vendor, form, key_values, container)
    keys_text = ", ".join(str(entry) for entry in key_values.values()) or "amounts of 0"
    binding = {name: value for entry in key_values.values() for name, value in entry.binding}
    listed = ", ".join(spelling(key, binding) for key in vendor.keys.values() if key.kind == "amount")
    raise deny(
        Reason.NO_FORM,
        f"{keys_text}: no valid combination of keys; those of {vendor.name} are {listed}",
        container=container,
    )


def _read_form(reader: Reader, unknown: KeyValue | None, defaults: Defaults, *, home: bool) -> Reading:
    """Read keys in a form.

    Args:
        reader: the keys and their form.
        unknown: the key whose value has no row, although its variable has rows.
        defaults: the defaults to fill in by value.
        home: the request stays in these keys.

    Raises:
        Denied: a number is not allowed, or a dimension is missing.
    """
    vendor, form = reader.vendor, reader.form
    if unknown is not None:
        if vendor.keys[unknown.key_name].picks is not None:
            raise _no_row(reader, unknown, home=home)
        # A default does not know the size of a name.
        defaults = {dimension: default for dimension, default in defaults.items() if dimension == "devices"}
    filled: dict[Dimension, Default] = {}
    passed_over: tuple[Dimension, ...] = ()
    devices = count_devices(reader)
    specified: set[Dimension] = set() if devices is None else {"devices"}
    if devices is None and "devices" in defaults:
        count = defaults["devices"].value
        assert isinstance(count, int)  # noqa: S101  (by compilation)
        if count != form.absent.devices and divides(vendor, form, reader.key_values):
            passed_over = ("devices",)
        else:
            filled["devices"] = defaults["devices"]
            devices = count
    devices = devices if devices is not None else form.absent.devices
    memory = amount_of(reader, "memory", devices)
    cores = _as_cores(amount_of(reader, "cores", devices))
    specified_memory, specified_cores = memory, cores
    if memory is not None:
        specified.add("memory")
    elif "memory" in defaults and specified_cores != ALL:
        filled["memory"] = defaults["memory"]
        memory = _amount(defaults["memory"])
    if cores is not None:
        specified.add("cores")
    elif "cores" in defaults and specified_memory != ALL:
        filled["cores"] = defaults["cores"]
        cores = _as_cores(_amount(defaults["cores"]))
    request = settle(Request(devices, memory, cores), form.absent)
    if not request.settled:
        raise _incomplete(reader, request) if unknown is None else _no_row(reader, unknown, home=home)
    return Reading(
        form,
        request,
        frozenset(specified),
        reader.corrections,
        filled,
        passed_over=passed_over,
        findings=tuple(reader.findings),
    )


def _incomplete(reader: Reader, request: Request) -> Denied:
    """Deny keys that leave a dimension open."""
    vendor = reader.vendor
    if (why := unconfigured_size(vendor)) is not None:
        entry = next(iter(reader.key_values.values()))
        return reader.deny(Reason.SIZE_UNKNOWN, f"{entry}: the size of its devices is not configured: {why}", entry)
    missing = [dimension for dimension in DIMENSIONS if getattr(request, dimension) is None]
    keys = [key for dimension in missing for key in vendor.by_dimension[dimension]]
    if request.devices is None and isinstance(reader.form.devices, Derived):
        keys.append(reader.form.devices.key)
    binding = {name: value for entry in reader.key_values.values() for name, value in entry.binding}
    keys_text = ", ".join(spelling(vendor.keys[key], binding) for key in keys)
    return reader.deny(
        Reason.DIMENSION_MISSING, f"{' and '.join(missing)} must be specified: add {keys_text or 'them'}"
    )


def _no_row(reader: Reader, entry: KeyValue, *, home: bool) -> Denied:
    """Deny a name without a row, or leave it unchanged.

    A key that picks a row always needs it, a variable in a name only if nothing else specifies the amounts. A known name is
    left unchanged if the request stays in these keys (`home`): its size does not matter then.
    """
    vendor, binding = reader.vendor, dict(entry.binding)
    message = f"{entry}: {without_row(vendor, entry)}"
    of_another_model = any(binding.get(name) in variable.of_other_models for name, variable in vendor.variables.items())
    if home and vendor.keys[entry.key_name].picks is None and not of_another_model:
        return LeftAlone(Finding(Reason.SIZE_UNKNOWN, message, reader.container))
    return reader.deny(Reason.SIZE_UNKNOWN, message, entry)


def _amount(default: Default) -> Memory | None:
    return None if isinstance(default.value, int) else default.value


def _as_cores(amount: Memory | None) -> Cores | None:
    return None if isinstance(amount, Size) else amount
