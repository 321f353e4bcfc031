"""Streams of reviews, each with what it may cost."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.owners import DEPLOYMENT, INDEXED_JOB, JOB, STATEFUL_SET, Owner
from benchmarks.trace import trace
from benchmarks.workloads import AMOUNT, Template, small_template, template
from webhook import labels

SMALL: Final = 6_000
"""Bytes of the review of a usual pod."""

LARGE: Final = 64_000
"""Bytes of one with hundreds of variables."""

REPLICAS: Final = 16
"""Pods of each indexed Job and StatefulSet."""

CPU_AND_MEMORY: Final = {"cpu": "4", "memory": "16Gi"}
GPU: Final = {**CPU_AND_MEMORY, "nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"}
DIFFERENT_GPU: Final = {**CPU_AND_MEMORY, "nvidia.com/gpu": "1", "nvidia.com/gpucores": AMOUNT}


@dataclass(frozen=True, slots=True)
class Stream:
    """Reviews without end.

    Attributes:
        name: what they are.
        bodies: each the body of a review.
        goal: CPU of one review at most, in times that of the empty handler; None: none is set.
        large: whether they are of `LARGE` instead of at most `SMALL` bytes.
        below_peer: whether they have to take less CPU than at the webhook that is compared with.
    """

    name: str
    bodies: Iterator[bytes]
    goal: float | None = None
    large: bool = False
    below_peer: bool = False


def streams() -> tuple[Stream, ...]:
    """Return every stream, from its first review; those of the trace only if the environment names its file."""
    return (
        Stream("one pod", itertools.repeat(template(DEPLOYMENT, GPU, SMALL).fill(0, 0, 0))),
        Stream("one template", _one_template(template(DEPLOYMENT, GPU, SMALL)), 1.6),
        *_of_trace(),
        Stream("indexed Jobs", _replicas(INDEXED_JOB)),
        Stream("StatefulSets", _replicas(STATEFUL_SET)),
        different(),
        different(large=True),
        Stream("no GPU name, all different", _each_once(template(DEPLOYMENT, CPU_AND_MEMORY, SMALL)), 1.3),
        Stream("ordinary CPU pods", _each_once(small_template(DEPLOYMENT)), 1.3),
    )


def different(*, large: bool = False) -> Stream:
    """Return the stream of pods that have neither name, labels, variables nor amounts in common.

    Of amounts there are eight million, for 90 and 89,999 have no common divisor.
    """
    size = LARGE if large else SMALL
    # Far from those of small pods: the amounts are what these pods are remembered by.
    numbers = itertools.count(4_000_000 if large else 0)
    amounts = (f'{10 + number % 90}","nvidia.com/gpumem":"{canonical(10_000 + number % 89_999)}' for number in numbers)
    bodies = _each_once(template(DEPLOYMENT, DIFFERENT_GPU, size), amounts)
    if large:
        return Stream(f"all different, {size // 1000} KB", bodies, 2.8, large=True)
    return Stream("all different", bodies, 3.2, below_peer=True)


def canonical(number: int) -> str:
    """A whole number below a million as an API server sends it."""
    return str(number) if number % 1000 else f"{number // 1000}k"


def _one_template(sent: Template) -> Iterator[bytes]:
    """Pods of one Deployment."""
    return (sent.fill(0, 0, number) for number in itertools.count())


def _each_once(sent: Template, amounts: Iterator[str] | None = None) -> Iterator[bytes]:
    """One pod of each Deployment."""
    each = itertools.repeat("") if amounts is None else amounts
    return (sent.fill(number, 0, number, amount) for number, amount in zip(itertools.count(), each, strict=False))


def _replicas(owner: Owner) -> Iterator[bytes]:
    """`REPLICAS` pods of each owner."""
    sent = template(owner, GPU, SMALL, same_variables=True)
    return (sent.fill(number // REPLICAS, number % REPLICAS, number) for number in itertools.count())


def _of_trace() -> Iterator[Stream]:
    """The pods of the trace in random order, each as a Job of its own."""
    requests = list(trace().elements())
    if not requests:
        return
    random.Random(7).shuffle(requests)  # noqa: S311  (no secret)
    hami = {request: template(JOB, request.hami, SMALL, same_variables=True) for request in set(requests)}
    to_nvidia = {labels.TARGET: "nvidia"}
    aliyun = {
        request: template(
            JOB, request.aliyun, SMALL, same_variables=True, labels=request.aliyun_labels, annotations=to_nvidia
        )
        for request in set(requests)
    }
    for name, templates in (("Jobs of the trace, HAMi", hami), ("Jobs of the trace, Aliyun to nvidia", aliyun)):
        numbered = enumerate(itertools.cycle([templates[request] for request in requests]))
        yield Stream(name, (sent.fill(number, 0, number) for number, sent in numbered), 1.8)
