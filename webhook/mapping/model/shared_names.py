"""Resource names that several vendors use: the active vendor for each, the inactive ones, and the setting that decides."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Shared:
    """A resource name of several vendors.

    Attributes:
        name: the resource name.
        owner: the vendor that reads it; None if all are inactive.
        others: the inactive vendors that use it, in the order of the policy.
    """

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
