"""The keys of one container, told for people: what they mean and who says so, what is written, what was rounded."""

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
from webhook.request import DIMENSIONS, FREE, Dimension, Request, amount_text


def word_shown(vendor: Vendor, word: Key, said: KeyValue) -> ShownKey:
    """A key as it stands in the pod."""
    return ShownKey(said.key, said.text, word.place, worth(vendor, word, said.number))


def share_of(request: Request) -> Share:
    """A request as the status has it."""
    return Share(request.devices, amount_text(request.memory), amount_text(request.cores), request.whole)


def meaning(one: ContainerRequest, reading: Reading) -> Iterator[Amount]:
    """What the keys of a container mean, dimension by dimension, and who says so."""
    for dimension in DIMENSIONS:
        value = getattr(reading.request, dimension)
        amount = str(value) if dimension == "devices" else amount_text(value)
        yield Amount(dimension, amount, *_origin(one, reading, dimension))


def _origin(one: ContainerRequest, reading: Reading, dimension: Dimension) -> tuple[From, str]:
    form, vendor = reading.form, one.vendor
    filled = reading.filled.get(dimension)
    if filled is not None and filled.origin == "namespace":
        return "namespace", f"filled in: the namespace's annotation {labels.DEFAULT_PREFIX}{dimension}"
    if filled is not None:
        return "mapping", f"filled in: the default of the mapping {vendor.name}"
    said = _counted(one, form, dimension)
    if said is not None:
        return "pod", f"{said}"
    if form.literal(dimension):
        return "form", f"{vendor.name} takes these keys for {form.name!r}"
    if any(one.vendor.variables[name].rows for it in one.key_values.values() for name, _ in it.binding):
        return "name", "so says the name"
    if dimension == "cores" and form.absent.cores is FREE and reading.request.whole:
        return "absent", "where all memory is taken nobody else fits"
    return "absent", f"not specified: the meaning for {vendor.name}"


def _counted(one: ContainerRequest, form: Form, dimension: Dimension) -> KeyValue | None:
    """The key that says a dimension, if one does."""
    if dimension == "devices" and isinstance(form.devices, Derived):
        return one.key_values.get(form.devices.key)
    if form.literal(dimension):
        return None
    return next((one.key_values[name] for name in one.vendor.by_dimension[dimension] if name in one.key_values), None)


def written(settled: Settled) -> Iterator[WrittenKey]:
    """The keys that are written, in the order of the status."""
    vendor, form = settled.target, next(form for form in settled.target.forms if form.name == settled.form)
    names = index([vendor], "resource")
    for key, number in settled.resources.items():
        if number is not None:
            word = form.keys[names.owners(key)[0].key_name]
            yield WrittenKey(
                key, format_value(number), "resource", worth(vendor, word, number), _why(settled, key, word)
            )
    for word, key, text in settled.keys:
        shown = form.keys[word.name]
        yield WrittenKey(key, text, word.place, _text_worth(vendor, shown, text), _why(settled, key, word))


def _why(settled: Settled, key: str, word: Key) -> str:
    if settled.translated:
        filled = [dimension for dimension in word.dimensions if dimension in settled.filled]
        return "filled in" if filled and len(filled) == len(word.dimensions) else "translated"
    if word.name in settled.reading.corrections:
        return "rounded up"
    return "stood in requests only" if key in settled.requested.promoted else "filled in"


def _text_worth(vendor: Vendor, word: Key, text: str) -> str:
    try:
        return worth(vendor, word, parse_quantity(text) if word.kind == "amount" else 0)
    except QuantityError:
        return ""


def rounded(settled: Settled) -> tuple[Rounding, ...]:
    """The numbers that became others, in the order in which the decision made them so."""
    return tuple(
        Rounding(step.what, step.before, step.after, step.by, finding.reason.code)
        for finding in settled.findings
        if (step := finding.step) is not None
    )
