"""Kueue with plain pods and Jobs, in the target's keys and in another vendor's: what it charges is what the pods get.

A pod is translated before Kueue sees it, the template of a Job never. So both end in one quota only if Kueue transforms the
names of both; with a quota on the target's names, a Job in another vendor's never starts.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.controlplane import build, in_cluster
from tests.controlplane.client import Object
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process
from tests.controlplane.product import registered, serving
from webhook.cluster.connection import RELEASE_NAMESPACE
from webhook.cluster.policy.documents import SETTINGS_NAME
from webhook.request import MIB, Number, parse_quantity

from . import programs
from .kueue import API, LABELS, create_queue, started
from .outcomes import opted_in, peaks, tell
from .place import NODE, Place, make_certificate
from .shapes import DEVICE_MIB, DEVICES, IMAGE, Share

pytestmark = [
    pytest.mark.systems,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not programs.chosen(["kueue"]), reason="SYSTEMS does not list kueue"),
]

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = Path(__file__).with_name("expected") / "kueue.txt"
KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "nvidia": ("nvidia.com/gpu", "nvidia.com/gpumem"),
    "volcano": ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"),
}
"""The count and the memory of each device, in MiB: of the target first."""
MEMORY: Final = "gpu.memory"
UNAVAILABLE: Final = re.compile(r"resource volcano\.sh/vgpu-(?:number|memory) unavailable")
"""Which of two it names is chance: Kueue goes through a map."""
CLAIMS: Final = re.compile(r"^```yaml\n(apiVersion: config.kueue.*?)^```$", re.MULTILINE | re.DOTALL)
GATE: Final = "KueueDRAIntegrationConsumableCapacity"
GROUP: Final = "resource.k8s.io/v1"
DRIVER: Final = "gpu.nvidia.com"
CLASS: Final = f"share.{DRIVER}"


def documented_claims() -> Object:
    """What docs/dra.md shows: keys and claims become one name of memory."""
    [block] = CLAIMS.findall((ROOT / "docs/dra.md").read_text())
    resources: Object = yaml.safe_load(block)["resources"]
    return resources


NODE_RESOURCES: Final = {
    "nvidia.com/gpu": 10 * DEVICES,
    "nvidia.com/gpumem": DEVICES * DEVICE_MIB,
    "nvidia.com/gpucores": 100 * DEVICES,
}


@contextmanager
def placed(folder: Path) -> Iterator[Place]:
    """A control plane of its own, with controllers, which make the pods of Jobs, and a scheduler under the target's name."""
    (folder / "plane").mkdir()
    with ControlPlane(build.find(), folder / "plane") as plane:
        plane.start_controller_manager()
        plane.start_scheduler(["hami-scheduler"])
        place = Place(plane, folder, "queued", make_certificate(folder), programs.KUEUE.folder(), [])
        with place.node(NODE_RESOURCES, {}):
            yield place


def pod_of(keys: str, devices: int = 2) -> Object:
    """A pod that requests 8 GiB of memory over some devices, in the keys of a vendor."""
    count, memory = KEYS[keys]
    limits = {count: str(devices), memory: str(8192 // devices)}
    container = {"name": "main", "image": IMAGE, "resources": {"limits": limits}}
    return {"metadata": {"labels": dict(LABELS)}, "spec": {"containers": [container], "restartPolicy": "Never"}}


def pod(name: str, keys: str, namespace: str) -> Object:
    """A plain pod."""
    made = pod_of(keys)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **made,
        "metadata": {**made["metadata"], "name": name, "namespace": namespace},
    }


def job(name: str, keys: str, namespace: str) -> Object:
    """A Job of one pod."""
    made = pod_of(keys)
    metadata = {"name": name, "namespace": namespace, "labels": dict(LABELS)}
    template = {**made, "metadata": {}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


DELETED: Final = (("/api/v1", "pods"), ("/apis/batch/v1", "jobs"))
AT_ONCE: Final = {"gracePeriodSeconds": "0"}
SHAPES: Final = {f"{keys}-{kind.__name__}": (kind, keys) for keys in KEYS for kind in (pod, job)}


def workload(place: Place, name: str) -> Object | None:
    """What Kueue made of a pod or a Job."""
    for found in place.plane.client.list(API, "workloads", place.namespace):
        if found["metadata"]["name"].startswith((f"pod-{name}-", f"job-{name}-")):
            return found
    return None


def given(place: Place, name: str) -> Share | None:
    """What the pod of a name, or of a Job of that name, was given, once it is on a Node."""
    for found in place.plane.client.list("v1", "pods", place.namespace):
        names = (found["metadata"]["name"], found["metadata"]["labels"].get("batch.kubernetes.io/job-name"))
        if name in names and found["spec"].get("nodeName") == NODE:
            limits = found["spec"]["containers"][0]["resources"]["limits"]
            count, memory = (int(limits[key]) for key in KEYS["nvidia"])
            return Share(count, memory)
    return None


def seen(place: Place, name: str) -> str | None:
    """A cell of the table, once it is known: what a pod or Job was given and charged, or why Kueue lets it wait."""
    place.check()
    made = workload(place, name)
    if made is None:
        return None
    for condition in made.get("status", {}).get("conditions", ()):
        if (condition["type"], condition["status"]) == ("QuotaReserved", "False"):
            return f"pending: {UNAVAILABLE.sub('a resource of Volcano unavailable', condition['message'])}"
    share = given(place, name)
    if share is None:
        return None
    [assigned] = made["status"]["admission"]["podSetAssignments"]
    usage = ", ".join(f"{key} {amount}" for key, amount in sorted(assigned["resourceUsage"].items()))
    return f"placed: main {share}; charged {usage}"


def outcome(place: Place, name: str) -> str:
    """The same, waited for."""
    return place.plane.wait_until(lambda: seen(place, name), f"{name} is placed, or waits")


def created(place: Place, name: str, shape: str) -> None:
    """Create a pod or Job."""
    make, keys = SHAPES[shape]
    place.plane.client.create(make(name, keys, place.namespace)).accepted()


def deleted(place: Place, name: str, shape: str) -> None:
    """Delete it, and wait until Kueue has forgotten it."""
    client = place.plane.client
    pods, jobs = (f"{api}/namespaces/{place.namespace}/{kinds}" for api, kinds in DELETED)
    if SHAPES[shape][0] is pod:
        client.call("DELETE", f"{pods}/{name}", query=AT_ONCE).accepted()
    else:
        # The API server's default orphans what a Job owns. No kubelet ends its pods.
        client.call("DELETE", f"{jobs}/{name}", query={"propagationPolicy": "Background"}).accepted()
        client.call("DELETE", pods, query={**AT_ONCE, "labelSelector": f"job-name={name}"}).accepted()
    place.plane.wait_until(lambda: workload(place, name) is None, f"{name} is forgotten")


def one_by_one(place: Place) -> dict[str, str]:
    """What becomes of each shape where there is room for it."""
    found = {}
    for shape in SHAPES:
        created(place, shape, shape)
        found[shape] = outcome(place, shape)
        deleted(place, shape, shape)
    return found


def in_turn(place: Place) -> dict[str, str]:
    """Two fill the quota, of different kinds and in different keys; the third waits until one has ended."""
    for shape in ("volcano-job", "nvidia-pod"):
        created(place, shape, shape)
        assert outcome(place, shape).startswith("placed"), shape
    name = "volcano-too-many-pods"
    created(place, name, "volcano-pod")
    waiting = outcome(place, name)
    deleted(place, "volcano-job", "volcano-job")
    after = place.plane.wait_until(lambda: given(place, name) and seen(place, name), f"{name} is placed in the end")
    assert isinstance(after, str)
    for each, shape in (("nvidia-pod", "nvidia-pod"), (name, "volcano-pod")):
        deleted(place, each, shape)
    return {name: waiting, "volcano-pod-once-one-has-ended": after}


def table(
    config: pytest.Config, place: Place, transformations: list[Object], quotas: Mapping[str, str], name: str
) -> dict[str, str]:
    """What becomes of all, with quotas and a name of the webhook's configuration, which decides the order."""
    began = time.monotonic()
    probe = pod("probe", "volcano", place.namespace)
    with (
        started(place, {"transformations": transformations}),
        serving(place.folder, opted_in(place, {"target": "nvidia"})) as product,
    ):
        create_queue(place, quotas)
        with registered(product, place.plane, place.selector(), probe, name):
            rows = {**one_by_one(place), **in_turn(place)} if transformations else one_by_one(place)
        tell(config, "kueue", time.monotonic() - began, peaks(place))
    return rows


@pytest.fixture(scope="module")
def found(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What becomes of all with one quota for the memory in both vendors' keys, and with quotas on the target's names."""
    with placed(tmp_path_factory.mktemp("one-quota")) as place:
        agreed = table(pytestconfig, place, documented_claims()["transformations"], {MEMORY: "16Gi"}, "00-vgpu-webhook")
    with placed(tmp_path_factory.mktemp("names")) as place:
        named = table(pytestconfig, place, [], dict.fromkeys(KEYS["nvidia"], "40000"), "00-vgpu-webhook")
    return {**agreed, **{f"{name}-untransformed": outcome for name, outcome in named.items()}}


def test_outcomes(found: dict[str, str], *, update_golden: bool) -> None:
    """Each has the outcome that was stated."""
    text = "".join(f"{name:32} {outcome}\n" for name, outcome in found.items())
    if update_golden:
        GOLDEN.write_text(f"{programs.first_line(programs.KUEUE)}\n\n{text}")
    assert text == GOLDEN.read_text().partition("\n\n")[2]


def test_both_sides_agree(found: dict[str, str]) -> None:
    """Pods and Jobs, in the target's keys and in others, are charged the memory that they get."""
    for shape in SHAPES:
        assert found[shape] == f"placed: main {Share(2, 4096)}; charged {MEMORY} {8192 * 1024**2}"


def test_both_sides_agree_in_the_other_order(
    found: dict[str, str], pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """Kueue's webhook before ours changes nothing: Kueue counts what is stored."""
    with placed(tmp_path) as place:
        other = table(pytestconfig, place, documented_claims()["transformations"], {MEMORY: "16Gi"}, "z-vgpu-webhook")
    assert other.items() <= found.items()


def devices_published(place: Place) -> None:
    """Two devices that are shared, as the driver publishes them, and the chart's class without the guard."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    memory = {"value": "80Gi", "requestPolicy": {"default": "80Gi", "validRange": {"min": "1Mi", "step": "1Mi"}}}
    devices = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "attributes": {"uuid": {"string": f"GPU-{number}"}},
            "capacity": {"memory": memory},
        }
        for number in range(2)
    ]
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    specs = {
        "DeviceClass": (CLASS, {"selectors": [selector]}),
        "ResourceSlice": (NODE, {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": devices}),
    }
    for kind, (name, spec) in specs.items():
        manifest = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
        place.plane.client.create(manifest).accepted()


def webhook_with_claims(place: Place) -> AbstractContextManager[Process]:
    """The webhook in a cluster, whose target writes claims; its namespace, and that of the pods."""
    labels = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
    metadata = {"name": place.namespace, "labels": labels}
    for each in (metadata, {"name": RELEASE_NAMESPACE}):
        place.plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": each})
    settings: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SETTINGS_NAME}}
    settings["data"] = {"settings.yaml": "{bareDevices: whole, target: dra-nvidia}\n"}
    place.plane.client.create(settings, RELEASE_NAMESPACE).accepted()
    folder = place.folder / "webhook"
    folder.mkdir()
    return in_cluster.serving(place.plane, folder, "--claims", "--ca-settle", "1")


def charged(place: Place, name: str) -> tuple[Number | None, str] | None:
    """What a pod or Job was charged once its pod is on a Node, with a claim; None and why, if Kueue lets it wait."""
    place.check()
    made = workload(place, name)
    for condition in (made or {}).get("status", {}).get("conditions", ()):
        if (condition["type"], condition["status"]) == ("QuotaReserved", "False"):
            return None, condition["message"]
    for found in place.plane.client.list("v1", "pods", place.namespace):
        names = (found["metadata"]["name"], found["metadata"]["labels"].get("batch.kubernetes.io/job-name"))
        if made is not None and name in names and found["spec"].get("nodeName"):
            [assigned] = made["status"]["admission"]["podSetAssignments"]
            [status] = found["status"]["resourceClaimStatuses"]
            claim = place.plane.client.get(GROUP, "resourceclaims", status["resourceClaimName"], place.namespace)
            results = claim.accepted()["status"]["allocation"]["devices"]["results"]
            given = ", ".join(each["consumedCapacity"]["memory"] for each in results)
            return parse_quantity(assigned["resourceUsage"][MEMORY]), given
    return None


def test_claims_and_jobs_end_in_one_quota(tmp_path: Path) -> None:
    """As docs/dra.md configures it: a pod is counted by its claim, a Job by its keys; what exceeds the quota waits."""
    with placed(tmp_path) as place, started(place, documented_claims(), GATE):
        devices_published(place)
        with webhook_with_claims(place):
            create_queue(place, {MEMORY: "20Gi"})
            place.plane.wait_until(lambda: claimed(place), "pods get claims")
            for name, shape in (("pod", "volcano-pod"), ("job", "nvidia-job")):
                created(place, name, shape)
                found = place.plane.wait_until(lambda name=name: charged(place, name), f"{name} runs")  # type: ignore[misc]
                assert found == (8192 * MIB, "4Gi, 4Gi"), f"{name}: {found}"
            created(place, "third", "volcano-pod")
            found = place.plane.wait_until(lambda: charged(place, "third"), "the third waits")
            assert "4Gi more needed" in found[1]
            deleted(place, "job", "nvidia-job")
            place.plane.wait_until(lambda: (charged(place, "third") or (None,))[0], "the third runs")


def claimed(place: Place) -> bool:
    """Whether the webhook is called."""
    probe = pod("probe", "volcano", place.namespace)
    return "resourceClaims" in place.plane.client.create(probe, dry_run=True).body.get("spec", {})
