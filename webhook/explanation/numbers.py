"""Other numbers for the keys of a container that is refused: what its vendor would take, and no less than asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import msgspec

from webhook.finding import Finding
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Condition, Form, Key, Vendor
from webhook.mapping.requests.advice import gibibytes_meant, share_keys, share_meant, sizes_meant
from webhook.mapping.requests.denials import spelling
from webhook.mapping.requests.key_values import KeyValue, form_of
from webhook.pod import Container, Pod, QuantityText, Resources
from webhook.quantity import Number, QuantityError, ceil_to, parse_quantity, simplest
from webhook.reasons import Reason


@dataclass(frozen=True, slots=True)
class _Words:
    """The keys of one vendor in a container.

    Attributes:
        key_values: its resources.
        labels: the pod's labels that hold for it: counts of devices.
    """

    vendor: Vendor
    key_values: dict[str, KeyValue]
    labels: dict[str, KeyValue]

    @property
    def all(self) -> dict[str, KeyValue]:
        """Those that are set."""
        return {name: said for name, said in {**self.labels, **self.key_values}.items() if said.number}

    @property
    def counts(self) -> tuple[Number, ...]:
        """The numbers of devices that they say."""
        return tuple(one.number for one in self.all.values() if "devices" in self.vendor.keys[one.key_name].dimensions)


def _words(pod: Pod, container: Container, policy: Policy) -> _Words | None:
    resources = container.resources or Resources()
    key_values: dict[str, KeyValue] = {}
    vendor: Vendor | None = None
    for key, quantity in {**(resources.requests or {}), **(resources.limits or {})}.items():
        owners = policy.resources.owners(key)
        if not owners:
            continue
        if vendor is not None and vendor.name != owners[0].vendor:
            return None
        vendor = policy.vendors[owners[0].vendor]
        try:
            number = parse_quantity(str(quantity))
        except QuantityError:
            continue
        key_values[owners[0].key_name] = KeyValue(owners[0].key_name, key, str(quantity), number, owners[0].binding)
    if vendor is None:
        return None
    labels: dict[str, KeyValue] = {}
    for key, text in (pod.metadata.labels or {}).items():
        for owner in policy.labels.owners(key):
            if owner.vendor == vendor.name and text.isdigit() and text.isascii():
                labels[owner.key_name] = KeyValue(owner.key_name, key, text, int(text[:9]), owner.binding)
    return _Words(vendor, key_values, labels)


def with_other_numbers(pod: Pod, container: Container, policy: Policy, denial: Finding) -> Iterator[Container]:
    """The container with other numbers of its keys, the likeliest first.

    In this order: a share in place of a fraction of a device, the nearest numbers that the vendor takes, a count of one
    device, and less of the keys that the vendor does not take together.
    """
    words = _words(pod, container, policy)
    if words is None:
        return
    form = form_of(words.vendor, words.all)
    refusing = (
        form if denial.reason is Reason.REFUSED_BY_VENDOR and form is not None and form.deny is not None else None
    )
    yield from _as_share(container, words, denial)
    if refusing is None or "{above}" in (refusing.deny or ""):
        yield from _with_legal_numbers(container, words, policy, denial)
    yield from _with_count(container, words, refusing, missing=denial.reason is Reason.ZERO_DEVICES)
    if refusing is not None:
        yield from _without_refused(container, words, refusing)


def _with_legal_numbers(container: Container, words: _Words, policy: Policy, denial: Finding) -> Iterator[Container]:
    """The container with the nearest number of one key that its vendor takes: the denied key first."""
    too_large = denial.reason is Reason.TOO_LARGE
    for value in sorted(words.key_values.values(), key=lambda value: value.key != denial.field):
        for number in _numbers(words.vendor, value, words, policy.largest_card, too_large=too_large):
            yield _with_number(container, value.key, number)


def _with_count(container: Container, words: _Words, refusing: Form | None, *, missing: bool) -> Iterator[Container]:
    """The container with a count of one device, if it is missing, or if the refusing form is for requests without it."""
    conditions = () if refusing is None else refusing.when
    for name in words.vendor.by_dimension["devices"]:
        key = words.vendor.keys[name]
        if key.place == "resource" and (missing or any(_needs(condition, name) for condition in conditions)):
            binding = {variable: text for value in words.key_values.values() for variable, text in value.binding}
            spelled = words.key_values[name].key if name in words.key_values else spelling(key, binding)
            yield _with_number(container, spelled, 1)


def _without_refused(container: Container, words: _Words, refusing: Form) -> Iterator[Container]:
    """The container without one of the keys whose presence makes the form refuse it."""
    for condition in refusing.when:
        for name in condition.keys:
            if condition.present and name in words.key_values:
                yield _with_number(container, words.key_values[name].key, None)


def _as_share(container: Container, words: _Words, denial: Finding) -> Iterator[Container]:
    """The container with one device in place of a fraction of one, and that fraction in the keys that take it."""
    for said in words.key_values.values():
        if said.key != denial.field or denial.reason is not Reason.NOT_WHOLE or not 0 < said.number < 1:
            continue
        if words.vendor.keys[said.key_name].dimensions == ("devices",):
            sizes = {"memory", "cores"}
            specified = any(sizes & set(words.vendor.keys[one.key_name].dimensions) for one in words.all.values())
            keys = () if specified else share_keys(words.vendor, said)
            container = _with_number(container, said.key, 1)
            for key, number in keys:
                container = _with_number(container, key, number)
            yield container


def _needs(condition: Condition, word: str) -> bool:
    return word in condition.keys and condition.absent and not condition.present


def _numbers(vendor: Vendor, said: KeyValue, words: _Words, largest_card: int, *, too_large: bool) -> list[Number]:
    """Other numbers of a key that could have been meant: never less, unless its unit was taken for another."""
    word = vendor.keys[said.key_name]
    share = share_meant(word, said.number)
    if share is not None and word.written != "decimal":
        return [share]
    found: set[Number] = set()
    for form in vendor.forms:
        if form.reads:
            found.update(_legal(form, form.keys[said.key_name], said.number, words.counts))
    found = {number for number in found if number > said.number}
    if not too_large:
        size = gibibytes_meant(word, said.number) if word.written != "decimal" else None
        return [*([] if size is None else [size]), *sorted(found)]
    likely = [number for _, number in sizes_meant(word, said, said.number * (word.unit or 1), largest_card)]
    if word.unit is not None and not word.sized and "devices" not in word.dimensions:
        found.add(simplest(Fraction(100) / word.unit))
    return [number for number in dict.fromkeys([*likely, *sorted(found)]) if number != said.number]


def _legal(form: Form, word: Key, number: Number, counts: tuple[Number, ...]) -> Iterator[Number]:
    """The nearest numbers above that a form takes."""
    for condition in form.when:
        if condition.keys == (word.name,) and condition.numbers is not None:
            above = condition.numbers.ceil(number)
            if above is not None:
                yield above
    for devices in (1, *(count for count in counts if word.total and count > 1)):
        share: Number | None = ceil_to(Fraction(number) / devices, word.step if word.written == "decimal" else 1)
        if word.values is not None and share is not None:
            share = word.values.ceil(share)
        if share is not None:
            yield simplest(share * devices)


def _with_number(container: Container, key: str, number: Number | None) -> Container:
    """The container with a resource at a number, in limits and wherever else it stands; None takes it away."""
    resources = container.resources or Resources()
    limits, requests = dict(resources.limits or {}), dict(resources.requests or {})
    there = {*limits, *requests}
    if number is None:
        limits.pop(key, None)
        requests.pop(key, None)
    else:
        text: QuantityText = number if isinstance(number, int) else str(float(number))
        if key in requests or (requests and key not in limits):
            requests[key] = text
        if key in limits or key not in requests or key not in there:
            limits[key] = text
    return _with_resources(container, limits, requests)


def renamed(container: Container, key: str, meant: str) -> Container:
    """The container with another name for one of its resources."""
    resources = container.resources or Resources()
    limits, requests = (
        {meant if name == key else name: value for name, value in (side or {}).items()}
        for side in (resources.limits, resources.requests)
    )
    return _with_resources(container, limits, requests)


def _with_resources(
    container: Container, limits: dict[str, QuantityText], requests: dict[str, QuantityText]
) -> Container:
    return msgspec.structs.replace(container, resources=Resources(limits or None, requests or None))
