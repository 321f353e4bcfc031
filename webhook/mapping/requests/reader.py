"""The keys of one container while a form reads them: legal numbers, findings, denials."""

from msgspec import Struct

from webhook.finding import Denied, Finding, Step, deny
from webhook.mapping.model.vendor import Derived, Form, Key, Row, Vendor
from webhook.mapping.notation.numbers import Numbers
from webhook.mapping.requests.key_values import KeyValue, KeyValues, format_value
from webhook.quantity import Number, bytes_text, number_text, signed_text, simplest
from webhook.reasons import Reason
from webhook.request import Dimension


class Reader(Struct):
    """The keys of one container, their form, and the results of reading them so far.

    Attributes:
        vendor: the vendor of the keys.
        form: the form in which they are read.
        key_values: the keys that are set.
        largest_card: bytes; no device has more memory.
        container: the name of the container, for messages.
        row: the row that the names imply; None without one.
        corrections: keys whose number the vendor raises, with the raised number.
        findings: ignored keys, corrections and roundings.
    """

    vendor: Vendor
    form: Form
    key_values: KeyValues
    largest_card: int
    container: str
    row: Row | None
    corrections: dict[str, Number] = {}
    findings: list[Finding] = []

    def present(self, dimension: Dimension) -> list[KeyValue]:
        """Return the keys that specify a dimension; the first one counts."""
        return [self.key_values[name] for name in self.vendor.by_dimension[dimension] if name in self.key_values]

    def legal(self, key: Key, entry: KeyValue, number: Number) -> Number:
        """Return the number of a key, or the legal one to which the vendor rounds it.

        Args:
            key: the key.
            entry: its value in the pod, for messages.
            number: its number, or the part of it for each device.

        Raises:
            Denied: the number is not legal, and the vendor does not round.
        """
        values = key.values if self.row is None else self._values(key)
        if key.written != "decimal" and type(number) is not int:
            if key.rounding is None:
                raise self.deny(Reason.NOT_WHOLE, f"{entry} is not a whole number: {_unit_text(key)}", entry)
            number = number.__ceil__() if key.rounding == "up" else number.__floor__()
        if values is None or number in values:
            return number
        rounded = None
        if key.rounding == "up":
            rounded = values.ceil(number)
        elif key.rounding == "down":
            rounded = values.floor(number)
            if rounded is not None:
                self.report_less(entry, number, rounded)
        if rounded is None:
            per = " per device" if key.total else ""
            raise self.deny(
                Reason.NOT_LEGAL,
                f"{entry} is not allowed: {self.vendor.name} accepts {self.legal_text(key)}{per}",
                entry,
            )
        return rounded

    def legal_text(self, key: Key) -> str:
        """Return the legal numbers of a key, for messages."""
        return str(self._values(key) or "whole numbers")

    def _values(self, key: Key) -> Numbers | None:
        return self.form.values(key, self.row)

    def counted(self, dimension: Dimension) -> KeyValue | None:
        """Return the key of a dimension that counts, and report others beside it; None if no key specifies it."""
        counted: KeyValue | None = None
        for name in self.vendor.by_dimension[dimension]:
            if name not in self.key_values:
                continue
            if counted is not None:
                self._report_ignored(self.present(dimension)[1:], counted)
                break
            counted = self.key_values[name]
        return counted

    def ignore(self, dimension: Dimension) -> None:
        """Report the keys of a dimension that the form itself specifies."""
        self._report_ignored(self.present(dimension), None)

    def _report_ignored(self, others: list[KeyValue], counted: KeyValue | None) -> None:
        if not others:
            return
        needed = {key for condition in self.form.when for key in condition.keys}
        if isinstance(self.form.devices, Derived):
            needed.add(self.form.devices.key)
        for entry in others:
            if entry.key_name in needed:
                continue
            why = f"beside {counted}" if counted is not None else f"in the form {self.form.name!r}"
            self.report(Reason.KEY_IGNORED, f"{entry} has no effect {why}: remove it", entry)

    def report_less(self, entry: KeyValue, number: Number, rounded: Number) -> None:
        """Report that the vendor rounds down; `number` is that of the key, or its part for each device."""
        before, each = (entry.text, "") if number == entry.number else (f"{format_value(number)} each", " each")
        message = f"{entry} is rounded down to {format_value(rounded)}{each} by {self.vendor.name}"
        step = Step(entry.key, before, f"{format_value(rounded)}{each}", signed_text(simplest(rounded - number)))
        self.report(Reason.ROUNDED_DOWN, message, entry, step)

    def report(self, reason: Reason, message: str, entry: KeyValue, step: Step | None = None) -> None:
        """Add a finding about a key."""
        self.findings.append(Finding(reason, message, self.container, entry.key, entry.text, step))

    def deny(self, reason: Reason, message: str, entry: KeyValue | None = None) -> Denied:
        """Return a denial about the container."""
        return deny(
            reason,
            message,
            container=self.container,
            field=None if entry is None else entry.key,
            value=None if entry is None else entry.text,
        )


def _unit_text(key: Key) -> str:
    if "devices" in key.dimensions:
        return "it counts devices"
    if key.unit is None:
        return "its unit is not configured"
    return f"1 is {bytes_text(key.unit)}" if key.sized else f"1 is {number_text(key.unit)} % of a device"
