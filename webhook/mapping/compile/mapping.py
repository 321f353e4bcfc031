"""Document → vendor: a validated mapping compiled into immutable values, or the problems that stand in the way."""

from collections.abc import Collection, Mapping
from typing import Final

from webhook.mapping.compile.forms import FormCompiler
from webhook.mapping.compile.keys import compile_key
from webhook.mapping.compile.problems import Problems
from webhook.mapping.compile.variables import compile_variables
from webhook.mapping.document import schema
from webhook.mapping.document.key_template import Template
from webhook.mapping.document.problem import MappingError, Path, Problem
from webhook.mapping.model.guard import compile_guards, guards_own_keys
from webhook.mapping.model.guard_rule import GuardPlace
from webhook.mapping.model.match_names import compile_lets_through
from webhook.mapping.model.owned import Owned, compile_owned
from webhook.mapping.model.shim import compile_shim
from webhook.mapping.model.vendor import Default, Key, Vendor
from webhook.mapping.notation.pattern import PatternError, check, expression
from webhook.request import DIMENSIONS, MAX_DEVICES, Dimension, Percent, Size

MAX_NAMES: Final = 2048
"""Most names that one document lists."""


def compile_vendor(document: schema.Mapping, source: str, overridden: frozenset[Path] = frozenset()) -> Vendor:
    """The vendor that a document describes; the arguments are those of `draft_vendor`.

    Raises:
        MappingError: a rule of the schema that its types cannot express is broken; all problems at once.
    """
    vendor, problems = draft_vendor(document, source, overridden)
    if vendor is None or problems:
        raise MappingError(problems)
    return vendor


def draft_vendor(
    document: schema.Mapping, source: str, overridden: frozenset[Path] = frozenset()
) -> tuple[Vendor | None, tuple[Problem, ...]]:
    """The vendor that a document describes as far as it can be made out, and every problem; fit for use only without any.

    Args:
        document: validated by the schema.
        source: where it came from, for messages.
        overridden: the paths in which it differs from what it extends.
    """
    problems = Problems(source)
    try:
        return _compiled(document, source, overridden, problems), problems.found
    except Exception:
        # What goes wrong after a mistake most probably follows from it.
        if problems.found:
            return None, problems.found
        raise


def _compiled(document: schema.Mapping, source: str, overridden: frozenset[Path], problems: Problems) -> Vendor:
    words = {name: compile_key(name, word, document.variables, problems) for name, word in document.keys.items()}
    keys = {key for word in words.values() for key in (*word.variables, word.picks)}
    variables = compile_variables(document.variables, keys, problems)
    _check_names(words, problems)
    if not any(problem.path[:1] == ("variables",) for problem in problems.found):  # patterns of names are made of them
        _check_patterns(words, document, problems)
    _check_count(words, document, problems)
    by_dimension: dict[Dimension, tuple[str, ...]] = {
        dimension: tuple(name for name, word in words.items() if dimension in word.dimensions)
        for dimension in DIMENSIONS
    }
    compiler = FormCompiler(document, words, by_dimension, problems)
    forms = tuple(compiler.compile(index, form) for index, form in enumerate(document.forms))
    defaults = _defaults(document.defaults, problems)
    form_names = [form.name for form in forms if form.reads]
    for name in {name for name in form_names if form_names.count(name) > 1}:
        problems.add(("forms",), f"two forms are called {name!r}")
    _check_rows(document, words, form_names, problems)
    shim = None
    if document.shim is not None:
        shim, found = compile_shim(document.shim, form_names, ("shim",))
        problems.extend(found)
    guard, found = compile_guards(document.guard, shim, ("guard",))
    problems.extend(found)
    owned, found = compile_owned(document.owned, document.hints, document.variables, ("owned",))
    problems.extend(found)
    for variable, said in document.environment.items():
        if said is not None and said not in words:
            problems.add(("environment", variable), f"no key is called {said!r}", f"words are {', '.join(words)}")
    for word in words.values():
        if word.ceiling is not None and (word.ceiling[0] not in words or words[word.ceiling[0]].kind != "amount"):
            hint = f"words are {', '.join(words)}"
            problems.add(("keys", word.name, "ceiling", "of"), f"no amount is called {word.ceiling[0]!r}", hint)
    _check_unrenamed(document, problems)
    _check_owned(owned, words, problems)
    if document.config_maps is not None and document.config_maps in owned.annotations:
        problems.add(("configMaps",), f"{document.config_maps} is among `owned`, and would be removed at home, too")
    problems.extend([*guards_own_keys(guard, _own_keys(document, words), ("guard",))])
    lets_through, found = compile_lets_through(document, words)
    problems.extend(found)
    return Vendor(
        name=document.vendor,
        family=document.family,
        document=document,
        source=source,
        keys=words,
        variables=variables,
        forms=forms,
        by_dimension=by_dimension,
        annotation_words=not any(word.place == "resource" for word in words.values()),
        defaults=defaults,
        translate_to=document.translate_to,
        drop=tuple(document.drop),
        containers=document.containers,
        together=document.together,
        serves_init=document.init_containers == "served",
        refuses_init=document.init_containers == "refused",
        copies=document.copies,
        inactive=document.inactive,
        target=document.target,
        place=document.place,
        shim=shim,
        guard=guard,
        owned=owned,
        owned_by=tuple(document.owned_by),
        lets_through=lets_through,
        privileged_allowed=document.privileged == "allow",
        overridden=overridden,
    )


def _check_names(words: Mapping[str, Key], problems: Problems) -> None:
    """One key says one thing."""
    seen: dict[tuple[str, str], str] = {}
    for word in words.values():
        for template in word.spellings:
            other = seen.setdefault((word.place, template.text), word.name)
            if other != word.name:
                problems.add(("keys", word.name), f"{template.text} is the key {other!r} already")


def _check_patterns(words: Mapping[str, Key], document: schema.Mapping, problems: Problems) -> None:
    """The patterns that keys and variables make can be matched."""
    for word in words.values():
        for template in word.templates:
            pattern = template.pattern(document.variables)
            try:
                if pattern is not None:
                    expression(pattern)
            except PatternError as error:
                problems.add(("keys", word.name, word.place), f"the pattern of {template.text} {error}")


def _check_count(words: Mapping[str, Key], document: schema.Mapping, problems: Problems) -> None:
    """The names that keys and variables make can be listed; with more of them nothing further is looked at."""
    many = Problems("")
    marks = (one if isinstance(one, str) else one.label for one in document.owned)
    templates = [template for word in words.values() for template in word.templates]
    for path, listed in (
        (("keys",), templates),
        (("owned",), [*map(Template, marks)]),
        (("match", "keys"), [*map(Template, document.match.keys or ())]),
    ):
        count = sum(template.count(document.variables) for template in listed)
        if count > MAX_NAMES:
            message = f"with all that their variables can be, these are {count} names"
            many.add(path, message, f"at most {MAX_NAMES} are permitted")
    if many.found:
        problems.extend([*many.found])
        problems.stop_if_any()


def _check_rows(document: schema.Mapping, words: Collection[str], forms: Collection[str], problems: Problems) -> None:
    """The keys and forms that rows name exist."""
    for name, variable in document.variables.items():
        for key, row in (variable.rows or {}).items():
            path: Path = ("variables", name, "rows", key)
            for where, said in (("values", row.values), ("all", row.all)):
                for word in said.keys() - words:
                    problems.add((*path, where, word), f"no key is called {word!r}", f"words are {', '.join(words)}")
            for word, values in row.values.items():
                for form in (values.keys() if isinstance(values, dict) else set()) - set(forms):
                    listed = f"forms are {', '.join(forms)}"
                    problems.add((*path, "values", word, form), f"no form is called {form!r}", listed)


def _check_owned(owned: Owned, words: Mapping[str, Key], problems: Problems) -> None:
    """A key that is stripped as a scheduler's mark would never be read."""
    for word in words.values():
        stripped = {"label": owned.labels, "annotation": owned.annotations}.get(word.place, ())
        for template in word.spellings:
            if template.text in stripped:
                problems.add(("owned",), f"{template.text} is the key {word.name!r}: it would be stripped unread")


def _check_unrenamed(document: schema.Mapping, problems: Problems) -> None:
    for index, sign in enumerate(document.unrenamed):
        for label, pattern in sign.nodes.items():
            try:
                check(pattern)
            except PatternError as error:
                problems.add(("unrenamed", index, "nodes", label), f"the pattern {pattern!r} {error}")


def _own_keys(document: schema.Mapping, words: Mapping[str, Key]) -> dict[GuardPlace, list[str]]:
    """The annotations and labels that the vendor reads or writes."""
    spelled = [(word.place, template.text) for word in words.values() for template in word.spellings]
    return {
        "annotation": [*(key for place, key in spelled if place == "annotation"), *document.place.annotations],
        "label": [*(key for place, key in spelled if place == "label"), *document.place.labels],
    }


def _defaults(defaults: schema.Defaults, problems: Problems) -> dict[Dimension, Default]:
    compiled: dict[Dimension, Default] = {}
    if defaults.devices and defaults.devices > MAX_DEVICES:
        problems.add(("defaults", "devices"), f"no node has {defaults.devices} devices")
    if defaults.devices:
        compiled["devices"] = Default(defaults.devices, "mapping")
    memory = problems.default_memory(("defaults", "memory"), defaults.memory)
    if isinstance(memory, Size | Percent):
        compiled["memory"] = Default(memory, "mapping")
    if defaults.cores:
        compiled["cores"] = Default(Percent(defaults.cores), "mapping")
    return compiled
