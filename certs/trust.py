"""Which CAs callers are known to trust, and since when.

API servers learn of a change at different moments, so a CA that has just been written counts only after a settle time.
Seconds are of a monotonic clock.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Trust:
    """The CAs in the webhook configuration of a cluster, as known at one moment.

    Attributes:
        settle: seconds after which every API server has learned of a change.
        known: whether the configuration has been read; before that, nothing is trusted.
        no_callers: there is no webhook configuration, so nobody calls.
        since: by CA (DER), since when every webhook of the configuration has had it.
        at_first: those of them that were in the configuration when it was first read, or when it was created: an API
            server that learns of the configuration learns of them.
        all_cas: every CA of any webhook of the configuration.
    """

    settle: float
    known: bool = False
    no_callers: bool = False
    since: Mapping[bytes, float] = field(default_factory=dict)
    at_first: frozenset[bytes] = frozenset()
    all_cas: frozenset[bytes] = frozenset()

    @property
    def bare(self) -> bool:
        """Whether the webhook configuration has no CA: API servers trust what their machines trust, and none of our CAs."""
        return self.known and not self.no_callers and not self.all_cas

    def observed(self, bundles: Iterable[Collection[bytes]] | None, at: float) -> Self:
        """The trust after the configuration was read again.

        Args:
            bundles: the CAs (DER) of each webhook of the configuration; None if there is no webhook configuration.
            at: when it was read.
        """
        each = [frozenset(bundle) for bundle in bundles or ()]
        if not each:
            return replace(self, known=True, no_callers=True, since={}, at_first=frozenset(), all_cas=frozenset())
        # A CA that one of the webhooks lacks fails its calls.
        seen = frozenset.intersection(*each)
        return replace(
            self,
            known=True,
            no_callers=False,
            since={ca: self.since.get(ca, at) for ca in seen},
            at_first=self.at_first & seen if self.known and not self.no_callers else seen,
            all_cas=frozenset().union(*each),
        )

    def sees(self, ca: bytes) -> bool:
        """Whether the webhook configuration has a CA now."""
        return ca in self.since

    def settled(self, ca: bytes, at: float) -> bool:
        """Whether every API server has learned of a CA."""
        return ca in self.since and at - self.since[ca] >= self.settle

    def servable(self, ca: bytes, at: float, *, first: bool, aged: bool = True) -> bool:
        """Whether serving certificates under a CA may be served.

        A CA that was in the configuration when it was first read had settled before its first use, if it is old enough.

        Args:
            ca: its DER.
            at: the moment.
            first: nothing has been served yet: without callers, nothing can go wrong.
            aged: the CA is old enough to have settled before its first use.
        """
        return self.settled(ca, at) or (aged and ca in self.at_first) or (first and self.no_callers)

    def only(self, cas: Collection[bytes]) -> bool:
        """Whether callers trust no CA but these: they would not accept a serving certificate under another one."""
        return self.known and self.all_cas <= frozenset(cas)

    def seconds_until_settled(self, ca: bytes, at: float) -> float:
        """Seconds until a CA has settled; infinite if the webhook configuration does not have it."""
        since = self.since.get(ca)
        return float("inf") if since is None else max(0.0, since + self.settle - at)
