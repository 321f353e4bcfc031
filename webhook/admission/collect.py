"""The GPU requests of a pod by container; labels and annotations of the pod are assigned to their container."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sized
from fractions import Fraction
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from webhook.admission.several import check_askers, join_copies
from webhook.admission.survey import ContainerKeys, PodKeys
from webhook.finding import Denied, Finding, deny
from webhook.mapping.document.key_template import CONTAINER
from webhook.mapping.model.names import Owner
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Key, Vendor
from webhook.mapping.requests.advice import no_whole_number
from webhook.mapping.requests.key_values import KeyValue
from webhook.quantity import Number, QuantityError, parse_quantity
from webhook.reasons import Reason
from webhook.request import MAX_DEVICES

MAX_ASKING: Final = 128
"""Containers of one pod that may request: far beyond any node's devices; it bounds the time of a decision."""

_Carried: TypeAlias = tuple[int, Owner, str, str]
"""A label or annotation that a vendor reads: its index, owner, key and value."""

_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}")
_LISTED_COUNT: Final = re.compile(r"[0-9]{1,9}")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}(?:[eE][+-]?[0-9]{1,2})?")


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
        others: further spellings of keys in `key_values`, with any number.
        apart: pairs of a key and its twin with different amounts; `key_values` has the lower one, which is guaranteed.
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
    others: list[KeyValue] = []
    apart: list[tuple[KeyValue, KeyValue]] = []
    copy: "ContainerRequest | None" = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.keys.name

    @property
    def all_key_values(self) -> dict[str, KeyValue]:
        """All keys, including those with value 0."""
        return {**self.key_values, **self.zero}

    def add(self, one: KeyValue, word: Key) -> None:
        """Add a key; 0 counts as unset, unless the vendor does not accept it.

        Raises:
            Denied: the number is not allowed, or another spelling of the key has another amount.
        """
        there = self.all_key_values.get(one.key_name)
        if there is not None and word.place == "nodeSelector":
            return  # one of several node selector keys is enough
        if there is not None:
            if word.twin is None and there.key != one.key:
                self.others.append(one)
            elif there.text != one.text and there.number != one.number:
                self._take_twin(there, one, word)
            return
        _check_number(self, one, word)
        if word.kind == "amount" and one.number == 0:
            if word.values is not None and 0 not in word.values:
                raise self.deny(
                    Reason.NOT_LEGAL, f"{one} is not allowed: {self.vendor.name} accepts {word.values}", one
                )
            self.zero[one.key_name] = one
            return
        self.key_values[one.key_name] = one

    def _take_twin(self, there: KeyValue, one: KeyValue, word: Key) -> None:
        """Of two amounts the lower one is what the vendor guarantees; at home both stay as they stand."""
        _check_number(self, one, word)
        if not there.number or not one.number:
            raise self.deny(Reason.TWINS_DIFFER, f"{there} and {one} must agree: write the same value to both", one)
        low, high = sorted((there, one), key=lambda said: said.number)
        self.key_values[low.key_name] = low
        self.apart.append((low, high))

    def deny(self, reason: Reason, message: str, one: KeyValue | None = None) -> Denied:
        """Return a denial about this container."""
        return deny(
            reason,
            message,
            container=self.name,
            field=None if one is None else one.key,
            value=None if one is None else one.text,
        )


def collect(words: PodKeys, policy: Policy) -> list[ContainerRequest]:
    """Return the requesting containers in order, without those that request no device (``devices: 0`` alone).

    Raises:
        Denied: two vendors in one container, a count for no container in particular, an invalid value.
    """
    asking: dict[int, ContainerRequest] = {}
    for position, container in enumerate(words.containers):
        for entry in container.resources:
            _take_resource(asking, position, container, entry, policy)
        _check_count(asking)
    _take_pod_words(asking, words, policy)
    found = [one for _, one in sorted(asking.items()) if _asks(one)]
    check_askers(found)
    return found


def _take_resource(
    asking: dict[int, ContainerRequest],
    position: int,
    container: ContainerKeys,
    entry: tuple[str, str | None, str | None],
    policy: Policy,
) -> None:
    key, limit, request = entry
    owner, *others = policy.resources.owners(key)
    rivals = {other.vendor for other in others} - {owner.vendor}
    if rivals:
        message = (
            f"{key} matches keys of {owner.vendor} and of {', '.join(sorted(rivals))}: make one of them `inactive`"
        )
        raise deny(Reason.AMBIGUOUS_NAME, message, container=container.name, field=key)
    one = _asking_in(asking, position, container, policy.vendors[owner.vendor], key)
    text = limit if limit is not None else request
    assert text is not None  # noqa: S101  (a key stands in limits or in requests)
    number = _quantity(one, key, text)
    if limit is None:
        one.promoted.append(key)
        message = f"{key} is in requests only and was copied to limits: write it to limits"
        one.findings.append(Finding(Reason.PROMOTED_TO_LIMITS, message, container.name, f"requests[{key}]", text))
    elif request is not None and request != limit and _quantity(one, key, request) != number:
        message = f"{key} is {limit} in limits and {request} in requests: write the same value to both"
        raise one.deny(Reason.LIMIT_DIFFERS, message)
    word = one.vendor.keys[owner.key_name]
    one.add(KeyValue(owner.key_name, key, text, number, _free_binding(owner)), word)


def _asking_in(
    asking: dict[int, ContainerRequest], position: int, container: ContainerKeys, vendor: Vendor, key: str
) -> ContainerRequest:
    one = asking.get(position)
    if one is None:
        one = asking[position] = ContainerRequest(position, container, vendor)
    elif one.vendor is not vendor:
        if _accompanies(vendor, one.vendor) and (one.copy is None or one.copy.vendor is vendor):
            one.copy = one.copy or ContainerRequest(position, container, vendor)
            return one.copy
        if _accompanies(one.vendor, vendor) and one.copy is None:
            asking[position] = ContainerRequest(position, container, vendor, copy=one)
            return asking[position]
        other = min(said.key for said in one.all_key_values.values())
        message = f"{other} is a key of {one.vendor.name}, {key} of {vendor.name}: keep the keys of one vendor"
        raise one.deny(Reason.TWO_VENDORS, message)
    return one


def _accompanies(vendor: Vendor, other: Vendor) -> bool:
    """Whether keys of `vendor` may stand in a container beside those of `other`."""
    return vendor.copies == other.name or vendor.name in other.document.beside


def _quantity(one: ContainerRequest, key: str, text: str) -> Number:
    try:
        return parse_quantity(text)
    except QuantityError as error:
        message = f"{key}: {error}: write a plain whole number"
        raise deny(Reason.BAD_QUANTITY, message, container=one.name, field=key, value=error.text) from None


def _check_number(one: ContainerRequest, said: KeyValue, word: Key) -> None:
    if said.number < 0:
        raise one.deny(Reason.NOT_WHOLE, f"{said} is negative: write a whole number", said)
    if word.written != "decimal" and not isinstance(said.number, int):
        raise one.deny(Reason.NOT_WHOLE, no_whole_number(one.vendor, word, said), said)
    if word.dimensions == ("devices",) and said.number > MAX_DEVICES:
        message = f"{said} requests {said.number} devices, more than any node has: write the number of devices"
        raise one.deny(Reason.TOO_LARGE, message, said)


def _free_binding(owner: Owner) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in owner.binding if pair[0] != CONTAINER)


def _take_pod_words(asking: dict[int, ContainerRequest], words: PodKeys, policy: Policy) -> None:
    """Assign labels and annotations to the containers that they apply to."""
    carried: dict[str, list[_Carried]] = {}
    for pairs, names in (
        (words.labels, policy.labels),
        (words.annotations, policy.annotations),
        (words.node_selector, policy.node_selector),
    ):
        for key, text in pairs:
            for owner in names.owners(key):
                found = carried.setdefault(owner.vendor, [])
                found.append((len(found), owner, key, text))
    if not carried:
        return
    by_name = {container.name: position for position, container in enumerate(words.containers)}
    regular = [container.name for container in words.containers if not container.init]
    holders = {name: _holders(asking, by_name, regular, policy.vendors[name], found) for name, found in carried.items()}
    join_copies(holders, carried, words, policy)
    _check_count({*asking, *itertools.chain.from_iterable(holders.values())})
    for vendor_name, found in carried.items():
        of_container: dict[str | None, list[_Carried]] = {}
        for entry in found:
            of_container.setdefault(entry[1].container, []).append(entry)
        of_all = of_container.pop(None, [])
        for position in holders[vendor_name]:
            one = _asking_in(asking, position, words.containers[position], policy.vendors[vendor_name], found[0][2])
            for _, owner, key, text in sorted([*of_all, *of_container.get(one.name, ())], key=itemgetter(0)):
                _take_pod_word(one, regular, owner, key, text)


def _check_count(asking: Sized) -> None:
    if len(asking) > MAX_ASKING:
        raise deny(Reason.TOO_MANY, f"more than {MAX_ASKING} containers request a GPU: split the pod")


def _take_pod_word(one: ContainerRequest, regular: list[str], owner: Owner, key: str, text: str) -> None:
    word = one.vendor.keys[owner.key_name]
    if word.listed:
        entry = _entry(one, regular, key, text)
        if entry is None:
            return
        text = entry
    number = 0 if word.kind in {"text", "container"} else _pod_number(one, word, key, text)
    one.add(KeyValue(owner.key_name, key, text, number, _free_binding(owner)), word)


def _entry(one: ContainerRequest, regular: list[str], key: str, text: str) -> str | None:
    """The entry of a list by position among the pod's regular containers; init containers have none."""
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) != len(regular):
        message = f"{key}: {text!r} lists {len(entries)} values for {len(regular)} containers: write one for each"
        raise one.deny(Reason.BAD_COUNT, message)
    return None if one.keys.init else entries[regular.index(one.name)]


def _pod_number(one: ContainerRequest, word: Key, key: str, text: str) -> Number:
    if "devices" in word.dimensions:
        if (_LISTED_COUNT if word.listed else _COUNT).fullmatch(text) is None:
            message = f"{key}: {text!r} is not a count: write a whole number from 1 in quotes"
            raise one.deny(Reason.BAD_COUNT, message)
        return int(text)
    if word.written == "quantity":
        return _quantity(one, key, text)
    if (_DECIMAL if word.written == "decimal" else _WHOLE).fullmatch(text) is None:
        kind = (
            "decimal number: write one such as 0.5" if word.written == "decimal" else "whole number: write digits only"
        )
        raise one.deny(Reason.BAD_QUANTITY, f"{key}: {text!r} is not a {kind}")
    return Fraction(text) if word.written == "decimal" else int(text)


def _holders(
    asking: Mapping[int, ContainerRequest],
    by_name: Mapping[str, int],
    regular: list[str],
    vendor: Vendor,
    found: Iterable[_Carried],
) -> list[int]:
    """The containers that a vendor's labels and annotations apply to; a count alone applies to none."""
    positions = {position for position, one in asking.items() if one.vendor is vendor}
    named: list[str] = []
    sized = False
    for _, owner, key, text in found:
        word = vendor.keys[owner.key_name]
        if owner.container is not None:
            if owner.container not in by_name:
                message = f"{key}: the pod has no container {owner.container!r}: name one of {', '.join(by_name)}"
                raise deny(Reason.NO_SUCH_CONTAINER, message, field=key)
            if word.asks:
                positions.add(by_name[owner.container])
        elif word.kind == "container":
            named.extend(name.strip() for name in text.split(","))
        elif word.place == "annotation" and {"memory", "cores"} & set(word.dimensions):
            sized = True
    if sized and vendor.annotation_keys:
        positions.update(_named(vendor, by_name, regular, named))
    return sorted(positions)


def _named(vendor: Vendor, by_name: Mapping[str, int], regular: list[str], named: list[str]) -> list[int]:
    for name in named:
        if name not in by_name:
            message = f"the pod has no container {name!r}: name one of {', '.join(by_name)}"
            raise deny(Reason.NO_SUCH_CONTAINER, message)
    if named:
        return [by_name[name] for name in named]
    word = next((word for word in vendor.keys.values() if word.kind == "container"), None)
    if word is not None and word.absent == "only" and len(regular) > 1:
        key = word.spellings[0].text
        message = f"nothing says which of {len(regular)} containers requests the GPU: add the annotation {key}"
        raise deny(Reason.NO_SUCH_CONTAINER, message)
    return [by_name[name] for name in regular[:1]]


def _asks(one: ContainerRequest) -> bool:
    asks = [said for name, said in one.key_values.items() if one.vendor.keys[name].asks or one.vendor.annotation_keys]
    sized_zero = [name for name in one.zero if "devices" not in one.vendor.keys[name].dimensions]
    if any("devices" in one.vendor.keys[name].dimensions for name in one.zero):
        amounts = [said for name, said in one.key_values.items() if one.vendor.keys[name].kind == "amount"]
        devices_zero = next(said for name, said in one.zero.items() if "devices" in one.vendor.keys[name].dimensions)
        if amounts:
            message = f"{devices_zero} requests no device, {amounts[0]} a share of one: write 1 or more, or remove both"
            raise one.deny(Reason.ZERO_DEVICES, message, devices_zero)
        return False
    return bool(asks) or bool(sized_zero)
