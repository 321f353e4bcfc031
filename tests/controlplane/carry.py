"""Connections carried from one side to another, byte by byte."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def carry(near: Streams, connect: Callable[[], Awaitable[Streams]]) -> None:
    """Carry one connection both ways until both have ended; a half that ends is ended on the other side, too."""
    reader, writer = near
    try:
        there_reader, there_writer = await connect()
    except OSError:
        writer.transport.abort()
        return
    try:
        await asyncio.gather(_one_way(reader, there_writer), _one_way(there_reader, writer))
    except (OSError, asyncio.CancelledError) as error:
        for each in (writer, there_writer):
            each.transport.abort()
        if isinstance(error, asyncio.CancelledError):
            raise
    finally:
        for each in (writer, there_writer):
            each.close()


async def _one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
