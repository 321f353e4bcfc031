"""What deciding takes, without a network: ``python -m benchmarks.decide [--profile] [PART OF A STREAM'S NAME]``.

From the body of a review to that of its response, for every stream: microseconds of CPU (the median and the least of all
rounds, the streams in turn within each), and calls of functions, of Python and of C. Calls are the same on every run.
"""

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Iterable
from itertools import islice
from typing import Final

from benchmarks.calls import count_calls
from benchmarks.streams import Stream, streams
from webhook.admission import Context, Namespace, decide
from webhook.labels import ENABLED, INJECT
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.review import decode_review, encode_answer
from webhook.server.metrics import settle_memory

WARM_UP: Final = 2_000
"""Reviews of each stream before it is measured: more than results are remembered."""

ROUNDS: Final = 9
REVIEWS: Final = 500
COUNTED: Final = 100
NAMESPACE: Final = Namespace("team", {INJECT: ENABLED})


def answer(body: bytes, policy: Policy) -> bytes:
    """Answer a review as the server does."""
    review = decode_review(body)
    assert review.pod is not None
    decision = decide(review.pod, Context(NAMESPACE, "privileged", review.user_info.username), policy)
    return encode_answer(review.uid, decision)


def answer_all(bodies: Iterable[bytes], policy: Policy) -> None:
    """Answer several."""
    for body in bodies:
        answer(body, policy)


def microseconds(stream: Stream, policy: Policy) -> float:
    """CPU for each of the next reviews."""
    bodies = list(islice(stream.bodies, REVIEWS))
    begin = time.process_time()
    answer_all(bodies, policy)
    return (time.process_time() - begin) / REVIEWS * 1e6


def calls(stream: Stream, policy: Policy) -> float:
    """Calls for each of the next reviews."""
    bodies = list(islice(stream.bodies, COUNTED))
    return count_calls(lambda: answer_all(bodies, policy)) / COUNTED


def profile(stream: Stream, policy: Policy) -> None:
    """Print where the time of the next reviews goes."""
    bodies = list(islice(stream.bodies, WARM_UP))
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(answer_all, bodies, policy)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decide")
    parser.add_argument("name", nargs="?", default="", help="part of the names of the streams to measure; without: all")
    parser.add_argument("--profile", action="store_true", help="print the functions that take most of the time, too")
    options = parser.parse_args()
    policy = load_policy()
    chosen = [stream for stream in streams() if options.name in stream.name]
    for stream in chosen:
        answer_all(islice(stream.bodies, WARM_UP), policy)
    settle_memory()
    # The streams share one memory, so each is sent anew for a while before it is measured.
    samples: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for stream in chosen:
            answer_all(islice(stream.bodies, REVIEWS), policy)
            samples.setdefault(stream.name, []).append(microseconds(stream, policy))
    print(f"{'stream':<38} {'median µs':>9} {'least µs':>9} {'calls':>7}")
    for stream in chosen:
        answer_all(islice(stream.bodies, WARM_UP), policy)
        median, least = statistics.median(samples[stream.name]), min(samples[stream.name])
        print(f"{stream.name:<38} {median:>9.1f} {least:>9.1f} {calls(stream, policy):>7.0f}", flush=True)
    if options.profile:
        for stream in chosen:
            print(f"\n{stream.name}")
            profile(stream, policy)


if __name__ == "__main__":
    main()
