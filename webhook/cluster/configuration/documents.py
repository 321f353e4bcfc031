"""From the text in a ConfigMap to a document: each is parsed, compiled and probed by itself, and each text once."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import TypeAlias

from webhook import __version__
from webhook.mapping.document.problem import MappingError, Problem, problems_of
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict_yaml import Document, parse
from webhook.mapping.document.validation import EXTENDS, remainder
from webhook.mapping.load import Prepared, prepare, probed, settings_of
from webhook.mapping.model.vendor import Vendor

DocumentProblems: TypeAlias = tuple[Problem, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ValidMapping:
    """A mapping that is valid by itself.

    Attributes:
        text: its source.
        prepared: the document, compiled.
        digest: identifies its content, including what it extends.
    """

    text: str
    prepared: Prepared
    digest: str

    @property
    def vendor(self) -> str:
        """The name of the vendor that it describes."""
        return self.prepared.vendor.name

    @property
    def source(self) -> str:
        """Where it comes from, for messages."""
        return self.prepared.vendor.source


@dataclass(frozen=True, slots=True, eq=False)
class ValidSettings:
    """A settings document that is valid by itself.

    Attributes:
        text: its source.
        document: the parsed text, with the lines of its keys for problems.
        settings: its content.
    """

    text: str
    document: Document
    settings: Settings


@dataclass(slots=True)
class DocumentCache:
    """Caches documents and the results of their probes by text, so that a change costs only what has changed.

    What the last policy did not use is forgotten.

    Attributes:
        passed: marks of documents that passed the probes in an earlier process of the same version.
    """

    passed: frozenset[str] = frozenset()
    _mappings: dict[tuple[str, str], ValidMapping | DocumentProblems] = field(default_factory=dict)
    _probes: dict[str, DocumentProblems] = field(default_factory=dict)
    _used_mappings: dict[tuple[str, str], ValidMapping | DocumentProblems] = field(default_factory=dict)
    _used_probes: dict[str, DocumentProblems] = field(default_factory=dict)

    def mapping(self, text: str, source: str) -> ValidMapping | DocumentProblems:
        """Read a mapping, or return its problems if it is invalid."""
        key = (text, source)
        found = self._used_mappings.get(key) or self._mappings.get(key)
        if found is None:
            found = _mapping(text, source)
        self._used_mappings[key] = found
        return found

    def probe(self, mapping: ValidMapping, vendor: Vendor, largest_card: int) -> DocumentProblems:
        """Probe a mapping; `vendor` is its compiled form in a policy, where it may be inactive."""
        mark = mark_of(mapping, vendor, largest_card)
        found = self._used_probes.get(mark, self._probes.get(mark))
        if found is None:
            found = () if mark in self.passed else probed(mapping.prepared, vendor, largest_card)
        self._used_probes[mark] = found
        return found

    def forget_unused(self) -> None:
        """Forget what the policy that was just compiled did not use."""
        self._mappings, self._used_mappings = self._used_mappings, {}
        self._probes, self._used_probes = self._used_probes, {}


def read_settings(text: str, source: str) -> ValidSettings | DocumentProblems:
    """Read a settings document, or return its problems if it is invalid. An empty one sets nothing."""
    try:
        with problems_of(source):
            documents = parse(text, source) or [Document(source, {}, {})]
            if len(documents) > 1:
                return (_several(documents),)
            return ValidSettings(text, documents[0], settings_of(documents[0], None))
    except MappingError as error:
        return error.problems


def valid_part(text: str, source: str) -> ValidSettings | None:
    """The settings of an invalid document without the invalid ones, which have their defaults; None if nothing is certain.

    That is so if the text is not one document, or one of another version.
    """
    try:
        documents = parse(text, source)
    except MappingError:
        return None
    if len(documents) != 1:
        return None
    try:
        return ValidSettings(text, documents[0], settings_of(documents[0], None))
    except MappingError as error:
        if any(problem.path[:1] in {(), ("apiVersion",), ("kind",)} for problem in error.problems):
            return None
        rest = remainder(Settings, documents[0].data, error.problems)
        return None if rest is None else ValidSettings(text, documents[0], rest)


def vendor_named_in(text: str) -> str | None:
    """The vendor that a mapping, valid or not, describes; None if its name cannot be read."""
    try:
        (document,) = parse(text, "")
    except (MappingError, ValueError):  # not YAML, or not a single document
        return None
    name = document.data.get("vendor", document.data.get(EXTENDS))
    return name if isinstance(name, str) else None


def _mapping(text: str, source: str) -> ValidMapping | DocumentProblems:
    try:
        with problems_of(source):
            documents = parse(text, source)
            if not documents:
                hint = "write a mapping, or delete the ConfigMap"
                return (Problem("the document is empty", hint=hint, source=source, line=1),)
            if len(documents) > 1:
                return (_several(documents),)
            prepared = prepare(documents[0])
            written = json.dumps(prepared.merged.data, sort_keys=True)
            return ValidMapping(text, prepared, hashlib.sha256(written.encode()).hexdigest())
    except MappingError as error:
        return error.problems


def _several(documents: list[Document]) -> Problem:
    second = documents[1]
    return Problem(
        "contains more than one document",
        hint="write one per ConfigMap",
        source=second.source,
        line=second.lines.get(()),
    )


def mark_of(mapping: ValidMapping, vendor: Vendor, largest_card: int) -> str:
    """16 hexadecimal digits that identify the probes of one document in this version; see `DocumentCache.probe`."""
    parts = (__version__, mapping.digest, str(vendor.inactive), str(largest_card))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
