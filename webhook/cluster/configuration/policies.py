"""Makes a policy of ConfigMaps. An invalid document affects no other, and changes nothing silently, not even its vendor.

`policy_of` is a pure function: it returns what is in force, and for each ConfigMap whether its document is; if not, why,
and what is in force instead: its last good version, else the built-in mapping of that name, else nothing.
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
    named_in,
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
        policy: what is in force.
        verdicts: on each ConfigMap: the settings first, then mappings, the oldest first.
        accepted: the texts to store as last good, by the name of their ConfigMap.
        marks: of the probes that the documents in force have passed, for the `DocumentCache` of a later process.
    """

    policy: Policy
    verdicts: tuple[Verdict, ...]
    accepted: Mapping[str, str]
    marks: frozenset[str]


def policy_of(config_maps: Iterable[ConfigMap], last_good: Mapping[str, str], memo: DocumentCache) -> PolicyOutcome:
    """Make the policy of a namespace's ConfigMaps.

    Args:
        config_maps: all current ones; unrelated ones are ignored.
        last_good: the texts that were accepted before, by the name of their ConfigMap.
        memo: caches documents; it affects only the time that this takes.
    """
    by_age = sorted(config_maps, key=lambda config_map: (config_map.created, config_map.name))
    present = {config_map.name: config_map for config_map in by_age}
    mappings = read_mappings(present, last_good, memo)
    accepted = {name: last_good[name] for name in mappings.config_maps if name in last_good}
    verdicts: list[Verdict] = []
    written = present.get(SETTINGS_NAME)
    if written is None:
        force = combined(DEFAULT, mappings, memo)
    else:
        before = settings_before(last_good)
        force, problems = with_settings(settings_now(written), before, mappings, memo)
        verdicts.append(Verdict(written, "settings", None, problems, _instead_of(problems, force, before)))
        if not problems:
            accepted[SETTINGS_NAME] = force.chosen.text
        elif before is not None:
            accepted[SETTINGS_NAME] = before.text
    policy = combine(force.own, force.applied)
    accepted |= {name: mapping.text for name, mapping in force.choice.items()}
    verdicts += (_verdict(config_map, mappings, force, policy) for config_map in mappings.config_maps.values())
    marks = {mark_of(mapping, policy.vendors[name], policy.largest_card) for name, mapping in force.winners.items()}
    memo.turn()
    return PolicyOutcome(policy, tuple(verdicts), accepted, frozenset(marks))


def _verdict(config_map: ConfigMap, mappings: Mappings, force: EffectivePolicy, policy: Policy) -> Verdict:
    name, read = config_map.name, mappings.read[config_map.name]
    mapping = force.choice.get(name)
    problems: Problems = ()
    if not isinstance(read, ValidMapping):
        problems = read
    elif mapping is not read:
        problems = force.compatibility.objections(name, read, force.choice)
    if not problems:
        return Verdict(config_map, "mapping", mapping.vendor if mapping is not None else None)
    if mapping is not None:
        return Verdict(config_map, "mapping", mapping.vendor, problems, "its last good version")
    vendor = read.vendor if isinstance(read, ValidMapping) else named_in(config_map.data.get(MAPPING_KEY, ""))
    return Verdict(config_map, "mapping", vendor, problems, _other(vendor, policy))


def _other(vendor: str | None, policy: Policy) -> str:
    """What is in force for a vendor instead of a ConfigMap's document."""
    if vendor is None or vendor not in policy.vendors:
        return "nothing of it"
    source = policy.vendors[vendor].source
    return f"the built-in mapping of {vendor}" if source == BUILT_IN else source


def _instead_of(problems: Problems, force: EffectivePolicy, before: ValidSettings | None) -> str:
    """What is in force instead of settings that have problems."""
    if not problems:
        return ""
    if force.chosen is before:
        return "their last good version"
    return "the default settings" if force.chosen is DEFAULT else "as much of them as applies"
