"""The policy that the options of a command choose: of files, of the chart's values, or in force in a cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import click

from webhook.cli.manifests.files import Manifest, ManifestError, read_manifests
from webhook.cli.manifests.values import FileKind, chart_values, documents_of_values, kind_of, merged, policy_of_values
from webhook.cli.options import PolicyOptions, in_cluster, reading_documents
from webhook.cli.terminal import Failure, tell
from webhook.mapping.document import Document, MappingError, nearest_known
from webhook.mapping.load import build_policy, builtin, documents_in, settings_in
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.strict import EXTENDS, merge_documents

DEFAULT: Final = "default (no target, whole devices)"
_OTHERS: Final = "; yours: --values FILE, --context NAME"


@dataclass(frozen=True, slots=True)
class SourcedPolicy:
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


def _vendor(data: dict[str, Any]) -> Any:
    return data.get("vendor", data.get(EXTENDS))


def sourced_policy(options: PolicyOptions, *, silent: bool = False) -> SourcedPolicy:
    """Load the policy of these options; print its warnings on stderr."""
    options.check()
    if not options.in_cluster:
        return _from_files(options)
    found = policy_in_cluster(options)
    for line in () if silent else found.warnings:
        tell(line)
    return found


def _from_files(options: PolicyOptions) -> SourcedPolicy:
    if options.values:
        read = [manifest for path in options.values for manifest in _read(path)]
        try:
            policy, mappings, settings = policy_of_values(read, _names(options.values))
        except MappingError as error:
            raise Failure(map(str, error.problems)) from error
        return SourcedPolicy(f"{_names(options.values)} over the chart's values", policy, mappings, settings)
    default, own = _default(), options.settings
    if options.mappings is None and own is None:
        return default
    title = DEFAULT if own is None else f"the settings of {own}"
    with reading_documents(options.mappings or own):
        given = documents_in(options.mappings)
        documents = [*default.kept_beside(given), *given]
        _check_kind(given, "mapping")
        chosen = default.settings if own is None else settings_in(own)
        _check_kind([] if own is None or chosen is None else [chosen], "settings")
        policy = build_policy(documents, chosen)
    changed = "" if options.mappings is None else f", changed by {options.mappings}"
    return SourcedPolicy(title + changed, policy, documents, chosen)


_LEAST: Final = {"settings": {"bareDevices": "whole"}, "shim": {"mode": "plugin"}}
"""Values for what the chart requires; its own ones name no target."""


@cache
def _default() -> SourcedPolicy:
    """Return the policy without any option: one that the chart accepts, and that changes least."""
    mappings, settings = documents_of_values(merged(chart_values(), _LEAST), "the default policy")
    return SourcedPolicy(DEFAULT, build_policy(mappings, settings), mappings, settings)


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


def _names(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))


def _read(path: Path) -> list[Manifest]:
    try:
        found = read_manifests(path.read_bytes(), str(path))
    except OSError as error:
        raise Failure([f"{path}: {error.strerror}"]) from error
    except ManifestError as error:
        raise Failure([str(error)]) from error
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
