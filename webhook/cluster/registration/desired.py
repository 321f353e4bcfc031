"""The registration: which new pods the API server sends here, as a pure function of policy and place.

One configuration holds two webhooks that differ in what an outage means. Where a namespace enforces, a pod that needs us
waits for us (``Fail``); where it only wants to be told, it does not (``Ignore``).
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from webhook.cluster.client.api import Object
from webhook.cluster.registration.match_conditions import conditions
from webhook.cluster.registration.matched_names import MatchedNames, matched_names_of
from webhook.labels import ENABLED, INJECT, MODE, WRITTEN_BY
from webhook.mapping.model.policy import CLUSTER_NAMESPACES, Policy

NAME: Final = "00-vgpu-webhook"
"""Configurations are called in the order of their names, and the vendors' own webhooks have to see what we wrote."""

API_VERSION: Final = "admissionregistration.k8s.io/v1"
COLLECTION: Final = f"/apis/{API_VERSION}/mutatingwebhookconfigurations"
KIND: Final = "MutatingWebhookConfiguration"
ENFORCE: Final = "enforce.vgpu-webhook.io"
AUDIT: Final = "audit.vgpu-webhook.io"
FAIL: Final = "Fail"
IGNORE: Final = "Ignore"

AUDIT_MODES: Final = ("audit", "warn")
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label with its own name that the API server puts on every namespace."""

TIMEOUT: Final = 5
"""Seconds. A decision takes a millisecond; the rest is for a replica that answers 503, asked once a second again."""

INJECT_CA_FROM: Final = "cert-manager.io/inject-ca-from"
"""The annotation by which cert-manager fills in ``caBundle``."""

PATH: Final = "/mutate"
PORT: Final = 443


@dataclass(frozen=True, slots=True)
class Service:
    """The Service in front of the webhook; its certificate has to name ``NAME.NAMESPACE.svc``."""

    namespace: str
    name: str
    path: str = PATH
    port: int = PORT


@dataclass(frozen=True, slots=True)
class Site:
    """Where one installation of the webhook is: the same for all of its replicas.

    Attributes:
        address: how API servers reach it, a Service or an ``https`` URL.
        ca_bundle: the authorities of its certificate, PEM; empty where something else fills them in.
        own_namespace: its pods must start when it is down; None where it runs outside the cluster.
        inject_ca_from: ``NAMESPACE/NAME`` of cert-manager's Certificate, whose authorities it fills in itself.
    """

    address: Service | str
    ca_bundle: bytes = b""
    own_namespace: str | None = None
    inject_ca_from: str | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """What a policy and its settings want of a registration.

    Attributes:
        digest: of the policy.
        reach: which pods are let through.
        opt_in: the key of the label by which a namespace opts in.
        timeout: seconds that the API server waits for an answer, 1 to 30.
    """

    digest: str
    matched_names: MatchedNames
    opt_in: str = INJECT
    timeout: int = TIMEOUT


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a label selector; all of them have to hold, so that every one more narrows."""

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
    """What a policy wants of a registration; worked out once for each policy."""
    settings = policy.settings
    return Desired(policy.digest, matched_names_of(policy), settings.opt_in_label, settings.timeout_seconds)


def registration(
    want: Desired, site: Site, *, version: str | None = None, foreign: Mapping[str, Terms] | None = None
) -> Object:
    """The configuration, with every field that the API server would otherwise fill in: equal is then equal.

    Args:
        want: what the policy wants.
        site: where the webhook is.
        version: of the program that writes it; None for one that is kept by hand, whose digest nobody would keep up.
        foreign: by the name of a webhook, terms of others that are kept in its namespace selector.
    """
    metadata: Object = {"name": NAME}
    if version is not None:
        metadata["annotations"] = {WRITTEN_BY: f"{version} {want.digest}"}
    if site.inject_ca_from is not None:
        metadata.setdefault("annotations", {})[INJECT_CA_FROM] = site.inject_ca_from
    kept = foreign or {}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "webhooks": [
            {"name": name, "failurePolicy": failure_policy, "namespaceSelector": selector, **_alike(want, site)}
            for name, failure_policy, selector in (
                # `NotIn` holds for namespaces without the label, too.
                (ENFORCE, FAIL, _selector("NotIn", want, site, kept.get(ENFORCE, Terms()))),
                (AUDIT, IGNORE, _selector("In", want, site, kept.get(AUDIT, Terms()))),
            )
        ],
    }


def _alike(want: Desired, site: Site) -> Object:
    """What both webhooks have in common."""
    return {
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(site),
        "matchConditions": conditions(want.matched_names),
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
        "sideEffects": "None",
        "timeoutSeconds": want.timeout,
    }


def _client_config(site: Site) -> Object:
    address = site.address
    if isinstance(address, Service):
        service = {"namespace": address.namespace, "name": address.name, "path": address.path, "port": address.port}
        config: Object = {"service": service}
    else:
        config = {"url": address}
    if site.ca_bundle and site.inject_ca_from is None:
        config["caBundle"] = base64.b64encode(site.ca_bundle).decode()
    return config


def _selector(modes: str, want: Desired, site: Site, foreign: Terms) -> Object:
    own = {site.own_namespace} if site.own_namespace else set()
    selector: Object = {
        "matchExpressions": [
            # In this shape a reader knows the opt-in label of another policy (`registered.py`).
            {"key": want.opt_in, "operator": "In", "values": [ENABLED]},
            {"key": NAMESPACE_NAME, "operator": "NotIn", "values": sorted(CLUSTER_NAMESPACES | own)},
            {"key": MODE, "operator": modes, "values": list(AUDIT_MODES)},
            *foreign.expressions,
        ]
    }
    if foreign.labels:
        selector["matchLabels"] = dict(sorted(foreign.labels.items()))
    return selector
