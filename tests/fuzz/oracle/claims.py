"""What a container claims of Dynamic Resource Allocation, by the API reference of Pod v1 and KEP-5004.

A claim is an entry of ``resources.claims``, or some of an extended resource ``deviceclass.resource.kubernetes.io/<class>``.
"""

from typing import Any

from tests.fuzz.oracle.quantity import number_in

Json = dict[str, Any]

PREFIX = "deviceclass.resource.kubernetes.io/"


def claims(container: Json) -> bool:
    """Whether a container claims anything."""
    return bool((container.get("resources") or {}).get("claims")) or names_a_class(container)


def names_a_class(container: Json, prefix: str = PREFIX) -> bool:
    """Whether a container claims devices of a class that its own resource name contains."""
    resources = container.get("resources") or {}
    sides = [resources.get(side) or {} for side in ("limits", "requests")]
    return any(name.startswith(prefix) and number_in(number) != 0 for side in sides for name, number in side.items())


def names_a_gpu_class(container: Json) -> bool:
    """Whether one of these classes is of GPUs, as a mapping says."""
    return names_a_class(container, f"{PREFIX}gpu.nvidia.com")


def claims_in(pod: Json) -> bool:
    """Whether a pod has claims, used by its containers or not."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    return bool(spec.get("resourceClaims")) or any(map(claims, containers))
