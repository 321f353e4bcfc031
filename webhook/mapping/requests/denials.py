"""Denials of forms: the text of ``deny``, with the spellings of the pod and valid numbers."""

import re
from collections.abc import Mapping
from typing import Final

from webhook.finding import Denied, Finding, deny
from webhook.mapping.model.vendor import Form, Key, Vendor
from webhook.mapping.requests.key_values import KeyValue, KeyValues, format_value, name_in
from webhook.quantity import Number
from webhook.reasons import Reason

PLACEHOLDER: Final = re.compile(r"\{([a-z0-9-]+)\}")
VALUES: Final = frozenset({"value", "below", "above"})
"""Placeholders of ``deny`` beside keys: the requested number, and the nearest ones that another form accepts."""

MAX_LISTED: Final = 20
"""The most names with a size that a denial lists."""


class LeftAlone(Denied):
    """A container that is left unchanged, neither read nor denied; the message says why.

    Only for containers that keep their own keys; if such keys are to be written, it is a denial like others.
    """


def left_alone(vendor: Vendor, form: Form, key_values: KeyValues, container: str) -> LeftAlone:
    """Return the message of a form with ``leave``, with the spellings of the pod."""
    sentence = PLACEHOLDER.sub(lambda match: _spelled(vendor, match[1], key_values), form.leave or "")
    return LeftAlone(Finding(Reason.UNSUPPORTED_BY_VENDOR, sentence, container))


def denied(vendor: Vendor, form: Form, key_values: KeyValues, container: str) -> Denied:
    """Return the denial of a form with ``deny``, with the spellings of the pod and the nearest valid numbers."""
    compared = [key_values[key] for condition in form.when for key in condition.keys if key in key_values]
    entry = compared[0] if compared else None

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name in vendor.keys:
            return _spelled(vendor, name, key_values)
        if entry is None:
            return match[0]
        if name == "value":
            return entry.text
        legal = [
            condition.numbers
            for other in vendor.forms
            if other.reads
            for condition in other.when
            if condition.keys == (entry.key_name,) and condition.numbers is not None
        ]
        if name == "below":
            return _nearest([numbers.floor(entry.number) for numbers in legal], max_first=True)
        return _nearest([numbers.ceil(entry.number) for numbers in legal], max_first=False)

    message = PLACEHOLDER.sub(fill, form.deny or "")
    return deny(
        Reason.UNSUPPORTED_BY_VENDOR,
        message,
        container=container,
        field=entry.key if entry is not None else None,
        value=entry.text if entry is not None else None,
    )


def without_row(vendor: Vendor, entry: KeyValue) -> str:
    """Return why the size of a name is not known: no device of the cluster has it, or it has no row."""
    rows = [name for variable in vendor.variables.values() for name in variable.rows]
    listed = f"{', '.join(rows[:MAX_LISTED])}{f' … ({len(rows)} in all)' if rows[MAX_LISTED:] else ''}"
    for variable in vendor.variables.values():
        name = name_in(vendor, entry, variable)
        others = variable.of_other_models.get(name or "")
        if others:
            return (
                f"{name} is not available on {', '.join(variable.models)}, but on {', '.join(others)}: "
                f"if the cluster has such a device, add it to `model`; otherwise write one of {listed}"
            )
    if rows:
        return f"its size is not known: write one of {listed}"
    return f"its size is not known: add `rows` with `extends: {vendor.name}`"


def _nearest(numbers: list[Number | None], *, max_first: bool) -> str:
    present = [number for number in numbers if number is not None]
    if not present:
        return "another number"
    return format_value(max(present) if max_first else min(present))


def _spelled(vendor: Vendor, name: str, key_values: KeyValues) -> str:
    """Return the name of a key, spelled like the other keys in the pod."""
    if name in key_values:
        return key_values[name].key
    binding: dict[str, str] = {}
    for entry in key_values.values():
        binding |= dict(entry.binding)
    return spelling(vendor.keys[name], binding)


def spelling(key: Key, binding: Mapping[str, str]) -> str:
    """Return the first spelling of a key with the variables that the other keys of the container bind, else its first one."""
    bound = key.variables.intersection(binding)
    for template in key.spellings:
        if bound.issubset(template.variables) and (name := template.render(binding)) is not None:
            return name
    return key.spellings[0].render(binding) or key.spellings[0].text
