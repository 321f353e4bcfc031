"""Property 9: no container is left without the devices that it requests, by a variable or by ConfigMaps that nobody makes.

Kubelet: ``pkg/kubelet/kubelet_pods.go`` (001a80e9), `GenerateRunContainerOptions`, puts the pod's variables after those of
device plugins, and the container runtime takes the last of a name. KAI: ``gpusharing/pod_mutation.go`` and its binder.
"""

from collections.abc import Iterator
from typing import Any

from tests.fuzz.amounts import NVIDIA
from tests.fuzz.enforcement import effective
from tests.fuzz.environment import KAI_MAPS
from tests.fuzz.properties import refers
from tests.fuzz.served import stays
from tests.fuzz.trial import Finding, Trial, all_containers

Json = dict[str, Any]

NAMES = {"hygon": "HCU", "iluvatar": "IX", "kunlun": "CXPU", "neuron": "AWS_NEURON"}
"""By vendor the beginning of the variable that its container runtime reads, if that is not the vendor's name."""
OF_KAI = {"kai", "nvfractions"}
HIDING = ("void", "none", "")
REPORTED = {"VGW606", "VGW610"}
"""The guard removed and reported the variable, or it was reported as hiding the devices."""


def hidden_findings(trial: Trial) -> Iterator[Finding]:
    """Everything that keeps a container from what it requests."""
    if trial.skipped or not trial.enforced or not trial.decision.allowed:
        return
    pairs = zip(trial.containers(), trial.before, trial.after, strict=True)
    moved = False
    for (before, after), read, got in pairs:
        if read.meaning is None or got.meaning is None:
            continue
        hardware = "NVIDIA" if got.vendor in NVIDIA else NAMES.get(got.vendor or "", (got.vendor or "").upper())
        name = f"{hardware}_VISIBLE_DEVICES"
        sides = (after.get("resources") or {}).values()
        translated = bool(read.used) and not any(key in (side or {}) for side in sides for key in read.used)
        hides = effective(before).get(name, "all") in HIDING and not stays(trial, read)
        if hides and REPORTED.isdisjoint(trial.codes):
            yield Finding("9 hidden devices are reported", f"{before['name']}: {name}", got.vendor or "")
        if translated and effective(after).get(name, "all") in HIDING:
            yield Finding("9 what is translated sees its devices", f"{after['name']}: {name}", got.vendor or "")
        moved = moved or (read.vendor in OF_KAI and got.vendor not in OF_KAI)
    yield from _references(trial, moved=moved)


def _references(trial: Trial, *, moved: bool) -> Iterator[Finding]:
    """Who leaves KAI takes none of its ConfigMaps along; who stays keeps them."""
    notes = trial.case.pod["metadata"].get("annotations") or {}
    beginning = notes.get(KAI_MAPS)
    if beginning is None:
        return
    referring = list(_referring(trial.case.pod, beginning))
    left = list(_referring(trial.stored, beginning))
    remains = (trial.stored["metadata"].get("annotations") or {}).get(KAI_MAPS) == beginning
    if moved and (left or remains):
        yield Finding("9 who leaves KAI leaves its ConfigMaps", str(left))
    kai_alone = all(read.vendor in {None, *OF_KAI} for read in trial.after)
    if not moved and kai_alone and (left != referring or not remains):
        yield Finding("9 who stays with KAI keeps its ConfigMaps", f"{referring} became {left}")


def _referring(pod: Json, beginning: str) -> Iterator[str]:
    for container in all_containers(pod):
        for each in container.get("env") or []:
            if refers((each.get("valueFrom") or {}).get("configMapKeyRef"), beginning):
                yield each["name"]
        for each in container.get("envFrom") or []:
            if refers(each.get("configMapRef"), beginning):
                yield "envFrom"
    for each in pod["spec"].get("volumes") or []:
        if refers(each.get("configMap"), beginning):
            yield "volume"
