"""The smallest case that still breaks the same rule: parts are taken away as long as it does."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tests.fuzz.generate import Case
from tests.fuzz.judge import judge
from tests.fuzz.misspelled import PREFIX

Path = tuple[str | int, ...]

NEVER_REMOVED = frozenset({f"{PREFIX}inject"})
KEPT = frozenset({"name", "apiVersion", "kind"})
NEEDED = frozenset({("metadata",), ("spec",), ("spec", "containers")})
"""What a pod has; it also has a container."""


def shrunk(case: Case, rule: str, vendor: str) -> Case:
    """A case from which nothing can be taken away.

    Args:
        case: one that breaks the rule.
        rule: of the finding.
        vendor: of the finding.
    """

    def breaks(other: Case, *, closely: bool) -> bool:
        try:
            return any((each.rule, each.vendor) == (rule, vendor) for each in judge(other, closely=closely)[1])
        except (KeyError, TypeError, AttributeError, IndexError):  # no pod that could be sent any more
            return False

    return _smallest(case, partial(breaks, closely=not breaks(case, closely=False)))


def _smallest(case: Case, breaks: Callable[[Case], bool]) -> Case:
    smaller = next((candidate for candidate in _candidates(case) if breaks(candidate)), None)
    while smaller is not None:
        case = smaller
        smaller = next((candidate for candidate in _candidates(case) if breaks(candidate)), None)
    return case


def _candidates(case: Case) -> Iterator[Case]:
    """The case with one part less, or one plainer, the largest parts first."""
    for setup in (0, 1):
        if setup < case.setup:
            yield replace(case, setup=setup)
    if case.user:
        yield replace(case, user="")
    for key in case.labels.keys() - NEVER_REMOVED:
        yield replace(case, labels={name: text for name, text in case.labels.items() if name != key})
    for key in case.annotations:
        yield replace(case, annotations={name: text for name, text in case.annotations.items() if name != key})
    for pod in _plainer(case.pod):
        yield replace(case, pod=pod)


def _plainer(pod: Any) -> Iterator[Any]:
    """A pod with one part less, the largest parts first, or with a smaller number."""
    parts = [(path, value) for path, value in _parts(pod) if path[-1] not in KEPT]
    for path, _ in sorted(parts, key=lambda part: len(part[0])):
        if path not in NEEDED and (path != ("spec", "containers", 0) or len(pod["spec"]["containers"]) > 1):
            yield _changed(pod, path, None)
    for path, value in parts:
        if isinstance(value, str) and value.isdecimal() and len(value) > 1:
            for smaller in ("1", str(int(value) // 2), str(int(value) - 1)):
                yield _changed(pod, path, smaller)


def _parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Everything in a pod, with where it is."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key), member
        yield from _parts(member, (*path, key))


def _changed(pod: Any, path: Path, value: str | None) -> Any:
    """The pod with another value, or without one."""
    changed = parent = copy.deepcopy(pod)
    for key in path[:-1]:
        parent = parent[key]
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return changed
