"""Compiles the keys of a document."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, Literal, cast

from webhook.mapping.document import schema
from webhook.mapping.document.problem import FieldPath, Problems
from webhook.mapping.document.schema import Texts, texts
from webhook.mapping.model.vendor import CONTAINER, COUNT, Condition, Derived, Form, Key, KeyKind, KeyPlace, Template
from webhook.mapping.notation import (
    Numbers,
    glob_pattern,
    parse_cores,
    parse_memory,
    parse_numbers,
    parse_unit,
)
from webhook.mapping.requests.denials import PLACEHOLDER, VALUES
from webhook.quantity import Number
from webhook.request import DIMENSIONS, Dimension, Request

_ATTRIBUTE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
"""An attribute of a device, without the domain of its driver: ``k8s.io/api/resource/v1/types.go``, FullyQualifiedName."""


def compile_key(
    name: str,
    model: schema.Key,
    variables: Mapping[str, schema.Variable],
    problems: Problems,
    claim: schema.Claim | None,
) -> Key:
    """Compile a key, with its unit; `claim` is the section of that name."""
    path: FieldPath = ("keys", name)
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
        problems.add(
            path,
            "needs exactly one place",
            "write one of `resource`, `label`, `annotation`, `nodeSelector`, `claim`, `borrows`",
        )
        places = places or [("resource", "")]
    place, names = places[0]
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
    if place == "nodeSelector" and (kind not in {"text", "other"} or model.request_key is not None or model.list):
        problems.add(path, "a key in the nodeSelector is read only", "write `is: text`, or `is: other` for a number")
    if kind == "container" and model.absent is None:
        problems.add(
            path,
            "a container key needs `absent`: which container requests without it",
            "write `absent: first` or `absent: only`",
        )
    _check_place(path, model, place, problems)
    unit, sized = _unit(path, model, dimensions, problems)
    _check_claim(path, model, dimensions, claim, problems)
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
        step=problems.number((*path, "step"), model.step),
        rounding=model.round,
        written=model.written,
        listed=model.list,
        twin=twin,
        ceiling=_ceiling(path, model, problems),
        # An extension may have renamed the resource: then no plain device plugin serves it.
        plain=tuple(Template(name) for name in texts(model.plain) if name in texts(model.resource)),
        other_names=None if model.other_names is None else re.compile(glob_pattern(model.other_names), re.DOTALL),
        per_container=CONTAINER in used,
        variables=frozenset(used - {CONTAINER}),
    )


def _texts(model: schema.KeyRule) -> tuple[str, ...]:
    listed = model.values if isinstance(model.values, list) else [] if model.values is None else [model.values]
    return tuple(map(str, listed))


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


def _check_place(path: FieldPath, model: schema.Key, place: KeyPlace, problems: Problems) -> None:
    """Check what only keys in some place, and of some kind, have."""
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


def _check_claim(
    path: FieldPath,
    model: schema.Key,
    dimensions: tuple[Dimension, ...],
    claim: schema.Claim | None,
    problems: Problems,
) -> None:
    """Check that a mapping with a section `claim` has keys of claims only, and others none; each of one dimension."""
    if (model.claim is None) is not (claim is None):
        problems.add(
            path,
            "a mapping with `claim` has keys with `claim`, and no others",
            "move one of them to a document of its own",
        )
    elif model.claim is None and (model.unset is not None or model.omitted is not None):
        problems.add(path, "only a key with `claim` has `unset` and `omitted`")
    elif not model.counted and (model.claim is None or model.kind not in {"memory", "cores"}):
        problems.add(path, "only a capacity is not `counted`")
    elif (model.replace or model.selects) and (model.claim is None or model.kind != "text"):
        problems.add(path, "only an attribute has `replace` and `selects`")
    elif model.claim is not None and model.kind == "text":
        if _ATTRIBUTE.fullmatch(model.claim) is None or (model.row_of is None) is (model.selects is None):
            hint = "write `rowOf: VARIABLE`, or `selects: model` or `uuid`"
            problems.add(path, "a text in a claim is an attribute, whose value a row or an annotation names", hint)
    elif model.claim is not None and (
        len(dimensions) != 1 or (dimensions == ("devices",)) is not (model.claim == COUNT)
    ):
        problems.add(
            path,
            "a claim has a count of devices, and capacities: memory or cores",
            f"write `claim: {COUNT}, is: devices`",
        )
    elif model.claim is not None and (
        model.total or model.list or model.request_key or (model.unit is None and "unit" in model.model_fields_set)
    ):
        problems.add(path, "a capacity is a number for each device, in a known unit")


def _kind(written: schema.KeyKind | list[Dimension]) -> tuple[KeyKind, tuple[Dimension, ...]]:
    """Return the kind of a key, and the dimensions of an amount."""
    if isinstance(written, list):
        return "amount", tuple(written)
    if written in {"other", "text", "container"}:
        return cast("KeyKind", written), ()
    return "amount", (cast("Dimension", written),)


def _ceiling(path: FieldPath, model: schema.Key, problems: Problems) -> tuple[str, Number] | None:
    if model.ceiling is None:
        return None
    return model.ceiling.of, problems.number((*path, "ceiling", "per"), model.ceiling.per)


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


def compile_override(path: FieldPath, key: Key, rule: schema.KeyRule | None, problems: Problems) -> Key:
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
        key = replace(key, step=problems.number((*path, "step"), rule.step))
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
    try:
        unit, sized = parse_unit(model.unit)
    except ValueError as error:
        problems.add((*path, "unit"), str(error))
        return 1, False
    if sized and not memory:
        problems.add((*path, "unit"), "only memory has a size", "write a percentage such as `1%`")
    return unit, sized


ByDimension = Mapping[Dimension, tuple[str, ...]]


class FormCompiler:
    """Compiles the forms of one document.

    Args:
        document: for its variables, whose rows can define a dimension.
        keys: the compiled keys.
        by_dimension: the names of keys by dimension.
        problems: collects problems.
    """

    def __init__(
        self, document: schema.Mapping, keys: Mapping[str, Key], by_dimension: ByDimension, problems: Problems
    ) -> None:
        self._document = document
        self._keys = keys
        self._by_dimension = by_dimension
        self._problems = problems

    def compile(self, index: int, form: schema.Form) -> Form:
        """Compile the form at `index`."""
        keys = self._keys
        path: FieldPath = ("forms", index)
        when = tuple(self._condition((*path, "when", key), key, value) for key, value in form.when.items())
        devices: int | Derived | None = None
        if isinstance(form.devices, schema.Derived):
            if form.devices.key not in keys:
                self._problems.unknown((*path, "devices", "key"), "key", form.devices.key, keys)
            devices = Derived(form.devices.key, form.devices.per, form.devices.round)
        elif form.devices is not None:
            devices = form.devices
            if devices < 1:
                self._problems.add((*path, "devices"), "less than one device")
        compiled = Form(
            name=form.name or f"form {index + 1}",
            when=when,
            document=form,
            devices=devices,
            memory=self._problems.parsed((*path, "memory"), form.memory, parse_memory),
            cores=self._problems.parsed((*path, "cores"), form.cores, parse_cores),
            absent=Request(
                form.absent.devices,
                self._problems.parsed((*path, "absent", "memory"), form.absent.memory, parse_memory),
                self._problems.parsed((*path, "absent", "cores"), form.absent.cores, parse_cores),
            ),
            keys={
                name: compile_override((*path, "keys", name), key, form.keys.get(name), self._problems)
                for name, key in keys.items()
            },
            own_values=frozenset(name for name, rule in form.keys.items() if "values" in rule.model_fields_set),
        )
        for name in form.keys.keys() - keys.keys():
            self._problems.unknown((*path, "keys", name), "key", name, keys)
        if compiled.reads:
            self._check_dimensions(path, compiled)
        else:
            self._check_no_other_keys(path, form)
        return compiled

    def _check_dimensions(self, path: FieldPath, form: Form) -> None:
        rows = [row for variable in self._document.variables.values() for row in (variable.rows or {}).values()]
        for dimension in DIMENSIONS:
            by_row = any(getattr(row, dimension) is not None for row in rows)
            if (
                dimension in form.literals
                or self._by_dimension[dimension]
                or by_row
                or getattr(form.absent, dimension) is not None
            ):
                continue
            self._problems.add(
                path, f"nothing defines {dimension}", f"add `{dimension}:` or `absent: {{{dimension}: …}}`"
            )

    def _check_no_other_keys(self, path: FieldPath, form: schema.Form) -> None:
        key, effect = ("deny", "denies") if form.deny is not None else ("leave", "leaves unchanged")
        for name in PLACEHOLDER.findall(form.deny or form.leave or ""):
            if name not in self._keys and (name not in VALUES or key == "leave"):
                self._problems.unknown((*path, key), "key", name, self._keys)
        if form.model_fields_set - {"when", "deny", "leave"} or (form.deny is not None and form.leave is not None):
            self._problems.add(path, f"a form that {effect} has no other keys", f"keep `when` and `{key}`")

    def _condition(self, path: FieldPath, name: str, value: schema.WrittenNumbers) -> Condition:
        keys, by_dimension = self._keys, self._by_dimension
        items = value if isinstance(value, list) else [value]
        numbers = [item for item in items if item not in {"absent", "present"}]
        absent, present = "absent" in items, "present" in items
        if name in by_dimension and name not in keys:
            if numbers:
                self._problems.add(path, "a dimension can be `absent` or `present`", "for numbers, name a key")
            return Condition(by_dimension[name], absent, present)  # type: ignore[index]
        if name not in keys:
            self._problems.unknown(path, "key", name, keys)
            return Condition((), absent, present)
        if keys[name].kind == "text":
            return Condition((name,), absent, present, None, tuple(dict.fromkeys(map(str, numbers))))
        return Condition((name,), absent, present, self._problems.parsed(path, numbers or None, parse_numbers))
