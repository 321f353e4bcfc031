"""What surrounds a request in a container and a pod: variables, mounts, security, placement, marks of schedulers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.draw import Draw
from tests.yaml_text import load_yaml

Json = dict[str, Any]

TABLES: Mapping[str, Any] = load_yaml((Path(__file__).parent / "environment.yaml").read_text())
GUARDED, LOADER, PLAIN = TABLES["guarded"], TABLES["loader"], TABLES["plain"]
VALUES, PATHS, SOURCES = TABLES["values"], TABLES["paths"], TABLES["sources"]
SCHEDULERS, MARKS, SWITCHES, HINTS = (TABLES[name] for name in ("schedulers", "marks", "switches", "hints"))
MOUNTS, VOLUMES, ISOLATED, SECURITY = (TABLES[name] for name in ("mounts", "volumes", "isolated", "security"))
NODE_PATHS, DEVICE_FILES = TABLES["node_paths"], TABLES["device_files"]
KAI_MAPS = "runai/shared-gpu-configmap"
"""In which KAI's admission writes what the names of its ConfigMaps begin with (``gpusharing/pod_mutation.go``)."""
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"


def variables(draw: Draw) -> list[Json]:
    """The ``env`` of a container, with every way in which a value comes about."""
    found: list[Json] = []
    for _ in range(draw.pick((1, 1, 2, 3, 4))):
        kind = draw.random()
        name = draw.pick(LOADER if kind < 0.4 else GUARDED if kind < 0.7 else PLAIN)
        form = draw.random()
        if form < 0.1:
            found.append({"name": name, "valueFrom": draw.pick(SOURCES)})
        elif form < 0.14:
            found.append({"name": name})
        else:
            value = draw.pick(PATHS) if kind < 0.4 or draw.chance(0.2) else draw.pick(VALUES)
            found.append({"name": name, "value": value})
    return found


def isolate(draw: Draw, pod: Json) -> None:
    """Adds what takes containers out of their isolation: drawn last, so that all else stays what it was without it."""
    if not draw.chance(0.08):
        return
    spec, container, kind = pod["spec"], draw.pick(pod["spec"]["containers"]), draw.random()
    if kind < 0.4:
        name, value = draw.pick(ISOLATED)
        spec[name] = value
    elif kind < 0.6:
        container["securityContext"] = {**(container.get("securityContext") or {}), **draw.pick(SECURITY)}
    else:
        path = draw.pick((*NODE_PATHS, *DEVICE_FILES))
        spec["volumes"] = [*(spec.get("volumes") or []), {"name": "node", "hostPath": {"path": path}}]
        part: Json = draw.pick(({}, {}, {"subPath": "data"}, {"subPathExpr": "$(A)"}))
        mounts = container.get("volumeMounts") or []
        container["volumeMounts"] = [*mounts, {"name": "node", "mountPath": "/node", **part}]


def claim(draw: Draw, container: Json) -> None:
    """Adds a resource claim to a container, or a device class that becomes one, perhaps of 0 devices."""
    resources = container.setdefault("resources", {})
    if draw.chance(0.6):
        resources["claims"] = draw.pick(
            ([{"name": "own"}], [{"name": "own", "request": "r"}, {"name": "nic"}], [], None)
        )
    else:
        number = draw.pick(("1", "1", "2", "0", 0))
        for side in ("limits", "requests"):
            resources[side] = {
                **(resources.get(side) or {}),
                DEVICE_CLASS + draw.pick(("gpu.nvidia.com", "nic.x")): number,
            }


def around(draw: Draw, container: Json) -> None:
    """Adds to a container what may stand beside its request."""
    if draw.chance(0.015):
        claim(draw, container)
    if draw.chance(0.3):
        container["env"] = variables(draw)
    elif draw.chance(0.03):
        container["env"] = draw.pick((None, []))
    rare = draw.random()
    if rare < 0.03:
        container["envFrom"] = [{"configMapRef": {"name": "c"}}]
    elif rare < 0.06:
        container["volumeMounts"] = [draw.pick(MOUNTS) for _ in range(draw.pick((0, 1, 1, 2)))]
        if draw.chance(0.2):
            path = draw.pick(MOUNTS)["mountPath"]
            devices = {"volumeDevices": [{"name": "own", "devicePath": path}]}
            container |= devices if len(path) % 2 else {"terminationMessagePath": path}
    elif rare < 0.07:
        container["securityContext"] = {"privileged": draw.pick((True, True, False, None))}
    elif rare < 0.09:
        container["futureField"] = draw.pick((1, None, [{"a": "~/"}], {"limits": {"nvidia.com/gpu": "1"}}))


def place(draw: Draw, spec: Json) -> None:
    """Adds to a pod what says where it runs."""
    if draw.chance(0.3):
        spec["schedulerName"] = draw.pick(SCHEDULERS)
    if draw.chance(0.1):
        product = draw.pick(("A100", "T4", "H20"))
        other = draw.pick(({"gpu": "true"}, {"kubernetes.io/arch": "arm64"}, {"kubernetes.io/arch": "riscv64"}))
        spec["nodeSelector"] = draw.pick(({"nvidia.com/gpu.product": product}, other, other, {}, None))
    _share_by_nodes(draw, spec)
    rare = draw.random()
    if rare < 0.02:
        spec["nodeName"] = "node-1"
        spec["affinity"] = draw.pick((None, {}, {"nodeAffinity": {"futureField": 1}}))
    elif rare < 0.04:
        spec["affinity"] = card_by_affinity(draw)
    elif rare < 0.06:
        spec["volumes"] = draw.pick(VOLUMES)
    elif rare < 0.08:
        spec["runtimeClassName"] = draw.pick(("nvidia", "kata"))
    elif rare < 0.1:
        spec["tolerations"] = draw.pick((None, [], [{"operator": "Exists"}]))
    elif rare < 0.11:
        spec["futureField"] = {"a~b/c": [1.5, None]}
    elif rare < 0.12:
        ours = [{"name": "own", "resourceClaimTemplateName": f"vgpu-{'0a' * 10}"}]
        spec["resourceClaims"] = draw.pick(
            ([{"name": "own", "resourceClaimName": "c"}, {"name": "nic"}], ours, [], None)
        )


def _share_by_nodes(draw: Draw, spec: Json) -> None:
    """Selects GKE's nodes that share or cut their devices."""
    if draw.chance(0.03):
        key, value = draw.pick((("gpu-sharing-strategy", "time-sharing"), ("gpu-partition-size", "1g.5gb")))
        spec["nodeSelector"] = {f"cloud.google.com/gke-{key}": value}


def card_by_affinity(draw: Draw) -> Json:
    """A required affinity that names devices."""
    cards = [draw.pick(("A100", "T4", "H20")) for _ in range(draw.pick((1, 1, 2)))]
    expression = {"key": "nvidia.com/gpu.product", "operator": draw.pick(("In", "In", "NotIn")), "values": cards}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def refer(draw: Draw, spec: Json, annotations: dict[str, str]) -> None:
    """Adds to a pod what KAI's webhook has written there before: references to ConfigMaps of its binder."""
    annotations[KAI_MAPS] = draw.pick(("p-abcdefg-shared-gpu", "p-abcdefg-shared-gpu", "", "own"))
    name = "p-abcdefg-shared-gpu-0"
    container = draw.pick(spec["containers"])
    names = ("NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION")
    references = [{"name": each, "valueFrom": {"configMapKeyRef": {"name": name, "key": each}}} for each in names]
    container["env"] = [*(container.get("env") or []), *references]
    container["envFrom"] = [*(container.get("envFrom") or []), {"configMapRef": {"name": f"{name}-evar"}}]
    volume = {"name": f"{name}-vol", "configMap": {"name": name}}
    spec["volumes"] = draw.pick(([volume], [{"name": "own", "emptyDir": {}}, volume], []))


def mark(draw: Draw, labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Adds keys that schedulers, users and an earlier pass of the webhook leave on pods."""
    if draw.chance(0.05):
        kind, key, values = draw.pick(SWITCHES)
        (labels if kind == "label" else annotations)[key] = draw.pick(values)
    rare = draw.random()
    if rare < 0.05:
        annotations[draw.pick(MARKS)] = "1"
    elif rare < 0.09:
        annotations[draw.pick(HINTS)] = draw.pick(("A10", "3000", "/~1"))
    elif rare < 0.13:
        annotations["vgpu-webhook.io/status"] = draw.pick(("{}", "no JSON", '{"policy":"forged","containers":{}}'))
        annotations["vgpu-webhook.io/summary"] = "forged"
        labels["vgpu-webhook.io/changed"] = draw.pick(("translated", "filled", "completed", "forged"))
    elif rare < 0.15:
        labels[draw.pick(("aliyun.com/gpu-count", "volcano.sh/gpu-num"))] = draw.pick(("1", "2", "02", "0", "two", ""))
    elif rare < 0.155:
        labels["clearml-injector/fraction"] = "0.500"
    elif rare < 0.16:
        annotations["gpu-fraction-num-devices"] = draw.pick(("1", "2", "0", "x"))
    elif rare < 0.17:
        labels["vgpu-webhook.io/inject"] = "disabled"
    elif rare < 0.175:
        annotations["kubernetes.io/config.mirror"] = "x"
