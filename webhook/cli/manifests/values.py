"""Values of the chart: the mappings and settings that an installation with them has, and what the chart would reject.

`chart-values.yaml` in the package `webhook.cli` has the chart's own values; `make docs` writes it. What becomes of values is
in `deploy/chart/templates/configuration.yaml`. A test compares both with Helm itself.
"""

import difflib
import functools
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, TypeAlias

from webhook.cli.manifests.chart_schema import mistakes
from webhook.cli.manifests.files import Manifest, read_manifests
from webhook.mapping.document import Document, FieldPath, MappingError, Problem, parse
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.settings import Settings
from webhook.mapping.strict import API_VERSION, EXTENDS, Strict

CHART_VALUES: Final = "chart-values.yaml"

_VENDOR: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PARTS: Final = ("settings", "mappings", "shim")
_EMPTY: Final = _PARTS[:2]  # of which the chart has none: its templates read null so
_REQUIRED: Final = "is not set, and the chart requires it"
_HEADER: Final = ("apiVersion", "kind")


FileKind: TypeAlias = Literal["values", "settings", "mapping"]

LIKE: Final = 0.8
"""Similarity from which a key counts as a misspelled known one (`difflib`)."""

MOST_KEYS: Final = 100
"""Keys of a document that are compared to determine its kind."""


def kind_of(data: Mapping[str, Any], expected: FileKind | None = None) -> FileKind:
    """Return the kind of a document: as it says, else by its keys; what is expected, if no other kind has more of them."""
    if data.get("kind") in {"Mapping", "Settings"}:
        return "mapping" if data["kind"] == "Mapping" else "settings"
    plain = data.keys().isdisjoint({"apiVersion", "kind", "vendor", EXTENDS})
    like: dict[FileKind, int] = {
        "values": _likeness(data, chart_values()) if plain else 0,
        "settings": _likeness(data, _SETTINGS),
        "mapping": _likeness(data, [EXTENDS, *_fields(Vendor)]),
    }
    most = max(like, key=lambda kind: like[kind])
    if expected is not None and like[expected] == like[most]:
        return expected
    return most if like[most] else "mapping"


def _likeness(data: Iterable[str], keys: Collection[str]) -> int:
    compared = itertools.islice(data, MOST_KEYS)
    return sum(bool(difflib.get_close_matches(key[:64], keys, n=1, cutoff=LIKE)) for key in compared)


def _fields(model: type[Strict]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


_SETTINGS: Final = _fields(Settings)


@cache
def chart_values() -> Mapping[str, Any]:
    """Return the chart's own values."""
    (manifest,) = read_manifests((resources.files("webhook.cli") / CHART_VALUES).read_bytes(), CHART_VALUES)
    return manifest.data


def merged_values(read: Iterable[Manifest]) -> dict[str, Any]:
    """Merge files of values over the chart's own, as Helm does."""
    # Among themselves first: null for a map in one file, and the map in a later one, leave the chart's own values in it.
    values = merged(chart_values(), functools.reduce(merged, (manifest.data for manifest in read), {}))
    return {part: {} if part in _EMPTY and value is None else value for part, value in values.items()}


def policy_of_values(read: Sequence[Manifest], source: str) -> tuple[Policy, list[Document], Document]:
    """Return the policy, the mappings and the settings of an installation with these values, the later over the earlier.

    Raises:
        MappingError: the chart or the webhook would reject them; each problem with the file, line and path of the value.
    """
    values = merged_values(read)
    problems = list(_problems(values, source))
    try:
        if not any(map(_misshapen, problems)):
            mappings, settings = documents_of_values(values, source)
            policy = build_policy(mappings, settings)
            if not problems:
                return policy, mappings, settings
    except MappingError as error:
        problems += error.problems
    located = [_located(problem, values, read, source) for problem in problems]
    order = [manifest.source for manifest in read]
    raise MappingError(
        sorted(located, key=lambda each: (each.source in order and order.index(each.source), each.line or 0))
    )


def _misshapen(problem: Problem) -> bool:
    """Whether no documents can be made of the values."""
    part, *below = problem.path
    return problem.message.startswith("must be ") and part in _PARTS and (not below[1:] or below[0] == "vendors")


def _located(problem: Problem, values: Mapping[str, Any], read: Sequence[Manifest], source: str) -> Problem:
    """Return a problem of values, or of a document made from them, with the file, line and path of the value."""
    path = problem.path
    if problem.source != source:
        part, _, vendor = problem.source.removeprefix(f"{source}: ").partition(".")
        path = (part, *filter(None, [vendor]), *path)
        if vendor and vendor not in values[part]:
            path = ("shim", "vendors", values["shim"]["vendors"].index(vendor))  # the document was made for it
    for length in range(len(path), 0, -1):
        for manifest in reversed(read):
            if path[:length] in manifest.lines:
                return replace(problem, path=path, source=manifest.source, line=manifest.lines[path[:length]])
    return replace(problem, path=path, source=source, line=None)


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge values: maps are merged, anything else of the second replaces that of the first.

    For null, Helm removes a value of the chart; here it stays as null, which means the same.
    """
    both = dict(first)
    for key, value in second.items():
        before = both.get(key)
        both[key] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return both


def _problems(values: Mapping[str, Any], source: str) -> Iterator[Problem]:
    """What the chart's schema and templates would reject in the values that matter here."""
    misshapen = [part for part in _EMPTY if not isinstance(values[part], dict)]
    yield from (Problem("must be a map", (part,), source=source) for part in misshapen)
    for problem in mistakes(values, chart_values()):
        setting = len(problem.path) == 1 and problem.path[0] in _SETTINGS
        yield replace(problem, source=source, hint="write it below `settings:`" if setting else problem.hint)
    settings, mappings, shim = (values[part] if isinstance(values[part], dict) else {} for part in _PARTS)
    # A misspelled key is reported with the settings.
    misspelled = difflib.get_close_matches("bareDevices", settings.keys() - {"bareDevices"}, cutoff=0.8)
    if not settings.get("bareDevices") and not misspelled:
        hint = "write `whole`, or `share` for the default size of each mapping"
        yield Problem(_REQUIRED, ("settings", "bareDevices"), hint, source)
    if not shim.get("mode"):
        hint = "write `plugin` if the device plugin mounts the enforcing library, or else `inject`"
        yield Problem(_REQUIRED, ("shim", "mode"), hint, source)
    for vendor, mapping in mappings.items():
        yield from _problems_of_mapping(vendor, mapping, source)


def _problems_of_mapping(vendor: str, mapping: Any, source: str) -> Iterator[Problem]:
    path: FieldPath = ("mappings", vendor)
    if not isinstance(mapping, dict):
        hint = "write the document itself below the name of its vendor: `mappings: {VENDOR: {…}}`"
        yield Problem("must be a map", path, hint, source)
    elif _VENDOR.fullmatch(vendor) is None:
        hint = "write at most 63 lower-case letters, digits and hyphens, no hyphen first or last"
        yield Problem("is not a name of a vendor", path, hint, source)
    elif mapping.get("vendor", vendor) != vendor:
        hint = "write the name of the vendor as the key, too"
        yield Problem(f"is {mapping['vendor']!r}", (*path, "vendor"), hint, source)


def documents_of_values(values: Mapping[str, Any], source: str) -> tuple[list[Document], Document]:
    """Return the mappings and the settings that the chart makes of its values; the source of each ends in its path."""
    settings, mappings, shim = dict(values["settings"]), dict(values["mappings"]), values["shim"] or {}
    if shim.get("mode") == "inject":
        settings.setdefault("podSecurityDefault", "privileged")
    else:
        for vendor in shim.get("vendors") or ():
            mapping = mappings.get(vendor, {})
            if mapping.get("shim", ...) is not None:
                mappings[vendor] = merged({"shim": {"mode": "plugin"}}, mapping)

    def document(kind: str, path: FieldPath, data: Mapping[str, Any], head: Mapping[str, Any]) -> Document:
        text = json.dumps({"apiVersion": API_VERSION, "kind": kind, **head, **data}, ensure_ascii=False)
        place = f"{source}: {'.'.join(map(str, path))}"
        try:
            (parsed,) = parse(text, place)
        except MappingError as error:  # with the lines of a text that nobody sees
            raise MappingError([replace(each, source=place, line=None) for each in error.problems]) from error
        return Document(place, parsed.data, {})

    return [
        document(
            "Mapping",
            ("mappings", vendor),
            _without_header(mapping),
            {} if "vendor" in mapping or EXTENDS in mapping else {EXTENDS: vendor},
        )
        for vendor, mapping in sorted(mappings.items())
    ], document("Settings", ("settings",), _without_header(settings), {})


def _without_header(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in _HEADER}
