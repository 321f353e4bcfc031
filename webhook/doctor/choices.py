"""Variables that other systems are configured to write into every container, and whether the guard denies them.

The guard lists define where such a configuration is found. If another system's webhook is called between two calls of
ours, the second call would deny the pod.
"""

import asyncio
from collections.abc import Iterable, Iterator

import msgspec
import yaml

from webhook.cluster.client.api import Api
from webhook.cluster.client.metadata import ObjectMetadata
from webhook.cluster.client.read import list_objects
from webhook.doctor.facts import Choice, Facts, Node
from webhook.doctor.result import Missing, Result, counted, error, ok, unread
from webhook.doctor.targets import targets
from webhook.mapping.document.guard_lists import ListChoice, guard_lists
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.reasons import Reason


class ConfigMapObject(msgspec.Struct):
    """A ConfigMap."""

    metadata: ObjectMetadata
    data: dict[str, str] | None = None


async def choices(api: Api, policy: Policy, nodes: Iterable[Node] | Missing) -> list[Choice]:
    """Read the configured variables of the guard lists that this cluster's mappings name.

    Raises:
        ApiError: the ConfigMaps cannot be listed.
    """
    names = {entry.named for vendor in _vendors(policy, nodes) for entry in vendor.document.guard if entry.named}
    places = [place for name in sorted(names) for place in guard_lists()[name].chosen]
    found = await asyncio.gather(*(_chosen_at(api, place) for place in places))
    return [choice for some in found for choice in some]


async def _chosen_at(api: Api, place: ListChoice) -> list[Choice]:
    maps = await list_objects(api, "/api/v1/configmaps", ConfigMapObject, {"labelSelector": place.config_maps})
    found = []
    for config_map in maps:
        value = await asyncio.to_thread(_value, (config_map.data or {}).get(place.key, ""), place.path)
        if value is not None:
            found.append(
                Choice(f"configmap {config_map.metadata.namespace}/{config_map.metadata.name}", place.env, value)
            )
    return found


def _value(text: str, path: Iterable[str]) -> str | None:
    """The text at a path of a YAML document; None if there is none, or the document is not YAML."""
    try:
        node = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, str) else None


def variables(facts: Facts) -> Result:
    """Whether the guard denies a variable that another system writes into every container."""
    if isinstance(facts.choices, Missing):
        return unread("the ConfigMaps of other systems", facts.choices, "list configmaps in all namespaces")
    clashing = [choice for choice in facts.choices if any(_denied(choice, facts))]
    if not clashing:
        return ok(
            f"the guard denies no variable that another system writes ({counted(len(facts.choices), 'setting')} found)"
        )
    values: dict[str, list[str]] = {}
    for choice in clashing:
        values.setdefault(choice.env, []).append(choice.value)
    exceptions = ", ".join(f"{env}: [{', '.join(dict.fromkeys(some))}]" for env, some in values.items())
    return error(
        f"another webhook writes variables that the guard denies ({Reason.GUARDED.code})",
        *(f"{choice.source}: {choice.env}={choice.value}" for choice in clashing),
        hint=f"to allow them, add guardExceptions: {{{exceptions}}} to the settings",
    )


def _denied(choice: Choice, facts: Facts) -> Iterator[bool]:
    excepted = facts.policy.settings.guard_exceptions.get(choice.env, ())
    for vendor in _vendors(facts.policy, facts.nodes):
        rule = vendor.guard.catch(choice.env, choice.value)
        yield rule is not None and rule.action not in {"allow", "warn"} and choice.value not in excepted


def _vendors(policy: Policy, nodes: Iterable[Node] | Missing) -> list[Vendor]:
    """The vendors of this cluster's pods, or all target vendors if none is known."""
    return targets(policy, nodes) or [vendor for vendor in policy.in_force if vendor.target]
