"""Decides what to renew, and when to decide again: a pure function, the same on every replica.

A CA goes through three states, so that no client is shown a serving certificate that it does not trust yet:

1. *next*: it is published beside the current CA; nothing is signed with it.
2. *current*: every client has learned of it. A serving certificate under it is made, and the previous CA retires.
3. *retired*: it signs nothing anymore, and stays trusted until the last serving certificate under it has expired: a
   replica that was cut off from the others may serve that certificate until then.
"""

import datetime as dt
import enum
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from certs.ca import CA_LIFE, CLOCK_SKEW, SERVING_LIFE, Pair, Trust, covers, issue, make_ca, names_of, signed_by
from certs.state import Retired, RotationRequest, State, der

RENEW_AFTER: Final = 2 / 3
"""Part of a certificate's life after which it is renewed: of 90 days, a month remains for failures."""

JITTER: Final = 0.05
"""Part of a life by which replicas vary that moment, so that one of them renews and the others find it done."""

SETTLE: Final = 120.0
"""Seconds within which every API server has learned of a change; their watches take one second."""

MIN_GAIN: Final = 0.01
"""Part of a serving certificate's life that a renewal must gain: near the end of its CA, it gains nothing."""

MAX_NAMES: Final = 64
"""The most names of a serving certificate; beyond them, those that only other replicas need are dropped."""


class Made(enum.Enum):
    """A change made by a step."""

    SERVING_CERTIFICATE = "serving certificate"
    NEXT_CA = "next CA"
    CURRENT = "current CA"
    DROPPED = "retired CA dropped"


@dataclass(frozen=True, slots=True)
class Rules:
    """How certificates are made.

    Attributes:
        ca: the name of CAs.
        names: the DNS names and IP addresses of a serving certificate.
        serving_life, ca_life: how long each is valid; a CA several times as long as a serving certificate.
        lead: the part of a life by which this replica renews earlier than others, from -0.05 (later) to 0.05.
    """

    ca: str
    names: Collection[str]
    serving_life: dt.timedelta = SERVING_LIFE
    ca_life: dt.timedelta = CA_LIFE
    lead: float = 0.0


class PlannedStep(NamedTuple):
    """The new state, the seconds until the next step, and the changes."""

    state: State
    due: float
    made: tuple[Made, ...]


def step(state: State | None, trust: Trust, rules: Rules, now: dt.datetime, at: float) -> PlannedStep:
    """Compute the next state.

    Args:
        state: the stored state; None for an empty store.
        trust: which CAs callers trust.
        rules: how certificates are made.
        now: the current time, in UTC.
        at: the same moment, by the clock of `trust`.
    """
    made: list[Made] = []
    if state is None:
        state = State(make_ca(rules.ca, now, rules.ca_life))
        made.append(Made.CURRENT)
    state = _requested(state)
    state = _next_ca(state, rules, now, made)
    state = _promoted(state, trust, rules, (now, at), made)
    state = _serving_pair(state, rules, now, made)
    state = _dropped(state, now, made)
    return PlannedStep(replace(state, requested=None), _due(state, trust, rules, now, at), tuple(made))


def _requested(state: State) -> State:
    if state.requested is RotationRequest.SERVING_CERTIFICATE and state.ca is not None:
        return replace(state, serving_pair=None)
    return state


def _next_ca(state: State, rules: Rules, now: dt.datetime, made: list[Made]) -> State:
    """Make the next CA if the current one is near its end or unusable, or a new one is requested."""
    if state.next_ca is not None and state.next_ca.valid_at(now):
        return state
    current = state.ca
    wanted = state.requested is RotationRequest.CA or state.next_ca is not None
    if not wanted and current is not None and current.valid_at(now) and now < _ca_due(current, rules):
        return state
    made.append(Made.NEXT_CA)
    return replace(state, next_ca=make_ca(rules.ca, now, rules.ca_life))


def _promoted(state: State, trust: Trust, rules: Rules, moment: tuple[dt.datetime, float], made: list[Made]) -> State:
    """Replace the current CA with the next one, once every client has learned of it."""
    now, at = moment
    next_ca, old = state.next_ca, state.ca
    if next_ca is None:
        return state
    # If nothing valid can be served under the old CA, there is no reason to wait for the last client.
    lost = (old is None or now > old.not_after) and (state.serving_pair is None or not state.serving_pair.valid_at(now))
    if not (trust.settled(der(next_ca.certificate), at) or (lost and trust.sees(der(next_ca.certificate)))):
        return state
    made += [Made.CURRENT, Made.SERVING_CERTIFICATE]
    retired = state.retired if old is None else (*state.retired, Retired(old.certificate, _last_use(state, rules, now)))
    return replace(
        state,
        ca=next_ca,
        next_ca=None,
        retired=retired,
        serving_pair=issue(next_ca, rules.names, now, rules.serving_life),
    )


def _last_use(state: State, rules: Rules, now: dt.datetime) -> dt.datetime:
    """When the last serving certificate under the current CA expires, by the slowest clock."""
    pair = state.serving_pair
    end = now + rules.serving_life if pair is None else pair.not_after
    return (end + CLOCK_SKEW).replace(microsecond=0)


def _serving_pair(state: State, rules: Rules, now: dt.datetime, made: list[Made]) -> State:
    ca, pair = state.ca, state.serving_pair
    if ca is None or not ca.valid_at(now):
        return state
    names = rules.names
    if pair is not None and pair.valid_at(now) and signed_by(pair.certificate, ca.certificate):
        covered = covers(pair.certificate, names)
        if covered and now < _serving_due(pair, ca, rules):
            return state
        if not covered:
            # Replicas of two releases may need different names: each keeps the other's until the next renewal.
            all_names = list(dict.fromkeys([*names, *names_of(pair.certificate)]))
            names = all_names if len(all_names) <= MAX_NAMES else names
    made.append(Made.SERVING_CERTIFICATE)
    return replace(state, serving_pair=issue(ca, names, now, rules.serving_life))


def _dropped(state: State, now: dt.datetime, made: list[Made]) -> State:
    remaining = tuple(ca for ca in state.retired if now < min(ca.until, ca.certificate.not_valid_after_utc))
    if len(remaining) == len(state.retired):
        return state
    made.append(Made.DROPPED)
    return replace(state, retired=remaining)


def _serving_due(pair: Pair, ca: Pair, rules: Rules) -> dt.datetime:
    due = _renewal(pair, rules)
    # A new certificate expires with its CA at the latest.
    gained = min(due + rules.serving_life, ca.not_after) - pair.not_after
    return due if gained > rules.serving_life * MIN_GAIN else pair.not_after + CLOCK_SKEW


def _ca_due(ca: Pair, rules: Rules) -> dt.datetime:
    # A CA must outlive a whole serving certificate, and the last one while clients learn of its successor.
    middle = ca.not_before + (ca.not_after - ca.not_before) / 2
    return max(middle, min(_renewal(ca, rules), ca.not_after - 2 * rules.serving_life))


def _renewal(pair: Pair, rules: Rules) -> dt.datetime:
    return pair.not_before + (pair.not_after - pair.not_before) * (RENEW_AFTER - rules.lead)


def _due(state: State, trust: Trust, rules: Rules, now: dt.datetime, at: float) -> float:
    moments = [min(ca.until, ca.certificate.not_valid_after_utc) for ca in state.retired]
    if state.ca is not None and state.serving_pair is not None:
        moments.append(_serving_due(state.serving_pair, state.ca, rules))
    if state.next_ca is not None:
        moments.append(state.next_ca.not_after)
    elif state.ca is not None:
        moments.append(_ca_due(state.ca, rules))
    # A change that is overdue waits for something else: for trust, or for a clock to be corrected.
    seconds = [left for moment in moments if (left := (moment - now).total_seconds()) > 0]
    if state.next_ca is not None:
        seconds.append(trust.seconds_until_settled(der(state.next_ca.certificate), at))
    return min(seconds, default=float("inf"))
