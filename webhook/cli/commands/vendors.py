"""``vgpu-webhook vendors``: prints the mappings in force, or a whole one.

Keys, sources and pairs as tables; documents as YAML.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from webhook.admission.overrides import Overrides, target_of
from webhook.cli import completing
from webhook.cli.manifests.files import yaml_text
from webhook.cli.matrix import matrix_table, pairs
from webhook.cli.options import PolicyOptions, policy_options
from webhook.cli.policy_source import sourced_policy
from webhook.cli.terminal import columns, json_text, prose
from webhook.mapping.document.problem import FieldPath, nearest_known, path_text
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy, shared_names
from webhook.mapping.model.schema import CheckedSource
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.values import unconfigured_size
from webhook.quantity import bytes_text, number_text
from webhook.reasons import Denied


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completing.vendor_names)
@policy_options
@click.option(
    "--matrix",
    is_flag=True,
    help="Show whether each vendor's requests, or NAME's, can be written for each other vendor: probes of them are tried.",
)
@click.option(
    "--sources", is_flag=True, help="Show the sources that each mapping was checked against: versions, with the date."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: whole documents; with --matrix or --sources, what the table has.",
)
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
    sources: bool,
    output: str,
) -> None:
    """Show the mappings in force: the keys of each vendor, their units, and the target of its requests.

    The second table has the names that several vendors use, with the active and the inactive vendors of each.

    With NAME: that vendor's whole document as YAML, to start your own from. What it overrides of a built-in one is marked.
    """
    policy = sourced_policy(source).policy
    if sources and (name or matrix):
        raise click.UsageError("--sources applies to all vendors: for one, see `sources` in its document")
    vendor = None if name is None else _called(policy, name)
    only = None if vendor is None else vendor.name
    if output == "json":
        data = (
            [pair._asdict() for pair in sorted(pairs(policy, only))]
            if matrix
            else _data_of(policy, vendor, sources=sources)
        )
        text = json_text(data)
    elif matrix:
        text = matrix_table(policy, only)
    elif sources:
        text = sources_text(policy)
    elif vendor is None:
        text = keys_table(policy, origin=source.in_cluster)
    else:
        text = as_document(vendor, list(names_shared_by(policy, vendor.name)))
    click.echo(text, nl=False)


def _called(policy: Policy, name: str) -> Vendor:
    """Return the vendor of a name.

    Raises:
        click.BadParameter: there is none; it names the one that was probably meant.
    """
    vendor = policy.vendor_called(name)
    if vendor is None:
        hint = nearest_known(name, policy.vendors, policy.names)
        raise click.BadParameter(f"no vendor is called {name!r}: {hint}", param_hint="NAME")
    return vendor


def _data_of(policy: Policy, vendor: Vendor | None, *, sources: bool) -> list[dict[str, Any]]:
    """Return what is printed as JSON: whole documents with where they are from, or the rows of the sources."""
    if sources:
        return [dict(zip(_SOURCE_KEYS, row, strict=True)) for row in _source_cells(policy)]
    found = policy.vendors.values() if vendor is None else [vendor]
    return [{"vendor": each.name, "source": str(each.source), "document": _data(each)} for each in found]


def _data(vendor: Vendor) -> dict[str, Any]:
    return vendor.document.model_dump(mode="json", by_alias=True, exclude_unset=True)


_INACTIVE: Final = " (inactive)"
_SHARED: Final = ("NAME OF SEVERAL VENDORS", "ACTIVE", "INACTIVE")


def keys_table(policy: Policy, *, origin: bool) -> str:
    """Format a line of each vendor with a row for each spelling of each key below, and the names that several vendors use.

    Args:
        policy: the mappings.
        origin: whether to show the source of each mapping.
    """
    lines: list[str] = []
    for vendor in policy.vendors.values():
        name, family, target, scheduler, *source = _facts(vendor, policy, origin=origin)
        told = ", ".join([f"{name}: {family}", f"target {target}", f"scheduler {scheduler}", *source])
        rows = [(f"  {key}", kind, unit) for key, kind, unit in spelled_rows(vendor)]
        lines += [*(f"{line}\n" for line in prose(told, rest="  ")), columns(rows)]
    return "".join(lines) + _shared(policy)


def _facts(vendor: Vendor, policy: Policy, *, origin: bool) -> tuple[str, ...]:
    """Return the name of a vendor, its hardware, its target and its scheduler, and perhaps the source of its mapping."""
    name = f"{vendor.name}{_INACTIVE}" if vendor.inactive else vendor.name
    source = (vendor.source.replace("/mapping.yaml", ""),) if origin else ()
    return name, vendor.family, _target(vendor, policy), vendor.place.scheduler or "any", *source


def spelled_rows(vendor: Vendor) -> Iterator[tuple[str, str, str]]:
    """Yield the place and name, the kind and the unit of each spelling of each key."""
    for key in vendor.keys.values():
        place, kind, unit = _cells(vendor, key)
        first, *others = (template.text for template in key.spellings)
        yield f"{place}{first}", kind, unit
        yield from ((f"or {place}{other}", "", "") for other in others)


def _target(vendor: Vendor, policy: Policy) -> str:
    try:
        target, _ = target_of(vendor, Overrides(), policy)
    except Denied:
        return "none"
    return "itself" if target.name == vendor.name else target.name


def _shared(policy: Policy) -> str:
    """Format the names that several vendors use, and how to make another vendor active; empty if there are none."""
    names = list(shared_names(policy))
    if not names:
        return ""
    rows = [(shared.name, shared.owner or "none", ", ".join(shared.others)) for shared in names]
    how = f"The setting `owners` makes another one active, for instance {names[0].choice(names[0].others[0])}"
    return "\n".join(["", columns([_SHARED, *rows]), *prose(how), ""])


def names_shared_by(policy: Policy, vendor: str) -> Iterator[str]:
    """Describe the names that a vendor shares with others."""
    for shared in shared_names(policy):
        if shared.owner == vendor:
            yield f"{shared.name}: active; inactive: {', '.join(shared.others)}"
        elif vendor in shared.others:
            yield f"{shared.name}: inactive; active: {shared.owner or 'none'}; to change it: {shared.choice(vendor)}"


def _cells(vendor: Vendor, key: Key) -> tuple[str, str, str]:
    """The place of a key, what it specifies, and what 1 of it is."""
    other = {"text": "a name", "container": "the container", "other": "other"}
    kind = other.get(key.kind) or " and ".join(key.dimensions)
    place = "" if key.place == "resource" else f"{key.place} "
    return place, kind if key.retired is None else f"{kind}; retired", _unit(vendor, key)


def _unit(vendor: Vendor, key: Key) -> str:
    if key.kind != "amount":
        return ""
    if "devices" in key.dimensions:
        counted = "a part of one device" if vendor.counts_parts(key) else ""
        return counted if unconfigured_size(vendor) is None else "a device whose size is to be configured"
    others = " and ".join(repr(form.name) for form in vendor.forms if form.keys[key.name].total != key.total)
    together = ", together" if key.total else ""
    together += f", {'each' if key.total else 'together'} in {others}" if others else ""
    if key.unit is None:
        return f"to be configured{together}"
    unit = bytes_text(key.unit) if key.sized else f"{number_text(key.unit)} %"
    return f"{unit}{together}" if key.values is None else f"{unit}{together}; {key.values}"


_SOURCE_KEYS: Final = ("vendor", "system", "version", "checked_on", "at")


def _source_cells(policy: Policy) -> Iterator[tuple[str, ...]]:
    yield from (
        (vendor.name, source.system, _version(source) or "no version", source.date, source.at)
        for vendor in policy.vendors.values()
        for source in vendor.document.sources
    )


def sources_text(policy: Policy) -> str:
    """Format the sources of each vendor, below its name."""
    lines: list[str] = []
    for vendor, sources in itertools.groupby(_source_cells(policy), key=lambda cells: cells[0]):
        lines.append(vendor)
        for _, system, version, date, at in sources:
            lines += prose(f"{system}, {version}, checked on {date}: {at}", "  ", "    ")
    return "\n".join([*lines, ""])


def _version(source: CheckedSource) -> str:
    """The release that was read; of what only later versions have, the keys and variables."""
    return f"{source.version or ''}{': ' if source.adds else ''}{', '.join(source.adds)}"


MARK: Final = "  # overridden"


def as_document(vendor: Vendor, notes: Iterable[str]) -> str:
    """Format a vendor's document, merged with the one that it extends; a comment marks what it overrides.

    Args:
        vendor: the vendor.
        notes: lines for the comment at the beginning, after the source.
    """
    text = yaml_text(_data(vendor))
    head = "".join(f"# {line}\n" for line in (vendor.source, *notes))
    return f"{head}{marked(text, vendor.overridden)}"


def marked(text: str, overridden: Iterable[FieldPath]) -> str:
    """Add a comment to the line of each path in the YAML of a document; removed paths are listed first."""
    (document,) = parse(text, "")
    lines = text.splitlines()
    removed: list[str] = []
    for path in sorted(overridden, key=str):
        line = document.lines.get(path)
        if line is None:
            removed.append(f"# removed: {path_text(path)}")
        else:
            lines[line - 1] += MARK
    return "\n".join([*removed, *lines, ""])
