"""What a denial tells people to write, as pods in which they have written it: in these words, at most two numbers at once."""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from webhook.mapping.model.policy import Policy
from webhook.reasons import Finding
from webhook.request import GIB, exact_text, simplest

Json = dict[str, Any]
Changes = dict[str, str | None]

_KEY: Final = r"([a-z][\w.-]*/[\w.-]*\w)"
_NUMBER: Final = r"(\d[\d.]*)"
_INSTEAD: Final = re.compile(rf"write {_KEY} instead of {_KEY}")
_INSTEAD_OF_IT: Final = re.compile(rf"write {_KEY} instead(?! of)")
_WITH: Final = re.compile(rf"write {_NUMBER}, with {_KEY} for a part")
_OTHER: Final = re.compile(rf"if memory was meant, write {_KEY}")
_PAIRS: Final = re.compile(
    rf"(?:write|add|or) (?:{_NUMBER}, with )?({_KEY}: {_NUMBER}(?: and {_KEY}: {_NUMBER})*)( alone)?"
)
_PAIR: Final = re.compile(rf"{_KEY}: {_NUMBER}")
_ADDED: Final = re.compile(rf"add {_KEY}(?! ?:| to)")
_OUT: Final = re.compile(rf"leave {_KEY}(?: and {_KEY})? out")
_MEANT: Final = re.compile(rf"did you mean {_KEY}\?")
_RANGE: Final = re.compile(rf"(?:write|accepts) {_NUMBER} to {_NUMBER}(?: by {_NUMBER})?( per device)?")
_ONE_OF: Final = re.compile(
    rf"(?:write|accepts) (?:at most )?({_NUMBER}(?:(?:, | or ){_NUMBER})*)( per device)?(?! Gi)"
)
_EXPLAINED: Final = re.compile(r" cannot express .*\): ")
"""Nothing can be written instead: then a message says why."""


class Advice(NamedTuple):
    """What a message tells people to write, and pods with it, of which one at least is to be accepted."""

    text: str
    pods: Sequence[Json]


def advised(pod: Json, denial: Finding, policy: Policy) -> Iterator[Advice]:
    """All that a denial tells people to write; what comes next, too, where it says so."""
    first, _, then = denial.message.partition("; even then, ")
    for advice in _Message(pod, denial.container, denial.field, first, policy).advice():
        if not then:
            yield advice
        for further in zip(
            *(_Message(each, denial.container, None, then, policy).advice() for each in advice.pods), strict=True
        ):
            pods = [changed for each in further for changed in each.pods]
            yield Advice(f"{advice.text}; {further[0].text}", pods)


class _Message:
    """A part of a message about a pod."""

    def __init__(self, pod: Json, container: str | None, field: str | None, text: str, policy: Policy) -> None:
        self._pod, self._container, self._text, self._policy = pod, container, text, policy
        named = field or text.partition(":")[0]  # a message begins with its key
        self._field = named.removeprefix("limits[").removeprefix("annotation ").removesuffix("]")
        self._read: list[tuple[int, int]] = []

    def advice(self) -> Iterator[Advice]:
        """What it tells people to write, each once: what is said first in more words goes first."""
        if _EXPLAINED.search(self._text):
            return
        patterns: dict[re.Pattern[str], Callable[[re.Match[str]], list[Changes]]] = {
            _INSTEAD: lambda match: [{match[2]: None, match[1]: self._amount(match[1])}],
            _INSTEAD_OF_IT: lambda match: [{self._field: None, match[1]: self._amount(match[1])}],
            _WITH: lambda match: [{self._field: match[1], match[2]: self._amount(match[2])}],
            _OTHER: lambda match: [{**dict.fromkeys(self._keys()), match[1]: self._amount(match[1])}],
            _PAIRS: self._pairs,
            _ADDED: lambda match: [{match[1]: self._amount(match[1])}],
            _OUT: lambda match: [dict.fromkeys(filter(None, match.groups()))],
            _MEANT: lambda match: [{match[1]: self._written(), self._field: None}],
            _RANGE: self._range,
        }
        for pattern, changes in patterns.items():
            for match in self._found(pattern):
                yield Advice(match[0], [self._with(each) for each in changes(match)])
        for match in self._found(_ONE_OF):
            pods = [self._with({self._field: self._total(each, match[4])}) for each in re.findall(_NUMBER, match[1])]
            if match[0].startswith("accepts"):
                yield Advice(match[0], pods)
            else:
                yield from (Advice(match[0], [pod]) for pod in pods)

    def _found(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for match in pattern.finditer(self._text):
            if not any(match.start() < end and start < match.end() for start, end in self._read):
                self._read.append(match.span())
                yield match

    def _pairs(self, match: re.Match[str]) -> list[Changes]:
        alone: Changes = dict.fromkeys(self._keys()) if match[0].endswith(" alone") else {}
        return [{**alone, **({self._field: match[1]} if match[1] else {}), **dict(_PAIR.findall(match[2]))}]

    def _range(self, match: re.Match[str]) -> list[Changes]:
        low, high = Fraction(match[1]), Fraction(match[2])
        step = Fraction(match[3] or 1)
        between = [low + (high - low) * part / 4 // step * step for part in range(1, 4)]
        return [
            {self._field: self._total(exact_text(simplest(number)), match[4])}
            for number in dict.fromkeys([low, *between, high])
        ]

    def _total(self, number: str, per_device: str | None) -> str:
        """A number over all devices, which a key of the pod counts."""
        metadata = self._pod["metadata"]
        counts = [
            int(text)
            for names, place in ((self._policy.labels, "labels"), (self._policy.annotations, "annotations"))
            for name, text in (metadata.get(place) or {}).items()
            for owner in names.owners(name)
            if "devices" in self._policy.vendors[owner.vendor].keys[owner.key_name].dimensions and text.isdecimal()
        ]
        return exact_text(simplest(Fraction(number) * counts[0])) if per_device and counts else number

    def _amount(self, name: str) -> str:
        """An amount for a key that is named without one: one device, 8 GiB of memory, half of the cores."""
        names = (self._policy.resources, self._policy.annotations)
        owners = [owner for each in names for owner in each.owners(name)]
        if not owners:
            return "1"
        key = self._policy.vendors[owners[0].vendor].keys[owners[0].key_name]
        if "devices" in key.dimensions:
            return "1"
        if key.written == "quantity":
            return "8Gi"
        whole = simplest(8 * GIB / Fraction(key.unit or 1)) if key.sized else simplest(50 / Fraction(key.unit or 1))
        return exact_text(whole)

    def _containers(self, pod: Json) -> list[Json]:
        every = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
        return [each for each in every if self._container in {None, each["name"]}]

    def _keys(self) -> list[str]:
        sides = [side for each in self._containers(self._pod) for side in (each.get("resources") or {}).values()]
        return [name for side in sides for name in side if self._policy.resources.owners(name)]

    def _written(self) -> str:
        """What stands in the field that the message is about."""
        sides = [side for each in self._containers(self._pod) for side in (each.get("resources") or {}).values()]
        metadata = self._pod["metadata"]
        places = [*sides, *(metadata.get(place) or {} for place in ("labels", "annotations"))]
        return next((str(each[self._field]) for each in places if self._field in each), "1")

    def _with(self, changes: Changes) -> Json:
        """The pod with other keys; None: without it."""
        pod = copy.deepcopy(self._pod)
        for key, text in changes.items():
            place = next((each for each in ("labels", "annotations") if key in (pod["metadata"].get(each) or {})), None)
            if place is None and self._policy.annotations.owners(key):
                place = "annotations"
            places = [pod["metadata"].setdefault(place, {})] if place else list(self._sides(pod))
            for each in places:
                each.pop(key, None)
                if text is not None:
                    each[key] = text
        return pod

    def _sides(self, pod: Json) -> Iterator[Json]:
        for container in self._containers(pod):
            resources = container.setdefault("resources", {})
            resources.setdefault("limits", {})
            yield from (side for side in resources.values() if isinstance(side, dict))


def followed(
    pod: Json, denial: Finding, policy: Policy, decided: Callable[[Json], Finding | None]
) -> Iterator[tuple[str, list[Finding]]]:
    """Each piece of advice of a denial, with why pods with it are denied: all of them; empty if one is accepted."""
    for advice in advised(pod, denial, policy):
        again = [decided(each) for each in advice.pods]
        yield advice.text, [] if None in again else [each for each in again if each is not None]
