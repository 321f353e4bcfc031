"""What a cluster answers to the doctor: each thing is read when a check first needs it, and remembered for the others."""

import asyncio
import datetime as dt
import functools
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from webhook.admission.decision import Namespace
from webhook.admission.eligibility import opted_in
from webhook.cluster.client import (
    Api,
    ApiError,
    Object,
    PlainObject,
    StatusError,
    each_at,
    found_at,
    list_objects,
)
from webhook.cluster.policy.choose import PolicyOutcome, policy_now
from webhook.cluster.registration.wanted import NAME, ConfigurationKind
from webhook.doctor import UnansweredError, warning
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import ENDED, Pod

P = ParamSpec("P")
T = TypeVar("T")

INSTALLER: Final = ("app.kubernetes.io/component", "shim-installer")
"""The label of the DaemonSet that installs the shim on nodes."""

DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
"""The folder of the kubelet's socket for device plugins: a DaemonSet that mounts it is one."""

Question: TypeAlias = Callable[Concatenate["ClusterReader", P], Coroutine[Any, Any, T]]
Once: TypeAlias = Callable[Concatenate["ClusterReader", P], Awaitable[T]]


def remembered(read: Question[P, T]) -> Once[P, T]:
    """Make it one reading of a cluster for all that need it: each gets the same answer, or the same error."""

    @functools.wraps(read)
    def once(seen: "ClusterReader", /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        key = (read, args)
        if key not in seen.answers:
            seen.answers[key] = asyncio.create_task(read(seen, *args, **kwargs))
        return seen.answers[key]

    return once


def reads(what: str, needs: str) -> Callable[[Question[P, T]], Once[P, T]]:
    """Make it `remembered`, and say what could not be read, and the permission for it; both have its arguments as fields."""

    def decorated(read: Question[P, T]) -> Once[P, T]:
        @functools.wraps(read)
        async def told(seen: "ClusterReader", /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await read(seen, *args, **kwargs)
            except ApiError as error:
                raise unread(what.format(*args), told_by(error), needs.format(*args, release=seen.release)) from error

        return remembered(told)

    return decorated


def unread(what: str, why: str, needs: str) -> UnansweredError:
    """The error of a check that lacks something."""
    return UnansweredError(warning(f"{what} could not be read", why, hint=f"needed for this check: {needs}"))


def told_by(error: ApiError) -> str:
    """The API server's own words, if there are any."""
    return (isinstance(error, StatusError) and error.message) or str(error)


async def tried(reading: Awaitable[T]) -> T | UnansweredError:
    """What was read, or the error, for a check that can do without."""
    try:
        return await reading
    except UnansweredError as error:
        return error


async def read_or(otherwise: T, reading: Awaitable[T]) -> T:
    """What was read; something else if it could not be."""
    found = await tried(reading)
    return otherwise if isinstance(found, UnansweredError) else found


def moment(text: str | None) -> dt.datetime | None:
    """A time of an API object; None if there is none, or it has no time zone."""
    try:
        found = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


class Item(PlainObject, frozen=True):
    """An object, and what checks ask of it."""

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def place(self) -> str:
        return f"{self.metadata.namespace}/{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}

    @property
    def resources(self) -> frozenset[str]:
        """Of a node those with a capacity above zero."""
        sizes = found_at(self.status, dict, "allocatable") or {}
        return frozenset(name for name, size in sizes.items() if size != "0")

    @property
    def host_paths(self) -> tuple[str, ...]:
        """Of a DaemonSet the folders of the node that its pods mount."""
        volumes = each_at(self.spec, "template", "spec", "volumes")
        return tuple(path for volume in volumes if (path := found_at(volume, str, "hostPath", "path")))

    def condition(self, kind: str) -> Object:
        """Its condition of a kind; empty without one."""
        return next((each for each in each_at(self.status, "conditions") if each.get("type") == kind), {})

    @property
    def is_installer(self) -> bool:
        return INSTALLER in self.labels.items()

    @property
    def is_device_plugin(self) -> bool:
        return any(path.rstrip("/").startswith(DEVICE_PLUGINS) for path in self.host_paths)


class StoredPod(Pod, frozen=True):
    """A pod as the engine decodes it, and its status."""

    status: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)


class ClusterReader:
    """A cluster that is examined, for the policy in force there unless another one is assumed."""

    def __init__(self, api: Api, release: str, now: dt.datetime, assumed: Policy | None = None) -> None:
        self.api = api
        self.release = release
        self.now = now
        self.assumed = assumed
        self.answers: dict[Hashable, asyncio.Task[Any]] = {}

    @reads("the ConfigMaps", "get and list configmaps in {release}")
    async def outcome(self) -> PolicyOutcome:
        return await policy_now(self.api, self.release)

    @remembered
    async def policy(self) -> Policy:
        """The policy that the cluster is examined for; that of the built-in mappings if it could not be read."""
        if self.assumed is not None:
            return self.assumed
        found = await tried(self.outcome())
        return load_policy() if isinstance(found, UnansweredError) else found.policy

    @reads("the {0.noun}s", "list {0.plural}.admissionregistration.k8s.io")
    async def configurations(self, kind: ConfigurationKind) -> list[Object]:
        return await list_objects(self.api, kind.collection, Object)

    async def configuration(self, kind: ConfigurationKind) -> Object | None:
        """This webhook's configuration of a kind; None if there is none."""
        found = await self.configurations(kind)
        return next((each for each in found if found_at(each, str, "metadata", "name") == NAME), None)

    @reads("the namespaces", "list namespaces")
    async def namespaces(self) -> list[Namespace]:
        """Every namespace, with our own annotations."""
        found = [item.metadata for item in await list_objects(self.api, "/api/v1/namespaces", Item)]
        return [Namespace(each.name, each.labels or {}, each.annotations or {}) for each in found]

    @remembered
    async def chosen_namespaces(self) -> list[Namespace]:
        """The namespaces that have opted in, except for the cluster's, the webhook's, and those that the settings exempt."""
        found, in_force = await self.namespaces(), await self.policy()
        spared = in_force.never_touched | {self.release}
        return [each for each in found if opted_in(each, in_force) and each.name not in spared]

    async def _pods_of(self, namespace: str) -> list[StoredPod] | str:
        try:
            found = await list_objects(self.api, f"/api/v1/namespaces/{namespace}/pods", StoredPod)
        except ApiError as error:
            return f"{namespace}: {told_by(error)}"
        return [pod for pod in found if pod.status.get("phase") not in ENDED]

    @remembered
    async def pods(self) -> tuple[list[tuple[Namespace, Pod]], list[str]]:
        """The pods of the chosen namespaces that have not ended, and of which namespaces they could not be read, with why."""
        spaces = await read_or([], self.chosen_namespaces())
        found = await asyncio.gather(*(self._pods_of(space.name) for space in spaces))
        read = [(space, pods) for space, pods in zip(spaces, found, strict=True) if not isinstance(pods, str)]
        return [(space, pod) for space, pods in read for pod in pods], [each for each in found if isinstance(each, str)]

    @reads("the nodes", "list nodes")
    async def nodes(self) -> list[Item]:
        return await list_objects(self.api, "/api/v1/nodes", Item)

    @reads("the DaemonSets", "list daemonsets.apps")
    async def daemon_sets(self) -> list[Item]:
        """Device plugins and installers of the shim."""
        found = await list_objects(self.api, "/apis/apps/v1/daemonsets", Item)
        return [each for each in found if each.is_installer or each.is_device_plugin]
