"""Reviews like those of a real cluster: of 6 KB (a usual pod) and of 64 KB (hundreds of variables), in three streams.

The pod asks for one device; the shim, the guard over all variables, near misses and the status have work to do, and so has a
default where the memory is left out.
"""

import itertools
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

TEMPLATES: Final = 512
"""Pods of the stream that sends different ones in turn: fewer than the engine remembers, so it knows them after one turn."""

SMALL: Final = 6_000
LARGE: Final = 64_000

NUMBER: Final = "@number@"
SHARE: Final = "@share@"
"""They stand in a review for what differs, and are filled in as it is sent: a million reviews take too much memory."""

Review: TypeAlias = list[list[bytes]]
"""Cut at each SHARE, and between them at each NUMBER."""

UID: Final = f"00000000-0000-4000-8000-0000{NUMBER}"


@dataclass(frozen=True, slots=True)
class Load:
    """What a client sends: HTTP requests without end; the next client goes on where one has stopped."""

    name: str
    requests: Iterator[bytes]


def one_pod(size: int) -> Load:
    """One review of about `size` bytes, again and again."""
    return _load("one pod", size, itertools.repeat(_request(_review(size), 0, "1")))


def in_turn(size: int) -> Load:
    """Pods of some templates in turn; their memory is left out."""
    review = _review(size)
    reviews = [_request(review, number, str(1 + number % 99)) for number in range(TEMPLATES)]
    return _load(f"{TEMPLATES} in turn", size, itertools.cycle(reviews))


def never_seen(size: int) -> Load:
    """Pods that are all different: in their names, labels and variables, and in the share of a GPU that they ask for.

    Of shares there are eight million, for 90 and 89,999 have no common divisor.
    """
    review = _review(size)
    shares = (f'{10 + number % 90}","nvidia.com/gpumem":"{10_000 + number % 89_999}' for number in itertools.count())
    return _load("never seen", size, (_request(review, number, share) for number, share in enumerate(shares)))


def _load(name: str, size: int, requests: Iterator[bytes]) -> Load:
    return Load(f"{size // 1000} KB, {name}", requests)


def _request(review: Review, number: int, share: str) -> bytes:
    """`share`: the percentage of cores, and after it whatever else is asked for, as JSON."""
    text = f"{number:08}".encode()
    body = share.encode().join([text.join(part) for part in review])
    # What the API server sends.
    head = (
        "POST /mutate?timeout=10s HTTP/1.1\r\nHost: vgpu-webhook.vgpu-webhook.svc:443\r\n"
        "User-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def _review(size: int) -> Review:
    variables = 0
    body = _with_variables(variables)
    while len(body) < size:
        variables += max(1, (size - len(body)) // 110)
        body = _with_variables(variables)
    return [part.split(NUMBER.encode()) for part in body.split(SHARE.encode())]


def _with_variables(variables: int) -> bytes:
    pod = _pod(variables)
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
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


def _pod(variables: int) -> dict[str, Any]:
    labels = {"app": f"trainer-{NUMBER}", "pod-template-hash": f"ab{NUMBER}", "team": "vision", "tier": "batch"}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": f"trainer-{NUMBER}-ab{NUMBER}-",
            "namespace": "team",
            "creationTimestamp": None,
            "labels": labels,
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"trainer-{NUMBER}-ab{NUMBER}",
                    "uid": UID,
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
            "containers": [_trainer(variables), _sidecar()],
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


def _trainer(variables: int) -> dict[str, Any]:
    asked = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1", "nvidia.com/gpucores": SHARE}
    env = [
        {
            "name": f"SETTING_{index:04}_{NUMBER}",
            "value": f"value of the setting {index} in the run {NUMBER} of this trainer",
        }
        for index in range(variables)
    ]
    return {
        "name": "trainer",
        "image": f"registry.example.com/team/trainer:{NUMBER}",
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
