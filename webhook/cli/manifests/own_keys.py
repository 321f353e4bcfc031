"""Labels and annotations of the webhook that have no effect where they are in manifests."""

from collections.abc import Iterator
from typing import Any

from webhook.admission.own_keys import unread_keys
from webhook.cli.manifests.manifest import Manifest, ManifestError
from webhook.cli.manifests.simulate import namespaces_in
from webhook.cli.manifests.workloads import KubeObject, kube_object, list_items, pod_places
from webhook.finding import Finding
from webhook.mapping.model.policy import Policy


def own_key_warnings(manifests: list[Manifest], policy: Policy) -> Iterator[str]:
    """Warn of the webhook's labels and annotations without effect on namespaces, pods and pod templates.

    Args:
        manifests: of any kind.
        policy: as for `unread_keys`.
    """
    for manifest in manifests:
        try:
            obj = kube_object(manifest, manifest.data)
            for item in list_items(obj) or [obj]:
                yield from (f"{manifest.source}: {item.title}: {finding.message}" for finding in _of(item, policy))
        except ManifestError:
            continue  # not an object: only documents are checked for errors


def _of(item: KubeObject, policy: Policy) -> Iterator[Finding]:
    for namespace in namespaces_in(item):
        yield from unread_keys("namespace", namespace.labels, namespace.annotations, policy)
    for place in pod_places(item, ()):
        template: Any = item.data
        for part in place.path:
            template = template.get(part) if isinstance(template, dict) else None
        metadata = template.get("metadata") if isinstance(template, dict) else None
        yield from unread_keys("pod", _texts(metadata, "labels"), _texts(metadata, "annotations"), policy)


def _texts(metadata: object, key: str) -> dict[str, str]:
    values = metadata.get(key) if isinstance(metadata, dict) else None
    return {str(name): str(value) for name, value in values.items()} if isinstance(values, dict) else {}
