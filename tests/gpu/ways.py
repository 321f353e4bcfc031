"""The ways out of a share by variables that `docs/threats.md` calls closed: what lifts a limit where no webhook is."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.ways_out import UNSEEN

OWN_CACHE: Final = "own.cache"
OWN_LIBRARY: Final = "libown.so"
_ENABLE_SECURE: Final = "glibc.rtld.enable_secure=1"
_SECURE_SINCE: Final = (2, 40)
"""The release of glibc whose loader has the tunable."""


@dataclass(frozen=True, slots=True)
class Way:
    """A variable with a value that lifts a limit where nobody forbids it.

    `without` are variables that stand for the same and would come first: in a container that has only this one, it is open.
    `lifts` is false if this library, or this machine, does not read the variable: then the reading is only recorded.
    `under` says that the shim's own value comes before one of `envFrom` and of the image; otherwise it is only denied.
    """

    variable: str
    value: str
    kind: str = "memory"
    without: tuple[str, ...] = ()
    lifts: bool = True
    under: bool = True
    why: str = ""

    def open(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return the environment as it is if the user's value counts."""
        kept = {name: value for name, value in stored.items() if name not in self.without}
        return {**kept, self.variable: self.value}

    def closed(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return the environment as it is if the value comes from `envFrom` or the image: what is stored comes first."""
        return {self.variable: self.value, **stored}


def ways(scratch: Path, driver: str) -> tuple[Way, ...]:
    """Return them; files of the user are in a folder, `driver` is the path of the driver's library."""
    secure = tuple(map(int, re.findall(r"\d+", os.confstr("CS_GNU_LIBC_VERSION") or "0")[:2])) >= _SECURE_SINCE
    own = scratch / OWN_LIBRARY
    value = UNSEEN.__getitem__
    return (
        Way("CUDA_DEVICE_MEMORY_LIMIT", value("CUDA_DEVICE_MEMORY_LIMIT"), without=("CUDA_DEVICE_MEMORY_LIMIT_0",)),
        Way("CUDA_DEVICE_MEMORY_LIMIT_0", value("CUDA_DEVICE_MEMORY_LIMIT_0")),
        Way("CUDA_DEVICE_MEMORY_SHARED_CACHE", str(scratch / OWN_CACHE)),
        Way("CUDA_REDIRECT", driver),
        Way("LD_PRELOAD", "libm.so.6"),
        Way("LD_AUDIT", str(own), lifts=own.exists(), why="" if own.exists() else "no C compiler"),
        Way("GLIBC_TUNABLES", _ENABLE_SECURE, lifts=secure, under=False, why="" if secure else "glibc before 2.40"),
        Way("CUDA_DISABLE_CONTROL", "true", lifts=False, under=False, why="HAMi's device plugin reads it"),
        Way("CUDA_OVERSUBSCRIBE", "true", lifts=False, under=False, why="libraries before December 2023 read it"),
        Way("CUDA_DEVICE_SM_LIMIT", value("CUDA_DEVICE_SM_LIMIT"), "cores", without=("CUDA_DEVICE_SM_LIMIT_0",)),
        Way("CUDA_DEVICE_SM_LIMIT_0", value("CUDA_DEVICE_SM_LIMIT_0"), "cores"),
        Way("GPU_CORE_UTILIZATION_POLICY", value("GPU_CORE_UTILIZATION_POLICY"), "cores"),
    )
