"""What a refusal says: the text of a form's ``deny``, the keys as the pod spells them, and what would do instead."""

import re
from collections.abc import Mapping
from typing import Final

from webhook.finding import Denied, Finding, deny
from webhook.mapping.model.vendor import Form, Key, Vendor
from webhook.mapping.requests.key_values import KeyValue, SaidWords, format_value, name_in
from webhook.quantity import Number
from webhook.reasons import Reason

PLACEHOLDER: Final = re.compile(r"\{([a-z0-9-]+)\}")
VALUES: Final = frozenset({"value", "below", "above"})
"""What a ``deny`` may name besides words: the number asked for, and the nearest ones that another form takes."""

MAX_LISTED: Final = 20
"""Names with a size that a refusal lists."""


class LeftAlone(Denied):
    """No request to be read, nor a mistake: a container that is left as it stands; the message says why.

    Only where the container stays in its own keys; to whoever wanted to write such keys it is a refusal like any other.
    """


def left_alone(vendor: Vendor, form: Form, said: SaidWords, container: str) -> LeftAlone:
    """What a form says that leaves alone, with keys as the pod spells them."""
    sentence = PLACEHOLDER.sub(lambda match: _spelled(vendor, match[1], said), form.leave or "")
    return LeftAlone(Finding(Reason.REFUSED_BY_VENDOR, sentence, container))


def denied(vendor: Vendor, form: Form, said: SaidWords, container: str) -> Denied:
    """The refusal that a form writes, with keys as the pod spells them and the nearest numbers that would do."""
    asked = [said[key] for condition in form.when for key in condition.keys if key in said]
    one = asked[0] if asked else None

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name in vendor.keys:
            return _spelled(vendor, name, said)
        if one is None:
            return match[0]
        if name == "value":
            return one.text
        legal = [
            condition.numbers
            for other in vendor.forms
            if other.reads
            for condition in other.when
            if condition.keys == (one.word,) and condition.numbers is not None
        ]
        if name == "below":
            return _nearest([numbers.floor(one.number) for numbers in legal], max_first=True)
        return _nearest([numbers.ceil(one.number) for numbers in legal], max_first=False)

    message = PLACEHOLDER.sub(fill, form.deny or "")
    return deny(
        Reason.REFUSED_BY_VENDOR,
        message,
        container=container,
        field=one.key if one is not None else None,
        value=one.text if one is not None else None,
    )


def without_row(vendor: Vendor, one: KeyValue) -> str:
    """Why it is not known what a name holds: the cluster's devices have it not, or nobody says it."""
    rows = [name for variable in vendor.variables.values() for name in variable.rows]
    listed = f"{', '.join(rows[:MAX_LISTED])}{f' … ({len(rows)} in all)' if rows[MAX_LISTED:] else ''}"
    for variable in vendor.variables.values():
        name = name_in(vendor, one, variable)
        others = variable.elsewhere.get(name or "")
        if others:
            return (
                f"{name} is not available on {', '.join(variable.models)}, but on {', '.join(others)}: "
                f"if the cluster has such a device, add it to `model`; otherwise write one of {listed}"
            )
    if rows:
        return f"its size is not known: write one of {listed}"
    return f"its size is not known: add `rows` with `extends: {vendor.name}`"


def _nearest(numbers: list[Number | None], *, max_first: bool) -> str:
    found = [number for number in numbers if number is not None]
    if not found:
        return "another number"
    return format_value(max(found) if max_first else min(found))


def _spelled(vendor: Vendor, name: str, said: SaidWords) -> str:
    """The key of a key in the spelling that the pod uses for its others."""
    if name in said:
        return said[name].key
    binding: dict[str, str] = {}
    for one in said.values():
        binding |= dict(one.binding)
    return spelling(vendor.keys[name], binding)


def spelling(key: Key, binding: Mapping[str, str]) -> str:
    """The key of a key that binds as the others of the container do, else the first."""
    bound = set(binding)
    for template in key.spellings:
        if set(template.variables) >= bound & key.variables and template.render(binding) is not None:
            return template.render(binding) or template.text
    return key.spellings[0].render(binding) or key.spellings[0].text
