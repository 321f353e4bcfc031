"""The policy of a cluster as it is at one moment, for whoever looks in from outside."""

from collections.abc import Mapping
from typing import Final

import msgspec

from webhook.cluster.client.api import Api, UnreachableError
from webhook.cluster.configuration.config_maps import ConfigMap, Stored, config_map
from webhook.cluster.configuration.documents import DocumentCache
from webhook.cluster.configuration.last_good import LastGood
from webhook.cluster.configuration.policies import PolicyOutcome, policy_of
from webhook.cluster.configuration.sources import SELECTORS

PAGE: Final = "500"
"""Objects in one answer to a list, as kubectl asks for them."""


class _Metadata(msgspec.Struct):
    more: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Metadata
    items: list[Stored]


_decode = msgspec.json.Decoder(_Page).decode


async def policy_now(api: Api, namespace: str) -> PolicyOutcome:
    """What the ConfigMaps of a namespace come to, and what is kept of earlier ones.

    Raises:
        StatusError: the server says no.
        UnreachableError: it says nothing, or nothing that can be read.
    """
    found = [one for selector in SELECTORS for one in await _listed(api, namespace, selector)]
    record = await LastGood(api, namespace).read()
    return policy_of({one.name: one for one in found}.values(), record.texts, DocumentCache(record.marks))


async def _listed(api: Api, namespace: str, selector: Mapping[str, str]) -> list[ConfigMap]:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    query = {**selector, "limit": PAGE}
    found: list[ConfigMap] = []
    while True:
        body = (await api.request("GET", path, query=query)).accepted()
        try:
            page = _decode(body)
        except msgspec.DecodeError as error:
            raise UnreachableError(f"{path}: {error}") from error
        found += map(config_map, page.items)
        if not page.metadata.more:
            return found
        query["continue"] = page.metadata.more
