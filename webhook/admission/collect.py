"""The GPU requests of a pod by container: resources, and the keys of the pod that apply to the container."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

import msgspec

from webhook.admission.survey import Claimed, ContainerKeys, PodKeys
from webhook.mapping.model.keys import CONTAINER, Binding, Key
from webhook.mapping.model.names import Owner
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.reading import read
from webhook.mapping.values import Defaults, KeyValue, NoWholeNumber, Reading, bound_in, form_of
from webhook.reasons import Denied, Finding, Instead, Reason, deny, instead_of
from webhook.request import MAX_DEVICES, Number, QuantityError, bytes_text, number_text, parse_quantity

MAX_REQUESTING: Final = 128
"""Containers of one pod that may request: far beyond any node's devices; it bounds the time of a decision."""

_T = TypeVar("_T")

_SHORT: Final = 19
"""Characters from which digits may be more than a quantity can hold, 2^63 - 1."""


class ContainerRequest(msgspec.Struct):
    """A container that requests devices, with the keys that apply to it."""

    position: int  # index in `PodKeys.containers`
    keys: ContainerKeys  # the container's keys
    vendor: Vendor  # the vendor of the keys
    key_values: dict[str, KeyValue] = {}  # the keys that are set, by name
    zero: dict[str, KeyValue] = {}  # the keys with value 0 that count as unset
    other_zeros: list[KeyValue] = []  # 0 under further spellings of keys
    promoted: dict[str, Number] = {}  # the resources that are in requests only, with their numbers
    findings: list[Finding] = []  # warnings from collecting
    other_spellings: list[KeyValue] = []  # further spellings of keys in `key_values`, with any number
    # pairs of a key and its twin with different amounts, the lower one first; `key_values` has that one, which is
    # guaranteed
    unequal_twins: list[tuple[KeyValue, KeyValue]] = []
    # the same request in the keys of a vendor that copies this one's; or keys of a vendor that may be beside these, so
    # that the container is left unchanged
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
    def shown(self) -> str:
        """Its keys with their values, for messages."""
        return ", ".join(map(str, self.key_values.values()))

    @property
    def every_shown(self) -> str:
        """The same, with those of value 0 and other spellings."""
        return ", ".join(map(str, (*self.all_key_values.values(), *self.other_spellings)))

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
        binding = _without_container(owner.binding) if owner.binding else ()
        entry = KeyValue(key.name, name, text, number, binding)
        present = self.key_values.get(key.name) or self.zero.get(key.name)
        if present is not None and key.place == "nodeSelector":
            return  # one of several node selector keys is enough
        if type(number) is not int or not 0 <= number <= MAX_DEVICES:
            self._check_number(entry, key)
        if present is not None:
            self._add_again(key, present, entry)
        elif number == 0 and key.zero is not None:
            self.zero[key.name] = entry
        else:
            self.key_values[key.name] = entry

    def _add_again(self, key: Key, present: KeyValue, entry: KeyValue) -> None:
        """Add a key that is there already: in its twin, or under another spelling, of which those that are 0 do not count."""
        if key.twin is not None:
            self._add_twin(present, entry)
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
        keys, vendor = self.vendor.keys, self.vendor
        requests = any([vendor.annotation_keys or keys[name].makes_request for name in self.key_values])
        if not self.zero:
            return requests
        amounts = [entry for entry in self.key_values.values() if keys[entry.key_name].kind == "amount"]
        if not amounts:
            return requests and self._requests_without_amounts()
        self._check_some_device(amounts)
        if requests:
            self._settle_zeros()
        return requests

    def _check_some_device(self, amounts: Iterable[KeyValue]) -> None:
        """Deny a share of no device."""
        keys = self.vendor.keys
        none = next((entry for name, entry in self.zero.items() if keys[name].zero == "none"), None)
        if none is None or any("devices" in keys[entry.key_name].dimensions for entry in amounts):
            return
        listed = [*map(str, amounts)]
        rest = "both" if len(listed) == 1 else "all"
        message = f"{none} requests no device, {' and '.join(listed)} a share of one: write 1 or more, or remove {rest}"
        raise self.deny(Reason.ZERO_DEVICES, message, none, instead_of(none.key, 1))

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

    def _add_twin(self, present: KeyValue, entry: KeyValue) -> None:
        """Read the lower of two amounts, which the vendor guarantees; a request that stays in its keys keeps both."""
        if present.text == entry.text or present.number == entry.number:
            return
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
            meant = _meant(key, text)
            number = _meaning(key, meant) or "a plain whole number"
            found = KeyValue(key.name, name, error.text, 0)
            message = f"{name}: {error}: write {'a size such as 8Gi' if key.sized and key.unit == 1 else number}"
            raise self.deny(Reason.BAD_QUANTITY, message, found, instead_of(name, meant)) from None

    def read(self, policy: Policy, defaults: Defaults, *, home: bool = False) -> Reading:
        """Return what its keys mean, filled in with defaults; `home`: the request stays in these keys."""
        return read(self.vendor, self.key_values, defaults, policy.most_memory, self.name, home=home)

    def spelled(self, key: Key) -> str:
        """Return the name of a key as it has it, or with the variables of its other keys."""
        present = self.all_key_values.get(key.name)
        if present is not None:
            return present.key
        return key.only_name or key.spelled({"container": self.name, **bound_in(self.all_key_values)})

    def with_twin(self, key: Key, entry: KeyValue) -> list[str]:
        """Return the name that a key is written under for it, and its twin's."""
        if key.twin is None:
            return [entry.key]
        binding = {**dict(entry.binding), "container": self.name}
        names = (key.spellings[0].render(binding), key.twin.render(binding))
        return [name for name in names if name is not None]

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


def _without_container(binding: Binding) -> Binding:
    """The variables of a name without the container that it is for."""
    return tuple([pair for pair in binding if pair[0] != CONTAINER])


def _requesting(by_vendor: Collection[ContainerRequest]) -> ContainerRequest | None:
    """The container in the keys in which it requests; None if it requests no device (``devices: 0`` alone).

    Keys of another vendor that are all 0 request nothing beside it.
    """
    if len(by_vendor) == 1:  # nearly always
        (only,) = by_vendor
        return only if only.requests_devices() else None
    every = [(each, each.requests_devices()) for each in by_vendor]
    found = [each for each, requests in every if requests or each.has_number]
    if len(found) > 1:
        return _of_two(*found)
    return next((each for each, requests in every if requests), None)


def _of_two(first: ContainerRequest, second: ContainerRequest, *more: ContainerRequest) -> ContainerRequest:
    """The container with what may accompany its request; a denial if neither of two may."""
    for one, other in ((first, second), (second, first)) if not more else ():
        if other.vendor.copies == one.vendor.name or other.vendor.name in one.vendor.allowed_with:
            one.copy = other
            return one
    key, key_beside = (min(entry.key for entry in each.key_values.values()) for each in (first, second))
    message = (
        f"{key} is a key of {first.vendor.name}, {key_beside} of {second.vendor.name}: keep the keys of one vendor"
    )
    raise first.deny(Reason.TWO_VENDORS, message)


_PodEntry: TypeAlias = tuple[Owner, str, str, str | None]
"""A key of the pod that a vendor reads: its owner, its name, its text, and the container that it is for, if it names one."""

_COUNT: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_LISTED_COUNT: Final = re.compile(r"[0-9]{1,9}")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([kmgt])i?b?", re.IGNORECASE)
_PERCENT: Final = re.compile(r"([0-9]{1,3}) ?(%)")
_POWERS: Final = {"%": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_DECIMAL: Final = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}(?:[eE][+-]?[0-9]{1,2})?")


class _Requests(msgspec.Struct):
    """The requesting containers of a pod, as far as their keys are collected."""

    keys: PodKeys
    policy: Policy
    # by position and vendor, each container as it requests in the keys of that vendor
    found: dict[int, dict[str, ContainerRequest]] = {}
    named: dict[str, int] = {}  # the position of each container, by its name

    def _container(self, position: int, vendor: Vendor) -> ContainerRequest:
        """A container as it requests in the keys of a vendor; a new one if it has no key of that vendor yet."""
        try:
            return self.found[position][vendor.name]
        except KeyError:
            if len(self.found) >= MAX_REQUESTING:
                _check_number({*self.found, position})
            container = ContainerRequest(position, self.keys.containers[position], vendor)
            self.found.setdefault(position, {})[vendor.name] = container
            return container

    def add_resources(self, position: int, keys: ContainerKeys) -> None:
        """Add the resources of one container."""
        for name, (limit, request) in keys.resources.items():
            owner = self._owner(name, keys)
            vendor = self.policy.vendors[owner.vendor]
            container, key = self._container(position, vendor), vendor.keys[owner.key_name]
            text = limit if limit is not None else request or ""
            number = container.quantity(key, name, text)
            if limit is None:
                container.promoted[name] = number
                if number:  # of 0 there is nothing to copy, or a default is written in its place
                    message = f"{name} is in requests only and was copied to limits: write it to limits"
                    finding = Finding(Reason.PROMOTED_TO_LIMITS, message, container.name, f"requests[{name}]", text)
                    container.findings.append(finding)
            elif request not in (None, limit) and (other := container.quantity(key, name, request)) != number:
                message = f"{name} is {limit} in limits and {request} in requests: write the same value to both"
                raise container.deny(Reason.LIMIT_DIFFERS, message, instead=instead_of(name, number, other))
            container.add(owner, name, text, number)

    def _owner(self, name: str, keys: ContainerKeys) -> Owner:
        """The one vendor's key that a resource name is."""
        resources = self.policy.resources
        owner, *others = resources.exact.get(name) or resources.owners(name)
        rivals = {other.vendor for other in others} - {owner.vendor} if others else ()
        if rivals:
            message = (
                f"{name} matches keys of {owner.vendor} and of {', '.join(sorted(rivals))}: make one of them `inactive`"
            )
            raise deny(Reason.AMBIGUOUS_NAME, message, container=keys.name, field=name)
        return owner

    def add_claim(self, position: int, claimed: Claimed) -> None:
        """Add the keys of one container's claim."""
        container = self._container(position, self.policy.vendors[claimed.vendor])
        for entry in claimed.entries:
            container.add(Owner(claimed.vendor, entry.key_name), entry.key, entry.text, entry.number)

    def add_pod_keys(self) -> None:
        """Add the keys of the pod to the containers that they apply to; a container may request by them alone."""
        self.named = {container.name: position for position, container in enumerate(self.keys.containers)}
        by_vendor = self._pod_entries()
        vendors = self.policy.vendors
        applies_to = {name: self._positions(vendors[name], entries) for name, entries in by_vendor.items()}
        self._join_copies(applies_to, by_vendor)
        _check_number({*self.found, *itertools.chain.from_iterable(applies_to.values())})
        for vendor_name, entries in by_vendor.items():
            vendor = vendors[vendor_name]
            for position in applies_to[vendor_name]:
                if vendor.borrowed:
                    self._borrow(position, vendor)
                container = self._container(position, vendor)
                for owner, name, text, own in entries:
                    if own is None or own == container.name:
                        self._add(container, owner, name, text)

    def _pod_entries(self) -> dict[str, list[_PodEntry]]:
        """The keys of the pod, by vendor."""
        keys, policy = self.keys, self.policy
        by_vendor: dict[str, list[_PodEntry]] = {}
        for texts, names in (
            (keys.labels, policy.labels),
            (keys.annotations, policy.annotations),
            (keys.node_selector, policy.node_selector),
        ):
            for name, text in texts.items():
                for owner in names.owners(name):
                    by_vendor.setdefault(owner.vendor, []).append((owner, name, text, owner.container))
        return by_vendor

    def _positions(self, vendor: Vendor, entries: Iterable[_PodEntry]) -> list[int]:
        """The containers that a vendor's labels and annotations apply to; a count alone applies to none."""
        positions = {position for position, by_vendor in self.found.items() if vendor.name in by_vendor}
        named: dict[str, str] = {}
        has_amount = False
        for owner, name, text, own in entries:
            key = vendor.keys[owner.key_name]
            if own is not None:
                position = self._position(own, name)
                positions.update([position] if key.makes_request else [])
            elif key.kind == "container":
                named |= {container.strip(): name for container in text.split(",")}
            elif key.place == "annotation":
                has_amount |= text in key.requests or not {"memory", "cores"}.isdisjoint(key.dimensions)
        requests = has_amount and vendor.annotation_keys
        lending = self._lending(vendor) if requests or _lends(vendor, entries) else []
        if requests or lending:
            positions.update(self._chosen(vendor, named, lending))
        return sorted(positions)

    def _position(self, container: str, key_name: str) -> int:
        """The position of a container that a key names."""
        if container not in self.named:
            message = f"{key_name}: the pod has no container {container!r}: name one of {', '.join(self.named)}"
            raise deny(Reason.NO_SUCH_CONTAINER, message, field=key_name)
        return self.named[container]

    def _lending(self, vendor: Vendor) -> list[int]:
        """The containers that request nothing but resources of another vendor that mean something to this one, too."""
        found = []
        for position, container in enumerate(self.keys.containers):
            names = {name for name, (limit, request) in container.resources.items() if (limit or request) != "0"}
            if not container.init and names and names <= vendor.borrowed.keys():
                found.append(position)
        return found

    def _chosen(self, vendor: Vendor, named: Mapping[str, str], lending: list[int]) -> list[int]:
        """The containers that an amount of the pod is for.

        They are the named ones, each with the key that names it; else those with a borrowed resource; else the first.
        """
        if named or lending:
            return [self._position(name, key_name) for name, key_name in named.items()] or lending
        names = (key for key in vendor.keys.values() if key.kind == "container" and key.absent == "only")
        key = next(names, None)
        if key is not None and len(self.keys.regular) > 1:
            message = (
                f"no key names which of {len(self.keys.regular)} containers requests the GPU: "
                f"add the annotation {key.spellings[0].text}"
            )
            raise deny(Reason.NO_SUCH_CONTAINER, message)
        return [*map(self.named.__getitem__, self.keys.regular[:1])]

    def _join_copies(self, applies_to: dict[str, list[int]], by_vendor: Mapping[str, list[_PodEntry]]) -> None:
        """Apply a vendor's keys where their copy applies, in another vendor's keys, if they do not name a container."""
        for name, copied in applies_to.items():
            source = self.policy.vendors.get(self.policy.vendors[name].copies or "")
            original = [] if source is None else applies_to.get(source.name)
            if source is None or not copied or not original or original == copied:
                continue
            if any(source.keys[owner.key_name].kind == "container" for owner, *_ in by_vendor[source.name]):
                names = ([self.keys.containers[position].name for position in each] for each in (original, copied))
                first, second = map(", ".join, names)
                message = (
                    f"the keys of {source.name} request for {first}, their copy in the keys of {name} for {second}"
                )
                raise deny(Reason.TWO_VENDORS, f"{message}: name the same container in both", container=second)
            applies_to[source.name] = copied

    def _borrow(self, position: int, vendor: Vendor) -> None:
        """Read a container's resources as borrowed keys of a vendor, if it has no others but zeros."""
        others = self.found.get(position, {})
        numbered = [(each, entry) for each in others.values() for entry in each.key_values.values() if entry.number]
        several = any(each.other_spellings for each in others.values())
        if vendor.name in others or several or not vendor.borrowed.keys() >= {entry.key for _, entry in numbered}:
            return
        findings = [finding for each in others.values() for finding in each.findings]
        own = ContainerRequest(position, self.keys.containers[position], vendor, findings=findings)
        self.found[position] = {vendor.name: own, **others}
        for each, entry in numbered:
            del each.key_values[entry.key_name]
            if entry.key in each.promoted:
                own.promoted[entry.key] = entry.number
            own.add(Owner(vendor.name, vendor.borrowed[entry.key].name), entry.key, entry.text, entry.number)

    def _add(self, container: ContainerRequest, owner: Owner, name: str, text: str) -> None:
        """Add a key of the pod to a container that it applies to."""
        key = container.vendor.keys[owner.key_name]
        item = _listed_item(container, self.keys.regular, name, text) if key.listed else text
        item = item.strip().lower() if item is not None and key.any_case else item
        if item is None or ((key.written == "items" or key.any_case) and not item.strip()):
            return
        number = 0 if key.kind in {"text", "container"} else _number(container, key, name, item)
        container.add(owner, name, item, number)


def _check_number(requesting: Collection[int]) -> None:
    if len(requesting) > MAX_REQUESTING:
        raise deny(Reason.TOO_MANY, f"more than {MAX_REQUESTING} containers request a GPU: split the pod")


def _lends(vendor: Vendor, entries: Iterable[_PodEntry]) -> bool:
    """Whether a key of the pod has resources of other vendors mean something to this one."""
    texts = {pair for borrowed in vendor.borrowed.values() for pair in borrowed.in_pods.items()}
    return any((owner.key_name, text) in texts for owner, _, text, _ in entries)


def _listed_item(container: ContainerRequest, regular: list[str], name: str, text: str) -> str | None:
    """The item of a list by position among the pod's regular containers; init containers have none."""
    items = [item.strip() for item in text.split(",")]
    if len(items) != len(regular):
        message = f"{name}: {text!r} lists {len(items)} values: write one for each container, {len(regular)} in all"
        raise container.deny(Reason.BAD_COUNT, message)
    return None if container.keys.init else items[regular.index(container.name)]


def _number(container: ContainerRequest, key: Key, name: str, text: str) -> Number:
    if key.written == "items" or "devices" in key.dimensions:
        return _count(container, key, name, text)
    if key.written == "quantity":
        return container.quantity(key, name, text)
    decimal = key.written == "decimal"
    if (_DECIMAL if decimal else _WHOLE).fullmatch(text) is not None:
        return Fraction(text) if decimal else int(text)
    meant = None if decimal else _meant(key, text)
    kind = "decimal number: write one such as 0.5"
    if not decimal:
        kind = f"whole number: write {_meaning(key, meant) or 'digits only'}"
    raise container.deny(Reason.BAD_QUANTITY, f"{name}: {text!r} is not a {kind}", instead=instead_of(name, meant))


def _meaning(key: Key, meant: int | None) -> str | None:
    """What to write for a size or percentage with a unit, and what that is; None for other texts."""
    if meant is None or key.unit is None:
        return None
    return f"{meant} for {bytes_text(meant * key.unit) if key.sized else f'{number_text(meant * key.unit)} %'}"


def _count(container: ContainerRequest, key: Key, name: str, text: str) -> int:
    """The number of devices, or of those that a text lists."""
    items = [item.strip() for item in text.split(",")] if key.written == "items" else []
    if not all(map(_WHOLE.fullmatch, items)):
        message = f"{name}: {text!r} is no list of devices: write their numbers, as in 0,1"
        raise container.deny(Reason.BAD_COUNT, message)
    if not items and (_LISTED_COUNT if key.listed else _COUNT).fullmatch(text) is None:
        message = f"{name}: {text!r} is not a count: write a plain whole number in quotes"
        raise container.deny(Reason.BAD_COUNT, message)
    return len(items) or int(text)


def _meant(key: Key, text: str) -> int | None:
    """The number of a size or percentage with a unit, in the unit of the key; None for other texts."""
    size = (_SIZE if key.sized else _PERCENT).fullmatch(text)
    if size is None or key.unit is None:
        return None
    return int(-(-Fraction(size[1]) * 1024 ** _POWERS[size[2].lower()] // key.unit))


def collect(keys: PodKeys, policy: Policy) -> list[ContainerRequest]:
    """Return the requesting containers in order, without those that request no device (``devices: 0`` alone)."""
    requests = _Requests(keys, policy)
    for position, container in enumerate(keys.containers):
        if container.resources:
            requests.add_resources(position, container)
        if container.claimed is not None:
            requests.add_claim(position, container.claimed)
    if keys.of_pod:
        requests.add_pod_keys()
    found = [*filter(None, [_requesting(requests.found[position].values()) for position in sorted(requests.found)])]
    if len(found) > 1:
        for vendor, group in grouped([(container.vendor, container) for container in found]):
            _check_group(vendor, group)
    return found


def grouped(pairs: Iterable[tuple[Vendor, _T]]) -> list[tuple[Vendor, list[_T]]]:
    """Return what belongs to each vendor that has more than one."""
    groups: dict[str, tuple[Vendor, list[_T]]] = {}
    for vendor, each in pairs:
        groups.setdefault(vendor.name, (vendor, []))[1].append(each)
    return [group for group in groups.values() if len(group[1]) > 1]


def _check_group(vendor: Vendor, group: Sequence[ContainerRequest]) -> None:
    """Check, before anything is read, whether several containers may request, and which one a count is for."""
    together = vendor.containers
    # What another system serves under the vendor's names is no request of the vendor.
    served = group
    if together == "one":
        forms = [form_of(vendor, each.key_values) for each in group]
        served = [each for each, form in zip(group, forms, strict=True) if form is None or form.leave is None]
    names = ", ".join(container.name for container in served)
    if together == "one" and len(served) > 1:
        message = f"{vendor.name} serves one container of a pod, but {names} request devices: keep the request of one"
        raise deny(Reason.ONE_CONTAINER_ONLY, message)
    if together not in {"one", "shared"}:  # else a count of the pod is for all of them
        _check_counts(group[0], names)


def _check_counts(container: ContainerRequest, names: str) -> None:
    """Deny a count of the pod that can only be for one container."""
    for entry in container.key_values.values():
        key = container.vendor.keys[entry.key_name]
        of_several = key.of_container or key.per_container or key.listed
        if "devices" in key.dimensions and not of_several:
            message = (
                f"{entry.key}: {entry.text!r} counts the devices of one container, but {names} request devices: "
                "keep the request of one"
            )
            raise deny(Reason.AMBIGUOUS_COUNT, message, field=entry.key, value=entry.text)
