"""Compiles a document to a vendor, and reports what the types of the schema cannot express."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from webhook.labels import PREFIX
from webhook.mapping.document.problem import FieldPath, MappingError, Problems
from webhook.mapping.model import schema
from webhook.mapping.model.guard import compile_guards
from webhook.mapping.model.keys import (
    VARIABLE,
    Derived,
    Key,
    Template,
    Variable,
    Variables,
    check_variables,
    compile_form,
    compile_key,
    in_dimensions,
)
from webhook.mapping.model.match_names import compile_lets_through
from webhook.mapping.model.shim import compile_shim
from webhook.mapping.model.variables import compile_variables
from webhook.mapping.model.vendor import Default, Owned, Vendor
from webhook.mapping.notation import Expression, NameSet, PatternError, expression
from webhook.request import Dimension, Percent

_LITERAL: Final = re.compile(r"[A-Za-z0-9]")
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
    _check_names(keys, problems)
    for key, template in ((each, template) for each in keys.values() for template in each.templates):
        _expression(template, document.variables, problems.at("keys", key.name, key.place))
    _check_count(keys, document, problems)
    forms = [
        compile_form(index, form, document.variables, keys, problems.at("forms", index))
        for index, form in enumerate(document.forms)
    ]
    defaults = _defaults(document.filled)
    form_names = [form.name for form in forms if form.reads]
    for name in {name for name in form_names if form_names.count(name) > 1}:
        problems.add(("forms",), f"two forms are called {name!r}")
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
    lets_through = compile_lets_through(document, keys, problems)
    return vendor.model_copy(update={"lets_through": lets_through})


def _variables(
    document: Vendor, keys: Collection[Key], own: Collection[str], problems: Problems
) -> dict[str, Variable]:
    used = {variable for key in keys for variable in (*key.variables, key.row_of)}
    others = (*document.marks, *document.all_hints, *(document.match.keys or ()))
    marks = {variable for name in others for variable in Template(name).variables}
    return compile_variables(document.variables, used, marks, own, problems)


def _derived(vendor: Vendor) -> dict[str, Any]:
    """What follows from the compiled keys, variables and forms."""
    keys = vendor.keys.values()
    by_dimension = {name: tuple(key.name for key in found) for name, found in in_dimensions(keys).items()}
    return {
        "by_dimension": by_dimension,
        "expressed": frozenset(filter(by_dimension.get, by_dimension)) | _implied(vendor),
        "system": vendor.served_by or _checked_system(vendor),
        "unreported": frozenset(name for name, key in vendor.keys.items() if key.unreported is not None),
        "annotation_keys": not any(key.of_container and key.place != "borrowed" for key in keys),
        "borrowed": {name.text: key for key in keys if key.place == "borrowed" for name in key.spellings},
    }


def _checked_system(vendor: Vendor) -> str:
    return next((source.system for source in vendor.sources), vendor.name)


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
        nothing = _LITERAL.search(VARIABLE.sub("", template.text)) is None
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


def _check_names_of_pods(vendor: Vendor, problems: Problems) -> None:
    """Check that what the vendor's pods have is not what its scheduler owns, or its guard denies."""
    _check_counted(vendor, problems)
    _check_owned(vendor, problems)
    maps = vendor.config_maps
    message = f"{maps} is among `owned`: it would be removed from pods that are not translated, too"
    problems.when(maps is not None and maps in vendor.owned.annotations, "configMaps", message)
    for place in ("annotation", "label"):
        spelled = [each.text for key in vendor.keys.values() if key.place == place for each in key.spellings]
        for name in vendor.guard.guarded((*spelled, *vendor.place.written[place]), place):
            message = f"the {place} {name} is guarded, but the mapping itself reads or writes it"
            problems.add(("guard",), message, "remove it; to deny values of a key, write a form with `deny`")
    runtime = vendor.place.runtime_class_name
    message = f"the runtimeClassName {runtime} is guarded, but the mapping itself writes it"
    wrong = runtime and vendor.guard.catch("runtimeClassName", runtime, place="field") is not None
    problems.when(wrong, "guard", message, "remove one of them")


def _check_texts(vendor: Vendor, problems: Problems) -> None:
    """Check that what tells pods with limits, or pods in which a borrowed name is read, is a text that is read."""
    texts = {name for name, key in vendor.keys.items() if key.kind == "text" and not key.of_container}
    unless = vendor.unlimited.unless if isinstance(vendor.unlimited, schema.Unlimited) else {}
    named: list[FieldPath] = [("unlimited", "unless", name) for name in unless]
    named += [("keys", key.name, "inPods", name) for key in vendor.keys.values() for name in key.in_pods]
    for path in named:
        hint = "write a label or annotation with `is: text`"
        problems.when(path[-1] not in texts, path, f"no text of the pod is called {str(path[-1])!r}", hint)


def _placed(place: schema.Place) -> Iterator[str]:
    """Yield the names that the vendor's pods get, which belong to it, too; of node labels with values."""
    for where, written in place.written.items():
        yield from (f"{key}={value}" if where == "nodeSelector" else key for key, value in written.items())
    yield from (toleration.key for toleration in place.tolerations if toleration.key)


def _check_names(keys: Mapping[str, Key], problems: Problems) -> None:
    """Report names with two meanings."""
    seen: dict[tuple[str, str], str] = {}
    for key, template in ((each, template) for each in keys.values() for template in each.spellings):
        other = seen.setdefault((key.place, template.text), key.name)
        problems.when(other != key.name, ("keys", key.name), f"{template.text} is already the key {other!r}")


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


def _check_owned(vendor: Vendor, problems: Problems) -> None:
    """Report keys that are among the marks of a scheduler: they would be stripped."""
    marks: dict[str, NameSet] = {"label": vendor.owned.labels, "annotation": vendor.owned.annotations}
    for key, template in ((each, template) for each in vendor.keys.values() for template in each.spellings):
        message = f"{template.text} is the key {key.name!r}: it would be stripped before it is read"
        problems.when(template.text in marks.get(key.place, ()), "owned", message)
    _check_placed(vendor, marks, problems)


def _check_placed(vendor: Vendor, marks: Mapping[str, NameSet], problems: Problems) -> None:
    """Report the same of what pods get; or that it is ours."""
    for place, written in vendor.place.written.items():
        for name in written if place in marks else ():
            path = ("place", f"{place}s", name)
            if name.startswith(PREFIX):
                problems.add(path, f"{name} is for users and this webhook only", "leave it out")
            elif name in marks[place]:
                problems.add(path, f"{name} is among `owned`: it would be removed again")
    lost = [name for _, name in vendor.selects if name and name in vendor.owned.annotations]
    problems.when(bool(lost), ("selects",), f"{' and '.join(lost)}: among `owned`, and so removed unread")


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


def _defaults(defaults: schema.Defaults) -> dict[Dimension, Default]:
    cores = Percent(defaults.cores) if defaults.cores else None
    written: dict[Dimension, Any] = {"devices": defaults.devices or None, "memory": defaults.memory, "cores": cores}
    return {dimension: Default(value, "mapping") for dimension, value in written.items() if value is not None}
