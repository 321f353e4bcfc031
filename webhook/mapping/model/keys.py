"""The keys and forms of a vendor, compiled from its document: names with variable parts, units, conditions.

A name may have variable parts: ``iluvatar.ai/{chip}-vgpu``.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, cast

from webhook.mapping.document import schema
from webhook.mapping.document.problem import FieldPath, Problems
from webhook.mapping.document.schema import Derived
from webhook.mapping.document.strict import Texts, WrittenNumbers, texts
from webhook.mapping.notation import (
    Numbers,
    glob_pattern,
    literal,
    parse_cores,
    parse_memory,
    parse_numbers,
    parse_positive,
    parse_unit,
)
from webhook.quantity import Number
from webhook.request import DIMENSIONS, Cores, Dimension, Memory, Request

CONTAINER: Final = "container"
"""The built-in variable: the name of a container of the pod."""

COUNT: Final = "count"
"""What a key with `claim` calls the number of devices; any other name is that of a capacity."""

PLACEHOLDER: Final = re.compile(r"\{([a-z0-9-]+)\}")
VALUES: Final = frozenset({"value", "below", "above"})
"""Placeholders of ``deny`` beside keys: the requested number, and the nearest ones that another form accepts."""

_CONTAINER_NAME: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_PART: Final = re.compile(r"\{([a-z][a-z0-9-]*)\}")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
"""An attribute of a device, without the domain of its driver: ``k8s.io/api/resource/v1/types.go``, FullyQualifiedName."""

Variables: TypeAlias = Mapping[str, schema.Variable]
Binding: TypeAlias = tuple[tuple[str, str], ...]
"""The values of the variables of a name, in the order of the name."""

KeyPlace: TypeAlias = Literal["resource", "label", "annotation", "nodeSelector", "claim", "borrowed"]
KeyKind: TypeAlias = Literal["amount", "other", "text", "container"]


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

    def count(self, variables: Variables) -> int:
        """Return the number of names that `names` yields."""
        return math.prod(len(_listed(variables.get(name))) for name in self.variables)

    def names(self, variables: Variables) -> Iterator[tuple[str, Binding]]:
        """Yield every name that can be listed, with its binding; none if a variable is a pattern or a container."""
        choices = [_listed(variables.get(name)) for name in self.variables]
        parts = _PART.split(self.text)
        for values in itertools.product(*choices):
            parts[1::2] = values
            yield "".join(parts), tuple(zip(self.variables, values, strict=True))

    def pattern(self, variables: Variables) -> str | None:
        """Return an expression with a group for each variable, or None if all names can be listed."""
        patterns = [(name, _pattern(name, variables.get(name))) for name in self.variables]
        if not any(pattern for _, pattern in patterns):
            return None
        parts = list(map(literal, _PART.split(self.text)))
        parts[1::2] = [
            f"(?P<{name.replace('-', '_')}>{pattern or '|'.join(map(literal, _listed(variables.get(name))))})"
            for name, pattern in patterns
        ]
        return "".join(parts)


def _listed(variable: schema.Variable | None) -> list[str]:
    if variable is None:
        return []
    listed = variable.values if isinstance(variable.values, list) else []
    return [*listed, *(variable.rows or {})]


def _pattern(name: str, variable: schema.Variable | None) -> str | None:
    if name == CONTAINER:
        return _CONTAINER_NAME
    if variable is None:
        return None
    patterns = (variable.others, variable.values if isinstance(variable.values, str) else None)
    return "|".join(f"(?:{pattern})" for pattern in patterns if pattern is not None) or None


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
        values: legal numbers per device.
        texts: legal texts of a text key; none: any.
        zero: what 0 means beside amounts of the vendor: ``none``, no device, ``unset``, as if it were left out, or ``number``,
            as any other; None: always the latter.
        twin: a second name: either is read, both are written.
        ceiling: another key, of which this one allows more than is requested, and the worth of 1 of that key here.
        plain: those of the spellings that the maker's own device plugin serves as whole devices, without this vendor.
        other_names: unknown resource names that may mean this key: beside one, no default is filled in for it.
        variables: the variables of the name, except the container.
        per_container: the name contains the name of a container.
        makes_request: it makes a container request a GPU. Counts in labels or annotations of the pod do not by themselves.
    """

    name: str
    document: schema.Key
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
    variables: frozenset[str]
    per_container: bool
    makes_request: bool = field(init=False)

    def __post_init__(self) -> None:
        picks = self.kind == "text" and self.document.row_of is not None and self.per_container
        amount = self.kind == "amount" and (self.of_container or self.per_container)
        object.__setattr__(self, "makes_request", picks or amount)

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
    document: schema.Form
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
        needed = {when.keys[0] for when in self.when if not when.absent and len(when.keys) == 1}
        unwritten = {key for when in self.when if when.only_absent for key in when.keys}
        unwritten |= {key.name for key in self.keys.values() if key.place == "borrowed" or key.written == "items"}
        able = sorted(self.keys.values(), key=lambda key: key.name not in needed)
        able = [key for key in able if key.name not in unwritten]
        values: dict[str, object] = {
            "reads": self.document.deny is None and self.document.leave is None,
            "needed": frozenset(needed),
            "written": {each: tuple(key for key in able if each in key.dimensions) for each in DIMENSIONS},
            "literals": frozenset(each for each in DIMENSIONS if getattr(self, each) is not None),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def values(self, key: Key, row: Row | None) -> Numbers | None:
        """Return the legal numbers of a key in this form, for a name with this row."""
        if row is None or key.name in self.own_values:
            return key.values
        numbers = row.values.get(key.name, key.values)
        return numbers.get(self.name, key.values) if isinstance(numbers, Mapping) else numbers


def compile_key(
    name: str, model: schema.Key, variables: Variables, problems: Problems, claim: schema.Claim | None
) -> Key:
    """Compile a key, with its unit; `claim` is the section of that name."""
    path: FieldPath = ("keys", name)
    place, names = _place(path, model, claim, problems)
    spellings = tuple(map(Template, texts(names)))
    twin = Template(model.request_key) if model.request_key is not None else None
    used = {variable for template in spellings for variable in template.variables}
    _check_variables((*path, place), spellings, variables, problems)
    _check_variables((*path, "requestKey"), [] if twin is None else [twin], variables, problems)
    kind, dimensions = _kind(model.kind)
    if name in DIMENSIONS:
        problems.add(path, "a key may not have the name of a dimension", f"call it `{name}-key`")
    if model.row_of is not None and model.row_of not in variables:
        problems.add((*path, "rowOf"), f"the variable {model.row_of!r} is not defined")
    _check_place(path, model, place, problems)
    unit, sized = _unit(path, model, dimensions, problems)
    problem = _claim_problem(model, dimensions, claim)
    if problem is not None:
        problems.add(path, *problem)
    values = None if kind == "text" else problems.parsed((*path, "values"), model.values, parse_numbers)
    return Key(
        name=name,
        document=model,
        place=place,
        spellings=spellings,
        kind=kind,
        dimensions=dimensions,
        unit=unit,
        sized=sized,
        total=bool(model.total),
        values=values,
        texts=_texts(model) if kind == "text" else (),
        zero=_zero(path, model, kind, values, problems),
        step=_step(model),
        rounding=model.round,
        written=model.written,
        listed=model.list,
        twin=twin,
        ceiling=None if model.ceiling is None else (model.ceiling.of, parse_positive(model.ceiling.per)),
        # An extension may have renamed the resource: then no plain device plugin serves it.
        plain=tuple(Template(name) for name in texts(model.plain) if name in texts(model.resource)),
        other_names=None if model.other_names is None else re.compile(glob_pattern(model.other_names), re.DOTALL),
        per_container=CONTAINER in used,
        variables=frozenset(used - {CONTAINER}),
    )


def _place(
    path: FieldPath, model: schema.Key, claim: schema.Claim | None, problems: Problems
) -> tuple[KeyPlace, Texts]:
    by_place: dict[KeyPlace, Texts | None] = {
        "resource": model.resource,
        "label": model.label,
        "annotation": model.annotation,
        "nodeSelector": model.node_selector,
        "borrowed": model.borrows,
        "claim": model.claim and f"{claim.device_class if claim is not None else ''}/{model.claim}",
    }
    places = [(place, names) for place, names in by_place.items() if names is not None]
    if len(places) != 1:
        hint = "write one of `resource`, `label`, `annotation`, `nodeSelector`, `claim`, `borrows`"
        problems.add(path, "needs exactly one place", hint)
    return places[0] if places else ("resource", "")


def _texts(model: schema.KeyRule) -> tuple[str, ...]:
    listed = model.values if isinstance(model.values, list) else [] if model.values is None else [model.values]
    return tuple(map(str, listed))


def _step(model: schema.KeyRule) -> Number:
    return 1 if model.step is None else parse_positive(model.step)


def _zero(
    path: FieldPath, model: schema.Key, kind: KeyKind, values: Numbers | None, problems: Problems
) -> Literal["none", "unset", "number"] | None:
    """What 0 means beside other amounts, by default: a count is none, what `values` excludes is a number, others are unset."""
    counts = model.kind == "devices" or "devices" in model.kind
    if model.zero == "number" and (kind != "amount" or counts):
        problems.add((*path, "zero"), "only a 0 of memory or cores can be a number", "write `unset`, or leave it out")
    if kind != "amount":
        return model.zero if kind == "other" else None
    if model.zero is not None or counts:
        return model.zero or "none"
    return "number" if values is not None and 0 not in values else "unset"


def _kind(written: schema.KeyKind | list[Dimension]) -> tuple[KeyKind, tuple[Dimension, ...]]:
    """Return the kind of a key, and the dimensions of an amount."""
    if isinstance(written, list):
        return "amount", tuple(written)
    if written in {"other", "text", "container"}:
        return cast("KeyKind", written), ()
    return "amount", (cast("Dimension", written),)


def _check_place(path: FieldPath, model: schema.Key, place: KeyPlace, problems: Problems) -> None:
    """Check what only keys in some place, and of some kind, have."""
    kind, _ = _kind(model.kind)
    if place == "nodeSelector" and (kind not in {"text", "other"} or model.request_key is not None or model.list):
        problems.add(path, "a key in the nodeSelector is read only", "write `is: text`, or `is: other` for a number")
    if kind == "container" and model.absent is None:
        message = "a container key needs `absent`: which container requests without it"
        problems.add(path, message, "write `absent: first` or `absent: only`")
    _check_members(path, model, place, problems)


def _check_members(path: FieldPath, model: schema.Key, place: KeyPlace, problems: Problems) -> None:
    kind, dimensions = _kind(model.kind)
    if model.requests and (kind != "text" or place != "annotation"):
        problems.add((*path, "requests"), "only a text in an annotation requests by itself")
    if model.in_pods and place != "borrowed":
        problems.add((*path, "inPods"), "only a borrowed name has it", "write `borrows` instead of `resource`")
    if place == "borrowed" and kind != "amount":
        problems.add((*path, "borrows"), "only an amount is borrowed")
    if model.written == "items" and (dimensions != ("devices",) or place != "annotation"):
        problems.add((*path, "written"), "only an annotation with `is: devices` lists them")
    if model.unreported is not None and place != "resource":
        problems.add((*path, "unreported"), "only a resource is reported by nodes")
    if model.other_names is not None and (place != "resource" or "devices" not in dimensions):
        problems.add((*path, "otherNames"), "only a resource that counts devices may have another name")
    if model.ceiling is not None and (kind != "other" or place != "annotation"):
        problems.add((*path, "ceiling"), "only an annotation with `is: other` allows more than is requested")


def _claim_problem(
    model: schema.Key, dimensions: tuple[Dimension, ...], claim: schema.Claim | None
) -> tuple[str, str | None] | None:
    """What is wrong, and a hint: a mapping with a section `claim` has keys of claims only, each of one dimension."""
    if (model.claim is None) is not (claim is None):
        return (
            "a mapping with `claim` has keys with `claim`, and no others",
            "move one of them to a document of its own",
        )
    if model.claim is None and (model.unset is not None or model.omitted is not None):
        return "only a key with `claim` has `unset` and `omitted`", None
    if not model.counted and (model.claim is None or model.kind not in {"memory", "cores"}):
        return "only a capacity is not `counted`", None
    if (model.replace or model.selects) and (model.claim is None or model.kind != "text"):
        return "only an attribute has `replace` and `selects`", None
    return None if model.claim is None else _part_problem(model, model.claim, dimensions)


def _part_problem(model: schema.Key, part: str, dimensions: tuple[Dimension, ...]) -> tuple[str, str | None] | None:
    """The same of a part of a claim: an attribute, the count of devices, or a capacity."""
    if model.kind == "text":
        named = (model.row_of is None) is not (model.selects is None)
        message = "a text in a claim is an attribute, whose value a row or an annotation names"
        hint = "write `rowOf: VARIABLE`, or `selects: model` or `uuid`"
        return None if named and _ATTRIBUTE.fullmatch(part) else (message, hint)
    if len(dimensions) != 1 or (dimensions == ("devices",)) is not (part == COUNT):
        return "a claim has a count of devices, and capacities: memory or cores", f"write `claim: {COUNT}, is: devices`"
    unknown = model.unit is None and "unit" in model.model_fields_set
    of_pod = model.total or model.list or model.request_key or unknown
    return ("a capacity is a number for each device, in a known unit", None) if of_pod else None


def _check_variables(
    path: FieldPath, templates: Iterable[Template], variables: Collection[str], problems: Problems
) -> None:
    """Report variables of a key that are not defined, or occur twice."""
    for template in templates:
        if len(set(template.variables)) < len(template.variables):
            problems.add(path, f"{template.text} contains a variable twice")
    used = {variable for template in templates for variable in template.variables}
    for variable in sorted(used - {CONTAINER} - set(variables)):
        problems.add(path, f"the variable {{{variable}}} is not defined", "add it under `variables`")


def _override(path: FieldPath, key: Key, rule: schema.KeyRule | None, problems: Problems) -> Key:
    """Compile a key with the changes of one form."""
    if rule is None:
        return key
    changed = rule.model_fields_set
    if "unit" in changed:
        unit, sized = _unit(path, rule, key.dimensions, problems)
        key = replace(key, unit=unit, sized=sized)
    if "total" in changed:
        key = replace(key, total=bool(rule.total))
    if "values" in changed and key.kind == "text":
        key = replace(key, texts=_texts(rule))
    elif "values" in changed:
        key = replace(key, values=problems.parsed((*path, "values"), rule.values, parse_numbers))
    if "step" in changed:
        key = replace(key, step=_step(rule))
    return replace(key, rounding=rule.round) if "round" in changed else key


def _unit(
    path: FieldPath, model: schema.KeyRule, dimensions: tuple[Dimension, ...], problems: Problems
) -> tuple[Number | None, bool]:
    memory = "memory" in dimensions
    if model.unit is None:
        if "unit" in model.model_fields_set:
            if isinstance(model, schema.Key) and model.why is None:
                problems.add(path, "`unit: null` needs `why`: what the user has to find out")
            return None, memory
        if memory and isinstance(model, schema.Key):
            problems.add(path, "a memory key needs a `unit`", "a quantity such as `1Mi`, or `1%` of a device")
        return 1, False
    unit, sized = parse_unit(model.unit)
    if sized and not memory:
        problems.add((*path, "unit"), "only memory has a size", "write a percentage such as `1%`")
    return unit, sized


def compile_form(
    index: int, form: schema.Form, document: schema.Mapping, keys: Mapping[str, Key], problems: Problems
) -> Form:
    """Compile a form; the rows of the document's variables can define a dimension, too."""
    path: FieldPath = ("forms", index)
    if isinstance(form.devices, Derived) and form.devices.key not in keys:
        problems.unknown((*path, "devices", "key"), "key", form.devices.key, keys)
    if isinstance(form.devices, int) and form.devices < 1:
        problems.add((*path, "devices"), "less than one device")
    for name in form.keys.keys() - keys.keys():
        problems.unknown((*path, "keys", name), "key", name, keys)
    compiled = Form(
        name=form.name or f"form {index + 1}",
        when=tuple(_condition((*path, "when", key), key, value, keys, problems) for key, value in form.when.items()),
        document=form,
        devices=form.devices,
        memory=parse_memory(form.memory),
        cores=parse_cores(form.cores),
        absent=Request(form.absent.devices, parse_memory(form.absent.memory), parse_cores(form.absent.cores)),
        keys={name: _override((*path, "keys", name), key, form.keys.get(name), problems) for name, key in keys.items()},
        own_values=frozenset(name for name, rule in form.keys.items() if "values" in rule.model_fields_set),
    )
    if compiled.reads:
        _check_dimensions(path, compiled, document, problems)
    else:
        _check_no_other_keys(path, form, keys, problems)
    return compiled


def _check_dimensions(path: FieldPath, form: Form, document: schema.Mapping, problems: Problems) -> None:
    """Check that something defines each dimension: the form, a key, a row, or what its absence means."""
    rows = [row for variable in document.variables.values() for row in (variable.rows or {}).values()]
    by_key = {dimension for key in form.keys.values() for dimension in key.dimensions}
    for dimension in DIMENSIONS:
        by_row = any(getattr(row, dimension) is not None for row in rows)
        defined = dimension in form.literals or dimension in by_key or by_row
        if not defined and getattr(form.absent, dimension) is None:
            hint = f"add `{dimension}:` or `absent: {{{dimension}: …}}`"
            problems.add(path, f"nothing defines {dimension}", hint)


def _check_no_other_keys(path: FieldPath, form: schema.Form, keys: Mapping[str, Key], problems: Problems) -> None:
    key, effect = ("deny", "denies") if form.deny is not None else ("leave", "leaves unchanged")
    for name in PLACEHOLDER.findall(form.deny or form.leave or ""):
        if name not in keys and (name not in VALUES or key == "leave"):
            problems.unknown((*path, key), "key", name, keys)
    if form.model_fields_set - {"when", "deny", "leave"} or (form.deny is not None and form.leave is not None):
        problems.add(path, f"a form that {effect} has no other keys", f"keep `when` and `{key}`")


def _condition(
    path: FieldPath, name: str, value: WrittenNumbers, keys: Mapping[str, Key], problems: Problems
) -> Condition:
    items = value if isinstance(value, list) else [value]
    numbers = [item for item in items if item not in {"absent", "present"}]
    absent, present = "absent" in items, "present" in items
    if name in DIMENSIONS and name not in keys:
        if numbers:
            problems.add(path, "a dimension can be `absent` or `present`", "for numbers, name a key")
        return Condition(tuple(key.name for key in keys.values() if name in key.dimensions), absent, present)
    if name not in keys:
        problems.unknown(path, "key", name, keys)
        return Condition((), absent, present)
    if keys[name].kind == "text":
        return Condition((name,), absent, present, None, tuple(dict.fromkeys(map(str, numbers))))
    return Condition((name,), absent, present, problems.parsed(path, numbers or None, parse_numbers))
