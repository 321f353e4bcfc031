"""A request that stays in its own vendor's keys: only corrections, promotions and defaults are written."""

from webhook.admission.container_request import ContainerRequest
from webhook.admission.settled import Settled, default_text, limit_not_kept
from webhook.finding import Finding, Step
from webhook.mapping.model.vendor import Key
from webhook.mapping.requests.conversion import step_between
from webhook.mapping.requests.denials import spelling
from webhook.mapping.requests.key_values import format_value
from webhook.mapping.requests.result import Reading
from webhook.quantity import Number
from webhook.reasons import Reason


def keep_keys(container: ContainerRequest, reading: Reading) -> Settled:
    """Return a request in its own keys.

    Raises:
        Denied: a key that has to be written contains a variable that the other keys do not determine.
    """
    settled = Settled(
        container, container.vendor, reading.spelled or reading.request, reading.form.name, reading.filled, reading
    )
    settled.findings.extend([*reading.findings, *limit_not_kept(reading.form, container)])
    for key_name, number in reading.corrections.items():
        _write_key(settled, reading.form.keys[key_name], number)
    for name in container.promoted:
        entry = next(entry for entry in container.all_key_values.values() if entry.key == name)
        settled.resources.setdefault(name, entry.number)
    for key_name, entry in reading.added.items():
        _fill_in(settled, reading.form.keys[key_name], entry.number)
    return settled


def _fill_in(settled: Settled, key: Key, number: Number) -> None:
    """Write a key for a default, and warn about it."""
    name = _write_key(settled, key, number)
    for dimension in key.dimensions:
        default = settled.filled.get(dimension)
        if default is None:
            continue
        amount = getattr(settled.request, dimension)
        message = default_text(dimension, default)
        step: Step | None = None
        if amount != default.value and not isinstance(default.value, int):
            message = f"{message}, rounded up to {amount}"
            step = step_between(dimension, default.value, amount)
        message = f"{message}; set {name} to change it"
        settled.findings.append(
            Finding(Reason.DEFAULT_FILLED, message, settled.requested.name, name, format_value(number), step)
        )


def _write_key(settled: Settled, key: Key, number: Number) -> str:
    """Write a key in the spelling that the container uses; return its name."""
    container = settled.requested
    present = container.all_key_values.get(key.name)
    binding: dict[str, str] = {"container": container.name}
    for other in container.all_key_values.values():
        binding |= dict(other.binding)
    name = present.key if present is not None else spelling(key, binding)
    if "{" in name:
        raise container.deny(
            Reason.UNSUPPORTED_BY_VENDOR, f"{name} is required, and the other keys do not determine it: write it"
        )
    if key.place == "resource":
        settled.resources[name] = number
    else:
        settled.keys.append((key, name, format_value(number)))
    return name
