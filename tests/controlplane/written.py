"""What the webhook may write, picked out of a pod and brought to one spelling, so that two pods can be compared."""

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.request import Number, QuantityError, parse_quantity

from .client import Object

STATUS = "vgpu-webhook.io/status"
TOKEN_VOLUME = "kube-api-access-"
NODE_TAINTS = "node.kubernetes.io/"
OURS = "vgpu-"


def amounts(resources: Mapping[str, Any]) -> dict[str, Number | str]:
    """Return resources as numbers, for `3000` is stored as `3k`; as text where no honest number is there."""
    return {name: _amount(str(value)) for name, value in resources.items()}


def our_volumes(pod: Object) -> dict[str, Object]:
    """Return the volumes that carry the shim, by name."""
    return {volume["name"]: volume for volume in pod["spec"].get("volumes", []) if volume["name"].startswith(OURS)}


def written(pod: Object) -> Object:
    """Return every field that the webhook may write, without what an API server adds by itself."""
    spec = pod["spec"]
    return {
        "annotations": pod["metadata"].get("annotations", {}),
        "labels": pod["metadata"].get("labels", {}),
        "schedulerName": spec.get("schedulerName", "default-scheduler"),
        "runtimeClassName": spec.get("runtimeClassName"),
        "nodeName": spec.get("nodeName"),
        "nodeSelector": spec.get("nodeSelector", {}),
        "affinity": spec.get("affinity"),
        "tolerations": [
            toleration
            for toleration in spec.get("tolerations", [])
            if not toleration.get("key", "").startswith(NODE_TAINTS)
        ],
        "volumes": our_volumes(pod),
        "containers": _containers(spec.get("containers", [])),
        "initContainers": _containers(spec.get("initContainers", [])),
    }


def _containers(containers: Iterable[Object]) -> list[Object]:
    return [
        {
            "name": container["name"],
            "env": container.get("env", []),
            "volumeMounts": [
                mount for mount in container.get("volumeMounts", []) if not mount["name"].startswith(TOKEN_VOLUME)
            ],
            **_resources(container.get("resources", {})),
        }
        for container in containers
    ]


def _resources(resources: Object) -> Object:
    """Offline nobody copies limits to requests; an API server does."""
    limits = resources.get("limits", {})
    return {"limits": amounts(limits), "requests": amounts({**limits, **resources.get("requests", {})})}


def _amount(text: str) -> Number | str:
    try:
        return parse_quantity(text)
    except QuantityError:
        return text
