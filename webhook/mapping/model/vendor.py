"""A vendor, compiled from its document into immutable values: what reading, writing and the admission steps look at."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webhook.mapping.document.key_template import Template
from webhook.mapping.document.schema import Mapping as Document
from webhook.mapping.document.schema import Place
from webhook.mapping.notation.numbers import Numbers
from webhook.quantity import Number
from webhook.request import Cores, Dimension, Memory, Request

if TYPE_CHECKING:
    from webhook.mapping.model.guard import Guards
    from webhook.mapping.model.owned import Owned
    from webhook.mapping.model.shim import Shim

BUILT_IN: Final = "built-in"
"""The source of documents that are part of the package."""

WordPlace: TypeAlias = Literal["resource", "label", "annotation", "nodeSelector"]
WordKind: TypeAlias = Literal["amount", "other", "text", "container"]


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that a pod can carry, with its unit.

    Attributes:
        place: where it stands; a nodeSelector is read only.
        spellings: its keys; the first is written.
        kind: ``amount`` has `dimensions`; ``other`` is carried, ``text`` is asked in forms, ``container`` names who asks.
        unit: what 1 of it is: bytes where `sized`, else percent of a device (for devices 1); None where it is to be
            configured.
        total: the number is over all devices.
        values: legal numbers per device.
        step: what is written is a multiple of this.
        rounding: what the vendor does with other numbers; None: it refuses them.
        listed: one entry for each container, by position.
        retired: why current versions of the system no longer read it.
        ceiling: the key of which it allows more than that requests, and what 1 of it is here.
        perhaps: unknown resource names that may be this word: beside one, no default is filled in for it.
    """

    name: str
    place: WordPlace
    spellings: tuple[Template, ...]
    kind: WordKind
    dimensions: tuple[Dimension, ...] = ()
    unit: Number | None = 1
    sized: bool = False
    total: bool = False
    values: Numbers | None = None
    step: Number = 1
    rounding: Literal["up", "down"] | None = None
    written: Literal["integer", "decimal", "quantity"] = "integer"
    listed: bool = False
    twin: Template | None = None
    picks: str | None = None
    ceiling: tuple[str, Number] | None = None
    perhaps: re.Pattern[str] | None = None
    absent: Literal["first", "only"] | None = None
    why: str | None = None
    retired: str | None = None
    per_container: bool = False
    variables: frozenset[str] = frozenset()

    @property
    def templates(self) -> tuple[Template, ...]:
        """All its keys: the spellings, and the twin."""
        return self.spellings if self.twin is None else (*self.spellings, self.twin)

    @property
    def asks(self) -> bool:
        """A container that carries it asks for a GPU (counts in labels or annotations of the pod never do by themselves)."""
        if self.kind == "text":
            return self.picks is not None and self.per_container
        return self.kind == "amount" and (self.place == "resource" or self.per_container)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a form asks of a key (or of all keys of a dimension)."""

    keys: tuple[str, ...]
    absent: bool = False
    present: bool = False
    numbers: Numbers | None = None
    texts: frozenset[str] = frozenset()

    def takes_several(self, key: Key) -> bool:
        """Whether it is a condition on the key that holds for numbers above 1 and not for its absence."""
        several = self.present or (self.numbers is not None and 2 in self.numbers)  # noqa: PLR2004
        return key.name in self.keys and not self.absent and several


@dataclass(frozen=True, slots=True)
class Derived:
    """A count of devices that another key implies: its number over `per`."""

    key: str
    per: int
    rounding: Literal["up", "down"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """One way in which keys make a request, one that the vendor refuses (`deny`), or one that is left alone (`leave`).

    Attributes:
        when: all must hold, on numbers as written.
        devices, memory, cores: what the form itself says; keys of that dimension are then ignored.
        absent: what a missing dimension means.
        words: the mapping's keys as they are read in this form.
        own_values: those for which the form itself says the legal numbers; a row's do not count for them.
    """

    name: str
    when: tuple[Condition, ...]
    deny: str | None
    leave: str | None
    devices: int | Derived | None
    memory: Memory | None
    cores: Cores | None
    absent: Request
    keys: Mapping[str, Key]
    own_values: frozenset[str]
    write: bool

    @property
    def reads(self) -> bool:
        """Whether it makes a request: it neither denies nor leaves alone."""
        return self.deny is None and self.leave is None

    def literal(self, dimension: Dimension) -> bool:
        """Whether the form itself says this dimension."""
        return getattr(self, dimension) is not None

    def values(self, key: Key, row: "Row | None") -> Numbers | None:
        """The legal numbers of a key in this form, for the name that a row describes."""
        if row is None or key.name in self.own_values:
            return key.values
        numbers = row.values.get(key.name, key.values)
        return numbers.get(self.name, key.values) if isinstance(numbers, Mapping) else numbers


@dataclass(frozen=True, slots=True)
class Row:
    """What one device of a name holds, where the name says the size.

    Attributes:
        least, least_cores: what writing may count on.
        values: legal numbers of keys, or by form those that are legal there.
        all: numbers of keys that are all of such a device.
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
    """A variable part of names, and what the names hold.

    Attributes:
        rows: by name, those that the cluster's models of devices have.
        write: what may be written.
        everywhere: it stands in no key: what `write` names is what every device holds.
        why: what the user is to find out, where `write` has to be configured.
        models: the models of the cluster's devices; empty where it does not say.
        elsewhere: names that none of these models has, with the models that have them.
    """

    name: str
    rows: Mapping[str, Row]
    write: tuple[str, ...]
    everywhere: bool = False
    why: str | None = None
    models: tuple[str, ...] = ()
    elsewhere: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Default:
    """What is filled in for a dimension, and who says so (``mapping`` or ``namespace``)."""

    value: int | Memory
    origin: Literal["mapping", "namespace"]

    def named(self, dimension: Dimension) -> str:
        """The default, as messages name it."""
        return f"the {self.origin}'s default-{dimension}: {self.value}"


@dataclass(frozen=True, slots=True)
class LetsThrough:
    """The names by which a pod is let through to the webhook; ``*`` stands for anything.

    Attributes:
        prefixes: of resource names.
        resources: the keys that are resources.
        keys: the keys that are labels or annotations, and marks of the scheduler.
    """

    prefixes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Vendor:
    """A vendor in force; the attributes are those of the document, compiled.

    Attributes:
        source: where the document came from.
        by_dimension: the keys of each dimension, in the order of the document.
        annotation_words: the vendor has no resource words: labels and annotations ask.
        lets_through: the names by which a pod comes here.
        standby: it owns no name; it can be a target where the owner of its names reads them alike.
    """

    name: str
    family: str
    document: Document
    source: str
    keys: Mapping[str, Key]
    variables: Mapping[str, NamePart]
    forms: tuple[Form, ...]
    by_dimension: Mapping[Dimension, tuple[str, ...]]
    annotation_words: bool
    defaults: Mapping[Dimension, Default]
    translate_to: str | None
    drop: tuple[Dimension, ...]
    containers: Literal["any", "one", "equal", "shared"]
    together: bool
    serves_init: bool
    inactive: bool
    target: bool
    place: Place
    shim: "Shim | None"
    guard: "Guards"
    owned: "Owned"
    privileged_allowed: bool
    refuses_init: bool = False
    copies: str | None = None
    owned_by: tuple[str, ...] = ()
    lets_through: LetsThrough = LetsThrough()
    overridden: frozenset[tuple[str | int, ...]] = field(default=frozenset())

    def says(self, dimension: Dimension) -> bool:
        """Whether it has a key for the dimension, or a form that derives it."""
        return bool(self.by_dimension[dimension]) or (
            dimension == "devices" and any(isinstance(form.devices, Derived) for form in self.forms)
        )

    def counts_parts(self, key: Key) -> bool:
        """Whether a number of the key counts parts of one device: each form that it leads to says how many devices itself."""
        if "devices" not in key.dimensions:
            return False
        led = [form for form in self.forms if form.reads and any(one.takes_several(key) for one in form.when)]
        return bool(led) and all(isinstance(form.devices, int) for form in led)

    def same_family(self, other: "Vendor") -> bool:
        """Whether both are keys for the same hardware."""
        return self.family == other.family or "any" in {self.family, other.family}
