"""A vendor's words as one container carries them, before they mean anything."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from webhook.mapping.document.key_template import Binding
from webhook.mapping.model.vendor import Form, NamePart, Row, Vendor
from webhook.quantity import Number, exact_text


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One word as it stands in a pod.

    Attributes:
        word: its name in the mapping.
        key: the resource name, label or annotation key that the pod uses.
        text: the value as it stands there (the API server may have rewritten what the user typed).
        number: its value; 0 for a text.
        binding: what the key's variables stand for.
    """

    word: str
    key: str
    text: str
    number: Number = 0
    binding: Binding = ()

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


SaidWords: TypeAlias = Mapping[str, KeyValue]
"""Words by name; those that are 0 and so unset are not among them."""


def format_value(number: Number) -> str:
    """A number as the text of a value: exactly, for it is read again."""
    return exact_text(number)


def form_of(vendor: Vendor, said: SaidWords) -> Form | None:
    """The first form whose conditions all hold, be it a refusal; None where none does."""
    for form in vendor.forms:
        for condition in form.when:
            there = [said[word] for word in condition.keys if word in said]
            if not there:
                if not condition.absent:
                    break
            elif not condition.present and not any(
                one.text in condition.texts or (condition.numbers is not None and one.number in condition.numbers)
                for one in there
            ):
                break
        else:
            return form
    return None


def row_of(vendor: Vendor, said: SaidWords) -> tuple[Row | None, KeyValue | None]:
    """What the names say by themselves: the row, and the word whose name has no row although its variable is made of rows."""
    for variable in vendor.variables.values():
        if variable.everywhere:
            if variable.write:
                return variable.rows.get(variable.write[0]), None
            continue
        for one in said.values():
            chosen = name_in(vendor, one, variable)
            if chosen is None or not (variable.rows or vendor.keys[one.word].picks == variable.name):
                continue
            row = variable.rows.get(chosen)
            return (row, None) if row is not None else (None, one)
    return None, None


def name_in(vendor: Vendor, one: KeyValue, variable: NamePart) -> str | None:
    """What a word says of a variable, by its text or in its key; None where it says nothing of it."""
    return one.text if vendor.keys[one.word].picks == variable.name else dict(one.binding).get(variable.name)


def unset(vendor: Vendor) -> str | None:
    """What the cluster has to say of what every device of the vendor holds, and does not; None where nothing is missing."""
    for variable in vendor.variables.values():
        if variable.everywhere and not variable.write:
            return variable.why or f"set `variables: {{{variable.name}: {{write: …}}}}` with `extends: {vendor.name}`"
    return None


def unreadable(vendors: Iterable[Vendor]) -> Iterator[str]:
    """A sentence for each vendor in force whose words cannot be read until the cluster has said what its devices hold."""
    for vendor in vendors:
        if not vendor.inactive and (why := unset(vendor)) is not None:
            yield f"{vendor.name} is in force, but its words cannot be read until it is configured: {why}"
