"""Objects as tests create them on an API server."""

from collections.abc import Mapping
from typing import Any

from webhook import labels as of
from webhook.cluster.policy.documents import MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME

from .client import Object

GPU = {"nvidia.com/gpu": "1"}
ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"


def namespace(name: str, labels: Mapping[str, str] | None = None, **metadata: Any) -> Object:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}, **metadata}}


def pod(name: str, limits: Mapping[str, str] = GPU, **spec: Any) -> Object:
    """A pod with one container, which has these limits."""
    container = {"name": "main", "image": "registry.example/main:1", "resources": {"limits": dict(limits)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def config_map(name: str, data: Mapping[str, str], labels: Mapping[str, str] | None = None) -> Object:
    """A ConfigMap."""
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def settings(text: str) -> Object:
    """The ConfigMap with the settings."""
    return config_map(SETTINGS_NAME, {SETTINGS_KEY: text})


def mapping(name: str, text: str, labels: Mapping[str, str] | None = None) -> Object:
    """A ConfigMap with a mapping."""
    return config_map(name, {MAPPING_KEY: text}, {of.MAPPING: "true", **(labels or {})})


def mutating(name: str, webhook: str, client: Object, **fields: Any) -> Object:
    """A configuration with one webhook, which is called for new pods by these means, and fails closed."""
    called: Object = {
        "name": webhook,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "sideEffects": "None",
        **fields,
    }
    kind = "MutatingWebhookConfiguration"
    return {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "webhooks": [called]}


def role(name: str, *rules: Object, kind: str = "ClusterRole") -> Object:
    """A role of a cluster, or of a namespace."""
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules)}


def bound(given: Object, subject: Object) -> Object:
    """The binding of a role to somebody, under the name of the role."""
    kind, name = given["kind"], given["metadata"]["name"]
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    binding = {"apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", "metadata": {"name": name}}
    return {**binding, "roleRef": reference, "subjects": [subject]}
