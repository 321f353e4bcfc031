"""A container that requests devices: found or created by its position, and filled with one key after the other."""

from collections.abc import Sized
from typing import Final, TypeAlias

import msgspec

from webhook.admission.survey import ContainerKeys
from webhook.finding import Denied, Finding, deny
from webhook.mapping.document.key_template import CONTAINER
from webhook.mapping.model.names import Owner
from webhook.mapping.model.vendor import Key, Vendor
from webhook.mapping.requests.advice import no_whole_number
from webhook.mapping.requests.key_values import KeyValue
from webhook.quantity import Number, QuantityError, parse_quantity
from webhook.reasons import Reason
from webhook.request import MAX_DEVICES

MAX_REQUESTING: Final = 128
"""Containers of one pod that may request: far beyond any node's devices; it bounds the time of a decision."""

_SHORT: Final = 19
"""Characters from which digits may be more than a quantity can hold, 2^63 - 1."""


class ContainerRequest(msgspec.Struct):
    """A container that requests devices, with the keys that apply to it.

    Attributes:
        position: index in `PodKeys.containers`.
        keys: the container's keys.
        vendor: the vendor of the keys.
        key_values: the keys that are set, by name.
        zero: the keys with value 0, which count as unset.
        promoted: resource names that are in requests only.
        findings: warnings from collecting.
        other_spellings: further spellings of keys in `key_values`, with any number.
        unequal_twins: pairs of a key and its twin with different amounts, the lower one first; `key_values` has that one,
            which is guaranteed.
        copy: the same request in the keys of a vendor that copies this one's; or keys of a vendor that may be beside
            these, so that the container is left unchanged.
    """

    position: int
    keys: ContainerKeys
    vendor: Vendor
    key_values: dict[str, KeyValue] = {}
    zero: dict[str, KeyValue] = {}
    promoted: list[str] = []
    findings: list[Finding] = []
    other_spellings: list[KeyValue] = []
    unequal_twins: list[tuple[KeyValue, KeyValue]] = []
    copy: "ContainerRequest | None" = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.keys.name

    @property
    def all_key_values(self) -> dict[str, KeyValue]:
        """All keys, including those with value 0."""
        return {**self.key_values, **self.zero} if self.zero else self.key_values

    def add(self, owner: Owner, name: str, text: str, number: Number) -> None:
        """Add a key of `vendor`; 0 counts as unset, unless the vendor does not accept it.

        Args:
            owner: which of the vendor's keys it is.
            name: the key as it is in the pod.
            text: its value.
            number: the value as a number; 0 for a text.

        Raises:
            Denied: the number is not allowed, or another spelling of the key has another amount.
        """
        key = self.vendor.keys[owner.key_name]
        binding = tuple([pair for pair in owner.binding if pair[0] != CONTAINER]) if owner.binding else ()
        entry = KeyValue(owner.key_name, name, text, number, binding)
        present = self.key_values.get(owner.key_name) or self.zero.get(owner.key_name)
        if present is not None and key.place == "nodeSelector":
            return  # one of several node selector keys is enough
        if not 0 <= number <= MAX_DEVICES or type(number) is not int:
            self._check_number(entry, key)
        if present is not None:
            if key.twin is None and present.key != entry.key:
                self.other_spellings.append(entry)
            elif present.text != entry.text and present.number != entry.number:
                self._add_unequal_twin(present, entry)
            return
        if number == 0 and key.kind == "amount":
            if key.values is not None and 0 not in key.values:
                raise self.deny(
                    Reason.NOT_LEGAL, f"{entry} is not allowed: {self.vendor.name} accepts {key.values}", entry
                )
            self.zero[entry.key_name] = entry
            return
        self.key_values[entry.key_name] = entry

    def _add_unequal_twin(self, present: KeyValue, entry: KeyValue) -> None:
        """Read the lower of two amounts, which the vendor guarantees; a request that stays in its keys keeps both."""
        if not present.number or not entry.number:
            raise self.deny(
                Reason.TWINS_DIFFER, f"{present} and {entry} must agree: write the same value to both", entry
            )
        low, high = sorted((present, entry), key=lambda twin: twin.number)
        self.key_values[low.key_name] = low
        self.unequal_twins.append((low, high))

    def _check_number(self, entry: KeyValue, key: Key) -> None:
        if entry.number < 0:
            raise self.deny(Reason.NOT_WHOLE, f"{entry} is negative: write a whole number", entry)
        if key.written != "decimal" and not isinstance(entry.number, int):
            raise self.deny(Reason.NOT_WHOLE, no_whole_number(self.vendor, key, entry), entry)
        if key.dimensions == ("devices",) and entry.number > MAX_DEVICES:
            message = f"{entry} requests {entry.number} devices, more than any node has: write the number of devices"
            raise self.deny(Reason.TOO_LARGE, message, entry)

    def quantity(self, name: str, text: str) -> Number:
        """Read the value of a key as a Kubernetes quantity.

        Raises:
            Denied: it is not one.
        """
        if len(text) < _SHORT and text.isdecimal() and text.isascii():
            return int(text)
        try:
            return parse_quantity(text)
        except QuantityError as error:
            message = f"{name}: {error}: write a plain whole number"
            raise deny(Reason.BAD_QUANTITY, message, container=self.name, field=name, value=error.text) from None

    def deny(self, reason: Reason, message: str, entry: KeyValue | None = None) -> Denied:
        """Return a denial about this container."""
        return deny(
            reason,
            message,
            container=self.name,
            field=None if entry is None else entry.key,
            value=None if entry is None else entry.text,
        )


ContainerRequests: TypeAlias = dict[int, ContainerRequest]
"""The requesting containers of a pod, by position."""


def container_in(
    containers: ContainerRequests, position: int, keys: ContainerKeys, vendor: Vendor, name: str
) -> ContainerRequest:
    """Return a container as it requests in the keys of a vendor; create it if it has no key of that vendor yet.

    Args:
        containers: the requesting containers, where it is found or added.
        position: the container's index in `PodKeys.containers`.
        keys: the container's keys.
        vendor: the vendor of the key that is about to be added.
        name: that key as it is in the pod, for messages.

    Raises:
        Denied: it requests in the keys of another vendor, and the two may not be side by side.
    """
    container = containers.get(position)
    if container is None:
        container = containers[position] = ContainerRequest(position, keys, vendor)
    elif container.vendor is not vendor:
        if _may_accompany(vendor, container.vendor) and (container.copy is None or container.copy.vendor is vendor):
            container.copy = container.copy or ContainerRequest(position, keys, vendor)
            return container.copy
        if _may_accompany(container.vendor, vendor) and container.copy is None:
            containers[position] = ContainerRequest(position, keys, vendor, copy=container)
            return containers[position]
        other = min(entry.key for entry in container.all_key_values.values())
        message = f"{other} is a key of {container.vendor.name}, {name} of {vendor.name}: keep the keys of one vendor"
        raise container.deny(Reason.TWO_VENDORS, message)
    return container


def _may_accompany(vendor: Vendor, other: Vendor) -> bool:
    """Whether keys of `vendor` may be in a container beside those of `other`."""
    return vendor.copies == other.name or vendor.name in other.document.beside


def check_number_requesting(containers: Sized) -> None:
    """Deny a pod in which too many containers request."""
    if len(containers) > MAX_REQUESTING:
        raise deny(Reason.TOO_MANY, f"more than {MAX_REQUESTING} containers request a GPU: split the pod")
