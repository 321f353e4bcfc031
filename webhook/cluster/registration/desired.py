"""The desired webhook configurations: what the API server sends here, as a pure function of policy and site.

The mutating one contains two webhooks, which differ in the effect of an outage. In a namespace that enforces, a pod that needs
the webhook is not created without it (``Fail``); in a namespace that only audits or warns, it is (``Ignore``).

The validating one contains a webhook for each subject of the setting `validation`. Both are made, compared and updated by the
same functions: everything that differs is data of their `ConfigurationKind`.
"""

import base64
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from webhook.cluster.client import Object
from webhook.cluster.registration.match_conditions import (
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
from webhook.mapping.document.settings import Settings
from webhook.mapping.model.policy import CLUSTER_NAMESPACES, Policy
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

PATH: Final = "/mutate"
PORT: Final = 443

NEW_PODS: Final[Object] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
    "scope": "Namespaced",
}


@dataclass(frozen=True, slots=True, eq=False)
class Webhook:
    """One webhook of a configuration.

    Attributes:
        name: its name, a DNS name.
        failure_policy: what the API server does without an answer.
        modes: which opted-in namespaces it is for: those that enforce, those that only audit or warn, or any; None: it is for
            all namespaces.
        subject: what switches it on: an entry of the setting `validation`, `hide`, or both; None: it is always on.
        rules: returns what is sent.
        expression: the match condition of matched names; None if it has none.
        conditions: returns the other match conditions, by name.
    """

    name: str
    failure_policy: str
    modes: Literal["enforcing", "auditing", "any"] | None
    subject: str | None = None
    rules: "Callable[[Desired], tuple[Object, ...]]" = lambda _: (NEW_PODS,)
    expression: Callable[[MatchedNames], str] | None = match_expression
    conditions: "Callable[[Desired], tuple[tuple[str, str], ...]]" = lambda _: POD_CONDITIONS

    def is_for(self, mode: str | None) -> bool:
        """Whether it is for namespaces with a value of the label for the mode."""
        return self.modes in {"any", None} or (mode in AUDIT_MODES) == (self.modes == "auditing")


_OF_KUBERNETES: Final = {
    "": ["podtemplates", "replicationcontrollers"],
    "apps": ["daemonsets", "deployments", "replicasets", "statefulsets"],
    "batch": ["cronjobs", "jobs"],
}
"""The resources of the workloads in each API group of Kubernetes."""


def _workload_rules(desired: "Desired") -> tuple[Object, ...]:
    """The workloads of Kubernetes, and in the groups of other known kinds, whose plurals are not known, everything."""
    common = {"operations": ["CREATE", "UPDATE"], "scope": "Namespaced"}
    others = {kind.partition("/")[0] for kind in desired.kinds} - _OF_KUBERNETES.keys() - {"extensions"}
    return (
        *(
            {"apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources), **common}
            for group, resources in _OF_KUBERNETES.items()
        ),
        *([{"apiGroups": sorted(others), "apiVersions": ["*"], "resources": ["*"], **common}] if others else []),
    )


def _workload_conditions(desired: "Desired") -> tuple[tuple[str, str], ...]:
    kinds = ",".join(f"\n  '{kind}'" for kind in sorted(desired.kinds))
    known = f"request.kind.group + '/' + request.kind.kind in [{kinds}\n]"
    return (KNOWN_KIND, known), *WORKLOAD_CONDITIONS


KNOWN_KIND: Final = "known-kind"
"""The name of the condition that lists the kinds."""

_LISTED: Final = re.compile("^  '(.+)'", re.MULTILINE)


def kinds_in(expression: str) -> frozenset[str]:
    """The kinds that such a condition lists."""
    return frozenset(_LISTED.findall(expression))


def _update_rules(_: "Desired") -> tuple[Object, ...]:
    # An update of the status can change labels and annotations, too.
    return ({**NEW_PODS, "operations": ["UPDATE"], "resources": ["pods", "pods/status"]},)


def _ephemeral_rules(_: "Desired") -> tuple[Object, ...]:
    return ({**NEW_PODS, "operations": ["UPDATE"], "resources": ["pods/ephemeralcontainers"]},)


def _document_rules(_: "Desired") -> tuple[Object, ...]:
    return ({**NEW_PODS, "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]},)


@dataclass(frozen=True, slots=True, eq=False)
class ConfigurationKind:
    """The mutating or the validating webhook configuration.

    Attributes:
        kind: of the API.
        path: where it sends reviews.
        webhooks: all webhooks that it may have.
        fields: further fields of each webhook.
        noun: what messages call it.
    """

    kind: str
    path: str
    webhooks: tuple[Webhook, ...]
    fields: Mapping[str, str]
    noun: str

    @property
    def plural(self) -> str:
        """The name of the resource."""
        return f"{self.kind.lower()}s"

    @property
    def collection(self) -> str:
        """The path of all objects of the kind."""
        return f"/apis/{API_VERSION}/{self.plural}"


_HIDDEN: Final = "ephemeralContainers of pods without devices"
"""What is judged with the setting `hideDevices`, too."""

MUTATING: Final = ConfigurationKind(
    "MutatingWebhookConfiguration",
    PATH,
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
    "/validate",
    (
        Webhook(PODS, FAIL, "enforcing", "pods"),
        Webhook(EPHEMERAL, FAIL, "enforcing", "ephemeralContainers", _ephemeral_rules, devices_expression),
        Webhook(EPHEMERAL_HIDDEN, FAIL, "enforcing", _HIDDEN, _ephemeral_rules, no_devices_expression),
        Webhook(WORKLOADS, IGNORE, "any", "workloads", _workload_rules, template_expression, _workload_conditions),
        Webhook(UPDATES, IGNORE, "enforcing", "updates", _update_rules, change_expression),
        Webhook(CONFIG_MAPS, IGNORE, None, "configMaps", _document_rules, None, lambda _: DOCUMENT_CONDITIONS),
    ),
    {},
    "validating webhook configuration",
)
KINDS: Final = (MUTATING, VALIDATING)
COLLECTION: Final = MUTATING.collection


@dataclass(frozen=True, slots=True)
class ServiceReference:
    """The Service in front of the webhook, whose certificate must be for ``NAME.NAMESPACE.svc``."""

    namespace: str
    name: str
    path: str = PATH
    port: int = PORT


@dataclass(frozen=True, slots=True)
class Site:
    """Where API servers find one installation of the webhook; the same for all of its replicas.

    Attributes:
        address: a Service or an ``https`` URL.
        ca_bundle: the CAs of its certificate, PEM; empty if something else fills them in.
        own_namespace: the namespace whose pods must start when the webhook is down; None outside a cluster.
        inject_ca_from: ``NAMESPACE/NAME`` of a Certificate whose CAs cert-manager fills in.
    """

    address: ServiceReference | str
    ca_bundle: bytes = b""
    own_namespace: str | None = None
    inject_ca_from: str | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """What a policy and its settings require of a webhook configuration.

    Attributes:
        digest: the digest of the policy.
        matched_names: the names that let pods through.
        opt_in: the key of the label by which a namespace opts in.
        timeout: seconds that the API server waits for an answer, from 1 to 30.
        kind: which webhook configuration.
        subjects: what the optional webhooks are for.
        kinds: the kinds of workloads among that, each ``GROUP/KIND``.
    """

    digest: str
    matched_names: MatchedNames
    opt_in: str = INJECT
    timeout: int = TIMEOUT
    kind: ConfigurationKind = MUTATING
    subjects: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        """The webhooks that are on."""
        return tuple(each for each in self.kind.webhooks if each.subject is None or each.subject in self.subjects)


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a label selector. All of them must hold, so each term narrows the selection."""

    labels: Mapping[str, str] = field(default_factory=dict)
    expressions: Sequence[Object] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.expressions)

    def __str__(self) -> str:
        labels = [f"{key}={value}" for key, value in sorted(self.labels.items())]
        return " and ".join([*labels, *map(_term_text, self.expressions)])


def _term_text(term: Object) -> str:
    values = ", ".join(term.get("values") or ())
    return f"{term.get('key')} {term.get('operator')}" + (f" ({values})" if values else "")


def desired_from(policy: Policy, kind: ConfigurationKind = MUTATING) -> Desired:
    """What a policy requires of a webhook configuration; computed once for each policy."""
    settings = policy.settings
    chosen = {*settings.validation, *(["hide"] if settings.hide_devices else ())}
    chosen |= {_HIDDEN} if chosen >= {"hide", "ephemeralContainers"} else set()
    subjects = {each.subject for each in kind.webhooks if each.subject is not None}.intersection(chosen)
    return Desired(
        policy.digest,
        matched_names_of(policy),
        settings.opt_in_label,
        settings.timeout_seconds,
        kind,
        frozenset(subjects),
        _kinds_with_pods(settings) if kind is VALIDATING else frozenset(),
    )


def _kinds_with_pods(settings: Settings) -> frozenset[str]:
    kinds = workloads_of(settings).items()
    return frozenset(f"{group}/{kind}" for (group, kind), known in kinds if known.pods or known.objects)


def judged(wanted: Desired, sent: Desired | None, present: Desired | None, *, steady: bool) -> Desired:
    """What the validating configuration may have now: what is not sent to ``/mutate`` must not wait for a judgment.

    API servers learn of each configuration at a time of its own. So it follows the mutating one when that grows, and shrinks
    before it, which nothing else has to care for: the mutating one shrinks only in a quiet period.

    Args:
        wanted: what the policy requires of it.
        sent: what the mutating configuration was made from; None if there is none, or others have changed it.
        present: what the validating one was made from; likewise.
        steady: whether all API servers know the mutating one.
    """
    if sent is not None and steady:
        return replace(wanted, matched_names=wanted.matched_names.within(sent.matched_names), opt_in=sent.opt_in)
    names = wanted.matched_names if sent is None else wanted.matched_names.within(sent.matched_names)
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
    desired: Desired, site: Site, *, version: str | None = None, foreign: Mapping[str, Terms] | None = None
) -> Object:
    """Make the configuration, with all fields that the API server would fill in, so that it can be compared.

    Args:
        desired: what the policy requires.
        site: where the webhook is.
        version: of the program that writes it; None for a configuration that is maintained by hand.
        foreign: foreign terms to keep in the namespace selectors, by the name of the webhook.
    """
    annotations = {MATCHED_NAMES: desired.matched_names.as_json}
    if version is not None:
        annotations[WRITTEN_BY] = f"{version} {desired.digest}"
    if site.inject_ca_from is not None:
        annotations[INJECT_CA_FROM] = site.inject_ca_from
    foreign = foreign or {}
    return {
        "apiVersion": API_VERSION,
        "kind": desired.kind.kind,
        "metadata": {"name": NAME, "annotations": annotations},
        "webhooks": [
            _webhook(webhook, desired, site, foreign.get(webhook.name, Terms())) for webhook in desired.webhooks
        ],
    }


def _webhook(webhook: Webhook, desired: Desired, site: Site, foreign: Terms) -> Object:
    return {
        "name": webhook.name,
        "failurePolicy": webhook.failure_policy,
        "namespaceSelector": _selector(webhook, desired, site, foreign),
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(site, desired.kind),
        "matchConditions": conditions(desired.matched_names, webhook.expression, webhook.conditions(desired)),
        "matchPolicy": "Equivalent",
        "objectSelector": {},
        **desired.kind.fields,
        "rules": [dict(rule) for rule in webhook.rules(desired)],
        # Events about workloads are none of a dry run.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": desired.timeout,
    }


def is_address(url: str) -> bool:
    """Whether a URL can be that of the webhook: the API server rejects a query or a user, and nothing else answers it."""
    try:
        parts = urlsplit(url)
        rest = parts.port == 0 or parts.query or parts.fragment or parts.username is not None
    except ValueError:  # brackets without an end, or a port that is none
        return False
    return parts.scheme == "https" and bool(parts.hostname) and parts.path.endswith(PATH) and not rest


def address_for(address: ServiceReference | str, kind: ConfigurationKind) -> ServiceReference | str:
    """Where API servers send the reviews of a configuration: the address is that of the mutating one."""
    if kind is MUTATING or not address:
        return address
    if isinstance(address, ServiceReference):
        return replace(address, path=f"{address.path.removesuffix(PATH)}{kind.path}")
    return f"{address.removesuffix(PATH)}{kind.path}"


def _client_config(site: Site, kind: ConfigurationKind) -> Object:
    address = address_for(site.address, kind)
    if isinstance(address, ServiceReference):
        service = {"namespace": address.namespace, "name": address.name, "path": address.path, "port": address.port}
        config: Object = {"service": service}
    else:
        config = {"url": address}
    if site.ca_bundle and site.inject_ca_from is None:
        config["caBundle"] = base64.b64encode(site.ca_bundle).decode()
    return config


def _selector(webhook: Webhook, desired: Desired, site: Site, foreign: Terms) -> Object:
    if webhook.modes is None:
        return {}
    own = {site.own_namespace} if site.own_namespace else set()
    # `NotIn` also selects namespaces without the label.
    modes = {"enforcing": "NotIn", "auditing": "In", "any": None}[webhook.modes]
    selector: Object = {
        "matchExpressions": [
            # `observed.py` recognizes the opt-in label of another policy by this operator and value.
            {"key": desired.opt_in, "operator": "In", "values": [ENABLED]},
            {"key": NAMESPACE_NAME, "operator": "NotIn", "values": sorted(CLUSTER_NAMESPACES | own)},
            *([] if modes is None else [{"key": MODE, "operator": modes, "values": list(AUDIT_MODES)}]),
            *foreign.expressions,
        ]
    }
    if foreign.labels:
        selector["matchLabels"] = dict(sorted(foreign.labels.items()))
    return selector


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels; an empty one matches everything.

    A term that cannot be parsed matches: the API server would not have stored it.
    """
    equal = selector.get("matchLabels") or {}
    terms = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in equal.items()) and all(_holds(term, labels) for term in terms)


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(term.get("key")), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return True
