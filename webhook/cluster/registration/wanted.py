"""What is wanted: the webhook configurations as a pure function of policy and site.

The mutating one contains two webhooks, which differ in the effect of an outage. In a namespace that enforces, a pod that needs
the webhook is not created without it (``Fail``); in a namespace that only audits or warns, it is (``Ignore``).

The validating one contains a webhook for each subject of the setting `validation`. Both are made, compared and updated by the
same functions: everything that differs is data of their `ConfigurationKind`.
"""

import base64
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from webhook.cluster.client import Object, each_at, found_at
from webhook.cluster.registration.names import (
    DOCUMENT_CONDITIONS,
    POD_CONDITIONS,
    WORKLOAD_CONDITIONS,
    MatchedNames,
    change_expression,
    conditions,
    devices_expression,
    hide_expression,
    match_expression,
    matched_names_of,
    no_devices_expression,
    template_expression,
)
from webhook.labels import ENABLED, INJECT, MATCHED_NAMES, MODE, WRITTEN_BY
from webhook.mapping.model.policy import CLUSTER_NAMESPACES, Policy
from webhook.mapping.settings import Settings
from webhook.workloads import workloads_of


class RegistrationMode(enum.Enum):
    """Who maintains the webhook configuration: this program (`MANAGED`), or others (`STATIC`: it is only compared)."""

    MANAGED = "managed"
    STATIC = "static"


NAME: Final = "00-vgpu-webhook"
"""API servers call webhooks in the order of these names, and the vendors' own webhooks must see our changes."""

API_VERSION: Final = "admissionregistration.k8s.io/v1"
ENFORCE: Final = "enforce.vgpu-webhook.io"
HIDE: Final = "hide.vgpu-webhook.io"
AUDIT: Final = "audit.vgpu-webhook.io"
UPDATES: Final = "updates.validate.vgpu-webhook.io"
CONFIG_MAPS: Final = "configmaps.validate.vgpu-webhook.io"
WORKLOADS: Final = "workloads.validate.vgpu-webhook.io"
PODS: Final = "pods.validate.vgpu-webhook.io"
EPHEMERAL: Final = "ephemeralcontainers.validate.vgpu-webhook.io"
EPHEMERAL_HIDDEN: Final = "hide.ephemeralcontainers.validate.vgpu-webhook.io"
FAIL: Final = "Fail"
IGNORE: Final = "Ignore"

AUDIT_MODES: Final = ("audit", "warn")
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label with the namespace's name, which the API server sets."""

TIMEOUT: Final = 5
"""Seconds. A decision takes a millisecond; the rest is for retries after a 503, one per second."""

INJECT_CA_FROM: Final = "cert-manager.io/inject-ca-from"
"""The annotation that makes cert-manager fill in ``caBundle``."""

MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"
PORT: Final = 443

Labels: TypeAlias = Mapping[str, str]


def _sent(resources: str, *operations: str) -> Object:
    """The rule for resources of the core group, separated by spaces."""
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": resources.split(),
        "scope": "Namespaced",
    }


NEW_PODS: Final = _sent("pods", "CREATE")


class Webhook(Struct, frozen=True, eq=False):
    """One webhook of a configuration.

    Attributes:
        modes: which opted-in namespaces it is for: those that enforce, those that only audit or warn, or any; None: it is for
            all namespaces.
        subject: what switches it on: an entry of the setting `validation`, `hide`, or both; None: it is always on.
        rules: what is sent; None: workloads of the kinds that are wanted.
        expression: the match condition of matched names; None if it has none.
        conditions: the other match conditions, by name.
    """

    name: str
    failure_policy: str
    modes: Literal["enforcing", "auditing", "any"] | None
    subject: str | None = None
    rules: tuple[Object, ...] | None = (NEW_PODS,)
    expression: Callable[[MatchedNames], str] | None = match_expression
    conditions: tuple[tuple[str, str], ...] = POD_CONDITIONS

    def is_for(self, mode: str | None) -> bool:
        """Whether it is for namespaces with a value of the label for the mode."""
        return self.modes in {"any", None} or (mode in AUDIT_MODES) == (self.modes == "auditing")


class ConfigurationKind(Struct, frozen=True, eq=False):
    """The mutating or the validating webhook configuration: where it sends reviews, and all webhooks that it may have."""

    kind: str
    path: str
    webhooks: tuple[Webhook, ...]
    fields: Mapping[str, str]
    noun: str

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"

    @property
    def collection(self) -> str:
        return f"/apis/{API_VERSION}/{self.plural}"


_HIDDEN: Final = "ephemeralContainers of pods without devices"
"""What is judged with the setting `hideDevices`, too."""

_EPHEMERAL_CONTAINERS: Final = (_sent("pods/ephemeralcontainers", "UPDATE"),)
# An update of the status can change labels and annotations, too.
_UPDATES: Final = (_sent("pods pods/status", "UPDATE"),)
_DOCUMENTS: Final = (_sent("configmaps", "CREATE", "UPDATE"),)

MUTATING: Final = ConfigurationKind(
    "MutatingWebhookConfiguration",
    MUTATE,
    (
        Webhook(ENFORCE, FAIL, "enforcing"),
        Webhook(AUDIT, IGNORE, "auditing"),
        Webhook(HIDE, IGNORE, "enforcing", "hide", expression=hide_expression),
    ),
    {"reinvocationPolicy": "IfNeeded"},
    "webhook configuration",
)
VALIDATING: Final = ConfigurationKind(
    "ValidatingWebhookConfiguration",
    VALIDATE,
    (
        Webhook(PODS, FAIL, "enforcing", "pods"),
        Webhook(EPHEMERAL, FAIL, "enforcing", "ephemeralContainers", _EPHEMERAL_CONTAINERS, devices_expression),
        Webhook(EPHEMERAL_HIDDEN, FAIL, "enforcing", _HIDDEN, _EPHEMERAL_CONTAINERS, no_devices_expression),
        Webhook(WORKLOADS, IGNORE, "any", "workloads", None, template_expression, WORKLOAD_CONDITIONS),
        Webhook(UPDATES, IGNORE, "enforcing", "updates", _UPDATES, change_expression),
        Webhook(CONFIG_MAPS, IGNORE, None, "configMaps", _DOCUMENTS, None, DOCUMENT_CONDITIONS),
    ),
    {},
    "validating webhook configuration",
)
KINDS: Final = (MUTATING, VALIDATING)


class ServiceReference(Struct, frozen=True):
    """The Service in front of the webhook, whose certificate must be for ``NAME.NAMESPACE.svc``."""

    namespace: str
    name: str
    path: str = MUTATE
    port: int = PORT

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}{self.path}"


class Site(Struct, frozen=True):
    """Where API servers find one installation of the webhook; the same for all of its replicas.

    The bundle is empty if something else fills it in: `inject_ca_from` is ``NAMESPACE/NAME`` of a Certificate whose CAs
    cert-manager fills in. Pods of `own_namespace` must start when the webhook is down.
    """

    address: ServiceReference | str
    ca_bundle: bytes = b""
    own_namespace: str | None = None
    inject_ca_from: str | None = None


class Wanted(Struct, frozen=True):
    """What a policy and its settings require of a webhook configuration; `workloads` are kinds, each ``GROUP/KIND``."""

    digest: str
    matched_names: MatchedNames
    opt_in: str = INJECT
    timeout: int = TIMEOUT
    kind: ConfigurationKind = MUTATING
    subjects: frozenset[str] = frozenset()
    workloads: frozenset[str] = frozenset()

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        return tuple(each for each in self.kind.webhooks if each.subject is None or each.subject in self.subjects)


def wanted_by(policy: Policy, kind: ConfigurationKind = MUTATING) -> Wanted:
    """What a policy requires of a webhook configuration; computed once for each policy."""
    settings = policy.settings
    chosen = {*settings.validation, *(["hide"] if settings.hide_devices else ())}
    chosen |= {_HIDDEN} if chosen >= {"hide", "ephemeralContainers"} else set()
    return Wanted(
        policy.digest,
        matched_names_of(policy),
        settings.opt_in_label,
        settings.timeout_seconds,
        kind,
        frozenset(each.subject for each in kind.webhooks if each.subject and each.subject in chosen),
        _workloads_with_pods(settings) if kind is VALIDATING else frozenset(),
    )


def _workloads_with_pods(settings: Settings) -> frozenset[str]:
    kinds = workloads_of(settings).items()
    return frozenset(f"{group}/{kind}" for (group, kind), known in kinds if known.pods or known.objects)


def judged(wanted: Wanted, sent: Wanted | None, present: Wanted | None, *, steady: bool) -> Wanted:
    """What the validating configuration may have now: what is not sent to ``/mutate`` must not wait for a judgment.

    API servers learn of each configuration at a time of its own. So it follows the mutating one when that grows, and shrinks
    before it, which nothing else has to care for: the mutating one shrinks only in a quiet period. `sent` and `present` are
    what the two were made from, None if there is none or others have changed it; `steady`: all API servers know the former.
    """
    names = wanted.matched_names if sent is None else wanted.matched_names.within(sent.matched_names)
    if sent is not None and steady:
        return replace(wanted, matched_names=names, opt_in=sent.opt_in)
    blocking = {each.subject for each in wanted.kind.webhooks if each.failure_policy == FAIL and each.subject}
    if present is None:
        return replace(wanted, matched_names=names, subjects=wanted.subjects - blocking)
    return replace(
        wanted,
        matched_names=names.within(present.matched_names),
        opt_in=present.opt_in,
        subjects=wanted.subjects - (blocking - present.subjects),
    )


def registration(
    wanted: Wanted, site: Site, *, version: str | None = None, foreign: Mapping[str, Sequence[Object]] | None = None
) -> Object:
    """Make the configuration, with all fields that the API server would fill in, so that it can be compared.

    Without a version, it is maintained by hand; `foreign` are terms to keep in the namespace selectors, by webhook.
    """
    annotations = {MATCHED_NAMES: wanted.matched_names.as_json}
    if version is not None:
        annotations[WRITTEN_BY] = f"{version} {wanted.digest}"
    if site.inject_ca_from is not None:
        annotations[INJECT_CA_FROM] = site.inject_ca_from
    return {
        "apiVersion": API_VERSION,
        "kind": wanted.kind.kind,
        "metadata": {"name": NAME, "annotations": annotations},
        "webhooks": [_webhook(each, wanted, site, (foreign or {}).get(each.name, ())) for each in wanted.webhooks],
    }


def _webhook(webhook: Webhook, wanted: Wanted, site: Site, foreign: Sequence[Object]) -> Object:
    rules, others = webhook.rules, webhook.conditions
    if rules is None:
        rules, others = _workload_rules(wanted), (_known_workload(wanted), *others)
    return {
        "name": webhook.name,
        "failurePolicy": webhook.failure_policy,
        "namespaceSelector": {} if webhook.modes is None else _selector(webhook.modes, wanted, site, foreign),
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(site, wanted.kind),
        "matchConditions": conditions(wanted.matched_names, webhook.expression, others),
        "matchPolicy": "Equivalent",
        "objectSelector": {},
        **wanted.kind.fields,
        "rules": [dict(rule) for rule in rules],
        # Events about workloads are none of a dry run.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": wanted.timeout,
    }


_OF_KUBERNETES: Final = {
    "": ["podtemplates", "replicationcontrollers"],
    "apps": ["daemonsets", "deployments", "replicasets", "statefulsets"],
    "batch": ["cronjobs", "jobs"],
}
"""The resources of the workloads in each API group of Kubernetes."""


def _workload_rules(wanted: Wanted) -> tuple[Object, ...]:
    """The workloads of Kubernetes, and in the groups of other known kinds, whose plurals are not known, everything."""
    common = _sent("*", "CREATE", "UPDATE")
    others = {kind.partition("/")[0] for kind in wanted.workloads} - _OF_KUBERNETES.keys() - {"extensions"}
    return (
        *({**common, "apiGroups": [group], "resources": list(known)} for group, known in _OF_KUBERNETES.items()),
        *([{**common, "apiGroups": sorted(others), "apiVersions": ["*"]}] if others else []),
    )


KNOWN_WORKLOAD: Final = "known-kind"
"""The name of the condition that lists the kinds."""

_LISTED: Final = re.compile("^  '(.+)'", re.MULTILINE)


def _known_workload(wanted: Wanted) -> tuple[str, str]:
    kinds = ",".join(f"\n  '{kind}'" for kind in sorted(wanted.workloads))
    return KNOWN_WORKLOAD, f"request.kind.group + '/' + request.kind.kind in [{kinds}\n]"


def workloads_in(expression: str) -> frozenset[str]:
    """The kinds that such a condition lists."""
    return frozenset(_LISTED.findall(expression))


def read_address(url: str | None, service: str | None) -> ServiceReference | str | None:
    """Where the options ``--url`` and ``--service`` have API servers call; None without both.

    Raises:
        ValueError: they are given both, or one is wrong.
    """
    if url is not None and service is not None:
        raise ValueError("--url and --service exclude each other: use one of them")
    if url is not None and not _is_address(url):
        must = f"must be an https URL with the path {MUTATE}, without query, fragment and user"
        raise ValueError(f"--url {url}: {must}, such as https://127.0.0.1:8443{MUTATE}")
    if service is None:
        return url
    namespace, _, name = service.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError(f"--service {service}: write NAMESPACE/NAME")
    return ServiceReference(namespace, name)


def _is_address(url: str) -> bool:
    """Whether a URL can be that of the webhook: the API server rejects a query or a user, and nothing else answers it."""
    try:
        parts = urlsplit(url)
        rest = parts.port == 0 or parts.query or parts.fragment or parts.username is not None
    except ValueError:  # brackets without an end, or a port that is none
        return False
    return parts.scheme == "https" and bool(parts.hostname) and parts.path.endswith(MUTATE) and not rest


def address_for(address: ServiceReference | str, kind: ConfigurationKind) -> ServiceReference | str:
    """Where API servers send the reviews of a configuration: the address is that of the mutating one."""
    if kind is MUTATING or not address:
        return address
    if isinstance(address, ServiceReference):
        return replace(address, path=f"{address.path.removesuffix(MUTATE)}{kind.path}")
    return f"{address.removesuffix(MUTATE)}{kind.path}"


def _client_config(site: Site, kind: ConfigurationKind) -> Object:
    address = address_for(site.address, kind)
    config: Object = {"url": address}
    if isinstance(address, ServiceReference):
        service = {"namespace": address.namespace, "name": address.name, "path": address.path, "port": address.port}
        config = {"service": service}
    if site.ca_bundle and site.inject_ca_from is None:
        config["caBundle"] = base64.b64encode(site.ca_bundle).decode()
    return config


def _selector(modes: str, wanted: Wanted, site: Site, foreign: Sequence[Object]) -> Object:
    own = {site.own_namespace} if site.own_namespace else set()
    # `NotIn` also selects namespaces without the label.
    operator = {"enforcing": "NotIn", "auditing": "In"}.get(modes)
    labels = {term["key"]: term["values"][0] for term in foreign if term.get("operator") == EQUALS}
    return {
        "matchExpressions": [
            # `stored.py` recognizes the opt-in label of another policy by this operator and value.
            {"key": wanted.opt_in, "operator": "In", "values": [ENABLED]},
            {"key": NAMESPACE_NAME, "operator": "NotIn", "values": sorted(CLUSTER_NAMESPACES | own)},
            *([] if operator is None else [{"key": MODE, "operator": operator, "values": list(AUDIT_MODES)}]),
            *(term for term in foreign if term.get("operator") != EQUALS),
        ],
        **({"matchLabels": labels} if labels else {}),
    }


EQUALS: Final = "="
"""The operator of a label in a selector, which has none in the API."""


def terms_of(selector: Any) -> list[Object]:
    """The terms of a label selector; all of them must hold."""
    labels = sorted((found_at(selector, dict, "matchLabels") or {}).items())
    equal = [{"key": key, "operator": EQUALS, "values": [value]} for key, value in labels]
    return [*equal, *each_at(selector, "matchExpressions")]


def selects(selector: Any, labels: Labels) -> bool:
    """Whether a selector matches labels; an empty one matches everything."""
    return all(holds(term, labels) for term in terms_of(selector))


def holds(term: Object, labels: Labels) -> bool:
    """Whether a term of a selector holds; one that cannot be parsed does: the API server would not have stored it."""
    key, values = str(term.get("key")), found_at(term, list, "values") or []
    match term.get("operator"):
        case "In" | "=":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return True


def terms_text(terms: Sequence[Object]) -> str:
    """The terms for messages: ``a=1 and zone NotIn (edge)``."""
    return " and ".join(map(_term_text, terms))


def _term_text(term: Object) -> str:
    values = ", ".join(map(str, found_at(term, list, "values") or []))
    if term.get("operator") == EQUALS:
        return f"{term.get('key')}={values}"
    return f"{term.get('key')} {term.get('operator')}" + (f" ({values})" if values else "")
