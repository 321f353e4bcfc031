"""When a replica that serves nothing yet may serve a leaf whose authority has not settled.

Waiting is for the sake of other replicas: callers go on being answered by them, under an authority that they trust. Where
there is no such replica, all callers wait with us: that would be an outage that we make ourselves.
"""

import datetime as dt
from typing import Final

from cryptography import x509

from certs.ca import CLOCK_SKEW
from certs.state import State, der
from certs.trust import Trust

CLAIM: Final = 10.0
"""Seconds in which a replica that serves under another authority than the store holds has claimed that one in it (`Rotator`):
it is told of the change within one."""


def rest_of_first(kept: State, authority: x509.Certificate, trust: Trust, now: dt.datetime) -> float:
    """Seconds until it is known that no other replica can be answering with success; infinite where one may be.

    Args:
        kept: what the store holds.
        authority: of the leaf that it holds.
        trust: what callers are known to trust.
        now: the moment, in UTC.
    """
    if not trust.sees(der(authority)):
        return float("inf")
    if trust.only([der(authority)]):
        return 0.0
    if any(one.claimed and now < one.until and der(one.certificate) in trust.anyone for one in kept.retired):
        return float("inf")
    return max(0.0, min(CLAIM, trust.settle) - _age(authority, now))


def aged(authority: x509.Certificate, trust: Trust, now: dt.datetime) -> bool:
    """Whether an authority can have settled before it came into use: one made in the place of a lost one has not."""
    return _age(authority, now) >= trust.settle


def _age(authority: x509.Certificate, now: dt.datetime) -> float:
    # A clock that was set back must not make anybody wait for longer than is right.
    return max(0.0, (now - authority.not_valid_before_utc - CLOCK_SKEW).total_seconds())
