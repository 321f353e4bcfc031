"""The policy that the options of a command choose: of files, of the chart's values, or in force in a cluster.

Of values: the mappings and settings that an installation with them has, and what the chart would reject. In the package
`webhook.cli`, `chart-values.yaml` has the chart's own values (`make docs` writes it), and `values.schema.yaml` is the
hand-written part of the schema with which Helm checks values; the keywords that it uses are known here. What becomes of
values is in `deploy/chart/templates/configuration.yaml`. A test compares both with Helm itself.
"""

import difflib
import functools
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import click
from msgspec import Struct
from msgspec.structs import replace

from webhook.cli.files import Manifest, ManifestError, read_manifests
from webhook.cli.options import PolicyOptions, in_cluster
from webhook.cli.terminal import Failure, tell
from webhook.mapping.document import Document, FieldPath, MappingError, Problem, nearest_known, parse
from webhook.mapping.load import build_policy, builtin, combine, documents_in, prepare, settings_in
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.settings import Settings
from webhook.mapping.strict import API_VERSION, EXTENDS, Strict, merge_documents, validated

FileKind: TypeAlias = Literal["values", "settings", "mapping"]


DEFAULT: Final = "default (no target, whole devices)"
_OTHERS: Final = "; yours: --values FILE, --context NAME"


class SourcedPolicy(Struct, frozen=True):
    """A policy, where it comes from (as the end of a sentence), its documents beside the built-in ones, and warnings."""

    title: str
    policy: Policy
    mappings: Sequence[Document] = ()
    settings: Document | None = None
    warnings: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """The title; that of the default with the options for another policy."""
        return f"{self.title}{_OTHERS if self.title == DEFAULT else ''}"

    @property
    def line(self) -> str:
        """The line with which a report begins."""
        return f"policy: {self.described}"

    def with_documents(self, mappings: Sequence[Document], settings: Document | None, *, partial: bool) -> Policy:
        """Return the policy that results if these documents replace those of the same vendors, and the settings.

        Raises:
            MappingError: a document is invalid.
        """
        if not mappings and settings is None:
            return self.policy
        return build_policy([*self.kept_beside(mappings), *mappings], settings or self.settings, partial=partial)

    def written(self, vendor: str) -> dict[str, Any]:
        """Return the document of a vendor as it is written, merged with the one that it extends."""
        own = next((each for each in self.mappings if _vendor(each.data) == vendor), None)
        return builtin()[vendor].data if own is None else merge_documents(own, builtin())

    def kept_beside(self, mappings: Sequence[Document]) -> list[Document]:
        """Return the mappings of vendors that these do not replace."""
        replaced = [_vendor(document.data) for document in mappings]
        return [document for document in self.mappings if _vendor(document.data) not in replaced]


WithDocuments: TypeAlias = Callable[..., Policy]
"""Makes the policy that results from documents: `SourcedPolicy.with_documents`."""


def _vendor(data: dict[str, Any]) -> Any:
    return data.get("vendor", data.get(EXTENDS))


def sourced_policy(options: PolicyOptions, *, silent: bool = False) -> SourcedPolicy:
    """Load the policy of these options; print its warnings on stderr."""
    options.check()
    try:
        found = policy_in_cluster(options) if options.in_cluster else _from_files(options)
    except MappingError as error:
        raise Failure(map(str, error.problems)) from error
    except ManifestError as error:
        raise Failure([str(error)]) from error
    except OSError as error:
        raise Failure([f"{error.filename}: {error.strerror}"]) from error
    for line in () if silent else found.warnings:
        tell(line)
    return found


def _from_files(options: PolicyOptions) -> SourcedPolicy:
    if options.values:
        read, names = (
            [manifest for path in options.values for manifest in _read(path)],
            ", ".join(map(str, options.values)),
        )
        return SourcedPolicy(f"{names} over the chart's values", *policy_of_values(read, names))
    default, own = _default(), options.settings
    if options.mappings is None and own is None:
        return default
    title = DEFAULT if own is None else f"the settings of {own}"
    given = documents_in(options.mappings)
    documents = [*default.kept_beside(given), *given]
    _check_kind(given, "mapping")
    chosen = default.settings if own is None else settings_in(own)
    _check_kind([] if own is None or chosen is None else [chosen], "settings")
    changed = "" if options.mappings is None else f", changed by {options.mappings}"
    return SourcedPolicy(title + changed, build_policy(documents, chosen), documents, chosen)


_LEAST: Final = {"settings": {"bareDevices": "whole"}, "shim": {"mode": "plugin"}}
"""Values for what the chart requires; its own ones name no target."""


@cache
def _default() -> SourcedPolicy:
    """Return the policy without any option: one that the chart accepts, and that changes least."""
    mappings, settings = documents_of_values(merged(chart_values(), _LEAST), "the default policy")
    # Without probes, which the tests make of these documents: they would take a tenth of a command's time.
    own = {prepared.vendor.name: prepared for prepared in map(prepare, mappings)}
    policy = combine(own, validated(Settings, settings.data, settings))
    return SourcedPolicy(DEFAULT, policy, mappings, settings)


def check_target(target: str | None, policy: Policy) -> None:
    """Reject a target that is not a vendor."""
    if target is not None:
        vendor_called(target, policy, "--to")


def vendor_called(name: str, policy: Policy, option: str) -> Vendor:
    """Return the vendor that an option names."""
    vendor = policy.vendor_called(name)
    if vendor is None:
        hint = nearest_known(name, policy.vendors, policy.names)
        raise click.BadParameter(f"no vendor is called {name!r}: {hint}", param_hint=option)
    return vendor


def policy_in_cluster(options: PolicyOptions) -> SourcedPolicy:
    """Read the policy of a cluster's ConfigMaps."""
    from webhook.cluster.connection import current_context, release_namespace_of
    from webhook.cluster.policy.choose import policy_now
    from webhook.cluster.policy.documents import NO_SETTINGS

    outcome = in_cluster(options, policy_now)
    namespace = release_namespace_of(options.release_namespace)
    named = options.context or current_context(options.kubeconfig)
    problems = [line for verdict in outcome.verdicts if not verdict.accepted for line in verdict.lines()]
    if not outcome.has_settings:
        problems.append(f"namespace {namespace}: {NO_SETTINGS}; --release-namespace names the webhook's own namespace")
    warnings = (f"warning: {line}" for line in problems)
    cluster = "the pod's own cluster" if named is None else f"context {named}"
    title = f"in force in {cluster}, namespace {namespace} (digest {outcome.policy.digest})"
    return SourcedPolicy(title, outcome.policy, outcome.mappings, outcome.settings, tuple(warnings))


def _read(path: Path) -> list[Manifest]:
    found = read_manifests(path.read_bytes(), str(path))
    if len(found) > 1:
        raise Failure([f"{path}: contains more than one document: name each in a --values of its own"])
    _check_kind(found, "values")
    return found


_NAMED: Final[Mapping[FileKind, str]] = {
    "values": "values of the chart: use --values",
    "settings": "settings: use --settings",
    "mapping": "a mapping: use --mappings with its folder",
}


def _check_kind(documents: Iterable[Document], expected: FileKind) -> None:
    """Reject a document that another option reads."""
    for each in documents:
        if (kind := kind_of(each.data, expected)) != expected:
            raise Failure([f"{each.source}: looks like {_NAMED[kind]}"])


CHART_VALUES: Final = "chart-values.yaml"

_VENDOR: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PARTS: Final = ("settings", "mappings", "shim")
_EMPTY: Final = _PARTS[:2]  # of which the chart has none: its templates read null so
_REQUIRED: Final = "is not set, and the chart requires it"
_HEADER: Final = ("apiVersion", "kind")


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


CHART_SCHEMA: Final = "values.schema.yaml"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a text", lambda value: isinstance(value, str)),
    "integer": ("a whole number", lambda value: _is_number(value) and value % 1 == 0),
    "number": ("a number", _is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("a map", lambda value: isinstance(value, dict)),
}

_BOUNDS: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "minimum": ("must be at least {}", lambda value, least: not _is_number(value) or value >= least),
    "exclusiveMinimum": ("must be more than {}", lambda value, bound: value > bound),
    "maximum": ("must be at most {}", lambda value, most: not _is_number(value) or value <= most),
    "minLength": ("is empty", lambda value, least: not isinstance(value, str) or len(value) >= least),
    "minItems": ("is empty", lambda value, least: len(value) >= least),
    "maxLength": ("has more than {} characters", lambda value, most: len(value) <= most),
    "pattern": ("does not match {}", lambda value, pattern: re.search(pattern, value) is not None),
}


@cache
def chart_schema() -> Mapping[str, Any]:
    """Return the schema."""
    (document,) = parse((resources.files("webhook.cli") / CHART_SCHEMA).read_text(), CHART_SCHEMA)
    return document.data


def mistakes(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the schema rejects in values that are merged over the chart's own, and sections without values."""
    return _mistakes(values, chart_schema(), defaults, ())


def _mistakes(value: Any, schema: Mapping[str, Any], default: Any, path: FieldPath) -> Iterator[Problem]:
    schema = chart_schema()["$defs"].get(schema.get("$ref", "").removeprefix("#/$defs/"), schema)
    types = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if value is None:
        if default and schema.get("additionalProperties") is False and "null" not in types:
            hint = "remove the line, or write values below it"
            yield Problem("is empty, which deletes the chart's values", path, hint)
    elif types and not any(_TYPES[name][1](value) for name in types if name in _TYPES):
        expected = " or ".join(_TYPES[name][0] for name in types if name in _TYPES)
        yield Problem(f"must be {expected}", path, _quotes(value, types))
    elif "enum" in schema and value not in schema["enum"]:
        yield Problem(f"is {value!r}", path, nearest_known(str(value), filter(None, schema["enum"])))
    elif bounds := [
        text.format(schema[name])
        for name, (text, ok) in _BOUNDS.items()
        if name in schema and not ok(value, schema[name])
    ]:
        yield Problem(bounds[0], path)
    else:
        yield from _mistakes_below(value, schema, default, path)


def _mistakes_below(value: Any, schema: Mapping[str, Any], default: Any, path: FieldPath) -> Iterator[Problem]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _mistakes(item, schema.get("items", {}), None, (*path, index))
    if isinstance(value, dict):
        yield from (Problem("is not set", (*path, key)) for key in schema.get("required", ()) if value.get(key) is None)
        if "if" in schema and not any(_mistakes(value, schema["if"], default, path)):
            yield from _mistakes(value, schema["then"], default, path)
        known, defaults = schema.get("properties", {}), default if isinstance(default, dict) else {}
        others = schema.get("additionalProperties") or {}
        for key, inner in value.items():
            if schema.get("additionalProperties") is False and key not in known and key not in defaults:
                yield Problem("is no value of the chart", (*path, key), _near(key, {*known, *defaults}))
            else:
                yield from _mistakes(inner, known.get(key, others), defaults.get(key), (*path, key))


_UNQUOTED: Final = {"boolean": "true|false", "number": "[0-9]+(?:[.][0-9]+)?"}


def _quotes(value: object, types: list[str]) -> str | None:
    """Say how YAML reads a scalar as another type."""
    if "string" in types and isinstance(value, int | float):
        return "write it in quotes"
    if isinstance(value, str) and re.fullmatch(_UNQUOTED["boolean" if "boolean" in types else "number"], value):
        return "write it without quotes"
    return None


def _near(name: str, known: set[str]) -> str | None:
    hint = nearest_known(name, known)
    return hint if hint.startswith("did you mean") else None
