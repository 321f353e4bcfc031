"""``vgpu-webhook vendors``: prints the keys of the mappings in force as a table, or a whole mapping as YAML."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from webhook.admission.overrides import Overrides, target_of
from webhook.cli import completing
from webhook.cli.manifests.files import yaml_text
from webhook.cli.options import PolicyOptions, policy_options
from webhook.cli.policy_source import sourced_policy
from webhook.cli.terminal import columns, json_text, prose
from webhook.explanation.names import counts_parts
from webhook.mapping.document.problem import FieldPath, nearest_known, path_text
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.model.keys import Key
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.values import unconfigured_size
from webhook.quantity import bytes_text, number_text
from webhook.reasons import Denied


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completing.vendor_names)
@policy_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: whole documents.",
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
    output: str,
) -> None:
    """Show the mappings in force: the keys of each vendor, their units, and the target of its requests.

    The second table has the names that several vendors use, with the active and the inactive vendors of each.

    With NAME: that vendor's whole document as YAML, to start your own from. What it overrides of a built-in one is marked.
    """
    sourced = sourced_policy(source)
    policy = sourced.policy
    vendor = None if name is None else _called(policy, name)
    if output == "json":
        found = policy.vendors.values() if vendor is None else [vendor]
        documents = ((each, sourced.written(each.name)) for each in found)
        rows = [{"vendor": each.name, "source": str(each.source), "document": data} for each, data in documents]
        text = json_text(rows)
    elif vendor is None:
        text = keys_table(policy, origin=source.in_cluster)
    else:
        text = as_document(vendor, sourced.written(vendor.name), names_shared_by(policy, vendor.name))
    click.echo(text, nl=False)


def _called(policy: Policy, name: str) -> Vendor:
    """Return the vendor of a name."""
    vendor = policy.vendor_called(name)
    if vendor is None:
        hint = nearest_known(name, policy.vendors, policy.names)
        raise click.BadParameter(f"no vendor is called {name!r}: {hint}", param_hint="NAME")
    return vendor


_INACTIVE: Final = " (inactive)"
_SHARED: Final = ("NAME OF SEVERAL VENDORS", "ACTIVE", "INACTIVE")


def keys_table(policy: Policy, *, origin: bool) -> str:
    """Format a line of each vendor with a row for each spelling of each key below, and the names that several vendors use."""
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


@dataclass(frozen=True, slots=True)
class Shared:
    """A resource name of several vendors."""

    name: str
    owner: str | None
    others: tuple[str, ...]

    def choice(self, vendor: str) -> str:
        """The setting that makes a vendor the active one for the name."""
        return f"owners: {{{self.name}: {vendor}}}"


def shared_names(policy: Policy) -> Iterator[Shared]:
    """Every shared name that can be listed, in alphabetical order."""
    users = index(policy.vendors.values(), "resource").exact
    for name in sorted(users):
        vendors = dict.fromkeys(owner.vendor for owner in users[name])
        if len(vendors) > 1:
            owner = next((vendor for vendor in vendors if not policy.vendors[vendor].inactive), None)
            yield Shared(name, owner, tuple(vendor for vendor in vendors if vendor != owner))


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
        counted = "a part of one device" if counts_parts(vendor, key) else ""
        return counted if unconfigured_size(vendor) is None else "a device whose size is to be configured"
    others = " and ".join(repr(form.name) for form in vendor.forms if form.keys[key.name].total != key.total)
    together = ", together" if key.total else ""
    together += f", {'each' if key.total else 'together'} in {others}" if others else ""
    if key.unit is None:
        return f"to be configured{together}"
    unit = bytes_text(key.unit) if key.sized else f"{number_text(key.unit)} %"
    return f"{unit}{together}" if key.values is None else f"{unit}{together}; {key.values}"


MARK: Final = "  # overridden"


def as_document(vendor: Vendor, data: Mapping[str, Any], notes: Iterable[str]) -> str:
    """Format a vendor's document, merged with the one that it extends; a comment marks what it overrides."""
    head = "".join(f"# {line}\n" for line in (vendor.source, *notes))
    return f"{head}{marked(yaml_text(data), vendor.overridden)}"


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
