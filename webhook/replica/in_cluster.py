"""The cluster around a server: the objects that it follows, and the webhook configuration that it reconciles.

After the first complete read, no review depends on the cluster's availability: the last known state stays in force.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client.metrics_core import Metric
from structlog.typing import FilteringBoundLogger

from certs.report import Report as CertificateNotice
from webhook.admission.context import Namespace
from webhook.admission.eligibility import opted_in
from webhook.cluster.client.api import Api, ApiError
from webhook.cluster.client.events import Events, Subject
from webhook.cluster.configuration.live import LivePolicy
from webhook.cluster.configuration.verdict import Verdict
from webhook.cluster.namespace_rechecks import NamespaceRechecks, RecheckError
from webhook.cluster.namespaces import Namespaces, NamespaceView
from webhook.cluster.registration.config import Mode
from webhook.cluster.registration.desired import NAME, Site, desired_from
from webhook.cluster.registration.matched_names import MatchedNames, matched_names_of
from webhook.cluster.registration.peers import known_to_peers
from webhook.cluster.registration.reconciler import Reconciler
from webhook.cluster.registration.report import Report
from webhook.cluster.registration.watch import bundles_in, watch_registration
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.patch import slots
from webhook.pod import Pod
from webhook.replica.certificates import Certificates
from webhook.replica.cluster_metrics import policy_metrics, recheck_metric, registration_metrics, watch_metrics
from webhook.server.logs import Throttle
from webhook.server.mutate import Current, NotNowError

REGISTRATION: Final = Subject("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", NAME, "", "")


@dataclass(frozen=True, slots=True)
class Place:
    """The installation that a replica belongs to.

    Attributes:
        release_namespace: the webhook's own namespace, with the ConfigMaps of the policy.
        site: how API servers reach the webhook.
        registration: who maintains the webhook configuration.
        owner: the ClusterRole of the release, if there is one: it owns the webhook configuration.
    """

    release_namespace: str
    site: Site
    registration: Mode
    owner: str | None = None


class InCluster:
    """Everything in a cluster that a server depends on; `run` keeps it up to date."""

    def __init__(
        self,
        api: Api,
        place: Place,
        log: FilteringBoundLogger,
        certificates: Certificates,
        secret: SecretStore | None = None,
    ) -> None:
        builtin = load_policy()
        self.current = Current(builtin)
        self._namespaces = Namespaces(api, log, changed=self._namespaces_changed)
        self._rechecks = NamespaceRechecks(self._namespaces.request)
        self._stale_lines = Throttle(1, 60.0)
        # Selectors that another system maintains may not select by labels.
        self._managed = place.registration is Mode.MANAGED
        self._live = LivePolicy(
            api,
            place.release_namespace,
            log,
            in_force=self._in_force,
            report=self._report_verdicts,
            notice=lambda subject, reason, message: self._notices.put_nowait((subject, reason, message)),
            owner=place.owner,
            # Whoever can write the record, such as a thief of this replica's token, would else write the policy. In
            # managed mode he could change the webhook configuration anyway.
            restore=self._managed,
        )
        # A directory may have been read already.
        self._site = replace(place.site, ca_bundle=certificates.bundle or place.site.ca_bundle)
        self._reconciler = Reconciler(
            api,
            self._site,
            desired_from(builtin),
            self._report_registration,
            mode=place.registration,
            owner=place.owner,
            is_current=certificates.is_current,
            opted_in=lambda: self._namespaces.opted_in(self._reconciler.desired.opt_in),
            serving=lambda: certificates.failure() is None,
        )
        self._registrations = watch_registration(api, self._registration_changed, log)
        self._off = place.registration is Mode.OFF
        self._certificates = certificates
        self._secret = secret
        certificates.republished = self._republished
        certificates.troubled = self._troubled
        self._events = Events(api)
        self._notices: asyncio.Queue[tuple[Subject, str, str]] = asyncio.Queue()
        self._secret_subject = Subject("v1", "Secret", place.release_namespace, SECRET, "", "")
        self._verdicts: Sequence[Verdict] = ()
        self._matched_names: MatchedNames = matched_names_of(builtin)
        self._log = log

    async def run(self) -> None:
        """Follow the cluster until cancelled.

        The webhook configuration is written only after everything was read, and the CAs for callers are known.
        """
        async with asyncio.TaskGroup() as tasks:
            if self._secret is not None:
                tasks.create_task(self._secret.reflector.run())
            if self._watches_registration:
                tasks.create_task(self._registrations.run())
                tasks.create_task(self._first_reading())
            tasks.create_task(self._namespaces.reflector.run())
            tasks.create_task(self._live.run())
            tasks.create_task(self._write_events())
            await self.synced()
            await self._certificates.published.wait()
            if not self._off:
                tasks.create_task(self._reconciler.run())
                await self._certificates.served()
                self._reconciler.check()

    async def synced(self) -> None:
        """Return once every namespace and the policy of the cluster are known."""
        await self._namespaces.reflector.synced.wait()
        await self._live.ready.wait()

    def closed(self) -> str | None:
        """Why no review can be answered yet; None for good once everything was read."""
        if not self._namespaces.reflector.synced.is_set():
            return "the namespaces of the cluster are not known yet"
        return None if self._live.ready.is_set() else "the policy of the cluster is not known yet"

    def lookup(self, name: str) -> Namespace | None:
        """The stored namespace; None if it is unknown: `fetch` it."""
        found = self._namespaces.lookup(name)
        return None if found is None else _namespace(found)

    async def fetch(self, name: str) -> Namespace:
        """Request a namespace that the watch has not shown yet.

        Raises:
            NotNowError: the API server does not answer; the pod must not be admitted for that.
        """
        try:
            return _namespace(await self._namespaces.fetch(name))
        except ApiError as error:
            raise NotNowError(f"namespace {name} is not known yet") from error

    def contradicts_call(self, namespace: Namespace) -> bool:
        """Whether a call is for a namespace for which, as far as is known, API servers do not call."""
        policy = self.current.policy
        return not opted_in(namespace, policy) and namespace.name not in policy.never_touched

    async def recheck(self, namespace: Namespace) -> Namespace:
        """Request a namespace for which the watch may be behind.

        Raises:
            NotNowError: there is no answer, and calls are known to come only for opted-in namespaces.
        """
        try:
            view = await self._rechecks.recheck(
                namespace.name, lambda view: not self.contradicts_call(_namespace(view))
            )
        except RecheckError as error:
            if self._managed:
                raise NotNowError(f"namespace {namespace.name} may have opted in: {error}") from error
            return namespace
        found = _namespace(view)
        if not self.contradicts_call(found) and (suppressed := self._stale_lines.passes(namespace.name)) is not None:
            self._log.warning("namespace_stale", namespace=namespace.name, suppressed=suppressed)
        return found

    def behind(self, pod: Pod, namespace: Namespace, policy: Policy) -> bool:
        """Whether another replica knows keys of this pod that this one does not know yet."""
        registered = self._reconciler.registered
        if registered is None or registered.digest == policy.digest or not opted_in(namespace, policy):
            return False
        sides = [
            side
            for slot in slots(pod)
            if (resources := slot.container.resources) is not None
            for side in (resources.limits, resources.requests)
        ]
        names = {name for side in sides for name in side or ()}
        keys = {*(pod.metadata.labels or ()), *(pod.metadata.annotations or ())}
        return known_to_peers(names, keys, policy, self._matched_names, registered)

    def lines(self) -> list[str]:
        """What is in force and in contact, for people."""
        ages = [f"{what}: last contact {age:.0f} s ago" for what, age in self._ages() if age is not None]
        return [*self._live.lines(), *ages]

    def metrics(self) -> Iterator[Metric]:
        """What is followed, for Prometheus."""
        yield from watch_metrics(self._ages())
        yield from policy_metrics(self._verdicts, self._live.faults)
        yield recheck_metric(self._rechecks)
        if not self._off:
            yield from registration_metrics(self._reconciler)

    @property
    def _watches_registration(self) -> bool:
        return not self._off or self._certificates.watched

    def _namespaces_changed(self) -> None:
        self._reconciler.namespaces_changed()

    def _registration_changed(self) -> None:
        self._certificates.observe(bundles_in(self._registrations))
        self._reconciler.check()

    async def _first_reading(self) -> None:
        """Note the webhook configuration at first: the watch reports no change if there is none."""
        await self._registrations.synced.wait()
        self._certificates.observe(bundles_in(self._registrations))

    def _republished(self, bundle: bytes) -> None:
        self._site = replace(self._site, ca_bundle=bundle)
        self._reconciler.adopt(self._reconciler.desired, self._site)

    def _ages(self) -> Iterator[tuple[str, float | None]]:
        yield "namespaces", self._namespaces.reflector.age
        ages = [reflector.age for reflector in self._live.sources.reflectors]
        yield "configmaps", max((age for age in ages if age is not None), default=None)
        if self._watches_registration:
            yield "registration", self._registrations.age
        if self._secret is not None:
            yield "secret", self._secret.reflector.age

    def _in_force(self, policy: Policy) -> None:
        self.current.policy = policy
        self._matched_names = matched_names_of(policy)
        self._reconciler.adopt(desired_from(policy))

    def _report_verdicts(self, verdicts: Sequence[Verdict]) -> None:
        self._verdicts = tuple(verdicts)

    def _report_registration(self, notice: Report) -> None:
        log = self._log.warning if notice.warning else self._log.info
        log("registration", kind=notice.kind.value, message=notice.message)
        if notice.warning:
            reason = notice.kind.name.title().replace("_", "")
            self._notices.put_nowait((REGISTRATION, f"Registration{reason}", notice.message))

    def _troubled(self, notice: CertificateNotice) -> None:
        subject = REGISTRATION if self._secret is None else self._secret_subject
        self._notices.put_nowait((subject, f"Certificate{notice.kind.name.title()}", notice.message))

    async def _write_events(self) -> None:
        while True:
            subject, reason, message = await self._notices.get()
            try:
                await self._events.write(subject, "Warning", reason, message)
            except ApiError as error:
                self._log.warning("event_not_written", error=str(error))


def _namespace(view: NamespaceView) -> Namespace:
    return Namespace(view.name, view.labels, view.annotations)
