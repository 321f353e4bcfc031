"""What was read from a cluster at one moment: its objects, with the few fields that checks look at, and all facts together.

What could not be read is `Missing`.
"""

import base64
import binascii
import datetime as dt
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from cryptography import x509

from webhook.admission.decision import Namespace
from webhook.admission.eligibility import opted_in
from webhook.cluster.client import ApiError, Object, ObjectMetadata, StatusError
from webhook.cluster.configuration.config_maps import StoredConfigMap
from webhook.cluster.configuration.policies import PolicyOutcome
from webhook.cluster.registration.wanted import MUTATING, NAME, ConfigurationKind, ServiceReference
from webhook.doctor.result import NOT_TRIED, Missing, T
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import ENDED, Pod, View
from webhook.request import ClaimTemplate

K = TypeVar("K")

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


def found_at(data: object, kind: type[K], *path: str) -> K | None:
    """What is at a path of plain data; None if nothing of this kind is there: an odd object of a cluster ends no check."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, kind) else None


def each_at(data: object, *path: str) -> list[Object]:
    """The objects of the list at a path of plain data."""
    return [each for each in found_at(data, list, *path) or () if isinstance(each, dict)]


class Item(View, frozen=True):
    """An object of any kind: the metadata that matter, and the rest as plain data."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)
    status: dict[str, Any] = {}  # noqa: RUF012


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
        return self.phase in ENDED

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


class Node(View, frozen=True):
    """A node."""

    metadata: ObjectMetadata
    status: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels or {}

    @property
    def resources(self) -> frozenset[str]:
        """Those with a capacity above zero."""
        return frozenset(
            name for name, size in (found_at(self.status, dict, "allocatable") or {}).items() if size != "0"
        )


class ReportedEvent(View, frozen=True):
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


class Workload(View, frozen=True):
    """A Deployment, or a DaemonSet with the numbers of pods that it should have and that are ready."""

    metadata: ObjectMetadata
    spec: dict[str, Any]
    status: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)

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
        volumes = each_at(self.spec, "template", "spec", "volumes")
        return tuple(path for volume in volumes if (path := found_at(volume, str, "hostPath", "path")))

    @property
    def ready(self) -> int:
        """How many nodes have a pod of it that is ready."""
        return found_at(self.status, int, "numberReady") or 0

    @property
    def desired(self) -> int:
        """How many nodes should."""
        return found_at(self.status, int, "desiredNumberScheduled") or 0

    @property
    def is_installer(self) -> bool:
        """Whether it installs our shim on nodes."""
        return INSTALLER in self.labels.items()

    @property
    def is_device_plugin(self) -> bool:
        return any(path.rstrip("/").startswith(DEVICE_PLUGINS) for path in self.host_paths)


class Device(View, frozen=True):
    """A device of a ResourceSlice."""

    allow_multiple_allocations: bool | None = None
    capacity: dict[str, Any] | None = None


class _Pool(View, frozen=True):
    name: str = ""
    generation: int = 0


class _SliceSpec(View, frozen=True):
    driver: str = ""
    pool: _Pool = _Pool()
    devices: list[Device] | None = None


class ResourceSlice(View, frozen=True):
    """A ResourceSlice: devices that a driver offers."""

    spec: _SliceSpec = _SliceSpec()


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


HTTPS: Final = 443

Handshake: TypeAlias = Literal["verified", "untrusted", "refused", "unreachable", "no TLS"]


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """The result of a TLS handshake with one address.

    Attributes:
        address: host and port.
        handshake: its result, with the CAs of the webhook configuration.
        why: the error message of the TLS library or the system; empty without an error.
        certificate: the serving certificate, trusted or not; None if there was none.
    """

    address: str
    handshake: Handshake
    why: str
    certificate: x509.Certificate | None = None


@dataclass(frozen=True, slots=True)
class Backend:
    """The numbers of ready and other endpoints of the webhook's Service."""

    ready: int
    others: int


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of creating a pod as a dry run.

    Attributes:
        namespace: of the pod.
        requested: the resources that it requests, as text.
        message: the message of the error.
        touched: it was returned with the webhook's status annotation.
    """

    namespace: str
    requested: str
    message: str = ""
    touched: bool = False


@dataclass(frozen=True, slots=True)
class TemplateDryRun:
    """The result of creating a ResourceClaimTemplate with capacities as a dry run.

    Attributes:
        vendor: the vendor that it was written for.
        sent: what was sent.
        spec: what the API server would have stored; None if it refuses.
        status: the HTTP status.
        message: the message of the error.
    """

    vendor: str
    sent: ClaimTemplate
    spec: Mapping[str, Any] | None
    status: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """What is known of a scheduler: its pods, and a Lease of its name.

    Attributes:
        placed: pods that name it and have a node.
        waiting: pods that name it, have none, and are older than a minute.
        considered: those of them that it has tried: a scheduler writes into a pod's status that it found no node.
        lease: seconds since a Lease of its name was renewed; None without one.
    """

    placed: int
    waiting: int
    considered: int = 0
    lease: float | Missing | None = None


@dataclass(frozen=True)
class ClusterFacts:
    """Everything that the checks look at.

    Attributes:
        now: when it was read, in UTC.
        release: the webhook's own namespace.
        server: the version of the API server.
        outcome: the policy of the release's ConfigMaps, and the verdicts on them.
        config_maps: all ConfigMaps of the webhook's namespace.
        configurations: all MutatingWebhookConfigurations, in no order.
        validations: all ValidatingWebhookConfigurations, likewise.
        backend: the endpoints of the webhook configuration's Service; None if it has a URL.
        handshakes: the results with its addresses.
        stored: the Secret; None if there is none.
        namespaces: every namespace, with our own annotations.
        pods: the pods of opted-in namespaces that have not ended, by namespace.
        dry_run: of a pod that should be changed.
        nodes: every node.
        schedulers: of the targets, and those that pods are waiting for, by name.
        awaited: schedulers of the policy that are named by pods without a node, whatever the target.
        deployment: the webhook's, in its own namespace; None if there is none.
        replicas: its pods, without those that are being deleted.
        daemon_sets: device plugins and installers of the shim.
        placed: the nodes of their pods, by the name of the DaemonSet.
        device_classes: all DeviceClasses; empty if the API server does not serve them.
        resource_slices: all ResourceSlices, likewise; read only for targets that write resource claims, as the next.
        template_dry_run: of a template of such a target; None if their claims have no capacity.
        reported: the webhook's Warning Events of the last hour, the newest first.
    """

    now: dt.datetime
    release: str
    server: str | Missing
    outcome: PolicyOutcome | Missing = NOT_TRIED
    config_maps: Sequence[StoredConfigMap] | Missing = NOT_TRIED
    configurations: Sequence[Object] | Missing = NOT_TRIED
    validations: Sequence[Object] | Missing = NOT_TRIED
    backend: Backend | Missing | None = NOT_TRIED
    handshakes: Sequence[HandshakeResult] | Missing = NOT_TRIED
    stored: StoredCertificates | Missing | None = NOT_TRIED
    namespaces: Sequence[Namespace] | Missing = NOT_TRIED
    pods: Mapping[str, Sequence[Pod] | Missing] = field(default_factory=dict)
    dry_run: DryRun | Missing = NOT_TRIED
    nodes: Sequence[Node] | Missing = NOT_TRIED
    schedulers: Mapping[str, Scheduler | Missing] = field(default_factory=dict)
    awaited: Sequence[str] | Missing = NOT_TRIED
    deployment: Item | Missing | None = NOT_TRIED
    replicas: Sequence[Item] | Missing = NOT_TRIED
    daemon_sets: Sequence[Workload] | Missing = NOT_TRIED
    placed: Mapping[str, frozenset[str] | Missing] = field(default_factory=dict)
    device_classes: Sequence[Item] | Missing = NOT_TRIED
    resource_slices: Sequence[ResourceSlice] | Missing = NOT_TRIED
    template_dry_run: TemplateDryRun | Missing | None = NOT_TRIED
    reported: Sequence[ReportedEvent] | Missing = NOT_TRIED
    reachable: bool = True

    @cached_property
    def policy(self) -> Policy:
        """The policy in force; that of the built-in mappings if it could not be read."""
        return load_policy() if isinstance(self.outcome, Missing) else self.outcome.policy

    @property
    def registered(self) -> Object | None:
        """This webhook's configuration; None if there is none, or it could not be read."""
        return self.configuration_of(MUTATING)

    def configuration_of(self, kind: ConfigurationKind) -> Object | None:
        """This webhook's configuration of a kind; None if there is none, or it could not be read."""
        found = self.configurations if kind is MUTATING else self.validations
        if isinstance(found, Missing):
            return None
        return next((each for each in found if each.get("metadata", {}).get("name") == NAME), None)

    @cached_property
    def opted_in(self) -> list[Namespace] | Missing:
        """The namespaces that have, except for the cluster's, the webhook's, and those that the settings exempt."""
        if isinstance(self.namespaces, Missing):
            return self.namespaces
        spared = self.policy.never_touched | {self.release}
        return [each for each in self.namespaces if opted_in(each, self.policy) and each.name not in spared]

    @property
    def nothing_installed(self) -> bool:
        """Whether the webhook has neither a webhook configuration nor anything in its own namespace.

        What could not be read counts as existing.
        """
        if isinstance(self.configurations, Missing) or self.registered is not None:
            return False
        if not isinstance(self.namespaces, Missing) and self.release not in {each.name for each in self.namespaces}:
            return True
        documents = isinstance(self.outcome, Missing) or bool(self.outcome.verdicts)
        return self.stored is None and self.deployment is None and not documents


def address_of(webhook: Object) -> ServiceReference | str | None:
    """Where an API server calls one webhook of a configuration; None if that cannot be used."""
    config = webhook.get("clientConfig") or {}
    service = config.get("service")
    if isinstance(service, dict):
        port = service.get("port") or HTTPS
        return ServiceReference(
            str(service.get("namespace")), str(service.get("name")), str(service.get("path") or "/"), port
        )
    url = config.get("url")
    return url if isinstance(url, str) else None
