"""What was read from a cluster at one moment; what could not be read is `Missing`."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, TypeAlias

from cryptography import x509

from webhook.admission.decision import Namespace
from webhook.admission.eligibility import opted_in
from webhook.cluster.client.api import Object
from webhook.cluster.configuration.policies import PolicyOutcome
from webhook.cluster.registration.desired import MUTATING, NAME, ConfigurationKind, ServiceReference
from webhook.doctor.read import DeviceClass, Node, Reported, StoredCertificates, Workload
from webhook.doctor.result import NOT_TRIED, Missing
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod

HTTPS: Final = 443

Handshake: TypeAlias = Literal["verified", "untrusted", "refused", "unreachable", "no TLS"]


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of a TLS handshake with one address.

    Attributes:
        address: host and port.
        handshake: its result, with the CAs of the webhook configuration.
        why: the error message of the TLS library or the system; empty without an error.
        certificate: the serving certificate, trusted or not; None if there was none.
    """

    address: str
    handshake: Handshake
    why: str = ""
    certificate: x509.Certificate | None = None


@dataclass(frozen=True, slots=True)
class Backend:
    """The numbers of ready and other endpoints of the webhook's Service."""

    ready: int
    others: int


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of creating a pod as a dry run.

    Attributes:
        namespace: of the pod.
        requested: the resources that it requests, as text.
        status: the HTTP status.
        message: the message of the error.
        touched: it was returned with the webhook's status annotation.
    """

    namespace: str
    requested: str
    status: int
    message: str = ""
    touched: bool = False


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


@dataclass(frozen=True, slots=True)
class ForeignVariable:
    """A variable that another system writes into every container, and the object that configures it."""

    source: str
    env: str
    value: str


@dataclass(frozen=True)
class ClusterFacts:
    """Everything that the checks look at.

    Attributes:
        now: when it was read, in UTC.
        release: the webhook's own namespace.
        server: the version of the API server.
        outcome: the policy of the release's ConfigMaps, and the verdicts on them.
        configurations: all MutatingWebhookConfigurations, in no order.
        validations: all ValidatingWebhookConfigurations, likewise.
        backend: the endpoints of the webhook configuration's Service; None if it has a URL.
        shown: the handshakes with its addresses.
        stored: the Secret; None if there is none.
        namespaces: every namespace, with our own annotations.
        pods: the pods of opted-in namespaces that have not ended, by namespace.
        trial: of a pod that should be changed.
        nodes: every node.
        schedulers: of the targets, and those that pods are waiting for, by name.
        awaited: schedulers of the policy that are named by pods without a node, whatever the target.
        deployed: whether the webhook's own namespace has its Deployment.
        daemon_sets: device plugins and installers of the shim.
        placed: the nodes of their pods, by the name of the DaemonSet.
        choices: variables that other systems write into every container.
        device_classes: all DeviceClasses; empty if the API server does not serve them.
        reported: the webhook's Warning Events of the last hour, the newest first.
    """

    now: dt.datetime
    release: str
    server: str | Missing
    outcome: PolicyOutcome | Missing = NOT_TRIED
    configurations: Sequence[Object] | Missing = NOT_TRIED
    validations: Sequence[Object] | Missing = NOT_TRIED
    backend: Backend | Missing | None = NOT_TRIED
    shown: Sequence[Shown] | Missing = NOT_TRIED
    stored: StoredCertificates | Missing | None = NOT_TRIED
    namespaces: Sequence[Namespace] | Missing = NOT_TRIED
    pods: Mapping[str, Sequence[Pod] | Missing] = field(default_factory=dict)
    trial: Trial | Missing = NOT_TRIED
    nodes: Sequence[Node] | Missing = NOT_TRIED
    schedulers: Mapping[str, Scheduler | Missing] = field(default_factory=dict)
    awaited: Sequence[str] | Missing = NOT_TRIED
    deployed: bool | Missing = NOT_TRIED
    daemon_sets: Sequence[Workload] | Missing = NOT_TRIED
    placed: Mapping[str, frozenset[str] | Missing] = field(default_factory=dict)
    choices: Sequence[ForeignVariable] | Missing = NOT_TRIED
    device_classes: Sequence[DeviceClass] | Missing = NOT_TRIED
    reported: Sequence[Reported] | Missing = NOT_TRIED
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
        return self.stored is None and self.deployed is False and not documents


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
