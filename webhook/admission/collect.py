"""The GPU requests of a pod by container: resources, and the keys of the pod that apply to the container."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sized
from fractions import Fraction
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from webhook.admission.survey import ContainerKeys, PodKeys
from webhook.mapping.model.keys import CONTAINER, Key
from webhook.mapping.model.names import Owner
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.denials import NoWholeNumber
from webhook.mapping.requests.values import KeyValue, bound_in, form_of
from webhook.quantity import Number, QuantityError, bytes_text, parse_quantity
from webhook.reasons import Denied, Finding, Instead, Reason, deny, instead_of
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
        zero: the keys with value 0 that count as unset.
        other_zeros: 0 under further spellings of keys.
        promoted: resource names that are in requests only.
        findings: warnings from collecting.
        other_spellings: further spellings of keys in `key_values`, with any number.
        unequal_twins: pairs of a key and its twin with different amounts, the lower one first; `key_values` has that one,
            which is guaranteed.
        beside: by vendor, the container as it requests in other vendors' keys; empty once it is known which of them request.
        copy: the same request in the keys of a vendor that copies this one's; or keys of a vendor that may be beside
            these, so that the container is left unchanged.
    """

    position: int
    keys: ContainerKeys
    vendor: Vendor
    key_values: dict[str, KeyValue] = {}
    zero: dict[str, KeyValue] = {}
    other_zeros: list[KeyValue] = []
    promoted: list[str] = []
    findings: list[Finding] = []
    other_spellings: list[KeyValue] = []
    unequal_twins: list[tuple[KeyValue, KeyValue]] = []
    beside: "dict[str, ContainerRequest]" = {}
    copy: "ContainerRequest | None" = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.keys.name

    @property
    def all_key_values(self) -> dict[str, KeyValue]:
        """All keys, including those with value 0."""
        return {**self.key_values, **self.zero} if self.zero else self.key_values

    @property
    def has_number(self) -> bool:
        """Whether any key of its own has another number than 0."""
        return any(entry.number and self.vendor.keys[name].of_container for name, entry in self.key_values.items())

    @property
    def bare(self) -> bool:
        """Whether it specifies a number of devices, and neither memory nor cores, although its vendor has keys for these."""
        return self.vendor.sizes and {
            dimension for name in self.key_values for dimension in self.vendor.keys[name].dimensions
        } == {"devices"}

    @property
    def plain(self) -> bool:
        """Whether all of its amounts are of resource names that the maker's own device plugin serves as whole devices."""
        entries, keys = self.key_values.values(), self.vendor.keys
        return self.copy is None and all(
            any(template.render(dict(entry.binding)) == entry.key for template in keys[entry.key_name].plain)
            for entry in entries
        )

    def add(self, owner: Owner, name: str, text: str, number: Number) -> None:
        """Add a key of `vendor`; what 0 means is known only when all of them are added."""
        key = self.vendor.keys[owner.key_name]
        binding = tuple([pair for pair in owner.binding if pair[0] != CONTAINER]) if owner.binding else ()
        entry = KeyValue(owner.key_name, name, text, number, binding)
        present = self.key_values.get(owner.key_name) or self.zero.get(owner.key_name)
        if present is not None and key.place == "nodeSelector":
            return  # one of several node selector keys is enough
        if not 0 <= number <= MAX_DEVICES or type(number) is not int:
            self._check_number(entry, key)
        if present is None:
            (self.zero if number == 0 and key.zero is not None else self.key_values)[entry.key_name] = entry
        else:
            self._add_again(key, present, entry)

    def _add_again(self, key: Key, present: KeyValue, entry: KeyValue) -> None:
        """Add a key that is there already: in its twin, or under another spelling, of which those that are 0 do not count."""
        if key.twin is not None:
            if present.text != entry.text and present.number != entry.number:
                self._add_unequal_twin(present, entry)
        elif entry.number == 0 and key.zero is not None:
            self.other_zeros.append(entry)
        elif entry.key_name in self.key_values:
            self.other_spellings.append(entry)
        else:
            self.other_zeros.append(self.zero.pop(entry.key_name))
            self.key_values[entry.key_name] = entry

    def requests_devices(self) -> bool:
        """Return whether it requests any device; if it does, what 0 means is settled.

        Amounts of 0 request nothing: then no key is looked at.
        """
        keys = self.vendor.keys
        requests = [name for name in self.key_values if self.vendor.annotation_keys or keys[name].makes_request]
        if not self.zero:
            return bool(requests)
        amounts = [entry for entry in self.key_values.values() if keys[entry.key_name].kind == "amount"]
        if not amounts:
            return bool(requests) and self._requests_without_amounts()
        none = next((entry for name, entry in self.zero.items() if keys[name].zero == "none"), None)
        if none is not None and not any("devices" in keys[entry.key_name].dimensions for entry in amounts):
            listed, rest = " and ".join(map(str, amounts)), "both" if len(amounts) == 1 else "all"
            message = f"{none} requests no device, {listed} a share of one: write 1 or more, or remove {rest}"
            raise self.deny(Reason.ZERO_DEVICES, message, none, instead_of(none.key, 1))
        if requests:
            self._settle_zeros()
        return bool(requests)

    def _requests_without_amounts(self) -> bool:
        """Whether what is beside amounts of 0 is a request by itself: another number, or texts that make a form."""
        if any(self.vendor.keys[name].kind == "other" and entry.number for name, entry in self.key_values.items()):
            return True
        form = form_of(self.vendor, self.key_values)
        return form is not None and form.reads

    def _settle_zeros(self) -> None:
        """Keep those of the names that the request is in; of these, a 0 that the vendor reads as a number is one."""
        bound = bound_in(self.key_values)
        zeros, self.zero = [*self.zero.values(), *self.other_zeros], {}
        for entry in zeros:
            if all(bound.get(name, value) == value for name, value in entry.binding):
                into = self.key_values if self.vendor.keys[entry.key_name].zero == "number" else self.zero
                if entry.key_name not in self.key_values:
                    into.setdefault(entry.key_name, entry)

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
            raise self.deny(Reason.NOT_WHOLE, f"{entry} is negative: write a positive number", entry)
        if key.written != "decimal" and not isinstance(entry.number, int):
            raise NoWholeNumber(
                self.deny(Reason.NOT_WHOLE, f"{entry} is not a whole number", entry).finding, self.vendor, entry
            )
        if key.dimensions == ("devices",) and entry.number > MAX_DEVICES:
            message = f"{entry} requests {entry.number} devices, more than any node has: write the number of devices"
            raise self.deny(Reason.TOO_LARGE, message, entry)

    def quantity(self, key: Key, name: str, text: str) -> Number:
        """Read the value of a key as a Kubernetes quantity."""
        if len(text) < _SHORT and text.isdecimal() and text.isascii():
            return int(text)
        try:
            return parse_quantity(text)
        except QuantityError as error:
            instead = "a size such as 8Gi" if key.sized and key.unit == 1 else "a plain whole number"
            message = f"{name}: {error}: write {instead}"
            raise deny(Reason.BAD_QUANTITY, message, container=self.name, field=name, value=error.text) from None

    def deny(self, reason: Reason, message: str, entry: KeyValue | None = None, instead: Instead = ()) -> Denied:
        """Return a denial about this container."""
        return deny(
            reason,
            message,
            container=self.name,
            field=None if entry is None else entry.key,
            value=None if entry is None else entry.text,
            instead=instead,
        )


ContainerRequests: TypeAlias = dict[int, ContainerRequest]
"""The requesting containers of a pod, by position."""


def container_in(containers: ContainerRequests, position: int, keys: ContainerKeys, vendor: Vendor) -> ContainerRequest:
    """Return a container as it requests in the keys of a vendor; create it if it has no key of that vendor yet."""
    container = containers.get(position)
    if container is None:
        container = containers[position] = ContainerRequest(position, keys, vendor)
    elif container.vendor is not vendor:
        if vendor.name not in container.beside:
            container.beside[vendor.name] = ContainerRequest(position, keys, vendor)
        return container.beside[vendor.name]
    return container


def _requesting(container: ContainerRequest) -> ContainerRequest | None:
    """The container in the keys in which it requests; None if it requests no device (``devices: 0`` alone).

    Keys of another vendor that are all 0 request nothing beside it.
    """
    if not container.beside:
        return container if container.requests_devices() else None
    every = [(each, each.requests_devices()) for each in (container, *container.beside.values())]
    container.beside = {}
    found = [each for each, requests in every if requests or each.has_number]
    if len(found) < 2:  # noqa: PLR2004  (the keys of one vendor)
        return next((each for each, requests in every if requests), None)
    first, second, *more = found
    if not more and _may_accompany(second.vendor, first.vendor):
        first.copy = second
        return first
    if not more and _may_accompany(first.vendor, second.vendor):
        second.copy = first
        return second
    one, other = (min(entry.key for entry in each.key_values.values()) for each in (first, second))
    message = f"{one} is a key of {first.vendor.name}, {other} of {second.vendor.name}: keep the keys of one vendor"
    raise container.deny(Reason.TWO_VENDORS, message)


def _may_accompany(vendor: Vendor, other: Vendor) -> bool:
    """Whether keys of `vendor` may be in a container beside those of `other`."""
    return vendor.document.copies == other.name or vendor.name in other.document.allowed_with


def check_number_requesting(containers: Sized) -> None:
    """Deny a pod in which too many containers request."""
    if len(containers) > MAX_REQUESTING:
        raise deny(Reason.TOO_MANY, f"more than {MAX_REQUESTING} containers request a GPU: split the pod")


_PodEntry: TypeAlias = tuple[int, Owner, str, str]
"""A key of the pod that a vendor reads: its index among those of the vendor, its owner, its name and its text."""

_COUNT: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_LISTED_COUNT: Final = re.compile(r"[0-9]{1,9}")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([kmgt])i?b?", re.IGNORECASE)
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_DECIMAL: Final = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}(?:[eE][+-]?[0-9]{1,2})?")


def add_pod_keys(containers: ContainerRequests, keys: PodKeys, policy: Policy) -> None:
    """Add the keys of the pod to the containers that they apply to; a container may request by them alone."""
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
        name: _positions(containers, position_of, keys, policy.vendors[name], entries)
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
            if vendor.borrowed:
                _borrow(containers, position, keys.containers[position], vendor)
            container = container_in(containers, position, keys.containers[position], vendor)
            for _, owner, name, text in sorted([*of_all, *of_container.get(container.name, ())], key=itemgetter(0)):
                _add(container, regular, owner, name, text)


def _positions(
    containers: Mapping[int, ContainerRequest],
    position_of: Mapping[str, int],
    keys: PodKeys,
    vendor: Vendor,
    entries: Iterable[_PodEntry],
) -> list[int]:
    """The containers that a vendor's labels and annotations apply to; a count alone applies to none."""
    positions = {
        position
        for position, container in containers.items()
        if container.vendor is vendor or vendor.name in container.beside
    }
    named: dict[str, str] = {}
    has_amount = False
    lending: list[int] = []
    for _, owner, name, text in entries:
        key = vendor.keys[owner.key_name]
        if any(each.in_pods.get(key.name) == text for each in vendor.borrowed.values()):
            lending = _lending(keys, vendor)
        if owner.container is not None:
            if owner.container not in position_of:
                message = f"{name}: the pod has no container {owner.container!r}: name one of {', '.join(position_of)}"
                raise deny(Reason.NO_SUCH_CONTAINER, message, field=name)
            if key.makes_request:
                positions.add(position_of[owner.container])
        elif key.kind == "container":
            named |= {container.strip(): name for container in text.split(",")}
        elif key.place == "annotation" and ({"memory", "cores"} & set(key.dimensions) or text in key.requests):
            has_amount = True
    if has_amount and vendor.annotation_keys:
        positions.update(_chosen(vendor, position_of, keys, named, _lending(keys, vendor)))
    elif lending:
        positions.update(_chosen(vendor, position_of, keys, named, lending))
    return sorted(positions)


def _lending(keys: PodKeys, vendor: Vendor) -> list[int]:
    """The containers that request nothing but resources of another vendor that mean something to this one, too."""
    found = []
    for position, container in enumerate(keys.containers):
        names = {name for name, limit, request in container.resources if (limit or request) != "0"}
        if not container.init and names and names <= vendor.borrowed.keys():
            found.append(position)
    return found


def _borrow(containers: ContainerRequests, position: int, keys: ContainerKeys, vendor: Vendor) -> None:
    """Read a container's resources as borrowed keys of a vendor, if it has no others but zeros."""
    container = containers.get(position)
    if container is None or container.vendor is vendor or vendor.name in container.beside:
        return
    others = {each.vendor.name: each for each in (container, *container.beside.values())}
    numbered = [(each, entry) for each in others.values() for entry in each.key_values.values() if entry.number]
    if container.other_spellings or any(entry.key not in vendor.borrowed for _, entry in numbered):
        return
    container.beside = {}
    own = ContainerRequest(position, keys, vendor, findings=container.findings, beside=others)
    own.promoted = [entry.key for each, entry in numbered if entry.key in each.promoted]
    containers[position] = own
    for each, entry in numbered:
        del each.key_values[entry.key_name]
        own.add(Owner(vendor.name, vendor.borrowed[entry.key].name), entry.key, entry.text, entry.number)


def _chosen(
    vendor: Vendor,
    position_of: Mapping[str, int],
    keys: PodKeys,
    named: Mapping[str, str],
    lending: list[int],
) -> list[int]:
    """The containers that an amount of the pod is for.

    They are the named ones, each with the key that names it; else those with a borrowed resource; else the first.
    """
    for name, key_name in named.items():
        if name not in position_of:
            message = f"{key_name}: the pod has no container {name!r}: name one of {', '.join(position_of)}"
            raise deny(Reason.NO_SUCH_CONTAINER, message, field=key_name)
    if named or lending:
        return [position_of[name] for name in named] or lending
    regular = [container.name for container in keys.containers if not container.init]
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
    """Apply a vendor's keys where their copy applies, in another vendor's keys, if they do not name a container themselves."""
    for name, copied in applies_to.items():
        vendor = policy.vendors[name]
        original = applies_to.get(vendor.document.copies or "")
        if not copied or not original or original == copied:
            continue
        source = policy.vendors[vendor.document.copies or ""]
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
    if key.written == "items" and not text.strip():
        return
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
    if key.written == "items":
        items = [item.strip() for item in text.split(",")]
        if not all(map(_WHOLE.fullmatch, items)):
            message = f"{name}: {text!r} is no list of devices: write their numbers, as in 0,1"
            raise container.deny(Reason.BAD_COUNT, message)
        return len(items)
    if "devices" in key.dimensions:
        if (_LISTED_COUNT if key.listed else _COUNT).fullmatch(text) is None:
            message = f"{name}: {text!r} is not a count: write a plain whole number in quotes"
            raise container.deny(Reason.BAD_COUNT, message)
        return int(text)
    if key.written == "quantity":
        return container.quantity(key, name, text)
    if (_DECIMAL if key.written == "decimal" else _WHOLE).fullmatch(text) is None:
        kind = (
            "decimal number: write one such as 0.5"
            if key.written == "decimal"
            else f"whole number: {_digits(key, text)}"
        )
        raise container.deny(Reason.BAD_QUANTITY, f"{name}: {text!r} is not a {kind}")
    return Fraction(text) if key.written == "decimal" else int(text)


def _digits(key: Key, text: str) -> str:
    """What to write instead of a text that is no whole number; of a size with a unit, its number in that of the key."""
    size = _SIZE.fullmatch(text)
    if size is None or not key.sized or key.unit is None:
        return "write digits only"
    number = Fraction(size[1]) * 1024 ** _POWERS[size[2].lower()] / key.unit
    return f"write {-(-number // 1)}, for 1 is {bytes_text(key.unit)}"


def collect(keys: PodKeys, policy: Policy) -> list[ContainerRequest]:
    """Return the requesting containers in order, without those that request no device (``devices: 0`` alone)."""
    containers: ContainerRequests = {}
    for position, container_keys in enumerate(keys.containers):
        if container_keys.resources:
            _add_resources(containers, position, container_keys, policy)
            check_number_requesting(containers)
        if container_keys.claimed is not None:
            _add_claim(containers, position, container_keys, policy)
            check_number_requesting(containers)
    if keys.labels or keys.annotations or keys.node_selector:
        add_pod_keys(containers, keys, policy)
    found = [_requesting(containers[position]) for position in sorted(containers)]
    requesting = [container for container in found if container is not None]
    if len(requesting) > 1:
        _check_side_by_side(requesting)
    return requesting


def _add_resources(containers: ContainerRequests, position: int, keys: ContainerKeys, policy: Policy) -> None:
    """Add the resources of one container."""
    exact = policy.resources.exact
    container: ContainerRequest | None = None
    for name, limit, request in keys.resources:
        owners = exact.get(name) or policy.resources.owners(name)
        owner = owners[0]
        if len(owners) > 1 and (rivals := {other.vendor for other in owners} - {owner.vendor}):
            message = (
                f"{name} matches keys of {owner.vendor} and of {', '.join(sorted(rivals))}: make one of them `inactive`"
            )
            raise deny(Reason.AMBIGUOUS_NAME, message, container=keys.name, field=name)
        vendor = policy.vendors[owner.vendor]
        if container is None or container.vendor is not vendor:
            container = container_in(containers, position, keys, vendor)
        text = limit if limit is not None else request
        assert text is not None  # noqa: S101  (a resource has a limit or a request)
        key = vendor.keys[owner.key_name]
        number = container.quantity(key, name, text)
        if limit is None:
            container.promoted.append(name)
            if number:  # of 0 there is nothing to copy, or a default is written in its place
                message = f"{name} is in requests only and was copied to limits: write it to limits"
                finding = Finding(Reason.PROMOTED_TO_LIMITS, message, container.name, f"requests[{name}]", text)
                container.findings.append(finding)
        elif request is not None and request != limit and container.quantity(key, name, request) != number:
            message = f"{name} is {limit} in limits and {request} in requests: write the same value to both"
            raise container.deny(Reason.LIMIT_DIFFERS, message)
        container.add(owner, name, text, number)


def _add_claim(containers: ContainerRequests, position: int, keys: ContainerKeys, policy: Policy) -> None:
    """Add the keys of one container's claim."""
    assert keys.claimed is not None  # noqa: S101  (by the caller)
    name = keys.claimed.vendor
    for entry in keys.claimed.entries:
        container = container_in(containers, position, keys, policy.vendors[name])
        container.add(Owner(name, entry.key_name), entry.key, entry.text, entry.number)


def _check_side_by_side(requesting: Iterable[ContainerRequest]) -> None:
    """Check, before anything is read, whether several containers may request, and which one a count is for."""
    by_vendor: dict[str, list[ContainerRequest]] = {}
    for container in requesting:
        by_vendor.setdefault(container.vendor.name, []).append(container)
    for group in by_vendor.values():
        if len(group) == 1:
            continue
        vendor = group[0].vendor
        # What another system serves under the vendor's names is no request of the vendor.
        served = (
            [each for each in group if (form := form_of(vendor, each.key_values)) is None or form.leave is None]
            if vendor.document.containers == "one"
            else group
        )
        if len(served) < 2:  # noqa: PLR2004  (one container, as above)
            continue
        names = ", ".join(container.name for container in served)
        if vendor.document.containers == "one":
            message = (
                f"{vendor.name} serves one container of a pod, but {names} request devices: keep the request of one"
            )
            raise deny(Reason.ONE_CONTAINER_ONLY, message)
        if vendor.document.containers == "shared":
            continue  # a count of the pod is for all of them
        for entry in group[0].key_values.values():
            key = vendor.keys[entry.key_name]
            if "devices" in key.dimensions and not key.of_container and not (key.per_container or key.listed):
                message = (
                    f"{entry.key}: {entry.text!r} counts the devices of one container, but {names} request devices: "
                    "keep the request of one"
                )
                raise deny(Reason.AMBIGUOUS_COUNT, message, field=entry.key, value=entry.text)
