"""Pods that are created all the time, and what becomes of each."""

import enum
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.controlplane.beside import beside
from tests.controlplane.client import Answer, Client, Object
from tests.controlplane.objects import pod
from tests.controlplane.written import STATUS

CLIENTS = 3
PAUSE = 0.1
LONGEST = "10s"
"""After which the API server gives up a creation, for a webhook or for its store."""

STEADY = 10
"""Pods in a row that have to be treated for all to be well again."""


class Fate(enum.Enum):
    """What became of a pod."""

    TREATED = "treated"
    DENIED = "denied"
    UNTREATED = "untreated"
    UNANSWERED = "unanswered"
    """The API server did not answer, or said that it cannot work: nobody could have created it."""


@dataclass(slots=True)
class Stream:
    """The pods so far.

    Attributes:
        namespace: where they are created.
        fates: when each was begun, by the clock that never jumps, and what became of it.
        said: what was said of the last that was not treated.
    """

    client: Client
    namespace: str
    fates: list[tuple[float, Fate]] = field(default_factory=list)
    last_message: str = ""
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[None]:
        self.fates.clear()
        self.last_message = ""
        with beside(self._run, CLIENTS):
            yield

    def begun(self) -> dict[Fate, list[float]]:
        with self._lock:
            return {fate: sorted(at for at, became in self.fates if became is fate) for fate in Fate}

    def recovered(self, since: float) -> float | None:
        """Seconds from a moment until all were treated again; None while they are not."""
        with self._lock:
            later = sorted(((at, fate) for at, fate in self.fates if at >= since), key=lambda each: each[0])
        bad = [number for number, (_, fate) in enumerate(later) if fate is not Fate.TREATED]
        first = bad[-1] + 1 if bad else 0
        return later[first][0] - since if len(later) - first >= STEADY else None

    def _run(self, over: threading.Event) -> None:
        while not over.wait(PAUSE):
            began = time.monotonic()
            try:
                made = gpu_pod(f"pod-{next(self._numbers)}")
                path = f"/api/v1/namespaces/{self.namespace}/pods"
                answer = self.client.call("POST", path, made, query={"timeout": LONGEST})
                fate, message = _fate(answer), f"{answer.status}: {answer.message}"
            except OSError as error:
                fate, message = Fate.UNANSWERED, repr(error)
            with self._lock:
                self.fates.append((began, fate))
                if fate is not Fate.TREATED:
                    self.last_message = message[:300]


def _fate(answer: Answer) -> Fate:
    if answer.status == 201:
        annotated = STATUS in answer.body["metadata"].get("annotations", {})
        return Fate.TREATED if annotated else Fate.UNTREATED
    return Fate.DENIED if "webhook" in answer.message else Fate.UNANSWERED


SHARE: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}


def gpu_pod(name: str, limits: dict[str, str] | None = None) -> Object:
    """A pod that requests a share of a GPU, whatever the settings are."""
    return pod(name, SHARE if limits is None else limits)
