"""A typed, frozen view of a pod: exactly the fields that are read here; everything else is skipped while decoding.

The pod is never written back from this view: patches are made against the object that was sent, so fields that a newer API
server knows survive. Parts that seldom matter (a thousand env entries) stay undecoded bytes until something in them does:
`Raw` is ``b""`` where the key is absent, ``b"null"`` where it is null.
"""

from typing import Any, Final, TypeAlias

import msgspec

ABSENT: Final = msgspec.Raw(b"")
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""How an extended resource is called by which any DeviceClass can be requested, before the name of the class
(``ResourceDeviceClassPrefix`` in ``k8s.io/api/resource/v1``, KEP-5004)."""
QuantityText: TypeAlias = str | int | float


class View(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all views: immutable, camelCase on the wire, unknown fields skipped."""


class Claim(View, frozen=True):
    """An entry of ``resources.claims`` of a container: the pod's claim of that name, or one request of it."""

    name: str = ""
    request: str | None = None


class Resources(View, frozen=True):
    """``resources`` of a container: quantities by resource name, as text or number, and resource claims."""

    limits: dict[str, QuantityText] | None = None
    requests: dict[str, QuantityText] | None = None
    claims: list[Claim] | None = None


class SecurityContext(View, frozen=True):
    """``securityContext`` of a container."""

    privileged: bool | None = None


class Container(View, frozen=True):
    """A container or init container (a native sidecar is an init container with ``restartPolicy: Always``)."""

    name: str = ""
    resources: Resources | None = None
    env: msgspec.Raw = ABSENT
    env_from: msgspec.Raw = ABSENT
    volume_mounts: msgspec.Raw = ABSENT
    security_context: SecurityContext | None = None


class PodOS(View, frozen=True):
    """``spec.os``."""

    name: str = ""


class PodClaim(View, frozen=True):
    """An entry of ``spec.resourceClaims``: the name by which containers refer to a claim, and where that comes from."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(View, frozen=True):
    """``spec`` of a pod."""

    containers: list[Container] = []
    init_containers: list[Container] | None = None
    volumes: msgspec.Raw = ABSENT
    scheduler_name: str | None = None
    runtime_class_name: str | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    os: PodOS | None = None
    resource_claims: list[PodClaim] | None = None


class OwnerReference(View, frozen=True):
    """Who made the pod."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Metadata(View, frozen=True):
    """``metadata`` of a pod; name and namespace may be empty while it is admitted."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


NO_METADATA: Final = Metadata()
"""What a pod without the key holds: a patch has to add it before anything below it."""


class Pod(View, frozen=True):
    """A ``v1 Pod`` as the API server sends it, or as a user wrote it."""

    metadata: Metadata = NO_METADATA
    spec: PodSpec = PodSpec()


class EnvVar(View, frozen=True):
    """An entry of a container's ``env``."""

    name: str = ""
    value: str | None = None
    value_from: msgspec.Raw = ABSENT


class VolumeMount(View, frozen=True):
    """An entry of a container's ``volumeMounts``."""

    name: str = ""
    mount_path: str = ""
    sub_path: str | None = None
    sub_path_expr: str | None = None
    read_only: bool | None = None


class HostPath(View, frozen=True):
    """A ``hostPath`` volume source."""

    path: str = ""
    type: str | None = None


class Volume(View, frozen=True):
    """An entry of a pod's ``volumes``, as far as it can be ours."""

    name: str = ""
    host_path: HostPath | None = None
    empty_dir: msgspec.Raw = ABSENT


class _ConfigMap(View, frozen=True):
    """A reference to a ConfigMap."""

    name: str = ""


class _EnvFrom(View, frozen=True):
    """An entry of a container's ``envFrom``."""

    config_map_ref: _ConfigMap | None = None


class _ConfigMapVolume(View, frozen=True):
    """An entry of a pod's ``volumes``, as far as it is a ConfigMap."""

    config_map: _ConfigMap | None = None


_pod = msgspec.json.Decoder(Pod)
_env_from = msgspec.json.Decoder(list[_EnvFrom] | None)
_config_maps = msgspec.json.Decoder(list[_ConfigMapVolume] | None)
_env = msgspec.json.Decoder(list[EnvVar] | None)
_mounts = msgspec.json.Decoder(list[VolumeMount] | None)
_volumes = msgspec.json.Decoder(list[Volume] | None)
_source = msgspec.json.Decoder(dict[str, Any] | None)


def decode_pod(body: bytes) -> Pod:
    """The view of a pod in JSON.

    Raises:
        msgspec.DecodeError: no JSON, or a field of a type that Kubernetes would not take either.
    """
    return _pod.decode(body)


def present(raw: msgspec.Raw) -> bool:
    """Whether a raw list is there, even empty: an absent or null one has to be added whole by a patch."""
    return memoryview(raw).nbytes > len(b"null") or bytes(raw) not in {b"", b"null"}


def decode_env(raw: msgspec.Raw) -> list[EnvVar]:
    """The env entries kept undecoded in a `Container`."""
    return (_env.decode(raw) or []) if present(raw) else []


def value_source(entry: EnvVar) -> tuple[str, str] | None:
    """The kind of a variable's ``valueFrom``, and the name or path in it; None if there is not exactly that.

    A value beside it, two kinds at once and an empty one are taken for no source that could be named: the API server
    refuses them, but only after its webhooks.
    """
    if entry.value or not present(entry.value_from):
        return None
    kinds = {kind: source for kind, source in (_source.decode(entry.value_from) or {}).items() if source is not None}
    if len(kinds) != 1:
        return None
    ((kind, source),) = kinds.items()
    name = source.get("fieldPath" if kind == "fieldRef" else "name") if isinstance(source, dict) else None
    return (kind, name) if isinstance(name, str) and name else None


def decode_mounts(raw: msgspec.Raw) -> list[VolumeMount]:
    """The volume mounts kept undecoded in a `Container`."""
    return (_mounts.decode(raw) or []) if present(raw) else []


def decode_volumes(raw: msgspec.Raw) -> list[Volume]:
    """The volumes kept undecoded in a `PodSpec`."""
    return (_volumes.decode(raw) or []) if present(raw) else []


def config_maps_from(raw: msgspec.Raw) -> list[tuple[int, str]]:
    """The ConfigMaps in the ``envFrom`` of a `Container`, each with its place in the list."""
    entries = (_env_from.decode(raw) or []) if present(raw) else []
    return [(i, one.config_map_ref.name) for i, one in enumerate(entries) if one.config_map_ref is not None]


def config_maps_mounted(raw: msgspec.Raw) -> list[tuple[int, str]]:
    """The ConfigMaps in the volumes of a `PodSpec`, each with its place in the list."""
    entries = (_config_maps.decode(raw) or []) if present(raw) else []
    return [(i, one.config_map.name) for i, one in enumerate(entries) if one.config_map is not None]
