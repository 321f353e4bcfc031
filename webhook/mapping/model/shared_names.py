"""Resource names that several vendors use: who owns each in a policy, who stands by for it, and how that is changed."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Shared:
    """A name of several vendors.

    Attributes:
        name: the resource name.
        owner: the vendor that reads it; None where all of them stand by.
        others: the vendors on standby that use it, in the order of the policy.
    """

    name: str
    owner: str | None
    others: tuple[str, ...]

    def choice(self, vendor: str) -> str:
        """The setting that puts a vendor in force for the name."""
        return f"owners: {{{self.name}: {vendor}}}"


def shared_names(policy: Policy) -> Iterator[Shared]:
    """Every such name that can be listed, in alphabetical order."""
    users = index(policy.vendors.values(), "resource").exact
    for name in sorted(users):
        vendors = dict.fromkeys(owner.vendor for owner in users[name])
        if len(vendors) > 1:
            owner = next((one for one in vendors if not policy.vendors[one].inactive), None)
            yield Shared(name, owner, tuple(one for one in vendors if one != owner))
