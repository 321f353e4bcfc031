"""What a place that keeps certificates has to be able to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a store held when it was read. Printing it shows no file.

    Attributes:
        files: by name; None if nothing is kept.
        version: opaque; says whether something was written since.
    """

    files: Mapping[str, bytes] | None = field(repr=False)
    version: str


class Store(Protocol):
    """A place that several processes may read and write at once."""

    async def read(self) -> Snapshot:
        """What is kept now.

        Raises:
            StoreError: it cannot be read.
        """
        ...

    async def write(self, files: Mapping[str, bytes], version: str) -> bool:
        """Put files in the place of all that is kept, if that is still of a version.

        Returns:
            False if it is not: somebody else was quicker, and it has to be read again.

        Raises:
            StoreError: it cannot be written.
        """
        ...

    async def changed(self) -> None:
        """Return when something else may be kept than what was last read or written.

        Raises:
            StoreError: that cannot be told now.
        """
        ...
