"""Compiles a mapping document to a vendor, its keys, variables, forms, shim and guard; its mistakes become problems.

Also the names by which match conditions send a pod to the webhook, and the rules that keep ordinary pods away: the API server
sends a pod to the webhook if the pod carries one of these names, and rejects the pod while the webhook is down. So a document
must not match names that pods without a GPU carry, nor list so many names that the API server rejects the conditions.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from importlib import resources
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from webhook.labels import CLAIM, PREFIX
from webhook.mapping.document import FieldPath, MappingError, Problems, nearest_known, parse
from webhook.mapping.model.guard import compile_guards
from webhook.mapping.model.keys import (
    VARIABLE,
    Derived,
    Key,
    Row,
    Template,
    Variable,
    Variables,
    check_variables,
    compile_form,
    compile_key,
    in_dimensions,
)
from webhook.mapping.model.shim import compile_shim
from webhook.mapping.model.vendor import (
    KNOWN_PLACES,
    Default,
    Filled,
    LetsThrough,
    Owned,
    Placing,
    Unenforced,
    Vendor,
)
from webhook.mapping.notation import Expression, NameSet, PatternError, compile_glob, expression
from webhook.mapping.strict import Range, ordered
from webhook.pod import DEVICE_CLASS
from webhook.request import Dimension, Percent, Size

_LETTER: Final = re.compile(r"[A-Za-z0-9]")
MAX_NAMES: Final = 2048  # the most names that one document may list


def compile_vendor(document: Vendor, own: Collection[str], problems: Problems) -> Vendor:
    """Compile a document, which has its source, as far as possible; the vendor is usable only without problems.

    A problem is a rule of documents that the types of the schema cannot express. The variables that are the document's `own`
    have to have an effect: of one that it extends some may have lost theirs, as keys got other names.
    """
    device_class = None if document.claim is None else document.claim.device_class
    keys = {
        name: compile_key(name, key, document.variables, problems.at("keys", name), device_class)
        for name, key in document.keys.items()
    }
    variables = _variables(document, keys.values(), own, problems)
    _check_names(keys, document.variables, problems)
    _check_count(keys, document, problems)
    forms = [
        compile_form(index, form, document.variables, keys, problems.at("forms", index))
        for index, form in enumerate(document.forms)
    ]
    defaults = _defaults(document.filled)
    form_names = [form.name for form in forms if form.reads]
    for name, count in Counter(form_names).items():
        problems.when(count > 1, "forms", f"two forms are called {name!r}")
    _check_rows(document, keys, form_names, problems)
    shim = None if document.shim is None else compile_shim(document.shim, form_names, problems.at("shim"))
    guard = compile_guards(document.guarded, shim, problems)
    owned = _owned(document, problems)
    made = {"keys": keys, "variables": variables, "forms": forms, "shim": shim, "guard": guard, "owned": owned}
    vendor = document.model_copy(update={**made, "defaults": defaults})
    vendor = vendor.model_copy(update=_derived(vendor))
    _check_keys(vendor, problems)
    wrong = vendor.claim is not None and defaults
    problems.when(wrong, "defaults", "a vendor with claims is only a target: nothing is filled in", "remove it")
    _check_names_of_pods(vendor, problems)
    _check_further_names(vendor, problems)
    lets_through = _lets_through(document, keys, problems)
    return vendor.model_copy(update={"lets_through": lets_through})


def _derived(vendor: Vendor) -> dict[str, Any]:
    """What follows from the compiled keys, variables and forms."""
    keys = vendor.keys.values()
    by_dimension = {name: tuple(key.name for key in found) for name, found in in_dimensions(keys).items()}
    return {
        "by_dimension": by_dimension,
        "expressed": frozenset(filter(by_dimension.get, by_dimension)) | _implied(vendor),
        "unreported": frozenset(name for name, key in vendor.keys.items() if key.unreported is not None),
        "annotation_keys": not any(key.of_container and key.place != "borrowed" for key in keys),
        "borrowed": {name.text: key for key in keys if key.place == "borrowed" for name in key.spellings},
    }


def _implied(vendor: Vendor) -> set[Dimension]:
    """The dimensions that forms or rows of names imply."""
    rows = [row for variable in vendor.variables.values() for row in variable.rows.values()]
    implied: set[Dimension] = {"devices"} if any(isinstance(form.devices, Derived) for form in vendor.forms) else set()
    amounts: tuple[Dimension, ...] = ("memory", "cores")
    return implied.union(name for name in amounts if any(getattr(row, name) for row in rows))


def _owned(document: Vendor, problems: Problems) -> Owned:
    """Compile the marks, hints and belongings of a document; the result is usable only without problems."""
    own = dict(enumerate(document.own))
    groups: tuple[dict[FieldPath, str], ...] = (
        {("owned", i): entry for i, entry in own.items() if isinstance(entry, str)},
        {("owned", i, "label"): entry.label for i, entry in own.items() if not isinstance(entry, str)},
        {("hints", i): entry for i, entry in enumerate(document.all_hints)},
        {("belongs", i): entry for i, entry in enumerate((*document.belongs, *_placed(document.place)))},
    )
    return Owned(*(_name_set(group, document.variables, problems) for group in groups))


def _name_set(keys: Mapping[FieldPath, str], variables: Variables, problems: Problems) -> NameSet:
    """Compile keys, which are by their path; add what is wrong with them to `problems`."""
    names: list[str] = []
    expressions: list[Expression | None] = []
    for path, template in ((path, Template(key)) for path, key in keys.items()):
        here = problems.at(*path)
        check_variables([template], variables, here)
        nothing = _LETTER.search(VARIABLE.sub("", template.text)) is None
        here.when(nothing, (), f"{template.text!r} matches every key", "write a part of the key itself")
        names += (name for name, _ in template.names(variables))
        expressions.append(_expression(template, variables, here))
    return NameSet.of(names, filter(None, expressions))


def _expression(template: Template, variables: Variables, problems: Problems) -> Expression | None:
    """Compile the pattern of a name; None if it has none."""
    pattern = template.pattern(variables)
    try:
        return None if pattern is None else expression(pattern)
    except PatternError as error:
        problems.add((), f"the pattern of {template.text} {error}")
        return None


def _check_keys(vendor: Vendor, problems: Problems) -> None:
    """Check what names keys, or may be in some of them only."""
    keys = vendor.keys
    for variable, counted in vendor.environment.items():
        if counted is not None:
            problems.unknown(("environment", variable), "key", counted, keys)
    amounts = {name for name, key in keys.items() if key.kind == "amount"}
    for key in keys.values():
        if key.ceiling is not None:
            problems.unknown(("keys", key.name, "ceiling", "of"), "amount", key.ceiling.of, amounts)
    _check_texts(vendor, problems)
    _check_totals(vendor, problems)
    _check_counted(vendor, problems)


def _check_names_of_pods(vendor: Vendor, problems: Problems) -> None:
    """Check that labels and annotations that pods have are not what the scheduler owns, the guard denies, or ours."""
    marks: dict[Literal["label", "annotation"], NameSet]
    marks = {"label": vendor.owned.labels, "annotation": vendor.owned.annotations}
    for place, marked in marks.items():
        written, keys = vendor.place.written[place], [key for key in vendor.keys.values() if key.place == place]
        spelled = {template.text: key.name for key in keys for template in key.spellings}
        for name in marked.among(spelled):
            problems.add("owned", f"{name} is the key {spelled[name]!r}: it would be stripped before it is read")
        for name in written:
            here, ours = problems.at("place", f"{place}s", name), name.startswith(PREFIX)
            here.when(ours, (), f"{name} is for users and this webhook only", "leave it out")
            here.when(name in marked and not ours, (), f"{name} is among `owned`: it would be removed again")
        for name in vendor.guard.guarded((*spelled, *written), place):
            message = f"the {place} {name} is guarded, but the mapping itself reads or writes it"
            problems.add("guard", message, "remove it; to deny values of a key, write a form with `deny`")


def _check_further_names(vendor: Vendor, problems: Problems) -> None:
    """Check that what is read or written by name elsewhere is neither among `owned` nor guarded."""
    owned, maps, runtime = vendor.owned.annotations, vendor.config_maps, vendor.place.runtime_class_name
    lost = [name for _, name in vendor.selects if name and name in owned]
    problems.when(lost, "selects", f"{' and '.join(lost)}: among `owned`, and so removed unread")
    message = f"{maps} is among `owned`: it would be removed from pods that are not translated, too"
    problems.when(maps is not None and maps in owned, "configMaps", message)
    message = f"the runtimeClassName {runtime} is guarded, but the mapping itself writes it"
    wrong = runtime and vendor.guard.catch("runtimeClassName", runtime, place="field") is not None
    problems.when(wrong, "guard", message, "remove one of them")


def _check_texts(vendor: Vendor, problems: Problems) -> None:
    """Check that what tells pods with limits, or pods in which a borrowed name is read, is a text that is read."""
    texts = {name for name, key in vendor.keys.items() if key.kind == "text" and not key.of_container}
    unless = vendor.unlimited.unless if isinstance(vendor.unlimited, Unenforced) else {}
    named: list[FieldPath] = [("unlimited", "unless", name) for name in unless]
    named += [("keys", key.name, "inPods", name) for key in vendor.keys.values() for name in key.in_pods]
    for path in named:
        hint = "write a label or annotation with `is: text`"
        problems.when(path[-1] not in texts, path, f"no text of the pod is called {str(path[-1])!r}", hint)


def _placed(place: Placing) -> Iterator[str]:
    """Yield the names that the vendor's pods get, which belong to it, too; of node labels with values."""
    for where, written in place.written.items():
        yield from (f"{key}={value}" if where == "nodeSelector" else key for key, value in written.items())
    yield from (toleration.key for toleration in place.tolerations if toleration.key)


def _check_names(keys: Mapping[str, Key], variables: Variables, problems: Problems) -> None:
    """Report names with two meanings, and those that make too large a pattern."""
    seen: dict[tuple[str, str], str] = {}
    for name, key in keys.items():
        for template in key.spellings:
            other = seen.setdefault((key.place, template.text), name)
            problems.when(other != name, ("keys", name), f"{template.text} is already the key {other!r}")
        for template in key.templates:
            _expression(template, variables, problems.at("keys", name, key.place))


def _check_count(keys: Mapping[str, Key], document: Vendor, problems: Problems) -> None:
    """Stop compiling if keys and variables make too many names."""
    found = len(problems.found)
    listed: dict[FieldPath, Iterable[Template]] = {
        ("keys",): [template for key in keys.values() for template in key.templates],
        ("owned",): map(Template, document.marks),
        ("hints",): map(Template, document.all_hints),
        ("match", "keys"): map(Template, document.match.keys or ()),
    }
    for path, templates in listed.items():
        count = sum(template.count(document.variables) for template in templates)
        message = f"the values of their variables make {count} names"
        problems.when(count > MAX_NAMES, path, message, f"at most {MAX_NAMES} are allowed")
    if len(problems.found) > found:
        raise MappingError(problems.found)


def _check_rows(document: Vendor, keys: Collection[str], forms: Collection[str], problems: Problems) -> None:
    """Report keys and forms in rows that do not exist."""
    rows = [(name, *each) for name, variable in document.variables.items() for each in (variable.table or {}).items()]
    for name, value, row in rows:
        here = problems.at("variables", name, "rows", value)
        for where, numbers in (("values", row.values), ("all", row.all)):
            for key in numbers.keys() - keys:
                here.unknown((where, key), "key", key, keys)
        for key, values in row.values.items():
            for form in (values.keys() if isinstance(values, Mapping) else set()) - set(forms):
                here.unknown(("values", key, form), "form", form, forms)


def _check_totals(vendor: Vendor, problems: Problems) -> None:
    """Report totals of a pod without a rule for its containers: each that requests would get all of it."""
    for key in vendor.keys.values() if "containers" not in vendor.model_fields_set else ():
        of_pod = key.place in {"label", "annotation"} and not (key.per_container or key.listed)
        if of_pod and key.total and not {"memory", "cores"}.isdisjoint(key.dimensions):
            message = "a total over the devices of a pod needs `containers`: which of its containers request"
            hint = "write beside `keys` `containers: one`, `shared`, or `any` if each of them gets the whole number"
            problems.add(("keys", key.name, "total"), message, hint)


def _check_counted(vendor: Vendor, problems: Problems) -> None:
    """Report capacities that nobody would limit: neither the driver, nor a variable of the shim."""
    variables = "" if vendor.shim is None or vendor.shim.mode == "plugin" else " ".join(vendor.shim.env.values())
    for name, key in vendor.keys.items():
        wrong, message = f"{{{key.specifies}}}" not in variables, f"no variable of the shim has {{{key.specifies}}}"
        problems.when(wrong and not key.counted, ("keys", name, "counted"), message, "add one, or drop it")


def _defaults(defaults: Filled) -> dict[Dimension, Default]:
    cores = Percent(defaults.cores) if defaults.cores else None
    written: dict[Dimension, Any] = {"devices": defaults.devices or None, "memory": defaults.memory, "cores": cores}
    return {dimension: Default(value, "mapping") for dimension, value in written.items() if value is not None}


def _variables(
    document: Vendor, keys: Collection[Key], own: Collection[str], problems: Problems
) -> dict[str, Variable]:
    """Compile the variable parts of names, with their rows."""
    variables, marks, compiled = document.variables, _variables_of_marks(document), dict[str, Variable]()
    used = {variable for key in keys for variable in (*key.variables, key.row_of)}
    empty, unused = _empty(variables, used, problems), {*own} - used
    for name, variable in variables.items():
        if name in empty:
            continue
        here, everywhere = problems.at("variables", name), variable.table is not None and name not in used
        compiled[name] = _compiled(variable, here).model_copy(update={"name": name, "everywhere": everywhere})
        if everywhere:
            _check_row_of_all(compiled[name], variables, here)
        elif name in unused and (variable.write or name not in marks):
            # Nothing is written with it, and only marks are read with it.
            here.add((), f"has no effect: no key contains {{{name}}}", "add it to a key, or remove it")
    return compiled


def _variables_of_marks(document: Vendor) -> set[str]:
    """Those in names that only a scheduler writes, and in hints."""
    names = (*document.marks, *document.all_hints, *(document.match.keys or ()))
    return {variable for name in names for variable in Template(name).variables}


def _empty(variables: Variables, keys: Collection[str | None], problems: Problems) -> set[str]:
    """Report variables without values: their names are perhaps misspelled."""
    empty = {name for name, variable in variables.items() if variable.values is None and variable.table is None}
    for name in sorted(empty):
        others = {*variables, *filter(None, keys)} - empty - {name}
        hint = nearest_known(name, others) if others else None
        problems.add(("variables", name), "needs `values` or `rows`", hint)
    return empty


def _check_row_of_all(variable: Variable, variables: Variables, problems: Problems) -> None:
    """Check a variable with rows that is in no key: it defines the size of every device, and no other variable may, too."""
    name = variable.name
    others = [other for other, each in variables.items() if each.table is not None and other != name]
    message = f"is in no key, so its row is the size of every device; so are the rows of {', '.join(others)}"
    problems.when(others, (), message, f"keep the rows of one of them, or add `{{{name}}}` to a key")
    message = "only one value is allowed: the variable is in no key, so all devices are alike"
    problems.when(variable.write[1:], "write", message, "keep one of them")


def _compiled(variable: Variable, problems: Problems) -> Variable:
    table = variable.table or {}
    known = sorted({model for row in table.values() for model in _models_of(row)})
    for model in variable.models:
        # None is offered as the likely one: one that reads alike is another device.
        hint = f"known are {', '.join(known)}" if known else "remove it: no row has amounts by model"
        problems.when(model not in known, "model", f"no row knows the model {model!r}", hint)
    models = frozenset(variable.models).intersection(known)
    rows = {key: _row(row, models, problems.at("rows", key)) for key, row in table.items()}
    available = {key: row for key, row in rows.items() if row is not None}
    choices, on = variable.listed if variable.table is None else [*available], " or ".join(models)
    for value in variable.write if choices or table else ():
        message, hint = f"{value!r} is no value{on and f' on {on}'}", f"available are {', '.join(choices)}"
        problems.when(value not in choices, "write", message, hint)
    others = {key: _models_of(row) for key, row in table.items() if key not in available}
    return variable.model_copy(update={"rows": available, "of_other_models": others})


def _by_model(row: Row) -> list[Mapping[str, Range]]:
    """Return the amounts of a row that differ by model."""
    return [amounts for amounts in (row.sizes, row.shares) if isinstance(amounts, dict)]


def _models_of(row: Row) -> tuple[str, ...]:
    """Return the models for which a row has amounts."""
    return tuple(dict.fromkeys(model for amounts in _by_model(row) for model in amounts))


def _row(row: Row, models: frozenset[str], problems: Problems) -> Row | None:
    """Compile a row for these models, or for all; None if none of the models has it."""
    by_model = _by_model(row)
    lacking = set(by_model[0]).symmetric_difference(by_model[-1]) if by_model else set()
    message = f"`memory` and `cores` name different models: only one has {', '.join(sorted(lacking))}"
    problems.when(lacking, (), message)
    memory, cores = _range("memory", row.sizes, models, problems), _range("cores", row.shares, models, problems)
    if models and by_model and not models & by_model[0].keys():
        return None
    most, least = (None if isinstance(amount, Size) else amount for amount in (cores.most, cores.least))
    amounts = {"memory": memory.most, "least": memory.least, "cores": most, "least_cores": least}
    return row.model_copy(update=amounts)


def _range(key: str, amounts: Range | Mapping[str, Range] | None, models: frozenset[str], problems: Problems) -> Range:
    """Return the range over the models."""
    if not isinstance(amounts, Mapping):
        return amounts or Range()
    found = [amounts[model] for model in amounts if not models or model in models]
    lows, highs = zip(*found or [Range()], strict=True)
    least, most = ordered(lows), ordered(highs)
    if least and most:
        return Range(least[0], most[-1])
    hint = "write sizes or percentages for all, or the same word"
    problems.when(None not in highs, key, "the amounts of the models cannot be compared", hint)
    return Range()


BESIDE: Final = 8  # Letters of an expression for each listed name, beside the name itself
LEAST: Final = 6  # Letters that a key without a domain begins with, at least: ordinary pods carry shorter ones
_DNS: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_END_OF_DOMAIN: Final = re.compile(r"(?:[a-z0-9.-]*\.)?[a-z0-9-]+\.[a-z0-9-]+")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9._-]*")
_KUBERNETES: Final = ("kubernetes.io", "k8s.io")  # domains that, with their subdomains, are reserved for Kubernetes


class _Found(NamedTuple):
    """A name or pattern in a document (``*`` matches any text), and its path."""

    kind: Literal["device", "foreign", "prefix", "key"]  # a key is that of a label or annotation
    glob: str
    path: FieldPath
    lets_through: bool = True  # whether it lets pods through


def _lets_through(document: Vendor, keys: Mapping[str, Key], problems: Problems) -> LetsThrough:
    """Compile the names that let a pod through; the result is usable only without problems."""
    named = list(_named(document, keys))
    found = list(dict.fromkeys([*named, *_prefixes(document, named)]))
    for kind, check in _CHECKS.items():
        for each in (each for each in found if each.kind == kind):
            for message, hint in check(each.glob):
                problems.add(each.path, message, hint)
    globs = {kind: [each.glob for each in found if each.kind == kind and each.lets_through] for kind in _CHECKS}
    # A share of a class may be claimed by a resource name that is no key; a pod whose request became a claim has no other.
    classes, claims = ([f"{DEVICE_CLASS}{document.claim.device_class}"], [CLAIM]) if document.claim else ([], [])
    made = LetsThrough(
        prefixes=tuple(globs["prefix"]),
        resources=(*globs["device"], *globs["foreign"], *classes),
        keys=tuple(sorted({*globs["key"], *claims})),
    )
    beyond = Capacity(MAX_PER_DOCUMENT).take(made)
    if beyond:
        places = Counter(each.path[:2] if each.path[0] == "match" else each.path[:1] for each in found)
        path = places.most_common(1)[0][0]
        problems.add(path, f"the names that let pods through would be {beyond}", "leave out some of them")
    return made


def _named(document: Vendor, keys: Mapping[str, Key]) -> Iterator[_Found]:
    """Yield the names of keys, the marks of schedulers, and the reported names of other systems."""
    for key in keys.values():
        kind: Literal["device", "key"] = "device" if key.place == "resource" else "key"
        for template in key.templates if key.place in KNOWN_PLACES else ():
            yield from (
                _Found(kind, glob, ("keys", key.name, key.place)) for glob in template.globs(document.variables)
            )
    yield from _marks(document)
    for each in document.names_of_others():
        if each.report and "*" not in each.name:
            path = ("known", each.position, each.place)
            yield _Found("foreign" if each.place == "resource" else "key", each.name, path)


def _prefixes(document: Vendor, named: Iterable[_Found]) -> Iterator[_Found]:
    """The prefixes of resource names, or the domains of keys beside them, where misspelled ones are looked for."""
    for i, glob in enumerate(document.match.resources or ()):
        yield _Found("prefix", glob, ("match", "resources", i))
    below: dict[str, FieldPath] = {}
    for each in named if not document.match.resources else ():
        domain, slash, _ = each.glob.partition("/")
        if each.kind == "device" and slash and "*" not in domain:
            below.setdefault(f"{domain}/", each.path)
    yield from (_Found("prefix", domain, path) for domain, path in below.items())


def _marks(document: Vendor) -> Iterator[_Found]:
    """The marks, and what stands under `match` in their place."""
    instead = document.match.keys
    written: dict[FieldPath, str] = {("owned", i): mark for i, mark in enumerate(document.marks)}
    written |= {("match", "keys", i): key for i, key in enumerate(instead or ())}
    for path, text in written.items():
        for glob in Template(text).globs(document.variables):
            # One that could be any key of a domain matters only beside a key of the vendor, and that lets the pod through.
            narrow = _LETTER.search(glob.rpartition("/")[2]) is not None
            yield _Found("key", glob, path, narrow and (instead is None or path[0] == "match"))


_Wrong: TypeAlias = Iterator[tuple[str, str | None]]  # what is wrong with a name, and a hint


def _resource_problems(name: str, *, foreign: bool = False) -> _Wrong:
    """A whole name of another system may be below any domain, even Kubernetes' own."""
    if "/" not in name:
        yield f"{name!r} has no domain, like the resources of every pod", "write `example.com/name`"
    elif not foreign:
        yield from _domain_problems(name)
    elif name in _ordinary()["resources"]:
        yield f"{name} would hold back pods without a GPU", "leave it out"


def _prefix_problems(name: str) -> _Wrong:
    if _PREFIX.fullmatch(name) is None:
        hint = "write a domain, a slash, and how the names go on: `example.com/gpu-`"
        yield f"{name!r} is not a prefix of device names", hint
        return
    yield from _domain_problems(name)
    taken = next((resource for resource in _ordinary()["resources"] if resource.startswith(name)), None)
    if taken is not None:
        hint = "write how the names of GPUs go on: `match: {resources: [example.com/gpu-]}`"
        yield f"{name}* would hold back pods without a GPU: {taken} is such a name", hint


def _key_problems(name: str) -> _Wrong:
    if "/" not in name and len(name.partition("*")[0]) < LEAST:
        message = f"{name!r} would hold back ordinary pods: it has no domain, and begins with too few letters"
        yield message, f"write the domain, or {LEAST} letters and more"
        return
    if "/" in name:
        yield from _domain_problems(name)
    taken = _ordinary_key(name)
    if taken is not None:
        yield f"{name!r} would hold back ordinary pods: {taken} is on many of them", None


def _domain_problems(name: str) -> _Wrong:
    domain = name.partition("/")[0]
    end = domain.rpartition("*")[2]
    if "*" not in domain and _DNS.fullmatch(domain) is None:
        yield f"{domain!r} is not a domain", None
    elif "*" in domain and _END_OF_DOMAIN.fullmatch(end) is None:
        yield f"{name!r} would be names of any domain", "write the end of the domain itself"
        return
    for own in _KUBERNETES:
        if f".{end}".endswith(f".{own}") or ("*" in domain and own.endswith(end)):
            taken = end.lstrip(".") if end.endswith(own) else own
            yield f"{name}: {taken} is Kubernetes' own", "use a domain of the vendor"
            return


_CHECKS: Final[Mapping[str, Callable[[str], _Wrong]]] = {
    "device": _resource_problems,
    "foreign": partial(_resource_problems, foreign=True),
    "prefix": _prefix_problems,
    "key": _key_problems,
}
"""By the kind of a name, what may be wrong with it."""


@lru_cache(maxsize=4096)
def _ordinary_key(glob: str) -> str | None:
    """Return an ordinary key that the pattern matches, or None."""
    keys = _ordinary()["keys"]
    if "*" not in glob:
        return glob if glob in keys else None
    near = [key for key in keys if key.startswith(glob.partition("*")[0])]
    # An expression takes time to compile.
    return next(filter(compile_glob(glob).fullmatch, near), None) if near else None


@cache
def _ordinary() -> Mapping[str, Any]:
    text = (resources.files("webhook.mapping") / "ordinary.yaml").read_text()
    (document,) = parse(text, "ordinary.yaml")
    return document.data


class MatchLoad(NamedTuple):
    """The size of names in match conditions, or the limit for it."""

    characters: int = 0
    patterns: int = 0
    prefixes: int = 0


_UNITS: Final = (
    "characters of a match condition",
    "characters of patterns in a match condition",
    "prefixes of resource names",
)

MOST: Final = MatchLoad(characters=95_000, patterns=2_000, prefixes=32)
"""The limits for all documents together. A CEL expression of the API server has at most 100,000 code points, not all for
names. Patterns and prefixes cost time for each key and name of a pod, and the API server rejects a pod beyond its budget."""

MAX_PER_DOCUMENT: Final = MatchLoad(characters=25_000, patterns=500, prefixes=16)  # the limits for one document


class Capacity:
    """What match conditions can still hold while documents are added one after the other."""

    def __init__(self, most: MatchLoad = MOST) -> None:
        self._most = most
        self._load = MatchLoad()
        self._prefixes: set[str] = set()
        self._names: set[str] = set()

    def take(self, names: LetsThrough) -> str:
        """Add names; if they exceed a limit, leave them out and return what is exceeded, as the end of a sentence."""
        prefixes, added = {*names.prefixes} - self._prefixes, {*names.resources, *names.keys} - self._names
        # In the expression a dot becomes three characters, a star two.
        patterns = sum(len(name) + 2 * name.count(".") + name.count("*") + 1 for name in added if "*" in name)
        # Each name is listed as a key and as a resource: users also write it in a wrong place. A domain covers its resources.
        below = prefixes | self._prefixes
        twice = [name for name in added if f"{name.partition('/')[0]}/" not in below]
        lists = sum(len(name) + BESIDE for name in (*prefixes, *added, *twice))
        more = (lists + patterns, patterns, sum(not prefix.endswith("/") for prefix in prefixes))
        load = MatchLoad(*map(sum, zip(self._load, more, strict=True)))
        beyond = " and ".join(
            f"{number} {unit}, more than {limit}"
            for number, unit, limit in zip(load, _UNITS, self._most, strict=True)
            if number > limit
        )
        if not beyond:
            self._load = load
            self._prefixes |= prefixes
            self._names |= added
        return beyond
