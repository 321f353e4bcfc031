"""A replica in a cluster: the objects that it follows, the webhook configuration that it reconciles, and its whole run.

After the first complete read, no review depends on the cluster's availability: the last known state stays in force.
"""

import asyncio
import itertools
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from structlog.typing import FilteringBoundLogger

from certs.rotation import BUNDLE
from certs.store import Directory
from certs.upkeep import CertificateNotice
from certs.x509 import CA_LIFE, STATIC_CA_LIFE
from webhook.admission import decide
from webhook.admission.claims import claims_in_status
from webhook.admission.decision import Decision, Namespace, denied
from webhook.admission.eligibility import opted_in, owner_of
from webhook.cluster.claims import ClaimTemplates, RefusedError
from webhook.cluster.client import Api, ApiError, ConfigurationError, Object, ObjectMetadata, found_at, read_object
from webhook.cluster.connection import connect, in_cluster_namespace, release_namespace_of
from webhook.cluster.events import MAX_MESSAGE, EventQueue, OwnerEvents, Subject, WorkloadEvent
from webhook.cluster.namespaces import NamespaceRechecks, Namespaces
from webhook.cluster.policy.choose import PolicyOutcome
from webhook.cluster.policy.documents import SETTINGS_NAME, ConfigMap, StoredConfigMap, config_map, of_other_version
from webhook.cluster.policy.live import MAX_PROBLEMS, LivePolicy, PolicyFaults
from webhook.cluster.reflector import Reflector
from webhook.cluster.registration.names import MatchedNames, matched_names_of
from webhook.cluster.registration.stored import known_to_peers
from webhook.cluster.registration.wanted import (
    KINDS,
    MUTATING,
    NAME,
    VALIDATING,
    ConfigurationKind,
    RegistrationMode,
    ServiceReference,
    Site,
    Wanted,
    read_address,
    wanted_by,
)
from webhook.cluster.registration.writer import RegistrationNotice, Writer, bundles_in, watch_registration
from webhook.cluster.secret import NAME as SECRET
from webhook.cluster.secret import SecretStore
from webhook.labels import MAPPING
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import Metadata, Pod
from webhook.reasons import Finding, Reason
from webhook.replica.run import (
    LOOPBACK,
    Announce,
    Background,
    CertificateOptions,
    Certificates,
    Options,
    Service,
    StartError,
    certificates_of,
    logger,
    run_to_end,
    serve_until_stopped,
    serving_names,
    started,
)
from webhook.request import ClaimTemplate
from webhook.review import fitting
from webhook.server.logs import Throttle
from webhook.server.metrics import counter, gauge
from webhook.server.reviews import Current, Knowledge, NotNowError


def policy_metrics(outcome: PolicyOutcome | None, faults: PolicyFaults) -> Iterator[Metric]:
    """The ConfigMaps whose documents are in force, and what is wrong beside them."""
    accepted: dict[str, float] = {}
    if outcome is not None:
        found = {verdict.config_map.name: float(verdict.accepted) for verdict in outcome.verdicts}
        accepted = {SETTINGS_NAME: 0.0, **found}
    what = "1 if the document in a ConfigMap is in force, 0 if it was rejected, or if there are no settings."
    yield gauge("vgpu_webhook_config_map_accepted", what, ("config_map",), accepted.items())
    what = "0 if a bug kept the current ConfigMaps from being compiled, otherwise 1."
    yield GaugeMetricFamily("vgpu_webhook_policy_compiled", what, value=float(not faults.not_compiled))
    what = "Documents in force for which the record of last good documents has no space."
    yield GaugeMetricFamily("vgpu_webhook_last_good_left_out", what, value=faults.left_out)
    what = "Invalid documents in the record of last good documents; the previous ones stay in force."
    yield GaugeMetricFamily("vgpu_webhook_last_good_invalid", what, value=len(faults.invalid))


def registration_metrics(writers: Iterable[Writer]) -> Iterator[Metric]:
    """The repairs of the webhook configurations, and whether they are as desired."""
    named = [(each.required.kind.kind.removesuffix("WebhookConfiguration").lower(), each) for each in writers]
    what = "How often a webhook configuration was repaired after others had changed or deleted it."
    repairs = (((kind, change.name.lower()), count) for kind, each in named for change, count in each.repairs.items())
    yield counter("vgpu_webhook_configuration_repairs", what, ("kind", "change"), repairs)
    what = "1 if a webhook configuration sends everything here that the policy is for."
    desired = ((kind, float(each.as_desired)) for kind, each in named if each.as_desired is not None)
    yield gauge("vgpu_webhook_configuration_as_desired", what, ("kind",), desired)


def _subject(kind: ConfigurationKind) -> Subject:
    return Subject("admissionregistration.k8s.io/v1", kind.kind, "", NAME, "")


WEBHOOK: Final = "vgpu-webhook"
"""The name of a release's Service, and of its ClusterRole, which owns what the webhook writes."""


class ClusterOptions(Struct, frozen=True):
    """The options about the cluster, and how API servers reach the webhook; `registration` is that of a `RegistrationMode`."""

    kubeconfig: Path | None
    release_namespace: str | None
    url: str | None
    service: str | None
    registration: str
    owner_events: bool = True
    claims: bool = False


IN_FLIGHT: Final = 30.0
"""Seconds from the first call for a pod to the last: as long as an API server takes for all of its webhooks."""

MAX_REPLACED: Final = 4
"""Former policies that are kept for it."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"

_UNWRITTEN: Final = frozenset({Reason.DEFAULT_FILLED, Reason.SCHEDULER_SET, Reason.SCHEDULER_OVERRIDDEN})
"""Changes that the author of a pod did not ask for."""


def told_of_change(decision: Decision) -> str:
    """Return what an Event says of a pod that gets what its author did not write; empty if it does not."""
    containers = decision.status.get("containers", {}).values()
    pairs = sorted({f"{each['vendor']} to {each['target']}" for each in containers if "target" in each})
    found = [finding.text for finding in (*decision.warnings, *decision.notes) if finding.reason in _UNWRITTEN]
    if not found and not pairs:
        return ""
    how = f"translated from {' and '.join(pairs)}" if pairs else "changed"
    lead = f"pods of this template are {how}{': ' if found else ''}"
    return f"{lead}{'; '.join(fitting(found, MAX_MESSAGE - len(lead) - len('…'.encode()), len('; ')))}"


@dataclass(eq=False)
class InCluster:
    """Everything in a cluster that a server depends on; `run` keeps it up to date, with the policy that is in force."""

    api: Api
    release_namespace: str
    site: Site
    options: ClusterOptions
    _log: FilteringBoundLogger
    _: KW_ONLY
    certificates: Certificates
    secret: SecretStore | None = None

    def __post_init__(self) -> None:
        api, log, builtin = self.api, self._log, load_policy()
        self.current = Current(builtin)
        self._namespaces = Namespaces(api, log, changed=lambda: self._each(Writer.namespaces_changed))
        self._image_volumes = ImageVolumes(api, log)
        self._rechecks = NamespaceRechecks(self._namespaces.request)
        self._stale_lines = Throttle(1, 60.0)
        # Selectors that another system maintains may not select by labels.
        self._managed = RegistrationMode(self.options.registration) is RegistrationMode.MANAGED
        self._events = EventQueue(api, log)
        self._owner_events = OwnerEvents(api, self._events) if self.options.owner_events else None
        self._claim_templates = None
        if self.options.claims:
            self._claim_templates = ClaimTemplates(
                api, log, self._templates_of, most=lambda: self.current.policy.settings.templates_per_namespace
            )
        self._live = LivePolicy(api, self.release_namespace, log, self._events, in_force=self._in_force, owner=WEBHOOK)
        self._awaited = {
            "the namespaces of the cluster are": self._namespaces.reflector.synced,
            "the version of the API server is": self._image_volumes.known,
            "the policy of the cluster is": self._live.ready,
        }
        # A directory may have been read already.
        self.site = replace(self.site, ca_bundle=self.certificates.bundle or self.site.ca_bundle)
        self._mutating = self._writer(wanted_by(builtin, MUTATING), None)
        self._validating = self._writer(wanted_by(builtin, VALIDATING), self._mutating)
        self._writers = (self._mutating, self._validating)
        self._registrations, self._validations = (
            watch_registration(api, self._registration_changed, log, kind) for kind in KINDS
        )
        self.certificates.republished = self._republished
        self.certificates.troubled = self._tell_certificates
        self._matched_names: MatchedNames = matched_names_of(builtin)
        self._replaced: deque[tuple[float, Policy]] = deque(maxlen=MAX_REPLACED)

    def _writer(self, wanted: Wanted, follows: Writer | None) -> Writer:
        return Writer(
            self.api,
            self.site,
            wanted,
            partial(self._tell_registration, _subject(wanted.kind)),
            mode=RegistrationMode(self.options.registration),
            owner=WEBHOOK,
            is_current=self.certificates.is_current,
            opted_in=lambda: self._namespaces.opted_in(self._mutating.required.opt_in),
            serving=lambda: self.certificates.failure() is None,
            follows=follows,
        )

    def _each(self, do: Callable[[Writer], None]) -> None:
        for writer in self._writers:
            do(writer)

    async def run(self, background: Background) -> None:
        """Follow the cluster until cancelled; a part of the work that fails starts again, and the others go on.

        The webhook configuration is written only after everything was read, and the CAs for callers are known.
        """
        work = {f"watch of {name}": reflector.run for name, reflector in self._followed().items()}
        work |= {"configuration": self._live.run, "version": self._image_volumes.run, "events": self._events.run}
        if self._owner_events is not None:
            work["owner events"] = self._owner_events.run
        if self._claim_templates is not None:
            work["claim templates"] = self._claim_templates.run
        work |= {"first reading": self._first_reading, "registration": partial(self._register, background)}
        async with asyncio.TaskGroup() as tasks:
            for name, run in work.items():
                tasks.create_task(background.keep(name, run))

    async def _register(self, background: Background) -> None:
        await self.synced()
        await self.certificates.published.wait()
        async with asyncio.TaskGroup() as tasks:
            for writer in self._writers:
                tasks.create_task(background.keep(f"registration of {writer.required.kind.kind}", writer.run))
            await self.certificates.served()
            self._each(Writer.check)

    async def synced(self) -> None:
        for known in self._awaited.values():
            await known.wait()

    def closed(self) -> str | None:
        return next((f"{what} not known yet" for what, known in self._awaited.items() if not known.is_set()), None)

    def serves_image_volumes(self) -> bool:
        return self._image_volumes.served

    def lookup(self, name: str) -> Namespace | None:
        return self._namespaces.lookup(name)

    async def fetch(self, name: str) -> Namespace:
        try:
            return await self._namespaces.fetch(name)
        except ApiError as error:
            raise NotNowError(f"namespace {name} is not known yet") from error

    def contradicts_call(self, namespace: Namespace) -> bool:
        policy = self.current.policy
        return not opted_in(namespace, policy) and namespace.name not in policy.never_touched

    async def recheck(self, namespace: Namespace) -> Namespace:
        """Request a namespace for which the watch may be behind.

        A `NotNowError`: there is no answer, and calls are known to come only for opted-in namespaces.
        """
        try:
            found = await self._rechecks.recheck(namespace.name, lambda found: not self.contradicts_call(found))
        except ApiError as error:
            if self._managed:
                raise NotNowError(f"namespace {namespace.name} may have opted in: {error}") from error
            return namespace
        if not self.contradicts_call(found) and (suppressed := self._stale_lines.passes(namespace.name)) is not None:
            self._log.warning("namespace_stale", namespace=namespace.name, suppressed=suppressed)
        return found

    async def judge_config_map(self, namespace: str, data: Mapping[str, Any]) -> Decision | None:
        try:
            candidate = config_map(msgspec.convert(data, StoredConfigMap))
        except msgspec.ValidationError:
            return None
        if namespace != self.release_namespace:
            return _unread(candidate, namespace, self.release_namespace)
        if not candidate.is_mapping and candidate.name != SETTINGS_NAME:
            return None
        invalid, unused = await self._live.judge(candidate)
        # An upgrade applies what only the next version reads before that version runs.
        early = candidate.labels.get(MANAGED_BY) == "Helm" or of_other_version(candidate)
        if invalid and not early:
            text = "; ".join(map(str, invalid[:MAX_PROBLEMS]))
            return denied(Finding(Reason.INVALID_DOCUMENT, text, field=candidate.name))
        found = tuple(Finding(Reason.DOCUMENT_UNUSED, f"not in force: {each}") for each in (*invalid, *unused))
        return Decision(allowed=True, reason=Reason.DOCUMENT_UNUSED if found else Reason.ALREADY_RIGHT, warnings=found)

    def behind(self, pod: Pod, namespace: Namespace, policy: Policy) -> bool:
        known = known_to_peers(pod, policy, self._matched_names, self._mutating.registered)
        return known and opted_in(namespace, policy)

    def recent(self, namespace: Namespace, policy: Policy) -> Iterator[tuple[Namespace, Policy]]:
        since = time.monotonic() - IN_FLIGHT
        policies = [policy, *(each for at, each in self._replaced if at >= since)]
        namespaces = [namespace, *self._namespaces.replaced(namespace.name, since)]
        return itertools.product(namespaces, policies)

    def has(self, namespace: str, decision: Decision) -> bool:
        return self._claim_templates is not None and self._claim_templates.known(namespace, decision.objects)

    async def provide(self, namespace: str, decision: Decision) -> Decision:
        why = "this webhook creates no ResourceClaimTemplates: install the chart with claims.enabled"
        if self._claim_templates is not None:
            try:
                await self._claim_templates.provide(namespace, decision.objects)
            except RefusedError as error:
                why = str(error)
            else:
                return decision
        return denied(Finding(Reason.CLAIM_REFUSED, f"the pod's claim cannot be made: {why}"))

    def _templates_of(self, metadata: ObjectMetadata) -> list[ClaimTemplate]:
        own = claims_in_status(Metadata(annotations=metadata.annotations), self.current.policy)
        return [each.template for each in own.values()]

    def tell_owner(self, namespace: str, pod: Pod, decision: Decision, policy: Policy) -> None:
        owner = owner_of(pod)
        if self._owner_events is None or owner is None:
            return
        what = decision.status_json if decision.denial is None else decision.denial.text
        if not self._owner_events.is_new(owner.uid, policy.digest, what):
            return
        if decision.denial is not None:
            message = f"pods of this template are denied: {decision.denial.text}"
            self._owner_events.put(WorkloadEvent(namespace, owner, "PodsDenied", message, "Warning"))
        elif message := told_of_change(decision):
            self._owner_events.put(WorkloadEvent(namespace, owner, "PodsChanged", message, "Normal"))

    def metrics(self) -> Iterator[Metric]:
        oldest: dict[str, float] = {}
        unreadable: Counter[str] = Counter()
        for name, reflector in self._reflectors():
            unreadable[name] += reflector.unreadable
            if reflector.age is not None:
                oldest[name] = max(reflector.age, oldest.get(name, 0.0))
        what = "Since the API server was last heard of a kind."
        yield gauge("vgpu_webhook_watch_age_seconds", what, ("kind",), oldest.items())
        what = "Objects that could not be read, or not as a whole, by kind."
        yield counter("vgpu_webhook_unreadable_objects", what, ("kind",), unreadable.items())
        yield from policy_metrics(self._live.outcome, self._live.faults)
        what = "Calls for namespaces that were known as not opted in, by what the API server reported then."
        yield counter("vgpu_webhook_namespace_rechecks", what, ("result",), self._rechecks.counts.items())
        yield from registration_metrics(self._writers)
        if self._claim_templates is not None:
            what = "Templates of resource claims, by what became of a request for one."
            yield counter("vgpu_webhook_claim_templates", what, ("result",), self._claim_templates.counts.items())

    def _followed(self) -> dict[str, Reflector[Any, Any]]:
        return {
            "namespaces": self._namespaces.reflector,
            "registration": self._registrations,
            "validation": self._validations,
            **({} if self.secret is None else {"secret": self.secret.reflector}),
        }

    def _reflectors(self) -> Iterator[tuple[str, Reflector[Any, Any]]]:
        yield from self._followed().items()
        yield from (("configmaps", reflector) for reflector in self._live.reflectors)
        if self._claim_templates is not None:
            yield "resourceclaimtemplates", self._claim_templates.templates
            yield "pods", self._claim_templates.pods

    def bugs(self) -> int:
        templates = self._claim_templates
        return sum(reflector.bugs for _, reflector in self._reflectors()) + (0 if templates is None else templates.bugs)

    def _registration_changed(self) -> None:
        if self._registrations.synced.is_set():
            self._observe_bundles()
        self._each(Writer.check)

    def _observe_bundles(self) -> None:
        """Note what callers trust: the CAs in both webhook configurations, of which others may maintain only one."""
        bundles = bundles_in(self._registrations)
        self.certificates.observe(None if bundles is None else (*bundles, *(bundles_in(self._validations) or ())))

    async def _first_reading(self) -> None:
        """Note the webhook configuration at first: the watch reports no change if there is none."""
        await self._registrations.synced.wait()
        self._observe_bundles()

    def _republished(self, bundle: bytes) -> None:
        self.site = replace(self.site, ca_bundle=bundle)
        self._each(lambda writer: writer.adopt(writer.required, self.site))

    def _in_force(self, policy: Policy) -> None:
        if self._live.ready.is_set():  # before that, no pod was answered
            self._replaced.append((time.monotonic(), self.current.policy))
        self.current.policy = policy
        self._matched_names = matched_names_of(policy)
        self._each(lambda writer: writer.adopt(wanted_by(policy, writer.required.kind)))

    def _tell_registration(self, subject: Subject, notice: RegistrationNotice) -> None:
        log = self._log.warning if notice.matter.warning else self._log.info
        log("registration", kind=notice.matter.value, message=notice.message)
        if notice.matter.warning:
            reason = notice.matter.name.title().replace("_", "")
            self._events.put(subject, f"Registration{reason}", notice.message)

    def _tell_certificates(self, notice: CertificateNotice) -> None:
        subject = _subject(MUTATING)
        if self.secret is not None:
            subject = Subject("v1", "Secret", self.release_namespace, SECRET, "")
        self._events.put(subject, f"Certificate{notice.matter.name.title()}", notice.message)


def _unread(candidate: ConfigMap, namespace: str, release: str) -> Decision | None:
    """The warning about a mapping in a namespace where it is not read."""
    if not candidate.is_mapping:
        return None
    message = (
        f"configmap/{candidate.name} has the label {MAPPING}, but mappings are read only in the namespace {release}: create "
        f"it there, or remove the label in {namespace}"
    )
    finding = Finding(Reason.DOCUMENT_UNUSED, message)
    return Decision(allowed=True, reason=finding.reason, warnings=(finding,))


CA_NAME: Final = "vgpu-webhook CA"


def serve_clustered(
    options: Options, where: ClusterOptions, certificate_options: CertificateOptions, log_level: str, announce: Announce
) -> None:
    """Serve until the process is to end."""
    own = in_cluster_namespace()
    release_namespace = release_namespace_of(where.release_namespace)
    address = _address(where, own)
    site = Site(address, b"", release_namespace, certificate_options.inject_ca_from)
    log = logger(log_level)
    certificates = certificates_of(certificate_options, log, watched=True)

    life = CA_LIFE if RegistrationMode(where.registration) is RegistrationMode.MANAGED else STATIC_CA_LIFE

    async def work() -> None:
        secret, trusted = None, ""
        if certificate_options.certificate_dir is not None:
            directory = Directory(certificate_options.certificate_dir)
            certificates.follow(directory, [_called(address), *certificate_options.extra_names])
            trusted = str(directory.path / BUNDLE)
        elif certificate_options.state_dir is not None:
            directory = Directory(certificate_options.state_dir)
            names = [_called(address), *serving_names(options.listen)]
            certificates.keep(directory, certificate_options.rules(CA_NAME, names, life))
            await started(certificates)
            trusted = str(directory.path / BUNDLE)
        try:
            api = await connect(where.kubeconfig)
        except ConfigurationError as error:
            raise StartError(str(error)) from error
        try:
            if certificates.upkeep is None:
                secret = SecretStore(api, release_namespace, SECRET, log, owner=WEBHOOK)
                # The same on all replicas: with the name of a machine, each would make a certificate of its own.
                names = [_called(address), *LOOPBACK]
                certificates.keep(secret, certificate_options.rules(CA_NAME, names, life))
                trusted = f"{BUNDLE} of the {secret.place}"
            cluster = InCluster(api, release_namespace, site, where, log, certificates=certificates, secret=secret)
            known = Knowledge(cluster.current, cluster, "baseline", cluster)
            service = Service(decide, known, certificates, log, cluster=cluster)
            await serve_until_stopped(service, options, lambda addresses: announce(addresses, trusted))
        finally:
            await api.close()

    run_to_end(work())


def _address(where: ClusterOptions, own: str | None) -> ServiceReference | str:
    try:
        address = read_address(where.url, where.service)
    except ValueError as error:
        raise StartError(str(error)) from error
    if address is not None:
        return address
    if own is None:
        raise StartError(
            "outside a pod, API servers need the webhook's address: add --url, such as https://127.0.0.1:8443/mutate"
        )
    return ServiceReference(where.release_namespace or own, WEBHOOK)


def _called(address: ServiceReference | str) -> str:
    """The name by which API servers call."""
    if isinstance(address, str):
        return urlsplit(address).hostname or ""
    return f"{address.name}.{address.namespace}.svc"


WITH_IMAGE_VOLUMES: Final = (1, 35)
"""The first version that serves image volumes by default, without a gate from 1.36 on (KEP-4639,
``pkg/features/kube_features.go`` of Kubernetes). An older one may have the gate ``ImageVolume`` switched on: the setting
``imageVolumes`` says so."""

AGAIN: Final = 600.0
"""Seconds between two looks at the version: control planes are upgraded while replicas run."""

RETRY: Final = 1.0
"""Seconds until the first look is repeated."""

_NUMBER: Final = re.compile(r"\d+")


class ImageVolumes:
    """Whether one API server serves image volumes (`served`), false until it was asked (`known`)."""

    def __init__(self, api: Api, log: FilteringBoundLogger) -> None:
        self._api = api
        self._log = log
        self.served = False
        self.known = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                version = await read_object(self._api, "/version", Object)
            except ApiError as error:
                self._log.debug("version_unknown", error=str(error))
            else:
                before = self.served if self.known.is_set() else None
                self.served = serves(*(found_at(version, str, each) or "" for each in ("major", "minor")))
                self.known.set()
                if self.served is not before:
                    self._log.info("image_volumes", served=self.served)
            await asyncio.sleep(AGAIN if self.known.is_set() else RETRY)


def serves(major: str, minor: str) -> bool:
    """Return whether an API server of a version serves image volumes; distributions write minors such as ``35+``."""
    numbers = [_NUMBER.match(text) for text in (major, minor)]
    return all(numbers) and tuple(int(found[0]) for found in numbers if found) >= WITH_IMAGE_VOLUMES
