"""Pods of any owner, in reviews as the API server sends them.

They are templates with marks: a million reviews take too much memory, so each is made as it is sent.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from benchmarks.owners import INDEX, NUMBER, OWNER_UID, Owner

Object: TypeAlias = dict[str, Any]

UNIQUE: Final = "@unique@"
"""Twelve digits that no other review has."""

TOKEN: Final = "@token@"  # noqa: S105  (no secret)
"""Five characters at the end of the volume of the service account's token, at random for each pod."""

AMOUNT: Final = "@amount@"
"""The value of the last resource; further resources may follow in it, as JSON without the outer quotation marks."""

REVIEW_UID: Final = f"00000000-0000-4000-8000-{UNIQUE}"


@dataclass(frozen=True, slots=True)
class Template:
    """The body of a review with marks."""

    body: bytes

    def fill(self, number: int, index: int, unique: int, amount: str = "") -> bytes:
        """Return the body for one pod; `unique` is that of no other review."""
        filled = self.body.replace(NUMBER.encode(), b"%08d" % number).replace(INDEX.encode(), b"%d" % index)
        filled = filled.replace(UNIQUE.encode(), b"%012d" % unique).replace(TOKEN.encode(), _suffix(unique))
        return filled.replace(AMOUNT.encode(), amount.encode()) if amount else filled


def template(
    owner: Owner,
    resources: Mapping[str, str],
    size: int,
    *,
    same_variables: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Template:
    """Return a template of about `size` bytes: a trainer with `resources`, variables up to that size, and a sidecar.

    Args:
        owner: what creates the pod.
        resources: limits of the trainer, and its requests.
        size: bytes.
        same_variables: only one value contains the owner's number; otherwise the name and value of each variable.
        labels: of the pod template.
        annotations: of the pod template.
    """
    run = "0" * 8 if same_variables else NUMBER
    count = 0
    body = b""
    while len(body) < size:
        count += max(1, (size - len(body)) // 110) if body else 0
        env = [
            {"name": f"SETTING_{number:04}_{run}", "value": f"value of the setting {number} in the run {run} of this"}
            for number in range(count)
        ]
        containers = [_trainer(resources, [*owner.env, *env]), _sidecar(owner.env)]
        body = _review(owner, _pod(owner, containers, labels or {}, annotations or {}))
    return Template(body)


def small_template(owner: Owner) -> Template:
    """Return a template of an ordinary pod: two containers that request CPU and memory."""
    containers = [_sidecar((), "server"), _sidecar(())]
    return Template(_review(owner, _pod(owner, containers, {}, {})))


def _suffix(unique: int) -> bytes:
    """Five characters of those from which Kubernetes makes names (``k8s.io/apimachinery/pkg/util/rand``)."""
    alphabet = b"bcdfghjklmnpqrstvwxz2456789"
    text = bytearray()
    for _ in range(5):
        unique, digit = divmod(unique, len(alphabet))
        text.append(alphabet[digit])
    return bytes(text)


def _review(owner: Owner, pod: Object) -> bytes:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": REVIEW_UID,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": "team",
            "operation": "CREATE",
            "userInfo": {
                "username": f"system:serviceaccount:kube-system:{owner.kind.lower()}-controller",
                "uid": str(uuid.UUID(int=7)),
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
            },
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }
    return json.dumps(review, separators=(",", ":")).encode()


def _pod(owner: Owner, containers: list[Object], labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    labels = {**owner.labels, "team": "vision", "tier": "batch", **labels}
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": OWNER_UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    fields = {
        "f:metadata": {"f:labels": {".": {}, **{f"f:{label}": {} for label in labels}}},
        "f:spec": {"f:containers": {'k:{"name":"trainer"}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}}},
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            **owner.metadata,
            "namespace": "team",
            "creationTimestamp": None,
            "labels": labels,
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                **owner.annotations,
                **annotations,
            },
            "ownerReferences": [reference],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": fields,
                }
            ],
        },
        "spec": {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {
                    "name": f"kube-api-access-{TOKEN}",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        ],
                        "defaultMode": 420,
                    },
                },
            ],
            "containers": containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            **owner.spec,
        },
    }


def _trainer(resources: Mapping[str, str], env: list[Mapping[str, Any]]) -> Object:
    return {
        "name": "trainer",
        "image": "registry.example.com/team/trainer:7",
        "command": ["python", "-m", "train", f"--run={NUMBER}"],
        "ports": [{"name": "metrics", "containerPort": 9090, "protocol": "TCP"}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "RUN", "value": NUMBER},
            *env,
        ],
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, _token_mount()],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 9090, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _sidecar(env: tuple[Mapping[str, Any], ...], name: str = "exporter") -> Object:
    resources = {"cpu": "100m", "memory": "64Mi"}
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:7",
        **({"env": env} if env else {}),
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": [_token_mount()],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _token_mount() -> Object:
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    return {"name": f"kube-api-access-{TOKEN}", "readOnly": True, "mountPath": path}
