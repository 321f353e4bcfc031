"""Least rights, proven: what the chart grants is what its processes use. That all else is refused: tests/deploy."""

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.controlplane.client import Client, Object
from tests.controlplane.objects import mapping
from tests.controlplane.written import STATUS

from .releases import GROUP, KIND, NAMESPACE, REGISTRATION, TEAM, Release
from .rights import Right, Used, granted, missing, rights_of, unused, used

pytestmark = [pytest.mark.node, pytest.mark.once("rights")]

ACCOUNT = "vgpu-webhook"
CHECK = "vgpu-webhook-check"

NEVER_SEEN = {
    # Used by the server-side applies that make the objects: they are authorized as `patch` and as `create`, and the log
    # has only the first. Without it that is refused.
    "create secrets vgpu-webhook-certificates in vgpu-webhook": "server-side apply of a Secret that is not there",
    "create configmaps vgpu-webhook-last-good in vgpu-webhook": "server-side apply of a ConfigMap that is not there",
    f"create {KIND}.{GROUP[:-3]} {REGISTRATION}": "server-side apply of a webhook configuration that is not there",
    f"create validatingwebhookconfigurations.{GROUP[:-3]} {REGISTRATION}": "the same",
    # A pod that comes before the news of its namespace: tests/controlplane/test_cluster_mode.py.
    "get namespaces": "used only if the watch is slower than a pod",
}
"""What is granted, needed, and cannot be seen in the log."""


class Scene:
    """A fresh release, and the requests of its replicas to the API server."""

    def __init__(self, release: Release) -> None:
        """Remember its replicas: those of an earlier release may still be ending."""
        self.release = release
        self.client = release.plane.client
        self._pods: set[str] = set()

    def uses(self) -> list[Used]:
        """All requests so far of the replicas that there are, or were."""
        self._pods |= {pod["metadata"]["name"] for pod in self.release.replicas()}
        return [use for use in used(self.release.plane.audit_log, NAMESPACE, ACCOUNT) if use.pod in self._pods]

    def wait_for(self, *lines: str) -> None:

        def lacking() -> list[str]:
            seen = {str(use.right) for use in self.uses()}
            return [line for line in lines if line not in seen]

        try:
            self.release.plane.wait_until(lambda: not lacking(), "used", 60)
        except TimeoutError:
            pytest.fail(f"not used: {lacking()}")


@pytest.fixture(scope="module")
def scene(any_release: Release) -> Iterator[Scene]:
    """A release that was just installed, and goes through all that makes it ask for something."""
    any_release.remove()
    any_release.ensure()
    scene = Scene(any_release)
    any_release.serving(TEAM)
    mapping_comes_and_goes_bad(scene)
    registration_is_taken_over(scene)
    workloads_are_told(scene)
    yield scene
    scene.client.delete("v1", "configmaps", "acme", NAMESPACE)


def config_map(text: str) -> Object:
    """A mapping in a ConfigMap."""
    # An invalid one of others would be denied.
    return mapping("acme", text, {"app.kubernetes.io/managed-by": "Helm"})


def mapping_comes_and_goes_bad(scene: Scene) -> None:
    """A new key: webhook configuration and record are written. Then nonsense: an Event."""
    good = {
        "vendor": "acme",
        "family": "acme",
        "keys": {"card": {"resource": "acme.example/card", "is": "devices"}},
        "forms": [{"name": "cards", "absent": {"memory": "all", "cores": "unlimited"}}],
    }
    scene.client.create(config_map(json.dumps(good)), NAMESPACE).accepted()
    scene.wait_for(
        f"update configmaps vgpu-webhook-last-good in {NAMESPACE}", f"update {KIND}.{GROUP[:-3]} {REGISTRATION}"
    )
    bad = {"data": {"mapping.yaml": json.dumps({**good, "kesy": {}})}}
    scene.client.patch("v1", "configmaps", "acme", bad, NAMESPACE).accepted()
    scene.wait_for(f"create events in {NAMESPACE}")


def registration_is_taken_over(scene: Scene) -> None:
    """A newer version takes the webhook configuration over, which is reported; deleted, it is created again."""
    registration = scene.release.registration()
    assert registration is not None
    registration["metadata"]["annotations"]["vgpu-webhook.io/written-by"] = "99.0 0123456789ab"
    for webhook in registration["webhooks"]:
        webhook["matchConditions"] = [
            matchCondition for matchCondition in webhook["matchConditions"] if matchCondition["name"] != "gpu-keys"
        ]
    path, query = f"/apis/{GROUP}/{KIND}/{REGISTRATION}", {"fieldManager": "vgpu-webhook"}
    scene.client.call("PUT", path, registration, query=query).accepted()
    scene.wait_for("create events in default")
    scene.client.delete(GROUP, KIND, REGISTRATION).accepted()
    scene.release.plane.wait_until(scene.release.registration, "registered again", 60)


def workloads_are_told(scene: Scene) -> None:
    """Of pods that get a default: the owners of ReplicaSet and Job are looked up."""
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    labels = {"app": "told"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "told"}, "spec": spec}
    job_template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    job_spec = {"template": job_template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "told"}, "spec": job_spec}
    for each in (deployment, job):
        scene.client.create(each, TEAM).accepted()
    scene.release.plane.wait_until(lambda: _all_treated(scene.client, labels), "pods of both treated", 60)
    scene.wait_for(f"create events in {TEAM}", f"get jobs.batch told in {TEAM}")
    for version, resource in (("apps/v1", "deployments"), ("batch/v1", "jobs")):
        scene.client.delete(version, resource, "told", TEAM)


def _all_treated(client: Client, labels: dict[str, str]) -> bool:
    """Whether each of two workloads has a pod, and it was treated; others are deleted, so that their owner makes another.

    The API server learns of a webhook configuration that is created again only after it has stored it.
    """
    [(key, value)] = labels.items()
    pods = client.list("v1", "pods", TEAM, f"{key}={value}")
    passed_by = [pod["metadata"]["name"] for pod in pods if STATUS not in pod["metadata"].get("annotations", {})]
    for name in passed_by:
        client.delete("v1", "pods", name, TEAM)
    return not passed_by and len({pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods}) == 2


def test_nothing_is_lacking_and_nothing_too_much(scene: Scene) -> None:
    """Every request of the replicas was granted, and every grant was used; what the log can't show is explained."""
    grants = granted(scene.client, NAMESPACE, ACCOUNT)
    assert len(grants) > 20

    def left() -> list[str]:
        return sorted(set(unused(grants, (use.right for use in scene.uses()))) - NEVER_SEEN.keys())

    try:
        scene.release.plane.wait_until(lambda: not left(), "all grants used", 60)
    except TimeoutError:
        pytest.fail(f"granted and never used: {left()}")
    uses = scene.uses()
    assert not missing(grants, (use.right for use in uses))
    assert not [use for use in uses if use.status in {401, 403}]
    assert {str(grant) for grant in grants} >= NEVER_SEEN.keys()


def test_each_replica_uses_the_token_of_its_own_pod(scene: Scene) -> None:
    """The projected one: it is bound to the pod, and ends."""
    assert {use.pod for use in scene.uses()} >= set(scene.release.ready())


NEVER_GRANTED = {
    # It holds keys: whether certificates are valid, the API server says in the dry run.
    f"get secrets vgpu-webhook-certificates in {NAMESPACE}",
}


ON_DEMAND = {"list leases.coordination.k8s.io"}
"""Asked for where no pod of the scheduler has a node yet: here another test's may have."""


def test_the_doctors_rights_are_those_that_it_uses(scene: Scene) -> None:
    """While `helm test` runs it may do what its checks ask for, and nothing more; afterwards nothing."""
    release = scene.release
    scene.client.delete("v1", "configmaps", "acme", NAMESPACE).accepted()
    release.run("upgrade", "--reset-then-reuse-values", "--set", f"test.namespaces={{{TEAM}}}")
    hooks = [each for each in yaml.safe_load_all(release.run("get hooks")) if each]
    grants: set[Right] = set()
    for each in hooks:
        if "rules" in each:
            grants |= rights_of(each, each["metadata"].get("namespace", ""))
    before = len(list(used(release.plane.audit_log, NAMESPACE, CHECK)))
    release.serving(TEAM)
    release.run("test")
    uses = list(used(release.plane.audit_log, NAMESPACE, CHECK))[before:]
    assert missing(grants, (use.right for use in uses)) == sorted(NEVER_GRANTED)
    assert {str(use.right) for use in uses if use.status in {401, 403}} == NEVER_GRANTED
    assert set(unused(grants, (use.right for use in uses))) <= ON_DEMAND
    assert granted(scene.client, NAMESPACE, CHECK) == set()
