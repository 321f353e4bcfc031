"""Events about workloads: what `kubectl describe` of a Deployment or CronJob shows of its pods, which nobody else is told."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.controlplane.client import Object
from tests.controlplane.in_cluster import installed
from tests.controlplane.objects import GPU, namespace, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process
from webhook import labels

pytestmark = pytest.mark.controlplane

OWN = "owner-events-webhook"
TEAM = "owner-events"
OPT_IN = "owner-events.example/inject"
"""A label of its own: what other tests have registered must not change these pods first."""
APP = {"app": "train"}


def template(limits: dict[str, str], **spec: Any) -> Object:
    """A pod template that requests a GPU."""
    return {"metadata": {"labels": APP}, "spec": pod("train", limits, **spec)["spec"]}


@pytest.fixture(scope="module")
def replica(controllers: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A webhook that has registered itself, and a namespace that has opted in."""
    controllers.create_namespace(namespace(TEAM, {OPT_IN: labels.ENABLED}))

    def called() -> bool:
        probe = controllers.client.create(pod("probe"), TEAM, dry_run=True).accepted()
        return bool(probe["spec"]["schedulerName"] == "hami-scheduler")

    with installed(controllers, tmp_path_factory.mktemp("owner-events"), OWN, f"optInLabel: {OPT_IN}\n") as process:
        controllers.wait_until(called, "called")
        yield process


@pytest.fixture(scope="module")
def plane(controllers: ControlPlane, replica: Process) -> ControlPlane:
    """The controllers, beside the webhook."""
    assert replica.pid
    return controllers


def events(plane: ControlPlane, kind: str, reason: str) -> list[Object]:
    """The Events of a reason on objects of a kind."""
    found = plane.client.list("v1", "events", TEAM)
    return [each for each in found if each["reason"] == reason and each["involvedObject"]["kind"] == kind]


def test_a_deployment_tells_that_its_pods_are_changed(plane: ControlPlane) -> None:
    """Once for its template, however many pods it has; dry runs tell nothing."""
    client = plane.client
    spec = {"replicas": 3, "selector": {"matchLabels": APP}, "template": template(GPU)}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train"}, "spec": spec}
    made = client.create(deployment, TEAM).accepted()
    plane.wait_until(lambda: len(client.list("v1", "pods", TEAM, "app=train")) == 3, "pods")
    (event,) = plane.wait_until(lambda: events(plane, "Deployment", "PodsChanged"), "an Event")
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert event["type"] == "Normal"
    assert event["message"].startswith("pods of this template are changed: VGW101: container main: no memory requested")
    assert "VGW509: schedulerName set to hami-scheduler" in event["message"]
    client.delete("apps/v1", "deployments", "train", TEAM)


def test_a_cron_job_tells_that_its_pods_are_denied(plane: ControlPlane) -> None:
    """The owner of the Job; a Job of nobody tells itself."""
    client = plane.client
    wrong = template({"aliyun.com/gpu-mem": "8Gi"}, restartPolicy="Never")
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": wrong["spec"]}}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    cron["spec"] = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job["spec"]}}
    owner = client.create(cron, TEAM).accepted()
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": owner["metadata"]["uid"]}
    made_by_cron = {"name": "nightly-1", "ownerReferences": [{**reference, "controller": True}]}
    client.create({**job, "metadata": made_by_cron}, TEAM).accepted()
    client.create({**job, "metadata": {"name": "alone"}}, TEAM).accepted()
    for kind, name in (("CronJob", "nightly"), ("Job", "alone")):
        (event,) = plane.wait_until(partial(events, plane, kind, "PodsDenied"), f"an Event on a {kind}")
        assert (event["involvedObject"]["name"], event["type"]) == (name, "Warning")
        assert event["message"].startswith("pods of this template are denied: VGW303: container main")
