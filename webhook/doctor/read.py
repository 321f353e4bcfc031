"""The objects that the checks look at, with the few fields that they read."""

import base64
import binascii
import datetime as dt
from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

import msgspec
from cryptography import x509

from webhook.cluster.client.api import ApiError, StatusError
from webhook.cluster.client.metadata import ObjectMetadata
from webhook.doctor.result import Missing
from webhook.pod import Pod, View, VolumeMount

T = TypeVar("T")

INSTALLER: Final = ("app.kubernetes.io/component", "shim-installer")
"""The label of the DaemonSet that installs the shim on nodes."""

DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
"""The folder of the kubelet's socket for device plugins: a DaemonSet that mounts it is one."""


async def tried(reading: Awaitable[T]) -> T | Missing:
    """The result of reading, or why it failed."""
    try:
        return await reading
    except StatusError as error:
        return Missing(error.message or str(error))
    except ApiError as error:
        return Missing(str(error))


def moment(text: str | None) -> dt.datetime | None:
    """A time of an API object; None if there is none, or it has no time zone."""
    try:
        found = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


class Item(View, frozen=True):
    """An object of which only the metadata matters: a Namespace, a Deployment."""

    metadata: ObjectMetadata


class _Condition(View, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class PodStatus(View, frozen=True):
    """``status`` of a pod."""

    phase: str = ""
    conditions: list[_Condition] | None = None

    @property
    def ended(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def scheduling(self) -> str:
        """The scheduler's reason why it has no node; empty if no scheduler has tried."""
        conditions = self.conditions or ()
        return next((each.reason for each in conditions if (each.type, each.status) == ("PodScheduled", "False")), "")


class StoredPod(Pod, frozen=True):
    """A pod as the engine decodes it, and its status."""

    status: PodStatus = PodStatus()


class _Placed(View, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""


class PlacedPod(View, frozen=True):
    """A pod with its node, its age and its scheduler."""

    metadata: ObjectMetadata
    spec: _Placed
    status: PodStatus = PodStatus()


class _NodeStatus(View, frozen=True):
    allocatable: dict[str, str] | None = None


class Node(View, frozen=True):
    """A node."""

    metadata: ObjectMetadata
    status: _NodeStatus = _NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels or {}

    @property
    def resources(self) -> frozenset[str]:
        """Those with a capacity above zero."""
        return frozenset(name for name, size in (self.status.allocatable or {}).items() if size != "0")


class _DeviceClassSpec(View, frozen=True):
    extended_resource_name: str | None = None


class DeviceClass(View, frozen=True):
    """A DeviceClass of any served version: the field is the same in all of them."""

    metadata: ObjectMetadata
    spec: _DeviceClassSpec = _DeviceClassSpec()

    @property
    def resource(self) -> str | None:
        """The extended resource by which pods can request its devices, besides the implicit one."""
        return self.spec.extended_resource_name


class Reported(View, frozen=True):
    """A Warning Event of the webhook; its reason is a CamelCase word, its message for people."""

    involved_object: dict[str, str] = {}  # noqa: RUF012  (msgspec copies it)
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: str | None = None

    @property
    def subject(self) -> str:
        """The kind and name of its object."""
        return f"{self.involved_object.get('kind', '').lower()}/{self.involved_object.get('name', '')}"

    @property
    def last(self) -> dt.datetime | None:
        """When it occurred last; None if that cannot be read."""
        return moment(self.last_timestamp)


class _LeaseSpec(View, frozen=True):
    renew_time: str | None = None


class Lease(View, frozen=True):
    """A Lease."""

    metadata: ObjectMetadata
    spec: _LeaseSpec = _LeaseSpec()


class _SecretName(View, frozen=True):
    secret_name: str = ""


class IssuedCertificate(View, frozen=True):
    """A Certificate of cert-manager."""

    metadata: ObjectMetadata
    spec: _SecretName


class _HostPath(View, frozen=True):
    path: str = ""


class _Volume(View, frozen=True):
    name: str = ""
    host_path: _HostPath | None = None
    secret: _SecretName | None = None


class WorkloadContainer(View, frozen=True):
    """A container with its command line and its mounts."""

    command: list[str] | None = None
    args: list[str] | None = None
    volume_mounts: list[VolumeMount] | None = None


class WorkloadPod(View, frozen=True):
    """``spec`` of a pod template."""

    containers: tuple[WorkloadContainer, ...] = ()
    volumes: list[_Volume] | None = None


class _Template(View, frozen=True):
    spec: WorkloadPod


class _Selector(View, frozen=True):
    match_labels: dict[str, str] | None = None


class _WorkloadSpec(View, frozen=True):
    template: _Template
    selector: _Selector = _Selector()


class _WorkloadStatus(View, frozen=True):
    desired_number_scheduled: int = 0
    number_ready: int = 0


class Workload(View, frozen=True):
    """A Deployment, or a DaemonSet with the numbers of pods that it should have and that are ready."""

    metadata: ObjectMetadata
    spec: _WorkloadSpec
    status: _WorkloadStatus = _WorkloadStatus()

    @property
    def name(self) -> str:
        """With its namespace."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels or {}

    @property
    def host_paths(self) -> tuple[str, ...]:
        """The folders of the node that its pods mount."""
        volumes = self.spec.template.spec.volumes or ()
        return tuple(volume.host_path.path for volume in volumes if volume.host_path is not None)

    @property
    def is_installer(self) -> bool:
        """Whether it installs our shim on nodes."""
        return INSTALLER in self.labels.items()

    @property
    def is_device_plugin(self) -> bool:
        return any(path.rstrip("/").startswith(DEVICE_PLUGINS) for path in self.host_paths)


class _Conditions(View, frozen=True):
    ready: bool | None = None


class _Endpoint(View, frozen=True):
    addresses: list[str]
    conditions: _Conditions = _Conditions()

    @property
    def ready(self) -> bool:
        """Whether it gets traffic; by default it does (``discovery.k8s.io/v1``)."""
        return self.conditions.ready is not False


class _EndpointPort(View, frozen=True):
    name: str | None = None
    port: int | None = None


class EndpointSlice(View, frozen=True):
    """A slice of the endpoints of a Service."""

    endpoints: list[_Endpoint] | None = None
    ports: list[_EndpointPort] | None = None

    def number(self, name: str | None) -> int | None:
        """The target port of the Service's port of this name."""
        return next((port.port for port in self.ports or () if (port.name or "") == (name or "")), None)


class _ServicePort(View, frozen=True):
    port: int
    name: str | None = None


class _ServiceSpec(View, frozen=True):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[_ServicePort, ...] = ()


class ServiceObject(View, frozen=True):
    """A Service."""

    spec: _ServiceSpec


class _SecretData(View, frozen=True):
    serving_certificate: str = msgspec.field(default="", name="tls.crt")
    cas: str = msgspec.field(default="", name="ca.crt")


class StoredCertificates(View, frozen=True):
    """The certificates in the webhook's Secret; its keys are never decoded."""

    data: _SecretData = _SecretData()

    @property
    def serving_certificate(self) -> x509.Certificate | None:
        return next(iter(_certificates(self.data.serving_certificate)), None)

    @property
    def cas(self) -> tuple[x509.Certificate, ...]:
        return _certificates(self.data.cas)


def _certificates(encoded: str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM text in base64; none if it is something else."""
    try:
        return tuple(x509.load_pem_x509_certificates(base64.b64decode(encoded)))
    except (binascii.Error, ValueError, x509.InvalidVersion):
        return ()
