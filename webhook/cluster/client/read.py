"""Reads objects once: one by its path, or every object of a list, page by page."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from webhook.cluster.client.api import Api, UnreachableError

PAGE: Final = 500
"""Objects in one answer to a list, as kubectl requests them."""

LIST_SECONDS: Final = 30.0
"""The time limit of one page: the API server ends a request after 60 s, and a page takes it some milliseconds."""


class ListMetadata(Protocol):
    """The metadata of a list."""

    @property
    def more(self) -> str:
        """``continue``: the token of the next page; empty on the last page."""
        ...


class Page(Protocol):
    """One answer to a list."""

    @property
    def metadata(self) -> ListMetadata: ...


class _ListMetadata(msgspec.Struct):
    more: str = msgspec.field(default="", name="continue")


class _RawPage(msgspec.Struct):
    items: list[msgspec.Raw] = []
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


T = TypeVar("T")
P = TypeVar("P", bound=Page)


async def pages(
    api: Api, path: str, decode: Callable[[bytes], P], query: Mapping[str, str] | None = None, size: int = PAGE
) -> AsyncGenerator[P, None]:
    """Yield every page of a list.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer.
    """
    parameters = {**(query or {}), "limit": str(size)}
    while True:
        answer = await api.request("GET", path, query=parameters, seconds=LIST_SECONDS)
        page = decode(answer.accepted())
        yield page
        if not page.metadata.more:
            return
        parameters["continue"] = page.metadata.more


async def read_object(api: Api, path: str, kind: type[T]) -> T:
    """Read one object.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer, or none that can be decoded.
    """
    answer = await api.request("GET", path, seconds=LIST_SECONDS)
    return _decoded(path, answer.accepted(), msgspec.json.Decoder(kind))


async def list_objects(api: Api, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> list[T]:
    """Read every object of a list.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer, or none that can be decoded.
    """
    # Not in the threads below: msgspec 0.22 crashes if two threads use a type for the first time at the same moment.
    decoder, page_decoder = msgspec.json.Decoder(kind), msgspec.json.Decoder(_RawPage)
    objects: list[T] = []
    async for page in pages(api, path, lambda body: _decoded(path, body, page_decoder), query):
        objects += await asyncio.to_thread(lambda items: [_decoded(path, item, decoder) for item in items], page.items)
    return objects


def _decoded(path: str, body: Any, decoder: "msgspec.json.Decoder[T]") -> T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"{path}: {error}") from error
