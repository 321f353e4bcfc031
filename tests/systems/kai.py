"""KAI Scheduler: scheduler, admission, binder and the maker of pod groups; a loop stands in for its reservation pods."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.controlplane.beside import beside
from tests.controlplane.client import Object, definition
from tests.controlplane.processes import free_ports

from .place import UUIDS, Place, Running, System, pods_webhook, requesting
from .shapes import DEVICE_MIB, DEVICES, Share

GROUP: Final = "scheduling.run.ai"
KINDS: Final = (
    ("kai.scheduler/v1alpha1", "Topology", "Cluster"),
    (f"{GROUP}/v2", "Queue", "Cluster"),
    (f"{GROUP}/v2alpha2", "PodGroup", "Namespaced"),
    (f"{GROUP}/v1alpha2", "BindRequest", "Namespaced"),
)
CLASSES: Final = {"train": 50, "build": 100, "inference": 125}
RESERVATIONS: Final = "kai-resource-reservation"
GROUPS: Final = {"podgroups": f"{GROUP}/v2alpha2", "bindrequests": f"{GROUP}/v1alpha2", "configmaps": "v1"}
"""What its pods leave behind where nothing is garbage collected."""
PLUGINS: Final = (
    *("predicates", "proportion", "priority", "nodeavailability", "resourcetype", "podaffinity", "elastic", "kubeflow"),
    *("ray", "subgrouporder", "taskorder", "nominatednode", "dynamicresources", "minruntime", "topology", "snapshot"),
    *("sg-nodelocalgreedy", "sg-multinodegang", "gpupack"),
)
"""Of its operator's default configuration (pkg/operator/operands/scheduler), but those below."""


@contextmanager
def start(place: Place) -> Iterator[Running]:
    """Run it with its kinds, and the queues and priority classes of its chart, and GPU sharing switched on."""
    program, kubeconfig = place.programs, f"--kubeconfig={place.plane.kubeconfig}"
    for version, named, scope in KINDS:
        made = definition(version, named, scope=scope)
        made["spec"]["versions"][0]["subresources"] = {"status": {}}
        place.created(made)
    # Of every namespace, by the controller manager; its scheduler waits for what pods mount.
    ca = {"name": "kube-root-ca.crt", "namespace": place.namespace}
    place.created({"apiVersion": "v1", "kind": "ConfigMap", "metadata": ca, "data": {"ca.crt": ""}})
    place.namespaces("kai-scheduler", RESERVATIONS, "kai-scale-adjust")
    account = {"name": RESERVATIONS, "namespace": RESERVATIONS}
    place.created({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    for name, value in CLASSES.items():
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        place.created({**kind, "metadata": {"name": name}, "value": value})
    for name, above in (("default-parent-queue", {}), ("default-queue", {"parentQueue": "default-parent-queue"})):
        place.created(_queue(name, above))
    served = place.folder / "k8s-webhook-server/serving-certs"
    served.mkdir(parents=True)
    for file in (place.certificate.certificate, place.certificate.key):
        shutil.copy(file, served)
    environment = {**os.environ, "KUBECONFIG": str(place.plane.kubeconfig), "TMPDIR": str(place.folder)}
    ports = free_ports(10)
    labels = {"nvidia.com/gpu.memory": str(DEVICE_MIB), "nvidia.com/gpu.count": str(DEVICES)}

    def probes(number: int) -> list[str]:
        metrics, health = ports[2 * number : 2 * number + 2]
        return [f"--metrics-bind-address=127.0.0.1:{metrics}", f"--health-probe-bind-address=127.0.0.1:{health}"]

    with ExitStack() as running:
        running.enter_context(place.node({"nvidia.com/gpu": DEVICES}, {"labels": labels}))
        commands: tuple[list[str | Path], ...] = (
            [
                program / "scheduler",
                f"--scheduler-conf={_configuration(place)}",
                f"--listen-address=127.0.0.1:{ports[6]}",
                f"--plugin-server-port={ports[7]}",
                "--detailed-fit-errors",
            ],
            [program / "admission", "--gpu-sharing-enabled", f"--webhook-addr={ports[8]}", *probes(0)],
            [program / "binder", kubeconfig, *probes(1)],
            [program / "podgrouper", kubeconfig, *probes(2)],
        )
        for command in commands:
            running.enter_context(place.run(command, environment))
        running.enter_context(beside(lambda over: _reserve(place, over)))
        running.callback(_tidy, place)
        url = f"https://127.0.0.1:{ports[8]}/mutate--v1-pod"
        condition = {"name": "scheduler", "expression": "object.spec.schedulerName == 'kai-scheduler'"}
        name = "mutating-kai-admission"
        webhook = pods_webhook(name, f"{name}.kai.scheduler", matchConditions=[condition])
        yield Running(lambda pod: _given(place, pod), webhook, url, lambda: _tidy(place), needed=True)


def _configuration(place: Place) -> str:
    names = "".join(f"  - name: {name}\n" for name in PLUGINS)
    placement = "  - name: nodeplacement\n    arguments: {cpu: binpack, gpu: binpack}\n  - name: gpusharingorder\n"
    file = place.folder / "kai-scheduler.yaml"
    actions = "actions: allocate,consolidation,reclaim,preempt,stalegangeviction\n"
    file.write_text(f"{actions}tiers:\n- plugins:\n{names}{placement}")
    return str(file)


def _queue(name: str, above: Object) -> Object:
    """A queue without a limit."""
    unlimited = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    spec = {**above, "resources": dict.fromkeys(("cpu", "gpu", "memory"), unlimited)}
    return {"apiVersion": f"{GROUP}/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _given(place: Place, pod: Object) -> dict[str, Share]:
    """What its binder was told to bind: devices, and of each a portion with two decimals."""
    name = pod["metadata"]["name"]
    for request in place.plane.client.list(GROUPS["bindrequests"], "bindrequests", place.namespace):
        if request["spec"]["podName"] == name and (received := request["spec"].get("receivedGPU")):
            count, portion = received.get("count", 0), float(received.get("portion", 0))
            annotations = pod["metadata"].get("annotations", {})
            named = annotations.get("gpu-fraction-container-name") or pod["spec"]["containers"][0]["name"]
            whole = request["spec"].get("receivedResourceType") == "Regular"
            [container] = requesting(pod) if whole else [named]
            return {container: Share(count, round(portion * DEVICE_MIB), 100 if whole else None)} if count else {}
    return {}


def _reserve(place: Place, over: threading.Event) -> None:
    """Do what its reservation pods do: say which device they got."""
    client, number = place.plane.client, 0
    while not over.wait(0.1):
        for pod in client.list("v1", "pods", RESERVATIONS):
            if "run.ai/reserve_for_gpu_index" not in pod["metadata"].get("annotations", {}):
                name, index = pod["metadata"]["name"], {"run.ai/reserve_for_gpu_index": UUIDS[number % DEVICES]}
                client.patch("v1", "pods", name, {"metadata": {"annotations": index}}, RESERVATIONS)
                client.patch("v1", "pods", f"{name}/status", {"status": {"phase": "Running"}}, RESERVATIONS)
                number += 1


def _tidy(place: Place) -> None:
    client = place.plane.client
    for resource, group in GROUPS.items():
        for each in client.list(group, resource, place.namespace):
            if each["metadata"]["name"] != "kube-root-ca.crt":
                client.delete(group, resource, each["metadata"]["name"], place.namespace)
    for pod in client.list("v1", "pods", RESERVATIONS):
        client.delete("v1", "pods", pod["metadata"]["name"], RESERVATIONS)


KAI = System("kai", "kai", start)
