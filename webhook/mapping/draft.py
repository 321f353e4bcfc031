"""One document → one vendor, apart from all others: merged, validated, compiled, probed. Also the built-in documents."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Final

from webhook.mapping.compile.mapping import draft_vendor
from webhook.mapping.compile.probes import probe
from webhook.mapping.document import schema
from webhook.mapping.document.extends import EXTENDS, Merged, inherited_names, merge, resolve, unknown_variables
from webhook.mapping.document.problem import MappingError, Problem, problems_of
from webhook.mapping.document.strict_yaml import Document, parse
from webhook.mapping.document.validation import follows_from, placed, remainder, validated
from webhook.mapping.model.vendor import BUILT_IN, Vendor

_FORM: Final = 2
"""The length of the path of a form."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document without problems of its own.

    Attributes:
        merged: the document, merged with the one that it extends.
        vendor: the compiled vendor.
    """

    merged: Merged
    vendor: Vendor


@dataclass(frozen=True, slots=True)
class Draft:
    """A document, compiled as far as possible, with all its problems.

    Attributes:
        prepared: to check it against other documents; None if nothing could be compiled.
        problems: its problems; it is usable only without any.
    """

    prepared: Prepared | None
    problems: tuple[Problem, ...] = ()


def prepare(document: Document) -> Prepared:
    """Merge, validate and compile a document; it is not yet probed, nor checked against others.

    Raises:
        MappingError: all problems of the document.
    """
    draft = drafted(document)
    if draft.prepared is None or draft.problems:
        raise MappingError(draft.problems)
    return draft.prepared


def drafted(document: Document) -> Draft:
    """Prepare a document as far as possible, and collect all its problems; see `prepare`."""
    try:
        with problems_of(document.source, document.lines.get((), 1)):
            merged = merge(document, builtin())
            inherited = inherited_names(merged, builtin())
            unknown = unknown_variables(merged, builtin())
            vendor, further = _draft_of(merged)
    except MappingError as error:
        return Draft(None, error.problems)
    unknown_paths = {problem.path for problem in unknown}
    problems = (*unknown, *(problem for problem in further if problem.path not in unknown_paths))
    if vendor is None or inherited:
        return Draft(None, (*inherited, *problems))
    return Draft(Prepared(merged, vendor), problems)


def _draft_of(merged: Merged) -> tuple[Vendor | None, tuple[Problem, ...]]:
    """Compile a merged document as far as possible, and collect all its problems."""
    earlier: tuple[Problem, ...] = ()
    try:
        document = validated(schema.Mapping, merged.data, merged.document)
    except MappingError as error:
        earlier = error.problems
        rest = remainder(schema.Mapping, merged.data, earlier)
        if rest is None:
            return None, earlier
        document = rest
    try:
        vendor, found = draft_vendor(document, merged.document.source, merged.overridden)
    except Exception:
        if earlier:
            return None, earlier
        raise
    further = [placed(problem, merged.document) for problem in found if not follows_from(problem, earlier)]
    problems = [*earlier, *further]
    if any(problem.path[:1] in {("keys",), ("variables",)} for problem in problems):
        # What a form lacks may be what such a key would define.
        problems = [problem for problem in problems if problem.path[:1] != ("forms",) or len(problem.path) > _FORM]
    return vendor, tuple(problems)


def vendor_of(merged: Merged) -> Vendor:
    """Compile one merged document.

    Raises:
        MappingError: every problem of the document, with path, line and hint.
    """
    vendor, problems = _draft_of(merged)
    if vendor is None or problems:
        raise MappingError(problems)
    return vendor


def probed(prepared: Prepared, vendor: Vendor, largest_card: int) -> tuple[Problem, ...]:
    """Probe a document; `vendor` is its vendor in the policy, where it may be inactive."""
    document = prepared.merged.document
    try:
        with problems_of(document.source, document.lines.get((), 1)):
            return tuple(placed(problem, document) for problem in probe(vendor, largest_card))
    except MappingError as error:
        return error.problems


@cache
def builtin() -> Mapping[str, Document]:
    """Return the built-in documents by vendor; those that extend another one are merged with it."""
    folder = resources.files("webhook.mapping") / "builtin"
    documents = {
        document.data["vendor"]: document
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
        for document in parse(file.read_text(), BUILT_IN)
    }
    whole = {name: document for name, document in documents.items() if EXTENDS not in document.data}
    return {name: replace(document, data=dict(resolve(document, whole).data)) for name, document in documents.items()}


@cache
def builtin_vendors() -> Mapping[str, Vendor]:
    """Return the vendors of the built-in documents, by name."""
    return {name: vendor_of(Merged(document.data, document)) for name, document in builtin().items()}
