"""The CPU time of the slowest reviews: ``python -m benchmarks.worst``, about ten minutes; a part of a name chooses some.

Reviews of 7 MiB: those known to be slow, and those that a search makes (``tests/decisions/filled_fields.py``). Each is decided
once, as one kind of namespace has it, and smaller ones while they exceed a limit; the slowest again as every kind has it, the
best of several times. The program fails if one of these takes longer than `GOAL`: meanwhile, other pods wait.
``tests/decisions/test_bounded_time.py`` counts the work, which is the same on every machine.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tests.decisions.filled_fields import sampled
from tests.decisions.worst_pods import LARGEST, PODS, SETTINGS, WHERE, Where, many_vendors, named_for_each, of_size
from webhook.admission import Context, decide
from webhook.mapping.document import Document
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import UNDECODABLE
from webhook.reasons import Reason
from webhook.review import ReviewError, decode_review, encode_answer

GOAL: Final = 0.25
"""CPU seconds that any review may take."""

CONTAINERS: Final = (128, 1024)
FILLINGS: Final = 24
"""Ways of filling each field."""
SHOWN: Final = 24
"""The slowest reviews, which are decided again."""
TIMES: Final = 3
"""Other programs on the machine make a time longer, never shorter."""

LEAST: Final = 16 * 1024
"""Bytes of the smallest pod that is tried."""

_HEAD: Final = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",'
    b'"kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"team","object":'
)


def answered(review: bytes, where: Where, policy: Policy) -> tuple[float, bool]:
    """CPU seconds from the bytes of a review to its answer, and whether the pod exceeds a limit."""
    policy.memo.clear()
    decision = None
    started = time.process_time()
    try:
        pod = decode_review(review).pod
        assert pod is not None
        decision = decide(pod, Context(where.namespace), policy)
        encode_answer("u", decision)
    except (ReviewError, *UNDECODABLE):
        pass  # answered with an error, which takes its time, too
    taken = time.process_time() - started
    found = () if decision is None else (decision.reason, *(finding.reason for finding in decision.warnings))
    return taken, Reason.TOO_MANY in found


def pods(policy: Policy) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """The pods by name, of any size, those that the command line chooses."""
    grown = {**PODS, "vendors of all kinds": many_vendors(policy)}
    for count in CONTAINERS:
        grown |= dict(named_for_each(policy, count))
    parts = sys.argv[1:] or [""]
    for name, grow in grown.items():
        if any(part in name for part in parts):
            yield name, partial(of_size, grow)
    for filling in sampled(policy, FILLINGS):
        if any(part in filling.name for part in parts):
            yield filling.name, partial(filling.body, policy=policy)


def main() -> int:
    """Print the slowest reviews; 1 if one takes longer than the goal."""
    policy = build_policy([], Document("settings", SETTINGS, {}))
    slowest: list[tuple[float, str, bytes]] = []
    tried = 0
    for name, made in pods(policy):
        size, exceeds, where = LARGEST, True, WHERE[tried % len(WHERE)]
        tried += 1
        while exceeds and size > LEAST:
            review = _HEAD + made(size) + b"}}"
            taken, exceeds = answered(review, where, policy)
            slowest = sorted((*slowest, (taken, f"{name}, {len(review) / 2**20:.1f} MiB", review)), reverse=True)[
                :SHOWN
            ]
            size //= 4
    measured = sorted(
        (
            (min(answered(review, where, policy)[0] for _ in range(TIMES)), name, where.name)
            for _, name, review in slowest
            for where in WHERE
        ),
        reverse=True,
    )
    print(
        f"{tried} pods of up to {LARGEST / 2**20:.0f} MiB; the slowest:\n{'CPU s':>6}  pod, and where it takes the longest"
    )
    for longest, name, kind in measured[:SHOWN]:
        print(f"{longest:6.3f}  {name}; {kind}")
    worst = measured[0][0] if measured else 0.0
    print(f"{worst:6.3f}  the worst; the goal is {GOAL}{' and is missed' if worst > GOAL else ''}")
    return int(worst > GOAL)


if __name__ == "__main__":
    sys.exit(main())
