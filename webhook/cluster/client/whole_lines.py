"""Splits a stream into lines. aiohttp's own line reader is limited to 128 KiB; an object may have megabytes."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from webhook.cluster.client.api import UnreachableError

MAX_LINE: Final = 16 * 1024 * 1024
"""The most bytes of a line: the largest object that etcd can be configured for (8 MiB), with every second character
escaped."""


async def whole_lines(chunks: AsyncIterator[bytes], longest: int = MAX_LINE) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a stream in chunks of any size, without line breaks; empty lines are skipped.

    Raises:
        UnreachableError: a line is longer than `longest` bytes, or cut off.
    """
    partial: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *more = chunk.split(b"\n")
        for part in more:
            line = b"".join((*partial, first)) if partial else first
            partial, size, first = [], 0, part
            if line:
                yield line
        if first:
            partial.append(first)
            size += len(first)
        if size > longest:
            raise UnreachableError(f"a line of more than {longest} bytes")
    if partial:
        raise UnreachableError("the connection ended within a line")
