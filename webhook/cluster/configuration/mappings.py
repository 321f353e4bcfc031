"""The current documents of the mapping ConfigMaps of a namespace, and the last good ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webhook.cluster.configuration.compatibility import Choice
from webhook.cluster.configuration.config_maps import MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME, ConfigMap
from webhook.cluster.configuration.documents import Chosen, DocumentCache, Problems, Sound, read_settings
from webhook.mapping.document.problem import Problem

LAST_GOOD: Final = " (last good)"
"""Suffix of the source of a document that is not the current one of its ConfigMap."""


@dataclass(frozen=True, slots=True)
class Mappings:
    """The mapping ConfigMaps and their documents.

    Attributes:
        config_maps: by name, the oldest first.
        read: the current documents, or their problems.
        newest: the current documents that are valid by themselves.
        stable: those that were accepted last.
    """

    config_maps: Mapping[str, ConfigMap]
    read: Mapping[str, Sound | Problems]
    newest: Choice
    stable: Choice


def read_mappings(present: Mapping[str, ConfigMap], last_good: Mapping[str, str], memo: DocumentCache) -> Mappings:
    """Read the mappings among the ConfigMaps of a namespace.

    Args:
        present: by name, the oldest first.
        last_good: texts that were accepted before, by ConfigMap.
        memo: caches documents.
    """
    config_maps = {name: one for name, one in present.items() if one.holds_mapping}
    read = {name: _now(one, memo) for name, one in config_maps.items()}
    newest = {name: one for name, one in read.items() if isinstance(one, Sound)}
    stable: dict[str, Sound] = {}
    for name in config_maps:
        kept, now = last_good.get(name), newest.get(name)
        if kept is None:
            continue
        found = (
            now if now is not None and now.text == kept else memo.mapping(kept, _source(name, MAPPING_KEY, LAST_GOOD))
        )
        if isinstance(found, Sound):
            stable[name] = found
    return Mappings(config_maps, read, newest, stable)


def unsound_in(kept: Mapping[str, str], remembered: Mapping[str, str], memo: DocumentCache) -> frozenset[str]:
    """The ConfigMaps whose stored text is invalid, while the remembered one is valid.

    Somebody, or a newer version, has written into the record: the remembered text stays in force.
    """
    return frozenset(
        name
        for name, text in kept.items()
        if remembered.get(name, text) != text
        and not _is_sound(name, text, memo)
        and _is_sound(name, remembered[name], memo)
    )


def _is_sound(name: str, text: str, memo: DocumentCache) -> bool:
    if name == SETTINGS_NAME:
        return isinstance(read_settings(text, _source(name, SETTINGS_KEY, LAST_GOOD)), Chosen)
    return isinstance(memo.mapping(text, _source(name, MAPPING_KEY, LAST_GOOD)), Sound)


def settings_now(written: ConfigMap) -> Chosen | Problems:
    """Read the settings of a ConfigMap; their problems if they are invalid."""
    text = written.data.get(SETTINGS_KEY)
    return _missing(written, SETTINGS_KEY) if text is None else read_settings(text, _source(written.name, SETTINGS_KEY))


def settings_before(last_good: Mapping[str, str]) -> Chosen | None:
    """The settings that were accepted last; None if there were none, or they are no longer valid."""
    kept = last_good.get(SETTINGS_NAME)
    found = None if kept is None else read_settings(kept, _source(SETTINGS_NAME, SETTINGS_KEY, LAST_GOOD))
    return found if isinstance(found, Chosen) else None


def _now(one: ConfigMap, memo: DocumentCache) -> Sound | Problems:
    text = one.data.get(MAPPING_KEY)
    return _missing(one, MAPPING_KEY) if text is None else memo.mapping(text, _source(one.name, MAPPING_KEY))


def _missing(one: ConfigMap, key: str) -> Problems:
    keys = f"it has {', '.join(sorted(one.data))}" if one.data else "it is empty"
    return (Problem(f"the data has no key {key}", hint=keys, source=f"configmap/{one.name}"),)


def _source(name: str, key: str, which: str = "") -> str:
    return f"configmap/{name}/{key}{which}"
