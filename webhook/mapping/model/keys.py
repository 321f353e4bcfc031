"""The keys and forms of a vendor: names with variable parts, units, conditions; as documents have them, and compiled.

A name may have variable parts: ``iluvatar.ai/{chip}-vgpu``. What a model declares for type checkers alone is derived from its
fields, when all of a document is known: `compile_key` and its like return a copy with that.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from msgspec import Struct
from pydantic import Field

from webhook.mapping.document import Problems
from webhook.mapping.notation import Numbers, literal, parse_numbers
from webhook.mapping.strict import (
    FEW,
    MANY,
    MOST,
    SOME,
    AllTexts,
    CoresAmount,
    CoresRange,
    ExactNames,
    KeyText,
    LegalNumbers,
    Long,
    MemoryAmount,
    MemoryRange,
    NamePattern,
    Positive,
    Short,
    Strict,
    Texts,
    Unit,
    ValuePattern,
    WrittenNumbers,
    one_of,
    texts,
    told,
)
from webhook.request import DIMENSIONS, Cores, Dimension, Memory, Number, Request

CONTAINER: Final = "container"  # the built-in variable: the name of a container of the pod
COUNT: Final = "count"  # what a key with `claim` calls the number of devices; any other name is that of a capacity
PLACEHOLDER: Final = re.compile(r"\{([a-z0-9-]+)\}")
VALUES: Final = frozenset({"value", "below", "above"})
"""Placeholders of ``deny`` beside keys: the requested number, and the nearest ones that another form accepts."""

VARIABLE_NAME: Final = ("a name of a variable", "write letters, digits and `-`; `container` is that of a container")
_CONTAINER_NAME: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
VARIABLE: Final = re.compile(r"\{([^{}]*)\}")  # in a name
_ATTRIBUTE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
"""An attribute of a device, without the domain of its driver: ``k8s.io/api/resource/v1/types.go``, FullyQualifiedName."""

Binding: TypeAlias = tuple[tuple[str, str], ...]  # the values of the variables of a name, in the order of the name
KeyPlace: TypeAlias = Literal["resource", "label", "annotation", "nodeSelector", "claim", "borrowed"]


class Row(Strict):
    """What one device of a name contains, if the name determines it (MIG profiles, chips, custom profiles)."""

    sizes: MemoryRange | Annotated[dict[Short, MemoryRange], Field(min_length=1, max_length=FEW)] | None = told(
        "a size, `all`, or [least, most]; or a map from the model of the device to one of these", alias="memory"
    )
    shares: CoresRange | Annotated[dict[Short, CoresRange], Field(min_length=1, max_length=FEW)] | None = told(
        "percent of a device; or a map from the model of the device to percent", alias="cores"
    )
    devices: int | None = Field(None, ge=1, le=MOST)
    values: dict[Short, LegalNumbers | Annotated[dict[KeyText, LegalNumbers], Field(max_length=SOME)]] = told(
        "key → legal numbers for this name; or key → form → legal numbers in that form", {}, max_length=SOME
    )
    all: dict[Short, LegalNumbers] = told("key → numbers that mean all of a device of this name", {}, max_length=SOME)

    if TYPE_CHECKING:  # for the models of the cluster; the least is what every such device has, for writing
        memory: Memory | None
        least: Memory | None
        cores: Cores | None
        least_cores: Cores | None


class Variable(Strict):
    """A variable part of names, such as `{chip}` or `{profile}`."""

    values: Annotated[list[KeyText], Field(max_length=MANY)] | ValuePattern | None = told(
        "the possible values: a list, or one pattern; beside `rows` further ones, whose content is not known"
    )
    table: Annotated[dict[KeyText, Row], Field(max_length=MANY)] | None = told(
        "the possible values, and what a device of each name contains", alias="rows"
    )
    others: ValuePattern | None = told(
        "pattern of names that may exist: read, with a warning that no known device has them"
    )
    possible: ValuePattern | None = told("pattern of names that a configuration may add: these are no near misses")
    write: AllTexts = told("the values that may be written; if no key contains the variable, one: the row of all", ())
    models: AllTexts = told(
        "models of the cluster's devices, as in the rows; without it any model is possible", (), alias="model"
    )
    why: Long | None = told("why `write` has to be configured, if no key contains the variable")

    if TYPE_CHECKING:
        name: str
        rows: Mapping[str, Row]  # by value, for those that the models of the cluster have
        everywhere: bool  # the variable is in no name: every device has the size that `write` names
        of_other_models: Mapping[str, tuple[str, ...]]  # values that none of these has, with the models that have them

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """The possible values that can be listed."""
        return (*(self.values if isinstance(self.values, list) else ()), *(self.table or ()))

    @cached_property
    def pattern(self) -> str | None:
        """An expression for the others; None if there are none."""
        patterns = (self.others, self.values if isinstance(self.values, str) else None)
        return "|".join(f"(?:{pattern})" for pattern in patterns if pattern is not None) or None


Variables: TypeAlias = Mapping[str, Variable]


def of_pattern(pattern: str | None) -> Variable:
    """Return a variable that is in no document; without validation, for that needs a schema, which takes time to build."""
    model: Any = Variable
    variable: Variable = model.model_construct(values=pattern)
    return variable


_NONE: Final = of_pattern(None)
_CONTAINER: Final = of_pattern(_CONTAINER_NAME)


class Template(Struct, frozen=True, dict=True):
    """A name whose variable parts are written ``{variable}``."""

    text: str

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The variables, in order."""
        return tuple(VARIABLE.findall(self.text))

    def render(self, binding: Mapping[str, str]) -> str | None:
        """Return the name with the values of a binding, or None if the binding lacks one."""
        if not self.variables:
            return self.text
        if any(name not in binding for name in self.variables):
            return None
        return VARIABLE.sub(lambda match: binding[match[1]], self.text)

    @cached_property
    def glob(self) -> str:
        """The name with ``*``, which matches any text, in the place of each variable."""
        return VARIABLE.sub("*", self.text)

    def globs(self, variables: Variables) -> Iterator[str]:
        """Yield a name for each value of its variables, or once with ``*`` for those that cannot be listed."""
        yield from (name for name, _ in self.names(variables))
        if any(part.pattern for part in self._parts(variables)):
            yield self.glob

    def count(self, variables: Variables) -> int:
        """Return the number of names that `names` yields."""
        return math.prod(len(part.listed) for part in self._parts(variables))

    def names(self, variables: Variables) -> Iterator[tuple[str, Binding]]:
        """Yield every name that can be listed, with its binding; none if a variable is a pattern or a container."""
        parts = VARIABLE.split(self.text)
        for values in itertools.product(*(part.listed for part in self._parts(variables))):
            parts[1::2] = values
            yield "".join(parts), tuple(zip(self.variables, values, strict=True))

    def pattern(self, variables: Variables) -> str | None:
        """Return an expression with a group for each variable, or None if all names can be listed; ``*`` is any text."""
        values = self._parts(variables)
        if not any(part.pattern for part in values):
            return None
        parts = [".*".join(map(literal, re.split(r"\*+", part))) for part in VARIABLE.split(self.text)]
        parts[1::2] = [
            f"(?P<{name.replace('-', '_')}>{part.pattern or '|'.join(map(literal, part.listed))})"
            for name, part in zip(self.variables, values, strict=True)
        ]
        return "".join(parts)

    def _parts(self, variables: Variables) -> tuple[Variable, ...]:
        return tuple(_CONTAINER if name == CONTAINER else variables.get(name, _NONE) for name in self.variables)


class KeyRule(Strict):
    """How the numbers of a key are read; a form may override it."""

    worth: Unit | None = told(
        "what 1 means: bytes (`256Mi`) or `N%` of a device; null: has to be configured", alias="unit"
    )
    total: bool | None = told("the number is the total of all devices, not per device")
    legal: WrittenNumbers | None = told("legal numbers per device, or legal texts; 0: see `zero`", alias="values")
    step: Positive = told("written numbers are multiples of this; others may be read", 1)
    round: Literal["up", "down"] | None = told("how the vendor rounds other numbers; without it they are denied")


class Ceiling(Strict):
    """The key whose request another key may exceed."""

    of: Short = Field(description="the key with the request")
    per: Positive = told("the value here that corresponds to 1 of that key: `1Mi` for a key whose unit is 1Mi", 1)


class Key(KeyRule):
    """A key of a pod: exactly one of resource, label, annotation, nodeSelector and claim."""

    resource: Texts | None = told("resource name, or several spellings, of which the first is written")
    label: Texts | None = None
    annotation: Texts | None = None
    node_selector: Texts | None = told("key of the pod's nodeSelector, only read; `is` must be `text` or `other`")
    claim: Short | None = told(
        "in a mapping with `claim`: `count`, or the name of a capacity, as a resource claim requests it; with "
        "`is: text` that of an attribute of the driver",
        min_length=1,
    )
    borrows: ExactNames | None = told("another vendor's resource name, which means this beside keys of this one")
    in_pods: dict[Short, Long] = told("text key → text with which all containers mean this", {}, max_length=FEW)
    requests: list[Long] = told("of a text in an annotation: the texts that request by themselves", [], max_length=FEW)
    any_case: bool = told("of a text: capitals and spaces around it do not matter; blank: as if absent", default=False)
    unset: Annotated[int, Field(ge=0, le=MOST)] | None = told("of a capacity: what is written without a limit")
    omitted: Annotated[int, Field(ge=0, le=MOST)] | None = told("of a capacity: what a claim without it gets")
    counted: bool = told("false: a capacity that the driver lacks, and only the shim limits", default=True)
    selects: Literal["model", "uuid"] | None = told("of an attribute: for which annotations of `selects`")
    replace: dict[Short, Short] = told("of an attribute: parts that the driver spells otherwise", {}, max_length=FEW)
    of_zero: Literal["unset", "number"] | None = told(
        "what 0 means beside other amounts: `unset`, as if it were left out, or `number`, as any other; without "
        "it a count is no device, what `values` excludes is a number, and everything else is unset",
        alias="zero",
    )
    specifies: (
        Literal["devices", "memory", "cores", "other", "text", "container"]
        | Annotated[list[Dimension], Field(min_length=1, max_length=3)]
    ) = Field(alias="is", description="what it specifies")
    why: Long | None = told("with `unit: null`: why it has to be configured")
    note: Long | None = told("a sentence for people about what is easily misunderstood")
    differs: Long | None = told("where the unit depends on the cluster: a clause for denials about what to configure")
    retired: Long | None = told("current versions no longer read it: a sentence about that for the warning")
    unreported: Long | None = told(
        "what to write instead of a resource that no node reports: a request that keeps or gets it is denied"
    )
    written: Literal["integer", "decimal", "quantity", "items"] = told(
        "the spelling in a label or annotation; items: a list with commas of devices, which count", "integer"
    )
    listed: bool = told("a list with one entry for each container, by position", default=False, alias="list")
    request_key: KeyText | None = told("a second key, the request beside this limit; if they differ, no translation")
    ceiling: Ceiling | None = told("it allows more than another key requests; if they differ, no translation")
    row_of: Short | None = told("for a text key: the variable whose row it selects")
    plain_names: Texts | None = told(
        "names that the maker's own device plugin serves as whole devices, without this system", alias="plain"
    )
    other_names: NamePattern | None = told("pattern of unknown resource names that may stand for this one in a cluster")
    absent: Literal["first", "only"] | None = told("for a container key: the container that requests if it is missing")

    _place = one_of("resource", "label", "annotation", "node_selector", "claim", "borrows")

    if TYPE_CHECKING:
        name: str
        place: KeyPlace  # node selectors and borrowed names, resource names of other vendors, are never written
        spellings: tuple[Template, ...]  # the first is written
        twin: Template | None  # the `request_key`
        templates: tuple[Template, ...]  # the spellings, and the twin
        plain: tuple[Template, ...]  # those of the spellings that the maker's own plugin serves, without this system
        kind: Literal["amount", "other", "text", "container"]  # an amount has dimensions
        dimensions: tuple[Dimension, ...]
        unit: Number | None  # the worth of 1: bytes if `sized`, else percent of a device; None: not configured
        sized: bool
        values: Numbers | None  # legal numbers per device
        texts: tuple[str, ...]  # legal texts of a text key; none: any
        zero: Literal["none", "unset", "number"] | None  # none: no device; None: a number always
        variables: frozenset[str]  # of the names, except the container
        per_container: bool  # the name contains that of a container
        of_container: bool  # it is part of one container: of its resources, or of a claim of its own
        capacity: bool  # it is the capacity of a claim, that its driver counts

    @cached_property
    def makes_request(self) -> bool:
        """Whether it makes a container request a GPU; a count in a label or annotation of the pod does not."""
        if self.kind == "text":
            return self.per_container and self.row_of is not None
        return self.kind == "amount" and (self.of_container or self.per_container)

    @cached_property
    def only_name(self) -> str | None:
        """The name under which it is written whatever other keys bind; None for names with variables, which few keys have."""
        return None if self.variables or self.spellings[0].variables else self.spellings[0].text

    def spelled(self, binding: Mapping[str, str]) -> str:
        """Return the first spelling with the variables that the other keys of a container bind, else the first one."""
        if self.only_name is not None:
            return self.only_name
        first = self.spellings[0]
        bound = self.variables.intersection(binding)
        for template in self.spellings:
            if bound.issubset(template.variables) and (name := template.render(binding)) is not None:
                return name
        return first.render(binding) or first.text


class Derived(Strict):
    """A count of devices that another key implies."""

    key: Short
    per: int = Field(ge=1, le=MOST)
    round: Literal["up", "down"] | None = None


class Absent(Strict):
    """The meaning of a missing dimension."""

    devices: int | None = Field(None, ge=1, le=MOST)
    memory: MemoryAmount | None = told("`all`, `unlimited` or a size")
    cores: CoresAmount | None = told("`unlimited` or a percentage")


class Condition(Struct, frozen=True):
    """A condition of a form on a key, or on all keys of a dimension."""

    keys: tuple[str, ...]
    absent: bool
    present: bool
    numbers: Numbers | None = None
    texts: tuple[str, ...] = ()


class Form(Strict):
    """A combination of keys: a request, an invalid one (`deny`), or one that stays unchanged (`leave`)."""

    title: KeyText | None = told(alias="name")
    conditions: dict[Short, WrittenNumbers] = told(
        "key or dimension → `absent`, `present`, legal numbers, or text", {}, max_length=SOME, alias="when"
    )
    deny: Long | None = None
    leave: Long | None = told("a container with this form stays unchanged; the reason as a sentence")
    unlimited: Long | None = told("the vendor enforces no limit in this form: a sentence about that for the warning")
    isolated: bool = told("the hardware isolates it: by order alone it becomes a share", default=False)
    devices: Annotated[int, Field(ge=1, le=MOST)] | Derived | None = None
    memory: MemoryAmount | None = None
    cores: CoresAmount | None = None
    unset: Absent = told(default=Absent.model_construct(), alias="absent")
    rules: dict[Short, KeyRule] = told(default={}, max_length=SOME, alias="keys")
    write: bool = True

    if TYPE_CHECKING:
        name: str
        when: tuple[Condition, ...]  # on the numbers in the pod; all must hold
        absent: Request  # the meaning of a missing dimension
        compared: frozenset[str]  # the keys in conditions
        keys: Mapping[str, Key]  # those of the mapping, with the changes of this form
        reads: bool  # it makes a request, and neither denies nor leaves unchanged
        needed: frozenset[str]  # keys that a condition of their own requires
        written: Mapping[Dimension, tuple[Key, ...]]  # the keys that may be written in this form, those needed first
        literals: frozenset[Dimension]  # the dimensions that the form itself defines: their keys are ignored

    def values(self, key: Key, row: Row | None) -> Numbers | None:
        """Return the legal numbers of a key in this form, for a name with this row."""
        if row is None or (key.name in self.rules and "legal" in self.rules[key.name].model_fields_set):
            return key.values
        numbers = row.values.get(key.name, key.values)
        return numbers.get(self.name, key.values) if isinstance(numbers, Mapping) else numbers


def compile_key(name: str, key: Key, variables: Variables, problems: Problems, device_class: str | None) -> Key:
    """Compile a key, with its unit; `device_class` is that of the vendor's claims, if it has any."""
    named: dict[KeyPlace, Texts | None] = {
        "resource": key.resource,
        "label": key.label,
        "annotation": key.annotation,
        "nodeSelector": key.node_selector,
        "borrowed": key.borrows,
        "claim": key.claim and f"{device_class or ''}/{key.claim}",
    }
    place = next(place for place, names in named.items() if names is not None)
    spellings, twin = tuple(map(Template, texts(named[place]))), tuple(map(Template, texts(key.request_key)))
    check_variables(spellings, variables, problems.at(place))
    check_variables(twin, variables, problems.at("requestKey"))
    problems.when(name in DIMENSIONS, (), "a key may not have the name of a dimension", f"call it `{name}-key`")
    if key.row_of is not None:
        problems.unknown("rowOf", "variable", key.row_of, variables)
    names = {"name": name, "spellings": spellings, "twin": next(iter(twin), None), "templates": (*spellings, *twin)}
    compiled = key.model_copy(update=names | _meaning(key, place, spellings))
    unit, sized = _unit(key, compiled.dimensions, problems)
    _check_place(compiled, problems)
    if wrong := _wrong_with_claims(compiled, of_claims=device_class is not None):
        problems.add((), *wrong)
    values = None if compiled.kind == "text" else problems.parsed(("values",), key.legal, parse_numbers)
    zero = _zero(compiled, values, problems)
    return compiled.model_copy(update={"unit": unit, "sized": sized, "values": values, "zero": zero})


def _meaning(key: Key, place: KeyPlace, spellings: tuple[Template, ...]) -> dict[str, Any]:
    """What follows from the kind of a key, its place and its names."""
    written, used = key.specifies, {variable for template in spellings for variable in template.variables}
    kind = written if written in ("other", "text", "container") else "amount"
    return {
        "place": place,
        "kind": kind,
        "dimensions": tuple(written) if isinstance(written, list) else (written,) * (kind == "amount"),
        # An extension may have renamed the resource: then no plain device plugin serves it.
        "plain": tuple(Template(name) for name in texts(key.plain_names) if name in texts(key.resource)),
        "texts": _texts(key) if kind == "text" else (),
        "variables": frozenset(used - {CONTAINER}),
        "per_container": CONTAINER in used,
        "of_container": place in {"resource", "claim", "borrowed"},
        "capacity": (kind, key.counted) == ("amount", True) and key.claim not in {None, COUNT},
    }


def _texts(rule: KeyRule) -> tuple[str, ...]:
    listed = rule.legal if isinstance(rule.legal, list) else [] if rule.legal is None else [rule.legal]
    return tuple(map(str, listed))


def _zero(key: Key, values: Numbers | None, problems: Problems) -> Literal["none", "unset", "number"] | None:
    """What 0 means beside other amounts, by default: a count is none, what `values` excludes is a number, others are unset."""
    counts = "devices" in key.dimensions
    wrong = key.of_zero == "number" and (counts or key.kind != "amount")
    problems.when(wrong, "zero", "only a 0 of memory or cores can be a number", "write `unset`, or leave it out")
    if key.kind != "amount":
        return key.of_zero if key.kind == "other" else None
    if key.of_zero is not None or counts:
        return key.of_zero or "none"
    return "unset" if values is None or 0 in values else "number"


def _check_place(key: Key, problems: Problems) -> None:
    """Check what only keys in some place, and of some kind, have."""
    where = (key.place, key.kind)
    writes = (key.kind in {"text", "other"}, key.request_key, key.listed) != (True, None, False)
    hint = "write `is: text`, or `is: other` for a number"
    problems.when(key.place == "nodeSelector" and writes, (), "a key in the nodeSelector is read only", hint)
    message = "a container key needs `absent`: which container requests without it"
    hint = "write `absent: first` or `absent: only`"
    problems.when((key.kind, key.absent) == ("container", None), (), message, hint)
    requests = key.requests and where != ("annotation", "text")
    problems.when(requests, "requests", "only a text in an annotation requests by itself")
    cased = key.any_case and where not in {("label", "text"), ("annotation", "text")}
    problems.when(cased, "anyCase", "only a text in a label or annotation has capitals")
    if key.place != "borrowed":
        hint = "write `borrows` instead of `resource`"
        problems.when(key.in_pods, "inPods", "only a borrowed name has it", hint)
    elif key.kind != "amount":
        problems.add(("borrows",), "only an amount is borrowed")
    items = key.written == "items" and (key.place, key.dimensions) != ("annotation", ("devices",))
    problems.when(items, "written", "only an annotation with `is: devices` lists them")
    unreported = key.unreported is not None and key.place != "resource"
    problems.when(unreported, "unreported", "only a resource is reported by nodes")
    other = key.other_names is not None and (key.place, "devices" in key.dimensions) != ("resource", True)
    problems.when(other, "otherNames", "only a resource that counts devices may have another name")
    ceiling = key.ceiling is not None and where != ("annotation", "other")
    problems.when(ceiling, "ceiling", "only an annotation with `is: other` allows more than is requested")


def _wrong_with_claims(key: Key, *, of_claims: bool) -> tuple[str, str | None] | None:
    """What is wrong, and a hint: a mapping with a section `claim` has keys of claims only, each of one dimension."""
    attribute, capacity = of_claims and key.kind == "text", of_claims and key.specifies in ("memory", "cores")
    if (key.claim is not None) is not of_claims:
        return (
            "a mapping with `claim` has keys with `claim`, and no others",
            "move one of them to a document of its own",
        )
    if not of_claims and (key.unset, key.omitted) != (None, None):
        return "only a key with `claim` has `unset` and `omitted`", None
    if not any((key.counted, capacity)):
        return "only a capacity is not `counted`", None
    if any((key.replace, key.selects)) and not attribute:
        return "only an attribute has `replace` and `selects`", None
    return _wrong_in_claim(key, key.claim) if key.claim is not None else None


def _wrong_in_claim(key: Key, claim: str) -> tuple[str, str | None] | None:
    if key.kind == "text":
        if _ATTRIBUTE.fullmatch(claim) and (key.row_of is None) is not (key.selects is None):
            return None
        message = "a text in a claim is an attribute, whose value a row or an annotation names"
        return message, "write `rowOf: VARIABLE`, or `selects: model` or `uuid`"
    if len(key.dimensions) != 1 or (key.dimensions == ("devices",)) is not (claim == COUNT):
        return "a claim has a count of devices, and capacities: memory or cores", f"write `claim: {COUNT}, is: devices`"
    unknown = key.worth is None and "worth" in key.model_fields_set
    of_pod = any((key.total, key.listed, key.request_key, unknown))
    return ("a capacity is a number for each device, in a known unit", None) if of_pod else None


def check_variables(templates: Iterable[Template], variables: Collection[str], problems: Problems) -> None:
    """Report variables of a name that are not defined, or occur twice."""
    used: set[str] = set()
    for template in templates:
        used.update(template.variables)
        twice = len(set(template.variables)) < len(template.variables)
        problems.when(twice, (), f"{template.text} contains a variable twice")
        problems.when({"{", "}"}.intersection(template.glob), (), f"{template.text} contains a brace without another")
    for variable in sorted(used - {CONTAINER} - set(variables)):
        problems.add((), f"the variable {{{variable}}} is not defined", "add it under `variables`")


def _override(key: Key, rule: KeyRule | None, problems: Problems) -> Key:
    """Compile a key with the changes of one form, if it has any."""
    if rule is None:
        return key
    changes: dict[str, Any] = {name: getattr(rule, name) for name in rule.model_fields_set}
    if "worth" in changes:
        changes["unit"], changes["sized"] = _unit(rule, key.dimensions, problems)
    if "legal" in changes and key.kind == "text":
        changes["texts"] = _texts(rule)
    elif "legal" in changes:
        changes["values"] = problems.parsed(("values",), rule.legal, parse_numbers)
    return key.model_copy(update=changes)


def _unit(rule: KeyRule, dimensions: tuple[Dimension, ...], problems: Problems) -> tuple[Number | None, bool]:
    memory, unknown = "memory" in dimensions, "worth" in rule.model_fields_set
    if rule.worth is not None:
        wrong = rule.worth[1] and not memory
        problems.when(wrong, "unit", "only memory has a size", "write a percentage such as `1%`")
        return rule.worth
    if isinstance(rule, Key):
        unexplained = unknown and rule.why is None
        problems.when(unexplained, (), "`unit: null` needs `why`: what the user has to find out")
        hint = "a quantity such as `1Mi`, or `1%` of a device"
        problems.when(memory and not unknown, (), "a memory key needs a `unit`", hint)
    return (None, memory) if unknown else (1, False)


def compile_form(index: int, form: Form, variables: Variables, keys: Mapping[str, Key], problems: Problems) -> Form:
    """Compile a form; the rows of the document's variables can define a dimension, too."""
    if isinstance(form.devices, Derived):
        problems.unknown(("devices", "key"), "key", form.devices.key, keys)
    for name in form.rules.keys() - keys.keys():
        problems.unknown(("keys", name), "key", name, keys)
    when = tuple(_condition(name, value, keys, problems.at("when", name)) for name, value in form.conditions.items())
    overridden = {name: _override(key, form.rules.get(name), problems.at("keys", name)) for name, key in keys.items()}
    compiled = form.model_copy(
        update={
            "name": form.title or f"form {index + 1}",
            "when": when,
            "absent": Request(form.unset.devices, form.unset.memory, form.unset.cores),
            "keys": overridden,
            "reads": (form.deny, form.leave) == (None, None),
            "compared": frozenset(itertools.chain.from_iterable(each.keys for each in when)),
            "literals": frozenset(each for each in DIMENSIONS if getattr(form, each) is not None),
            **_written(when, overridden.values()),
        }
    )
    if compiled.reads:
        _check_dimensions(compiled, variables, problems)
    else:
        _check_no_other_keys(form, keys, problems)
    return compiled


def _written(when: Iterable[Condition], keys: Collection[Key]) -> dict[str, Any]:
    """The keys that conditions require, and by dimension those that may be written under these, the required ones first."""
    needed = {each.keys[0] for each in when if not each.absent and len(each.keys) == 1}
    only_absent = [each for each in when if each.absent and not (each.present or each.numbers or each.texts)]
    excluded = {key for each in only_absent for key in each.keys}
    able = (key for key in keys if key.name not in excluded and key.place != "borrowed" and key.written != "items")
    return {"needed": frozenset(needed), "written": in_dimensions(sorted(able, key=lambda key: key.name not in needed))}


def in_dimensions(keys: Collection[Key]) -> dict[Dimension, tuple[Key, ...]]:
    """Return the keys of each dimension, in their order."""
    return {dimension: tuple(key for key in keys if dimension in key.dimensions) for dimension in DIMENSIONS}


def _check_dimensions(form: Form, variables: Variables, problems: Problems) -> None:
    """Check that something defines each dimension: the form, a key, a row, or what its absence means."""
    rows = [row for variable in variables.values() for row in (variable.table or {}).values()]
    defined = form.literals.union(*(key.dimensions for key in form.keys.values()))
    for dimension, of_row in (("devices", "devices"), ("memory", "sizes"), ("cores", "shares")):
        by_row = any(getattr(row, of_row) is not None for row in rows)
        nothing = dimension not in defined and not by_row and getattr(form.absent, dimension) is None
        problems.when(
            nothing, (), f"nothing defines {dimension}", f"add `{dimension}:` or `absent: {{{dimension}: …}}`"
        )


def _check_no_other_keys(form: Form, keys: Mapping[str, Key], problems: Problems) -> None:
    key, effect, known = ("leave", "leaves unchanged", {*keys})
    if form.deny is not None:
        key, effect, known = ("deny", "denies", {*keys, *VALUES})
    for name in PLACEHOLDER.findall(getattr(form, key)):
        problems.unknown(key, "key", name, known)
    others = form.model_fields_set - {"conditions", "deny", "leave"} or None not in {form.deny, form.leave}
    problems.when(others, (), f"a form that {effect} has no other keys", f"keep `when` and `{key}`")


def _condition(name: str, value: WrittenNumbers, keys: Mapping[str, Key], problems: Problems) -> Condition:
    items = value if isinstance(value, list) else [value]
    numbers = [item for item in items if item not in {"absent", "present"}]
    absent, present = "absent" in items, "present" in items
    if name in keys:
        if keys[name].kind == "text":
            return Condition((name,), absent, present, None, tuple(dict.fromkeys(map(str, numbers))))
        return Condition((name,), absent, present, problems.parsed((), numbers or None, parse_numbers))
    if name not in DIMENSIONS:
        problems.unknown((), "key", name, keys)
        return Condition((), absent, present)
    problems.when(numbers, (), "a dimension can be `absent` or `present`", "for numbers, name a key")
    return Condition(tuple(key.name for key in keys.values() if name in key.dimensions), absent, present)
