"""Pods made to be slow: every list and map that is read, filled to any size, in every vendor's keys."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from webhook.admission import Namespace
from webhook.admission.decision import MAX_STATUS
from webhook.labels import STATUS
from webhook.mapping.model.policy import Policy

Members: TypeAlias = dict[str, Any]
Grow: TypeAlias = Callable[[int], Members]
"""A pod of so many parts."""

LARGEST: Final = 7 * 1024 * 1024
"""Bytes of a review that the server takes at most."""

SHARE: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3k"}
MOST: Final = 1024
"""Containers that are looked through."""


def container(number: int = 0, resources: Any = None, **members: Any) -> Members:
    """One container, by default with a share."""
    side = SHARE if resources is None else resources
    return {"name": f"c{number}", "resources": {"limits": side, "requests": side}, **members}


def pod(*containers: Any, metadata: Any = None, **spec: Any) -> Members:
    """A pod of these containers."""
    return {"metadata": {"name": "p", **(metadata or {})}, "spec": {"containers": list(containers), **spec}}


def annotated(annotations: Mapping[str, str], *containers: Any, **spec: Any) -> Members:
    """A pod with these annotations, and with a container that requests a share unless others are listed."""
    return pod(*(containers or [container()]), metadata={"annotations": annotations}, **spec)


def keys(prefix: str, count: int, value: str = "1") -> dict[str, str]:
    """Many keys that begin alike."""
    return {f"{prefix}{number}": value for number in range(count)}


def bare(count: int) -> list[Members]:
    """Containers that ask for nothing by themselves."""
    return [{"name": f"c{number}"} for number in range(count)]


def env(**members: Any) -> Grow:
    """A share with many variables; of a text the `#` is replaced by a number."""

    def entry(number: int) -> Members:
        return {
            key: value.replace("#", str(number)) if isinstance(value, str) else value for key, value in members.items()
        }

    return lambda count: pod(container(env=[entry(number) for number in range(count)]))


def each_env(containers: int, **entry: Any) -> Grow:
    """As many variables in each of several shares."""
    return lambda count: pod(
        *(container(number, env=[entry] * max(1, count // containers)) for number in range(containers))
    )


PROFILE: Final = "nvidia.com/mig-{}g.{}gb"
ELSEWHERE: Final = {"fieldRef": {"fieldPath": "metadata.name"}}
FROM: Final = "vgpu-webhook.io/container.{}.memory"


def claimed(containers: int, selected: int) -> Members:
    """A pod with a forged status, whose claims select so many devices: as long a status as is read, and another annotation."""
    written = {"share.gpu.nvidia.com/uuid": ",".join("a" * min(selected, MAX_STATUS // 3))}
    one = {"vendor": "nvidia", "target": "dra-nvidia", "claim": "vgpu-0123456789ab", "written": written}
    most = MAX_STATUS // len(json.dumps({"c1234": one}))
    status = json.dumps({"containers": {f"c{number}": one for number in range(min(containers, most))}})
    claims = [{"name": "c", "resourceClaimTemplateName": one["claim"]}]
    annotations = {STATUS: status, "other": "x" * containers * selected}
    return annotated(annotations, resourceClaims=claims)


def unread_status(count: int) -> Members:
    """A pod whose status has as many lists as fit, where no step looks, and a name as long as the count."""
    unread = json.dumps({"containers": {"c0": {"claim": "c", "request": {"x": [[]] * min(count, MAX_STATUS // 5)}}}})
    claims = [{"name": "c", "resourceClaimTemplateName": "c"}]
    return annotated({STATUS: unread}, resourceClaims=claims, schedulerName="x" * count)


PODS: Final[dict[str, Grow]] = {
    "a claim of many devices": lambda n: claimed(1, n),
    "claims of many containers": lambda n: claimed(n, 32),
    "a status of much that nobody reads": unread_status,
    "members of metadata that nobody reads": lambda n: pod(container(), metadata=keys("x", n)),
    "containers that ask": lambda n: pod(*map(container, range(n))),
    "as many as may ask, names of any length": lambda n: pod(
        *({**container(i), "name": f"{i}{'c' * (n // 128)}"} for i in range(128))
    ),
    "containers without": lambda n: pod(container(), *bare(n)),
    "containers near a key": lambda n: pod(*(container(i, {"nvidia.com/gpu-": "1"}) for i in range(n))),
    "most containers near a key": lambda n: pod(
        *(container(i, keys("nvidia.com/gpumen", n // MOST)) for i in range(MOST))
    ),
    "names near a key": lambda n: pod(container(0, keys("nvidia.com/gp", n))),
    "names begun by a key": lambda n: pod(container(0, keys("aliyun.com/gpu-mem", n))),
    "slices": lambda n: pod(container(0, {PROFILE.format(i % 9 + 1, i + 1): "1" for i in range(n)})),
    "the same slice by many names": lambda n: pod(
        container(0, {PROFILE.format(1, i + 1): "1" for i in range(n)}, image="i")
    ),
    "slices of many containers": lambda n: pod(
        *(container(c, {PROFILE.format(1, i + 1): "1" for i in range(n // 128)}) for c in range(128))
    ),
    "names of a pattern": lambda n: pod(
        container(0, keys("nvidia.com/gpu-x.shared", n) | keys("cambricon.com/mlu", n))
    ),
    "quantities of forty": lambda n: pod(container(0, {PROFILE.format(1, i + 1): f"0.{i:037}1" for i in range(n)})),
    "numbers as quantities": lambda n: pod(container(0, {PROFILE.format(1, i + 1): i + 0.5 for i in range(n)})),
    "requests only": lambda n: pod(*({"name": f"c{i}", "resources": {"requests": SHARE}} for i in range(min(n, 128)))),
    "owned annotations": lambda n: annotated(keys("gpushare.alibabacloud.com/", n) | keys("hami.io/x", n)),
    "as many owned annotations as are taken": lambda n: annotated(
        {f"gpushare.alibabacloud.com/{'x' * (n // 250)}{i}": "1" for i in range(250)},
        container(0, {"aliyun.com/gpu-mem": "8"}),
    ),
    "hints of a pattern": lambda n: annotated(
        {f"nvidia.com/container.x{i}.gpu-compute.mode": "1" for i in range(n)} | {FROM.format("c0"): "1Gi"},
        container(0, {"nvidia.com/gpu": "1"}),
    ),
    "keys of one container more": lambda n: annotated(
        {FROM.format(f"c{i}"): "1Gi" for i in range(MOST)} | {FROM.format("missing"): "1Gi"},
        *({"name": f"c{i}{'y' * (n // MOST)}"} for i in range(MOST)),
    ),
    "list of any length": lambda n: annotated(
        {"vke.volcengine.com/container-multiple-gpu": ",".join(["1"] * n)},
        *(container(i, {"vke.volcengine.com/mgpu-memory": "512"}) for i in range(128)),
    ),
    "list for most containers": lambda n: annotated(
        {"vke.volcengine.com/container-multiple-gpu": ",".join(["1"] * MOST), "x": "x" * n},
        *(
            container(
                i, {"vke.volcengine.com/mgpu-memory": "512", "vke.volcengine.com/mgpu-core": "10"} if i > 895 else {}
            )
            for i in range(MOST)
        ),
    ),
    "containers named in one key": lambda n: annotated(
        {"gpu-fraction": "0.5", "gpu-fraction-container-name": ",".join(f"c{i % MOST}" for i in range(n))}, *bare(MOST)
    ),
    "guarded env": env(name="CUDA_DEVICE_MEMORY_LIMI#"),
    "env of many containers": each_env(128, name="NVIDIA_VISIBLE_DEVICES", value="none"),
    "search paths": env(name="LD_LIBRARY_PATH", value=":/a"),
    "taken names in many containers": lambda n: pod(
        *(
            container(
                c,
                env=[
                    *({"name": f"VGPU_WEBHOOK_LD_LIBRARY_PATH_{i}"} for i in range(n // 128)),
                    {"name": "LD_LIBRARY_PATH", "valueFrom": ELSEWHERE},
                ],
            )
            for c in range(128)
        )
    ),
    "long search paths of many containers": lambda n: pod(
        *(container(c, env=[{"name": "LD_LIBRARY_PATH", "value": "/a:" * (n // 128)}]) for c in range(128))
    ),
    "mounts of many containers": lambda n: pod(
        *(
            container(c, volumeMounts=[{"name": "vgpu-shim-", "mountPath": "//tmp/../tmp/x"} for _ in range(n // MOST)])
            if c < 128
            else {
                "name": f"c{c}",
                "volumeMounts": [{"name": "vgpu-shim-", "mountPath": "//tmp/../x"} for _ in range(n // MOST)],
            }
            for c in range(MOST)
        )
    ),
    "affinity of devices": lambda n: pod(
        container(),
        affinity=_required(
            [
                {
                    "matchExpressions": [
                        {"key": "nvidia.com/gpu.product", "operator": "In", "values": [f"v{i}" for i in range(n // 20)]}
                    ]
                    * 20
                }
            ]
        ),
    ),
}
"""By what is piled up in them."""


def _required(terms: list[Any]) -> Members:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


SETTINGS: Final = {"nodeName": "affinity", "cards": {"A": "40Gi", "B": "80Gi"}}
"""Those under which more is looked at."""


def named_for_each(policy: Policy, containers: int) -> Iterator[tuple[str, Grow]]:
    """For each vendor with keys in labels or annotations: all its keys for so many containers."""
    for vendor in policy.in_force:
        carried_keys = [key for key in vendor.keys.values() if key.place != "resource"]
        if not carried_keys:
            continue

        def grow(size: int, vendor: Any = vendor, carried_keys: Any = carried_keys) -> Members:
            labels: dict[str, str] = {}
            annotations: dict[str, str] = {}
            for key in carried_keys:
                value = ",".join(["1"] * containers) if key.listed else "1"
                value = ",".join(f"c{number}" for number in range(containers)) if key.kind == "container" else value
                for template in key.spellings:
                    names = [f"c{number}" for number in range(containers if template.variables else 1)]
                    carried = {template.render({"container": name}) or "": value for name in names}
                    (labels if key.place == "label" else annotations).update(carried)
            resources = {
                key.spellings[0].text: "1"
                for key in vendor.keys.values()
                if key.place == "resource" and not key.spellings[0].variables
            }
            requesting = min(containers, 128)
            return pod(
                *(container(number, resources) for number in range(requesting)),
                *bare(containers)[requesting:],
                metadata={"labels": labels, "annotations": {**annotations, "padding": "x" * size}},
            )

        yield f"{vendor.name} for {containers} containers", grow


def many_vendors(policy: Policy) -> Grow:
    """Containers in the keys of all vendors, beside keys that might be marks or hints of any of them."""
    names = [
        next((key.spellings[0].text for key in vendor.keys.values() if key.place == "resource"), "")
        for vendor in policy.in_force
    ]
    requesting = [container(i, {name: "100"}) for i, name in enumerate(names) if name and "{" not in name]
    return lambda count: pod(
        *requesting,
        metadata={
            "annotations": {f"nvidia.com/container.{i:x}.gpu-compute.mod": "" for i in range(count)},
            "labels": {f"runai-gpu-grou{i:x}": "" for i in range(count)},
        },
    )


@dataclass(frozen=True, slots=True)
class Where:
    """A namespace in which pods are treated in one way."""

    name: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]

    @property
    def namespace(self) -> Namespace:
        opted = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
        return Namespace("team", opted | dict(self.labels), self.annotations)


def _defaults(value: str) -> dict[str, str]:
    return {f"vgpu-webhook.io/default-{dimension}": value for dimension in ("devices", "cores")}


WHERE: Final = (
    Where("as it is", {}, {}),
    Where("to nvidia", {"vgpu-webhook.io/target": "nvidia", "vgpu-webhook.io/guard": "strip"}, {}),
    Where("to aliyun, warned", {"vgpu-webhook.io/target": "aliyun"}, {"vgpu-webhook.io/mode": "warn"}),
    Where("to vke", {"vgpu-webhook.io/target": "vke", **_defaults("1")}, {"vgpu-webhook.io/rollout": "50"}),
    Where("wrong annotations", {"vgpu-webhook.io/guard": "?", "vgpu-webhook.io/shim": "?", **_defaults("?")}, {}),
)
"""Each way of treating pods."""


def of_size(grow: Grow, size: int) -> bytes:
    """A pod of about so many bytes."""
    few, more = len(json.dumps(grow(4096))), len(json.dumps(grow(8192)))
    if more == few:
        return json.dumps(grow(1)).encode()
    parts = max(1, 4096 + (size - few) * 4096 // (more - few))
    return json.dumps(grow(parts)).encode()
