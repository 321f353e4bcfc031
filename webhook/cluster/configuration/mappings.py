"""The current documents of the mapping ConfigMaps of a namespace, and the last good ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webhook.cluster.configuration.compatibility import Choice
from webhook.cluster.configuration.config_maps import MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME, ConfigMap
from webhook.cluster.configuration.documents import DocumentCache, Problems, ValidMapping, ValidSettings, read_settings
from webhook.mapping.document.problem import Problem

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
    read: Mapping[str, ValidMapping | Problems]
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
        return isinstance(read_settings(text, _source(name, SETTINGS_KEY, LAST_GOOD)), ValidSettings)
    return isinstance(memo.mapping(text, _source(name, MAPPING_KEY, LAST_GOOD)), ValidMapping)


def settings_now(written: ConfigMap) -> ValidSettings | Problems:
    """Read the settings of a ConfigMap, or return their problems if they are invalid."""
    text = written.data.get(SETTINGS_KEY)
    return _missing(written, SETTINGS_KEY) if text is None else read_settings(text, _source(written.name, SETTINGS_KEY))


def settings_before(last_good: Mapping[str, str]) -> ValidSettings | None:
    """The settings that were accepted last; None if there were none, or they are no longer valid."""
    text = last_good.get(SETTINGS_NAME)
    found = None if text is None else read_settings(text, _source(SETTINGS_NAME, SETTINGS_KEY, LAST_GOOD))
    return found if isinstance(found, ValidSettings) else None


def _read(config_map: ConfigMap, memo: DocumentCache) -> ValidMapping | Problems:
    text = config_map.data.get(MAPPING_KEY)
    return (
        _missing(config_map, MAPPING_KEY) if text is None else memo.mapping(text, _source(config_map.name, MAPPING_KEY))
    )


def _missing(config_map: ConfigMap, key: str) -> Problems:
    keys = f"its keys: {', '.join(sorted(config_map.data))}" if config_map.data else "it is empty"
    return (Problem(f"the data has no key {key}", hint=keys, source=f"configmap/{config_map.name}"),)


def _source(name: str, key: str, which: str = "") -> str:
    return f"configmap/{name}/{key}{which}"
