"""A typed, frozen view of a pod: the fields that the webhook reads; decoding skips all others.

The view is never written back: patches apply to the object in the review, so fields of newer API servers survive. Parts that
are seldom needed (a thousand env entries) stay undecoded bytes until they are: `Raw` is ``b""`` if the key is absent,
``b"null"`` if it is null.
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

ABSENT: Final = msgspec.Raw(b"")
NULL: Final = msgspec.Raw(b"null")
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of extended resources that request a DeviceClass, whose name follows (``ResourceDeviceClassPrefix`` in
``k8s.io/api/resource/v1``, KEP-5004)."""
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, which shows a static pod that the kubelet already runs."""
WINDOWS: Final = "windows"
"""The name in ``spec.os`` of a pod for Windows."""
QuantityText: TypeAlias = str | int | float

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError, MemoryError)
"""The exceptions of decoding: invalid JSON or another type, invalid UTF-8, nesting deeper than the stack, no memory.

Parts of a pod are decoded when they are needed, so whatever reads one can raise them, too.
"""

MAX_TEXTS: Final = 64 * 1024
"""The most texts (keys and values) in the labels, annotations, node selector and resources of a pod that are decoded. Half a
million take longer than a whole decision may; `webhook.admission.eligibility` permits fewer than half of these."""

MAX_SOURCE: Final = 4 * 1024
"""The most bytes of a variable's ``valueFrom`` that are decoded: its names have at most 253 characters each."""


ENDED: Final = frozenset({"Succeeded", "Failed"})
"""The phases of a pod all of whose containers have ended for good."""


class View(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all views: immutable, camelCase on the wire, unknown fields skipped."""


class Claim(View, frozen=True, omit_defaults=False):
    """An entry of ``resources.claims`` of a container: the pod's claim of that name, or one request of it."""

    name: str = ""
    request: str | None = None


class Resources(View, frozen=True):
    """``resources`` of a container: quantities by resource name, as text or number, and resource claims."""

    limits: dict[str, QuantityText] | None = None
    requests: dict[str, QuantityText] | None = None
    claims: list[Claim] | None = None


class Capabilities(View, frozen=True):
    """``capabilities`` of a security context."""

    add: msgspec.Raw = ABSENT


class SecurityContext(View, frozen=True):
    """``securityContext`` of a container."""

    privileged: bool | None = None
    capabilities: Capabilities | None = None
    proc_mount: str | None = None


class Container(View, frozen=True):
    """A container or init container (a native sidecar is an init container with ``restartPolicy: Always``)."""

    name: str = ""
    resources: Resources | None = None
    env: msgspec.Raw = ABSENT
    env_from: msgspec.Raw = ABSENT
    volume_mounts: msgspec.Raw = ABSENT
    security_context: SecurityContext | None = None
    volume_devices: msgspec.Raw = ABSENT
    termination_message_path: msgspec.Raw = ABSENT
    image: msgspec.Raw = ABSENT
    command: msgspec.Raw = ABSENT
    args: msgspec.Raw = ABSENT
    restart_policy: msgspec.Raw = ABSENT

    @property
    def sides(self) -> "tuple[Mapping[str, QuantityText], Mapping[str, QuantityText]]":
        """Its limits and its requests."""
        return _NO_SIDES if self.resources is None else (self.resources.limits or {}, self.resources.requests or {})

    @property
    def claims(self) -> Sequence[Claim]:
        """Its resource claims."""
        return () if self.resources is None else self.resources.claims or ()


_NO_SIDES: Final[tuple[Mapping[str, QuantityText], Mapping[str, QuantityText]]] = ({}, {})


class PodOS(View, frozen=True):
    """``spec.os``."""

    name: str = ""


class PodClaim(View, frozen=True, omit_defaults=False):
    """An entry of ``spec.resourceClaims``: the name by which containers refer to a claim, and its source."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(View, frozen=True):
    """``spec`` of a pod."""

    containers: list[Container] = []
    init_containers: list[Container] | None = None
    ephemeral_containers: msgspec.Raw = ABSENT
    volumes: msgspec.Raw = ABSENT
    scheduler_name: str | None = None
    runtime_class_name: str | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    os: PodOS | None = None
    resource_claims: list[PodClaim] | None = None
    scheduling_gates: msgspec.Raw = ABSENT
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")
    share_process_namespace: bool | None = None


class OwnerReference(View, frozen=True):
    """The owner of the pod, such as a ReplicaSet."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(View, frozen=True):
    """``metadata`` of a pod; name and namespace may be empty during admission."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


NO_METADATA: Final = Metadata()
"""The metadata of a pod without the key: a patch has to add it before anything below it."""


class Pod(View, frozen=True):
    """A ``v1 Pod`` from the API server, or from a manifest."""

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


class VolumeDevice(View, frozen=True):
    """An entry of a container's ``volumeDevices``: a block volume, as a device at a path."""

    device_path: str = ""


class HostPath(View, frozen=True):
    """A ``hostPath`` volume source."""

    path: str = ""
    type: str | None = None


class ConfigMapReference(View, frozen=True):
    """A reference to a ConfigMap."""

    name: str = ""


class Volume(View, frozen=True):
    """An entry of a pod's ``volumes``, with the sources that the webhook reads and writes."""

    name: str = ""
    host_path: HostPath | None = None
    config_map: ConfigMapReference | None = None
    empty_dir: msgspec.Raw = ABSENT
    image: msgspec.Raw = ABSENT
    csi: msgspec.Raw = ABSENT


class EnvFrom(View, frozen=True):
    """An entry of a container's ``envFrom``."""

    config_map_ref: ConfigMapReference | None = None


class _SourceName(View, frozen=True):
    """The object, or the field, that a variable takes its value from."""

    name: str | None = None
    field_path: str | None = None


class NodeRequirement(View, frozen=True):
    """A requirement on a label of nodes."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeTerm(View, frozen=True):
    """Requirements on the labels of a node."""

    match_expressions: list[NodeRequirement] | None = None


class _Required(View, frozen=True):
    node_selector_terms: list[NodeTerm] | None = None


class _Preferred(View, frozen=True):
    preference: NodeTerm | None = None


class _NodeAffinity(View, frozen=True):
    required: _Required | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[_Preferred] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(View, frozen=True):
    node_affinity: _NodeAffinity | None = None


class Toleration(View, frozen=True):
    """An entry of a pod's ``tolerations``: the taint that it tolerates."""

    key: str | None = None
    value: str | None = None
    operator: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class SchedulingGate(View, frozen=True):
    """An entry of a pod's ``schedulingGates``."""

    name: str = ""


class _RawSides(View, frozen=True):
    limits: msgspec.Raw = ABSENT
    requests: msgspec.Raw = ABSENT


class _RawContainer(View, frozen=True):
    resources: _RawSides | None = None


class _RawSpec(View, frozen=True):
    containers: list[_RawContainer] = []
    init_containers: list[_RawContainer] | None = None
    node_selector: msgspec.Raw = ABSENT


class _RawMetadata(View, frozen=True):
    labels: msgspec.Raw = ABSENT
    annotations: msgspec.Raw = ABSENT


class RawPod(View, frozen=True):
    """The maps of a pod, undecoded: decoding them takes ten times as long."""

    metadata: _RawMetadata = _RawMetadata()
    spec: _RawSpec = _RawSpec()


def check_few_texts(pod: RawPod) -> None:
    """Check that a pod can be decoded in bounded time.

    Raises:
        msgspec.DecodeError: it has more than `MAX_TEXTS`.
    """
    metadata, spec = pod.metadata, pod.spec
    maps = [metadata.labels, metadata.annotations, spec.node_selector]
    for each in (*spec.containers, *(spec.init_containers or ())):
        if each.resources is not None:
            maps += (each.resources.limits, each.resources.requests)
    # An escaped backslash before a closing quote makes the count too low: at least half of the texts are counted.
    texts = sum([each.count(b'"') - each.count(b'\\"') for each in map(bytes, maps)]) // 2
    if texts > MAX_TEXTS:
        raise msgspec.DecodeError(f"more than {MAX_TEXTS} labels, annotations and resources")


_pod = msgspec.json.Decoder(Pod)
_raw_pod = msgspec.json.Decoder(RawPod)
_affinity = msgspec.json.Decoder(_Affinity | None)
_names = msgspec.json.Decoder(list[str] | None)
_text = msgspec.json.Decoder(str | None)
_sources = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_source_name = msgspec.json.Decoder(_SourceName)


def decode_pod(body: bytes) -> Pod:
    """Decode a pod in JSON.

    Raises:
        msgspec.DecodeError: not JSON, a field of a type that Kubernetes rejects, too, or maps with too many texts.
    """
    if len(body) > MAX_TEXTS:
        check_few_texts(_raw_pod.decode(body))
    return _pod.decode(body)


def present(raw: msgspec.Raw) -> bool:
    """Return whether a raw list exists, even if empty: a patch has to add an absent or null one as a whole."""
    return raw is not ABSENT and raw not in (NULL, ABSENT)


T = TypeVar("T")
ListDecoder: TypeAlias = msgspec.json.Decoder[list[T] | None]
"""Decodes a list of entries that stay undecoded in a pod until they are needed."""

ENV: Final[ListDecoder[EnvVar]] = msgspec.json.Decoder(list[EnvVar] | None)
ENV_FROM: Final[ListDecoder[EnvFrom]] = msgspec.json.Decoder(list[EnvFrom] | None)
MOUNTS: Final[ListDecoder[VolumeMount]] = msgspec.json.Decoder(list[VolumeMount] | None)
DEVICES: Final[ListDecoder[VolumeDevice]] = msgspec.json.Decoder(list[VolumeDevice] | None)
VOLUMES: Final[ListDecoder[Volume]] = msgspec.json.Decoder(list[Volume] | None)
TOLERATIONS: Final[ListDecoder[Toleration]] = msgspec.json.Decoder(list[Toleration] | None)
EPHEMERAL_CONTAINERS: Final[ListDecoder[Container]] = msgspec.json.Decoder(list[Container] | None)
GATES: Final[ListDecoder[SchedulingGate]] = msgspec.json.Decoder(list[SchedulingGate] | None)


def entries(raw: msgspec.Raw, decoder: ListDecoder[T]) -> list[T]:
    """Decode the list of a field; one that is absent or null is empty."""
    return [] if raw is ABSENT else decoder.decode(raw) or []


def refers(reference: ConfigMapReference | None, prefixes: tuple[str, ...]) -> bool:
    """Return whether a reference is to a ConfigMap whose name has one of these beginnings."""
    return reference is not None and reference.name.startswith(prefixes)


def value_source(entry: EnvVar) -> tuple[str, str] | None:
    """Return the kind of a variable's ``valueFrom``, and its name or path; None without exactly one valid source.

    A value beside it, several kinds, and an empty one do not count as a source: the API server rejects them, but only after
    its webhooks.
    """
    if entry.value or not present(entry.value_from) or memoryview(entry.value_from).nbytes > MAX_SOURCE:
        return None
    kinds = [(kind, source) for kind, source in (_sources.decode(entry.value_from) or {}).items() if present(source)]
    return _named_source(*kinds[0]) if len(kinds) == 1 else None


def _named_source(kind: str, source: msgspec.Raw) -> tuple[str, str] | None:
    """A source of one kind, if it has a name or path."""
    try:
        names = _source_name.decode(source)
    except msgspec.ValidationError:
        return None
    name = names.field_path if kind == "fieldRef" else names.name
    return (kind, name) if name else None


PlacedBy: TypeAlias = Literal["volumeMounts", "volumeDevices", "terminationMessagePath"]
"""The fields of a container by which the kubelet puts something at a path that a pod chooses."""


_SHOWN: Final[dict[PlacedBy, str]] = {
    "volumeMounts": "mount",
    "volumeDevices": "device",
    "terminationMessagePath": "file of the termination message",
}


class Placed(NamedTuple):
    """What the kubelet puts at a path of a container."""

    field: PlacedBy  # by which field
    position: int  # its index there, if that is a list
    written: str  # the path in the pod
    path: str  # the path, cleaned
    mount: VolumeMount | None = None  # the mount, if it is one

    @property
    def shown(self) -> str:
        """What messages call it."""
        return _SHOWN[self.field]

    @property
    def place(self) -> str:
        """Where it stands in the container."""
        return self.field if self.field == "terminationMessagePath" else f"{self.field}[{self.written}]"

    @property
    def roundabout(self) -> bool:
        """Whether the path leads through ``..`` or a folder of processes.

        Behind a symbolic link either leads elsewhere than the text says: container runtimes follow those of the image, and
        ``/proc/self/root``.
        """
        return "/../" in f"/{self.written}/" or self.path.startswith(("/proc/", "/dev/fd/"))


def placed_in(container: Container) -> list[Placed]:
    """Return what the kubelet puts at paths that a pod chooses, in the order in which each covers those before it.

    The file of the termination message comes after all mounts (``makeMounts`` in the kubelet's ``kuberuntime``).
    """
    found: list[Placed] = []
    for index, mount in enumerate(entries(container.volume_mounts, MOUNTS)):
        found.append(Placed("volumeMounts", index, mount.mount_path, clean_path(mount.mount_path), mount))
    for index, each in enumerate(entries(container.volume_devices, DEVICES)):
        found.append(Placed("volumeDevices", index, each.device_path, clean_path(each.device_path)))
    if container.termination_message_path is not ABSENT:
        path = _text.decode(container.termination_message_path)
        found += [Placed("terminationMessagePath", 0, path, clean_path(path))] if path else []
    return found


def paths_in(containers: Iterable[Container], *more: msgspec.Raw) -> bytes:
    """Return the undecoded fields by which the kubelet puts something at a path, behind one another and after others."""
    parts = list(more)
    for each in containers:
        parts += each.volume_mounts, each.volume_devices, each.termination_message_path
    return b"".join(parts)


def clean_path(path: str) -> str:
    """A path of a mount as the kubelet and the container runtime clean it; nearly all are clean, and cost nothing."""
    if "//" in path or "/." in path or path[:1] != "/" or path[-1:] == "/":
        return posixpath.normpath(f"/{path.lstrip('/')}")
    return path


def node_terms(affinity: msgspec.Raw) -> tuple[list[NodeTerm], list[NodeTerm]]:
    """Return the alternatives of required node affinity, and the preferred terms; none if it is invalid."""
    try:
        decoded = _affinity.decode(affinity) if present(affinity) else None
    except (msgspec.DecodeError, RecursionError):
        return [], []
    if decoded is None or decoded.node_affinity is None:
        return [], []
    required, preferred = decoded.node_affinity.required, decoded.node_affinity.preferred
    terms = None if required is None else required.node_selector_terms
    return terms or [], [each.preference for each in preferred or () if each.preference is not None]


def capabilities_added(security: SecurityContext) -> list[str]:
    """Return the capabilities that a security context adds; none if they are no texts: the API server rejects those."""
    added = ABSENT if security.capabilities is None else security.capabilities.add
    try:
        return [] if added is ABSENT else _names.decode(added) or []
    except msgspec.ValidationError:
        return []
