"""The keys of one container, explained: what they mean and why, what is written, what was rounded."""

from collections.abc import Iterator

from webhook import labels
from webhook.admission.container_request import ContainerRequest
from webhook.admission.settled import Settled
from webhook.explanation.model import (
    Amount,
    From,
    Rounding,
    Share,
    ShownKey,
    WrittenKey,
)
from webhook.explanation.worth import worth
from webhook.mapping.model.names import index
from webhook.mapping.model.vendor import Derived, Form, Key, Vendor
from webhook.mapping.requests.key_values import KeyValue, format_value
from webhook.mapping.requests.result import Reading
from webhook.quantity import QuantityError, parse_quantity
from webhook.request import DIMENSIONS, UNLIMITED, Dimension, Request, amount_text


def shown_key(vendor: Vendor, key: Key, entry: KeyValue) -> ShownKey:
    """Return a key as it is in the pod."""
    return ShownKey(entry.key, entry.text, key.place, worth(vendor, key, entry.number))


def share_of(request: Request) -> Share:
    """Return a request as the status shows it."""
    return Share(request.devices, amount_text(request.memory), amount_text(request.cores), request.whole)


def meaning(container: ContainerRequest, reading: Reading) -> Iterator[Amount]:
    """Yield what the keys of a container mean, dimension by dimension, and why."""
    for dimension in DIMENSIONS:
        value = getattr(reading.request, dimension)
        amount = str(value) if dimension == "devices" else amount_text(value)
        yield Amount(dimension, amount, *_origin(container, reading, dimension))


def _origin(container: ContainerRequest, reading: Reading, dimension: Dimension) -> tuple[From, str]:
    form, vendor = reading.form, container.vendor
    filled = reading.filled.get(dimension)
    if filled is not None and filled.origin == "namespace":
        return "namespace", f"filled in: the namespace's annotation {labels.DEFAULT_PREFIX}{dimension}"
    if filled is not None:
        return "mapping", f"filled in: the default of the mapping {vendor.name}"
    entry = _specifying(container, form, dimension)
    if entry is not None:
        return "pod", f"{entry}"
    if form.literal(dimension):
        return "form", f"{vendor.name} takes these keys for {form.name!r}"
    if any(vendor.variables[name].rows for entry in container.key_values.values() for name, _ in entry.binding):
        return "name", "implied by the name"
    if dimension == "cores" and form.absent.cores is UNLIMITED and reading.request.whole:
        return "absent", "all of the memory leaves nothing for others"
    return "absent", f"not specified: the meaning for {vendor.name}"


def _specifying(container: ContainerRequest, form: Form, dimension: Dimension) -> KeyValue | None:
    """The key that specifies a dimension, or None."""
    key_values = container.key_values
    if dimension == "devices" and isinstance(form.devices, Derived):
        return key_values.get(form.devices.key)
    if form.literal(dimension):
        return None
    return next((key_values[name] for name in container.vendor.by_dimension[dimension] if name in key_values), None)


def written(settled: Settled) -> Iterator[WrittenKey]:
    """Yield the keys that are written, in the order of the status."""
    vendor, form = settled.target, next(form for form in settled.target.forms if form.name == settled.form)
    names = index([vendor], "resource")
    for name, number in settled.resources.items():
        if number is not None:
            key = form.keys[names.owners(name)[0].key_name]
            yield WrittenKey(
                name, format_value(number), "resource", worth(vendor, key, number), _why(settled, name, key)
            )
    for key, name, text in settled.keys:
        yield WrittenKey(
            name, text, key.place, _text_worth(vendor, form.keys[key.name], text), _why(settled, name, key)
        )


def _why(settled: Settled, name: str, key: Key) -> str:
    if settled.translated:
        filled = [dimension for dimension in key.dimensions if dimension in settled.filled]
        return "filled in" if filled and len(filled) == len(key.dimensions) else "translated"
    if key.name in settled.reading.corrections:
        return "rounded up"
    return "copied from requests" if name in settled.requested.promoted else "filled in"


def _text_worth(vendor: Vendor, key: Key, text: str) -> str:
    try:
        return worth(vendor, key, parse_quantity(text) if key.kind == "amount" else 0)
    except QuantityError:
        return ""


def rounded(settled: Settled) -> tuple[Rounding, ...]:
    """Return the numbers that the decision changed, in its order."""
    return tuple(
        Rounding(step.what, step.before, step.after, step.difference, finding.reason.code)
        for finding in settled.findings
        if (step := finding.step) is not None
    )
