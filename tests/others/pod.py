"""What a stand-in needs to change a pod as its system's webhook does: a program in Go that decodes and encodes all of it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from webhook.request import QuantityError, parse_quantity

Json = dict[str, Any]
StandIn = Callable[[Json], Json]
"""Gives back another pod; the one that it is given stays as it is."""


class DeniedThereError(Exception):
    """The other system's webhook denies the pod."""


def copied(pod: Json) -> Json:
    """Another pod like it; much faster than `copy.deepcopy`."""
    made: Json = json.loads(json.dumps(pod))
    return made


def encoded(pod: Json) -> Json:
    """A copy as Go encodes a typed pod: what has no `omitempty` is there, and an empty variable has no value."""
    made = copied(pod)
    made["metadata"].setdefault("creationTimestamp", None)
    made.setdefault("status", {})
    for container in containers(made):
        container.setdefault("resources", {})
    return made


def containers(pod: Json) -> Iterator[Json]:
    """Every container: those that initialise first."""
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"].get("containers") or ()


def with_defaults(pod: Json) -> Json:
    """A copy with the API server's own defaults, which it sets again after each webhook: requests as the limits.

    `SetDefaults_Pod` in pkg/apis/core/v1/defaults.go of kubernetes/kubernetes, called by `Default` in
    staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go.

    Raises:
        DeniedThereError: limits and requests of an extended resource differ, or are no quantities: no API server stores that
    """
    made = copied(pod)
    for container in containers(made):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
            try:
                unequal = [name for name in resources["limits"] if "/" in name and _differs(resources, name)]
            except QuantityError as error:
                raise DeniedThereError(f"{error.text}: quantities must match the regular expression") from error
            if unequal:
                raise DeniedThereError(f"{unequal[0]}: must be equal to the limit")
    return made


def _differs(resources: Json, name: str) -> bool:
    limit, request = (parse_quantity(str(resources[side][name])) for side in ("limits", "requests"))
    return limit != request


def limits(container: Json) -> Json:
    """The container's limits, to be changed."""
    found: Json = container["resources"].setdefault("limits", {})
    return found


def requests(container: Json) -> Json:
    """The container's requests, to be changed."""
    found: Json = container["resources"].setdefault("requests", {})
    return found


def number(side: Json, name: str) -> int | None:
    """A whole number in limits or requests; `Quantity.Value` rounds up."""
    if name not in side:
        return None
    return -int(-parse_quantity(str(side[name])) // 1)


def text(value: int) -> str:
    """A whole number as the API server writes a quantity: 3000 is 3k."""
    for suffix in ("", "k", "M", "G", "T", "P"):
        if value % 1000 or not value:
            return f"{value}{suffix}"
        value //= 1000
    return f"{value}E"


def append_env(container: Json, name: str, value: str) -> None:
    """A variable at the end, whatever is there; encoded without a value if that is empty."""
    container.setdefault("env", []).append({"name": name, "value": value} if value else {"name": name})


def replace_env(container: Json, variable: Json) -> None:
    """A variable at the end, in place of those of its name."""
    container["env"] = [each for each in container.get("env", ()) if each["name"] != variable["name"]]
    container["env"].append(variable)


def annotations(pod: Json) -> Json:
    """The pod's annotations, to be changed."""
    found: Json = pod["metadata"].setdefault("annotations", {})
    return found
