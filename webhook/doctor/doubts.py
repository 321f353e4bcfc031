"""What is valid in a policy, and has not the effect that it seems to have."""

import difflib
from collections.abc import Iterable, Iterator

from webhook.mapping.load import load_policy
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.values import unconfigured_size


def doubts(policy: Policy) -> Iterator[str]:
    """Yield the vendors to configure, those that are served in vain, and families that are probably misspelled."""
    for vendor in policy.vendors.values():
        if not vendor.inactive and (why := unconfigured_size(vendor)) is not None:
            yield f"{vendor.name} is in force, but its keys cannot be read until it is configured: {why}"
        if vendor.inactive and vendor.name in policy.settings.served:
            owned = {name: policy.resources.owners(name) for name in index([vendor], "resource").exact}
            for name, (owner, *_) in [(name, owners) for name, owners in owned.items() if owners][:1]:
                yield (
                    f"`served` names {vendor.name} in vain: {name} is read as a key of {owner.vendor}; "
                    f"write `owners: {{{name}: {vendor.name}}}` beside it, or remove it"
                )
    yield from families_meant((vendor.name, vendor.family) for vendor in policy.vendors.values())


def families_meant(vendors: Iterable[tuple[object, object]]) -> Iterator[str]:
    """Yield the families, each with its vendor, that are probably misspelled ones of the built-in vendors."""
    families = sorted({vendor.family for vendor in load_policy().vendors.values()})
    for name, family in vendors:
        near = difflib.get_close_matches(str(family), families, n=1, cutoff=0.8)
        if near and family not in families:
            yield f"{name}: no other mapping has the family {family} (did you mean `{near[0]}`?)"
