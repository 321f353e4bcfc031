"""ConfigMaps as tests write them, and what becomes of them."""

from collections.abc import Mapping
from typing import Final

from webhook import labels
from webhook.cluster.policy.choose import PolicyOutcome, policy_of
from webhook.cluster.policy.documents import MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME, ConfigMap, DocumentCache
from webhook.mapping.document import Document
from webhook.mapping.load import build_policy

LABELS = {labels.MAPPING: "true"}
WITHOUT_SETTINGS: Final = build_policy([], Document("", {"bareDevices": "whole"}, {}))
"""The policy of a cluster without any document or setting."""


def mapping(name: str, text: str | None, created: int = 0, version: int = 1) -> ConfigMap:
    """A mapping ConfigMap, created at some second; without a text it has no document."""
    data = {} if text is None else {MAPPING_KEY: text}
    time = f"2026-01-01T00:{created // 60:02}:{created % 60:02}Z"
    return ConfigMap(name, data, LABELS, f"uid-{name}", time, str(version))


def settings(text: str) -> ConfigMap:
    """The settings ConfigMap."""
    return ConfigMap(SETTINGS_NAME, {SETTINGS_KEY: text}, {}, "uid-settings", "2026-01-01T00:00:00Z", "1")


def vendor(name: str, *, domain: str | None = None, about: str = "", **more: str) -> str:
    """A small vendor of its own that is in order; `more` are further lines."""
    domain = domain or f"{name}.example"
    lines = [f"about: {about}"] if about else []
    lines += [f"{key}: {value}" for key, value in more.items()]
    return (
        f"vendor: {name}\nfamily: nvidia\nkeys:\n  gpu: {{resource: {domain}/gpu, is: devices}}\n"
        f"  mem: {{resource: {domain}/mem, is: memory, unit: 1Mi}}\n"
        "forms:\n- {name: share, absent: {devices: 1, memory: all, cores: unlimited}}\n"
        + "".join(f"{line}\n" for line in lines)
    )


def outcome(
    *config_maps: ConfigMap, last_good: Mapping[str, str] | None = None, memo: DocumentCache | None = None
) -> PolicyOutcome:
    """What ConfigMaps come to."""
    return policy_of(config_maps, last_good or {}, memo or DocumentCache())


def rejections(outcome: PolicyOutcome) -> dict[str, str]:
    """The rejected ConfigMaps, each with its first problem and what is in force instead."""
    return {
        verdict.config_map.name: f"{verdict.problems[0]} → {verdict.instead}"
        for verdict in outcome.verdicts
        if not verdict.accepted
    }


def abouts(outcome: PolicyOutcome) -> dict[str, str | None]:
    """The vendors in force that say something about themselves."""
    return {name: active.about for name, active in outcome.policy.vendors.items() if active.about}
