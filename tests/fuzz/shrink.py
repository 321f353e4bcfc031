"""The smallest case that still breaks the same rule: parts are taken away as long as it does."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tests.fuzz.generate import Case
from tests.fuzz.judge import judge
from tests.fuzz.misspelled import PREFIX

NEVER_REMOVED = frozenset({f"{PREFIX}inject"})


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
    for path in sorted(_paths(case.pod), key=len):
        yield replace(case, pod=_without(case.pod, path))
    for path, value in _leaves(case.pod):
        if isinstance(value, str) and value.isdecimal() and len(value) > 1 and path[-1] != "name":
            for plainer in ("1", str(int(value) // 2), str(int(value) - 1)):
                yield replace(case, pod=_with(case.pod, path, plainer))


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        if path == ("spec", "containers") and len(value) == 1:
            pass  # a pod has a container
        elif (*path, key) not in {("metadata",), ("spec",), ("spec", "containers")} and key not in {
            "name",
            "apiVersion",
            "kind",
        }:
            yield (*path, key)
        yield from _paths(member, (*path, key))


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        if isinstance(member, dict | list):
            yield from _leaves(member, (*path, key))
        else:
            yield (*path, key), member


def _without(pod: Any, path: tuple[str | int, ...]) -> Any:
    changed = copy.deepcopy(pod)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return changed


def _with(pod: Any, path: tuple[str | int, ...], value: str) -> Any:
    changed = copy.deepcopy(pod)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return changed
