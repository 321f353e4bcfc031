"""``vgpu-webhook vendors``: prints the mappings in force, a whole one, or the schema of mappings."""

import json
from dataclasses import replace

import click

from webhook.cli.options import PolicyOptions, policy_options
from webhook.cli.policy_source import sourced_policy
from webhook.cli.vendor_pages import (
    as_document,
    guards_page,
    guards_table,
    keys_page,
    keys_table,
    names_shared_by,
    sources_page,
    sources_table,
)
from webhook.mapping.document.problem import nearest_known
from webhook.mapping.document.settings import mapping_json_schema
from webhook.mapping.model.policy import Policy


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@policy_options
@click.option(
    "--matrix",
    is_flag=True,
    help="Show how each vendor's requests translate to each other vendor; all pairs take half a minute.",
)
@click.option(
    "--to",
    metavar="TARGET",
    help="With NAME and --matrix: which of NAME's requests have which outcome, for one target.",
)
@click.option(
    "--markdown",
    is_flag=True,
    help="Print Markdown; with --guards it is docs/guards.md.",
)
@click.option(
    "--sources", is_flag=True, help="Show the sources that each mapping was checked against: versions, with the date."
)
@click.option("--guards", is_flag=True, help="Show what the guard of each mapping watches, and what is done about it.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of mapping documents, for editors.")
@click.option(
    "--cluster",
    is_flag=True,
    help="The mappings in force in the cluster of this process, and their ConfigMaps; like --context without a name.",
)
def vendors(
    *,
    name: str | None,
    source: PolicyOptions,
    matrix: bool,
    to: str | None,
    markdown: bool,
    sources: bool,
    guards: bool,
    schema: bool,
    cluster: bool,
) -> None:
    """Show the mappings in force: the keys of each vendor, their units, and the target of its requests.

    The second table has the names that several vendors use, with the active and the inactive vendors of each.

    With NAME: that vendor's whole document as YAML, to start your own from. What it overrides of a built-in one is marked.
    With NAME and --matrix: which of its requests each other vendor can express, and why not the others.
    """
    if schema:
        click.echo(json.dumps(mapping_json_schema(), indent=2))
        return
    source = replace(source, cluster=cluster)
    policy = sourced_policy(source).policy
    if to is not None and not (name and matrix):
        raise click.UsageError("--to needs NAME and --matrix")
    what = _what(name, matrix=matrix, sources=sources, guards=guards)
    if name is None:
        click.echo(_of_all(policy, what, markdown=markdown, origin=source.in_cluster), nl=False)
        return
    vendor = policy.vendor_called(name)
    if vendor is None:
        hint = nearest_known(name, policy.vendors)
        raise click.BadParameter(f"no vendor is called {name!r}: {hint}", param_hint="NAME")
    if matrix:
        click.echo(_pairs(policy, vendor.name, to), nl=False)
        return
    click.echo(as_document(vendor, list(names_shared_by(policy, vendor.name))), nl=False)


def _what(name: str | None, *, matrix: bool, sources: bool, guards: bool) -> str:
    """Return what to show of all vendors.

    Raises:
        click.UsageError: that cannot be shown of one vendor, or beside something else.
    """
    for asked, option, key in ((sources, "sources", "sources"), (guards, "guards", "guard")):
        if not asked:
            continue
        if name or matrix:
            raise click.UsageError(f"--{option} applies to all vendors: for one, see `{key}` in its document")
        return option
    return "matrix" if matrix else "vendors"


def _of_all(policy: Policy, what: str, *, markdown: bool, origin: bool) -> str:
    """Format all vendors: a page of the documentation, or a table for a terminal."""
    if what == "guards":
        return guards_page(policy) if markdown else guards_table(policy)
    if what == "sources":
        return sources_page(policy) if markdown else sources_table(policy)
    if what == "matrix":
        from webhook.cli.matrix_pages import matrix_page, matrix_table

        return matrix_page(policy) if markdown else matrix_table(policy)
    return keys_page(policy) if markdown else keys_table(policy, origin=origin)


def _pairs(policy: Policy, source: str, to: str | None) -> str:
    """Format how a vendor's requests translate to all others, or to one of them."""
    from webhook.cli.matrix_pages import cell_table, row_table

    if to is None:
        return row_table(policy, source)
    targets = [vendor.name for vendor in policy.vendors.values() if vendor.target and vendor.name != source]
    if to not in targets:
        hint = nearest_known(to, targets)
        raise click.BadParameter(f"{to!r} is not another vendor that can be a target: {hint}", param_hint="--to")
    return cell_table(policy, source, to)
