"""What is valid in a policy, and has not the effect that it seems to have."""

import difflib
from collections.abc import Iterator
from typing import Final

from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import BUILT_IN
from webhook.mapping.requests.values import unconfigured_size

_LIKE: Final = 0.8
"""Similarity from which a family counts as a misspelled built-in one (`difflib`)."""


def doubts(policy: Policy) -> Iterator[str]:
    """Yield the vendors to configure, those that are served in vain, and families that are probably misspelled."""
    families = sorted({vendor.family for vendor in policy.vendors.values() if vendor.source == BUILT_IN})
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
        near = difflib.get_close_matches(vendor.family, families, n=1, cutoff=_LIKE)
        if near and vendor.family not in families:
            yield f"{vendor.name}: no other mapping has the family {vendor.family} (did you mean `{near[0]}`?)"
