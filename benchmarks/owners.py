"""The controllers that create pods, and what each of them writes into a pod.

What differs between the pods of a stream stands as a mark in these texts, and is filled in as a review is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NUMBER: Final = "@number@"
"""Eight digits: which Deployment, Job or StatefulSet."""

INDEX: Final = "@index@"
"""Which pod of it."""

OWNER_UID: Final = f"00000000-0000-4000-9000-0000{NUMBER}"


@dataclass(frozen=True, slots=True)
class Owner:
    """What creates the pods, and what its controller writes into each.

    Attributes:
        kind, api_version: of the owner.
        name: of the owner.
        metadata: of the pod: its name, or the beginning of a generated one, and further fields.
        labels: that the controller adds.
        annotations: that the controller adds.
        spec: fields of the pod that it sets.
        env: variables that it adds to every container.
    """

    kind: str
    api_version: str
    name: str
    metadata: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    env: tuple[Mapping[str, Any], ...] = ()


DEPLOYMENT: Final = Owner(
    "ReplicaSet",
    "apps/v1",
    f"trainer-{NUMBER}-5d9c7b8f6d",
    {"generateName": f"trainer-{NUMBER}-5d9c7b8f6d-"},
    {"app": f"trainer-{NUMBER}", "pod-template-hash": "5d9c7b8f6d"},
)

# Labels and the finalizer: pkg/controller/job of Kubernetes 1.27 and later, which writes both spellings.
_JOB_LABELS: Final = {
    "batch.kubernetes.io/controller-uid": OWNER_UID,
    "batch.kubernetes.io/job-name": f"train-{NUMBER}",
    "controller-uid": OWNER_UID,
    "job-name": f"train-{NUMBER}",
}
_JOB_METADATA: Final = {"finalizers": ["batch.kubernetes.io/job-tracking"]}

JOB: Final = Owner(
    "Job",
    "batch/v1",
    f"train-{NUMBER}",
    {"generateName": f"train-{NUMBER}-", **_JOB_METADATA},
    {"app": "trainer", **_JOB_LABELS},
    spec={"restartPolicy": "Never"},
)

_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

INDEXED_JOB: Final = Owner(
    "Job",
    "batch/v1",
    f"train-{NUMBER}",
    {"generateName": f"train-{NUMBER}-{INDEX}-", **_JOB_METADATA},
    {"app": "trainer", **_JOB_LABELS, _COMPLETION_INDEX: INDEX},
    {_COMPLETION_INDEX: INDEX},
    {"restartPolicy": "Never", "hostname": f"train-{NUMBER}-{INDEX}"},
    (
        {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{_COMPLETION_INDEX}']"}},
        },
    ),
)

STATEFUL_SET: Final = Owner(
    "StatefulSet",
    "apps/v1",
    f"trainer-{NUMBER}",
    {"name": f"trainer-{NUMBER}-{INDEX}", "generateName": f"trainer-{NUMBER}-"},
    {
        "app": f"trainer-{NUMBER}",
        "apps.kubernetes.io/pod-index": INDEX,
        "controller-revision-hash": f"trainer-{NUMBER}-5d9c7b8f6d",
        "statefulset.kubernetes.io/pod-name": f"trainer-{NUMBER}-{INDEX}",
    },
    spec={"hostname": f"trainer-{NUMBER}-{INDEX}", "subdomain": f"trainer-{NUMBER}"},
)
