"""The policies that pods are decided by: every kind of setting, inactive vendors made active, a cluster's own documents.

Each says beside its documents what they mean for the oracle, by hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from tests.fuzz.oracle.keys import Cluster
from tests.fuzz.oracle.meaning import ALL, GIB, MIB, Amount
from tests.mapping.vendors import unprobed
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.model.policy import Policy

Defaults = Mapping[str, int | Amount]

CONFIGURED = """
{extends: baidu, variables: {model: {write: a10_24g}}}
---
{extends: mig, variables: {profile: {write: [1g.10gb, 2g.20gb, 3g.40gb, 7g.80gb]}}}
---
{extends: ascend, variables: {chip: {write: 910B2}}}
---
{extends: cambricon, keys: {vmemory: {unit: 256Mi}}}
"""
"""What makes targets of the vendors that need a cluster's key for it."""
PLACING = """
---
extends: nvidia
ownedBy: ["system:serviceaccount:hami:scheduler"]
place:
  runtimeClassName: nvidia
  nodeSelector: {p.example.com/selector: "1"}
  tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
  labels: {p.example.com/label: "1"}
  annotations: {p.example.com/annotation: "1"}
---
extends: aliyun
place: {tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}], labels: {p.example.com/label: "1"}}
"""
"""Everything that a mapping can place."""
COPIED = """
---
extends: nvidia
shim:
  delivery:
  - image: {volume: vgpu-shim, reference: registry.example/shim, mountPath: /usr/local/vgpu-shim}
  - emptyDir:
      volume: vgpu-shim
      sizeLimit: 16Mi
      image: registry.example/shim
      command: [/copy, /usr/local/vgpu-shim]
      mountPath: /usr/local/vgpu-shim
"""
"""Deliveries that no level of Pod Security forbids."""
LOADED = """
---
extends: nvidia
shim:
  architectures: [amd64, arm64]
  files: [other.so]
  units: {memory: 1Ki, cores: 1%}
  libraryPath: {prefix: [/usr/local/vgpu-shim], imageDefault: [], ifUnset: leave}
  preload: {prefix: [/usr/local/vgpu-shim/libvgpu.so], file: ld.so.preload}
  env: {CUDA_DEVICE_MEMORY_LIMIT: "{memory}k", "CUDA_DEVICE_MEMORY_LIMIT_{index}": "{memory}k"}
  delivery:
  - hostPath: {volume: vgpu-shim, path: "/opt/{arch}", type: Directory, mountPath: /usr/local/vgpu-shim}
  - emptyDir:
      volume: vgpu-shim
      sizeLimit: 16Mi
      image: "registry.example/shim:{arch}"
      folder: "/opt/{arch}"
      mountPath: /usr/local/vgpu-shim
"""
"""A library of each architecture, loaded into every program, with a limit for each device, too."""
AUDITING = """
---
extends: nvidia
shim:
  libraryPath: {prefix: [/usr/local/vgpu-shim], imageDefault: [], variable: SHIM_PATH}
  audit: {files: [/usr/local/vgpu-shim/audit.so]}
"""
"""A library that the loader asks about symbols, and that extends the search path itself."""
NVIDIA_DEFAULTS: Defaults = {"devices": 1, "memory": ("size", 5000 * MIB)}
BUILT_IN_DEFAULTS: Mapping[str, Defaults] = {"nvidia": NVIDIA_DEFAULTS, "vgpu-manager": {"devices": 1}}
CARDS = {"A100": 40 * GIB, "T4": 15109 * MIB}


@dataclass(frozen=True, slots=True)
class Setup:
    """A policy as its documents, and what the oracle has to know of it.

    Attributes:
        mappings, settings: as YAML.
        cluster: what keys mean.
        target: the setting of that name.
        translate: vendor → its `translateTo`.
        defaults: of vendors, by dimension.
        drops: vendors that may drop cores.
        cards: bytes of a device by the name in the label of nodes.
        whole: whether counts alone are whole devices.
        served: vendors whose requests stay in their keys beside the target.
        claims_permitted: whether a resource claim may stand beside a request.
        unit: bytes in which the shim's limit of memory is written, and what follows the number.
        largest_device, largest_node: bytes and devices, of the settings of these names.
    """

    name: str
    mappings: str = CONFIGURED
    settings: str = "{}"
    cluster: Cluster = field(default_factory=lambda: Cluster(units={"cambricon": 256 * MIB}))
    target: str | None = None
    translate: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Defaults] = field(default_factory=lambda: BUILT_IN_DEFAULTS)
    drops: frozenset[str] = frozenset()
    cards: Mapping[str, int] = field(default_factory=dict)
    claims_permitted: bool = False
    whole: bool = False
    served: frozenset[str] = frozenset()
    unit: tuple[int, str] = (MIB, "m")
    largest_device: int | None = None
    largest_node: int | None = None


def _owned(name: str, vendor: str, **units: int | None) -> Cluster:
    return Cluster({name: vendor}, {"cambricon": 256 * MIB, **units})


_CARDS = "{cards: {A100: 40Gi, T4: 15109Mi}, "
SETUPS: tuple[Setup, ...] = (
    Setup("built-in", mappings="", cluster=Cluster()),
    Setup("configured"),
    Setup("target nvidia, devices", settings=_CARDS + "target: nvidia}", target="nvidia", cards=CARDS),
    Setup(
        "target aliyun, nodes by affinity, claims permitted",
        settings="{target: aliyun, nodeName: affinity, resourceClaims: warn}",
        target="aliyun",
        claims_permitted=True,
    ),
    Setup(
        "target volcano, MTT S5000",
        mappings=CONFIGURED + "---\n{extends: mthreads, variables: {model: {write: s5000}}}\n",
        settings="{target: volcano, podSecurityDefault: baseline}",
        cluster=Cluster(units={"cambricon": 256 * MIB}, moore_threads=(160,)),
        target="volcano",
    ),
    Setup(
        "gpushare active, vcuda the target",
        settings=_CARDS + "owners: {aliyun.com/gpu-mem: gpushare}, target: vcuda}",
        cluster=_owned("aliyun.com/gpu-mem", "gpushare"),
        target="vcuda",
        cards=CARDS,
    ),
    Setup(
        "gpushare active in MiB, nvidia's defaults large",
        mappings=CONFIGURED
        + "---\n{extends: gpushare, keys: {gpu-mem: {unit: 1Mi}}, drop: [cores]}\n"
        + "---\n{extends: nvidia, defaults: {devices: 2, memory: all, cores: 30}}\n",
        settings="{owners: {aliyun.com/gpu-mem: gpushare}}",
        cluster=_owned("aliyun.com/gpu-mem", "gpushare", gpushare=MIB),
        defaults={**BUILT_IN_DEFAULTS, "nvidia": {"devices": 2, "memory": ALL, "cores": ("percent", 30)}},
        drops=frozenset({"gpushare"}),
    ),
    Setup(
        "whole devices active", settings="{owners: {nvidia.com/gpu: whole}}", cluster=_owned("nvidia.com/gpu", "whole")
    ),
    Setup(
        "whole devices active and the target",
        settings="{owners: {nvidia.com/gpu: whole}, target: whole, nodeName: affinity}",
        cluster=_owned("nvidia.com/gpu", "whole"),
        target="whole",
    ),
    Setup(
        "slices of one size active",
        mappings=CONFIGURED + "---\n{extends: mig-single, variables: {profile: {write: 1g.10gb, model: A100-80}}}\n",
        settings="{owners: {nvidia.com/gpu: mig-single}}",
        cluster=Cluster({"nvidia.com/gpu": "mig-single"}, {"cambricon": 256 * MIB}, "1g.10gb"),
    ),
    Setup(
        "mps active, vke the target",
        settings="{owners: {nvidia.com/gpu.shared: mps}, target: vke}",
        cluster=_owned("nvidia.com/gpu.shared", "mps"),
        target="vke",
    ),
    Setup(
        "odd defaults, nothing denied lightly",
        mappings=CONFIGURED
        + "---\n{extends: nvidia, defaults: {memory: 5001Ki, cores: 33}, privileged: allow, place: {conflict: override}}\n"
        + "---\n{extends: vcuda, defaults: {memory: 1Mi, cores: 10}}\n"
        + "---\n{extends: volcano, place: {conflict: deny}}\n",
        defaults={
            **BUILT_IN_DEFAULTS,
            "nvidia": {"memory": ("size", 5001 * 1024), "cores": ("percent", 33)},
            "vcuda": {"memory": ("size", MIB), "cores": ("percent", 10)},
        },
    ),
    Setup(
        "the device plugin's shim, no defaults, translated by their mappings",
        mappings=CONFIGURED
        + "---\n{extends: nvidia, shim: {mode: plugin}, defaults: {devices: 0, memory: 0}}\n"
        + "---\n{extends: aliyun, translateTo: nvidia}\n---\n{extends: koordinator, translateTo: volcano}\n"
        + "---\n{extends: kai, drop: [cores]}\n",
        defaults={"vgpu-manager": {"devices": 1}},
        translate={"aliyun": "nvidia", "koordinator": "volcano"},
        drops=frozenset({"kai"}),
    ),
    Setup(
        "stripped variables, a limit or nothing",
        mappings=CONFIGURED
        + "---\nextends: nvidia\nshim: {unmet: deny}\nguard:\n"
        + '- {env: NVIDIA_VISIBLE_DEVICES, unless: [void, none, ""], whole: true, hides: true, action: strip}\n'
        + "- {env: CUDA_DISABLE_CONTROL, lifts: truthy, action: strip}\n"
        + "- {env: GPU_CORE_UTILIZATION_POLICY, lifts: [disable], action: strip}\n"
        + '- {env: ["CUDA_DEVICE_*_LIMIT*", CUDA_REDIRECT], unless: [], action: strip}\n- {list: hami-core}\n'
        + "- {list: nvidia-runtime}\n- {list: preload}\n- {list: node}\n",
        settings="{target: nvidia, largestDevice: 192Gi, largestNode: 12}",
        largest_device=192 * 1024**3,
        largest_node=12,
        target="nvidia",
    ),
    Setup(
        "percent of a device for Cambricon, qgpu the target",
        mappings=CONFIGURED.replace("256Mi", "1%"),
        settings=_CARDS + "target: qgpu}",
        cluster=Cluster(units={"cambricon": None}),
        target="qgpu",
        cards=CARDS,
    ),
    Setup("target kai", settings="{target: kai}", target="kai"),
    Setup(
        "target nvidia, everything placed, a scheduler's marks its own",
        mappings=CONFIGURED + PLACING,
        settings=_CARDS + "target: nvidia}",
        target="nvidia",
        cards=CARDS,
    ),
    Setup(
        "target kai, MTT S4000 and S5000",
        mappings=CONFIGURED + "---\n{extends: mthreads, variables: {model: {write: s4000-s5000}}}\n",
        settings="{target: kai}",
        cluster=Cluster(units={"cambricon": 256 * MIB}, moore_threads=(96, 160)),
        target="kai",
    ),
    Setup(
        "counts alone are whole, target nvidia",
        settings=_CARDS + "target: nvidia, bareDevices: whole}",
        target="nvidia",
        cards=CARDS,
        whole=True,
    ),
    Setup(
        "counts alone are whole, target kai, volcano and amd served",
        settings="{target: kai, bareDevices: whole, served: [volcano, amd]}",
        target="kai",
        whole=True,
        served=frozenset({"volcano", "amd"}),
    ),
    Setup(
        "volcano, slices and Intel's devices served, no target",
        settings="{served: [volcano, mig, intel]}",
        served=frozenset({"volcano", "mig", "intel"}),
    ),
    Setup("counts alone are whole, no target", settings="{bareDevices: whole}", whole=True),
    Setup(
        "a shim that an image brings, target nvidia",
        mappings=CONFIGURED + COPIED,
        settings="{target: nvidia, podSecurityDefault: restricted}",
        target="nvidia",
    ),
    Setup(
        "a shim that an init container copies, target nvidia",
        mappings=CONFIGURED + COPIED,
        settings="{target: nvidia, podSecurityDefault: restricted, imageVolumes: false}",
        target="nvidia",
    ),
    Setup(
        "a shim of each architecture, target nvidia, devices",
        mappings=CONFIGURED + LOADED,
        settings=_CARDS + "target: nvidia}",
        target="nvidia",
        cards=CARDS,
        unit=(1024, "k"),
    ),
    Setup(
        "a shim that audits, target nvidia",
        mappings=CONFIGURED + AUDITING,
        settings="{target: nvidia}",
        target="nvidia",
    ),
)


@cache
def policy_of(index: int) -> Policy:
    """The compiled policy of one of `SETUPS`; compiled once, and shared by a process and its children."""
    setup = SETUPS[index]
    return unprobed(parse(setup.mappings, "mappings"), parse(setup.settings, "settings")[0])
