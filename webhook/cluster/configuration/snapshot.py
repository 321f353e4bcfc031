"""The policy of a cluster at one moment, for commands that run once."""

from webhook.cluster.client.api import Api
from webhook.cluster.client.read import list_objects
from webhook.cluster.configuration.config_maps import Stored, config_map
from webhook.cluster.configuration.documents import DocumentCache
from webhook.cluster.configuration.last_good import LastGood
from webhook.cluster.configuration.policies import PolicyOutcome, policy_of
from webhook.cluster.configuration.sources import SELECTORS


async def policy_now(api: Api, namespace: str) -> PolicyOutcome:
    """Read the ConfigMaps of a namespace and the record of the last good ones, and compile the policy.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer, or none that can be decoded.
    """
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    stored = [item for selector in SELECTORS for item in await list_objects(api, path, Stored, selector)]
    record = await LastGood(api, namespace).read()
    config_maps = {item.metadata.name: config_map(item) for item in stored}
    return policy_of(config_maps.values(), record.texts, DocumentCache(record.marks))
