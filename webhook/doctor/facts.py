"""What was read of a cluster, at one moment; what could not be read is `Missing`, with the reason."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, TypeAlias

from cryptography import x509

from webhook.admission.context import Namespace
from webhook.cluster.client.api import Object
from webhook.cluster.configuration.policies import PolicyOutcome
from webhook.cluster.registration.desired import NAME, Service
from webhook.doctor.result import Missing
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod

NOT_TRIED: Final = Missing("not tried")

Handshake: TypeAlias = Literal["verified", "untrusted", "refused", "unreachable", "no TLS"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What one address showed of itself in a TLS handshake.

    Attributes:
        address: host and port.
        handshake: how it ended, with the authorities of the registration.
        why: what was wrong, in the words of the TLS library or the system; empty where nothing was.
        certificate: the leaf, trusted or not; None where there was none.
    """

    address: str
    handshake: Handshake
    why: str = ""
    certificate: x509.Certificate | None = None


@dataclass(frozen=True, slots=True)
class Backend:
    """What is behind the Service of the registration: its endpoints, by whether they are ready."""

    ready: int
    others: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The certificates in the webhook's Secret; its keys are never decoded.

    Attributes:
        leaf: what it serves.
        authorities: what is to be trusted.
    """

    leaf: x509.Certificate | None
    authorities: tuple[x509.Certificate, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a pod that was created as a dry run.

    Attributes:
        namespace: where.
        asked: the resources that it asked for, as people write them.
        status: the HTTP status.
        message: of a refusal.
        touched: it came back with the webhook's account.
    """

    namespace: str
    asked: str
    status: int
    message: str = ""
    touched: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A node, the resources of which it has any to give, and its labels."""

    name: str
    resources: frozenset[str]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass, and the extended resource by which pods can request its devices, besides the one of its own name."""

    name: str
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class Scheduler:
    """What can be seen of a scheduler: its pods, and a Lease of its name.

    Attributes:
        placed: pods that name it and have a node.
        waiting: pods that name it, have none, and are older than a minute.
        considered: those of them that it has looked at: a scheduler writes into their status that it found no node.
        lease: seconds since a Lease of its name was renewed, None without one.
    """

    placed: int
    waiting: int
    considered: int = 0
    lease: float | Missing | None = None


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet that has to do with devices or with the shim.

    Attributes:
        name: with its namespace.
        installer: it is the one that puts our shim on nodes.
        host_paths: the folders of the node that it mounts.
        nodes: where its pods are.
        wanted, ready: how many pods it should have, and how many of them are ready.
        labels: its own.
    """

    name: str
    installer: bool
    host_paths: tuple[str, ...]
    nodes: frozenset[str] | Missing
    wanted: int
    ready: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """What an administrator chose for a variable of every container.

    Attributes:
        source: where that stands.
        env: the name of the variable.
        value: what another system's webhook writes.
    """

    source: str
    env: str
    value: str


@dataclass(frozen=True)
class Facts:
    """Everything that the checks look at.

    Attributes:
        now: when it was read, in UTC.
        release: the webhook's own namespace.
        server: the version of the API server.
        outcome: what the ConfigMaps of the release come to.
        configurations: all MutatingWebhookConfigurations, in no order.
        backend: what is behind the registration's Service; None where it goes by URL.
        shown: what its addresses show.
        stored: the Secret; None where there is none.
        namespaces: every namespace, with the annotations that are ours.
        pods: the pods of opted-in namespaces that have not ended, by namespace.
        trial: of a pod that should be changed.
        nodes: every node.
        schedulers: of the targets, and those that pods are waiting for, by name.
        awaited: schedulers of the policy that are named by pods without a node, whatever the target.
        deployed: whether a Deployment of the webhook is in its own namespace.
        daemon_sets: those that have to do with devices or the shim.
        choices: what other systems write into every container.
        device_classes: all DeviceClasses; none where the API server does not serve them.
    """

    now: dt.datetime
    release: str
    server: str | Missing
    outcome: PolicyOutcome | Missing = NOT_TRIED
    configurations: Sequence[Object] | Missing = NOT_TRIED
    backend: Backend | Missing | None = NOT_TRIED
    shown: Sequence[Shown] | Missing = NOT_TRIED
    stored: Stored | Missing | None = NOT_TRIED
    namespaces: Sequence[Namespace] | Missing = NOT_TRIED
    pods: Mapping[str, Sequence[Pod] | Missing] = field(default_factory=dict)
    trial: Trial | Missing = NOT_TRIED
    nodes: Sequence[Node] | Missing = NOT_TRIED
    schedulers: Mapping[str, Scheduler | Missing] = field(default_factory=dict)
    awaited: Sequence[str] | Missing = NOT_TRIED
    deployed: bool | Missing = NOT_TRIED
    daemon_sets: Sequence[DaemonSet] | Missing = NOT_TRIED
    choices: Sequence[Choice] | Missing = NOT_TRIED
    device_classes: Sequence[DeviceClass] | Missing = NOT_TRIED
    reachable: bool = True

    @cached_property
    def policy(self) -> Policy:
        """What is in force; the built-in mappings where that could not be read."""
        return load_policy() if isinstance(self.outcome, Missing) else self.outcome.policy

    @property
    def registered(self) -> Object | None:
        """The webhook's own registration, None where there is none or none could be read."""
        if isinstance(self.configurations, Missing):
            return None
        return next((one for one in self.configurations if one.get("metadata", {}).get("name") == NAME), None)

    @property
    def nothing_installed(self) -> bool:
        """Whether nothing of the webhook is there: neither its registration nor anything in its own namespace.

        What could not be read may be there.
        """
        if isinstance(self.configurations, Missing) or self.registered is not None:
            return False
        if not isinstance(self.namespaces, Missing) and self.release not in {one.name for one in self.namespaces}:
            return True
        documents = isinstance(self.outcome, Missing) or bool(self.outcome.verdicts)
        return self.stored is None and self.deployed is False and not documents


def address_of(webhook: Object) -> Service | str | None:
    """Where an API server calls one webhook of a configuration; None where nothing usable says so."""
    config = webhook.get("clientConfig") or {}
    service = config.get("service")
    if isinstance(service, dict):
        port = service.get("port") or 443
        return Service(str(service.get("namespace")), str(service.get("name")), str(service.get("path") or "/"), port)
    url = config.get("url")
    return url if isinstance(url, str) else None
