"""Volcano's mutating webhook of pods: what a resource group's administrator configured, and a scheduling gate.

Held against volcano-sh/volcano ed72c7c8, pkg/webhooks/admission/pods/mutate/mutate_pod.go (`createPatch`); a group as in
installer/helm/chart/volcano/config/volcano-admission.conf. It knows no resource name; the chart registers it with
`reinvocationPolicy: Never`.
"""

from .pod import Json, copied

GATE = {"name": "scheduling.volcano.sh/queue-allocation-gate"}
TOLERATION = {"key": "taint", "operator": "Exists", "effect": "NoSchedule"}


def volcano(pod: Json, *, group: bool = True, gate: bool = False) -> Json:
    """Node selector, toleration and scheduler of a group that the pod belongs to; the gate once, for a pod that opted in.

    The toleration is appended each time, the node selector written as a whole.
    """
    made = copied(pod)
    spec = made["spec"]
    if gate and GATE not in spec.setdefault("schedulingGates", []):
        spec["schedulingGates"].append(dict(GATE))
    if group:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "volcano.sh/nodetype": "gpu"}
        spec["tolerations"] = [*spec.get("tolerations", ()), dict(TOLERATION)]
        spec["schedulerName"] = "volcano"
    return made
