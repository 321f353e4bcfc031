"""Objects as tests create them on an API server."""

from collections.abc import Mapping
from typing import Any

from webhook import labels as of
from webhook.cluster.configuration.config_maps import MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME

from .client import Object

GPU = {"nvidia.com/gpu": "1"}


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
