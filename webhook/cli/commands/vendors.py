"""``vgpu-webhook vendors``: prints the mappings in force, or a whole one.

Keys, guards and sources, for a terminal or as a page; documents as YAML.
"""

import itertools
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import click

from webhook.admission.overrides import Overrides, target_of
from webhook.cli.manifests.files import yaml_text
from webhook.cli.matrix import matrix_table, pairs
from webhook.cli.options import PolicyOptions, policy_options
from webhook.cli.policy_source import sourced_policy
from webhook.cli.terminal import aligned, columns, json_text, terminal_width
from webhook.mapping.document.problem import FieldPath, nearest_known, path_text
from webhook.mapping.document.schema import CheckedSource, Guard, texts
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.document.validation import guard_lists
from webhook.mapping.model.policy import Policy, shared_names
from webhook.mapping.model.vendor import Key, Vendor
from webhook.mapping.requests.values import unconfigured_size
from webhook.quantity import bytes_text, number_text
from webhook.reasons import Denied


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@policy_options
@click.option(
    "--matrix",
    is_flag=True,
    help="Show whether each vendor's requests, or NAME's, can be written for each other vendor: probes of them are tried.",
)
@click.option("--markdown", is_flag=True, help="With --guards: print them as a page of Markdown, docs/guards.md.")
@click.option(
    "--sources", is_flag=True, help="Show the sources that each mapping was checked against: versions, with the date."
)
@click.option("--guards", is_flag=True, help="Show what the guard of each mapping watches, and what is done about it.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: whole documents; with --matrix, --sources or --guards, what the table has.",
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
    markdown: bool,
    sources: bool,
    guards: bool,
    output: str,
) -> None:
    """Show the mappings in force: the keys of each vendor, their units, and the target of its requests.

    The second table has the names that several vendors use, with the active and the inactive vendors of each.

    With NAME: that vendor's whole document as YAML, to start your own from. What it overrides of a built-in one is marked.
    """
    policy = sourced_policy(source).policy
    what = _what(name, matrix=matrix, sources=sources, guards=guards)
    if markdown and what != "guards":
        raise click.UsageError("--markdown needs --guards")
    if output == "json":
        if markdown:
            raise click.UsageError("-o json and --markdown are different: remove one")
        click.echo(json_text(_data_of(policy, what, None if name is None else _called(policy, name))), nl=False)
        return
    if matrix:
        click.echo(matrix_table(policy, None if name is None else _called(policy, name).name), nl=False)
        return
    if name is None:
        click.echo(_of_all(policy, what, markdown=markdown, origin=source.in_cluster), nl=False)
        return
    vendor = _called(policy, name)
    click.echo(as_document(vendor, list(names_shared_by(policy, vendor.name))), nl=False)


def _called(policy: Policy, name: str) -> Vendor:
    """Return the vendor of a name.

    Raises:
        click.BadParameter: there is none; it names the one that was probably meant.
    """
    vendor = policy.vendor_called(name)
    if vendor is None:
        hint = nearest_known(name, policy.vendors)
        raise click.BadParameter(f"no vendor is called {name!r}: {hint}", param_hint="NAME")
    return vendor


def _data_of(policy: Policy, what: str, vendor: Vendor | None) -> list[dict[str, Any]]:
    """Return what is printed as JSON: whole documents with where they are from, or the rows of another table."""
    if what == "matrix":
        return [pair._asdict() for pair in sorted(pairs(policy, None if vendor is None else vendor.name))]
    if what != "vendors":
        headings, rows = (
            (_GUARD_HEADINGS, _guard_cells(policy)) if what == "guards" else (_SOURCE_HEADINGS, _source_cells(policy))
        )
        keys = [heading.lower().replace(" ", "_") for heading in headings]
        return [dict(zip(keys, row, strict=True)) for row in rows]
    found = policy.vendors.values() if vendor is None else [vendor]
    return [{"vendor": each.name, "source": str(each.source), "document": _data(each)} for each in found]


def _data(vendor: Vendor) -> dict[str, Any]:
    return vendor.document.model_dump(mode="json", by_alias=True, exclude_unset=True)


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
        return guards_page(policy) if markdown else columns([_GUARD_HEADINGS, *_guard_cells(policy)])
    if what == "sources":
        return columns([_SOURCE_HEADINGS, *_source_cells(policy)])
    return keys_table(policy, origin=origin, width=terminal_width())


_INACTIVE: Final = " (inactive)"
_HEADINGS: Final = ("VENDOR", "FAMILY", "KEY", "KIND", "UNIT", "TARGET", "SCHEDULER")
_SHARED: Final = ("NAME OF SEVERAL VENDORS", "ACTIVE", "INACTIVE")


def keys_table(policy: Policy, *, origin: bool, width: int | None = None) -> str:
    """Format a table with a row for each spelling of each key, and the names that several vendors use.

    Args:
        policy: the mappings.
        origin: whether to show the source of each mapping.
        width: the columns of a line; if they are too few, each vendor has a line above its keys. None: no limit.
    """
    rows: list[tuple[str, ...]] = [(*_HEADINGS, "FROM") if origin else _HEADINGS]
    for vendor in policy.vendors.values():
        name, family, target, scheduler, *source = _facts(vendor, policy, origin=origin)
        for columns_of_key in _spelled_rows(vendor):
            rows.append((name, family, *columns_of_key, target, scheduler, *source))
            name = family = target = scheduler = ""
    whole = "".join(aligned(rows, None))
    if width is not None and max(map(len, whole.splitlines())) > width:
        whole = "".join(_narrow(policy, origin=origin, width=width))
    return whole + _shared(policy)


def _facts(vendor: Vendor, policy: Policy, *, origin: bool) -> tuple[str, ...]:
    """Return the name of a vendor, its hardware, its target and its scheduler, and perhaps the source of its mapping."""
    name = f"{vendor.name}{_INACTIVE}" if vendor.inactive else vendor.name
    source = (vendor.source.replace("/mapping.yaml", ""),) if origin else ()
    return name, vendor.family, _target(vendor, policy), vendor.place.scheduler or "any", *source


def _narrow(policy: Policy, *, origin: bool, width: int) -> Iterator[str]:
    """Yield the lines of a table in which each vendor has a line above its keys."""
    keys = [(vendor, [*_spelled_rows(vendor)]) for vendor in policy.vendors.values()]
    cells = [(f"  {key}", kind, unit) for _, rows in keys for key, kind, unit in rows]
    heading, *lines = aligned([_HEADINGS[2:5], *cells], width)
    yield heading
    for vendor, rows in keys:
        name, family, target, scheduler, *source = _facts(vendor, policy, origin=origin)
        told = ", ".join([f"{name}: {family}", f"target {target}", f"scheduler {scheduler}", *source])
        yield from (f"{line}\n" for line in textwrap.wrap(told, width, subsequent_indent="  "))
        yield from lines[: len(rows)]
        lines = lines[len(rows) :]


def _spelled_rows(vendor: Vendor) -> Iterator[tuple[str, str, str]]:
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
    return f"\n{columns([_SHARED, *rows])}\n{how}\n"


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
    return place, kind if key.document.retired is None else f"{kind}; retired", _unit(vendor, key)


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


_GUARD_HEADINGS: Final = ("VENDOR", "GUARDED", "VALUES", "EFFECT", "CONTAINERS")
_GUARD_PLACES: Final = ("env", "annotation", "label", "mount", "field", "hostPath")
_EFFECTS: Final = {"deny": "denied", "strip": "removed", "warn": "reported", "allow": "permitted"}
_GUARD_PAGE: Final = """\
# Guarded variables

<!-- Generated from `webhook/mapping/builtin` by `make docs`. -->

What lifts the limit of a share or shows the devices of others, and what reads it: variables, annotations, labels, fields,
mounts (in a container) and hostPaths (on the node); `*` is any text. [behavior.md](behavior.md#guarding) explains the rules;
`vgpu-webhook vendors NAME` prints the sources.

In containers with a share, each is denied with any value but the shim's own. After a colon are the only denied values,
or another rule:

- *all containers*: also those with whole devices, and those that stay unchanged.
- *any container*: also others beside one with a share.
- *devices*: all but `void`, `none` and empty, in all containers. These three hide the container's own devices (*hides*), which
  is reported, or undone if the request is translated.
- *reported*, *permitted*: instead of denied.

The first match decides; a mapping's own rows come before its lists. A variable that only selects among the container's
devices, such as `CUDA_VISIBLE_DEVICES`, is not guarded.

"""
_DEVICES: Final = ("all but `void`, `none`, empty", "denied, hides", "all")


class _Entry(NamedTuple):
    """One entry of a guard, as texts; of a reference to a list, only its name."""

    guarded: str
    values: str = ""
    effect: str = ""
    containers: str = ""
    read_by: str = ""
    named: str = ""


def _guard_cells(policy: Policy) -> Iterator[tuple[str, ...]]:
    yield from (
        (name, *(text.replace("`", "") for text in entry[: len(_GUARD_HEADINGS) - 1]))
        for name, entries, _ in _vendors(policy)
        for entry in entries
    )


def guards_page(policy: Policy) -> str:
    """Format the page of guards: vendors, lists with the vendors that share them, and what is not guarded."""
    vendors = list(_vendors(policy))
    lists = [
        (
            name,
            [vendor for vendor, entries, _ in vendors if any(each.named == name for each in entries)],
            [_entry(each, found.read_by) for each in found.guard],
        )
        for name, found in guard_lists().items()
    ]
    return "".join(
        [
            _GUARD_PAGE,
            "## Mappings\n\n| mapping | guarded | read by |\n|---|---|---|\n",
            *(row for name, entries, _ in vendors for row in _guard_rows(name, entries)),
            "\n## Lists\n\n| list | of mappings |\n|---|---|\n",
            *(f"| {name} | {_users(policy, users)} |\n" for name, users, _ in lists),
            "\n| list | guarded | read by |\n|---|---|---|\n",
            *(row for name, _, entries in lists for row in _guard_rows(name, entries)),
            "\n## Not guarded\n\n| mapping | why |\n|---|---|\n",
            *(f"| `{name}` | {why} |\n" for name, _, why in vendors if why),
        ]
    )


def _users(policy: Policy, users: list[str]) -> str:
    """Name the vendors that share a list; a whole family by its own name."""
    family = policy.vendors[users[0]].family
    if users == [vendor.name for vendor in policy.vendors.values() if vendor.family == family] and len(users) > 1:
        return f"all of the family `{family}`"
    return ", ".join(f"`{vendor}`" for vendor in users)


def _vendors(policy: Policy) -> Iterator[tuple[str, list[_Entry], str]]:
    for vendor in policy.vendors.values():
        document = vendor.document
        why = " ".join((document.unguarded or "").split())
        yield vendor.name, [_entry(guard) for guard in document.guard], why


def _guard_rows(name: str, entries: list[_Entry]) -> Iterator[str]:
    """Yield a row for each reader; entries of lists stand elsewhere."""
    own = [entry for entry in entries if not entry.named]
    shown = f"`{name}`"
    for reader, found in itertools.groupby(own, key=lambda entry: entry.read_by.partition(": ")[0]):
        guarded = "; ".join(f"{entry.guarded}: {rule}" if (rule := _rule(entry)) else entry.guarded for entry in found)
        yield f"| {shown} | {guarded} | {reader} |\n".replace("|  |", "| |")
        shown = ""


def _rule(entry: _Entry) -> str:
    """What the page says of an entry, unless it is the usual."""
    rule = entry.values, entry.effect, entry.containers
    if rule == _DEVICES:
        return "devices"
    values = "" if entry.values == "any value" else entry.values
    usual = {"denied": "", "denied, hides": "hides", "shares": "", "all": "all containers", "any": "any container"}
    others = ", ".join(text for each in rule[1:] if (text := usual.get(each, each)))
    return f"{values} ({others})" if values and others else values or others


def _entry(guard: Guard, read_by: str = "") -> _Entry:
    if guard.named is not None:
        return _Entry(f"the list `{guard.named}`", named=guard.named)
    place = next(place for place in _GUARD_PLACES if getattr(guard, place) is not None)
    listed = ", ".join(f"`{name}`" for name in texts(getattr(guard, place)))
    containers = "all" if guard.whole else "any" if guard.anywhere else "shares"
    return _Entry(
        listed if place == "env" else f"{place} {listed}",
        _values(guard),
        _EFFECTS[guard.action] + (", hides" if guard.hides else ""),
        containers,
        guard.read_by or read_by,
    )


def _values(guard: Guard) -> str:
    if guard.source is not None:
        written = guard.source.model_dump(by_alias=True, exclude_none=True)
        return "from " + ", ".join(f"{kind} `{name}`" for kind, name in written.items())
    if guard.lifts == "truthy":
        return "true"
    if guard.lifts is not None:
        return _quoted(guard.lifts)
    return f"all but {_quoted(guard.unless)}" if guard.unless else "any value"


def _quoted(values: list[str]) -> str:
    return ", ".join(f"`{value}`" if value else "empty" for value in values)


_SOURCE_HEADINGS: Final = ("VENDOR", "SYSTEM", "VERSION", "CHECKED ON", "AT")


def _source_cells(policy: Policy) -> Iterator[tuple[str, ...]]:
    yield from (
        (vendor.name, source.system, _version(source) or "no version", source.date, source.at)
        for vendor in policy.vendors.values()
        for source in vendor.document.sources
    )


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
