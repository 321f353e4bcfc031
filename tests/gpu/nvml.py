"""What the driver's management library says, outside of every container; it is only ever asked, and changes nothing."""

import ctypes
from dataclasses import dataclass
from typing import Any, Final

_MANY: Final = 1024


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Sample(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("time", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


@dataclass(frozen=True, slots=True)
class Management:
    """The library, with the first device; `failure` says why it is not there."""

    library: Any = None
    device: Any = None
    failure: str = ""

    def text(self, name: str, *before: Any) -> str:
        """Return what a function writes as a text, or the error."""
        if self.library is None:
            return self.failure
        buffer = ctypes.create_string_buffer(96)
        code = self._code(name, *before, buffer, 96)
        return buffer.value.decode() if code == 0 else f"error {code}"

    def number(self, name: str, kind: type[Any] = ctypes.c_uint) -> Any:
        """Return what a function of the device writes as a number, or the error as a text."""
        if self.library is None:
            return self.failure
        value = kind()
        code = self._code(name, self.device, ctypes.byref(value))
        return value.value if code == 0 else f"error {code}"

    def total(self) -> int:
        """Return the memory of the device in bytes, 0 if it is not known."""
        value = _Memory()
        if self.library is None or self._code("nvmlDeviceGetMemoryInfo", self.device, ctypes.byref(value)):
            return 0
        return int(value.total)

    def mig(self) -> str:
        """Return whether the device is divided by MIG."""
        if self.library is None:
            return self.failure
        now, later = ctypes.c_uint(), ctypes.c_uint()
        code = self._code("nvmlDeviceGetMigMode", self.device, ctypes.byref(now), ctypes.byref(later))
        return f"error {code}" if code else ("on" if now.value else "off")

    def use_by_process(self) -> dict[int, int]:
        """Return the share of time of each process in percent, as it was last sampled; none if the driver does not say."""
        if self.library is None:
            return {}
        samples, count = (_Sample * _MANY)(), ctypes.c_uint(_MANY)
        code = self._code(
            "nvmlDeviceGetProcessUtilization", self.device, samples, ctypes.byref(count), ctypes.c_ulonglong(0)
        )
        return {} if code else {each.pid: each.sm for each in samples[: count.value] if each.sm <= 100}

    def _code(self, name: str, *arguments: Any) -> int:
        try:
            return int(getattr(self.library, name)(*arguments))
        except AttributeError:
            return -1


def management() -> Management:
    """Return it, made ready."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return Management(failure=str(error))
    device = ctypes.c_void_p()
    if code := library.nvmlInit_v2():
        return Management(failure=f"nvmlInit_v2: {code}")
    if code := library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)):
        return Management(failure=f"nvmlDeviceGetHandleByIndex_v2: {code}")
    return Management(library, device)
