"""The roll-out: what a pod is a part of, and that a workload is treated alike everywhere and always.

Modes are in `told/modes.yaml`.
"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.naming import each_of
from webhook.admission.eligibility import bucket, workload
from webhook.pod import Pod, decode_pod


def made_by(kind: str, owner_name: str, **metadata: Any) -> Pod:
    """A pod that a controller made."""
    owner = {"kind": kind, "name": owner_name, "controller": True}
    return decode_pod(json.dumps({"metadata": {"ownerReferences": [owner], **metadata}}).encode())


@each_of(
    "pod, name",
    [
        (made_by("ReplicaSet", "train-5d4f8c7b6d", name="train-5d4f8c7b6d-x2x2x"), "team/ReplicaSet/train"),
        (made_by("ReplicaSet", "my-train-68b9d9fd4"), "team/ReplicaSet/my-train"),
        (made_by("Job", "nightly-28912345"), "team/Job/nightly"),
        (made_by("Job", "nightly-run"), "team/Job/nightly-run"),
        (made_by("StatefulSet", "db-0"), "team/StatefulSet/db-0"),
        (made_by("DaemonSet", "agent"), "team/DaemonSet/agent"),
        (decode_pod(b'{"metadata": {"generateName": "run-", "name": "run-x1"}}'), "team//run-"),
        (decode_pod(b'{"metadata": {"name": "solo"}}'), "team//solo"),
        (decode_pod(b"{}"), "team//"),
        (
            decode_pod(
                b'{"metadata": {"ownerReferences": [{"kind": "A", "name": "a"},'
                b' {"kind": "B", "name": "b", "controller": true}]}}'
            ),
            "team/B/b",
        ),
    ],
)
def test_what_a_pod_is_a_part_of(pod: Pod, name: str) -> None:
    """The same for all pods of a workload and at every roll-out: without what changes from one to the next."""
    assert workload(pod, "team") == name


def test_the_hash_is_the_same_everywhere() -> None:
    """Numbers that must never change, or a new version would move workloads."""
    assert [bucket(name) for name in ("team/ReplicaSet/train", "team//solo", "")] == [13, 49, 52]


def test_percentages_are_about_kept() -> None:
    """Of many workloads a quarter is below 25."""
    below = sum(bucket(f"team/ReplicaSet/{number}") < 25 for number in range(4000))
    assert 900 < below < 1100


@given(
    st.text("abcdefghij0123456789", min_size=1, max_size=10), st.text("abcdefghij0123456789", min_size=1, max_size=10)
)
def test_a_new_template_is_the_same_workload(digest_before: str, digest_after: str) -> None:
    """A roll-out of a Deployment makes a ReplicaSet with another hash, not another decision."""
    first, second = (
        workload(made_by("ReplicaSet", f"train-{digest}"), "team") for digest in (digest_before, digest_after)
    )
    assert bucket(first) == bucket(second)
