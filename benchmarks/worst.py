"""The CPU time of the slowest reviews: ``python -m benchmarks.worst``, about ten minutes; a part of a name chooses some.

Reviews of 7 MiB: those known to be slow, and those that a search makes (``tests/decisions/filled_fields.py``).
Each is decided once, as one kind of namespace has it; the slowest again as every kind has it, the best of several times. The
program fails if one of these takes longer than `GOAL`: meanwhile, other pods wait. ``tests/decisions/test_bounded_time.py``
counts the work, which is the same on every machine.
"""

import sys
import time
from collections.abc import Iterator
from typing import Final

from tests.decisions.filled_fields import sampled
from tests.decisions.worst_pods import LARGEST, PODS, SETTINGS, WHERE, Where, many_vendors, named_for_each, of_size
from webhook.admission import Context, decide
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy
from webhook.response import encode_answer
from webhook.review import UNDECODABLE, ReviewError, decode_review

GOAL: Final = 0.25
"""CPU seconds that any review may take."""

CONTAINERS: Final = (128, 1024)
FILLINGS: Final = 24
"""Ways of filling each field."""
SHOWN: Final = 24
"""The slowest reviews, which are decided again."""
TIMES: Final = 3
"""Other programs on the machine make a time longer, never shorter."""

_HEAD: Final = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",'
    b'"kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"team","object":'
)


def seconds(review: bytes, where: Where, policy: Policy) -> float:
    """CPU seconds from the bytes of a review to its answer."""
    policy.memo.clear()
    started = time.process_time()
    try:
        pod = decode_review(review).pod
        assert pod is not None
        encode_answer("u", decide(pod, Context(where.namespace), policy))
    except (ReviewError, *UNDECODABLE):
        pass  # answered with an error, which takes its time, too
    return time.process_time() - started


def bodies(policy: Policy) -> Iterator[tuple[str, bytes]]:
    """The pods by name, those that the command line chooses."""
    grown = {**PODS, "vendors of all kinds": many_vendors(policy)}
    for count in CONTAINERS:
        grown |= dict(named_for_each(policy, count))
    parts = sys.argv[1:] or [""]
    for name, grow in grown.items():
        if any(part in name for part in parts):
            yield name, of_size(grow, LARGEST)
    for filling in sampled(policy, FILLINGS):
        if any(part in filling.name for part in parts):
            yield filling.name, filling.body(LARGEST, policy)


def main() -> int:
    """Print the slowest reviews; 1 if one takes longer than the goal."""
    policy = build_policy([], Document("settings", SETTINGS, {}))
    slowest: list[tuple[float, str, bytes]] = []
    tried = 0
    for name, body in bodies(policy):
        review = _HEAD + body + b"}}"
        slowest.append((seconds(review, WHERE[tried % len(WHERE)], policy), name, review))
        slowest = sorted(slowest, reverse=True)[:SHOWN]
        tried += 1
    measured = sorted(
        (
            (min(seconds(review, where, policy) for _ in range(TIMES)), name, where.name)
            for _, name, review in slowest
            for where in WHERE
        ),
        reverse=True,
    )
    print(
        f"{tried} reviews of {LARGEST / 2**20:.0f} MiB; the slowest:\n{'CPU s':>6}  pod, and where it takes the longest"
    )
    for longest, name, where in measured[:SHOWN]:
        print(f"{longest:6.3f}  {name}; {where}")
    worst = measured[0][0] if measured else 0.0
    print(f"{worst:6.3f}  the worst; the goal is {GOAL}{' and is missed' if worst > GOAL else ''}")
    return int(worst > GOAL)


if __name__ == "__main__":
    sys.exit(main())
