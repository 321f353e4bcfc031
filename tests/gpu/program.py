"""What runs in the place of a container: a program that uses the GPU, through the driver's library or through PyTorch.

It needs nothing but Python, and prints one line of JSON. Amounts are bytes.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any, Final

MIB: Final = 1 << 20
BEYOND: Final = 256 * MIB
"""How much more than promised is asked for."""

OUT_OF_MEMORY: Final = 2
BLOCKS: Final = 131072
THREADS: Final = 256
MILLISECONDS: Final = 2.0
"""How long a launch shall take: many short blocks, as those of ordinary kernels."""

_FMAS: Final = "\n".join(["    fma.rn.f32 %f1, %f1, %f2, %f3;"] * 32)
PTX: Final = f"""
.version 6.4
.target sm_75
.address_size 64
.visible .entry busy(.param .u64 out, .param .u32 rounds)
{{
    .reg .u64 %rd<2>;
    .reg .u32 %r<3>;
    .reg .f32 %f<4>;
    .reg .pred %p<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F000000;
    mov.f32 %f3, 0f3F800000;
again:
{_FMAS}
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra again;
    setp.gt.f32 %p2, %f1, 0f7E967699;
    @%p2 st.global.f32 [%rd1], %f1;
    ret;
}}
"""
"""Arithmetic, as often as it is told; what is stored under a condition that is never met keeps it from being removed."""


class Driver:
    """The driver's library with a context on the first device."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        self._library = ctypes.CDLL(library)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self._device = device

    def call(self, name: str, *arguments: Any, expected: tuple[int, ...] = (0,)) -> int:
        """Call a function, and return its code.

        Raises:
            RuntimeError: it is another one.
        """
        code = int(getattr(self._library, name)(*arguments))
        if code not in expected:
            raise RuntimeError(f"{name}: {code}")
        return code

    def memory(self) -> tuple[int, int, int]:
        """Return what is free, and the total by the context and by the device."""
        free, total, of_device = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        self.call("cuDeviceTotalMem_v2", ctypes.byref(of_device), self._device)
        return free.value, total.value, of_device.value

    def allocate(self, size: int) -> ctypes.c_uint64 | None:
        """Return an address of that many bytes, all of them written; none if there is not enough memory."""
        address = ctypes.c_uint64()
        if self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size), expected=(0, OUT_OF_MEMORY)):
            return None
        self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(1), ctypes.c_size_t(size))
        self.call("cuCtxSynchronize")
        return address

    def free(self, address: ctypes.c_uint64) -> None:
        self.call("cuMemFree_v2", address)


def memory(promised: int, library: str = "libcuda.so.1") -> dict[str, Any]:
    """Return what the driver says and grants."""
    driver = Driver(library)

    def release(held: list[Any]) -> None:
        while held:
            driver.free(held.pop())

    return _seen(promised, driver.memory(), driver.allocate, release)


def torch(promised: int) -> dict[str, Any]:
    """Return the same by PyTorch, which takes long to be there: it says when it is, and waits for a line."""
    import torch as library  # type: ignore[import-not-found,unused-ignore]

    _ready()
    cuda: Any = library.cuda

    def allocate(size: int) -> Any:
        try:
            tensor = library.empty(size, dtype=library.uint8, device="cuda")
        except cuda.OutOfMemoryError:
            return None
        tensor.fill_(1)
        cuda.synchronize()
        return tensor

    def release(held: list[Any]) -> None:
        held.clear()
        cuda.empty_cache()

    amounts = (*cuda.mem_get_info(), cuda.get_device_properties(0).total_memory)
    return {**_seen(promised, amounts, allocate, release), "version": str(library.__version__)}


def _seen(
    promised: int, amounts: tuple[int, int, int], allocate: Callable[[int], Any], release: Callable[[list[Any]], None]
) -> dict[str, Any]:
    """Return the totals, and which allocations are granted: most of what is free, more beside it, more than promised."""
    free, total, of_device = amounts
    most = free // 10 * 9 // MIB * MIB
    held: list[Any] = []
    for size in (most, free // 4):
        held.append(allocate(size))
        if held[-1] is None:
            held.pop()
            break
    granted = len(held)
    release(held)
    beyond = allocate(promised + BEYOND) is not None
    seen = {"total": total, "device": of_device, "free": free, "asked": most}
    return {**seen, "below": granted > 0, "beside": granted > 1, "beyond": beyond}


class Busy:
    """A kernel that is launched again as soon as it has ended; time is what the device's events say."""

    def __init__(self) -> None:
        self.driver = Driver()
        self._module, self._function, self._first, self._last = (ctypes.c_void_p() for _ in range(4))
        call, by = self.driver.call, ctypes.byref
        call("cuModuleLoadData", by(self._module), PTX.encode())
        call("cuModuleGetFunction", by(self._function), self._module, b"busy")
        call("cuEventCreate", by(self._first), 0)
        call("cuEventCreate", by(self._last), 0)
        self._address = self.driver.allocate(256)

    def launches(self, rounds: int, seconds: float) -> tuple[int, float]:
        """Return how many there were in that time, and how long it was."""
        call = self.driver.call
        elapsed, count, parameter = ctypes.c_float(), 0, ctypes.c_uint(rounds)
        parameters = (ctypes.c_void_p * 2)(
            ctypes.cast(ctypes.byref(self._address or ctypes.c_uint64()), ctypes.c_void_p),
            ctypes.cast(ctypes.byref(parameter), ctypes.c_void_p),
        )
        call("cuEventRecord", self._first, None)
        while elapsed.value < seconds * 1000:
            call("cuLaunchKernel", self._function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, parameters, None)
            call("cuEventRecord", self._last, None)
            call("cuEventSynchronize", self._last)
            call("cuEventElapsedTime", ctypes.byref(elapsed), self._first, self._last)
            count += 1
        return count, elapsed.value / 1000

    def rounds(self) -> int:
        """Return with how many rounds a launch takes what it shall."""
        self.launches(50, 0.5)
        count, seconds = self.launches(50, 0.5)
        return max(1, round(50 * MILLISECONDS / (seconds * 1000 / count)))


def busy(seconds: float, rounds: int) -> dict[str, Any]:
    """Say that it is ready, wait for a line, and return the launches of that time, after two seconds of them."""
    kernel = Busy()
    _ready()
    rounds = rounds or kernel.rounds()
    kernel.launches(rounds, 2)
    count, taken = kernel.launches(rounds, seconds)
    return {"launches": count, "seconds": taken, "rounds": rounds}


def _ready() -> None:
    _say({"ready": True})
    sys.stdin.readline()


def _say(seen: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(seen)}\n")
    sys.stdout.flush()


def main(mode: str, *arguments: str) -> dict[str, Any]:
    """Return what is seen; an error by its text."""
    try:
        match mode:
            case "memory":
                return memory(int(arguments[0]), *arguments[1:])
            case "torch":
                return torch(int(arguments[0]))
            case _:
                return busy(float(arguments[0]), int(arguments[1]))
    except (OSError, ImportError, RuntimeError, AttributeError) as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}


if __name__ == "__main__":
    _say(main(*sys.argv[1:]))
