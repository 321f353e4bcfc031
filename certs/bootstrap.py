"""When a replica that serves nothing yet may serve a certificate whose CA has not settled.

Waiting makes sense while other replicas answer callers under a CA that these trust. Without such a replica, waiting
would be an outage of our own making.
"""

import datetime as dt
from typing import Final

from cryptography import x509

from certs.ca import CLOCK_SKEW
from certs.state import State, der
from certs.trust import Trust

CLAIM: Final = 10.0
"""Seconds within which a replica that serves under a CA missing in the store claims it there (`Rotator`): it learns of
a change to the store within one second."""


def rest_of_first(state: State, ca: x509.Certificate, trust: Trust, now: dt.datetime) -> float:
    """Seconds until no other replica can be answering callers successfully; infinite where one may be.

    Args:
        state: of the store.
        ca: of the stored serving certificate.
        trust: which CAs callers trust.
        now: the current time, in UTC.
    """
    if not trust.sees(der(ca)):
        return float("inf")
    if trust.only([der(ca)]):
        return 0.0
    if any(ca.claimed and now < ca.until and der(ca.certificate) in trust.all_cas for ca in state.retired):
        return float("inf")
    return max(0.0, min(CLAIM, trust.settle) - _age(ca, now))


def aged(ca: x509.Certificate, trust: Trust, now: dt.datetime) -> bool:
    """Whether a CA is old enough to have settled before its first use; the replacement of a lost CA is not."""
    return _age(ca, now) >= trust.settle


def _age(ca: x509.Certificate, now: dt.datetime) -> float:
    # A clock that was set back must not prolong the wait.
    return max(0.0, (now - ca.not_valid_before_utc - CLOCK_SKEW).total_seconds())
