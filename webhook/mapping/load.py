"""Documents → policy: each document apart from others, the built-in ones, those of a folder, and the settings."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from webhook.mapping.document.problem import MappingError, Problem, Problems, bug, problems_of
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict_yaml import Document, parse
from webhook.mapping.document.validation import (
    follows_from,
    inherited_names,
    merge_documents,
    placed,
    validated_part,
)
from webhook.mapping.model.compiling import compile_vendor
from webhook.mapping.model.guard import guard_lists
from webhook.mapping.model.policy import MOST_MEMORY, SETTINGS, Policy, compile_policy
from webhook.mapping.model.vendor import BUILT_IN, Vendor
from webhook.mapping.requests.probes import probe

_FORM: Final = 2  # the length of the path of a form


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document without problems of its own, its data merged with the one that it extends, and its vendor."""

    document: Document
    data: Mapping[str, Any]
    vendor: Vendor


def prepare(document: Document) -> Prepared:
    """Merge, validate and compile a document; it is not yet probed, nor checked against others."""
    prepared, problems = drafted(document)
    if prepared is None or problems:
        raise MappingError(problems)
    return prepared


def drafted(document: Document) -> tuple[Prepared | None, tuple[Problem, ...]]:
    """Prepare a document as far as possible, and collect all its problems: it is usable only without any."""
    problems, vendor = Problems(), None
    try:
        with problems_of(document.source, document.lines.get((), 1)):
            data = merge_documents(document, builtin())
            inherited = inherited_names(document, data, builtin())
            model, earlier, removed = validated_part(Vendor, data, document)
            try:
                written = model and model.model_copy(update={"source": document.source})
                own = document.data.get("variables")
                vendor = written and compile_vendor(written, own if isinstance(own, dict) else (), problems)
            except Exception:
                # An error after a problem most probably follows from it.
                if not (earlier or problems.found):
                    raise
    except MappingError as error:
        return None, error.problems
    further = [placed(each, document) for each in dict.fromkeys(problems.found) if not follows_from(each, removed)]
    if any(problem.path[:1] in {("keys",), ("variables",)} for problem in (*earlier, *further)):
        # What a form lacks may be what such a key would define.
        further = [each for each in further if each.path[:1] != ("forms",) or len(each.path) > _FORM]
    found = (*inherited, *earlier, *further)
    return None if vendor is None or inherited else Prepared(document, data, vendor), found


def probed(prepared: Prepared, vendor: Vendor, largest_card: int) -> tuple[Problem, ...]:
    """Probe a document; `vendor` is its vendor in the policy, where it may be inactive."""
    document = prepared.document
    try:
        with problems_of(document.source, document.lines.get((), 1)):
            return tuple(placed(problem, document) for problem in probe(vendor, largest_card))
    except MappingError as error:
        return error.problems


class _BuiltIn(Mapping[str, Document]):
    """The built-in documents by vendor, each read anew from its file, which has the vendor's name.

    Once all are compiled, only documents that extend one need its data: a replica would hold most of a MiB for nothing.
    """

    def __getitem__(self, vendor: str) -> Document:
        """Return a document; if it extends another one, merged with it."""
        document = _built_in(vendor)
        return replace(document, data=merge_documents(document, self))

    def __iter__(self) -> Iterator[str]:
        return iter(_built_in_files())

    def __len__(self) -> int:
        return len(_built_in_files())


@cache
def _built_in_files() -> Mapping[str, Traversable]:
    folder = resources.files("webhook.mapping") / "builtin"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".yaml"): file for file in files if file.name.endswith(".yaml")}


@lru_cache(maxsize=1)
def _built_in(vendor: str) -> Document:
    (document,) = parse(_built_in_files()[vendor].read_text(), BUILT_IN)
    return document


def builtin() -> Mapping[str, Document]:
    """Return the built-in documents by vendor; those that extend another one are merged with it."""
    return _BuiltIn()


@cache
def _compiled() -> Mapping[str, tuple[Vendor, str]]:
    """Return the vendor of each built-in document, and the text of its data."""
    return {name: (prepare(document).vendor, _text_of(document.data)) for name, document in builtin().items()}


_NAMING: Final = frozenset({"translateTo", "copies", "claim", "target", "served", "owners"})
"""Keys whose values name vendors; so do families, as keys of `largestDevice`."""


def load_policy(mappings: Path | None = None, settings: Path | None = None) -> Policy:
    """Load the policy of the built-in mappings and the documents of a folder or file, which replace vendors or add some.

    Raises:
        MappingError: a document is invalid; all problems of all documents at once.
        OSError: a file cannot be read.
    """
    return build_policy(documents_in(mappings), settings_in(settings))


def documents_in(path: Path | None) -> list[Document]:
    """Read the mapping documents of a folder (in the order of the file names) or of one file."""
    if path is None:
        return []
    files = sorted(file for file in path.iterdir() if file.suffix in {".yaml", ".yml"}) if path.is_dir() else [path]
    return [document for file in files for document in parse(file.read_text(), str(file))]


def settings_in(path: Path | None) -> Document | None:
    """Read the settings document of a file; None without a file, or if it is empty."""
    documents = [] if path is None else parse(path.read_text(), str(path))
    if len(documents) > 1:
        raise MappingError([Problem("contains more than one document", source=str(path))])
    return documents[0] if documents else None


def build_policy(documents: Iterable[Document], settings: Document | None = None, *, partial: bool = False) -> Policy:
    """Build the policy of the built-in mappings overridden by `documents`; with `partial` others could not be read.

    Raises:
        MappingError: all problems of each document, and of all documents together.
    """
    drafts = [(document, *drafted(document)) for document in documents]
    problems = [problem for *_, found in drafts for problem in found]
    partial = partial or any(prepared is None for _, prepared, _ in drafts)
    own = _by_vendor(drafts, problems)
    chosen, wrong = _drafted_settings(settings)
    problems += wrong
    policy, contradicting = (None, []) if chosen is None else _combined(own, chosen, settings, calm=bool(problems))
    problems += [problem for problem in contradicting if not (partial and _names_vendors(problem))]
    faulty = {prepared.vendor.name for _, prepared, found in drafts if prepared is not None and found}
    problems += _all_probed(own, faulty, policy)
    if problems or policy is None:
        raise MappingError(problems)
    return policy


def _names_vendors(problem: Problem) -> bool:
    return _NAMING.issuperset(problem.path[:1] or ("",)) or problem.path[:1] == ("largestDevice",) != problem.path


def _all_probed(own: Mapping[str, Prepared], faulty: Collection[str], policy: Policy | None) -> Iterator[Problem]:
    """Probe documents; the built-in ones are not: the tests do that."""
    largest = MOST_MEMORY if policy is None else policy.largest_card
    for name, prepared in own.items():
        if name not in faulty:
            yield from probed(prepared, prepared.vendor if policy is None else policy.vendors[name], largest)


def _combined(
    own: Mapping[str, Prepared], chosen: Settings, settings: Document | None, *, calm: bool
) -> tuple[Policy | None, list[Problem]]:
    """Combine documents to a policy, or return their problems with each other; `calm`: an error follows from known ones."""
    try:
        return combine(own, chosen), []
    except MappingError as error:
        written = {prepared.document.source: prepared.document for prepared in own.values()}
        written |= {} if settings is None else {SETTINGS: settings}
        problems = ((each, written.get(each.source)) for each in error.problems)
        return None, [each if document is None else placed(each, document) for each, document in problems]
    except Exception as error:
        if calm:
            return None, []
        raise MappingError([bug(error, "", None)]) from error


def _by_vendor(
    drafts: Iterable[tuple[Document, Prepared | None, object]], problems: list[Problem]
) -> dict[str, Prepared]:
    """Return the prepared documents by vendor; add a problem for each second document of one vendor."""
    found: dict[str, Prepared] = {}
    for document, prepared, _ in drafts:
        first = prepared and found.setdefault(prepared.vendor.name, prepared)
        if first and prepared and first is not prepared:
            message = f"vendor {prepared.vendor.name!r} is already described by {first.document.source}"
            problems.append(placed(Problem(message, ("vendor",)), document))
    return found


def _drafted_settings(document: Document | None) -> tuple[Settings | None, tuple[Problem, ...]]:
    """Validate the settings as far as possible; None if a mistake in them may affect which names documents own."""
    document = document or Document(SETTINGS, {}, {})
    with problems_of(document.source):
        settings, problems, _ = validated_part(Settings, document.data, document)
    return None if any(problem.path[:1] == ("owners",) for problem in problems) else settings, problems


def vendors_with(own: Mapping[str, Prepared]) -> dict[str, Vendor]:
    """Return all vendors: the built-in ones, overridden by those of `own`."""
    built_in = {name: vendor for name, (vendor, _) in _compiled().items()}
    return {**built_in, **{name: prepared.vendor for name, prepared in own.items()}}


def combine(own: Mapping[str, Prepared], settings: Settings) -> Policy:
    """Combine the built-in mappings, those of `own` (by vendor) and the settings to a policy, without probes.

    Raises:
        MappingError: vendors contradict each other, or the settings (whose problems have the source `SETTINGS`).
    """
    texts = {name: text for name, (_, text) in _compiled().items()}
    texts |= {name: _text_of(prepared.data) for name, prepared in own.items()}
    lists = {name: guard_list.model_dump(by_alias=True) for name, guard_list in guard_lists().items()}
    dumped = settings.model_dump(by_alias=True, exclude_defaults=True)
    # Of the documents in force and the lists that they refer to, in any order.
    whole = _text_of({"mappings": texts, "lists": _text_of(lists), "settings": dumped})
    digest = hashlib.sha256(whole.encode()).hexdigest()[:12]
    policy = compile_policy(vendors_with(own), settings, digest)
    # Most of what a first pod would wait for, with `near`.
    _ = policy.read_keys
    return policy


def _text_of(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)
