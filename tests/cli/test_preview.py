"""``preview`` of files: what the next pods of workloads would be, under which policy, and in which format."""

import asyncio
from typing import Any

from tests.cluster.fake_api import FakeApi, reading
from tests.mapping.vendors import policy
from webhook.cli.commands.preview import compared, pods_of

CONTAINER = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


def test_what_may_not_be_read_is_named() -> None:
    """The rest is shown, and each kind that could not be listed is an error: no workload is left out in silence."""
    template = {"spec": {"containers": [CONTAINER]}}
    pages = [{"metadata": {"name": name, "namespace": "team"}, "spec": {"template": template}} for name in "ab"]
    api = reading({"/apis/apps/v1/namespaces/team/deployments": pages})
    (found,), unread = asyncio.run(pods_of(api, [policy()], "team"))
    assert [pod.workload for pod in found] == ["deployment/a", "deployment/b"]
    assert unread[0].startswith("namespaces could not be read, so their annotations are unknown: 403")
    assert unread[1].startswith("API groups could not be read, so other kinds are unknown: 403")
    assert [line.partition(" could")[0] for line in unread[2:]] == [
        *("not all statefulsets", "not all daemonsets", "not all replicasets", "not all cronjobs", "not all jobs"),
        *("not all replicationcontrollers", "not all pods"),
    ]


def test_kinds_of_other_systems() -> None:
    """Those that the cluster serves are read where they contain pod templates; their pods are not counted again."""
    spec = {"containers": [CONTAINER]}
    named: dict[str, Any] = {"name": "a", "namespace": "team"}
    owner = {"apiVersion": "ray.io/v1alpha1", "kind": "RayCluster", "name": "a", "controller": True}
    server = owner | {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    ended = {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
    cluster = {"metadata": named, "spec": {"headGroupSpec": {"template": {"spec": spec}}}}
    served = ("apps/v1", "batch/v1", "ray.io/v1", "serving.kserve.io/v1beta1", "example.org/v1")
    groups = [{"name": each.split("/")[0], "preferredVersion": {"groupVersion": each}} for each in served]
    kinds = {"rayclusters": "RayCluster", "rayclusters/status": "RayCluster", "rayservices": "RayService", "x": "X"}
    resources = [{"name": name, "kind": kind, "namespaced": name != "rayservices"} for name, kind in kinds.items()]
    api = FakeApi(
        {
            "/apis": {"groups": groups},
            "/apis/ray.io/v1": {"resources": resources},
            "/apis/ray.io/v1/rayclusters": [cluster, {**cluster, **ended, "metadata": {**named, "name": "over"}}],
            "/api/v1/pods": [
                {"metadata": {**named, "ownerReferences": [owner]}, "spec": spec},
                {"metadata": {**named, "ownerReferences": [server]}, "spec": spec},
            ],
        }
    )
    (found,), unread = asyncio.run(pods_of(api, [policy()], None))
    assert unread == ()
    assert sorted(pod.workload for pod in found) == ["pod/of InferenceService a", "raycluster/a"]
    asked = {path for _, path, _ in api.requests if path.startswith(("/apis/r", "/apis/s", "/apis/e"))}
    assert asked == {"/apis/ray.io/v1", "/apis/ray.io/v1/rayclusters"}


def test_one_reading_for_both_policies() -> None:
    """A pod that is created meanwhile is no change; a kind that only one policy knows has nothing to compare with."""
    pod = {"metadata": {"name": "a", "namespace": "team"}, "spec": {"containers": [CONTAINER]}}
    api = reading({"/api/v1/pods": [pod]})
    (now, then), _ = asyncio.run(pods_of(api, [policy(), policy(settings="target: volcano")], None))
    assert [path for _, path, _ in api.requests].count("/api/v1/pods") == 1
    assert [pod.workload for pod in compared(now, then).pods] == ["pod/a"]
    assert compared([], then).pods == ()
