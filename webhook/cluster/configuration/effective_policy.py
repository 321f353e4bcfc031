"""Which settings are in force, and which mappings beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.cluster.configuration.compatibility import Choice, Compatibility, by_vendor, compatibility_under, compiled
from webhook.cluster.configuration.documents import DocumentCache, Problems, ValidMapping, ValidSettings
from webhook.cluster.configuration.mappings import Mappings
from webhook.mapping.document.problem import MappingError, Problem, bug
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.document.validation import placed
from webhook.mapping.draft import Prepared
from webhook.mapping.load import vendors_with
from webhook.mapping.model.policy import Policy, compile_policy
from webhook.mapping.model.policy_problems import SETTINGS

DEFAULT: Final = ValidSettings("", Document(SETTINGS, {}, {}), Settings())
"""The settings without a settings document."""


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
    now: ValidSettings | Problems, before: ValidSettings | None, mappings: Mappings, memo: DocumentCache
) -> tuple[EffectivePolicy, Problems]:
    """Combine mappings under a settings document, or under the last good one if it has problems.

    Args:
        now: the current settings.
        before: the settings that were accepted last.
        mappings: the mappings to combine.
        memo: caches probes.

    Returns:
        The policy in force, and the problems of the current settings.
    """
    fallback = before or DEFAULT
    if not isinstance(now, ValidSettings):
        return combined(fallback, mappings, memo), now
    try:
        effective = combined(now, mappings, memo)
    except Exception as error:  # noqa: BLE001  (caused by no mapping: `compiled` reports those)
        return combined(fallback, mappings, memo), (bug(error, now.document.source),)
    problems = _contradictions(effective)
    if before is not None and before.text == now.text:
        # They were valid before: a key that no longer applies, because a vendor is gone, must not invalidate the rest.
        return effective, problems
    unchanged = combined(fallback, mappings, memo)
    problems = problems or _displaced(effective, unchanged, mappings)
    return (unchanged if problems else effective), problems


def _contradictions(effective: EffectivePolicy) -> Problems:
    """The settings that contradict the vendors in force."""
    try:
        compile_policy(vendors_with(effective.own), effective.chosen.settings, "")
    except MappingError as error:
        return tuple(
            placed(problem, effective.chosen.document) for problem in error.problems if problem.source == SETTINGS
        )
    return ()


def _displaced(effective: EffectivePolicy, unchanged: EffectivePolicy, mappings: Mappings) -> Problems:
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
