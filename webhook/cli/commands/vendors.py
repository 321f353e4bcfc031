"""``vgpu-webhook vendors``: the mappings in force, one of them whole, or the schema that they follow."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.options import configured, configured_policy, of_cluster
from webhook.cli.output.columns import columns

if TYPE_CHECKING:
    from webhook.mapping.document.schema import Key
    from webhook.mapping.document.schema import Mapping as Document
    from webhook.mapping.document.schema_types import Texts
    from webhook.mapping.model.policy import Policy
    from webhook.mapping.model.vendor import Vendor

_INACTIVE = " (inactive)"
_TO_BE_SET = "to be set"
_HEADINGS = ("VENDOR", "FAMILY", "KEY", "SAYS", "UNIT", "PER", "TARGET", "SCHEDULER")
_SHARED = ("NAME OF SEVERAL VENDORS", "ACTIVE", "INACTIVE")


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@configured
@click.option(
    "--matrix",
    is_flag=True,
    help="Show how each vendor's requests translate to each other vendor; all pairs take half a minute.",
)
@click.option(
    "--to", metavar="TARGET", help="With NAME and --matrix: every interval of NAME's requests, for one target."
)
@click.option(
    "--markdown",
    is_flag=True,
    help="Print docs/keys.md, with --matrix docs/matrix.md, with --sources docs/sources.md.",
)
@click.option(
    "--sources", is_flag=True, help="Show the sources that each mapping was checked against: versions, with the date."
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of mapping documents, for editors.")
@click.option("--cluster", is_flag=True, help="Show the mappings in force in a cluster, and their ConfigMaps.")
@of_cluster("With --cluster: ")
def vendors(  # noqa: PLR0917  (click passes them by name)
    name: str | None,
    mappings: Path | None,
    settings: Path | None,
    matrix: bool,
    to: str | None,
    markdown: bool,
    sources: bool,
    schema: bool,
    cluster: bool,
    kubeconfig: Path | None,
    release_namespace: str | None,
) -> None:
    """Show the mappings in force: the keys of each vendor, what they count in, and where its requests go.

    Below: the names that several vendors use, who owns each, and who is inactive.

    With NAME: that vendor's whole document as YAML, a good start for one of your own. What it overrides of the built-in one
    that it extends is marked. With NAME and --matrix: which of its requests each other can express, and why not the rest.
    """
    if schema:
        from webhook.mapping.document.json_schema import mapping_json_schema

        click.echo(json.dumps(mapping_json_schema(), indent=2))
        return
    if cluster:
        from webhook.cli.cluster_policy import policy_in_cluster

        if mappings is not None or settings is not None:
            raise click.UsageError("--cluster shows what is there: leave --mappings and --settings out")
        policy = policy_in_cluster(kubeconfig, release_namespace)
    elif kubeconfig is not None or release_namespace is not None:
        raise click.UsageError("--kubeconfig and --release-namespace need --cluster")
    else:
        policy = configured_policy(mappings, settings)
    if to is not None and not (name and matrix):
        raise click.UsageError("--to needs NAME and --matrix")
    if sources and (name or matrix):
        raise click.UsageError("--sources is for all vendors: the document of one has its own under `sources`")
    if name is None:
        what = "sources" if sources else "matrix" if matrix else "vendors"
        click.echo(_of_all(policy, what, markdown=markdown, origin=cluster), nl=False)
        return
    from webhook.mapping.document.problem import nearest_known

    vendor = policy.vendors.get(name)
    if vendor is None:
        hint = nearest_known(name, policy.vendors)
        raise click.BadParameter(f"no vendor is called {name!r}: {hint}", param_hint="NAME")
    if matrix:
        click.echo(_pairs(policy, name, to), nl=False)
        return
    from webhook.cli.output.overrides import as_document

    click.echo(as_document(vendor, list(_standing(policy, name))), nl=False)


def _of_all(policy: "Policy", what: str, *, markdown: bool, origin: bool) -> str:
    """What is printed of all vendors: the page of the documentation, or the table for a terminal."""
    from webhook.cli.output import matrix_pages, source_pages, vendor_pages

    if what == "sources":
        return source_pages.sources_page(policy) if markdown else source_pages.sources_table(policy)
    if what == "matrix":
        return matrix_pages.matrix_page(policy) if markdown else matrix_pages.matrix_table(policy)
    return (
        vendor_pages.words_page(policy) if markdown else columns(list(_table(policy, origin=origin))) + _shared(policy)
    )


def _pairs(policy: "Policy", source: str, to: str | None) -> str:
    """What becomes of a vendor's requests in the terms of all others, or of one of them."""
    from webhook.cli.output.matrix_pages import cell_table, row_table
    from webhook.mapping.document.problem import nearest_known

    if to is None:
        return row_table(policy, source)
    targets = [vendor.name for vendor in policy.vendors.values() if vendor.target and vendor.name != source]
    if to not in targets:
        hint = nearest_known(to, targets)
        raise click.BadParameter(f"{to!r} is no other vendor that can be a target: {hint}", param_hint="--to")
    return cell_table(policy, source, to)


def _table(policy: "Policy", *, origin: bool) -> Iterator[tuple[str, ...]]:
    """The whole table; with a column for where a vendor comes from, if asked for."""
    sources = {vendor.name: vendor.source.replace("/mapping.yaml", "") for vendor in policy.vendors.values()}
    yield (*_HEADINGS, "FROM") if origin else _HEADINGS
    for row in rows(policy):
        yield (*row, sources.get(row[0].removesuffix(_INACTIVE), "")) if origin else row


def rows(policy: "Policy") -> Iterator[tuple[str, ...]]:
    """The table: a row for each spelling of each key; what holds for the vendor stands in its first."""
    for vendor in policy.vendors.values():
        about = (f"{vendor.name}{_INACTIVE}" if vendor.inactive else vendor.name, vendor.family)
        where = (_target(vendor, policy), vendor.place.scheduler or "any")
        for word in _words(vendor):
            yield (*about, *word, *where)
            about, where = ("", ""), ("", "")


def _shared(policy: "Policy") -> str:
    """The names that several vendors use, each with its owner, and how another becomes it; nothing where there are none."""
    from webhook.mapping.model.shared_names import shared_names

    names = list(shared_names(policy))
    if not names:
        return ""
    rows = [(one.name, one.owner or "nobody", ", ".join(one.others)) for one in names]
    how = f"The setting `owners` puts another in force, for instance {names[0].choice(names[0].others[0])}"
    return f"\n{columns([_SHARED, *rows])}\n{how}\n"


def _standing(policy: "Policy", vendor: str) -> Iterator[str]:
    """What a vendor is to the names that it shares with others."""
    from webhook.mapping.model.shared_names import shared_names

    for one in shared_names(policy):
        if one.owner == vendor:
            yield f"{one.name}: owned here; inactive {', '.join(one.others)}"
        elif vendor in one.others:
            yield f"{one.name}: inactive, the owner is {one.owner or 'nobody'}; to change it, {one.choice(vendor)}"


def _words(vendor: "Vendor") -> Iterator[tuple[str, str, str, str]]:
    from webhook.mapping.requests.key_values import unset

    document = vendor.document
    for key, word in document.keys.items():
        first, *others = _spellings(word)
        kinds = [word.kind] if isinstance(word.kind, str) else word.kind
        unit = _TO_BE_SET if "devices" in kinds and unset(vendor) is not None else _unit(word, kinds)
        yield first, " and ".join(kinds), unit, _per(key, word, kinds, document)
        for other in others:
            yield f"or {other}", "", "", ""


def _spellings(word: "Key") -> list[str]:
    places: list[tuple[str, Texts | None]] = [
        ("", word.resource),
        ("label ", word.label),
        ("annotation ", word.annotation),
        ("nodeSelector ", word.node_selector),
    ]
    return [
        f"{place}{text}"
        for place, texts in places
        if texts is not None
        for text in ([texts] if isinstance(texts, str) else texts)
    ]


def _unit(word: "Key", kinds: list[Any]) -> str:
    if word.unit is not None:
        return f"{word.unit} B" if str(word.unit).isdigit() else str(word.unit)
    if "unit" in word.model_fields_set:
        return _TO_BE_SET
    if "cores" in kinds:
        return "1%"
    return "1" if "devices" in kinds else ""


def _per(key: str, word: "Key", kinds: list[Any], document: "Document") -> str:
    """Whether the number is for each device or over all, and the forms in which that differs."""
    if not {"memory", "cores"} & set(kinds):
        return ""
    total = bool(word.total)
    other = [
        form.name or "a form"
        for form in document.forms
        if key in form.keys and form.keys[key].total not in {None, total}
    ]
    names = ["device", "total"]
    return names[total] + (f" ({names[not total]}: {', '.join(other)})" if other else "")


def _target(vendor: "Vendor", policy: "Policy") -> str:
    from webhook.admission.overrides import Overrides, target_of
    from webhook.finding import Denied

    try:
        target, _ = target_of(vendor, Overrides(), policy)
    except Denied:
        return "none"
    return "itself" if target.name == vendor.name else target.name
