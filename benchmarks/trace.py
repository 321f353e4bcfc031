"""The requests of a production cluster, as pods: 8,152 pods with 151 different requests.

The data is not part of this repository, which has no license for it. It is ``openb_pod_list_default.csv`` in the folder
``cluster-trace-gpu-v2023/csv`` of https://github.com/alibaba/clusterdata; its README describes the columns. The environment
variable ``TRACE`` names the downloaded file. Without it there are no such streams, and ``make bench`` has to be told so.
"""

import csv
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

TRACE: Final = "TRACE"

GIB_PER_GPU: Final = 16
"""The trace has no sizes of GPU memory. In Aliyun's terms, which need them, each GPU is taken for one of 16 GiB."""

WHOLE: Final = 1000
"""`gpu_milli` of a request for whole GPUs."""


class TraceRequest(NamedTuple):
    """What a pod of the trace requests.

    Attributes:
        cpu: thousandths of a CPU (column ``cpu_milli``).
        memory: MiB (``memory_mib``).
        gpus: a number of GPUs, 0 for none (``num_gpu``).
        share: thousandths of each GPU (``gpu_milli``).
    """

    cpu: int
    memory: int
    gpus: int
    share: int

    @property
    def percentage(self) -> int:
        """Of each GPU, rounded up."""
        return -(-self.share // 10)

    @property
    def _ordinary(self) -> dict[str, str]:
        """CPU and memory, in the canonical form in which an API server sends every quantity."""
        cpu = f"{self.cpu}m" if self.cpu % 1000 else str(self.cpu // 1000)
        return {"cpu": cpu, "memory": f"{self.memory}Mi" if self.memory % 1024 else f"{self.memory // 1024}Gi"}

    @property
    def hami(self) -> Mapping[str, str]:
        """The request in HAMi's resource names."""
        if not self.gpus:
            return self._ordinary
        whole = {**self._ordinary, "nvidia.com/gpu": str(self.gpus)}
        if self.share == WHOLE:
            return whole
        percentage = str(self.percentage)
        return {**whole, "nvidia.com/gpumem-percentage": percentage, "nvidia.com/gpucores": percentage}

    @property
    def aliyun(self) -> Mapping[str, str]:
        """The request in Aliyun's resource name for all GPUs together; their number is in `aliyun_labels`."""
        if not self.gpus:
            return self._ordinary
        gib = -(-GIB_PER_GPU * self.share // WHOLE)
        return {**self._ordinary, "aliyun.com/gpu-mem": str(self.gpus * gib)}

    @property
    def aliyun_labels(self) -> Mapping[str, str]:
        """The label beside `aliyun`."""
        return {"aliyun.com/gpu-count": str(self.gpus)} if self.gpus > 1 else {}


def trace() -> Counter[TraceRequest]:
    """Return how many pods of the trace make each request; empty if the environment names no file."""
    path = os.environ.get(TRACE)
    if not path:
        return Counter()
    with Path(path).open(encoding="utf-8", newline="") as file:
        columns = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
        return Counter(TraceRequest(*(int(row[column]) for column in columns)) for row in csv.DictReader(file))
