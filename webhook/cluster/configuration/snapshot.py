"""The policy of a cluster at one moment, for commands that run once."""

from dataclasses import replace

from webhook.cluster.client.api import Api
from webhook.cluster.client.read import list_objects
from webhook.cluster.configuration.config_maps import Stored, config_map
from webhook.cluster.configuration.documents import DocumentCache
from webhook.cluster.configuration.last_good import LastGood
from webhook.cluster.configuration.policies import PolicyOutcome, policy_of
from webhook.cluster.configuration.sources import SELECTORS


async def policy_now(api: Api, namespace: str) -> PolicyOutcome:
    """Read the ConfigMaps of a namespace and the record of the last good ones, and compile the policy.

    ConfigMaps that vanished without a deletion count as present, as in the replicas.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer, or none that can be decoded.
    """
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    stored = [item for selector in SELECTORS for item in await list_objects(api, path, Stored, selector)]
    record = await LastGood(api, namespace).read()
    config_maps = {item.metadata.name: config_map(item) for item in stored}
    lost = [config_map for config_map in record.lost_config_maps() if config_map.name not in config_maps]
    outcome = policy_of([*config_maps.values(), *lost], record.texts, DocumentCache(record.marks))
    return replace(outcome, lost=tuple(sorted(config_map.name for config_map in lost)))
