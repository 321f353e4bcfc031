"""Streams of reviews, each with what it may cost."""

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

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
HOME: Final = "nvidia"
"""The vendor whose keys `DIFFERENT_GPU` has: those of HAMi."""


class Pair(NamedTuple):
    """A vendor in whose keys all pods are different, and the one to which they are translated.

    Attributes:
        source, target: names of vendors.
        limits: of a share: its cores are an `AMOUNT`.
        memory: the resource beside them.
        bytes: whether it counts bytes, not MiB.
    """

    source: str
    target: str
    limits: Mapping[str, str]
    memory: str
    bytes: bool = False

    def share(self, number: int) -> str:
        """The amounts of a pod. Of them there are eight million, for 90 and 89,999 have no common divisor."""
        mebibytes = 10_000 + number % 89_999
        return f'{10 + number % 90}","{self.memory}":"{binary(mebibytes) if self.bytes else canonical(mebibytes)}'


AT_HOME: Final = Pair(HOME, HOME, DIFFERENT_GPU, "nvidia.com/gpumem")
VOLCANO: Final = {**CPU_AND_MEMORY, "volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": AMOUNT}
KOORDINATOR: Final = {**CPU_AND_MEMORY, "koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-core": AMOUNT}
TRANSLATED: Final = (
    Pair("volcano", HOME, VOLCANO, "volcano.sh/vgpu-memory"),
    Pair("koordinator", HOME, KOORDINATOR, "koordinator.sh/gpu-memory", bytes=True),
    Pair(HOME, "koordinator", DIFFERENT_GPU, "nvidia.com/gpumem"),
)
"""From resources, to resources, and between a total of bytes and MiB of each device."""

OF_TRACE: Final = ("Jobs of the trace, HAMi", "Jobs of the trace, Aliyun to nvidia")


@dataclass(frozen=True, slots=True)
class Stream:
    """Reviews without end.

    Attributes:
        name: what they are.
        bodies: each the body of a review.
        goal: CPU of one review at most, in times that of the empty handler; None: none is set.
        large: whether they are of `LARGE` instead of at most `SMALL` bytes.
        below_peer: whether they have to take less CPU than at the webhook that is compared with.
        peers: what is sent to that webhook, the same requests in its own keys; None: `bodies`.
    """

    name: str
    bodies: Iterator[bytes]
    goal: float | None = None
    large: bool = False
    below_peer: bool = False
    peers: Iterator[bytes] | None = None


def streams() -> tuple[Stream, ...]:
    """Return every stream, from its first review; those of the trace only if the environment names its file."""
    return (
        Stream("one pod", itertools.repeat(template(DEPLOYMENT, GPU, SMALL).fill(0, 0, 0))),
        Stream("one template", _one_template(template(DEPLOYMENT, GPU, SMALL)), 1.6),
        *_of_trace(),
        Stream("indexed Jobs", _replicas(INDEXED_JOB)),
        Stream("StatefulSets", _replicas(STATEFUL_SET)),
        different(),
        *map(translated, TRANSLATED),
        different(large=True),
        Stream("no GPU name, all different", _each_once(template(DEPLOYMENT, CPU_AND_MEMORY, SMALL)), 1.3),
        Stream("ordinary CPU pods", _each_once(small_template(DEPLOYMENT)), 1.3),
    )


def different(*, large: bool = False) -> Stream:
    """Return the stream of pods that have neither name, labels, variables nor amounts in common."""
    if large:
        # Far from those of small pods: the amounts are what these pods are remembered by.
        return Stream(f"all different, {LARGE // 1000} KB", never_seen(AT_HOME, LARGE, 4_000_000), 2.8, large=True)
    return Stream("all different", never_seen(AT_HOME), below_peer=True)


def translated(pair: Pair) -> Stream:
    """Return the same for pods in the keys of another vendor than that of their nodes."""
    name = f"all different, {pair.source} to {pair.target}"
    return Stream(name, never_seen(pair), below_peer=True, peers=never_seen(AT_HOME))


def never_seen(pair: Pair, size: int = SMALL, first: int = 0) -> Iterator[bytes]:
    """Pods of which no two request alike; `first` is the number of the first one's amounts."""
    return _each_once(sent_from(pair, size), map(pair.share, itertools.count(first)))


def sent_from(pair: Pair, size: int = SMALL) -> Template:
    """The template of these pods."""
    target = {} if pair.source == pair.target else {labels.TARGET: pair.target}
    return template(DEPLOYMENT, pair.limits, size, annotations=target)


def binary(mebibytes: int) -> str:
    """So many MiB, below a TiB, as an API server sends them."""
    return f"{mebibytes}Mi" if mebibytes % 1024 else f"{mebibytes // 1024}Gi"


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
    for name, templates in zip(OF_TRACE, (hami, aliyun), strict=True):
        numbered = enumerate(itertools.cycle([templates[request] for request in requests]))
        yield Stream(name, (sent.fill(number, 0, number) for number, sent in numbered), 1.8)
