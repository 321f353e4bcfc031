"""The translation of each vendor's requests into each other's keys, derived from the two documents.

Verdicts change only at boundaries of one of the two documents (`boundaries.py`). So the engine itself reads and writes
requests of the source at each boundary, beside it, and between two; neighbors with the same verdict make one part. Between
two boundaries the amounts that a vendor can express are evenly spaced: if two in a row are written exactly, all are.
"""

import functools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Final

from webhook.mapping.matrix.boundaries import Bounds
from webhook.mapping.matrix.outcomes import Cell, Part, Rendering, Verdict, kind_of, place_of
from webhook.mapping.matrix.planes import Box, Plane, plane_of, runs
from webhook.mapping.matrix.shapes import Axis, Shape, shapes
from webhook.mapping.matrix.verdicts import Inactive, Target, shared_names
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Row, Vendor
from webhook.mapping.requests.values import Defaults
from webhook.quantity import Number, simplest
from webhook.request import MAX_DEVICES, Request

NOTHING_READ: Final = "none of its keys can be read until it is configured"
"""The reason for a source without any request."""

_ENDS: Final = (0, -1)
"""The indexes of the first and the last representative number."""


class Matrix:
    """All pairs of vendors of a policy, each derived on demand.

    Both vendors of a pair count as active; if they share a resource name, only the source does.
    """

    def __init__(self, policy: Policy) -> None:
        vendors, largest = policy.vendors.values(), policy.largest_card
        self._sources = {vendor.name: _Source(vendor, largest) for vendor in vendors}
        self._targets = {vendor.name: Target(vendor, largest) for vendor in vendors if vendor.target}
        self._cells: dict[tuple[str, str], Cell] = {}

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all vendors."""
        return tuple(self._sources)

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of vendors that can be written."""
        return tuple(self._targets)

    def cell(self, source: str, target: str) -> Cell:
        """Return the result for a source and a target."""
        if (source, target) not in self._cells:
            self._cells[source, target] = _Pair(self._sources[source], self._targets[target]).cell()
        return self._cells[source, target]

    def row(self, source: str) -> Mapping[str, Cell]:
        """Return the results for a source and all other vendors as targets."""
        return {target: self.cell(source, target) for target in self._targets if target != source}


class _Source(Bounds):
    """A vendor as a source, with the shapes of its requests."""

    def __init__(self, vendor: Vendor, largest_card: int) -> None:
        super().__init__(vendor, largest_card)
        self.shapes = shapes(vendor)


class _Pair:
    """The derivation of one cell."""

    def __init__(self, source: _Source, target: Target) -> None:
        self._source = source
        self._target = target
        defaults = source.vendor.defaults
        self._defaults: Defaults = {
            dimension: default for dimension, default in defaults.items() if dimension in target.vendor.expressed
        }
        names = shared_names(source.vendor, target.vendor)
        self._judge = Inactive(target, source.vendor, self._defaults, names) if names else target

    def cell(self) -> Cell:
        parts = tuple(dict.fromkeys(part for shape in self._source.shapes for part in self._parts(shape)))
        why = tuple(dict.fromkeys(part.why for part in parts if not part.outcome.written))
        outcomes = {part.outcome for part in parts}
        if not parts:
            return Cell(Rendering.DENIED, (), (NOTHING_READ,))
        if len(outcomes) == 1:
            return Cell(parts[0].outcome, parts, why)
        if all(outcome.written for outcome in outcomes):
            return Cell(max(outcomes, key=list(Rendering).index), parts, why)
        return Cell(Rendering.CONDITIONAL, parts, why)

    def _parts(self, shape: Shape) -> Iterator[Part]:
        for low, high, plane in self._counts(shape):
            for cores, row in plane:
                for memory, verdict in row:
                    yield Part(shape.form.name, (low, high), memory, cores, verdict.outcome, verdict.why)

    def _counts(self, shape: Shape) -> list[tuple[int, int, Plane]]:
        """Return ranges of counts of devices that are alike."""
        if not shape.varies:
            devices = shape.devices(self._defaults)
            return [(devices, devices, self._plane(shape, devices))]
        counts = sorted(self._source.devices | self._target.devices)
        plane = functools.cache(functools.partial(self._plane, shape))
        return runs(counts, MAX_DEVICES, plane, self._target.alike, shape.legal_counts)

    def _plane(self, shape: Shape, devices: int) -> Plane:
        """Return the verdicts of the requests with one count of devices."""
        cells_of = [list(self._cells(axes, shape.row, devices)) for axes in shape.axes(devices)]
        boxes = [box for cells in _product(cells_of) for box in self._boxes(shape, devices, cells)]
        return plane_of(boxes, together=shape.together)

    def _cells(self, axes: tuple[Axis, ...], row: Row | None, devices: int) -> Iterator[tuple[Number, ...]]:
        """Yield representative numbers of a key: each boundary, and between two the first two and the last."""
        key = axes[0].key
        bounds: set[Number] = set()
        for dimension in key.dimensions:
            if dimension != "devices":
                sized = key.sized and dimension == "memory"
                own = () if row is None else (row,)
                bounds |= self._source.amounts(own, dimension, devices, sized=sized)
                bounds |= self._target.amounts(self._target.rows, dimension, devices, sized=sized)
        if key.unit is None:
            return
        numbers = sorted({simplest(Fraction(amount) / key.unit) for amount in bounds})
        for before, number in pairwise([0, *numbers]):
            exact = _between(axes[0], before, number)
            cells = [exact, *((at,) for at in [number] if axes[0].ceil(at) == at)]
            # A rounded number may mean one beyond the boundary.
            rounded = {found for axis in axes[1:] for found in (*_between(axis, before, number), axis.ceil(number))}
            cells.extend(
                (found,) for found in sorted(found for found in rounded if found is not None and found <= number)
            )
            yield from dict.fromkeys(cell for cell in cells if cell)

    def _boxes(self, shape: Shape, devices: int, cells: tuple[tuple[Number, ...], ...]) -> Iterator[Box]:
        """Yield memory and cores of the requests of one cell of each axis, with their verdict."""
        found: dict[tuple[object, ...], list[tuple[Request, Verdict]]] = {}
        any_written = False
        for nth, numbers in enumerate(_witnesses(cells)):
            if nth == len(_ENDS) and not any_written:
                break  # requests that are denied at both ends are denied in between
            request = shape.request(devices, numbers, self._defaults, self._source.largest_card)
            if request is not None:
                verdict = self._judge.verdict(request)
                any_written = any_written or verdict.outcome.written
                kind = (kind_of(request.memory), kind_of(request.cores))
                found.setdefault(kind, []).append((request, verdict))
        for alike in found.values():
            requests, verdicts = zip(*alike, strict=True)
            memory = sorted((request.memory for request in requests), key=place_of)
            cores = sorted((request.cores for request in requests), key=place_of)
            yield Box((memory[0], memory[-1]), (cores[0], cores[-1]), functools.reduce(Verdict.joined, verdicts))


def _between(axis: Axis, before: Number, number: Number) -> tuple[Number, ...]:
    """Return the first two numbers between two others, and the last."""
    first = axis.above(before)
    if first is None or first >= number:
        return ()
    numbers = {first, axis.above(first), axis.below(number)}
    return tuple(sorted(found for found in numbers if found is not None and first <= found < number))


def _product(axes: list[list[tuple[Number, ...]]]) -> Iterator[tuple[tuple[Number, ...], ...]]:
    if not axes:
        yield ()
        return
    for cell in axes[0]:
        for rest in _product(axes[1:]):
            yield (cell, *rest)


def _witnesses(cells: tuple[tuple[Number, ...], ...]) -> Iterator[tuple[Number, ...]]:
    """Yield representative numbers: the first and the last of each axis, and the second of each one alone."""
    first, last = (tuple(cell[end] for cell in cells) for end in _ENDS)
    alone = (first[:at] + cell[1:2] + first[at + 1 :] for at, cell in enumerate(cells) if len(cell) > 1)
    yield from dict.fromkeys([first, last, *alone])
