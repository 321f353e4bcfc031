"""In the place of PyTorch: what the tests call of it, on the driver that a program finds."""

from types import SimpleNamespace
from typing import Any, Final

from tests.gpu.program import Driver

__version__: Final = "0 (a stand-in)"
uint8: Final = 1
_DRIVER: Final = Driver()


class OutOfMemoryError(RuntimeError):
    """There is not enough memory."""


class Tensor:
    """Memory that is given back when nobody has it."""

    def __init__(self, size: int) -> None:
        address = _DRIVER.allocate(size)
        if address is None:
            raise OutOfMemoryError
        self._address = address

    def __del__(self) -> None:
        if hasattr(self, "_address"):
            _DRIVER.free(self._address)

    def fill_(self, value: int) -> None:
        """It is filled already."""


def empty(size: int, *, dtype: int, device: str) -> Tensor:
    """Return memory of the device."""
    return Tensor(size)


def _memory() -> tuple[int, int]:
    return _DRIVER.memory()[:2]


cuda: Final[Any] = SimpleNamespace(
    OutOfMemoryError=OutOfMemoryError,
    get_device_properties=lambda device: SimpleNamespace(total_memory=_DRIVER.memory()[2]),
    mem_get_info=_memory,
    synchronize=lambda: None,
    empty_cache=lambda: None,
)
