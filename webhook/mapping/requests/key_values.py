"""A vendor's keys and values as they are in one container, before they are read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from webhook.mapping.document.key_template import Binding
from webhook.mapping.model.vendor import Form, NamePart, Row, Vendor
from webhook.quantity import Number, exact_text


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One key and its value in a pod.

    Attributes:
        key_name: the name of the key in the mapping.
        key: the resource name, label or annotation in the pod.
        text: the value in the pod (the API server may have rewritten what the user typed).
        number: the value as a number; 0 for a text.
        binding: the values of the variables of the key.
    """

    key_name: str
    key: str
    text: str
    number: Number = 0
    binding: Binding = ()

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


KeyValues: TypeAlias = Mapping[str, KeyValue]
"""Keys with their values, by name; without those that are 0, which counts as unset."""


def format_value(number: Number) -> str:
    """Format a number as the text of a value, exactly: it is read again."""
    return exact_text(number)


def form_of(vendor: Vendor, key_values: KeyValues) -> Form | None:
    """Return the first form whose conditions all hold, even one that denies; None if there is none."""
    for form in vendor.forms:
        for condition in form.when:
            values = [key_values[key_name] for key_name in condition.keys if key_name in key_values]
            if not values:
                if not condition.absent:
                    break
            elif not condition.present and not any(
                entry.text in condition.texts or (condition.numbers is not None and entry.number in condition.numbers)
                for entry in values
            ):
                break
        else:
            return form
    return None


def row_of(vendor: Vendor, key_values: KeyValues) -> tuple[Row | None, KeyValue | None]:
    """Return the row that the names imply, and the key whose value has no row although its variable has rows."""
    for variable in vendor.variables.values():
        if variable.everywhere:
            if variable.write:
                return variable.rows.get(variable.write[0]), None
            continue
        for entry in key_values.values():
            chosen = name_in(vendor, entry, variable)
            if chosen is None or not (variable.rows or vendor.keys[entry.key_name].picks == variable.name):
                continue
            row = variable.rows.get(chosen)
            return (row, None) if row is not None else (None, entry)
    return None, None


def name_in(vendor: Vendor, entry: KeyValue, variable: NamePart) -> str | None:
    """Return the value of a variable in a key, from its text or its name; None if the key does not contain it."""
    return entry.text if vendor.keys[entry.key_name].picks == variable.name else dict(entry.binding).get(variable.name)


def unconfigured_size(vendor: Vendor) -> str | None:
    """Return what has to be configured about the size of all devices of a vendor; None if nothing is missing."""
    for variable in vendor.variables.values():
        if variable.everywhere and not variable.write:
            return variable.why or f"set `variables: {{{variable.name}: {{write: …}}}}` with `extends: {vendor.name}`"
    return None


def unreadable(vendors: Iterable[Vendor]) -> Iterator[str]:
    """Yield a sentence for each active vendor whose keys cannot be read until the size of its devices is configured."""
    for vendor in vendors:
        if not vendor.inactive and (why := unconfigured_size(vendor)) is not None:
            yield f"{vendor.name} is in force, but its keys cannot be read until it is configured: {why}"
