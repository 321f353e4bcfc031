"""Makes a policy from ConfigMaps. An invalid document affects no other one, and never changes a vendor silently.

`policy_of` is a pure function. It returns what is in force, and for each ConfigMap whether its document is; if not, why,
and what is in force instead: its last good version, or else the built-in mapping of that name, or nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from webhook.cluster.client import Api, list_objects
from webhook.cluster.configuration.compatibility import (
    Choice,
    Compatibility,
    DocumentCache,
    DocumentProblems,
    Mappings,
    ValidMapping,
    ValidSettings,
    by_vendor,
    compatibility_under,
    compiled,
    mark_of,
    read_mappings,
    settings_before,
    settings_now,
    vendor_named_in,
)
from webhook.cluster.configuration.config_maps import (
    MAPPING_KEY,
    SELECTORS,
    SETTINGS_NAME,
    ConfigMap,
    StoredConfigMap,
    Verdict,
    config_map,
)
from webhook.cluster.configuration.last_good import LastGood
from webhook.mapping.document.problem import MappingError, Problem, bug
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.document.validation import follows_from, placed
from webhook.mapping.load import Prepared, combine, vendors_with
from webhook.mapping.model.policy import SETTINGS, Policy, compile_policy
from webhook.mapping.model.vendor import BUILT_IN

WHOLE: Final = Settings(bareDevices="whole")
DEFAULT: Final = ValidSettings("", Document(SETTINGS, {}, {}), WHOLE)
"""The settings without a settings document: pods that were written for whole devices must not shrink by its deletion."""


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The settings and mappings in force.

    Attributes:
        chosen: the settings document.
        applied: the part of it that applies to the known vendors.
        compatibility: decides on mappings under it.
        choice: the mapping of each ConfigMap.
        winners: the mapping of each vendor.
    """

    chosen: ValidSettings
    applied: Settings
    compatibility: Compatibility
    choice: Choice
    winners: Mapping[str, ValidMapping]

    @property
    def own(self) -> dict[str, Prepared]:
        """The mappings in force, by vendor, for `combine`."""
        return {name: mapping.prepared for name, mapping in self.winners.items()}


def combined(chosen: ValidSettings, mappings: Mappings, memo: DocumentCache) -> EffectivePolicy:
    """Combine mappings under some settings."""
    compatibility = compatibility_under(chosen.settings, tuple(mappings.config_maps), memo)
    choice = compatibility.best(mappings.newest, mappings.stable)
    winners = by_vendor(choice, compatibility.order)
    policy = compiled({name: mapping.prepared for name, mapping in winners.items()}, chosen.settings)
    assert isinstance(policy, Policy)  # noqa: S101  (`best` returns compatible documents)
    return EffectivePolicy(chosen, policy.settings, compatibility, choice, winners)


def with_settings(
    written: ConfigMap, before: ValidSettings | None, mappings: Mappings, memo: DocumentCache
) -> tuple[EffectivePolicy, DocumentProblems]:
    """Combine mappings under a settings document; under the last good one if it has problems, or else under its valid part.

    Args:
        written: the ConfigMap with the current settings.
        before: the settings that were accepted last.
        mappings: the mappings to combine.
        memo: caches probes.

    Returns:
        The policy in force, and the problems of the current settings.
    """
    fallback = before or DEFAULT
    now, invalid = settings_now(written)
    if now is None or (invalid and before is not None):
        return combined(fallback, mappings, memo), invalid
    try:
        effective = combined(now, mappings, memo)
    except Exception as error:  # noqa: BLE001  (caused by no mapping: `compiled` reports those)
        return combined(fallback, mappings, memo), (*invalid, bug(error, now.document.source))
    contradictions = tuple(each for each in _contradictions(effective) if not follows_from(each, invalid))
    if before is not None and before.text == now.text:
        # They were valid before: a key that no longer applies, because a vendor is gone, must not invalidate the rest.
        return effective, contradictions
    unchanged = combined(fallback, mappings, memo)
    displaced = _displaced(effective, unchanged, mappings)
    problems = (*invalid, *(contradictions or displaced))
    # Nothing is better known than the part that applies, unless it would put a mapping out of force.
    keeps = not displaced and (before is None or not problems)
    chosen = effective if keeps else unchanged
    if problems and before is None:
        # The invalid part may be what the document says of it.
        bare = {"bare_devices": chosen.applied.bare_devices or "whole"}
        chosen = replace(chosen, applied=chosen.applied.model_copy(update=bare))
    return chosen, problems


def _contradictions(effective: EffectivePolicy) -> DocumentProblems:
    """The settings that contradict the vendors in force."""
    try:
        compile_policy(vendors_with(effective.own), effective.chosen.settings, "")
    except MappingError as error:
        return tuple(
            placed(problem, effective.chosen.document) for problem in error.problems if problem.source == SETTINGS
        )
    return ()


def _displaced(effective: EffectivePolicy, unchanged: EffectivePolicy, mappings: Mappings) -> DocumentProblems:
    """Problems of settings under which a mapping that was accepted before would no longer be in force."""
    source = effective.chosen.document.source
    return tuple(
        Problem(f"configmap/{name} is invalid under these settings: {why}", source=source)
        for name in mappings.stable
        if _rank(name, effective, mappings) < _rank(name, unchanged, mappings)
        for why in _why(name, effective, mappings)[:1]
    )


def _why(name: str, effective: EffectivePolicy, mappings: Mappings) -> Sequence[Problem]:
    mapping = mappings.newest.get(name) or mappings.stable[name]
    return effective.compatibility.objections(name, mapping, effective.choice)


def _rank(name: str, effective: EffectivePolicy, mappings: Mappings) -> int:
    """2: the newest document of a ConfigMap is in force, 1: the last good one, 0: none."""
    if name not in effective.choice:
        return 0
    return 2 if effective.choice[name] is mappings.newest.get(name) else 1


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The result of compiling ConfigMaps.

    Attributes:
        policy: the policy in force.
        verdicts: one for each ConfigMap: that of the settings first, then of mappings, the oldest first.
        accepted: the texts to store as last good, by the name of their ConfigMap.
        marks: identify the probes that the documents in force have passed, for the `DocumentCache` of a later process.
        mappings: the documents in force, beside the built-in ones.
        settings: the settings in force, as a document.
    """

    policy: Policy
    verdicts: tuple[Verdict, ...]
    accepted: Mapping[str, str]
    marks: frozenset[str]
    mappings: tuple[Document, ...] = ()
    settings: Document = DEFAULT.document

    @property
    def has_settings(self) -> bool:
        """Whether there is a settings document."""
        return any(verdict.kind == "settings" for verdict in self.verdicts)

    @property
    def in_force(self) -> frozenset[str]:
        """The names of the ConfigMaps whose documents are in force."""
        return frozenset(verdict.config_map.name for verdict in self.verdicts if verdict.accepted)


def policy_of(config_maps: Iterable[ConfigMap], last_good: Mapping[str, str], memo: DocumentCache) -> PolicyOutcome:
    """Make the policy of a namespace's ConfigMaps.

    Args:
        config_maps: all current ones; those that are not part of a policy are ignored.
        last_good: the texts that were accepted before, by the name of their ConfigMap.
        memo: caches documents; it affects only the time that this takes.
    """
    oldest_first = sorted(config_maps, key=lambda config_map: (config_map.created, config_map.name))
    present = {config_map.name: config_map for config_map in oldest_first}
    mappings = read_mappings(present, last_good, memo)
    accepted = {name: last_good[name] for name in mappings.config_maps if name in last_good}
    verdicts: list[Verdict] = []
    written = present.get(SETTINGS_NAME)
    if written is None:
        effective = combined(DEFAULT, mappings, memo)
    else:
        before = settings_before(last_good)
        effective, problems = with_settings(written, before, mappings, memo)
        verdicts.append(Verdict(written, "settings", None, problems, _settings_instead(problems, effective, before)))
        if not problems:
            accepted[SETTINGS_NAME] = effective.chosen.text
        elif before is not None:
            accepted[SETTINGS_NAME] = before.text
    policy = combine(effective.own, effective.applied)
    accepted |= {name: mapping.text for name, mapping in effective.choice.items()}
    verdicts += (_verdict(config_map, mappings, effective, policy) for config_map in mappings.config_maps.values())
    marks = {mark_of(mapping, policy.vendors[name], policy.largest_card) for name, mapping in effective.winners.items()}
    memo.forget_unused()
    return PolicyOutcome(
        policy,
        tuple(verdicts),
        accepted,
        frozenset(marks),
        tuple(prepared.merged.document for prepared in effective.own.values()),
        _as_document(effective),
    )


def _as_document(effective: EffectivePolicy) -> Document:
    """The settings that apply, as a document."""
    applied = effective.applied.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return Document(effective.chosen.document.source, applied, effective.chosen.document.lines)


def _verdict(config_map: ConfigMap, mappings: Mappings, effective: EffectivePolicy, policy: Policy) -> Verdict:
    name, read = config_map.name, mappings.read[config_map.name]
    mapping = effective.choice.get(name)
    problems: DocumentProblems = ()
    if not isinstance(read, ValidMapping):
        problems = read
    elif mapping is not read:
        problems = effective.compatibility.objections(name, read, effective.choice)
    if not problems:
        return Verdict(config_map, "mapping", mapping.vendor if mapping is not None else None)
    if mapping is not None:
        return Verdict(config_map, "mapping", mapping.vendor, problems, "its last good version")
    vendor = read.vendor if isinstance(read, ValidMapping) else vendor_named_in(config_map.data.get(MAPPING_KEY, ""))
    return Verdict(config_map, "mapping", vendor, problems, _in_force_instead(vendor, policy))


def _in_force_instead(vendor: str | None, policy: Policy) -> str:
    """What is in force for a vendor instead of a ConfigMap's document."""
    if vendor is None or vendor not in policy.vendors:
        return "nothing"
    source = policy.vendors[vendor].source
    return f"the built-in mapping of {vendor}" if source == BUILT_IN else source


def _settings_instead(problems: DocumentProblems, effective: EffectivePolicy, before: ValidSettings | None) -> str:
    """What is in force instead of settings that have problems."""
    if not problems:
        return ""
    if effective.chosen is before:
        return "their last good version"
    return "the default settings" if effective.applied == DEFAULT.settings else "the keys that apply"


def judge_document(
    candidate: ConfigMap, others: Iterable[ConfigMap], last_good: Mapping[str, str], memo: DocumentCache
) -> tuple[DocumentProblems, DocumentProblems]:
    """Judge a ConfigMap that is about to be stored.

    Args:
        candidate: the ConfigMap.
        others: the current ones, which may include its previous version.
        last_good: as for `policy_of`.
        memo: likewise.

    Returns:
        What is wrong with the document itself, and, if that is nothing, why it would not be in force beside the others: what
        it lacks may be in the next ConfigMap of the same ``kubectl apply``.
    """
    name = candidate.name
    settings = name == SETTINGS_NAME
    # What is invalid is not remembered: nothing stored is compiled with it.
    read = (
        settings_now(candidate)[1] if settings else read_mappings({name: candidate}, {}, DocumentCache()).read.get(name)
    )
    if read and isinstance(read, tuple):
        return read, ()
    present = [*(each for each in others if each.name != name), candidate]
    verdicts = policy_of(present, last_good, memo).verdicts
    return (), next((verdict.problems for verdict in verdicts if verdict.config_map.name == name), ())


async def policy_now(api: Api, namespace: str) -> PolicyOutcome:
    """Read the ConfigMaps of a namespace and the record of the last good ones, and compile the policy.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer.
        UnreadableError: there is none that can be decoded.
    """
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    stored = [item for selector in SELECTORS for item in await list_objects(api, path, StoredConfigMap, selector)]
    record = await LastGood(api, namespace).read()
    config_maps = {item.metadata.name: config_map(item) for item in stored}
    return policy_of(config_maps.values(), record.texts, DocumentCache(record.marks))
