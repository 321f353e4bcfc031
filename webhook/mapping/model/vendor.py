"""A vendor, compiled from its document into immutable values, for reading, writing and the admission steps.

First what it consists of: names with variable parts (``iluvatar.ai/{chip}-vgpu``), keys that only its scheduler may write.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webhook.mapping.document.problem import FieldPath, Problems
from webhook.mapping.document.schema import Claim, OwnedLabel, Place, Variable
from webhook.mapping.document.schema import Form as DocumentForm
from webhook.mapping.document.schema import Key as DocumentKey
from webhook.mapping.document.schema import Mapping as Document
from webhook.mapping.notation import Expression, NameSet, Numbers, PatternError, expression, literal
from webhook.quantity import Number
from webhook.request import DIMENSIONS, Cores, Dimension, Memory, Request

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_LITERAL: Final = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Owned:
    """The marks that a vendor's scheduler writes, and the hints that users write for it.

    Attributes:
        annotations: allocation marks: a copied one breaks placement, a forged one takes devices of others.
        labels: the same, as labels.
        hints: annotations that only this scheduler reads; a mark is never a hint.
        belongs: names that this system alone knows, and ``key=value`` of its nodes: reported if a translated pod keeps one.
    """

    annotations: NameSet = field(default_factory=NameSet)
    labels: NameSet = field(default_factory=NameSet)
    hints: NameSet = field(default_factory=NameSet)
    belongs: NameSet = field(default_factory=NameSet)

    def hint(self, key: str) -> bool:
        """Return whether an annotation is a hint, which is lost when the pod is translated to another vendor."""
        return key in self.hints and key not in self.annotations

    def knows(self, name: str) -> bool:
        """Return whether a name belongs to the system; ``key=value`` only as it is written, for patterns are of keys."""
        return name in self.belongs.exact or ("=" not in name and name in self.belongs)


def union(sets: Iterable[Owned]) -> Owned:
    """The union of several sets of marks, hints and belongings."""
    groups = zip(*((owned.annotations, owned.labels, owned.hints, owned.belongs) for owned in sets), strict=True)
    return Owned(*(reduce(or_, group, NameSet()) for group in groups))


def compile_owned(
    owned: Sequence[str | OwnedLabel],
    hints: Sequence[str],
    variables: Mapping[str, Variable],
    belongs: Sequence[str],
    problems: Problems,
) -> Owned:
    """Compile the owned keys, hints and belongings of a document; the result is usable only without problems.

    Args:
        owned: annotation patterns and ``{label: pattern}``; ``*`` stands for anything, ``{variable}`` for its values.
        hints: annotation patterns, likewise.
        variables: the document's variables.
        belongs: patterns of names, and ``key=value``.
        problems: collects problems.
    """
    groups: tuple[dict[FieldPath, str], ...] = (
        {("owned", i): entry for i, entry in enumerate(owned) if isinstance(entry, str)},
        {("owned", i, "label"): entry.label for i, entry in enumerate(owned) if not isinstance(entry, str)},
        {("hints", i): entry for i, entry in enumerate(hints)},
        {("belongs", i): entry for i, entry in enumerate(belongs)},
    )
    return Owned(*(_keys(group, variables, problems) for group in groups))


def _keys(keys: Mapping[FieldPath, str], variables: Mapping[str, Variable], problems: Problems) -> NameSet:
    """Compile keys, which are by their path; add what is wrong with them to `problems`."""
    names: list[str] = []
    expressions: list[Expression] = []
    for path, key in keys.items():
        unknown = [name for name in _VARIABLE.findall(key) if name not in variables]
        for name in unknown:
            hint = "add it under `variables`, or write `*`"
            problems.add(path, f"the variable {{{name}}} is not defined", hint)
        if _LITERAL.search(_VARIABLE.sub("", key)) is None:
            problems.add(path, f"{key!r} matches every key", "write a part of the key itself")
        if unknown:
            continue
        if "{" in key:
            try:
                expressions.append(expression(_expression(key, variables)))
            except PatternError as error:
                problems.add(path, f"a variable's pattern cannot be read: {error}")
        else:
            names.append(key)
    return NameSet.of(names, expressions)


def _expression(key: str, variables: Mapping[str, Variable]) -> str:
    """An expression for a key, with the values of its variables, and ``.*`` for a star."""
    parts = _VARIABLE.split(key)
    return "".join(
        f"(?:{_values(variables[part])})" if index % 2 else ".*".join(map(literal, re.split(r"\*+", part)))
        for index, part in enumerate(parts)
    )


def _values(variable: Variable) -> str:
    listed = variable.values if isinstance(variable.values, list) else []
    patterns = [variable.values if isinstance(variable.values, str) else None, variable.others]
    literals = [literal(value) for value in (*listed, *(variable.rows or ()))]
    return "|".join([*literals, *(f"(?:{pattern})" for pattern in patterns if pattern is not None)])


CONTAINER: Final = "container"
"""The built-in variable: the name of a container of the pod."""

_CONTAINER_NAME: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_PART: Final = re.compile(r"\{([a-z][a-z0-9-]*)\}")

Binding = tuple[tuple[str, str], ...]
"""The values of the variables of a name, in the order of the name."""


@dataclass(frozen=True)
class Template:
    """A name whose variable parts are written ``{variable}``."""

    text: str

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The variables, in order."""
        return tuple(_PART.findall(self.text))

    def render(self, binding: Mapping[str, str]) -> str | None:
        """Return the name with the values of a binding, or None if the binding lacks one."""
        if not self.variables:
            return self.text
        if any(name not in binding for name in self.variables):
            return None
        return _PART.sub(lambda match: binding[match[1]], self.text)

    def count(self, variables: Mapping[str, Variable]) -> int:
        """Return the number of names that `names` yields."""
        return math.prod(len(_listed(variables.get(name))) for name in self.variables)

    def names(self, variables: Mapping[str, Variable]) -> Iterator[tuple[str, Binding]]:
        """Yield every name that can be listed, with its binding; none if a variable is a pattern or a container."""
        choices = [_listed(variables.get(name)) for name in self.variables]
        parts = _PART.split(self.text)
        for values in itertools.product(*choices):
            parts[1::2] = values
            yield "".join(parts), tuple(zip(self.variables, values, strict=True))

    def pattern(self, variables: Mapping[str, Variable]) -> str | None:
        """Return an expression with a group for each variable, or None if all names can be listed."""
        if not self.variables:
            return None
        parts: list[str] = []
        open_ended = False
        for index, part in enumerate(_PART.split(self.text)):
            if index % 2 == 0:
                parts.append(literal(part))
                continue
            pattern = _pattern(part, variables.get(part))
            open_ended = open_ended or pattern is not None
            listed = "|".join(map(literal, _listed(variables.get(part))))
            parts.append(f"(?P<{part.replace('-', '_')}>{pattern or listed})")
        return "".join(parts) if open_ended else None


def _listed(variable: Variable | None) -> list[str]:
    if variable is None:
        return []
    listed = variable.values if isinstance(variable.values, list) else []
    return [*listed, *(variable.rows or {})]


def _pattern(name: str, variable: Variable | None) -> str | None:
    if name == CONTAINER:
        return _CONTAINER_NAME
    if variable is None:
        return None
    patterns = [variable.others] if variable.others is not None else []
    if isinstance(variable.values, str):
        patterns.append(variable.values)
    return "|".join(f"(?:{pattern})" for pattern in patterns) or None


if TYPE_CHECKING:
    from webhook.mapping.model.guard import Guards
    from webhook.mapping.model.shim import Shim

BUILT_IN: Final = "built-in"
"""The source of documents in the package."""

KeyPlace: TypeAlias = Literal["resource", "label", "annotation", "nodeSelector", "claim", "borrowed"]
KeyKind: TypeAlias = Literal["amount", "other", "text", "container"]

COUNT: Final = "count"
"""What a key with `claim` calls the number of devices; any other name is that of a capacity."""


@dataclass(frozen=True, slots=True)
class Key:
    """A resource name, label, annotation, node selector or part of a claim that carries a part of a request, with its unit.

    A borrowed one is a resource name of another vendor.

    Attributes:
        document: the key in the document, for what is not compiled.
        place: the kind of name; node selectors and borrowed names are never written.
        spellings: the names; the first is written.
        kind: ``amount`` has `dimensions`; ``other`` and ``text`` are compared in forms; ``container`` names the container
            that requests.
        unit: the worth of 1: bytes if `sized`, else percent of a device (1 for devices); None: not configured.
        total: the number is over all devices.
        values: legal numbers per device.
        texts: legal texts of a text key; none: any.
        zero: what 0 means beside amounts of the vendor: ``none``, no device, ``unset``, as if it were left out, or ``number``,
            as any other; None: always the latter.
        step: written numbers are multiples of this.
        rounding: how the vendor rounds other numbers; None: it denies them.
        listed: the value has one entry for each container, by position.
        twin: a second name: either is read, both are written.
        ceiling: another key, of which this one allows more than is requested, and the worth of 1 of that key here.
        plain: those of the spellings that the maker's own device plugin serves as whole devices, without this vendor.
        other_names: unknown resource names that may mean this key: beside one, no default is filled in for it.
        per_container: the name contains the name of a container.
        variables: the variables of the name, except the container.
        makes_request: it makes a container request a GPU. Counts in labels or annotations of the pod do not by themselves.
    """

    name: str
    document: DocumentKey
    place: KeyPlace
    spellings: tuple[Template, ...]
    kind: KeyKind
    dimensions: tuple[Dimension, ...]
    unit: Number | None
    sized: bool
    total: bool
    values: Numbers | None
    texts: tuple[str, ...]
    zero: Literal["none", "unset", "number"] | None
    step: Number
    rounding: Literal["up", "down"] | None
    written: Literal["integer", "decimal", "quantity", "items"]
    listed: bool
    twin: Template | None
    ceiling: tuple[str, Number] | None
    plain: tuple[Template, ...]
    other_names: re.Pattern[str] | None
    per_container: bool
    variables: frozenset[str]
    makes_request: bool = field(init=False)

    def __post_init__(self) -> None:
        if self.kind == "text":
            makes_request = self.document.row_of is not None and self.per_container
        else:
            makes_request = self.kind == "amount" and (self.of_container or self.per_container)
        object.__setattr__(self, "makes_request", makes_request)

    @property
    def of_container(self) -> bool:
        """Whether it is part of one container: of its resources, or of a claim of its own."""
        return self.place in {"resource", "claim", "borrowed"}

    @property
    def capacity(self) -> bool:
        """Whether it is the capacity of a claim, that its driver counts."""
        return self.document.claim not in {None, COUNT} and self.kind == "amount" and self.document.counted

    @property
    def templates(self) -> tuple[Template, ...]:
        """All names: the spellings, and the twin."""
        return self.spellings if self.twin is None else (*self.spellings, self.twin)

    def spelled(self, binding: Mapping[str, str]) -> str:
        """Return the first spelling with the variables that the other keys of a container bind, else the first one."""
        first = self.spellings[0]
        if not self.variables and not first.variables:  # most of them
            return first.text
        bound = self.variables.intersection(binding)
        for template in self.spellings:
            if bound.issubset(template.variables) and (name := template.render(binding)) is not None:
                return name
        return first.render(binding) or first.text


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a form on a key, or on all keys of a dimension."""

    keys: tuple[str, ...]
    absent: bool
    present: bool
    numbers: Numbers | None = None
    texts: tuple[str, ...] = ()

    @property
    def only_absent(self) -> bool:
        """Whether it holds only without the key."""
        return self.absent and not self.present and self.numbers is None and not self.texts

    def takes_several(self, key: Key) -> bool:
        """Return whether the condition holds for numbers of the key above 1, but not without the key."""
        several = self.present or (self.numbers is not None and 2 in self.numbers)  # noqa: PLR2004
        return key.name in self.keys and not self.absent and several


@dataclass(frozen=True, slots=True)
class Derived:
    """A count of devices that another key implies: its number divided by `per`."""

    key: str
    per: int
    rounding: Literal["up", "down"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A combination of keys that makes a request, that the vendor denies (`deny`), or that is left unchanged (`leave`).

    Attributes:
        when: conditions on the numbers in the pod; all must hold.
        document: the form in the document, for what is not compiled.
        devices, memory, cores: the values of the form itself; keys of that dimension are then ignored.
        absent: the meaning of a missing dimension.
        keys: the keys of the mapping, with the changes of this form.
        own_values: keys whose legal numbers the form defines; those of a row do not apply to them.
        reads: it makes a request, and neither denies nor leaves unchanged.
        needed: keys that a condition of their own requires.
        written: by dimension, the keys that may be written in this form, those needed first.
        literals: the dimensions that the form itself defines.
    """

    name: str
    when: tuple[Condition, ...]
    document: DocumentForm
    devices: int | Derived | None
    memory: Memory | None
    cores: Cores | None
    absent: Request
    keys: Mapping[str, Key]
    own_values: frozenset[str]
    reads: bool = field(init=False)
    needed: frozenset[str] = field(init=False)
    written: Mapping[Dimension, tuple[Key, ...]] = field(init=False)
    literals: frozenset[Dimension] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", self.document.deny is None and self.document.leave is None)
        needed = {when.keys[0] for when in self.when if not when.absent and len(when.keys) == 1}
        forbidden = {key for when in self.when if when.only_absent for key in when.keys}
        able = sorted(
            (
                key
                for key in self.keys.values()
                if key.name not in forbidden and key.place != "borrowed" and key.written != "items"
            ),
            key=lambda key: key.name not in needed,
        )
        written = {dimension: tuple(key for key in able if dimension in key.dimensions) for dimension in DIMENSIONS}
        object.__setattr__(self, "needed", frozenset(needed))
        object.__setattr__(self, "written", written)
        literals = frozenset(dimension for dimension in DIMENSIONS if getattr(self, dimension) is not None)
        object.__setattr__(self, "literals", literals)

    def values(self, key: Key, row: "Row | None") -> Numbers | None:
        """Return the legal numbers of a key in this form, for a name with this row."""
        if row is None or key.name in self.own_values:
            return key.values
        numbers = row.values.get(key.name, key.values)
        return numbers.get(self.name, key.values) if isinstance(numbers, Mapping) else numbers


@dataclass(frozen=True, slots=True)
class Row:
    """The size of one device of a name, where the name implies it.

    Attributes:
        least, least_cores: the amounts that every such device has, for writing.
        values: legal numbers of keys, for all forms or by form.
        all: numbers of keys that mean a whole device.
    """

    memory: Memory | None
    least: Memory | None
    cores: Cores | None
    least_cores: Cores | None
    devices: int | None
    values: Mapping[str, Numbers | Mapping[str, Numbers]]
    all: Mapping[str, Numbers] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamePart:
    """A variable part of names, and the size of a device by its value.

    Attributes:
        rows: by value, for those that the models of the cluster have.
        write: the values that may be written.
        everywhere: the variable is in no name: every device has the size that `write` names.
        why: what the user has to find out, if `write` has to be configured.
        models: the models of the cluster's devices; empty if not configured.
        of_other_models: values that none of these models has, with the models that have them.
    """

    name: str
    rows: Mapping[str, Row]
    write: tuple[str, ...]
    everywhere: bool
    why: str | None
    models: tuple[str, ...]
    of_other_models: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a dimension, and its origin."""

    value: int | Memory
    origin: Literal["mapping", "namespace", "settings"]

    def named(self, dimension: Dimension) -> str:
        """Return the default as messages name it."""
        return f"the {self.origin}'s default-{dimension}: {self.value}"


@dataclass(frozen=True, slots=True)
class LetsThrough:
    """The names by which match conditions send a pod to the webhook; ``*`` matches any text.

    Attributes:
        prefixes: prefixes of resource names.
        resources: resource names.
        keys: labels, annotations and marks of the scheduler.
    """

    prefixes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Vendor:
    """A compiled vendor; the attributes are the compiled parts of its document.

    Attributes:
        source: the source of the document.
        by_dimension: the keys of each dimension, in the order of the document.
        annotation_keys: the vendor has no resource names of its own: labels and annotations request.
        lets_through: the names by which match conditions send a pod to the webhook.
        inactive: it owns no name, but can be a target if the active vendor for its names reads them alike.
        system: the system whose scheduler and device plugin serve the keys, for messages; the vendor if it is not known.
        claim: its requests are written as resource claims; None: as keys of pods.
        unreported: its keys that no node reports.
        borrowed: the keys that are resource names of other vendors, by these.
        expressed: the dimensions for which it has a key, a form that derives them, or names that stand for an amount.
    """

    name: str
    family: str
    document: Document
    source: str
    keys: Mapping[str, Key]
    variables: Mapping[str, NamePart]
    forms: tuple[Form, ...]
    by_dimension: Mapping[Dimension, tuple[str, ...]]
    annotation_keys: bool
    defaults: Mapping[Dimension, Default]
    inactive: bool
    target: bool
    place: Place
    shim: "Shim | None"
    guard: "Guards"
    owned: "Owned"
    lets_through: LetsThrough
    claim: Claim | None
    overridden: frozenset[tuple[str | int, ...]]
    expressed: frozenset[Dimension] = field(init=False)
    unreported: frozenset[str] = field(init=False)
    borrowed: Mapping[str, Key] = field(init=False)
    system: str = field(init=False)

    def __post_init__(self) -> None:
        expressed: set[Dimension] = {dimension for dimension, keys in self.by_dimension.items() if keys}
        if any(isinstance(form.devices, Derived) for form in self.forms):
            expressed.add("devices")
        for row in (row for variable in self.variables.values() for row in variable.rows.values()):
            expressed.update({"memory"} if row.memory is not None else ())
            expressed.update({"cores"} if row.cores is not None else ())
        object.__setattr__(self, "expressed", frozenset(expressed))
        unreported = frozenset(name for name, key in self.keys.items() if key.document.unreported is not None)
        object.__setattr__(self, "unreported", unreported)
        borrowed = {name.text: key for key in self.keys.values() if key.place == "borrowed" for name in key.spellings}
        object.__setattr__(self, "borrowed", borrowed)
        sources = self.document.sources
        object.__setattr__(self, "system", self.document.system or (sources[0].system if sources else self.name))

    @property
    def sizes(self) -> bool:
        """Whether its keys can request memory or cores, and not only devices."""
        return not self.expressed.isdisjoint({"memory", "cores"})

    def counts_parts(self, key: Key) -> bool:
        """Return whether a number of the key counts parts of one device: forms with several of it define the devices."""
        if "devices" not in key.dimensions:
            return False
        several = [form for form in self.forms if form.reads and any(when.takes_several(key) for when in form.when)]
        return bool(several) and all(isinstance(form.devices, int) for form in several)

    def same_family(self, other: "Vendor") -> bool:
        """Return whether both vendors are for the same hardware."""
        return self.family == other.family or "any" in {self.family, other.family}


def system_names(first: Vendor, second: Vendor) -> tuple[str, str]:
    """Return how a message names the systems of two vendors; if they have the same one, the vendors themselves."""
    return (first.name, second.name) if first.system == second.system else (first.system, second.system)
