"""ConfigMaps → policy. A bad document takes nothing else down, and changes nothing silently, not even its own vendor.

`policy_of` is a pure function: it says what is in force, and for each ConfigMap whether its document is; if not, why, and what
is instead: its last good version, or else the built-in mapping of that name, or nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook.cluster.configuration.config_maps import MAPPING_KEY, SETTINGS_NAME, ConfigMap
from webhook.cluster.configuration.documents import Chosen, DocumentCache, Problems, Sound, mark_of, named_in
from webhook.cluster.configuration.effective_policy import DEFAULT, EffectivePolicy, put_together, with_settings
from webhook.cluster.configuration.mappings import Mappings, read_mappings, settings_before, settings_now
from webhook.cluster.configuration.verdict import Verdict
from webhook.mapping.load import combine
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import BUILT_IN


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What ConfigMaps come to.

    Attributes:
        policy: what is in force.
        verdicts: of each ConfigMap: the settings first, then mappings, the oldest first.
        accepted: the texts to be kept, by the name of their ConfigMap: the last good ones of the next time.
        marks: of the probes that what is in force has passed, for the `DocumentCache` of a later process.
    """

    policy: Policy
    verdicts: tuple[Verdict, ...]
    accepted: Mapping[str, str]
    marks: frozenset[str]


def policy_of(config_maps: Iterable[ConfigMap], last_good: Mapping[str, str], memo: DocumentCache) -> PolicyOutcome:
    """The policy of a namespace's ConfigMaps.

    Args:
        config_maps: all that there are now; those that are nothing to us are passed over.
        last_good: the texts that were accepted before, by the name of their ConfigMap.
        memo: what is known of documents; it changes nothing but the time that this takes.
    """
    present = {one.name: one for one in sorted(config_maps, key=lambda one: (one.created, one.name))}
    mappings = read_mappings(present, last_good, memo)
    accepted = {name: last_good[name] for name in mappings.config_maps if name in last_good}
    verdicts: list[Verdict] = []
    written = present.get(SETTINGS_NAME)
    if written is None:
        force = put_together(DEFAULT, mappings, memo)
    else:
        before = settings_before(last_good)
        force, problems = with_settings(settings_now(written), before, mappings, memo)
        verdicts.append(Verdict(written, "settings", None, problems, _instead_of(problems, force, before)))
        if not problems:
            accepted[SETTINGS_NAME] = force.chosen.text
        elif before is not None:
            accepted[SETTINGS_NAME] = before.text
    policy = combine(force.own, force.applied)
    accepted |= {name: one.text for name, one in force.choice.items()}
    verdicts += (_verdict(one, mappings, force, policy) for one in mappings.config_maps.values())
    marks = {mark_of(one, policy.vendors[name], policy.largest_card) for name, one in force.winners.items()}
    memo.turn()
    return PolicyOutcome(policy, tuple(verdicts), accepted, frozenset(marks))


def _verdict(config_map: ConfigMap, mappings: Mappings, force: EffectivePolicy, policy: Policy) -> Verdict:
    name, read = config_map.name, mappings.read[config_map.name]
    kept = force.choice.get(name)
    problems: Problems = ()
    if not isinstance(read, Sound):
        problems = read
    elif kept is not read:
        problems = force.fitting.objections(name, read, force.choice)
    if not problems:
        return Verdict(config_map, "mapping", kept.vendor if kept is not None else None)
    if kept is not None:
        return Verdict(config_map, "mapping", kept.vendor, problems, "its last good version")
    vendor = read.vendor if isinstance(read, Sound) else named_in(config_map.data.get(MAPPING_KEY, ""))
    return Verdict(config_map, "mapping", vendor, problems, _other(vendor, policy))


def _other(vendor: str | None, policy: Policy) -> str:
    """What is in force of a vendor that is not a ConfigMap's own document."""
    if vendor is None or vendor not in policy.vendors:
        return "nothing of it"
    source = policy.vendors[vendor].source
    return f"the built-in mapping of {vendor}" if source == BUILT_IN else source


def _instead_of(problems: Problems, force: EffectivePolicy, before: Chosen | None) -> str:
    """What is in force instead of settings that have problems."""
    if not problems:
        return ""
    if force.chosen is before:
        return "their last good version"
    return "the default settings" if force.chosen is DEFAULT else "as much of them as applies"
