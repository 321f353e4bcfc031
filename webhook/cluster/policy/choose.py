"""Chooses the documents that are in force together. An invalid one affects no other one, and never changes a vendor silently.

`policy_of` is a pure function. It returns what is in force, and for each ConfigMap whether its document is; if not, why,
and what is in force instead: its last good version, or else the built-in mapping of that name, or nothing.

If all are compatible, all are in force. Otherwise those that were in force before are added to the built-in mappings first,
and then the newer ones, the oldest ConfigMap first; a document that is incompatible with those before it is left out. It is
found by bisection, so that one bad document among a thousand costs ten attempts and not a thousand.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from webhook.cluster.client import Api, list_objects
from webhook.cluster.policy.documents import (
    MAPPING_KEY,
    SELECTORS,
    SETTINGS_NAME,
    ConfigMap,
    DocumentCache,
    DocumentProblems,
    LastGood,
    StoredConfigMap,
    ValidMapping,
    ValidSettings,
    Verdict,
    config_map,
    read_mapping,
    read_settings,
    settings_before,
    source_of,
    vendor_named_in,
)
from webhook.cluster.registration.names import match_expression, matched_names_of
from webhook.mapping.document import Document, MappingError, Problem, bug
from webhook.mapping.load import Prepared, combine, vendors_with
from webhook.mapping.model.compiling import Capacity
from webhook.mapping.model.policy import SETTINGS, Policy, compile_policy
from webhook.mapping.model.vendor import BUILT_IN
from webhook.mapping.settings import Settings
from webhook.mapping.strict import follows_from, placed

WHOLE: Final = Settings(bareDevices="whole")
DEFAULT: Final = ValidSettings("", Document(SETTINGS, {}, {}), WHOLE)
"""The settings without a settings document: pods that were written for whole devices must not shrink by its deletion."""

Choice: TypeAlias = Mapping[str, ValidMapping]
"""The document in force of each ConfigMap, by the ConfigMap's name, the oldest first."""


class Candidates(Struct, frozen=True):
    """The mapping ConfigMaps by name, the oldest first; their current documents or problems; those that were accepted last."""

    config_maps: Mapping[str, ConfigMap]
    read: Mapping[str, ValidMapping | DocumentProblems]
    stable: Choice
    memo: DocumentCache

    def newest(self, name: str) -> ValidMapping | None:
        """The current document of a ConfigMap, if it is valid by itself."""
        found = self.read.get(name)
        return found if isinstance(found, ValidMapping) else None


def candidates_in(present: Mapping[str, ConfigMap], last_good: Mapping[str, str], memo: DocumentCache) -> Candidates:
    """Read the mappings among the ConfigMaps of a namespace, the oldest first, and the texts that were accepted before."""
    config_maps = {name: config_map for name, config_map in present.items() if config_map.is_mapping}
    read = {name: read_mapping(config_map, memo) for name, config_map in config_maps.items()}
    stable: dict[str, ValidMapping] = {}
    for name in config_maps.keys() & last_good.keys():
        current, text = read[name], last_good[name]
        same = isinstance(current, ValidMapping) and current.text == text
        found = current if same else memo.mapping(text, source_of(name, last_good=True))
        if isinstance(found, ValidMapping):
            stable[name] = found
    return Candidates(config_maps, read, stable, memo)


class Combination(Struct, frozen=True):
    """Settings and mappings that are compatible: a mapping for each ConfigMap of `choice`, of those there are.

    Keys of the `chosen` settings for unknown vendors are ignored; `applied` is the part that applies to the known ones.
    """

    chosen: ValidSettings
    candidates: Candidates
    most_memory: int
    applied: Settings
    choice: Choice

    @property
    def winners(self) -> dict[str, ValidMapping]:
        """The mapping of each vendor; if two describe one vendor, that of the older ConfigMap."""
        winners: dict[str, ValidMapping] = {}
        for name in filter(self.choice.__contains__, self.candidates.config_maps):
            winners.setdefault(self.choice[name].vendor, self.choice[name])
        return winners

    @property
    def own(self) -> dict[str, Prepared]:
        """The same for `combine`."""
        return {name: mapping.prepared for name, mapping in self.winners.items()}

    def objections(self, name: str, mapping: ValidMapping) -> DocumentProblems:
        """Why a document is not in force beside others; never empty for one that `combined` has left out."""
        document = mapping.prepared.document
        beside = replace(self, choice={**self.choice, name: mapping})
        older = beside.winners[mapping.vendor]
        if older is not mapping:
            message = f"the vendor {mapping.vendor} is described by {older.source}, whose ConfigMap is older"
            return (placed(Problem(message, ("vendor",), "delete one of the two"), document),)
        found = self.own_problems(mapping) or self._beyond_capacity(mapping) or beside.problems()
        own = [placed(problem, document) for problem in found if problem.source in {"", document.source}]
        return tuple(own or found) or (Problem("it is incompatible with the other documents", source=document.source),)

    def own_problems(self, mapping: ValidMapping) -> DocumentProblems:
        """What its probes find in a document, whatever is beside it."""
        return self.candidates.memo.probe(mapping, mapping.prepared.vendor, self.most_memory)

    def grown(self, more: Sequence[tuple[str, ValidMapping]]) -> "Combination":
        """The same with those of `more` that are compatible, added one after the other."""
        fits = self.tried(dict(more))
        if fits is not None:
            return fits
        if len(more) <= 1:
            return self
        half = len(more) // 2
        return self.grown(more[:half]).grown(more[half:])

    def tried(self, more: Choice) -> "Combination | None":
        """The same with `more`, without newer ConfigMaps for the same vendors; None if it has problems."""
        trial = replace(self, choice={**self.choice, **more})
        winners = trial.winners
        remaining = {name: mapping for name, mapping in trial.choice.items() if winners[mapping.vendor] is mapping}
        found = replace(self, choice=remaining)
        return None if more.keys() - remaining.keys() or found.problems() else found

    def problems(self) -> DocumentProblems:
        """The problems of these documents together; none if they are compatible."""
        winners = self.winners
        policy = compiled(self.own, self.chosen.settings)
        if not isinstance(policy, Policy):
            return policy
        memo, largest = self.candidates.memo, policy.most_memory
        probes = (memo.probe(mapping, policy.vendors[name], largest) for name, mapping in winners.items())
        return next(filter(None, probes), ())

    def _beyond_capacity(self, mapping: ValidMapping) -> DocumentProblems:
        """The problem if the match conditions have no space for the names of a document beside others."""
        beyond = _capacity_beside(self.choice.values()).take(mapping.prepared.vendor.lets_through)
        if not beyond:
            return ()
        message = f"with it, the names of all documents that let pods through would be {beyond}"
        return (Problem(message, (), "remove names or whole documents"),)


def combined(chosen: ValidSettings, candidates: Candidates) -> Combination:
    """Choose the mappings that can be in force together under some settings."""
    policy = compiled({}, chosen.settings)
    assert isinstance(policy, Policy)  # noqa: S101  (built-in mappings are compatible)
    start = Combination(chosen, candidates, policy.most_memory, policy.settings, {})
    newest = {name: each for name in candidates.config_maps if (each := candidates.newest(name)) is not None}
    probed = {name: mapping for name, mapping in newest.items() if not start.own_problems(mapping)}
    newer, stable = _within_capacity(candidates, probed)
    both = {**stable, **newer}
    found = start.tried({name: both[name] for name in candidates.config_maps if name in both})
    if found is None:
        found = _grown(start, newer, stable)
    policy = compiled(found.own, chosen.settings)
    assert isinstance(policy, Policy)  # noqa: S101  (as was just tried)
    return replace(found, applied=policy.settings)


def _grown(start: Combination, newer: Choice, stable: Choice) -> Combination:
    """Add documents one after the other, the oldest first: those that were in force before, then the newer ones."""
    order = start.candidates.config_maps

    def missing(choice: Choice, present: Choice) -> list[tuple[str, ValidMapping]]:
        return [(name, choice[name]) for name in order if name in choice and present.get(name) is not choice[name]]

    chosen = start.grown(missing(stable, {}))
    for _ in order:
        grown = chosen.grown(missing(newer, chosen.choice))
        grown = grown.grown([(name, each) for name, each in missing(stable, {}) if name not in grown.choice])
        if grown.choice == chosen.choice:
            break
        # Try again: a document may need one that was added after it.
        chosen = grown
    return chosen


def _within_capacity(candidates: Candidates, newest: Choice) -> tuple[Choice, Choice]:
    """The documents whose names fit into the match conditions: first those in force before, then the oldest.

    The names are added up, so there is no need to try combinations.
    """
    capacity = _capacity_beside(())
    newer: dict[str, ValidMapping] = {}
    older = dict(candidates.stable)
    for name in sorted(candidates.config_maps, key=lambda name: name not in older):
        if name in newest and not capacity.take(newest[name].prepared.vendor.lets_through):
            newer[name] = newest[name]
        elif name in older and capacity.take(older[name].prepared.vendor.lets_through):
            del older[name]
    return newer, older


def _capacity_beside(taken: Iterable[ValidMapping]) -> Capacity:
    """The capacity left in match conditions beside these documents and the built-in ones."""
    capacity = Capacity()
    for vendor in (*vendors_with({}).values(), *(mapping.prepared.vendor for mapping in taken)):
        capacity.take(vendor.lets_through)
    return capacity


def compiled(own: Mapping[str, Prepared], settings: Settings) -> Policy | DocumentProblems:
    """Compile mappings (by vendor) over the built-in ones, under the settings that apply to them.

    Returns the policy, without a digest, or problems that the settings do not cause.
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
    data = settings.model_dump(by_alias=True, exclude_unset=True)

    def kept(key: str, value: object) -> object:
        if isinstance(value, list):
            return [each for position, each in enumerate(value) if (key, position) not in named]
        if isinstance(value, dict):
            return {name: each for name, each in value.items() if (key, name) not in named}
        return value

    return Settings.model_validate({key: kept(key, value) for key, value in data.items() if (key,) not in named})


def _under_settings(
    written: ConfigMap, before: ValidSettings | None, candidates: Candidates
) -> tuple[Combination, DocumentProblems]:
    """Combine mappings under a settings document; under the last good one if it has problems, or else under its valid part.

    Returns what is in force, and the problems of the current settings.
    """
    fallback = before or DEFAULT
    now, invalid = read_settings(written)
    if now is None or (invalid and before is not None):
        return combined(fallback, candidates), invalid
    try:
        found = combined(now, candidates)
    except Exception as error:  # noqa: BLE001  (caused by no mapping: `compiled` reports those)
        return combined(fallback, candidates), (*invalid, bug(error, now.document.source))
    removed = [problem.path for problem in invalid]
    contradictions = tuple(each for each in _contradictions(found) if not follows_from(each, removed))
    if before is not None and before.text == now.text:
        # They were valid before: a key that no longer applies, because a vendor is gone, must not invalidate the rest.
        return found, contradictions
    unchanged = combined(fallback, candidates)
    displaced = _displaced(found, unchanged)
    problems = (*invalid, *(contradictions or displaced))
    # Nothing is better known than the part that applies, unless it would put a mapping out of force.
    chosen = unchanged if displaced or (problems and before is not None) else found
    if before is not None or not problems:
        return chosen, problems
    # The invalid part may be what the document says of it.
    bare = {"bare_devices": chosen.applied.bare_devices or "whole"}
    return replace(chosen, applied=chosen.applied.model_copy(update=bare)), problems


def _contradictions(found: Combination) -> DocumentProblems:
    """The settings that contradict the vendors in force."""
    try:
        compile_policy(vendors_with(found.own), found.chosen.settings, "")
    except MappingError as error:
        return tuple(placed(each, found.chosen.document) for each in error.problems if each.source == SETTINGS)
    return ()


def _displaced(found: Combination, unchanged: Combination) -> DocumentProblems:
    """Problems of settings under which a mapping that was accepted before would no longer be in force."""
    source, stable = found.chosen.document.source, found.candidates.stable
    worse = [name for name in stable if _rank(name, found) < _rank(name, unchanged)]
    return tuple(
        Problem(f"configmap/{name} is invalid under these settings: {why}", source=source)
        for name in worse
        for why in found.objections(name, found.candidates.newest(name) or stable[name])[:1]
    )


def _rank(name: str, found: Combination) -> int:
    """2: the newest document of a ConfigMap is in force, 1: the last good one, 0: none."""
    if name not in found.choice:
        return 0
    return 2 if found.choice[name] is found.candidates.newest(name) else 1


class PolicyOutcome(Struct, frozen=True):
    """The result of compiling ConfigMaps.

    Attributes:
        verdicts: one for each ConfigMap: that of the settings first, then of mappings, the oldest first.
        accepted: the texts to store as last good, by the name of their ConfigMap.
        mappings: those in force, beside the built-in ones.
    """

    policy: Policy
    verdicts: tuple[Verdict, ...]
    accepted: Mapping[str, str]
    mappings: tuple[Document, ...] = ()
    settings: Document = DEFAULT.document

    @property
    def has_settings(self) -> bool:
        return any(verdict.kind == "settings" for verdict in self.verdicts)

    @property
    def in_force(self) -> frozenset[str]:
        """The names of the ConfigMaps whose documents are in force."""
        return frozenset(verdict.config_map.name for verdict in self.verdicts if verdict.accepted)


def policy_of(config_maps: Iterable[ConfigMap], last_good: Mapping[str, str], memo: DocumentCache) -> PolicyOutcome:
    """Make the policy of a namespace's ConfigMaps, some of which are no part of it, and of texts accepted before, by name."""
    oldest_first = sorted(config_maps, key=lambda config_map: (config_map.created, config_map.name))
    present = {config_map.name: config_map for config_map in oldest_first}
    candidates = candidates_in(present, last_good, memo)
    accepted = {name: last_good[name] for name in candidates.config_maps if name in last_good}
    verdicts: list[Verdict] = []
    written = present.get(SETTINGS_NAME)
    if written is None:
        found = combined(DEFAULT, candidates)
    else:
        before = settings_before(last_good)
        found, problems = _under_settings(written, before, candidates)
        verdicts.append(Verdict(written, None, problems, _settings_instead(problems, found, before)))
        if not problems or before is not None:
            accepted[SETTINGS_NAME] = (before if problems and before else found.chosen).text
    policy = combine(found.own, found.applied)
    accepted |= {name: mapping.text for name, mapping in found.choice.items()}
    verdicts += (_verdict(config_map, found, policy) for config_map in candidates.config_maps.values())
    memo.forget_unused()
    documents = tuple(prepared.document for prepared in found.own.values())
    applied = found.applied.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    in_force = Document(found.chosen.document.source, applied, found.chosen.document.lines)
    return PolicyOutcome(policy, tuple(verdicts), accepted, documents, in_force)


def _verdict(config_map: ConfigMap, found: Combination, policy: Policy) -> Verdict:
    name = config_map.name
    mapping, read = found.choice.get(name), found.candidates.read[name]
    if not isinstance(read, ValidMapping):
        vendor, problems = vendor_named_in(config_map.data.get(MAPPING_KEY, "")), read
    else:
        vendor, problems = read.vendor, () if mapping is read else found.objections(name, read)
    if mapping is not None:
        return Verdict(config_map, mapping.vendor, problems, "its last good version" if problems else "")
    return Verdict(config_map, vendor, problems, _in_force_instead(vendor, policy) if problems else "")


def _in_force_instead(vendor: str | None, policy: Policy) -> str:
    """What is in force for a vendor instead of a ConfigMap's document."""
    if vendor is None or vendor not in policy.vendors:
        return "nothing"
    source = policy.vendors[vendor].source
    return f"the built-in mapping of {vendor}" if source == BUILT_IN else source


def _settings_instead(problems: DocumentProblems, found: Combination, before: ValidSettings | None) -> str:
    """What is in force instead of settings that have problems."""
    if not problems:
        return ""
    if found.chosen is before:
        return "their last good version"
    return "the default settings" if found.applied == DEFAULT.settings else "the keys that apply"


def judge_document(
    candidate: ConfigMap, others: Iterable[ConfigMap], last_good: Mapping[str, str], memo: DocumentCache
) -> tuple[DocumentProblems, DocumentProblems]:
    """Judge a ConfigMap that is about to be stored, beside the current ones, which may include its previous version.

    Returns what is wrong with the document itself, and, if that is nothing, why it would not be in force beside the others:
    what it lacks may be in the next ConfigMap of the same ``kubectl apply``.
    """
    # What is invalid is not remembered: nothing stored is compiled with it.
    read = read_settings(candidate)[1] if candidate.name == SETTINGS_NAME else ()
    if candidate.is_mapping:
        found = read_mapping(candidate, DocumentCache())
        read = () if isinstance(found, ValidMapping) else found
    if read:
        return read, ()
    present = [*(each for each in others if each.name != candidate.name), candidate]
    verdicts = policy_of(present, last_good, memo).verdicts
    return (), next((verdict.problems for verdict in verdicts if verdict.config_map.name == candidate.name), ())


async def policy_now(api: Api, namespace: str) -> PolicyOutcome:
    """Read the ConfigMaps of a namespace and the record of the last good ones, and compile the policy."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    stored = [item for selector in SELECTORS for item in await list_objects(api, path, StoredConfigMap, selector)]
    record = await LastGood(api, namespace).read()
    config_maps = {item.metadata.name: config_map(item) for item in stored}
    return policy_of(config_maps.values(), record.texts, DocumentCache())
