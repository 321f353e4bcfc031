"""What becomes of each vendor's requests in each other's keys, tried at the corners of both documents, for pages and tests.

The outcome changes only where a rule of one of the two documents begins or ends. So the engine itself reads and writes the
probes' combinations of the source, and requests of the source beside each count and amount at which the target has a rule.
"""

import enum
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from webhook.mapping.compile.probes import combinations, corners
from webhook.mapping.model.names import Owner, index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Binding, Derived, Form, Key, NamePart, Row, Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import Defaults, KeyValue, KeyValues, form_of, row_of, value_of
from webhook.mapping.requests.writing import NoEquivalent, Written, write
from webhook.quantity import Number, exact_text, simplest
from webhook.reasons import Denied
from webhook.request import ALL, DIMENSIONS, MAX_DEVICES, UNLIMITED, Dimension, Memory, Percent, Request, Size

NOTHING_READ: Final = "none of its keys can be read until it is configured"
"""The reason for a source without any request."""

_CONTAINER: Final = "main"
_DECIMAL: Final = Fraction(1, 10**4)
"""The step between tried numbers that may be a fraction."""


class Rendering(enum.Enum):
    """The outcomes of requests of a source in a target's keys, best first."""

    EXACT = "exact"
    ROUNDS = "rounds"
    DROPS = "drops"
    CONDITIONAL = "conditional"
    DENIED = "denied"

    @property
    def written(self) -> bool:
        """Whether all of them are written."""
        return self in {Rendering.EXACT, Rendering.ROUNDS, Rendering.DROPS}


class Tried(NamedTuple):
    """A request in a form of the source, its outcome, and why it is denied, or what is dropped."""

    form: str
    request: Request
    outcome: Rendering
    why: str


@dataclass(frozen=True, slots=True)
class Cell:
    """The result for one pair of vendors.

    Attributes:
        outcome: the outcome of all requests together.
        tried: the requests, by form and devices; empty if nothing can be read.
        why: why some are denied, each reason once.
    """

    outcome: Rendering
    tried: tuple[Tried, ...]
    why: tuple[str, ...]


def cell_of(tried: Iterable[Tried]) -> Cell:
    """Return the result of requests together."""
    tried = tuple(tried)
    outcomes = {each.outcome for each in tried}
    if not outcomes:
        return Cell(Rendering.DENIED, (), (NOTHING_READ,))
    some = len(outcomes) > 1 and Rendering.DENIED in outcomes
    worst = Rendering.CONDITIONAL if some else max(outcomes, key=list(Rendering).index)
    return Cell(worst, tried, tuple(dict.fromkeys(each.why for each in tried if not each.outcome.written)))


class Matrix:
    """All pairs of vendors of a policy, each derived on demand.

    Both vendors of a pair count as active; if they share a resource name, only the source does. A vendor with claims is only a
    target: in its keys nobody writes pods.
    """

    def __init__(self, policy: Policy) -> None:
        self._vendors = policy.vendors
        self._corners = cache(lambda name: _Corners(policy.vendors[name], policy.largest_card))
        self._cells: dict[tuple[str, str], Cell] = {}
        self.sources: Final = tuple(name for name, vendor in policy.vendors.items() if vendor.claim is None)
        self.targets: Final = tuple(name for name, vendor in policy.vendors.items() if vendor.target)

    def cell(self, source: str, target: str) -> Cell:
        """Return the result for a source and a target."""
        if (source, target) not in self._cells:
            claim, corners = self._vendors[target].claim, self._corners(target)
            slices = self._vendors.get((claim and claim.partitions) or "")
            if slices is not None and _rows_of_both(self._vendors[source], slices):
                corners = self._corners(slices.name)
            self._cells[source, target] = cell_of(_tried(self._corners(source), corners))
        return self._cells[source, target]

    def row(self, source: str) -> Mapping[str, Cell]:
        """Return the results for a source and all other vendors as targets."""
        return {target: self.cell(source, target) for target in self.targets if target != source}


def _tried(source: "_Corners", target: "_Corners") -> Iterator[Tried]:
    expressed = tuple(dimension for dimension in source.vendor.defaults if dimension in target.vendor.expressed)
    names = _shared_names(source.vendor, target.vendor)
    forms = [form.name for form in source.vendor.forms]
    found = set(source.requests(target, expressed))
    rows = _rows_of_both(source.vendor, target.vendor) if target.vendor.claim is not None else None
    for form, request in sorted(found, key=lambda each: (forms.index(each[0]), *_place(each[1]))):
        outcome, why, written = target.outcome(request) if rows is None else target.by_name(request, rows)
        if names and written is not None:
            differs = source.differs(target.vendor, expressed, names, written)
            outcome, why = (outcome, why) if differs is None else (Rendering.DENIED, differs)
        yield Tried(form, request, outcome, why)


def _rows_of_both(source: Vendor, target: Vendor) -> NamePart | None:
    """Return the variable of a target with claims whose rows the names of a source choose, too."""
    both = (target.variables[name] for name in source.variables if name in target.variables)
    return next((part for part in both if part.rows.keys() & source.variables[part.name].rows.keys()), None)


def _place(request: Request) -> tuple[object, ...]:
    """Return a sort key: devices, then amounts; whole devices come first, their reason is the plainest."""
    return request.devices, _amount_place(request.memory), _amount_place(request.cores)


def _amount_place(amount: Memory | None) -> tuple[int, Number]:
    if isinstance(amount, Size):
        return 2, amount.bytes
    return (3, amount.value) if isinstance(amount, Percent) and amount != ALL else (0 if amount == ALL else 1, 0)


class _Shape(NamedTuple):
    """Keys that make requests in a form: `keys` say how many devices and how much, of the others the value stays.

    Attributes:
        row: the size of a device, where the names imply it.
        key_values: an example.
        devices: those of the example.
    """

    form: Form
    row: Row | None
    keys: tuple[Key, ...]
    key_values: KeyValues
    devices: int

    @property
    def told(self) -> tuple[bool, bool, bool]:
        """Whether the keys say devices, memory and cores."""
        devices, memory, cores = (any(each in key.dimensions for key in self.keys) for each in DIMENSIONS)
        return devices or isinstance(self.form.devices, Derived), memory, cores


_Wanted: TypeAlias = tuple[int | None, Memory | None, Memory | None]
"""Devices, and memory and cores of each; None: as in the example."""


class _Corners:
    """A vendor with its requests, and the counts and amounts at which its rules change; what is computed is kept."""

    def __init__(self, vendor: Vendor, largest_card: int) -> None:
        self.vendor: Final = vendor
        self._largest_card = largest_card
        self._combinations = list(combinations(vendor))
        self._shapes: list[_Shape] = []
        own: list[Request] = []
        for key_values in self._combinations:
            found = self._read(key_values, vendor.defaults)
            if found is not None:
                own.append(found[1])
                self._add_shape(key_values, found[1].devices or 1)
        self.own: frozenset[_Wanted] = frozenset((each.devices or 1, each.memory, each.cores) for each in own)
        amounts: dict[Dimension, set[Memory | None]] = {
            "devices": set(),
            "memory": {Size(largest_card), ALL, *(each.memory for each in own)},
            "cores": {ALL, *(each.cores for each in own)},
        }
        for row in (row for variable in vendor.variables.values() for row in variable.rows.values()):
            amounts["memory"] |= {row.memory, row.least}
            amounts["cores"] |= {row.cores, row.least_cores}
        counts = {1, 2, MAX_DEVICES, *(each.devices or 1 for each in own)}
        for key in vendor.keys.values():
            for number in corners(vendor, key) if key.kind == "amount" and key.unit is not None else ():
                counts |= {int(number)} if "devices" in key.dimensions and number <= MAX_DEVICES else set()
                for dimension in key.dimensions:
                    amounts[dimension].add(value_of(key, dimension, number))
        self.counts = frozenset(counts)
        self.memory, self.cores = (frozenset(filter(self._exists, amounts[each])) for each in ("memory", "cores"))
        self.memory_ends, self.cores_ends = (_ends(each.memory for each in own), _ends(each.cores for each in own))
        self._at = cache(self._read_at)
        self._numbers = cache(self._numbers_beside)
        self.outcome = cache(self._outcome)

    def _exists(self, amount: Memory | None) -> bool:
        """Return whether a device has so much."""
        most = {Size: self._largest_card, Percent: ALL.value}
        return isinstance(amount, Size | Percent) and _worth(amount) <= most[type(amount)]

    def _add_shape(self, key_values: KeyValues, devices: int) -> None:
        """Add the shape of a combination, unless another one differs from it in numbers and texts only."""
        form, by_dimension = form_of(self.vendor, key_values), self.vendor.by_dimension.values()
        assert form is not None  # noqa: S101  (it was read)
        names = dict.fromkeys(name for names in by_dimension for name in [n for n in names if n in key_values][:1])
        if isinstance(form.devices, Derived):
            names[form.devices.key] = None
        keys = tuple(form.keys[name] for name in names if form.keys[name].unit is not None)
        shape = _Shape(form, row_of(self.vendor, key_values)[0], keys, key_values, devices)
        if not any(other[:3] == shape[:3] for other in self._shapes):
            self._shapes.append(shape)

    def requests(self, target: "_Corners", expressed: tuple[Dimension, ...]) -> Iterator[tuple[str, Request]]:
        """Yield requests with their forms: the own ones, and those beside what the target can be told.

        Args:
            target: the target.
            expressed: the dimensions that defaults fill in.
        """
        counts, memory, cores = (
            self.counts | target.counts,
            self.memory | target.memory,
            self.cores | target.cores,
        )
        wanted: set[_Wanted] = {*target.own, *((count, None, None) for count in counts)}
        wanted |= {(count, amount, None) for count in counts for amount in memory}
        wanted |= {(count, None, amount) for count in counts for amount in cores}
        wanted |= {(None, *pair) for pair in itertools.product(memory, self.cores_ends)}
        wanted |= {(None, *pair) for pair in itertools.product(self.memory_ends, cores)}
        found = [self._at(nth, None, expressed) for nth in range(len(self._combinations))]
        for nth, shape in enumerate(self._shapes):
            told = {
                tuple(part if known else None for part, known in zip(each, shape.told, strict=True)) for each in wanted
            }
            numbers = {
                chosen
                for each in told
                for chosen in itertools.product(*(self._numbers(nth, at, each) for at in range(len(shape.keys))))
            }
            found.extend(self._at(nth, each, expressed) for each in numbers)
        return (each for each in found if each is not None)

    def _numbers_beside(self, nth: int, at: int, wanted: _Wanted) -> tuple[Number, ...]:
        """Return the numbers of a key for an amount: the greatest that is not above it, and the next."""
        shape, (count, *amounts) = self._shapes[nth], wanted
        devices = count or shape.devices
        key, derived = shape.keys[at], shape.form.devices
        found: list[Number] = [devices] if "devices" in key.dimensions else []
        if isinstance(derived, Derived) and derived.key == key.name:
            found.append(devices * derived.per)
        values, step = shape.form.values(key, shape.row), _DECIMAL if key.written == "decimal" else 1
        for dimension, amount in zip(("memory", "cores"), amounts, strict=True):
            sized = key.sized and dimension == "memory"
            if dimension in key.dimensions and isinstance(amount, Size if sized else Percent):
                below = Fraction(_worth(amount)) / (key.unit or 1) // step * step
                legal = (below, below + step) if values is None else (values.floor(below), values.ceil(below + step))
                found.extend(number * devices if key.total else number for number in legal if number)
        if amounts == [None, None] or not found:
            number = shape.key_values[key.name].number
            found.append(Fraction(number) / shape.devices * devices if key.total else number)
        return tuple(map(simplest, found))

    def _read_at(
        self, nth: int, numbers: tuple[Number, ...] | None, expressed: tuple[Dimension, ...]
    ) -> tuple[str, Request] | None:
        """Return the request of a combination, or of a shape with other numbers."""
        defaults = {dimension: self.vendor.defaults[dimension] for dimension in expressed}
        if numbers is None:
            return self._read(self._combinations[nth], defaults)
        shape, key_values = self._shapes[nth], dict(self._shapes[nth].key_values)
        for key, number in zip(shape.keys, numbers, strict=True):
            key_values[key.name] = replace(key_values[key.name], text=exact_text(number), number=number)
        return self._read(key_values, defaults)

    def _read(self, key_values: KeyValues, defaults: Defaults) -> tuple[str, Request] | None:
        try:
            reading = read(self.vendor, key_values, defaults, self._largest_card, _CONTAINER)
        except Denied:
            return None
        return reading.form.name, reading.request

    def _outcome(self, request: Request) -> tuple[Rendering, str, Written | None]:
        """Return what becomes of a request; what the mapping allows is dropped, one by one, until the rest can be written."""
        written, dropped = self._write(request), []
        if isinstance(written, Written):
            return Rendering.EXACT if written.reading.request == request else Rendering.ROUNDS, "", written
        for dimension in self.vendor.document.drop:
            if getattr(request, dimension) is not UNLIMITED:
                request = replace(request, **{dimension: UNLIMITED})
                dropped.append(dimension)
                if isinstance(self._write(request), Written):
                    return Rendering.DROPS, " and ".join(dropped), None
        return Rendering.DENIED, written, None

    def by_name(self, request: Request, rows: NamePart) -> tuple[Rendering, str, Written | None]:
        """Return what becomes of a request that is written by a name which both vendors have."""
        written = self._write(request, named=((rows.name, next(iter(rows.rows))),))
        if not isinstance(written, Written):
            return Rendering.DENIED, written, None
        same = any((row.memory, row.cores) == (request.memory, request.cores) for row in rows.rows.values())
        return Rendering.EXACT if same else Rendering.ROUNDS, "", written

    def _write(self, request: Request, named: Binding = ()) -> Written | str:
        try:
            return write(self.vendor, request, self.vendor.defaults, self._largest_card, _CONTAINER, named=named)
        except NoEquivalent as error:
            return error.reasons[0]

    def differs(
        self, target: Vendor, expressed: tuple[Dimension, ...], names: Mapping[str, Owner], written: Written
    ) -> str | None:
        """Return why this vendor, if active, reads otherwise what was written for an inactive one; None if it does not."""
        only = f"only one of {self.vendor.name} and {target.name} is active, and"
        key_values: dict[str, KeyValue] = {}
        for entry in written.keys.values():
            owner = names.get(entry.key)
            if owner is None:
                return f"{only} {entry.key} would not be read"
            key_values[owner.key_name] = replace(entry, key_name=owner.key_name, binding=owner.binding)
        defaults = {dimension: self.vendor.defaults[dimension] for dimension in expressed}
        try:
            read_back = read(self.vendor, key_values, defaults, self._largest_card, _CONTAINER).request
        except Denied as denial:
            return denial.finding.message
        return None if read_back == written.reading.request else f"{only} {self.vendor.name} would read {read_back}"


def _worth(amount: Size | Percent) -> Number:
    return amount.bytes if isinstance(amount, Size) else amount.value


def _ends(amounts: Iterable[Memory | None]) -> list[Size | Percent]:
    """Return of sizes and of percentages the least and the greatest two, of which one may be all of a device."""
    ordered = sorted({each for each in amounts if isinstance(each, Size | Percent)}, key=_worth)
    kinds = ([each for each in ordered if isinstance(each, kind)] for kind in (Size, Percent))
    return [each for alike in kinds for each in dict.fromkeys([*alike[:1], *alike[-2:]])]


def _shared_names(source: Vendor, target: Vendor) -> Mapping[str, Owner]:
    """Return how the source reads the names of both vendors, if they share a resource name; else nothing."""
    names, target_names = index([source], "resource"), index([target], "resource").exact
    if not any(names.owners(name) for name in target_names):
        return {}
    return {name: owners[0] for name in (*target_names, *names.exact) if (owners := names.owners(name))}
