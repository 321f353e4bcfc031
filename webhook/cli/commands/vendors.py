"""``vgpu-webhook vendors``: prints the keys of the mappings in force as a table, or a whole mapping as YAML."""

from collections.abc import Iterator
from typing import Final

import click

from webhook.admission.intent import Overrides, target_of
from webhook.cli.files import yaml_text
from webhook.cli.options import PolicyCommand, PolicyOptions, output_option, policy_options, vendor_names
from webhook.cli.policy_source import sourced_policy, vendor_called
from webhook.cli.terminal import columns, json_text, prose
from webhook.explanation.names import counts_parts
from webhook.mapping.model.keys import Key
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.values import unconfigured_size
from webhook.reasons import Denied
from webhook.request import bytes_text, number_text


@click.command(cls=PolicyCommand)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=vendor_names)
@policy_options
@output_option("text", "json", means="json: whole documents.")
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

    With NAME: that vendor's whole document as YAML, to start your own from.
    """
    sourced = sourced_policy(source)
    policy = sourced.policy
    vendor = None if name is None else vendor_called(name, policy, "NAME")
    if output == "json":
        found = policy.vendors.values() if vendor is None else [vendor]
        documents = ((each, sourced.written(each.name)) for each in found)
        rows = [{"vendor": each.name, "source": str(each.source), "document": data} for each, data in documents]
        text = json_text(rows)
    elif vendor is None:
        text = keys_table(policy, origin=source.in_cluster)
    else:
        text = f"# {vendor.source}\n{yaml_text(sourced.written(vendor.name))}"
    click.echo(text, nl=False)


_INACTIVE: Final = " (inactive)"
_SHARED: Final = ("NAME OF SEVERAL VENDORS", "ACTIVE", "INACTIVE")


def keys_table(policy: Policy, *, origin: bool) -> str:
    """Format a line of each vendor with a row for each spelling of each key below, and the names that several vendors use."""
    lines: list[str] = []
    for vendor in policy.vendors.values():
        name = f"{vendor.name}{_INACTIVE}" if vendor.inactive else vendor.name
        told = f"{name}: {vendor.family}, target {_target(vendor, policy)}, scheduler {vendor.place.scheduler or 'any'}"
        told += f", {vendor.source.replace('/mapping.yaml', '')}" if origin else ""
        rows = [(f"  {key}", kind, unit) for key, kind, unit in spelled_rows(vendor)]
        lines += [*(f"{line}\n" for line in prose(told, rest="  ")), columns(rows)]
    return "".join(lines) + _shared(policy)


def spelled_rows(vendor: Vendor) -> Iterator[tuple[str, str, str]]:
    """Yield the place and name, the kind and the unit of each spelling of each key."""
    for key in vendor.keys.values():
        place, kind, unit = _cells(vendor, key)
        first, *others = (template.text for template in key.spellings)
        yield f"{place}{first}", kind, unit
        yield from ((f"or {place}{other}", "", "") for other in others)


def _target(vendor: Vendor, policy: Policy) -> str:
    try:
        target = target_of(vendor, Overrides(), policy)
    except Denied:
        return "none"
    return "itself" if target.name == vendor.name else target.name


def _shared(policy: Policy) -> str:
    """Format the resource names of several vendors, in alphabetical order, and how to make another one active."""
    users = index(policy.vendors.values(), "resource").exact
    rows: list[tuple[str, str, str]] = []
    for name in sorted(users):
        vendors = dict.fromkeys(owner.vendor for owner in users[name])
        if len(vendors) > 1:
            active = next((vendor for vendor in vendors if not policy.vendors[vendor].inactive), "none")
            rows.append((name, active, ", ".join(vendor for vendor in vendors if vendor != active)))
    if not rows:
        return ""
    name, _, others_ = rows[0]
    how = f"The setting `owners` makes another one active, for instance owners: {{{name}: {others_.partition(',')[0]}}}"
    return "\n".join(["", columns([_SHARED, *rows]), *prose(how), ""])


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
