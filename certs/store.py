"""The interface of a store of certificates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a store at one moment. Printing it shows no file.

    Attributes:
        files: by name; None if the store is empty.
        version: opaque; it changes with every write.
    """

    files: Mapping[str, bytes] | None = field(repr=False)
    version: str


class Store(Protocol):
    """A store that several processes may read and write at once."""

    async def read(self) -> Snapshot:
        """Read the store.

        Raises:
            StoreError: it cannot be read.
        """
        ...

    async def write(self, files: Mapping[str, bytes], version: str) -> bool:
        """Replace all files if the store is still at a version.

        Returns:
            False if it is not: another process wrote first, and the store has to be read again.

        Raises:
            StoreError: it cannot be written.
        """
        ...

    async def changed(self) -> None:
        """Return when the content may differ from what was last read or written.

        Raises:
            StoreError: the store cannot be observed now.
        """
        ...
