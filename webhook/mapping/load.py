"""Documents → policy: built-in mappings, those of a folder over them, and the settings."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from webhook.mapping import schema
from webhook.mapping.compile import compile_vendor
from webhook.mapping.extends import EXTENDS, Merged, resolve
from webhook.mapping.guard_lists import guard_lists
from webhook.mapping.policy import SETTINGS, Policy, compile_policy
from webhook.mapping.probes import probe
from webhook.mapping.problem import MappingError, Problem, bug, held_against
from webhook.mapping.settings import Settings
from webhook.mapping.strict_yaml import Document, parse
from webhook.mapping.validation import placed, validated
from webhook.mapping.vendor import BUILT_IN, Vendor


def load_policy(mappings: Path | None = None, settings: Path | None = None, target: str | None = None) -> Policy:
    """The policy of the built-in mappings, with the documents of a folder over them.

    Args:
        mappings: a folder of ``*.yaml`` documents, or one file; each replaces the built-in vendor of its name or adds one.
        settings: a settings document.
        target: stands in for the setting of that name.

    Raises:
        MappingError: a document is wrong; all problems of all documents at once.
        OSError: a file cannot be read.
    """
    return build_policy(documents_in(mappings), settings_in(settings), target)


def documents_in(path: Path | None) -> list[Document]:
    """The mapping documents of a folder (in the order of their names) or of one file."""
    if path is None:
        return []
    files = sorted(file for file in path.iterdir() if file.suffix in {".yaml", ".yml"}) if path.is_dir() else [path]
    return [document for file in files for document in parse(file.read_text(), str(file))]


def settings_in(path: Path | None) -> Document | None:
    """The settings document of a file; None where there is no file or nothing in it."""
    documents = [] if path is None else parse(path.read_text(), str(path))
    if len(documents) > 1:
        raise MappingError([Problem("holds more than one document", source=str(path))])
    return documents[0] if documents else None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document that is in order by itself.

    Attributes:
        merged: what was written, with what it extends put in.
        vendor: what it describes.
    """

    merged: Merged
    vendor: Vendor


def build_policy(documents: Iterable[Document], settings: Document | None = None, target: str | None = None) -> Policy:
    """The policy of the built-in mappings with `documents` over them.

    Raises:
        MappingError: all problems of all documents.
    """
    problems: list[Problem] = []
    own = _all_prepared(documents, problems)
    chosen = Settings()
    try:
        chosen = settings_of(settings, target)
    except MappingError as error:
        problems.extend(error.problems)
    if problems:
        raise MappingError(problems)
    try:
        policy = combine(own, chosen)
    except MappingError as error:
        raise MappingError([_placed(problem, own, settings) for problem in error.problems]) from None
    except Exception as error:
        raise MappingError([_brought_out(error, own, settings)]) from error
    # Built-in documents are probed by the tests, once and for all.
    for name, one in own.items():
        problems.extend(probed(one, policy.vendors[name], policy.largest_card))
    if problems:
        raise MappingError(problems)
    return policy


def prepare(document: Document) -> Prepared:
    """A document by itself: extended, validated, compiled; not yet probed, nor put beside others.

    Raises:
        MappingError: all problems of the document.
    """
    with held_against(document.source, document.lines.get((), 1)):
        merged = resolve(document, builtin())
        return Prepared(merged, vendor_of(merged))


def probed(one: Prepared, vendor: Vendor, largest_card: int) -> tuple[Problem, ...]:
    """What probes find in a document; `vendor` is what a policy makes of it: it may be put on standby there."""
    document = one.merged.document
    try:
        with held_against(document.source, document.lines.get((), 1)):
            return tuple(placed(problem, document) for problem in probe(vendor, largest_card))
    except MappingError as error:
        return error.problems


def vendors_with(own: Mapping[str, Prepared]) -> dict[str, Vendor]:
    """All vendors: the built-in ones, and over them those of `own`, which is by vendor."""
    return {**_builtin_vendors(), **{name: one.vendor for name, one in own.items()}}


def combine(own: Mapping[str, Prepared], settings: Settings) -> Policy:
    """The policy of the built-in mappings with those of `own` (by vendor) over them; probes are the caller's business.

    Raises:
        MappingError: vendors contradict each other, or the settings (whose problems have the source `SETTINGS`).
    """
    data: dict[str, Mapping[str, Any]] = {name: document.data for name, document in builtin().items()}
    data |= {name: one.merged.data for name, one in own.items()}
    return compile_policy(vendors_with(own), settings, digest_of(data, settings))


def _all_prepared(documents: Iterable[Document], problems: list[Problem]) -> dict[str, Prepared]:
    """The documents by vendor; what is wrong with them is added to `problems`."""
    found: dict[str, Prepared] = {}
    for document in documents:
        try:
            one = prepare(document)
        except MappingError as error:
            problems.extend(error.problems)
            continue
        name = one.vendor.name
        if name in found:
            message = f"vendor {name!r} is already described by {found[name].merged.document.source}"
            problems.append(Problem(message, source=document.source))
            continue
        found[name] = one
    return found


def _brought_out(error: Exception, own: Mapping[str, Prepared], settings: Document | None) -> Problem:
    """An error that documents bring out only together: the first of them without which it does not come."""
    before: dict[str, Prepared] = {}
    for name, one in own.items():
        before[name] = one
        try:
            combine(before, Settings())
        except MappingError:
            continue
        except Exception as again:  # noqa: BLE001  (it is this error that is looked for)
            return bug(again, one.merged.document.source, one.merged.document.lines.get((), 1))
    return bug(error, SETTINGS if settings is None else settings.source)


def _placed(problem: Problem, own: Mapping[str, Prepared], settings: Document | None) -> Problem:
    """A problem of vendors with each other, or with the settings, at its place in the document that it came from."""
    written = {one.merged.document.source: one.merged.document for one in own.values()}
    if settings is not None:
        written[SETTINGS] = settings
    document = written.get(problem.source)
    return problem if document is None else placed(problem, document)


def settings_of(document: Document | None, target: str | None) -> Settings:
    """The validated settings; `target` stands in for the document's."""
    data = dict(document.data) if document is not None else {}
    if target is not None:
        data["target"] = target
    document = document or Document(SETTINGS, data, {})
    with held_against(document.source):
        return validated(Settings, data, document)


def vendor_of(merged: Merged) -> Vendor:
    """The compiled vendor of one merged document.

    Raises:
        MappingError: every problem of the document, with path, line and hint.
    """
    document = validated(schema.Mapping, merged.data, merged.document)
    try:
        return compile_vendor(document, merged.document.source, merged.overridden)
    except MappingError as error:
        raise MappingError([placed(problem, merged.document) for problem in error.problems]) from None


def digest_of(documents: Mapping[str, Mapping[str, Any]], settings: Settings) -> str:
    """12 hex digits of the SHA-256 of the documents in force, whatever order they came in, with what they refer to."""
    lists = {name: one.model_dump(by_alias=True) for name, one in guard_lists().items()}
    dumped = settings.model_dump(by_alias=True, exclude_defaults=True)
    whole = {"mappings": documents, "lists": lists, "settings": dumped}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:12]


@cache
def builtin() -> Mapping[str, Document]:
    """The built-in documents by vendor; one that extends another, which itself extends none, with that put in."""
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
def _builtin_vendors() -> Mapping[str, Vendor]:
    return {name: vendor_of(Merged(document.data, document)) for name, document in builtin().items()}
