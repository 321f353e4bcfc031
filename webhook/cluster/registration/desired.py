"""The desired webhook configuration: which new pods the API server sends here, as a pure function of policy and site.

It contains two webhooks, which differ in the effect of an outage. In a namespace that enforces, a pod that needs the webhook
is not created without it (``Fail``); in a namespace that only audits or warns, it is (``Ignore``).
"""

import base64
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from webhook.cluster.client.api import Object
from webhook.cluster.registration.match_conditions import MatchedNames, conditions, matched_names_of
from webhook.labels import ENABLED, INJECT, MATCHED_NAMES, MODE, WRITTEN_BY
from webhook.mapping.model.policy import CLUSTER_NAMESPACES, Policy


class RegistrationMode(enum.Enum):
    """Who maintains the webhook configuration: this program (`MANAGED`) or others. `STATIC` compares it, `OFF` does not."""

    MANAGED = "managed"
    STATIC = "static"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ReconcileConfig:
    """The pauses and time limits of a reconciler, in seconds.

    Attributes:
        quiet: how long nothing must have changed before something is removed: longer than any replica takes to learn of a
            ConfigMap.
        period: between two passes if nothing changes. A watch reports changes, so this only makes up for missed ones.
        retry, retry_at_most: the first and the longest pause after a failure.
        repair, repair_at_most: the first and the longest pause between repairs in a row.
        narrow_at_most: the longest pause between repairs that remove names.
        calm: how long no repair must have been made for the next one to count as the first in a row.
    """

    quiet: float = 60.0
    period: float = 600.0
    retry: float = 1.0
    retry_at_most: float = 60.0
    repair: float = 1.0
    repair_at_most: float = 60.0
    narrow_at_most: float = 3600.0
    calm: float = 600.0


NAME: Final = "00-vgpu-webhook"
"""API servers call webhooks in the order of these names, and the vendors' own webhooks must see our changes."""

API_VERSION: Final = "admissionregistration.k8s.io/v1"
COLLECTION: Final = f"/apis/{API_VERSION}/mutatingwebhookconfigurations"
KIND: Final = "MutatingWebhookConfiguration"
ENFORCE: Final = "enforce.vgpu-webhook.io"
AUDIT: Final = "audit.vgpu-webhook.io"
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
    """

    digest: str
    matched_names: MatchedNames
    opt_in: str = INJECT
    timeout: int = TIMEOUT


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


def desired_from(policy: Policy) -> Desired:
    """What a policy requires of a webhook configuration; computed once for each policy."""
    settings = policy.settings
    return Desired(policy.digest, matched_names_of(policy), settings.opt_in_label, settings.timeout_seconds)


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
        "kind": KIND,
        "metadata": {"name": NAME, "annotations": annotations},
        "webhooks": [
            {
                "name": name,
                "failurePolicy": failure_policy,
                "namespaceSelector": selector,
                **_common_fields(desired, site),
            }
            for name, failure_policy, selector in (
                # `NotIn` also selects namespaces without the label.
                (ENFORCE, FAIL, _selector("NotIn", desired, site, foreign.get(ENFORCE, Terms()))),
                (AUDIT, IGNORE, _selector("In", desired, site, foreign.get(AUDIT, Terms()))),
            )
        ],
    }


def _common_fields(desired: Desired, site: Site) -> Object:
    """The fields that are the same in both webhooks."""
    return {
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(site),
        "matchConditions": conditions(desired.matched_names),
        "matchPolicy": "Equivalent",
        "objectSelector": {},
        "reinvocationPolicy": "IfNeeded",
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        # Events about workloads are none of a dry run.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": desired.timeout,
    }


def _client_config(site: Site) -> Object:
    address = site.address
    if isinstance(address, ServiceReference):
        service = {"namespace": address.namespace, "name": address.name, "path": address.path, "port": address.port}
        config: Object = {"service": service}
    else:
        config = {"url": address}
    if site.ca_bundle and site.inject_ca_from is None:
        config["caBundle"] = base64.b64encode(site.ca_bundle).decode()
    return config


def _selector(modes: str, desired: Desired, site: Site, foreign: Terms) -> Object:
    own = {site.own_namespace} if site.own_namespace else set()
    selector: Object = {
        "matchExpressions": [
            # `observed.py` recognizes the opt-in label of another policy by this operator and value.
            {"key": desired.opt_in, "operator": "In", "values": [ENABLED]},
            {"key": NAMESPACE_NAME, "operator": "NotIn", "values": sorted(CLUSTER_NAMESPACES | own)},
            {"key": MODE, "operator": modes, "values": list(AUDIT_MODES)},
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
