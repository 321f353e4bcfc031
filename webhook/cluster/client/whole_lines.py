"""Cuts a stream into lines. aiohttp's own line reader is limited to 128 KiB; an object may have megabytes."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from webhook.cluster.client.api import UnreachableError

MAX_LINE: Final = 16 * 1024 * 1024
"""Longest line: an object as large as etcd can be made to hold (8 MiB), every second character escaped."""


async def whole_lines(chunks: AsyncIterator[bytes], longest: int = MAX_LINE) -> AsyncGenerator[bytes, None]:
    """The lines of a stream in chunks of any size, without line breaks; empty lines are skipped.

    Raises:
        UnreachableError: a line is longer than `longest` bytes, or breaks off.
    """
    begun: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *more = chunk.split(b"\n")
        for part in more:
            line = b"".join((*begun, first)) if begun else first
            begun, size, first = [], 0, part
            if line:
                yield line
        if first:
            begun.append(first)
            size += len(first)
        if size > longest:
            raise UnreachableError(f"a line of more than {longest} bytes")
    if begun:
        raise UnreachableError("broke off within a line")
