"""Pods that ask for a GPU, in every spelling of every key of a policy, and pods that don't."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from webhook.labels import CLAIM
from webhook.mapping.load import build_policy, documents_in
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor

HERE = Path(__file__).parent
DOCUMENTS = HERE.parent / "mapping" / "documents"
SAMPLES = {
    "container": "main",
    "mlu": "mlu370",
    "model": "a10_24g",
    "resource": "gpu-a100",
    "profile": "1g.12gb",
    "chip": "X",
}
"""A value for each variable that cannot be listed."""

Pod = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """A pod that carries one key, and which."""

    title: str
    pod: Pod


@cache
def many_vendors() -> Policy:
    """The built-in vendors, those that need to be configured with an example of that: all ways in which names are written."""
    return build_policy(documents_in(DOCUMENTS))


def ordinary_pods() -> list[Pod]:
    """Pods that must never wait for the webhook."""
    return list(yaml.safe_load_all((HERE / "ordinary-pods.yaml").read_text()))


def requesting_pods(policy: Policy) -> Iterator[ContainerRequest]:
    """A pod for each spelling of each key, in each place where it can stand; by default names only, no sensible numbers."""
    for vendor in policy.vendors.values():
        for vendor_key in vendor.keys.values():
            for key in spellings(vendor, vendor_key):
                title = f"{vendor.name} {vendor_key.place} {key}"
                if vendor_key.place == "claim":  # it has no key, but the label
                    yield ContainerRequest(title, pod(labels={CLAIM: "true"}))
                    continue
                if vendor_key.place != "resource":
                    carried = {key: "1"}
                    yield ContainerRequest(
                        title, pod(labels=carried) if vendor_key.place == "label" else pod(annotations=carried)
                    )
                    continue
                yield ContainerRequest(f"{title} in limits", pod(limits={key: "1"}, requests={key: "1"}))
                yield ContainerRequest(f"{title} in requests", pod(requests={key: "1"}))
                yield ContainerRequest(
                    f"{title} in an init container", pod(init={"limits": {key: "1"}, "requests": {key: "1"}})
                )


def spellings(vendor: Vendor, key: Key) -> Iterator[str]:
    """Every key of a key that can be listed, and one that cannot."""
    variables = vendor.variables
    for template in key.spellings if key.twin is None else (*key.spellings, key.twin):
        yield from (name for name, _ in template.names(variables))
        if template.pattern(variables) is not None:
            rendered = template.render(SAMPLES)
            assert rendered is not None, template
            yield rendered


def pod(
    *,
    limits: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    init: dict[str, dict[str, str]] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Pod:
    """A small pod with these keys."""
    metadata = {"name": "asking", "labels": labels, "annotations": annotations}
    main = {"name": "main", "image": "app", "resources": {"limits": limits or {}, "requests": requests or {}}}
    before = {"initContainers": [{"name": "init", "image": "app", "resources": init}]} if init else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "spec": {**before, "containers": [main]},
    }


def resources_of(pod: Pod) -> list[str]:
    """All resource names of a pod."""
    containers = [*(pod["spec"].get("initContainers") or []), *(pod["spec"].get("containers") or [])]
    sides = [
        (container.get("resources") or {}).get(side) for container in containers for side in ("limits", "requests")
    ]
    return [name for side in sides for name in side or {}]


def keys_of(pod: Pod) -> list[str]:
    """All keys of labels and annotations of a pod."""
    metadata = pod.get("metadata") or {}
    return [*(metadata.get("labels") or {}), *(metadata.get("annotations") or {})]
