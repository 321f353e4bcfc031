"""What becomes of each vendor's requests in each other's keys: the probes of the one, written as requests of the other."""

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from webhook.admission.collect import ContainerRequest
from webhook.admission.overrides import defaults_for
from webhook.admission.settle import ceilings, named_row
from webhook.admission.survey import ContainerKeys
from webhook.cli.terminal import columns
from webhook.mapping.model.keys import Binding
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.probes import combinations
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import Defaults
from webhook.mapping.requests.writing import NoEquivalent, write
from webhook.reasons import Denied
from webhook.request import UNLIMITED, Request

_KEYS: Final = ContainerKeys("probe", init=False, resources=(), perhaps=())
_LEGEND: Final = """
Each vendor's probes were tried, not every amount: `vgpu-webhook explain` shows
what becomes of a pod.
Of two vendors that read one resource name, only one is active."""


class VendorPair(NamedTuple):
    """Two vendors, and what becomes of the requests of the source in the keys of the target."""

    source: str
    outcome: str
    target: str


def probes(source: Vendor, defaults: Defaults, largest_card: int) -> Iterator[tuple[ContainerRequest, Request]]:
    """Yield the different requests, and names with a size, that the probes of a vendor are read as; none below a maximum."""
    keys, listed = source.keys, [f"{{{name}}}" for name, each in source.variables.items() if each.rows or each.write]
    amounts = {"memory", "cores"} if source.annotation_keys else set()
    seen: set[object] = set()
    for key_values in combinations(source):
        container = ContainerRequest(0, _KEYS, source, key_values)
        requests = any(keys[name].makes_request or amounts.intersection(keys[name].dimensions) for name in key_values)
        open_name = any(each in entry.key for each in listed for entry in key_values.values())
        if not requests or open_name or any(True for _ in ceilings(container)):
            continue
        try:
            request = read(source, key_values, defaults, largest_card, _KEYS.name).request
        except Denied:
            continue
        probe = request, *(entry.binding for entry in key_values.values() if entry.binding)
        if probe not in seen:
            seen.add(probe)
            yield container, request


def pairs(policy: Policy, only: str | None = None) -> Iterator[VendorPair]:
    """Yield the pairs of each source, or of `only` one, and each target, as if both were active."""

    @cache
    def written(target: str, request: Request, named: Binding) -> bool:
        vendor = policy.vendors[target]
        for dimension in (None, *vendor.document.drop):
            request = request if dimension is None else replace(request, **{dimension: UNLIMITED})
            try:
                return bool(write(vendor, request, vendor.defaults, policy.largest_card, _KEYS.name, named=named))
            except NoEquivalent:
                continue
        return False

    names = {vendor.name: index([vendor], "resource").exact.keys() for vendor in policy.vendors.values()}
    for source in policy.vendors.values():
        if source.claim is not None or only not in {None, source.name}:
            continue
        tried: dict[tuple[str, ...], list[tuple[ContainerRequest, Request]]] = {}
        for target in (each for each in policy.vendors.values() if each.target and each is not source):
            defaults, _ = defaults_for(source, target, {})
            if (filled := tuple(defaults)) not in tried:
                tried[filled] = [*probes(source, defaults, policy.largest_card)]
            found = {written(target.name, each, named_row(container, target)) for container, each in tried[filled]}
            outcome = "depends on the amount" if len(found) > 1 else "written" if True in found else "denied"
            shared = not names[source.name].isdisjoint(names[target.name])
            yield VendorPair(source.name, "only one is active" if shared else outcome, target.name)


def matrix_table(policy: Policy, only: str | None = None) -> str:
    """Format the pairs for a terminal: a row for each source and outcome."""
    alike = itertools.groupby(sorted(pairs(policy, only)), key=lambda pair: pair[:2])
    rows = [(*start, ", ".join(pair.target for pair in group)) for start, group in alike]
    return f"{columns([('FROM', 'REQUESTS ARE', 'TO'), *rows])}{_LEGEND}\n"
