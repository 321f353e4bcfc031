"""What is to be made anew, and when to ask again: a pure function, the same on every replica.

A new authority goes through three states, so that nobody is shown a leaf that they do not trust yet:

1. *coming*: clients are told of it beside the current one; nothing is signed with it.
2. *current*: everybody has learnt of it. A leaf under it is made, and the one before retires.
3. *retired*: it signs no more, and stays trusted until the last leaf under it has ended: a replica that was cut off from
   the others may be serving that leaf for so long.
"""

import datetime as dt
import enum
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from certs.ca import AUTHORITY_LIFE, CLOCK_SKEW, LEAF_LIFE, covers, issue, make_ca, names_of, signed_by
from certs.pair import Pair
from certs.state import Retired, RotationRequest, State, der
from certs.trust import Trust

RENEW_AFTER: Final = 2 / 3
"""Part of a life after which there is a successor: of a leaf's 90 days a month remains in which that may fail."""

JITTER: Final = 0.05
"""Part of a life by which replicas differ from that, so that one of them does it and the others find it done."""

SETTLE: Final = 120.0
"""Seconds in which every API server has learnt of a change; their watches take one, a cut-off one is not called."""

WORTH_IT: Final = 0.01
"""Part of a leaf's life that a new one has to gain: near the end of its authority there is nothing to win."""

MOST_NAMES: Final = 64
"""Names of a leaf that are kept for the sake of other replicas."""


class Made(enum.Enum):
    """What a step has made or changed."""

    LEAF = "leaf"
    COMING = "coming authority"
    CURRENT = "current authority"
    DROPPED = "retired authority dropped"


@dataclass(frozen=True, slots=True)
class Rules:
    """What certificates are made like.

    Attributes:
        authority: the name of authorities.
        names: DNS names and IP addresses that a leaf has to cover.
        leaf_life, authority_life: for how long they are valid; an authority several times as long as a leaf.
        lead: -0.05 to 0.05: the part of a life by which this replica is earlier (or later) than others.
    """

    ca: str
    names: Collection[str]
    leaf_life: dt.timedelta = LEAF_LIFE
    authority_life: dt.timedelta = AUTHORITY_LIFE
    lead: float = 0.0


class Step(NamedTuple):
    """What is to be kept from now on, the seconds until the next step, and what has changed."""

    kept: State
    due: float
    made: tuple[Made, ...]


def step(kept: State | None, trust: Trust, rules: Rules, now: dt.datetime, at: float) -> Step:
    """What becomes of what is kept.

    Args:
        kept: what there is; None for nothing.
        trust: what callers are known to trust.
        rules: what certificates are made like.
        now: the moment, in UTC.
        at: the same moment by the clock of `trust`.
    """
    made: list[Made] = []
    if kept is None:
        kept = State(make_ca(rules.ca, now, rules.authority_life))
        made.append(Made.CURRENT)
    kept = _asked(kept)
    kept = _coming(kept, rules, now, made)
    kept = _promoted(kept, trust, rules, (now, at), made)
    kept = _leaf(kept, rules, now, made)
    kept = _dropped(kept, now, made)
    return Step(replace(kept, asked=None), _due(kept, trust, rules, now, at), tuple(made))


def _asked(kept: State) -> State:
    if kept.asked is RotationRequest.LEAF and kept.ca is not None:
        return replace(kept, leaf=None)
    return kept


def _coming(kept: State, rules: Rules, now: dt.datetime, made: list[Made]) -> State:
    """Makes a coming authority if the current one is near its end, unusable, or somebody wants another one."""
    if kept.coming is not None and kept.coming.valid_at(now):
        return kept
    current = kept.ca
    wanted = kept.asked is RotationRequest.AUTHORITY or kept.coming is not None
    if not wanted and current is not None and current.valid_at(now) and now < _authority_due(current, rules):
        return kept
    made.append(Made.COMING)
    return replace(kept, coming=make_ca(rules.ca, now, rules.authority_life))


def _promoted(kept: State, trust: Trust, rules: Rules, moment: tuple[dt.datetime, float], made: list[Made]) -> State:
    """Puts the coming authority in the place of the current one, once everybody has learnt of it."""
    now, at = moment
    coming, old = kept.coming, kept.ca
    if coming is None:
        return kept
    # While nothing valid can be served under the old one, waiting for the last of them helps nobody.
    lost = (old is None or now > old.not_after) and (kept.leaf is None or not kept.leaf.valid_at(now))
    if not (trust.settled(der(coming.certificate), at) or (lost and trust.sees(der(coming.certificate)))):
        return kept
    made += [Made.CURRENT, Made.LEAF]
    retired = kept.retired if old is None else (*kept.retired, Retired(old.certificate, _last_use(kept, rules, now)))
    return replace(
        kept,
        ca=coming,
        coming=None,
        retired=retired,
        leaf=issue(coming, rules.names, now, rules.leaf_life),
    )


def _last_use(kept: State, rules: Rules, now: dt.datetime) -> dt.datetime:
    """When the last leaf under the current authority ends, by the slowest clock."""
    leaf = kept.leaf
    end = now + rules.leaf_life if leaf is None else leaf.not_after
    return (end + CLOCK_SKEW).replace(microsecond=0)


def _leaf(kept: State, rules: Rules, now: dt.datetime, made: list[Made]) -> State:
    authority, leaf = kept.ca, kept.leaf
    if authority is None or not authority.valid_at(now):
        return kept
    names = rules.names
    if leaf is not None and leaf.valid_at(now) and signed_by(leaf.certificate, authority.certificate):
        covered = covers(leaf.certificate, names)
        if covered and now < _leaf_due(leaf, authority, rules):
            return kept
        if not covered:
            # Replicas of two releases may want different names: each keeps the other's until the next renewal.
            both = list(dict.fromkeys([*names, *names_of(leaf.certificate)]))
            names = both if len(both) <= MOST_NAMES else names
    made.append(Made.LEAF)
    return replace(kept, leaf=issue(authority, names, now, rules.leaf_life))


def _dropped(kept: State, now: dt.datetime, made: list[Made]) -> State:
    left = tuple(one for one in kept.retired if now < min(one.until, one.certificate.not_valid_after_utc))
    if len(left) == len(kept.retired):
        return kept
    made.append(Made.DROPPED)
    return replace(kept, retired=left)


def _leaf_due(leaf: Pair, authority: Pair, rules: Rules) -> dt.datetime:
    due = _renewal(leaf, rules)
    # A new one ends with its authority at the latest.
    gained = min(due + rules.leaf_life, authority.not_after) - leaf.not_after
    return due if gained > rules.leaf_life * WORTH_IT else leaf.not_after + CLOCK_SKEW


def _authority_due(authority: Pair, rules: Rules) -> dt.datetime:
    # It has to be able to cover a whole life of a leaf, and a last one while its successor is made known.
    middle = authority.not_before + (authority.not_after - authority.not_before) / 2
    return max(middle, min(_renewal(authority, rules), authority.not_after - 2 * rules.leaf_life))


def _renewal(pair: Pair, rules: Rules) -> dt.datetime:
    return pair.not_before + (pair.not_after - pair.not_before) * (RENEW_AFTER - rules.lead)


def _due(kept: State, trust: Trust, rules: Rules, now: dt.datetime, at: float) -> float:
    moments = [min(one.until, one.certificate.not_valid_after_utc) for one in kept.retired]
    if kept.ca is not None and kept.leaf is not None:
        moments.append(_leaf_due(kept.leaf, kept.ca, rules))
    if kept.coming is not None:
        moments.append(kept.coming.not_after)
    elif kept.ca is not None:
        moments.append(_authority_due(kept.ca, rules))
    # A moment that has passed already waits for something else: for trust, or for a clock to be set right.
    seconds = [left for moment in moments if (left := (moment - now).total_seconds()) > 0]
    if kept.coming is not None:
        seconds.append(trust.rest(der(kept.coming.certificate), at))
    return min(seconds, default=float("inf"))
