"""Neighbors with the same outcome, joined to readable parts along memory, cores and counts of devices."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from webhook.mapping.matrix.outcomes import Amounts, Rendering, Verdict, kind_of, place_of
from webhook.mapping.notation import Numbers, Span
from webhook.quantity import Number
from webhook.request import ALL, UNLIMITED

Row: TypeAlias = list[tuple[Amounts, Verdict]]
"""Ranges of memory in order, with their verdicts."""
Plane: TypeAlias = list[tuple[Amounts, Row]]
"""Ranges of cores in order, each with a row of memory."""

_ALL: Final = Numbers((Span(1, None, 1),))


@dataclass(frozen=True, slots=True)
class Box:
    """Requests between two boundaries of each amount, with one verdict for all."""

    memory: Amounts
    cores: Amounts
    verdict: Verdict


def plane_of(boxes: Iterable[Box], *, together: bool) -> Plane:
    """Join the boxes of one count of devices along memory, then along cores.

    Args:
        boxes: the boxes of one source.
        together: whether one number specifies memory and cores, so that both grow together.
    """
    rows: dict[Amounts, dict[Amounts, Verdict]] = {}
    for box in boxes:
        row = rows.setdefault(box.cores, {})
        row[box.memory] = row[box.memory].joined(box.verdict) if box.memory in row else box.verdict
    plane: Plane = []
    for cores in sorted(rows, key=_corner):
        row_ = _row(rows[cores])
        if plane and _follows(plane[-1][0], cores, equal=_outcomes(plane[-1][1]) == _outcomes(row_)):
            before, last = plane[-1]
            if together and len(last) == len(row_) == 1:
                (least, first), (most, second) = last[0], row_[0]
                if first.can_join(second) and _follows(least, most, equal=first.outcome == second.outcome):
                    plane[-1] = ((before[0], cores[1]), [((least[0], most[1]), first.joined(second))])
                    continue
            elif _rows_alike(last, row_):
                plane[-1] = ((before[0], cores[1]), _rows_joined(last, row_))
                continue
        plane.append((cores, row_))
    return plane


def runs(
    counts: Sequence[int],
    most: int,
    at: Callable[[int], Plane],
    alike: Callable[[int, int], bool],
    legal: Numbers | None = None,
) -> list[tuple[int, int, Plane]]:
    """Return ranges of counts of devices that share one plane.

    Bounds are monotonic in the count: planes that are alike at both ends of a range are alike in between.

    Args:
        counts: the counts at which rules may change, from 1, in order.
        most: the greatest count.
        at: returns the plane of a count.
        alike: returns whether the target has the same boundaries for two counts; those of the source need not be equal.
        legal: the counts that the source can have; None: all.
    """
    legal = legal or _ALL
    found: list[tuple[int, int, Plane]] = []
    for low, high in pairwise([*counts, most + 1]):
        for first, last, plane in (*_split(low, low, at, alike, legal), *_split(low + 1, high - 1, at, alike, legal)):
            before = found[-1] if found and _next(found[-1][1], first, legal) else None
            merged = None if before is None else joined(before[2], plane, hull=alike(before[0], last))
            if before is not None and merged is not None:
                found[-1] = (before[0], last, merged)
            elif plane:
                found.append((first, last, plane))
    return found


def _split(
    low: int, high: int, at: Callable[[int], Plane], alike: Callable[[int, int], bool], legal: Numbers
) -> Iterator[tuple[int, int, Plane]]:
    first, last = legal.ceil(low), legal.floor(high)
    if first is None or last is None or first > last:
        return
    low, high = int(first), int(last)
    merged = joined(at(low), at(high), hull=alike(low, high))
    if merged is not None:
        yield low, high, merged
    else:
        middle = (low + high) // 2
        yield from _split(low, middle, at, alike, legal)
        yield from _split(middle + 1, high, at, alike, legal)


def _next(last: int, first: int, legal: Numbers) -> bool:
    """Return whether a count follows another one without a gap, or by the step of a span."""
    return legal.ceil(last + 1) == first and (
        last + 1 == first or any(last in span and first in span for span in legal.spans)
    )


def joined(plane: Plane, other: Plane, *, hull: bool) -> Plane | None:
    """Join the planes of two counts of devices if both can be shown as one; else return None.

    Args:
        plane: one plane.
        other: the other, for the same source and target.
        hull: bounds may differ, because only the source sets them, and it has no requests beyond them.
    """
    if len(plane) != len(other):
        return None
    found: Plane = []
    for (cores, row), (cores_, row_) in zip(plane, other, strict=True):
        both = _span(cores, cores_, hull=hull)
        if both is None or len(row) != len(row_) or (found and not _apart(found[-1][0], both)):
            return None
        joint: Row = []
        for (memory, verdict), (memory_, verdict_) in zip(row, row_, strict=True):
            span = _span(memory, memory_, hull=hull)
            if span is None or not verdict.can_join(verdict_) or (joint and not _apart(joint[-1][0], span)):
                return None
            joint.append((span, verdict.joined(verdict_)))
        found.append((both, joint))
    return found


def _span(amounts: Amounts, other: Amounts, *, hull: bool) -> Amounts | None:
    """Join two ranges of the same kind; None if they cannot be joined."""
    if amounts == other or not hull or [*map(kind_of, amounts)] != [*map(kind_of, other)]:
        return amounts if amounts == other else None
    return min(amounts[0], other[0], key=place_of), max(amounts[1], other[1], key=place_of)


def _apart(before: Amounts, after: Amounts) -> bool:
    """Return whether two ranges do not overlap; they do where a row starts again for another form."""
    return kind_of(before[0]) != kind_of(after[0]) or place_of(before[1]) < place_of(after[0])


def _row(verdicts: dict[Amounts, Verdict]) -> Row:
    row: Row = []
    for memory in sorted(verdicts, key=_corner):
        verdict = verdicts[memory]
        if row:
            before, last = row[-1]
            if last.can_join(verdict) and _follows(before, memory, equal=last.outcome == verdict.outcome):
                row[-1] = ((before[0], max(before[1], memory[1], key=place_of)), last.joined(verdict))
                continue
        row.append((memory, verdict))
    return row


def _corner(amounts: Amounts) -> tuple[tuple[int, Number], tuple[int, Number]]:
    return place_of(amounts[0]), place_of(amounts[1])


def _outcomes(row: Row) -> list[Rendering]:
    return [verdict.outcome for _, verdict in row]


def _follows(before: Amounts, amounts: Amounts, *, equal: bool) -> bool:
    """Return whether two ranges can be joined: a whole device joins parts of one only if all have the same outcome."""
    if type(before[1]) is not type(amounts[0]) or UNLIMITED in amounts:
        return False
    return equal or ALL not in {before[1], *amounts}


def _rows_alike(row: Row, other: Row) -> bool:
    return [memory for memory, _ in row] == [memory for memory, _ in other] and all(
        verdict.can_join(verdict_) for (_, verdict), (_, verdict_) in zip(row, other, strict=True)
    )


def _rows_joined(row: Row, other: Row) -> Row:
    return [(memory, verdict.joined(verdict_)) for (memory, verdict), (_, verdict_) in zip(row, other, strict=True)]
