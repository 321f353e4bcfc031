"""The sweep: how many pods of opted-in namespaces are not as the policy would have them, for metrics.

Whichever replica comes first after `PERIOD` sweeps, usually the one that did before: the time is in a Lease, which only one of
them can write.
"""

import asyncio
import datetime as dt
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from structlog.typing import FilteringBoundLogger

from webhook.admission.decision import Namespace
from webhook.cluster.client.api import Api, ApiError, Object, apply_bare, object_pages, replace_object
from webhook.cluster.registration.match_conditions import matched_names_of
from webhook.doctor.facts import StoredPod, moment
from webhook.doctor.pods import Treatment, treatment_of
from webhook.mapping.model.policy import Policy

LEASE: Final = "vgpu-webhook-sweep"
"""The name of the Lease, in the webhook's own namespace."""

PERIOD: Final = 600.0
"""Seconds between two sweeps, whichever replicas make them."""

TURN: Final = 60.0
"""Seconds after which a replica looks again whether it is time, and that others leave to the one that swept last."""

MAX_PODS: Final = 50_000
"""The most pods that one sweep looks at; their numbers are too small then, and the log says so."""

AT_ONCE: Final = 16
"""Pods between which no review waits for long: each takes less than a millisecond."""

_RUNNING: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_API_VERSION: Final = "coordination.k8s.io/v1"


class Sweep:
    """Counts the pods, if it is this replica's turn.

    Args:
        api: lists pods, and has the Lease.
        release: the webhook's own namespace.
        opted_in: returns the namespaces to look at.
        policy: returns the policy in force.
        log: for what fails.
    """

    def __init__(
        self,
        api: Api,
        release: str,
        opted_in: Callable[[], list[Namespace]],
        policy: Callable[[], Policy],
        log: FilteringBoundLogger,
    ) -> None:
        self.counts: Counter[Treatment] | None = None
        self._api = api
        self._path = f"/apis/{_API_VERSION}/namespaces/{release}/leases/{LEASE}"
        self._name = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._opted_in = opted_in
        self._policy = policy
        self._log = log

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.turn(dt.datetime.now(dt.UTC))
            except ApiError as error:
                self.counts = None
                self._log.warning("sweep_failed", error=str(error))
            await asyncio.sleep(TURN)

    async def turn(self, now: dt.datetime) -> None:
        """Sweep, if it is time and no other replica does.

        Raises:
            ApiError: the Lease cannot be read or written, or the pods not be listed.
        """
        lease = await self._lease()
        spec = lease.get("spec") or {}
        own = spec.get("holderIdentity") == self._name
        if not own:
            self.counts = None
        swept = moment(spec.get("renewTime"))
        if swept is not None and (now - swept).total_seconds() < (PERIOD if own else PERIOD + TURN):
            return
        renewed = {"holderIdentity": self._name, "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        answer = await replace_object(self._api, self._path, {**lease, "spec": renewed})
        if answer.status != HTTPStatus.CONFLICT:
            answer.accepted()
            self.counts = await self._swept()

    async def _lease(self) -> Object:
        answer = await self._api.request("GET", self._path)
        if answer.status == HTTPStatus.NOT_FOUND:
            bare = {"apiVersion": _API_VERSION, "kind": "Lease", "metadata": {"name": LEASE}}
            answer = await apply_bare(self._api, self._path, bare)
        return answer.object()

    async def _swept(self) -> Counter[Treatment]:
        policy = self._policy()
        let_through = matched_names_of(policy)
        found: Counter[Treatment] = Counter()
        for namespace in self._opted_in():
            path = f"/api/v1/namespaces/{namespace.name}/pods"
            async with aclosing(object_pages(self._api, path, StoredPod, _RUNNING)) as pages:
                async for page in pages:
                    for number, pod in enumerate(page):
                        found[treatment_of(pod, namespace, policy, let_through)] += 1
                        if number % AT_ONCE == 0:
                            await asyncio.sleep(0)
                    if found.total() > MAX_PODS:
                        self._log.warning("sweep_incomplete", pods=found.total())
                        return found
        return found

    def metrics(self) -> Iterator[Metric]:
        """The numbers of the last sweep; none of a replica that does not sweep."""
        metric = GaugeMetricFamily(
            "vgpu_webhook_untreated_pods",
            "Pods of opted-in namespaces that are not as the policy would have them.",
            labels=("state",),
        )
        if self.counts is not None:
            for state in ("missed", "outdated"):
                metric.add_metric((state,), self.counts[state])
        yield metric
