"""What could take a share out of its limit, as parts of a pod; the table in ``docs/threats.md`` says what becomes of each."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

NAME: Final = "main"
LIMITS: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
CONFIG_MAP: Final = "ways-out"
"""A ConfigMap with what follows."""

UNSEEN: Final = {
    "CUDA_DEVICE_MEMORY_LIMIT": "80g",
    "CUDA_DEVICE_MEMORY_LIMIT_0": "80g",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/opt/own/cache",
    "CUDA_DEVICE_SM_LIMIT": "100",
    "CUDA_DEVICE_SM_LIMIT_0": "100",
    "CUDA_REDIRECT": "/opt/own/libown.so",
    "GPU_CORE_UTILIZATION_POLICY": "disable",
    "LD_AUDIT": "/opt/own/libown.so",
    "LD_LIBRARY_PATH": "/opt/own",
    "LD_PRELOAD": "/opt/own/libown.so",
}
"""What `envFrom` or an image could set, unseen; of no effect beside the shim's own."""


@dataclass(frozen=True, slots=True)
class WayOut:
    """The parts that are added to a pod with a share; `beside` is another container."""

    container: Json = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    beside: Json | None = None

    def pod(self, image: str) -> Json:
        """The pod with its share."""
        main = {"name": NAME, "image": image, "resources": {"limits": LIMITS}, **self.container}
        beside = [] if self.beside is None else [{"name": "beside", "image": image, **self.beside}]
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [main, *beside],
            **self.spec,
        }
        metadata = {"name": "way-out", "annotations": self.annotations}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _env(name: str, value: str) -> Json:
    return {"env": [{"name": name, "value": value}]}


def _mount(path: str) -> WayOut:
    volumes = [{"name": "own", "emptyDir": {}}]
    return WayOut({"volumeMounts": [{"name": "own", "mountPath": path}]}, {"volumes": volumes})


def _of_node(path: str) -> WayOut:
    volumes = [{"name": "node", "hostPath": {"path": path}}]
    return WayOut({"volumeMounts": [{"name": "node", "mountPath": "/node"}]}, {"volumes": volumes})


def _adding(capability: str) -> WayOut:
    return WayOut({"securityContext": {"capabilities": {"add": [capability]}}})


_DISABLED: Final = _env("CUDA_DISABLE_CONTROL", "true")
_REFERENCE: Final = {"configMapKeyRef": {"name": CONFIG_MAP, "key": "value"}}

_LOADER = "`LD_PRELOAD` by `valueFrom`, `LD_AUDIT`, `GLIBC_TUNABLES` with which the loader ignores its variables"
_OVER = "a mount, a file of the termination message or a block device over the shim or these, also through `..`"
_KERNEL = (
    "`privileged`, `hostPID`, `procMount: Unmasked`, "
    "capabilities with which a container reaches the kernel (`SYS_MODULE` …)"
)
_HONEST = "`SYS_ADMIN`, `SYS_PTRACE`; `hostIPC`, `shareProcessNamespace`"
_NODE = "hostPath: `/`, `/proc`, `/dev/nvidia*`, of the kubelet, sockets of the container runtime"
WAYS_OUT: Final = [
    ("`CUDA_DISABLE_CONTROL: true`, and other variables of the library", WayOut(_DISABLED)),
    ("the same in another container, which HAMi's and Volcano's plugins can read", WayOut(beside=_DISABLED)),
    ("the same by `valueFrom`", WayOut({"env": [{"name": "CUDA_DISABLE_CONTROL", "valueFrom": _REFERENCE}]})),
    (
        "the same, and the loader's variables, by `envFrom`",
        WayOut({"envFrom": [{"configMapRef": {"name": CONFIG_MAP}}]}),
    ),
    ("`NVIDIA_VISIBLE_DEVICES: all`", WayOut(_env("NVIDIA_VISIBLE_DEVICES", "all"))),
    ("libraries in `LD_PRELOAD`", WayOut(_env("LD_PRELOAD", "/opt/own/libown.so"))),
    (_LOADER, WayOut({"env": [{"name": "LD_PRELOAD", "valueFrom": _REFERENCE}]})),
    ("folders in `LD_LIBRARY_PATH`", WayOut(_env("LD_LIBRARY_PATH", "/opt/own"))),
    (_LOADER, WayOut(_env("LD_AUDIT", "/opt/own/libown.so"))),
    (_LOADER, WayOut(_env("GLIBC_TUNABLES", "glibc.rtld.enable_secure=1"))),
    ("a mount over `/etc/ld.so.preload`", _mount("/etc/ld.so.preload")),
    ("a mount over `/overrideEnv`, whose variables HAMi-core takes", _mount("/overrideEnv")),
    (_OVER, _mount("/usr/local/vgpu-shim")),
    (_OVER, WayOut({"terminationMessagePath": "/usr/local/vgpu-shim/libvgpu.so"})),
    (_OVER, _mount("/proc/self/root/usr/local/vgpu-shim")),
    (_KERNEL, WayOut({"securityContext": {"privileged": True}})),
    (_KERNEL, _adding("SYS_MODULE")),
    (_HONEST, _adding("SYS_ADMIN")),
    (_KERNEL, WayOut({"securityContext": {"procMount": "Unmasked"}})),
    (_KERNEL, WayOut(spec={"hostPID": True})),
    (_HONEST, WayOut(spec={"shareProcessNamespace": True})),
    (_NODE, _of_node("/run/containerd")),
    (_NODE, _of_node("/dev/nvidia0")),
    ("hostPath: `/dev`", _of_node("/dev")),
    ("hostPath: the shim's folder or one above it, writable", _of_node("/usr/local")),
    ("annotations of the Container Device Interface", WayOut(annotations={"cdi.k8s.io/all": "nvidia.com/gpu=all"})),
    ("runtime classes of gVisor and Kata Containers", WayOut(spec={"runtimeClassName": "gvisor"})),
    ("`nodeName`, which bypasses the scheduler", WayOut(spec={"nodeName": "node-1"})),
    (
        "`deviceclass.resource.kubernetes.io/share.gpu.nvidia.com`",
        WayOut({"resources": {"limits": {"deviceclass.resource.kubernetes.io/share.gpu.nvidia.com": "1"}}}),
    ),
    (
        "allocation marks of a scheduler",
        WayOut(annotations={"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,81920,100:;"}),
    ),
]
"""Each with the text of its row in the table."""

_SHELL: Final = {"name": "debug", "image": "app"}
ADDED_LATER: Final = "an ephemeral (debugging) container with any of these"
LATER: Final = [
    {**_SHELL, **_DISABLED},
    {**_SHELL, **_env("NVIDIA_VISIBLE_DEVICES", "all")},
    {**_SHELL, "securityContext": {"privileged": True}},
    {**_SHELL, "volumeMounts": [{"name": "vgpu-shim", "mountPath": "/shim"}]},
]
"""Ephemeral containers of a pod with a share."""
LATER_HIDDEN: Final = [_SHELL]
"""Where devices are hidden, also one that leaves open which it sees: its image may ask for all."""

_PAGE: Final = (Path(__file__).parents[1] / "docs/threats.md").read_text()
_TABLE: Final = _PAGE.partition("## Ways out of a share")[2]

ROWS: Final = re.findall(r"^\| (.+?) \| (.+?) \|(.*) \|$", _TABLE, re.MULTILINE)[1:]
"""The rows of the table: the way, what is done, why."""

DONE: Final = {way: done for way, done, _ in ROWS}
DENIED: Final = frozenset(way for way, done in DONE.items() if done == "denied")
