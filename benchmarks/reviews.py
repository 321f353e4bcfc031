"""Reviews like those of a real cluster: of 6 KB (a usual pod) and of 64 KB (hundreds of variables), always new or always one.

The pod asks for one card and leaves the memory out, so that every step has work to do: a default, the shim, the guard over all
variables, near misses, the account.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

VARIANTS: Final = 512
"""Different reviews of a size, in turn: more than any cache in the engine could know by chance."""

SMALL: Final = 6_000
LARGE: Final = 64_000


@dataclass(frozen=True, slots=True)
class Load:
    """What a client sends over and over: whole HTTP requests, in turn."""

    name: str
    requests: tuple[bytes, ...]

    @property
    def body(self) -> int:
        """Bytes of one review, about."""
        return len(self.requests[0].partition(b"\r\n\r\n")[2])


def load(name: str, size: int, *, varying: bool) -> Load:
    """Reviews of about `size` bytes."""
    return Load(name, tuple(_request(_review(number, size)) for number in range(VARIANTS if varying else 1)))


def _request(body: bytes) -> bytes:
    # What the API server sends.
    head = (
        "POST /mutate?timeout=10s HTTP/1.1\r\nHost: vgpu-webhook.vgpu-webhook.svc:443\r\n"
        "User-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def _review(number: int, size: int) -> bytes:
    variables = 0
    body = _with_variables(number, variables)
    while len(body) < size:
        variables += max(1, (size - len(body)) // 110)
        body = _with_variables(number, variables)
    return body


def _with_variables(number: int, variables: int) -> bytes:
    pod = _pod(number, variables)
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": str(uuid.UUID(int=number)),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": "team",
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
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


def _pod(number: int, variables: int) -> dict[str, Any]:
    labels = {"app": f"trainer-{number}", "pod-template-hash": f"{number:010x}", "team": "vision", "tier": "batch"}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": f"trainer-{number}-{number:010x}-",
            "namespace": "team",
            "creationTimestamp": None,
            "labels": labels,
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"trainer-{number}-{number:010x}",
                    "uid": str(uuid.UUID(int=number)),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": {".": {}, **{f"f:{label}": {} for label in labels}}},
                        "f:spec": {
                            "f:containers": {
                                'k:{"name":"trainer"}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}
                            }
                        },
                    },
                }
            ],
        },
        "spec": {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {
                    "name": "kube-api-access-x7x7x",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        ],
                        "defaultMode": 420,
                    },
                },
            ],
            "containers": [_trainer(number, variables), _sidecar()],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                },
                {
                    "key": "node.kubernetes.io/unreachable",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                },
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    }


def _trainer(number: int, variables: int) -> dict[str, Any]:
    asked = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1", "nvidia.com/gpucores": str(1 + number % 100)}
    env = [
        {
            "name": f"SETTING_{index:04}_{number}",
            "value": f"value of the setting {index} in the run {number} of this trainer",
        }
        for index in range(variables)
    ]
    return {
        "name": "trainer",
        "image": f"registry.example.com/team/trainer:{number}",
        "command": ["python", "-m", "train"],
        "ports": [{"name": "metrics", "containerPort": 9090, "protocol": "TCP"}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            *env,
        ],
        "resources": {"limits": asked, "requests": asked},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {
                "name": "kube-api-access-x7x7x",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 9090, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _sidecar() -> dict[str, Any]:
    asked = {"cpu": "100m", "memory": "64Mi"}
    return {
        "name": "exporter",
        "image": "registry.example.com/team/exporter:7",
        "resources": {"limits": asked, "requests": asked},
        "volumeMounts": [
            {
                "name": "kube-api-access-x7x7x",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
