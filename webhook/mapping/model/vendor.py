"""A vendor, compiled from its document into immutable values, for reading, writing and the admission steps.

First what it consists of: names with variable parts (``iluvatar.ai/{chip}-vgpu``), keys that only its scheduler may write.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any, Final, Literal

from webhook.labels import PREFIX
from webhook.mapping.document.guard import GuardPlace
from webhook.mapping.document.problem import FieldPath, MappingError, Problem, Problems
from webhook.mapping.model import schema
from webhook.mapping.model.guard import Guards, compile_guards, guards_own_class, guards_own_keys
from webhook.mapping.model.keys import Derived, Form, Key, Template, Variables, compile_form, compile_key
from webhook.mapping.model.match_names import LetsThrough, compile_lets_through
from webhook.mapping.model.shim import Shim, compile_shim
from webhook.mapping.model.variables import NamePart, compile_variables
from webhook.mapping.notation import (
    Expression,
    NameSet,
    PatternError,
    check_pattern,
    expression,
    literal,
)
from webhook.request import DIMENSIONS, MAX_DEVICES, Dimension, Percent

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_LITERAL: Final = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Owned:
    """The marks that a vendor's scheduler writes, and the hints that users write for it.

    A copied mark breaks placement, a forged one takes devices of others; a translated pod that keeps what `belongs` is told.
    """

    annotations: NameSet = field(default_factory=NameSet)
    labels: NameSet = field(default_factory=NameSet)
    hints: NameSet = field(default_factory=NameSet)  # annotations that only this scheduler reads
    belongs: NameSet = field(default_factory=NameSet)  # what this system alone knows, and `key=value` of its nodes

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
    owned: Sequence[str | schema.OwnedLabel],
    hints: Sequence[str],
    variables: Variables,
    belongs: Sequence[str],
    problems: Problems,
) -> Owned:
    """Compile the owned keys, hints and belongings of a document; the result is usable only without problems."""
    groups: tuple[dict[FieldPath, str], ...] = (
        {("owned", i): entry for i, entry in enumerate(owned) if isinstance(entry, str)},
        {("owned", i, "label"): entry.label for i, entry in enumerate(owned) if not isinstance(entry, str)},
        {("hints", i): entry for i, entry in enumerate(hints)},
        {("belongs", i): entry for i, entry in enumerate(belongs)},
    )
    return Owned(*(_keys(group, variables, problems) for group in groups))


def _keys(keys: Mapping[FieldPath, str], variables: Variables, problems: Problems) -> NameSet:
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
        if "{" not in key:
            names.append(key)
            continue
        parts = _VARIABLE.split(key)  # the odd ones are variables
        for i, part in enumerate(parts):
            possible = [*map(literal, variables[part].listed), variables[part].pattern] if i % 2 else []
            parts[i] = (
                f"(?:{'|'.join(filter(None, possible))})" if i % 2 else ".*".join(map(literal, re.split(r"\*+", part)))
            )
        try:
            expressions.append(expression("".join(parts)))
        except PatternError as error:
            problems.add(path, f"a variable's pattern cannot be read: {error}")
    return NameSet.of(names, expressions)


BUILT_IN: Final = "built-in"
"""The source of documents in the package."""


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a dimension, and its origin."""

    value: Any  # a number of devices, or an amount
    origin: Literal["mapping", "namespace", "settings"]

    def named(self, dimension: Dimension) -> str:
        """Return the default as messages name it."""
        return f"the {self.origin}'s default-{dimension}: {self.value}"


@dataclass(frozen=True, slots=True, eq=False)
class Vendor:
    """A compiled vendor; the attributes are the compiled parts of its document."""

    name: str
    family: str
    document: schema.Mapping
    source: str  # the source of the document
    keys: Mapping[str, Key]
    variables: Mapping[str, NamePart]
    forms: tuple[Form, ...]
    by_dimension: Mapping[Dimension, tuple[str, ...]]  # the keys of each dimension, in the order of the document
    annotation_keys: bool  # the vendor has no resource names of its own: labels and annotations request
    defaults: Mapping[Dimension, Default]
    inactive: bool  # it owns no name, but can be a target if the active vendor for its names reads them alike
    target: bool
    place: schema.Place
    shim: Shim | None
    guard: Guards
    owned: Owned
    lets_through: LetsThrough  # the names by which match conditions send a pod to the webhook
    claim: schema.Claim | None  # its requests are written as resource claims; None: as keys of pods
    overridden: frozenset[tuple[str | int, ...]]
    expressed: frozenset[Dimension] = field(init=False)  # those with a key, or of forms or names that imply them
    unreported: frozenset[str] = field(init=False)  # its keys that no node reports
    borrowed: Mapping[str, Key] = field(init=False)  # the keys that are resource names of other vendors, by these
    system: str = field(init=False)  # whose scheduler and device plugin serve the keys, for messages

    def __post_init__(self) -> None:
        rows = [row for variable in self.variables.values() for row in variable.rows.values()]
        borrowed = {name.text: key for key in self.keys.values() if key.place == "borrowed" for name in key.spellings}
        expressed = {
            "devices": any(isinstance(form.devices, Derived) for form in self.forms),
            "memory": any(row.memory is not None for row in rows),
            "cores": any(row.cores is not None for row in rows),
        }
        sources = self.document.sources
        derived = {
            "expressed": frozenset(each for each in DIMENSIONS if expressed[each] or self.by_dimension[each]),
            "unreported": frozenset(name for name, key in self.keys.items() if key.unreported is not None),
            "borrowed": borrowed,
            "system": self.document.system or (sources[0].system if sources else self.name),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

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


MAX_NAMES: Final = 2048
"""The most names that one document may list."""


def draft_vendor(
    document: schema.Mapping, source: str, overridden: frozenset[FieldPath] = frozenset()
) -> tuple[Vendor | None, tuple[Problem, ...]]:
    """Compile a document as far as possible, and collect all problems; the vendor is usable only without any.

    A problem is a rule of documents that the types of the schema cannot express. In the paths
    `overridden` the document differs from the one that it extends.
    """
    problems = Problems()
    vendor = None
    try:
        vendor = _compiled(document, source, overridden, problems)
    except Exception:
        # An error after a problem most probably follows from it.
        if not problems.found:
            raise
    return vendor, tuple(dict.fromkeys(problems.found))


def _compiled(document: schema.Mapping, source: str, overridden: frozenset[FieldPath], problems: Problems) -> Vendor:
    device_class = None if document.claim is None else document.claim.device_class
    keys = {
        name: compile_key(name, key, document.variables, problems, device_class) for name, key in document.keys.items()
    }
    used = {variable for key in keys.values() for variable in (*key.variables, key.row_of)}
    others = (*document.marks, *document.all_hints, *(document.match.keys or ()))
    marks = {variable for name in others for variable in Template(name).variables}
    # What a document has of the one that it extends; whether it changed it or not.
    inherits = overridden and ("variables",) not in overridden
    inherited = {name for name in document.variables if inherits and ("variables", name) not in overridden}
    variables = compile_variables(document.variables, used, marks, inherited, problems)
    _check_names(keys, problems)
    # Variables are parts of the patterns of names: with invalid ones, no pattern could be compiled.
    if not any(problem.path[:1] == ("variables",) for problem in problems.found):
        _check_patterns(keys, document, problems)
    _check_count(keys, document, problems)
    by_dimension: dict[Dimension, tuple[str, ...]] = {
        dimension: tuple(name for name, key in keys.items() if dimension in key.dimensions) for dimension in DIMENSIONS
    }
    forms = tuple(
        compile_form(index, form, document.variables, keys, problems) for index, form in enumerate(document.forms)
    )
    defaults = _defaults(document.defaults, problems)
    form_names = [form.name for form in forms if form.reads]
    for name in {name for name in form_names if form_names.count(name) > 1}:
        problems.add(("forms",), f"two forms are called {name!r}")
    _check_rows(document, keys, form_names, problems)
    shim = None if document.shim is None else compile_shim(document.shim, form_names, problems)
    guard = compile_guards(document.guard, shim, problems)
    belongs = (*document.belongs, *_placed(document.place))
    owned = compile_owned(document.owned, document.all_hints, document.variables, belongs, problems)
    _check_keys(document, keys, problems)
    if document.claim is not None and defaults:
        problems.add(("defaults",), "a vendor with claims is only a target: nothing is filled in", "remove it")
    _check_names_of_pods(document, keys, owned, guard, problems)
    lets_through = compile_lets_through(document, keys, problems)
    return Vendor(
        name=document.vendor,
        family=document.family,
        document=document,
        source=source,
        keys=keys,
        variables=variables,
        forms=forms,
        by_dimension=by_dimension,
        annotation_keys=not any(key.of_container and key.place != "borrowed" for key in keys.values()),
        defaults=defaults,
        inactive=document.inactive,
        target=document.target,
        place=document.place,
        shim=shim,
        guard=guard,
        owned=owned,
        lets_through=lets_through,
        claim=document.claim,
        overridden=overridden,
    )


def _check_keys(document: schema.Mapping, keys: Mapping[str, Key], problems: Problems) -> None:
    """Check what names keys, or may be in some of them only."""
    for variable, counted in document.environment.items():
        if counted is not None and counted not in keys:
            problems.unknown(("environment", variable), "key", counted, keys)
    for key in keys.values():
        if key.ceiling is not None and (key.ceiling.of not in keys or keys[key.ceiling.of].kind != "amount"):
            hint = f"keys are {', '.join(keys)}"
            problems.add(("keys", key.name, "ceiling", "of"), f"no amount is called {key.ceiling.of!r}", hint)
    _check_texts(document, keys, problems)
    _check_totals(document, keys, problems)


def _check_names_of_pods(
    document: schema.Mapping, keys: Mapping[str, Key], owned: Owned, guard: Guards, problems: Problems
) -> None:
    """Check that what the vendor's pods have is not what its scheduler owns, or its guard denies."""
    problems.extend(_uncounted_without_shim(document))
    _check_shared_names(document, problems)
    _check_owned(owned, keys, problems)
    _check_placed(document.place, owned, problems)
    if document.config_maps is not None and document.config_maps in owned.annotations:
        message = f"{document.config_maps} is among `owned`: it would be removed from pods that are not translated, too"
        problems.add(("configMaps",), message)
    problems.extend(guards_own_keys(guard, _own_keys(document, keys)))
    problems.extend(guards_own_class(guard, document.place.runtime_class_name))


def _check_texts(document: schema.Mapping, keys: Mapping[str, Key], problems: Problems) -> None:
    """Check that what tells pods with limits, or pods in which a borrowed name is read, is a text that is read."""
    unless = document.unlimited.unless if isinstance(document.unlimited, schema.Unlimited) else {}
    named: list[FieldPath] = [("unlimited", "unless", name) for name in unless]
    named += [("keys", key.name, "inPods", name) for key in keys.values() for name in key.in_pods]
    for path in named:
        name = str(path[-1])
        if name not in keys or keys[name].kind != "text" or keys[name].of_container:
            problems.add(path, f"no text of the pod is called {name!r}", "write a label or annotation with `is: text`")


def _placed(place: schema.Place) -> Iterator[str]:
    """Yield the names that the vendor's pods get, which belong to it, too; of node labels with values."""
    for where, written in place.written.items():
        yield from (f"{key}={value}" if where == "nodeSelector" else key for key, value in written.items())
    yield from (toleration.key for toleration in place.tolerations if toleration.key)


def _check_names(keys: Mapping[str, Key], problems: Problems) -> None:
    """Report names with two meanings."""
    seen: dict[tuple[str, str], str] = {}
    for key in keys.values():
        for template in key.spellings:
            other = seen.setdefault((key.place, template.text), key.name)
            if other != key.name:
                problems.add(("keys", key.name), f"{template.text} is already the key {other!r}")


def _check_patterns(keys: Mapping[str, Key], document: schema.Mapping, problems: Problems) -> None:
    """Report names whose patterns cannot be compiled."""
    for key, template in ((each, template) for each in keys.values() for template in each.templates):
        pattern = template.pattern(document.variables)
        try:
            if pattern is not None:
                expression(pattern)
        except PatternError as error:
            problems.add(("keys", key.name, key.place), f"the pattern of {template.text} {error}")


def _check_count(keys: Mapping[str, Key], document: schema.Mapping, problems: Problems) -> None:
    """Stop compiling if keys and variables make too many names."""
    found = len(problems.found)
    listed: dict[FieldPath, Iterable[Template]] = {
        ("keys",): [template for key in keys.values() for template in key.templates],
        ("owned",): map(Template, document.marks),
        ("match", "keys"): map(Template, document.match.keys or ()),
    }
    for path, templates in listed.items():
        count = sum(template.count(document.variables) for template in templates)
        if count > MAX_NAMES:
            message = f"the values of their variables make {count} names"
            problems.add(path, message, f"at most {MAX_NAMES} are allowed")
    if len(problems.found) > found:
        raise MappingError(problems.found)


def _check_rows(document: schema.Mapping, keys: Collection[str], forms: Collection[str], problems: Problems) -> None:
    """Report keys and forms in rows that do not exist."""
    rows = [(name, *each) for name, variable in document.variables.items() for each in (variable.rows or {}).items()]
    for name, value, row in rows:
        path: FieldPath = ("variables", name, "rows", value)
        for where, numbers in (("values", row.values), ("all", row.all)):
            for key in numbers.keys() - keys:
                problems.unknown((*path, where, key), "key", key, keys)
        for key, values in row.values.items():
            for form in (values.keys() if isinstance(values, Mapping) else set()) - set(forms):
                problems.unknown((*path, "values", key, form), "form", form, forms)


def _check_owned(owned: Owned, keys: Mapping[str, Key], problems: Problems) -> None:
    """Report keys that are among the marks of a scheduler: they would be stripped before they are read."""
    for key, template in ((each, template) for each in keys.values() for template in each.spellings):
        if template.text in {"label": owned.labels, "annotation": owned.annotations}.get(key.place, ()):
            problems.add(("owned",), f"{template.text} is the key {key.name!r}: it would be stripped before it is read")


def _check_placed(place: schema.Place, owned: Owned, problems: Problems) -> None:
    """Report labels and annotations for pods that this webhook would remove again, or take for orders to itself."""
    for member, written, stripped in (
        ("labels", place.labels, owned.labels),
        ("annotations", place.annotations, owned.annotations),
    ):
        for key in written:
            if key.startswith(PREFIX):
                problems.add(("place", member, key), f"{key} is for users and this webhook only", "leave it out")
            elif key in stripped:
                problems.add(("place", member, key), f"{key} is among `owned`: it would be removed again")


def _check_totals(document: schema.Mapping, keys: Mapping[str, Key], problems: Problems) -> None:
    """Report totals of a pod without a rule for its containers: each that requests would get all of it."""
    if "containers" in document.model_fields_set:
        return
    for key in keys.values():
        of_pod = key.place in {"label", "annotation"} and not key.per_container and not key.listed
        if of_pod and key.total and {"memory", "cores"} & set(key.dimensions):
            message = "a total over the devices of a pod needs `containers`: which of its containers request"
            hint = "write beside `keys` `containers: one`, `shared`, or `any` if each of them gets the whole number"
            problems.add(("keys", key.name, "total"), message, hint)


def _uncounted_without_shim(document: schema.Mapping) -> Iterator[Problem]:
    """Report capacities that nobody would limit: neither the driver, nor a variable of the shim."""
    variables = "" if document.shim is None or document.shim.mode == "plugin" else " ".join(document.shim.env.values())
    for name, key in document.keys.items():
        if not key.counted and f"{{{key.specifies}}}" not in variables:
            message = f"no variable of the shim has {{{key.specifies}}}"
            yield Problem(message, ("keys", name, "counted"), "add one, or drop it")


def _check_shared_names(document: schema.Mapping, problems: Problems) -> None:
    for index, entry in enumerate(document.shared_names):
        for label, pattern in entry.nodes.items():
            try:
                check_pattern(pattern)
            except PatternError as error:
                problems.add(("sharedNames", index, "nodes", label), f"the pattern {pattern!r} {error}")


def _own_keys(document: schema.Mapping, keys: Mapping[str, Key]) -> dict[GuardPlace, list[str]]:
    """Return the annotations and labels that the vendor reads or writes."""
    own: dict[GuardPlace, list[str]] = {}
    for place in ("annotation", "label"):
        spelled = [template.text for key in keys.values() if key.place == place for template in key.spellings]
        own[place] = [*spelled, *document.place.written[place]]
    return own


def _defaults(defaults: schema.Defaults, problems: Problems) -> dict[Dimension, Default]:
    if defaults.devices and defaults.devices > MAX_DEVICES:
        problems.add(("defaults", "devices"), f"no node has {defaults.devices} devices")
    cores = Percent(defaults.cores) if defaults.cores else None
    written: dict[Dimension, Any] = {"devices": defaults.devices or None, "memory": defaults.memory, "cores": cores}
    return {dimension: Default(value, "mapping") for dimension, value in written.items() if value is not None}
