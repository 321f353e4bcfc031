"""How long the slowest reviews take: ``python -m benchmarks.worst``, five minutes; a part of a name chooses some.

Pods of 7 MiB, made to be slow in every way that we know, each decided as every kind of namespace has it. Nothing is asserted
here: ``tests/decisions/test_bounded_time.py`` counts, which is the same on every machine.
"""

import sys
import time
from typing import Final

from tests.decisions.worst_pods import LARGEST, PODS, SETTINGS, WHERE, Where, many_vendors, named_for_each, of_size
from webhook.admission import Context, decide
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.response import encode_answer

CONTAINERS: Final = (128, 1024)


def seconds(body: bytes, where: Where, policy: Policy) -> float:
    """CPU seconds from a pod's bytes to the answer."""
    policy.memo.clear()
    started = time.process_time()
    encode_answer("", decide(decode_pod(body), Context(where.namespace), policy))
    return time.process_time() - started


def main() -> None:
    """Print one line for each pod, and the worst of all."""
    policy = build_policy([], Document("settings", SETTINGS, {}))
    pods = {**PODS, "vendors of all kinds": many_vendors(policy)}
    for count in CONTAINERS:
        pods |= dict(named_for_each(policy, count))
    chosen = {name: grow for name, grow in pods.items() if any(part in name for part in sys.argv[1:] or [""])}
    worst = (0.0, "")
    print(f"{'CPU s':>6} {'MiB':>5}  pod, and where it takes the longest")
    for name, grow in chosen.items():
        body = of_size(grow, LARGEST)
        longest, where = max((seconds(body, where, policy), where.name) for where in WHERE)
        print(f"{longest:6.3f} {len(body) / 2**20:5.1f}  {name}, {where}", flush=True)
        worst = max(worst, (longest, f"{name}, {where}"))
    print(f"{worst[0]:6.3f}        the worst: {worst[1]}")


if __name__ == "__main__":
    main()
