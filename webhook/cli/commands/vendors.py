"""``vgpu-webhook vendors``: prints the mappings in force, a whole one, or the schema of mappings."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.options import PolicyOptions, policy_options
from webhook.cli.terminal import columns

if TYPE_CHECKING:
    from webhook.mapping.document.schema import Key, Texts
    from webhook.mapping.document.schema import Mapping as Document
    from webhook.mapping.model.policy import Policy
    from webhook.mapping.model.vendor import Vendor

_INACTIVE = " (inactive)"
_TO_BE_SET = "to be set"
_HEADINGS = ("VENDOR", "FAMILY", "KEY", "KIND", "UNIT", "PER", "TARGET", "SCHEDULER")
_SHARED = ("NAME OF SEVERAL VENDORS", "ACTIVE", "INACTIVE")


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
        from webhook.mapping.document.settings import mapping_json_schema

        click.echo(json.dumps(mapping_json_schema(), indent=2))
        return
    from webhook.cli.policy_source import sourced_policy

    source = replace(source, cluster=cluster)
    policy = sourced_policy(source).policy
    if to is not None and not (name and matrix):
        raise click.UsageError("--to needs NAME and --matrix")
    what = _what(name, matrix=matrix, sources=sources, guards=guards)
    if name is None:
        click.echo(_of_all(policy, what, markdown=markdown, origin=source.in_cluster), nl=False)
        return
    from webhook.mapping.document.problem import nearest_known

    vendor = policy.vendor_called(name)
    if vendor is None:
        hint = nearest_known(name, policy.vendors)
        raise click.BadParameter(f"no vendor is called {name!r}: {hint}", param_hint="NAME")
    if matrix:
        click.echo(_pairs(policy, vendor.name, to), nl=False)
        return
    from webhook.cli.vendor_pages import as_document

    click.echo(as_document(vendor, list(_shared_by(policy, vendor.name))), nl=False)


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


def _of_all(policy: "Policy", what: str, *, markdown: bool, origin: bool) -> str:
    """Format all vendors: a page of the documentation, or a table for a terminal."""
    from webhook.cli import vendor_pages

    if what == "guards":
        return vendor_pages.guards_page(policy) if markdown else vendor_pages.guards_table(policy)
    if what == "sources":
        return vendor_pages.sources_page(policy) if markdown else vendor_pages.sources_table(policy)
    if what == "matrix":
        return vendor_pages.matrix_page(policy) if markdown else vendor_pages.matrix_table(policy)
    return (
        vendor_pages.keys_page(policy) if markdown else columns(list(_table(policy, origin=origin))) + _shared(policy)
    )


def _pairs(policy: "Policy", source: str, to: str | None) -> str:
    """Format how a vendor's requests translate to all others, or to one of them."""
    from webhook.cli.vendor_pages import cell_table, row_table
    from webhook.mapping.document.problem import nearest_known

    if to is None:
        return row_table(policy, source)
    targets = [vendor.name for vendor in policy.vendors.values() if vendor.target and vendor.name != source]
    if to not in targets:
        hint = nearest_known(to, targets)
        raise click.BadParameter(f"{to!r} is not another vendor that can be a target: {hint}", param_hint="--to")
    return cell_table(policy, source, to)


def _table(policy: "Policy", *, origin: bool) -> Iterator[tuple[str, ...]]:
    """Return the whole table; `origin` adds a column for the source of each mapping."""
    sources = {vendor.name: vendor.source.replace("/mapping.yaml", "") for vendor in policy.vendors.values()}
    yield (*_HEADINGS, "FROM") if origin else _HEADINGS
    for row in rows(policy):
        yield (*row, sources.get(row[0].removesuffix(_INACTIVE), "")) if origin else row


def rows(policy: "Policy") -> Iterator[tuple[str, ...]]:
    """Return the table: a row for each spelling of each key; the first of a vendor has the vendor's own columns."""
    for vendor in policy.vendors.values():
        about = (f"{vendor.name}{_INACTIVE}" if vendor.inactive else vendor.name, vendor.family)
        where = (_target(vendor, policy), vendor.place.scheduler or "any")
        for columns_of_key in _keys(vendor):
            yield (*about, *columns_of_key, *where)
            about, where = ("", ""), ("", "")


def _shared(policy: "Policy") -> str:
    """Format the names that several vendors use, and how to make another vendor active; empty if there are none."""
    from webhook.mapping.model.policy import shared_names

    names = list(shared_names(policy))
    if not names:
        return ""
    rows = [(shared.name, shared.owner or "none", ", ".join(shared.others)) for shared in names]
    how = f"The setting `owners` makes another one active, for instance {names[0].choice(names[0].others[0])}"
    return f"\n{columns([_SHARED, *rows])}\n{how}\n"


def _shared_by(policy: "Policy", vendor: str) -> Iterator[str]:
    """Describe the names that a vendor shares with others."""
    from webhook.mapping.model.policy import shared_names

    for shared in shared_names(policy):
        if shared.owner == vendor:
            yield f"{shared.name}: active; inactive: {', '.join(shared.others)}"
        elif vendor in shared.others:
            yield f"{shared.name}: inactive; active: {shared.owner or 'none'}; to change it: {shared.choice(vendor)}"


def _keys(vendor: "Vendor") -> Iterator[tuple[str, str, str, str]]:
    from webhook.mapping.requests.values import unconfigured_size

    document = vendor.document
    for name, key in document.keys.items():
        first, *others = _spellings(key)
        kinds = [key.kind] if isinstance(key.kind, str) else key.kind
        unit = _TO_BE_SET if "devices" in kinds and unconfigured_size(vendor) is not None else _unit(key, kinds)
        yield first, " and ".join(kinds), unit, _per(name, key, kinds, document)
        for other in others:
            yield f"or {other}", "", "", ""


def _spellings(key: "Key") -> list[str]:
    places: list[tuple[str, Texts | None]] = [
        ("", key.resource),
        ("label ", key.label),
        ("annotation ", key.annotation),
        ("nodeSelector ", key.node_selector),
    ]
    return [
        f"{place}{text}"
        for place, texts in places
        if texts is not None
        for text in ([texts] if isinstance(texts, str) else texts)
    ]


def _unit(key: "Key", kinds: list[Any]) -> str:
    if key.unit is not None:
        return f"{key.unit} B" if str(key.unit).isdigit() else str(key.unit)
    if "unit" in key.model_fields_set:
        return _TO_BE_SET
    if "cores" in kinds:
        return "1%"
    return "1" if "devices" in kinds else ""


def _per(name: str, key: "Key", kinds: list[Any], document: "Document") -> str:
    """Whether the number is for each device or over all, and the forms in which that differs."""
    if not {"memory", "cores"} & set(kinds):
        return ""
    total = bool(key.total)
    other = [
        form.name or "a form"
        for form in document.forms
        if name in form.keys and form.keys[name].total not in {None, total}
    ]
    per = ["device", "total"]
    return per[total] + (f" ({per[not total]}: {', '.join(other)})" if other else "")


def _target(vendor: "Vendor", policy: "Policy") -> str:
    from webhook.admission.overrides import Overrides, target_of
    from webhook.finding import Denied

    try:
        target, _ = target_of(vendor, Overrides(), policy)
    except Denied:
        return "none"
    return "itself" if target.name == vendor.name else target.name
