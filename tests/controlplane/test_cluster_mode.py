"""`serve` in a cluster: it registers itself, follows ConfigMaps and namespaces, and can be missed by whoever has no GPU."""

import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from tests.controlplane.client import Answer, Client, definition, plural
from tests.controlplane.examples import FOLDER
from tests.controlplane.in_cluster import serving, unregister
from tests.controlplane.objects import GPU, mapping, mutating, namespace, pod, settings
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process
from tests.depth import one_in
from tests.waiting import PATIENCE
from webhook.workloads import known_workloads, pods_in

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

OWN = "vgpu-webhook"
TEAM = "cluster-mode"
GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
NAME = "00-vgpu-webhook"
MEMORY = "nvidia.com/gpumem"
SETTLE = ("--ca-settle", "1")


SETTINGS = settings("validation: [pods, workloads]\n")
"""Documents are not judged, so that invalid ones are stored."""


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the webhook's own namespace and one that has opted in."""
    control_plane.create_namespace(namespace(OWN))
    control_plane.create_namespace(namespace(TEAM, {"vgpu-webhook.io/inject": "enabled"}))
    control_plane.client.create(SETTINGS, OWN).accepted()
    yield control_plane
    unregister(control_plane)
    control_plane.client.delete("v1", "configmaps", SETTINGS["metadata"]["name"], OWN)


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A webhook that has registered itself."""
    with serving(plane, tmp_path_factory.mktemp("cluster-mode"), *SETTLE) as process:
        plane.wait_until(lambda: memory_of(create(plane.client, "probe")) is not None, "called")
        yield process


def create(client: Client, name: str, limits: dict[str, str] = GPU, where: str = TEAM) -> Answer:
    """What the API server would store, or why not."""
    return client.create(pod(name, limits), where, dry_run=True)


def memory_of(answer: Answer) -> str | None:
    """The memory in a stored pod."""
    containers = answer.accepted()["spec"]["containers"]
    found: str | None = containers[0]["resources"]["limits"].get(MEMORY)
    return found


@pytest.mark.once("loss")
def test_pods_meanwhile_get_one_of_the_good_policies(plane: ControlPlane, webhook: Process) -> None:
    """A document that goes from good to bad and back again and again refuses no pod and leaves none untouched."""
    good = ["extends: nvidia\ndefaults: {memory: 6001Mi}\n", "extends: nvidia\ndefaults: {memory: 7001Mi}\n"]
    texts = [good[0], "extends: nvidia\nnothing: 1\n", good[1], "vendor: ["]
    plane.client.create(mapping("nvidia", good[0]), OWN).accepted()
    plane.wait_until(lambda: memory_of(create(plane.client, "first")) == "6001", "the first policy")
    ended, created = threading.Event(), queue.Queue[None]()

    def flip() -> None:
        try:
            for number in range(44):
                change = {"data": {"mapping.yaml": texts[number % 4]}}
                plane.client.patch("v1", "configmaps", "nvidia", change, OWN).accepted()
                if number % 22 == 0:  # a good one, which has its turn
                    plane.wait_until(lambda: seen[-1:] == [("6001", "7001")[number // 22]], "in force")  # noqa: B023
                for _ in range(number % 6):
                    created.get(timeout=PATIENCE)
        finally:
            ended.set()

    seen: list[str | None] = []
    flipping = threading.Thread(target=flip)
    flipping.start()
    while not ended.is_set():
        seen.append(memory_of(create(plane.client, "meanwhile")))
        created.put(None)
    flipping.join()
    plane.client.delete("v1", "configmaps", "nvidia", OWN).accepted()
    assert set(seen) == {"6001", "7001"}
    plane.wait_until(lambda: memory_of(create(plane.client, "again")) == "5k", "built-in default")


@pytest.mark.once("loss")
def test_pod_may_come_before_the_news_of_its_namespace(plane: ControlPlane, webhook: Process) -> None:
    """The first pod of a namespace that was just created is treated like any other."""
    for number in range(5):
        name = f"cluster-mode-{number}"
        plane.create_namespace(namespace(name, {"vgpu-webhook.io/inject": "enabled"}))
        assert memory_of(create(plane.client, "first", where=name)) == "5k"


def sees_memory(name: str) -> dict[str, Any]:
    """The configuration of a webhook like HAMi's that nobody answers for; it is called for pods with memory in MiB."""
    when = {"name": "asks", "expression": f"'{MEMORY}' in object.spec.containers[0].resources.limits"}
    return mutating(
        name,
        "vgpu.hami.example",
        {"url": "https://127.0.0.1:1/webhook"},
        namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": TEAM}},
        matchConditions=[when],
    )


@pytest.mark.parametrize("name,called", [("hami-webhook", True), ("00-hami-webhook", False)])
def test_webhooks_of_later_names_see_what_was_written(
    plane: ControlPlane, webhook: Process, name: str, *, called: bool
) -> None:
    """HAMi's webhook is called once, and for translated pods, too; it would miss them if its name came before ours."""
    foreign = pod("foreign", {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"})
    foreign["metadata"]["annotations"] = {"vgpu-webhook.io/target": "nvidia"}

    def translated() -> Answer:
        return plane.client.create(foreign, TEAM, dry_run=True)

    def refused(answer: Answer) -> bool:
        return 'failed calling webhook "vgpu.hami.example"' in answer.message

    assert memory_of(translated()) == "4096"
    plane.client.create(sees_memory(name)).accepted()
    try:
        plane.wait_until(lambda: refused(create(plane.client, "own", {MEMORY: "3000"})), "called")
        assert refused(translated()) is called
        assert called or memory_of(translated()) == "4096"
    finally:
        plane.client.delete(GROUP, KIND, name).accepted()
    plane.wait_until(lambda: not refused(create(plane.client, "own", {MEMORY: "3000"})), "no longer called")


EXAMPLES = sorted(path.name for path in (FOLDER / "workloads").glob("*.yaml"))
EXAMPLE_NAMESPACE = "gpu-examples"
CLUSTER_KINDS = {"Namespace", "ResourceFlavor", "ClusterQueue"}
GROUPS_OF_THE_API_SERVER = {"", "apps", "batch"}
SHARES = {
    "argo-workflow.yaml": {"main": ("4000Mi", "30%")},
    "indexed-job.yaml": {"part": ("25%", "25%")},
    "job.yaml": {"train": ("8000Mi", "50%")},
    "kueue-job.yaml": {"train": ("8000Mi", "unlimited")},
    "pytorchjob.yaml": {"pytorch": ("8000Mi", "unlimited")},
    "raycluster.yaml": {"ray-worker": ("50%", "50%")},
    "vllm.yaml": {"vllm": ("12000Mi", "60%")},
}
"""The containers with a share of each example: their memory and cores. Argo calls that of a workflow `main`."""
WITHOUT = {"argo-workflow.yaml": 1, "raycluster.yaml": 1}
"""How many pods of an example request no GPU."""
PODS = {"indexed-job.yaml": 4, "pytorchjob.yaml": 2}
"""How many pods with a share an example has, if not one; of a kind without a controller here, one of each template."""


@pytest.fixture
def kinds(plane: ControlPlane, name: str) -> Iterator[None]:
    """The custom resources of an example are defined."""
    objects = example_objects(name)
    found = {(each["apiVersion"], each["kind"]) for each in objects if group_of(each) not in GROUPS_OF_THE_API_SERVER}
    made = [
        definition(version, kind, scope="Cluster" if kind in CLUSTER_KINDS else "Namespaced") for version, kind in found
    ]
    for each in made:
        plane.client.create(each).accepted()
    for version, kind in found:
        plane.wait_until(partial(served, plane, f"/apis/{version}/{plural(kind)}"), f"{kind} is served")
    yield
    for each in made:
        plane.client.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", each["metadata"]["name"])


def served(plane: ControlPlane, path: str) -> bool:
    """Whether the API server lists a collection."""
    return plane.client.call("GET", path).status == 200


def example_objects(name: str) -> list[dict[str, Any]]:
    """The objects in a file."""
    return list(yaml.safe_load_all((FOLDER / "workloads" / name).read_text()))


def group_of(each: dict[str, Any]) -> str:
    """The API group of an object."""
    return str(each["apiVersion"].rpartition("/")[0])


def kubectl(plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What kubectl answers."""
    command = [str(plane.binaries.path("kubectl")), "--kubeconfig", str(plane.kubeconfig), *arguments]
    environment = {"HOME": str(plane.folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def example_pods(plane: ControlPlane, name: str, count: int) -> list[dict[str, Any]]:
    """The pods of an example, which controllers make; those of kinds without a controller here are made of the templates."""
    for each in example_objects(name):
        group, kind = group_of(each), each["kind"]
        if group == "batch" and each["spec"].get("suspend"):
            # So Kueue admits it.
            start = {"spec": {"suspend": False}}
            plane.client.patch("batch/v1", "jobs", each["metadata"]["name"], start, EXAMPLE_NAMESPACE).accepted()
        if group in GROUPS_OF_THE_API_SERVER:
            continue
        for index, (_, template) in enumerate(pods_in(each, group, kind, known_workloads())):
            name_of = f"{each['metadata']['name']}-{index}"
            metadata = {"name": name_of, "labels": template["metadata"].get("labels", {})}
            if template["spec"].get("containers"):
                made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
                plane.client.create(made, EXAMPLE_NAMESPACE).accepted()

    def found() -> list[dict[str, Any]] | None:
        pods = plane.client.list("v1", "pods", EXAMPLE_NAMESPACE)
        return pods if len(pods) >= count else None

    return plane.wait_until(found, f"{count} pods of {name}")


@pytest.mark.parametrize("name", one_in(3, EXAMPLES))
def test_examples_apply_as_they_stand(
    plane: ControlPlane, controllers: ControlPlane, webhook: Process, kinds: None, name: str
) -> None:
    """`kubectl apply` takes each file without a warning; its pods are stored with their shares."""
    applied = kubectl(plane, "apply", "--filename", str(FOLDER / "workloads" / name))
    assert applied.returncode == 0, applied.stderr
    assert applied.stderr == ""
    try:
        pods = example_pods(plane, name, PODS.get(name, 1) + WITHOUT.get(name, 0))
        shares = [json.loads(text) for each in pods if (text := status_of(each)) is not None]
        assert len(shares) == PODS.get(name, 1)
        for each in shares:
            requests = {container: found["request"] for container, found in each["containers"].items()}
            assert {key: (one["memory"], one["cores"]) for key, one in requests.items()} == SHARES[name]
        schedulers = {each["spec"]["schedulerName"] for each in pods if status_of(each) is not None}
        assert schedulers == {"hami-scheduler"}
    finally:
        for each in example_objects(name):
            if each["kind"] != "Namespace":
                plane.client.delete(
                    each["apiVersion"], plural(each["kind"]), each["metadata"]["name"], EXAMPLE_NAMESPACE
                )
        plane.wait_until(partial(cleared, plane), f"no pods of {name}")


def cleared(plane: ControlPlane) -> bool:
    """Delete the pods; whether there are none, and nothing that makes any."""
    for each in plane.client.list("v1", "pods", EXAMPLE_NAMESPACE):
        plane.client.delete("v1", "pods", each["metadata"]["name"], EXAMPLE_NAMESPACE)
    makers = (("v1", "pods"), ("apps/v1", "replicasets"), ("batch/v1", "jobs"))
    return not any(plane.client.list(*each, EXAMPLE_NAMESPACE) for each in makers)


def status_of(each: dict[str, Any]) -> str | None:
    """What the webhook reports in a pod."""
    found: str | None = each["metadata"].get("annotations", {}).get("vgpu-webhook.io/status")
    return found
