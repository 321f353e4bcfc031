"""When a replica that serves nothing yet may serve a certificate whose CA has not settled.

Waiting makes sense while other replicas answer callers under a CA that the callers trust. Without such a replica,
waiting would only cause an outage.
"""

import datetime as dt
from typing import Final

from cryptography import x509

from certs.ca import CLOCK_SKEW
from certs.state import State, der
from certs.trust import Trust

CLAIM_TIME: Final = 10.0
"""Seconds within which a replica claims a CA that it serves under and that the store lacks (see `Rotator`). It learns of
a change to the store within one second."""


def first_wait(state: State, ca: x509.Certificate, trust: Trust, now: dt.datetime) -> float:
    """The seconds after which no other replica can be answering callers successfully; infinite if one may be.

    Args:
        state: the stored state.
        ca: the CA of the stored serving certificate.
        trust: which CAs callers trust.
        now: the current time, in UTC.
    """
    if not trust.sees(der(ca)):
        return float("inf")
    if trust.only([der(ca)]):
        return 0.0
    if any(ca.claimed and now < ca.until and der(ca.certificate) in trust.all_cas for ca in state.retired):
        return float("inf")
    return max(0.0, min(CLAIM_TIME, trust.settle) - _age(ca, now))


def aged(ca: x509.Certificate, trust: Trust, now: dt.datetime) -> bool:
    """Whether a CA is old enough to have settled before its first use; the replacement of a lost CA is not."""
    return _age(ca, now) >= trust.settle


def _age(ca: x509.Certificate, now: dt.datetime) -> float:
    # A clock that was set back must not prolong the wait.
    return max(0.0, (now - ca.not_valid_before_utc - CLOCK_SKEW).total_seconds())
