"""The policy that the options of a command choose, with a line that says which one it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from webhook.cli.failure import Failure
from webhook.cli.options import PolicyOptions, configured_policy
from webhook.mapping.document.problem import MappingError, nearest_known
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.document.validation import EXTENDS
from webhook.mapping.load import build_policy, documents_in, settings_in
from webhook.mapping.model.policy import Policy


@dataclass(frozen=True, slots=True)
class SourcedPolicy:
    """A policy and where it comes from.

    Attributes:
        title: where it comes from, as the end of a sentence.
        policy: the policy.
        mappings, settings: the documents that it has beside the built-in ones.
        warnings: lines about documents in a cluster that are not in force.
    """

    title: str
    policy: Policy
    mappings: Sequence[Document] = ()
    settings: Document | None = None
    warnings: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The line with which a report begins."""
        return f"policy: {self.title}"

    def with_documents(self, mappings: Sequence[Document], settings: Document | None, *, partial: bool) -> Policy:
        """Return the policy that results if these documents replace those of the same vendors, and the settings.

        Args:
            mappings: documents of mappings.
            settings: a document of settings; None: the present ones.
            partial: other documents could not be read.

        Raises:
            MappingError: a document is invalid.
        """
        if not mappings and settings is None:
            return self.policy
        replaced = {_vendor(document.data) for document in mappings}
        kept = [document for document in self.mappings if _vendor(document.data) not in replaced]
        return build_policy([*kept, *mappings], settings or self.settings, partial=partial)


def _vendor(data: dict[str, Any]) -> Any:
    return data.get("vendor", data.get(EXTENDS))


def sourced_policy(options: PolicyOptions, *, silent: bool = False) -> SourcedPolicy:
    """Load the policy of these options; print its warnings on stderr.

    Args:
        options: they choose the policy.
        silent: print nothing: the caller does.

    Raises:
        Failure: documents, values or a cluster cannot be read, or a document is invalid.
        click.UsageError: the options contradict each other.
    """
    options.check()
    if not options.in_cluster:
        return _from_files(options)
    from webhook.cli.cluster_policy import policy_in_cluster

    found = policy_in_cluster(options)
    for line in () if silent else found.warnings:
        click.echo(line, err=True)
    return SourcedPolicy(found.title, found.policy, found.mappings, found.settings, found.warnings)


def _from_files(options: PolicyOptions) -> SourcedPolicy:
    if options.values:
        from webhook.cli.chart_values import documents_from

        mappings, settings = documents_from(options.values)
        try:
            policy = build_policy(mappings, settings)
        except MappingError as error:
            raise Failure(map(str, error.problems)) from error
        return SourcedPolicy(
            f"{', '.join(map(str, options.values))} over the chart's values", policy, mappings, settings
        )
    policy = configured_policy(options.mappings, options.settings)
    changed = "" if options.mappings is None else f", changed by {options.mappings},"
    chosen = "default settings" if options.settings is None else f"the settings of {options.settings}"
    return SourcedPolicy(
        f"built-in mappings{changed} and {chosen}",
        policy,
        documents_in(options.mappings),
        settings_in(options.settings),
    )


def check_target(target: str | None, policy: Policy) -> None:
    """Reject a target that is not a vendor.

    Raises:
        click.BadParameter: it names the vendor that was probably meant.
    """
    if target is not None and policy.vendor_called(target) is None:
        hint = nearest_known(target, policy.vendors)
        raise click.BadParameter(f"no vendor is called {target!r}: {hint}", param_hint="--to")
