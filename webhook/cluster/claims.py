"""The ResourceClaimTemplates that pods need, in memory; missing ones are created, unused ones deleted.

A pod that names a template is admitted without it, but not scheduled: a controller of Kubernetes makes its claim from the
template. So one that is not known is created before the answer, once for all reviews that wait for it. `repair` makes up for
what fails or comes too late: a pod's status says what it needs.

The name of a template is the hash of its content, which cannot be changed. So one with other content under such a name was
planted, or an API server has dropped fields: without the feature gate ``DRAConsumableCapacity`` it drops ``capacity``, and a
share would become a whole device.

Anybody may have pods refused after their templates were created, label pods and templates like ours, and write statuses. So
the templates of a namespace are bounded, namespaces take turns, and what is deleted is read before.
"""

import asyncio
import datetime as dt
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

import msgspec
from structlog.typing import FilteringBoundLogger

from webhook.cluster.client import (
    AS_MANAGER,
    Api,
    ApiError,
    ObjectMetadata,
    ObjectReader,
    StatusError,
    UnreachableError,
    UnreadableError,
    is_temporary,
    pages,
    read_as,
)
from webhook.cluster.reflector import USUAL, Reflector, SharedRequests, WatchConfig
from webhook.labels import CLAIM
from webhook.mapping.settings import TEMPLATES
from webhook.pod import ENDED, PodClaim
from webhook.request import CLAIM_API, MIB, TEMPLATE_NAME, ClaimTemplate, template_name
from webhook.text import error_fields

GROUP: Final = f"/apis/{CLAIM_API}"
RESOURCE: Final = "resourceclaimtemplates"
PODS: Final = "/api/v1/pods"
SELECTOR: Final = {"labelSelector": CLAIM}

SECONDS: Final = 0.5
"""How long a review waits for a template; one takes 5 ms to create."""

AT_ONCE: Final = 16
"""The most requests at once."""

MAX_MAKING: Final = 16 * MIB
"""Bytes of the templates that are created or wait for it; a pod that needs one more is answered without."""

MAKING: Final = 4096
"""Bytes that one takes meanwhile beside its content."""

REMEMBERED: Final = 1.0
"""Seconds for which an outcome holds until the watch shows it: at most one request a second for each template.

Likewise that all templates of a namespace are named."""

REPAIR: Final = 5.0
"""Seconds between two looks for pods whose template is missing, in which the replica that answered may still create it."""

MAX_REPAIRS: Final = 100
"""The most pods that one look makes up for."""

RETRY: Final = 60.0
"""Seconds until one is looked at again whose template could not be created."""

COLLECT: Final = 600.0
"""Seconds between two looks for templates that nobody uses."""

CLEARED: Final = 64
"""The most templates that are deleted to make room for one, so that it is created before the pod is answered."""

MAX_NAMED: Final = 1024
"""The most templates of a pod that are stored: one for each container."""

KEPT: Final = 24 * 3600.0
"""The least age of a template that is deleted."""

UNUSED: Final = 3600.0
"""Seconds for which no pod must have named it until then."""


class _TemplateObject(msgspec.Struct):
    metadata: ObjectMetadata
    spec: dict[str, Any]

    @property
    def genuine(self) -> bool:
        """Whether its content is that of its name."""
        return template_name(self.spec) == self.metadata.name


class _TemplateView(NamedTuple):
    """The stored part of a template."""

    genuine: bool
    created: str


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    resource_claims: list[PodClaim] | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    resource_claim_statuses: list[PodClaim] | None = None


class ClaimingPod(msgspec.Struct, frozen=True):
    """The part of a pod that shows which templates it names, and for which of them it has no claim yet."""

    metadata: ObjectMetadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    def named(self) -> dict[str, list[str]]:
        """The templates that could be ours which it names, with its claims of each; none of a pod that has ended."""
        named: dict[str, list[str]] = {}
        for each in self.spec.resource_claims or ():
            name = each.resource_claim_template_name
            if name is not None and TEMPLATE_NAME.match(name) and self.status.phase not in ENDED:
                named.setdefault(name, []).append(each.name)
        return named


class _PodView(NamedTuple):
    """The templates that a pod names, and those of them for which it waits."""

    named: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


_decode_template = msgspec.json.Decoder(_TemplateObject).decode
_decode_pod = msgspec.json.Decoder(ClaimingPod).decode


def _pod_view(pod: ClaimingPod) -> _PodView:
    named = dict(itertools.islice(pod.named().items(), MAX_NAMED))
    if pod.metadata.deletion_timestamp is not None:
        return _PodView(tuple(named))
    made = {each.name for each in pod.status.resource_claim_statuses or ()}
    return _PodView(tuple(named), tuple(name for name, claims in named.items() if not made.issuperset(claims)))


PLANTED: Final = "the ResourceClaimTemplate {} has other content than its name says: delete it"
CHANGED_BY_SERVER: Final = (
    "the API server does not store the ResourceClaimTemplate {} as it is: its feature gate DRAConsumableCapacity "
    "may be off (it is on by default from Kubernetes 1.36)"
)
FULL: Final = (
    "pods of the namespace name {} other ResourceClaimTemplates of the webhook, as many as the setting "
    "templatesPerNamespace permits: request what other pods request, or have it raised"
)


class RefusedError(Exception):
    """A template cannot be created, or has other content: a pod that needs it would wait for ever."""


@dataclass(eq=False)
class ClaimTemplates:
    """The templates of all namespaces.

    Attributes:
        templates_in: returns the templates that a pod with annotations needs, as its status says.
        most: returns the most templates of a namespace.
        clock, now: monotonic seconds, and seconds since 1970.
        counts: what became of requests: `created`, `existed`, `refused`, `late`, `repaired`, `deleted`.
        bugs: how many unforeseen errors there were in repairs.
    """

    api: Api
    _log: FilteringBoundLogger
    templates_in: Callable[[ObjectMetadata], Collection[ClaimTemplate]]
    _: KW_ONLY
    most: Callable[[], int] = lambda: TEMPLATES
    config: WatchConfig = USUAL
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.bugs = 0
        self._requests: SharedRequests[None] = SharedRequests(REMEMBERED, _is_refusal, self.clock)
        self._clearing: SharedRequests[None] = SharedRequests(REMEMBERED, _is_refusal, self.clock)
        self._free = asyncio.Semaphore(AT_ONCE)
        self._making = 0
        self._making_in: Counter[str] = Counter()
        self._there: defaultdict[str, set[str]] = defaultdict(set)
        self._waiting: dict[str, dict[str, None]] = {}
        self._not_before: dict[str, float] = {}
        self._unused: dict[str, float] = {}
        follow = partial(Reflector, self.api, query=SELECTOR, config=self.config, clock=self.clock)
        self.templates: Reflector[_TemplateObject, _TemplateView] = follow(
            f"{GROUP}/{RESOURCE}",
            _TemplateObject,
            lambda each: _TemplateView(each.genuine, each.metadata.creation_timestamp),
            self._log,
            changed=self._templates_changed,
        )
        self.pods: Reflector[ClaimingPod, _PodView] = follow(
            PODS, ClaimingPod, _pod_view, self._log, changed=self._pods_changed
        )

    def known(self, namespace: str, needed: Sequence[ClaimTemplate]) -> bool:
        """Whether templates are there, as they have to be; called for every pod that needs some."""
        views = [self.templates.objects.get(f"{namespace}/{each.name}") for each in needed]
        return all([view is not None and view.genuine for view in views])

    async def provide(self, namespace: str, needed: Sequence[ClaimTemplate]) -> None:
        """See to it that templates exist before a pod that needs them is answered; a `RefusedError` if that is refused.

        Without an answer in `SECONDS`, the pod is answered nevertheless, and its template created later.
        """
        tasks = [task for each in needed if (task := self._task(namespace, each)) is not None]
        if not tasks:
            return
        done, late = await asyncio.wait(tasks, timeout=SECONDS)
        if late:
            self.counts["late"] += len(late)
        for task in done:
            error = task.exception()
            if isinstance(error, RefusedError):  # another one: every review would add to the traceback of the same
                raise RefusedError(str(error))

    def _task(self, namespace: str, needed: ClaimTemplate) -> asyncio.Task[None] | None:
        """The request for a template; None if it is there, or will be made later; raises as `provide`."""
        key = f"{namespace}/{needed.name}"
        known = self.templates.objects.get(key)
        if known is not None:
            if not known.genuine:
                raise RefusedError(PLANTED.format(needed.name))
            return None
        task = self._requests.get(key)
        size = MAKING + len(needed.spec_json)
        if task is None and self._making + size <= MAX_MAKING and self._making_in[namespace] < self.most():
            self._making += size
            self._making_in[namespace] += 1
            task = self._requests.start(key, self._make(namespace, needed))
            task.add_done_callback(lambda _: self._made(namespace, size))
        return task

    def _made(self, namespace: str, size: int) -> None:
        self._making -= size
        self._making_in[namespace] -= 1
        if not self._making_in[namespace]:
            del self._making_in[namespace]

    async def _make(self, namespace: str, needed: ClaimTemplate) -> None:
        """Count what becomes of a request, or log it: nobody may wait any longer."""
        try:
            await self._make_room(namespace, needed.name)
            self.counts[await self._create(namespace, needed)] += 1
        except Exception as error:
            if f"{namespace}/{needed.name}" not in self.templates.objects:
                self._gone(namespace, needed.name)
            if not isinstance(error, RefusedError):
                self._log.warning("template_not_created", template=f"{namespace}/{needed.name}", error=str(error))
                raise
            self.counts["refused"] += 1
            refused = str(error)
        else:
            return
        # As long as it holds, the traceback of the first error would hold what the API server answered.
        raise RefusedError(refused)

    async def _make_room(self, namespace: str, name: str) -> None:
        """Count one more template of a namespace, as soon as there may be one more; raises if pods name all that are there."""
        while name not in self._there[namespace] and self._is_full(namespace):
            task = self._clearing.get(namespace)
            if task is None or (task.done() and task.exception() is None):
                task = self._clearing.start(namespace, self._clear(namespace))
            await asyncio.wait([task])
            error = task.exception()
            if error is not None:  # another one: as above
                raise RefusedError(str(error)) if isinstance(error, RefusedError) else error
        self._there[namespace].add(name)

    def _is_full(self, namespace: str) -> bool:
        return len(self._there[namespace]) >= self.most()

    async def _clear(self, namespace: str) -> None:
        """Delete the oldest templates of a namespace that no pod names; a `RefusedError` if there are none."""
        unused = sorted(await self._unused_in(namespace), key=lambda found: (found.creation_timestamp, found.name))
        too_many = len(self._there[namespace]) - self.most()
        await self._delete_all(namespace, unused[: max(0, too_many) + CLEARED])
        if self._is_full(namespace):
            raise RefusedError(FULL.format(self.most()))

    async def _create(self, namespace: str, needed: ClaimTemplate) -> Literal["created", "existed"]:
        """Create one, or find that it is there; a `RefusedError` as `provide`, an `ApiError` if nothing is known of it."""
        path = _path(namespace)
        async with self._free:
            answer = await self.api.request("POST", path, query=AS_MANAGER, body=needed.manifest("", {CLAIM: "true"}))
            existed = answer.status == HTTPStatus.CONFLICT
            if existed:
                answer = await self.api.request("GET", f"{path}/{needed.name}")
            try:
                found = read_as(path, answer.accepted(), _decode_template)
                name = template_name(found.spec)
            except UnreadableError as error:
                raise RefusedError(PLANTED.format(needed.name)) from error
            except StatusError as error:
                if is_temporary(error) or (existed and error.status == HTTPStatus.NOT_FOUND):
                    raise
                message = f"the API server refuses the ResourceClaimTemplate {needed.name}: {error.message or error}"
                raise RefusedError(message) from error
            if name == needed.name:
                return "existed" if existed else "created"
            if not existed:
                await self._delete(namespace, found.metadata)
            raise RefusedError((PLANTED if existed else CHANGED_BY_SERVER).format(needed.name))

    async def run(self) -> None:
        """Follow the cluster, make up for what is missing and delete what is unused, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.templates.run())
            tasks.create_task(self.pods.run())
            await self.templates.synced.wait()
            await self.pods.synced.wait()
            tasks.create_task(_every(REPAIR, self.repair))
            tasks.create_task(_every(COLLECT, self.collect))

    async def repair(self) -> None:
        """Create what pods wait for, and what is not there; in each namespace in turn, and what was tried last comes last."""
        now = self.clock()
        for pod in itertools.islice(self._due(now), MAX_REPAIRS):
            self._not_before[pod] = now + RETRY
            namespace, _, name = pod.partition("/")
            pods = self._waiting.pop(namespace, {})
            pods.pop(pod, None)
            self._waiting[namespace] = {**pods, pod: None}
            try:
                answer = await self.api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
                needed = self.templates_in(read_as(pod, answer.accepted(), _decode_pod).metadata)
                absent = set(self._missing(pod))
                missing = [each for each in needed if each.name in absent]
                await self.provide(namespace, missing)
                self.counts["repaired"] += len(missing)
            except UnreachableError:
                return  # the watches report that
            except (StatusError, RefusedError, UnreadableError) as error:
                self._log.warning("template_not_repaired", pod=pod, error=str(error))
            except Exception as error:  # noqa: BLE001  (the other pods are repaired)
                self.bugs += 1
                self._log.error("bug", task="repair", pod=pod, **error_fields(error))

    def _due(self, now: float) -> Iterator[str]:
        """The pods that wait for what is not there: one of each namespace, then another one of each, and so on."""
        turns = [iter(tuple(pods)) for pods in self._waiting.values()]
        while turns:
            going_on = []
            for pods in turns:
                due = (pod for pod in pods if self._not_before.get(pod, now) <= now and any(self._missing(pod)))
                pod = next(due, None)
                if pod is not None:
                    going_on.append(pods)
                    yield pod
            turns = going_on

    def _missing(self, pod: str) -> Iterator[str]:
        namespace = pod.partition("/")[0]
        view = self.pods.objects.get(pod, _PodView())
        return (name for name in view.waiting if f"{namespace}/{name}" not in self.templates.objects)

    async def collect(self) -> None:
        """Delete templates that have been there for `KEPT`, and that no pod has named for `UNUSED`.

        A pod that is admitted at that moment gets its template again by `repair`: each is created as it was.
        """
        now = self.clock()
        named = {f"{pod.partition('/')[0]}/{name}" for pod, view in self.pods.objects.items() for name in view.named}
        known = self.templates.objects
        unused = {key for key, view in known.items() if view.genuine and key not in named}
        self._unused = {key: self._unused.get(key, now) for key in unused}
        old: defaultdict[str, set[str]] = defaultdict(set)
        for key, since in self._unused.items():
            if now - since >= UNUSED and self._is_old(known[key].created):
                namespace, _, name = key.partition("/")
                old[namespace].add(name)
        for namespace, names in old.items():
            try:
                found = [each for each in await self._unused_in(namespace) if each.name in names]
            except UnreachableError:
                return  # as above
            except ApiError as error:
                self._log.info("template_not_deleted", template=f"{namespace}/*", error=str(error))
            else:
                await self._delete_all(namespace, [each for each in found if self._is_old(each.creation_timestamp)])

    def _is_old(self, created: str) -> bool:
        return "" < created < dt.datetime.fromtimestamp(self.now() - KEPT, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _unused_in(self, namespace: str) -> list[ObjectMetadata]:
        """The templates of a namespace with our label, a name of ours and its content, which no pod of any label names."""
        ours = {each.name: each for each in await self._ours_in(namespace)}
        # The watch may still show them.
        known = self.templates.objects
        for name in self._there[namespace] - ours.keys():
            if f"{namespace}/{name}" in known:
                self._gone(namespace, name)
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        async for pods in pages(self.api, path, ObjectReader(path, ClaimingPod, ClaimingPod.named)):
            if pods.unread:
                return []  # whatever it names
            for name in itertools.chain.from_iterable(pods.items):
                ours.pop(name, None)
        return [each for each in ours.values() if each.deletion_timestamp is None]

    async def _ours_in(self, namespace: str) -> list[ObjectMetadata]:
        path = _path(namespace)
        reader = ObjectReader(path, _TemplateObject, lambda each: (each.metadata, each.genuine))
        found = [each async for page in pages(self.api, path, reader, SELECTOR) for each in page.items]
        return [each for each, genuine in found if genuine and (each.labels or {}).get(CLAIM) == "true"]

    async def _delete_all(self, namespace: str, found: Sequence[ObjectMetadata]) -> None:
        for first in range(0, len(found), AT_ONCE):
            await asyncio.gather(*[self._delete(namespace, each) for each in found[first : first + AT_ONCE]])

    async def _delete(self, namespace: str, found: ObjectMetadata) -> None:
        """Delete one, unless it is another by now, or was changed."""
        same = {"uid": found.uid, "resourceVersion": found.resource_version}
        try:
            answer = await self.api.request("DELETE", f"{_path(namespace)}/{found.name}", body={"preconditions": same})
            answer.accepted()
        except ApiError as error:
            if not isinstance(error, StatusError) or error.status != HTTPStatus.NOT_FOUND:
                self._log.info("template_not_deleted", template=f"{namespace}/{found.name}", error=str(error))
                return
        else:
            self.counts["deleted"] += 1
        self._gone(namespace, found.name)
        self._requests.forget(f"{namespace}/{found.name}")

    def _gone(self, namespace: str, name: str) -> None:
        there = self._there[namespace]
        there.discard(name)
        if not there:
            del self._there[namespace]

    def _templates_changed(self, keys: Collection[str]) -> None:
        for key in keys:
            namespace, _, name = key.partition("/")
            view = self.templates.objects.get(key)
            if view is not None and view.genuine:
                self._there[namespace].add(name)
            else:
                self._gone(namespace, name)

    def _pods_changed(self, keys: Collection[str]) -> None:
        for pod in keys:
            view, namespace = self.pods.objects.get(pod), pod.partition("/")[0]
            if view is not None and view.waiting:
                self._waiting.setdefault(namespace, {})[pod] = None
                continue
            self._not_before.pop(pod, None)
            pods = self._waiting.get(namespace, {})
            pods.pop(pod, None)
            if not pods:
                self._waiting.pop(namespace, None)


def _path(namespace: str) -> str:
    return f"{GROUP}/namespaces/{quote(namespace, safe='')}/{RESOURCE}"


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, RefusedError)


async def _every(seconds: float, do: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        await do()
