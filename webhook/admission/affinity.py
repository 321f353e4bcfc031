"""A pod's node affinity, with the node added that it must run on."""

from typing import Any

import msgspec


def pin_to_node(affinity: msgspec.Raw, node: str) -> dict[str, Any]:
    """Return the affinity with the requirement that the node is called `node`.

    The terms of a node selector are alternatives, so the requirement is added to each of them; an empty term selects no
    node and is kept. It is written as the DaemonSet controller writes it, a form that schedulers handle fast.

    Raises:
        msgspec.ValidationError: it is not an affinity.
    """
    try:
        pinned = _members(msgspec.json.decode(affinity) if bytes(affinity) else None)
    except RecursionError as error:
        raise msgspec.ValidationError("the affinity is nested too deeply") from error
    node_affinity = _members(pinned.get("nodeAffinity"))
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    required = _members(node_affinity.get(key))
    requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = _objects(required.get("nodeSelectorTerms"))
    required["nodeSelectorTerms"] = [_with(requirement, term) for term in terms] or [{"matchFields": [requirement]}]
    return {**pinned, "nodeAffinity": {**node_affinity, key: required}}


def _with(requirement: dict[str, Any], term: dict[str, Any]) -> dict[str, Any]:
    fields = _objects(term.get("matchFields"))
    if requirement in fields or not (fields or term.get("matchExpressions")):
        return term
    return {**term, "matchFields": [*fields, requirement]}


def _objects(value: object) -> list[dict[str, Any]]:
    """The members of a JSON array of objects; none if it is absent or null."""
    return [] if value is None else msgspec.convert(value, list[dict[str, Any]])


def _members(value: object) -> dict[str, Any]:
    """The members of a JSON object; none if it is absent or null."""
    return {} if value is None else msgspec.convert(value, dict[str, Any])
