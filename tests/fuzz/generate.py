"""Pod number i of a seed: with its namespace and policy, always the same, whatever was generated before."""

from dataclasses import dataclass
from typing import Any

from tests.fuzz.belongings import belong
from tests.fuzz.draw import Draw
from tests.fuzz.environment import around, isolate, mark, place, refer
from tests.fuzz.misspelled import PREFIX, misspell
from tests.fuzz.policies import SETUPS
from tests.fuzz.requests import NAMES, VENDORS
from tests.fuzz.requests.ask import Ask
from tests.fuzz.texts import HOSTILE, written

Json = dict[str, Any]

DEFAULTS = {
    "devices": ("1", "2", "3", "4", "8", "2", "0", "02", "x", "9999999"),
    "memory": (
        "4Gi",
        "5000Mi",
        "5001Ki",
        "1Mi",
        "79Gi",
        "all",
        "all",
        "0",
        "4096",
        "8Ti",
        "-1Gi",
        "x",
        "12345678",
        "1500M",
    ),
    "cores": ("1", "25", "30", "33", "50", "99", "100", "100", "0", "30.5", "120", "-3", "x"),
}
"""A namespace's defaults of every kind; the last ones cannot be read."""

COUNTED_FOR_THE_POD = ("vke", "vke", "vke", "aliyun", "cce")
"""Targets that count devices in a key of the pod, so that what one container needs is read for the others, too."""


@dataclass(frozen=True, slots=True)
class Case:
    """One pod and everything that decides on it.

    Attributes:
        setup: index in `SETUPS`.
        labels, annotations: of the namespace.
        user: who creates the pod.
    """

    setup: int
    labels: dict[str, str]
    annotations: dict[str, str]
    user: str
    pod: Json


def case_of(seed: int, number: int) -> Case:
    """The case of this number."""
    draw = Draw((seed << 40) + number)
    setup = draw.whole(0, len(SETUPS) - 1)
    served = SETUPS[setup].home
    labels, annotations = _namespace(draw, served)
    user = "" if draw.chance(0.9) else "system:serviceaccount:kube-system:hami-scheduler"
    pod = _pod(draw, served)
    misspell(draw, labels, annotations, pod["metadata"])
    belong(draw, pod)
    isolate(draw, pod)
    return Case(setup, labels, annotations, user, pod)


def _target(draw: Draw, served: frozenset[str], names: tuple[str, ...] = NAMES) -> str:
    """Draws whom an annotation names: where the settings say who is served, mostly one of these."""
    ours = [name for name in names if name in served]
    return draw.pick(ours if ours and draw.chance(0.9) else names)


def _namespace(draw: Draw, served: frozenset[str]) -> tuple[dict[str, str], dict[str, str]]:
    labels = _treatment(draw)
    annotations: dict[str, str] = {}
    if draw.chance(0.5):
        for dimension, texts in DEFAULTS.items():
            if draw.chance(0.5):
                annotations[f"{PREFIX}default-{dimension}"] = draw.pick(texts)
    if draw.chance(0.1):
        annotations[f"{PREFIX}bare-devices"] = draw.pick(("whole", "whole", "share", "Whole"))
    odd = draw.random()
    if odd < 0.1:
        annotations[f"{PREFIX}target"] = _target(draw, served)
    elif odd < 0.16:
        annotations[f"{PREFIX}shim"] = draw.pick(("hostPath", "none", "csi"))
    elif odd < 0.2:
        annotations[f"{PREFIX}guard"] = draw.pick(("deny", "strip", "allow", "audit", "wrong"))
    return labels, annotations


def _treatment(draw: Draw) -> dict[str, str]:
    """The labels that say how pods are treated."""
    labels = {f"{PREFIX}inject": "enabled"}
    odd = draw.random()
    if odd < 0.04:
        labels[f"{PREFIX}mode"] = draw.pick(("warn", "audit", "observe", "enforce", "wrong"))
    elif odd < 0.05:
        labels[f"{PREFIX}rollout"] = draw.pick(("0", "50", "100", "x"))
    elif odd < 0.06:
        labels[f"{PREFIX}opt-out"] = "forbidden"
    elif odd < 0.065:
        labels[f"{PREFIX}inject"] = "disabled"
    elif odd < 0.2:
        level = draw.pick(("privileged", "baseline", "restricted", "wrong"))
        labels["pod-security.kubernetes.io/enforce"] = level
    return labels


def _pod(draw: Draw, served: frozenset[str]) -> Json:
    alike = draw.chance(0.06)
    vendor = draw.pick(NAMES) if draw.chance(0.5 if alike else 0.85) else "nvidia"
    count = draw.pick((2, 2, 3) if alike else (1, 1, 1, 1, 1, 1, 2, 2, 2, 3))
    labels: dict[str, str] = {"app": "a"} if draw.chance(0.5) else {}
    annotations: dict[str, str] = {}
    listed: list[str | None] = []
    containers = []
    for at in range(count):
        container, entry = _container(
            draw, f"c{at}", vendor if alike else _vendor(draw, vendor, at), labels, annotations
        )
        containers.append(container)
        listed.append(entry)
    spec: Json = {"containers": containers}
    if draw.chance(0.08):
        spec["initContainers"] = _init(draw, vendor, labels, annotations)
    if any(entry is not None for entry in listed):
        entries = [entry or "0" for entry in listed]
        if draw.chance(0.06):
            entries = draw.pick((entries[1:], [*entries, "1"], [*entries[1:], "x"]))
        annotations["vke.volcengine.com/container-multiple-gpu"] = draw.pick((",", ",", ",", ", ")).join(entries)
    place(draw, spec)
    mark(draw, labels, annotations)
    if draw.chance(0.3 if vendor in {"kai", "nvfractions"} else 0.005):
        refer(draw, spec, annotations)
    if alike and draw.chance(0.7):
        annotations[f"{PREFIX}target"] = _target(draw, served, COUNTED_FOR_THE_POD)
    elif draw.chance(0.55):
        target = (
            _target(draw, served) if draw.chance(0.97) else draw.pick(("nobody", "", "NVIDIA", "mps", "mig-single"))
        )
        annotations[f"{PREFIX}target"] = target
    return _whole(draw, spec, labels, annotations)


def _whole(draw: Draw, spec: Json, labels: dict[str, str], annotations: dict[str, str]) -> Json:
    metadata: Json = {"name": "p"}
    if draw.chance(0.1):
        metadata = {
            "generateName": "p-",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "d-5d8f", "controller": True}],
        }
    if labels or draw.chance(0.1):
        metadata["labels"] = labels or draw.pick((None, {}))
    if annotations or draw.chance(0.1):
        metadata["annotations"] = annotations or draw.pick((None, {}))
    if draw.chance(0.02):
        metadata["futureField"] = [1, {"a": None}]
    if draw.chance(0.002):
        spec["os"] = {"name": "windows"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _vendor(draw: Draw, vendor: str, at: int) -> str | None:
    """The vendor whose keys a container requests in: the pod's in the first container, and often in the others."""
    if at == 0 or draw.chance(0.5):
        return vendor
    return draw.pick(NAMES) if draw.chance(0.15) else None


def _init(draw: Draw, vendor: str, labels: dict[str, str], annotations: dict[str, str]) -> list[Json]:
    found = []
    for at in range(draw.pick((0, 1, 1, 1, 2))):
        container, _ = _container(draw, f"i{at}", vendor if draw.chance(0.5) else None, labels, annotations)
        if draw.chance(0.3):
            container["restartPolicy"] = "Always"
        found.append(container)
    return found


def _container(
    draw: Draw, name: str, vendor: str | None, labels: dict[str, str], annotations: dict[str, str]
) -> tuple[Json, str | None]:
    container: Json = {"name": name, "image": "i"}
    ask = Ask({}, {}, {}) if vendor is None else VENDORS[vendor](draw, name)
    resources: dict[str, Any] = {key: written(draw, value) for key, value in ask.resources.items()}
    if draw.chance(0.06):
        _spoil(draw, name, resources, annotations)
    if draw.chance(0.2):
        resources["cpu"] = "500m"
    labels.update(ask.labels)
    annotations.update(ask.annotations)
    if ask.annotations and draw.chance(0.08):
        annotations[draw.pick(list(ask.annotations))] = str(draw.pick(HOSTILE))
    if resources or draw.chance(0.1):
        container["resources"] = _sides(draw, resources)
    around(draw, container)
    return container, ask.listed


def _spoil(draw: Draw, name: str, resources: dict[str, Any], annotations: dict[str, str]) -> None:
    """Makes a request wrong in one of the ways in which requests are."""
    kind = draw.random()
    if kind < 0.35:
        resources.update(VENDORS[draw.pick(NAMES)](draw, name).resources)
    elif kind < 0.5 and resources:
        del resources[draw.pick(list(resources))]
    elif kind < 0.7 and resources:
        key = draw.pick(list(resources))
        at = draw.whole(key.find("/") + 1, len(key) - 1)
        resources[key[:at] + draw.pick(("", "x", key[at] * 2)) + key[at + 1 :]] = resources.pop(key)
    elif kind < 0.8 and resources:
        key = draw.pick(list(resources))
        annotations[key] = str(resources.pop(key))
    elif kind < 0.9:
        resources[draw.pick(("nvidia.com/pgpu", "example.com/a~b", "hugepages-2Mi", "nvidia.com/gpus", "x" * 70))] = "1"
    else:
        annotations[draw.pick(("gpu-fraction", f"nvidia.com/container.{name}.gpu-memory.limit", "gpu-memory"))] = "0.5"


def _sides(draw: Draw, resources: dict[str, Any]) -> Json:
    """Limits and requests of a container, in one of the shapes in which they arrive."""
    shape = draw.random()
    if shape < 0.6:
        return {"limits": resources, "requests": dict(resources)}
    if shape < 0.8:
        return {"limits": resources}
    if shape < 0.88:
        return {"requests": resources}
    if shape < 0.92:
        return {"limits": resources, "requests": draw.pick(({}, None))}
    if shape < 0.95:
        return {"limits": draw.pick(({}, None)), "requests": resources}
    if shape < 0.98:
        return {"limits": resources, "requests": {key: written(draw, value) for key, value in resources.items()}}
    first = dict(list(resources.items())[:1])
    return {"limits": first, "requests": resources, "futureField": [1]}
