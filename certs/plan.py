"""Decides what to renew, and when to decide again: a pure function, the same on every replica.

A CA goes through three states, so that no client is shown a serving certificate that it does not trust yet:

1. *coming*: it is published beside the current CA; nothing is signed with it.
2. *current*: every client has learned of it. A serving certificate under it is made, and the previous CA retires.
3. *retired*: it signs nothing anymore, and stays trusted until the last serving certificate under it has expired: a
   replica that was cut off from the others may serve that certificate until then.
"""

import datetime as dt
import enum
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from certs.ca import CA_LIFE, CLOCK_SKEW, LEAF_LIFE, covers, issue, make_ca, names_of, signed_by
from certs.pair import Pair
from certs.state import Retired, RotationRequest, State, der
from certs.trust import Trust

RENEW_AFTER: Final = 2 / 3
"""Part of a certificate's life after which it is renewed: of 90 days, a month remains for failures."""

JITTER: Final = 0.05
"""Part of a life by which replicas differ from that, so that one of them renews and the others find it done."""

SETTLE: Final = 120.0
"""Seconds within which every API server has learned of a change; their watches take one second."""

WORTH_IT: Final = 0.01
"""Part of a serving certificate's life that a renewal must gain: near the end of its CA, it gains nothing."""

MOST_NAMES: Final = 64
"""Names of a serving certificate beyond which those that only other replicas need are dropped."""


class Made(enum.Enum):
    """A change made by a step."""

    SERVING_CERTIFICATE = "serving certificate"
    COMING = "next CA"
    CURRENT = "current CA"
    DROPPED = "retired CA dropped"


@dataclass(frozen=True, slots=True)
class Rules:
    """How certificates are made.

    Attributes:
        ca: the name of CAs.
        names: the DNS names and IP addresses of a serving certificate.
        leaf_life, ca_life: how long each is valid; a CA several times as long as a serving certificate.
        lead: -0.05 to 0.05: the part of a life by which this replica renews earlier (or later) than others.
    """

    ca: str
    names: Collection[str]
    leaf_life: dt.timedelta = LEAF_LIFE
    ca_life: dt.timedelta = CA_LIFE
    lead: float = 0.0


class Step(NamedTuple):
    """The state from now on, the seconds until the next step, and the changes."""

    state: State
    due: float
    made: tuple[Made, ...]


def step(state: State | None, trust: Trust, rules: Rules, now: dt.datetime, at: float) -> Step:
    """Compute the next state.

    Args:
        state: the stored state; None for an empty store.
        trust: which CAs callers trust.
        rules: how certificates are made.
        now: the current time, in UTC.
        at: the same moment by the clock of `trust`.
    """
    made: list[Made] = []
    if state is None:
        state = State(make_ca(rules.ca, now, rules.ca_life))
        made.append(Made.CURRENT)
    state = _requested(state)
    state = _coming(state, rules, now, made)
    state = _promoted(state, trust, rules, (now, at), made)
    state = _leaf(state, rules, now, made)
    state = _dropped(state, now, made)
    return Step(replace(state, requested=None), _due(state, trust, rules, now, at), tuple(made))


def _requested(state: State) -> State:
    if state.requested is RotationRequest.SERVING_CERTIFICATE and state.ca is not None:
        return replace(state, leaf=None)
    return state


def _coming(state: State, rules: Rules, now: dt.datetime, made: list[Made]) -> State:
    """Make a coming CA if the current one is near its end or unusable, or a new one is requested."""
    if state.coming is not None and state.coming.valid_at(now):
        return state
    current = state.ca
    wanted = state.requested is RotationRequest.CA or state.coming is not None
    if not wanted and current is not None and current.valid_at(now) and now < _ca_due(current, rules):
        return state
    made.append(Made.COMING)
    return replace(state, coming=make_ca(rules.ca, now, rules.ca_life))


def _promoted(state: State, trust: Trust, rules: Rules, moment: tuple[dt.datetime, float], made: list[Made]) -> State:
    """Replace the current CA with the coming one, once every client has learned of it."""
    now, at = moment
    coming, old = state.coming, state.ca
    if coming is None:
        return state
    # While nothing valid can be served under the old CA, waiting for the last client helps nobody.
    lost = (old is None or now > old.not_after) and (state.leaf is None or not state.leaf.valid_at(now))
    if not (trust.settled(der(coming.certificate), at) or (lost and trust.sees(der(coming.certificate)))):
        return state
    made += [Made.CURRENT, Made.SERVING_CERTIFICATE]
    retired = state.retired if old is None else (*state.retired, Retired(old.certificate, _last_use(state, rules, now)))
    return replace(
        state,
        ca=coming,
        coming=None,
        retired=retired,
        leaf=issue(coming, rules.names, now, rules.leaf_life),
    )


def _last_use(state: State, rules: Rules, now: dt.datetime) -> dt.datetime:
    """When the last serving certificate under the current CA expires, by the slowest clock."""
    leaf = state.leaf
    end = now + rules.leaf_life if leaf is None else leaf.not_after
    return (end + CLOCK_SKEW).replace(microsecond=0)


def _leaf(state: State, rules: Rules, now: dt.datetime, made: list[Made]) -> State:
    ca, leaf = state.ca, state.leaf
    if ca is None or not ca.valid_at(now):
        return state
    names = rules.names
    if leaf is not None and leaf.valid_at(now) and signed_by(leaf.certificate, ca.certificate):
        covered = covers(leaf.certificate, names)
        if covered and now < _leaf_due(leaf, ca, rules):
            return state
        if not covered:
            # Replicas of two releases may need different names: each keeps the other's until the next renewal.
            both = list(dict.fromkeys([*names, *names_of(leaf.certificate)]))
            names = both if len(both) <= MOST_NAMES else names
    made.append(Made.SERVING_CERTIFICATE)
    return replace(state, leaf=issue(ca, names, now, rules.leaf_life))


def _dropped(state: State, now: dt.datetime, made: list[Made]) -> State:
    remaining = tuple(ca for ca in state.retired if now < min(ca.until, ca.certificate.not_valid_after_utc))
    if len(remaining) == len(state.retired):
        return state
    made.append(Made.DROPPED)
    return replace(state, retired=remaining)


def _leaf_due(leaf: Pair, ca: Pair, rules: Rules) -> dt.datetime:
    due = _renewal(leaf, rules)
    # A new certificate expires with its CA at the latest.
    gained = min(due + rules.leaf_life, ca.not_after) - leaf.not_after
    return due if gained > rules.leaf_life * WORTH_IT else leaf.not_after + CLOCK_SKEW


def _ca_due(ca: Pair, rules: Rules) -> dt.datetime:
    # A CA must outlive a whole serving certificate, and the last one while clients learn of its successor.
    middle = ca.not_before + (ca.not_after - ca.not_before) / 2
    return max(middle, min(_renewal(ca, rules), ca.not_after - 2 * rules.leaf_life))


def _renewal(pair: Pair, rules: Rules) -> dt.datetime:
    return pair.not_before + (pair.not_after - pair.not_before) * (RENEW_AFTER - rules.lead)


def _due(state: State, trust: Trust, rules: Rules, now: dt.datetime, at: float) -> float:
    moments = [min(ca.until, ca.certificate.not_valid_after_utc) for ca in state.retired]
    if state.ca is not None and state.leaf is not None:
        moments.append(_leaf_due(state.leaf, state.ca, rules))
    if state.coming is not None:
        moments.append(state.coming.not_after)
    elif state.ca is not None:
        moments.append(_ca_due(state.ca, rules))
    # What is overdue waits for something else: for trust, or for a clock to be corrected.
    seconds = [left for moment in moments if (left := (moment - now).total_seconds()) > 0]
    if state.coming is not None:
        seconds.append(trust.rest(der(state.coming.certificate), at))
    return min(seconds, default=float("inf"))
