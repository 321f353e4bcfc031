"""Chooses the documents that can be in force together, and finds those that cause a problem.

If all are compatible, all are in force. Otherwise those that were in force before are added to the built-in mappings first,
and then the newer ones, the oldest ConfigMap first; a document that is incompatible with those before it is left out. It is
found by bisection, so that one bad document among a thousand costs ten attempts and not a thousand.

Before that, a text in a ConfigMap becomes a document: each is parsed, compiled and probed by itself, and each text once.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from webhook import __version__
from webhook.cluster.configuration.config_maps import MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME, ConfigMap
from webhook.cluster.registration.names import match_expression, matched_names_of
from webhook.mapping.document.problem import MappingError, Problem, bug, problems_of
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict_yaml import Document, parse
from webhook.mapping.document.validation import EXTENDS, placed, remainder
from webhook.mapping.load import Prepared, prepare, probed, settings_of, vendors_with
from webhook.mapping.model.match_names import Capacity
from webhook.mapping.model.policy import SETTINGS, Policy, compile_policy
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


SettingsRead: TypeAlias = tuple[ValidSettings | None, DocumentProblems]
"""The valid part of a settings document, None if nothing is certain, and its problems."""


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


def read_settings(text: str, source: str) -> SettingsRead:
    """Read a settings document. An empty one sets nothing.

    The valid part of an invalid one has the defaults of the invalid keys. Nothing of a text is certain that is not one
    document, or one of another version.
    """
    try:
        with problems_of(source):
            documents = parse(text, source) or [Document(source, {}, {})]
            if len(documents) > 1:
                return None, (_several(documents),)
            document = documents[0]
            try:
                return ValidSettings(text, document, settings_of(document)), ()
            except MappingError as error:
                unsure = any(problem.path[:1] in {(), ("apiVersion",), ("kind",)} for problem in error.problems)
                rest = None if unsure else remainder(Settings, document.data, error.problems)
                return None if rest is None else ValidSettings(text, document, rest), error.problems
    except MappingError as error:
        return None, error.problems


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


Choice: TypeAlias = Mapping[str, ValidMapping]
"""The document in force of each ConfigMap, by the ConfigMap's name."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Combines documents under some settings; made by `compatibility_under`.

    Attributes:
        settings: those in force; keys for unknown vendors are ignored.
        largest_card: bytes, from the settings.
        order: the names of all ConfigMaps, oldest first.
        memo: caches probes.
    """

    settings: Settings
    largest_card: int
    order: Sequence[str]
    memo: DocumentCache

    def best(self, newest: Choice, stable: Choice) -> Choice:
        """Choose the documents that can be in force together.

        Args:
            newest: the current documents that are valid by themselves.
            stable: those that were accepted last.
        """
        probed = {name: document for name, document in newest.items() if not self._own_problems(document)}
        newer, stable = self._within_capacity(probed, stable)
        everything = {name: newer.get(name) or stable[name] for name in self.order if name in newer or name in stable}
        fits = self._tried({}, everything)
        if fits is not None:
            return fits
        chosen = self._grown({}, self._in_order(stable))
        for _ in self.order:
            more = [(name, document) for name, document in self._in_order(newer) if chosen.get(name) is not document]
            grown = self._grown(chosen, more)
            grown = self._grown(
                grown, [(name, document) for name, document in self._in_order(stable) if name not in grown]
            )
            if grown == chosen:
                break
            # Try again: a document may need one that was added after it.
            chosen = grown
        return chosen

    def objections(self, name: str, mapping: ValidMapping, chosen: Choice) -> DocumentProblems:
        """Why a document is not in force beside others; never empty for one that `best` has left out."""
        document = mapping.prepared.merged.document
        combined = {**chosen, name: mapping}
        older = by_vendor(combined, self.order)[mapping.vendor]
        if older is not mapping:
            message = f"the vendor {mapping.vendor} is described by {older.source}, whose ConfigMap is older"
            return (placed(Problem(message, ("vendor",), "delete one of the two"), document),)
        found = self._own_problems(mapping) or self._beyond_capacity(mapping, chosen) or self._problems(combined)
        own = [placed(problem, document) for problem in found if problem.source in {"", document.source}]
        return tuple(own or found) or (Problem("it is incompatible with the other documents", source=document.source),)

    def _within_capacity(self, newest: Choice, stable: Choice) -> tuple[Choice, Choice]:
        """The documents whose names fit into the match conditions: first those in force before, then the oldest.

        The names are added up, so there is no need to try combinations.
        """
        capacity = _capacity_beside(())
        newer: dict[str, ValidMapping] = {}
        older = dict(stable)
        for name in sorted(self.order, key=lambda name: name not in stable):
            if name in newest and not capacity.take(newest[name].prepared.vendor.lets_through):
                newer[name] = newest[name]
            elif name in older and capacity.take(older[name].prepared.vendor.lets_through):
                del older[name]
        return newer, older

    def _beyond_capacity(self, mapping: ValidMapping, chosen: Choice) -> DocumentProblems:
        """The problem if the match conditions have no space for the names of a document beside others."""
        beyond = _capacity_beside(chosen.values()).take(mapping.prepared.vendor.lets_through)
        if not beyond:
            return ()
        message = f"with it, the names of all documents that let pods through would be {beyond}"
        return (Problem(message, (), "remove names or whole documents"),)

    def _in_order(self, choice: Choice) -> list[tuple[str, ValidMapping]]:
        return [(name, choice[name]) for name in self.order if name in choice]

    def _own_problems(self, mapping: ValidMapping) -> DocumentProblems:
        return self.memo.probe(mapping, mapping.prepared.vendor, self.largest_card)

    def _problems(self, choice: Choice) -> DocumentProblems:
        """The problems of a choice; none if its documents are compatible."""
        winners = by_vendor(choice, self.order)
        policy = compiled({name: mapping.prepared for name, mapping in winners.items()}, self.settings)
        if not isinstance(policy, Policy):
            return policy
        probes = (
            self.memo.probe(mapping, policy.vendors[name], policy.largest_card) for name, mapping in winners.items()
        )
        return next(filter(None, probes), ())

    def _tried(self, chosen: Choice, more: Choice) -> Choice | None:
        """The choice with `more`, without newer ConfigMaps for the same vendors; None if it has problems."""
        trial = {**chosen, **more}
        winners = by_vendor(trial, self.order)
        remaining = {name: mapping for name, mapping in trial.items() if winners[mapping.vendor] is mapping}
        return None if more.keys() - remaining.keys() or self._problems(remaining) else remaining

    def _grown(self, chosen: Choice, more: Sequence[tuple[str, ValidMapping]]) -> Choice:
        """The choice with those of `more` that are compatible, added one after the other."""
        fits = self._tried(chosen, dict(more))
        if fits is not None:
            return fits
        if len(more) <= 1:
            return chosen
        half = len(more) // 2
        return self._grown(self._grown(chosen, more[:half]), more[half:])


def compatibility_under(settings: Settings, order: Sequence[str], memo: DocumentCache) -> Compatibility:
    """Make a `Compatibility` under some settings; the arguments are its attributes."""
    policy = compiled({}, settings)
    assert isinstance(policy, Policy)  # noqa: S101  (built-in mappings are compatible)
    return Compatibility(settings, policy.largest_card, order, memo)


def _capacity_beside(taken: Iterable[ValidMapping]) -> Capacity:
    """The capacity left in match conditions beside these documents and the built-in ones."""
    capacity = Capacity()
    for vendor in (*vendors_with({}).values(), *(mapping.prepared.vendor for mapping in taken)):
        capacity.take(vendor.lets_through)
    return capacity


def by_vendor(choice: Choice, order: Sequence[str]) -> dict[str, ValidMapping]:
    """The documents by vendor; if two describe one vendor, that of the older ConfigMap."""
    winners: dict[str, ValidMapping] = {}
    for name in order:
        if name in choice:
            winners.setdefault(choice[name].vendor, choice[name])
    return winners


def compiled(own: Mapping[str, Prepared], settings: Settings) -> Policy | DocumentProblems:
    """Compile mappings (by vendor) over the built-in ones, under the settings that apply to them.

    Returns:
        The policy, without a digest, or problems that the settings do not cause.
    """
    vendors = vendors_with(own)
    while True:
        try:
            policy = compile_policy(vendors, settings, "")
            match_expression(matched_names_of(policy))
        except MappingError as error:
            of_settings = [problem for problem in error.problems if problem.source == SETTINGS]
            if not of_settings:
                return error.problems
            settings = without(settings, of_settings)
        except Exception as error:  # noqa: BLE001  (bisection finds the document that causes it)
            return (bug(error, "", None),)
        else:
            return policy


def without(settings: Settings, problems: Sequence[Problem]) -> Settings:
    """Return settings without the keys, and entries of lists, that problems name."""
    named = {problem.path[:2] for problem in problems}
    data = {
        key: value
        for key, value in settings.model_dump(by_alias=True, exclude_unset=True).items()
        if (key,) not in named
    }
    for key, value in data.items():
        if isinstance(value, list):
            data[key] = [each for position, each in enumerate(value) if (key, position) not in named]
        elif isinstance(value, dict):
            data[key] = {name: each for name, each in value.items() if (key, name) not in named}
    return Settings.model_validate(data)


LAST_GOOD: Final = " (last good)"
"""The suffix of the source of a document that its ConfigMap no longer contains."""


@dataclass(frozen=True, slots=True)
class Mappings:
    """The mapping ConfigMaps and their documents.

    Attributes:
        config_maps: by name, the oldest first.
        read: by name, the current documents, or their problems.
        newest: the current documents that are valid by themselves.
        stable: the documents that were accepted last.
    """

    config_maps: Mapping[str, ConfigMap]
    read: Mapping[str, ValidMapping | DocumentProblems]
    newest: Choice
    stable: Choice


def read_mappings(present: Mapping[str, ConfigMap], last_good: Mapping[str, str], memo: DocumentCache) -> Mappings:
    """Read the mappings among the ConfigMaps of a namespace.

    Args:
        present: the ConfigMaps by name, the oldest first.
        last_good: texts that were accepted before, by ConfigMap.
        memo: caches documents.
    """
    config_maps = {name: config_map for name, config_map in present.items() if config_map.is_mapping}
    read = {name: _read(config_map, memo) for name, config_map in config_maps.items()}
    newest = {name: mapping for name, mapping in read.items() if isinstance(mapping, ValidMapping)}
    stable: dict[str, ValidMapping] = {}
    for name in config_maps:
        text, current = last_good.get(name), newest.get(name)
        if text is None:
            continue
        found = (
            current
            if current is not None and current.text == text
            else memo.mapping(text, _source(name, MAPPING_KEY, LAST_GOOD))
        )
        if isinstance(found, ValidMapping):
            stable[name] = found
    return Mappings(config_maps, read, newest, stable)


def invalid_in(stored: Mapping[str, str], remembered: Mapping[str, str], memo: DocumentCache) -> frozenset[str]:
    """The ConfigMaps whose stored text is invalid, while the remembered one is valid.

    The record was changed by hand or by a newer version: the remembered text stays in force.
    """
    return frozenset(
        name
        for name, text in stored.items()
        if remembered.get(name, text) != text
        and not _is_valid(name, text, memo)
        and _is_valid(name, remembered[name], memo)
    )


def _is_valid(name: str, text: str, memo: DocumentCache) -> bool:
    if name == SETTINGS_NAME:
        return settings_before({name: text}) is not None
    return isinstance(memo.mapping(text, _source(name, MAPPING_KEY, LAST_GOOD)), ValidMapping)


def settings_now(written: ConfigMap) -> SettingsRead:
    """Read the settings of a ConfigMap."""
    text = written.data.get(SETTINGS_KEY)
    if text is None:
        return None, _missing(written, SETTINGS_KEY)
    return read_settings(text, _source(written.name, SETTINGS_KEY))


def settings_before(last_good: Mapping[str, str]) -> ValidSettings | None:
    """The settings that were accepted last; None if there were none, or they are no longer valid."""
    text = last_good.get(SETTINGS_NAME)
    if text is None:
        return None
    found, problems = read_settings(text, _source(SETTINGS_NAME, SETTINGS_KEY, LAST_GOOD))
    return None if problems else found


def _read(config_map: ConfigMap, memo: DocumentCache) -> ValidMapping | DocumentProblems:
    text = config_map.data.get(MAPPING_KEY)
    return (
        _missing(config_map, MAPPING_KEY) if text is None else memo.mapping(text, _source(config_map.name, MAPPING_KEY))
    )


def _missing(config_map: ConfigMap, key: str) -> DocumentProblems:
    keys = f"its keys: {', '.join(sorted(config_map.data))}" if config_map.data else "it is empty"
    return (Problem(f"the data has no key {key}", hint=keys, source=f"configmap/{config_map.name}"),)


def _source(name: str, key: str, which: str = "") -> str:
    return f"configmap/{name}/{key}{which}"
