"""What those who call are known to trust, and since when.

Several API servers learn of a change at different moments, so a CA that has just been written counts only after a
settle time. Seconds are of a clock that never jumps; a wall clock says nothing here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Trust:
    """What is known of the webhook configuration in a cluster at one moment.

    Attributes:
        settle: seconds after which everybody has learnt of what was written.
        looked: whether anybody has looked yet; before that nothing is trusted.
        nobody: there is no registration: nobody calls.
        since: by CA (DER), when it was first seen, and has been ever since.
        at_first: those of them that were there at the first look, or when the webhook configuration was made: who
            learns of that learns of them.
        anyone: what callers of any of the webhooks trust.
    """

    settle: float
    looked: bool = False
    nobody: bool = False
    since: Mapping[bytes, float] = field(default_factory=dict)
    at_first: frozenset[bytes] = frozenset()
    anyone: frozenset[bytes] = frozenset()

    @property
    def bare(self) -> bool:
        """A webhook configuration without any CA: its callers trust what their machines trust, and no certificate of ours."""
        return self.looked and not self.nobody and not self.anyone

    def observed(self, bundles: Iterable[Collection[bytes]] | None, at: float) -> Self:
        """The same after another look.

        Args:
            bundles: of each webhook of the webhook configuration the CAs (DER); None if there is no webhook configuration.
            at: the moment of the look.
        """
        each = [frozenset(bundle) for bundle in bundles or ()]
        if not each:
            return replace(self, looked=True, nobody=True, since={}, at_first=frozenset(), anyone=frozenset())
        # What one of the webhooks does not hold fails its calls.
        seen = frozenset.intersection(*each)
        return replace(
            self,
            looked=True,
            nobody=False,
            since={one: self.since.get(one, at) for one in seen},
            at_first=self.at_first & seen if self.looked and not self.nobody else seen,
            anyone=frozenset().union(*each),
        )

    def sees(self, authority: bytes) -> bool:
        """Whether it is there now."""
        return authority in self.since

    def settled(self, authority: bytes, at: float) -> bool:
        """Whether everybody has learnt of it."""
        return authority in self.since and at - self.since[authority] >= self.settle

    def servable(self, authority: bytes, at: float, *, first: bool, aged: bool = True) -> bool:
        """Whether serving certificates under a CA that is in use may be served.

        One that was there at the first look was found settled by whoever made it the current one, if it can have been.

        Args:
            authority: its DER.
            at: the moment.
            first: nothing has been served yet: where nobody calls, nothing can go wrong.
            aged: the CA is old enough to have settled before it came into use.
        """
        return self.settled(authority, at) or (aged and authority in self.at_first) or (first and self.nobody)

    def only(self, authorities: Collection[bytes]) -> bool:
        """Whether no caller trusts any other CA, so that no serving certificate under another one can be of use to anybody."""
        return self.looked and self.anyone <= frozenset(authorities)

    def rest(self, authority: bytes, at: float) -> float:
        """Seconds until it is settled; infinite if it is not there."""
        since = self.since.get(authority)
        return float("inf") if since is None else max(0.0, since + self.settle - at)
