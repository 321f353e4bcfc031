"""Makes a policy from ConfigMaps. An invalid document affects no other one, and never changes a vendor silently.

`policy_of` is a pure function. It returns what is in force, and for each ConfigMap whether its document is; if not, why,
and what is in force instead: its last good version, or else the built-in mapping of that name, or nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook.cluster.configuration.config_maps import MAPPING_KEY, SETTINGS_NAME, ConfigMap
from webhook.cluster.configuration.documents import (
    DocumentCache,
    Problems,
    ValidMapping,
    ValidSettings,
    mark_of,
    vendor_named_in,
)
from webhook.cluster.configuration.effective_policy import DEFAULT, EffectivePolicy, combined, with_settings
from webhook.cluster.configuration.mappings import Mappings, read_mappings, settings_before, settings_now
from webhook.cluster.configuration.verdict import Verdict
from webhook.mapping.load import combine
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import BUILT_IN


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The result of compiling ConfigMaps.

    Attributes:
        policy: the policy in force.
        verdicts: one for each ConfigMap: that of the settings first, then of mappings, the oldest first.
        accepted: the texts to store as last good, by the name of their ConfigMap.
        marks: identify the probes that the documents in force have passed, for the `DocumentCache` of a later process.
        lost: the names of those of its ConfigMaps that vanished without a deletion, as far as the record says.
    """

    policy: Policy
    verdicts: tuple[Verdict, ...]
    accepted: Mapping[str, str]
    marks: frozenset[str]
    lost: tuple[str, ...] = ()


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
        effective, problems = with_settings(settings_now(written), before, mappings, memo)
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
    return PolicyOutcome(policy, tuple(verdicts), accepted, frozenset(marks))


def _verdict(config_map: ConfigMap, mappings: Mappings, effective: EffectivePolicy, policy: Policy) -> Verdict:
    name, read = config_map.name, mappings.read[config_map.name]
    mapping = effective.choice.get(name)
    problems: Problems = ()
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


def _settings_instead(problems: Problems, effective: EffectivePolicy, before: ValidSettings | None) -> str:
    """What is in force instead of settings that have problems."""
    if not problems:
        return ""
    if effective.chosen is before:
        return "their last good version"
    return "the default settings" if effective.chosen is DEFAULT else "the keys that apply"
