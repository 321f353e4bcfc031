"""Labels, annotations and node selector keys of a pod, assigned to the containers that they apply to."""

import itertools
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from operator import itemgetter
from typing import Final, TypeAlias

from webhook.admission.container_request import (
    ContainerRequest,
    ContainerRequests,
    check_number_requesting,
    container_in,
)
from webhook.admission.survey import PodKeys
from webhook.finding import deny
from webhook.mapping.model.names import Owner
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Key, Vendor
from webhook.quantity import Number
from webhook.reasons import Reason

_PodEntry: TypeAlias = tuple[int, Owner, str, str]
"""A key of the pod that a vendor reads: its index among those of the vendor, its owner, its name and its text."""

_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}")
_LISTED_COUNT: Final = re.compile(r"[0-9]{1,9}")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}(?:[eE][+-]?[0-9]{1,2})?")


def add_pod_keys(containers: ContainerRequests, keys: PodKeys, policy: Policy) -> None:
    """Add the keys of the pod to the containers that they apply to; a container may request by them alone.

    Raises:
        Denied: a key names a missing container, its value is invalid, or a container would have keys of two vendors.
    """
    by_vendor: dict[str, list[_PodEntry]] = {}
    for pairs, names in (
        (keys.labels, policy.labels),
        (keys.annotations, policy.annotations),
        (keys.node_selector, policy.node_selector),
    ):
        for name, text in pairs:
            for owner in names.owners(name):
                entries = by_vendor.setdefault(owner.vendor, [])
                entries.append((len(entries), owner, name, text))
    if not by_vendor:
        return
    position_of = {container.name: position for position, container in enumerate(keys.containers)}
    regular = [container.name for container in keys.containers if not container.init]
    applies_to = {
        name: _positions(containers, position_of, regular, policy.vendors[name], entries)
        for name, entries in by_vendor.items()
    }
    _join_copies(applies_to, by_vendor, keys, policy)
    check_number_requesting({*containers, *itertools.chain.from_iterable(applies_to.values())})
    for vendor_name, entries in by_vendor.items():
        vendor = policy.vendors[vendor_name]
        of_container: dict[str | None, list[_PodEntry]] = {}
        for entry in entries:
            of_container.setdefault(entry[1].container, []).append(entry)
        of_all = of_container.pop(None, [])
        for position in applies_to[vendor_name]:
            container = container_in(containers, position, keys.containers[position], vendor, entries[0][2])
            for _, owner, name, text in sorted([*of_all, *of_container.get(container.name, ())], key=itemgetter(0)):
                _add(container, regular, owner, name, text)


def _positions(
    containers: Mapping[int, ContainerRequest],
    position_of: Mapping[str, int],
    regular: list[str],
    vendor: Vendor,
    entries: Iterable[_PodEntry],
) -> list[int]:
    """The containers that a vendor's labels and annotations apply to; a count alone applies to none."""
    positions = {position for position, container in containers.items() if container.vendor is vendor}
    named: list[str] = []
    has_amount = False
    for _, owner, name, text in entries:
        key = vendor.keys[owner.key_name]
        if owner.container is not None:
            if owner.container not in position_of:
                message = f"{name}: the pod has no container {owner.container!r}: name one of {', '.join(position_of)}"
                raise deny(Reason.NO_SUCH_CONTAINER, message, field=name)
            if key.makes_request:
                positions.add(position_of[owner.container])
        elif key.kind == "container":
            named.extend(container.strip() for container in text.split(","))
        elif key.place == "annotation" and {"memory", "cores"} & set(key.dimensions):
            has_amount = True
    if has_amount and vendor.annotation_keys:
        positions.update(_chosen(vendor, position_of, regular, named))
    return sorted(positions)


def _chosen(vendor: Vendor, position_of: Mapping[str, int], regular: list[str], named: list[str]) -> list[int]:
    """The containers that an amount of the pod is for: the named ones, or the first."""
    for name in named:
        if name not in position_of:
            message = f"the pod has no container {name!r}: name one of {', '.join(position_of)}"
            raise deny(Reason.NO_SUCH_CONTAINER, message)
    if named:
        return [position_of[name] for name in named]
    key = next((key for key in vendor.keys.values() if key.kind == "container"), None)
    if key is not None and key.absent == "only" and len(regular) > 1:
        message = (
            f"no key names which of {len(regular)} containers requests the GPU: "
            f"add the annotation {key.spellings[0].text}"
        )
        raise deny(Reason.NO_SUCH_CONTAINER, message)
    return [position_of[name] for name in regular[:1]]


def _join_copies(
    applies_to: dict[str, list[int]], by_vendor: Mapping[str, list[_PodEntry]], keys: PodKeys, policy: Policy
) -> None:
    """Apply a vendor's keys where their copy applies, in another vendor's keys, if they do not name a container themselves.

    Args:
        applies_to: by vendor, the containers that its labels and annotations apply to; changed in place.
        by_vendor: these labels and annotations.
        keys: the pod's.
        policy: the vendors in force.

    Raises:
        Denied: the two name different containers.
    """
    for name, copied in applies_to.items():
        vendor = policy.vendors[name]
        original = applies_to.get(vendor.copies or "")
        if not copied or not original or original == copied:
            continue
        source = policy.vendors[vendor.copies or ""]
        if any(source.keys[owner.key_name].kind == "container" for _, owner, _, _ in by_vendor[source.name]):
            first, second = (
                ", ".join(keys.containers[position].name for position in positions) for positions in (original, copied)
            )
            message = f"the keys of {source.name} request for {first}, their copy in the keys of {name} for {second}"
            raise deny(Reason.TWO_VENDORS, f"{message}: name the same container in both", container=second)
        applies_to[source.name] = copied


def _add(container: ContainerRequest, regular: list[str], owner: Owner, name: str, text: str) -> None:
    key = container.vendor.keys[owner.key_name]
    if key.listed:
        item = _listed_item(container, regular, name, text)
        if item is None:
            return
        text = item
    number = 0 if key.kind in {"text", "container"} else _number(container, key, name, text)
    container.add(owner, name, text, number)


def _listed_item(container: ContainerRequest, regular: list[str], name: str, text: str) -> str | None:
    """The item of a list by position among the pod's regular containers; init containers have none."""
    items = [item.strip() for item in text.split(",")]
    if len(items) != len(regular):
        message = f"{name}: {text!r} lists {len(items)} values: write one for each container, {len(regular)} in all"
        raise container.deny(Reason.BAD_COUNT, message)
    return None if container.keys.init else items[regular.index(container.name)]


def _number(container: ContainerRequest, key: Key, name: str, text: str) -> Number:
    if "devices" in key.dimensions:
        if (_LISTED_COUNT if key.listed else _COUNT).fullmatch(text) is None:
            message = f"{name}: {text!r} is not a count: write a whole number from 1 in quotes"
            raise container.deny(Reason.BAD_COUNT, message)
        return int(text)
    if key.written == "quantity":
        return container.quantity(name, text)
    if (_DECIMAL if key.written == "decimal" else _WHOLE).fullmatch(text) is None:
        kind = (
            "decimal number: write one such as 0.5" if key.written == "decimal" else "whole number: write digits only"
        )
        raise container.deny(Reason.BAD_QUANTITY, f"{name}: {text!r} is not a {kind}")
    return Fraction(text) if key.written == "decimal" else int(text)
