"""The objects that the checks look at, with the few fields that they read."""

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from webhook.cluster.client.api import ApiError, StatusError
from webhook.cluster.client.metadata import ObjectMetadata
from webhook.doctor.facts import Missing
from webhook.pod import Metadata, PodSpec

T = TypeVar("T")


class NamespaceObject(msgspec.Struct):
    """A Namespace."""

    metadata: ObjectMetadata


class NodeCondition(msgspec.Struct):
    """One of ``status.conditions``."""

    type: str = ""
    status: str = ""
    reason: str = ""


class PodStatus(msgspec.Struct):
    """``status`` of a pod."""

    phase: str = ""
    conditions: list[NodeCondition] | None = None

    def scheduling(self) -> str:
        """The scheduler's reason why it has no node; empty if no scheduler has tried."""
        conditions = self.conditions or ()
        return next(
            (
                condition.reason
                for condition in conditions
                if (condition.type, condition.status) == ("PodScheduled", "False")
            ),
            "",
        )


class PodObject(msgspec.Struct):
    """A pod as the engine decodes it, and its phase."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class DeploymentObject(msgspec.Struct):
    """A Deployment; only its existence matters."""

    metadata: ObjectMetadata


class _Placed(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""


class PlacedPod(msgspec.Struct):
    """A pod with its node, its age and its scheduler."""

    metadata: ObjectMetadata
    spec: _Placed
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str] | None = None


class NodeObject(msgspec.Struct):
    """A node."""

    metadata: ObjectMetadata
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _DeviceClassSpec(msgspec.Struct, rename="camel"):
    extended_resource_name: str | None = None


class DeviceClassObject(msgspec.Struct):
    """A DeviceClass of any served version: the field is the same in all of them."""

    metadata: ObjectMetadata
    spec: _DeviceClassSpec = msgspec.field(default_factory=_DeviceClassSpec)


class _Involved(msgspec.Struct):
    kind: str = ""
    name: str = ""


class EventObject(msgspec.Struct, rename="camel"):
    """An Event."""

    involved: _Involved = msgspec.field(default_factory=_Involved, name="involvedObject")
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: str | None = None


class _LeaseSpec(msgspec.Struct, rename="camel"):
    renew_time: str | None = None


class LeaseObject(msgspec.Struct):
    """A Lease."""

    metadata: ObjectMetadata
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class _HostPath(msgspec.Struct):
    path: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    host_path: _HostPath | None = None


class _TemplateSpec(msgspec.Struct):
    volumes: list[_Volume] | None = None


class _Template(msgspec.Struct):
    spec: _TemplateSpec


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None


class _DaemonSetSpec(msgspec.Struct):
    template: _Template
    selector: _Selector = msgspec.field(default_factory=_Selector)


class _DaemonSetStatus(msgspec.Struct, rename="camel"):
    desired_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSetObject(msgspec.Struct):
    """A DaemonSet."""

    metadata: ObjectMetadata
    spec: _DaemonSetSpec
    status: _DaemonSetStatus = msgspec.field(default_factory=_DaemonSetStatus)

    @property
    def host_paths(self) -> tuple[str, ...]:
        """The folders of the node that its pods mount."""
        volumes = self.spec.template.spec.volumes or ()
        return tuple(volume.host_path.path for volume in volumes if volume.host_path is not None)


class _Conditions(msgspec.Struct):
    ready: bool | None = None


class _Endpoint(msgspec.Struct):
    addresses: list[str]
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)

    @property
    def ready(self) -> bool:
        """Whether it gets traffic; by default it does (``discovery.k8s.io/v1``)."""
        return self.conditions.ready is not False


class _EndpointPort(msgspec.Struct):
    name: str | None = None
    port: int | None = None


class EndpointSlice(msgspec.Struct):
    """A slice of the endpoints of a Service."""

    endpoints: list[_Endpoint] | None = None
    ports: list[_EndpointPort] | None = None

    def number(self, name: str | None) -> int | None:
        """The target port of the Service's port of this name."""
        return next((port.port for port in self.ports or () if (port.name or "") == (name or "")), None)


class _ServicePort(msgspec.Struct):
    port: int
    name: str | None = None


class _ServiceSpec(msgspec.Struct, rename="camel"):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: list[_ServicePort] = []


class ServiceObject(msgspec.Struct):
    """A Service."""

    spec: _ServiceSpec


class _SecretData(msgspec.Struct):
    """The certificates of a Secret; keys are not decoded."""

    serving_certificate: str = msgspec.field(default="", name="tls.crt")
    cas: str = msgspec.field(default="", name="ca.crt")


class SecretObject(msgspec.Struct):
    """A Secret that stores certificates."""

    data: _SecretData = msgspec.field(default_factory=_SecretData)


async def tried(reading: Awaitable[T]) -> T | Missing:
    """The result of reading, or why it failed."""
    try:
        return await reading
    except StatusError as error:
        return Missing(error.message or str(error))
    except ApiError as error:
        return Missing(str(error))
