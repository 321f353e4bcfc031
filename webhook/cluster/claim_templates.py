"""The ResourceClaimTemplates that pods need, in memory; missing ones are created, unused ones deleted.

A pod that names a template is admitted without it, but not scheduled: a controller of Kubernetes makes its claim from the
template. So one that is not known is created before the answer, once for all reviews that wait for it. `repair` makes up for
what fails or comes too late: a pod's status says what it needs.

The name of a template is the hash of its content, which cannot be changed. So one with other content under such a name was
planted, or an API server has dropped fields: without the feature gate ``DRAConsumableCapacity`` it drops ``capacity``, and a
share would become a whole device.
"""

import asyncio
import datetime as dt
import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

import msgspec
from structlog.typing import FilteringBoundLogger

from webhook.cluster.client.api import (
    AS_MANAGER,
    Api,
    ApiError,
    ObjectMetadata,
    SharedRequests,
    StatusError,
    UnreachableError,
    UnreadableError,
    is_temporary,
    read_as,
)
from webhook.cluster.client.reflector import Reflector, WatchConfig
from webhook.labels import CLAIM
from webhook.pod import ENDED, PodClaim
from webhook.request import CLAIM_API, CLAIM_PREFIX, ClaimTemplate, template_name
from webhook.text import error_fields

GROUP: Final = f"/apis/{CLAIM_API}"
RESOURCE: Final = "resourceclaimtemplates"
PODS: Final = "/api/v1/pods"
SELECTOR: Final = {"labelSelector": CLAIM}

SECONDS: Final = 0.5
"""How long a review waits for a template; one takes 5 ms to create."""

AT_ONCE: Final = 16
"""The most requests at once."""

MAX_MAKING: Final = 4096
"""The most templates that are created or wait for it; a pod that needs one more is answered without."""

REMEMBERED: Final = 1.0
"""Seconds for which an outcome holds until the watch shows it: at most one request a second for each template."""

REPAIR: Final = 5.0
"""Seconds between two looks for pods whose template is missing, in which the replica that answered may still create it."""

MAX_REPAIRS: Final = 100
"""The most pods that one look makes up for."""

RETRY: Final = 60.0
"""Seconds until one is looked at again whose template could not be created."""

COLLECT: Final = 600.0
"""Seconds between two looks for templates that nobody uses."""

MAX_COLLECTED: Final = 500
"""The most templates that one look deletes."""

KEPT: Final = 24 * 3600.0
"""The least age of a template that is deleted."""

UNUSED: Final = 3600.0
"""Seconds for which no pod must have named it until then."""


class _TemplateObject(msgspec.Struct):
    metadata: ObjectMetadata
    spec: dict[str, Any]


class _TemplateView(NamedTuple):
    """The stored part of a template; `genuine`: its content is that of its name."""

    genuine: bool
    uid: str
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


class _PodView(NamedTuple):
    """The templates that a pod names, and those of them for which it waits."""

    named: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


_decode_template = msgspec.json.Decoder(_TemplateObject).decode
_decode_pod = msgspec.json.Decoder(ClaimingPod).decode


def _decode(body: bytes) -> tuple[ObjectMetadata, str]:
    """The metadata of a template, and the name that its content has."""
    found = _decode_template(body)
    return found.metadata, template_name(found.spec)


def _pod_view(pod: ClaimingPod) -> _PodView:
    if pod.status.phase in ENDED:
        return _PodView()
    made = {each.name for each in pod.status.resource_claim_statuses or ()}
    # Anybody may set the label of our pods.
    claims = [
        each
        for each in pod.spec.resource_claims or ()
        if (each.resource_claim_template_name or "").startswith(CLAIM_PREFIX)
    ]
    named = tuple(str(each.resource_claim_template_name) for each in claims)
    if pod.metadata.deletion_timestamp is not None:
        return _PodView(named)
    return _PodView(named, tuple(str(each.resource_claim_template_name) for each in claims if each.name not in made))


def _planted(name: str) -> str:
    return f"the ResourceClaimTemplate {name} has other content than its name says: delete it"


def _changed_by_server(name: str) -> str:
    return (
        f"the API server does not store the ResourceClaimTemplate {name} as it is: its feature gate DRAConsumableCapacity "
        "may be off (it is on by default from Kubernetes 1.36)"
    )


class RefusedError(Exception):
    """A template cannot be created, or has other content: a pod that needs it would wait for ever."""


class ClaimTemplates:
    """The templates of all namespaces.

    Args:
        api: the API server.
        log: for what fails.
        templates_in: returns the templates that a pod with annotations needs, as its status says.
        clock: monotonic seconds.
        now: seconds since 1970.

    Attributes:
        templates, pods: have to be run.
        counts: what became of requests: `created`, `existed`, `refused`, `late`, `repaired`, `deleted`.
        bugs: how many unforeseen errors there were in repairs.
    """

    def __init__(
        self,
        api: Api,
        log: FilteringBoundLogger,
        templates_in: Callable[[ObjectMetadata], Collection[ClaimTemplate]],
        *,
        config: WatchConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.bugs = 0
        self._api = api
        self._log = log
        self._templates_in = templates_in
        self._clock = clock
        self._now = now
        self._requests: SharedRequests[None] = SharedRequests(
            REMEMBERED, lambda error: isinstance(error, RefusedError), clock
        )
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting: dict[str, None] = {}
        self._not_before: dict[str, float] = {}
        self._unused: dict[str, float] = {}
        self.templates: Reflector[_TemplateObject, _TemplateView] = Reflector(
            api, f"{GROUP}/{RESOURCE}", _TemplateObject, self._view, log, query=SELECTOR, config=config, clock=clock
        )
        self.pods: Reflector[ClaimingPod, _PodView] = Reflector(
            api, PODS, ClaimingPod, _pod_view, log, changed=self._changed, query=SELECTOR, config=config, clock=clock
        )

    def known(self, namespace: str, needed: Sequence[ClaimTemplate]) -> bool:
        """Whether templates are there, as they have to be; called for every pod that needs some."""
        views = [self.templates.objects.get(f"{namespace}/{each.name}") for each in needed]
        return all([view is not None and view.genuine for view in views])

    async def provide(self, namespace: str, needed: Sequence[ClaimTemplate]) -> None:
        """See to it that templates exist before a pod that needs them is answered.

        Without an answer in `SECONDS`, the pod is answered nevertheless, and its template created later.

        Raises:
            RefusedError: the API server refuses one, or has another under its name.
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
        """The request for a template; None if it is there, or will be made later.

        Raises:
            RefusedError: as `provide`.
        """
        key = f"{namespace}/{needed.name}"
        known = self.templates.objects.get(key)
        if known is not None:
            if not known.genuine:
                raise RefusedError(_planted(needed.name))
            return None
        task = self._requests.get(key)
        if task is None and self._requests.running < MAX_MAKING:
            task = self._requests.start(key, self._make(namespace, needed))
        return task

    async def _make(self, namespace: str, needed: ClaimTemplate) -> None:
        """Count what becomes of a request, or log it: nobody may wait any longer."""
        try:
            self.counts[await self._create(namespace, needed)] += 1
        except RefusedError:
            self.counts["refused"] += 1
            raise
        except Exception as error:
            self._log.warning("template_not_created", template=f"{namespace}/{needed.name}", error=str(error))
            raise

    async def _create(self, namespace: str, needed: ClaimTemplate) -> Literal["created", "existed"]:
        """Create one, or find that it is there.

        Raises:
            RefusedError: as `provide`.
            ApiError: nothing is known of it.
        """
        path = f"{GROUP}/namespaces/{quote(namespace, safe='')}/{RESOURCE}"
        body = needed.manifest("", {CLAIM: "true"})
        async with self._free:
            answer = await self._api.request("POST", path, query=AS_MANAGER, body=msgspec.json.encode(body))
            existed = answer.status == HTTPStatus.CONFLICT
            if existed:
                answer = await self._api.request("GET", f"{path}/{needed.name}")
            try:
                found, name = read_as(path, answer.accepted(), _decode)
            except UnreadableError as error:
                raise RefusedError(_planted(needed.name)) from error
            except StatusError as error:
                if is_temporary(error) or (existed and error.status == HTTPStatus.NOT_FOUND):
                    raise
                message = f"the API server refuses the ResourceClaimTemplate {needed.name}: {error.message or error}"
                raise RefusedError(message) from error
            if name == needed.name:
                return "existed" if existed else "created"
            if existed:
                raise RefusedError(_planted(needed.name))
            await self._delete(path, needed.name, found.uid)
            raise RefusedError(_changed_by_server(needed.name))

    async def run(self) -> None:
        """Follow the cluster, make up for what is missing and delete what is unused, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.templates.run())
            tasks.create_task(self.pods.run())
            await self.templates.synced.wait()
            await self.pods.synced.wait()
            for passed in itertools.count(1):
                await asyncio.sleep(REPAIR)
                await self.repair()
                if passed % round(COLLECT / REPAIR) == 0:
                    await self.collect()

    async def repair(self) -> None:
        """Create what pods wait for, and what is not there."""
        now = self._clock()
        due = (pod for pod in tuple(self._waiting) if self._not_before.get(pod, now) <= now and any(self._missing(pod)))
        for pod in itertools.islice(due, MAX_REPAIRS):
            self._not_before[pod] = now + RETRY
            namespace, _, name = pod.partition("/")
            try:
                answer = await self._api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
                needed = self._templates_in(read_as(pod, answer.accepted(), _decode_pod).metadata)
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

    def _missing(self, pod: str) -> Iterator[str]:
        namespace = pod.partition("/")[0]
        view = self.pods.objects.get(pod, _PodView())
        return (name for name in view.waiting if f"{namespace}/{name}" not in self.templates.objects)

    async def collect(self) -> None:
        """Delete templates that have been there for `KEPT`, and that no pod has named for `UNUSED`.

        A pod that is admitted at that moment gets its template again by `repair`: each is created as it was.
        """
        now = self._clock()
        named = {f"{pod.partition('/')[0]}/{name}" for pod, view in self.pods.objects.items() for name in view.named}
        self._unused = {key: self._unused.get(key, now) for key in self.templates.objects if key not in named}
        created_before = dt.datetime.fromtimestamp(self._now() - KEPT, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        old = [
            key
            for key, since in self._unused.items()
            if now - since >= UNUSED and self.templates.objects[key].created < created_before
        ]
        for key in old[:MAX_COLLECTED]:
            namespace, _, name = key.partition("/")
            view = self.templates.objects.get(key)
            if view is not None:
                await self._delete(f"{GROUP}/namespaces/{namespace}/{RESOURCE}", name, view.uid)
                self.counts["deleted"] += 1

    async def _delete(self, path: str, name: str, uid: str) -> None:
        """Delete one, unless it is another by now."""
        body = msgspec.json.encode({"preconditions": {"uid": uid}})
        try:
            answer = await self._api.request("DELETE", f"{path}/{name}", body=body)
            answer.accepted()
        except ApiError as error:
            self._log.info("template_not_deleted", template=name, error=str(error))

    def _changed(self, pods: Collection[str]) -> None:
        for pod in pods:
            view = self.pods.objects.get(pod)
            if view is not None and view.waiting:
                self._waiting[pod] = None
            else:
                self._waiting.pop(pod, None)
                self._not_before.pop(pod, None)

    def _view(self, template: _TemplateObject) -> _TemplateView:
        metadata = template.metadata
        return _TemplateView(template_name(template.spec) == metadata.name, metadata.uid, metadata.creation_timestamp)
