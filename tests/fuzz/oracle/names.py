"""Whose resource name is it: every name of every vendor, and what the variable part of it says."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple


class Name(NamedTuple):
    """A resource name: the vendors that use it, its short name by vendor, and the hardware that it names."""

    short: Mapping[str, str]
    variant: str = ""


def _names(prefix: str, vendor: str, **shorts: str) -> dict[str, Name]:
    return {f"{prefix}{name}": Name({vendor: short}) for short, name in shorts.items()}


def _plain(prefix: str, vendor: str, *names: str) -> dict[str, Name]:
    return {f"{prefix}{name}": Name({vendor: name}) for name in names}


EXACT: dict[str, Name] = {
    **_plain("nvidia.com/", "nvidia", "gpumem", "gpumem-percentage", "gpucores", "priority"),
    "nvidia.com/gpu": Name({"nvidia": "gpu", "whole": "gpu", "mig": "slices"}),
    "nvidia.com/vgpu": Name({"nvidia": "gpu"}),
    "nvidia.com/gpualloc": Name({"nvidia": "gpu"}),
    **_names("nvidia.com/v", "nvidia", **{each: each for each in ("gpumem", "gpumem-percentage", "gpucores")}),
    "nvidia.com/gpu.shared": Name({"timeslicing": "gpu", "mps": "gpu"}),
    **_plain("nvidia.com/", "vgpu-manager", "vgpu-number", "vgpu-memory", "vgpu-cores"),
    "nvidia.com/vgpu-core": Name({"vgpu-manager": "vgpu-cores"}),
    "aliyun.com/gpu-mem": Name({"aliyun": "gpu-mem", "gpushare": "gpu-mem"}),
    "aliyun.com/gpu-core.percentage": Name({"aliyun": "gpu-core"}),
    **_plain("tencent.com/", "vcuda", "vcuda-core", "vcuda-memory"),
    **_plain("tke.cloud.tencent.com/", "qgpu", "qgpu-core", "qgpu-memory"),
    "tke.cloud.tencent.com/qgpu-core-greedy": Name({"qgpu": "greedy"}),
    **_plain("volcano.sh/", "volcano", "vgpu-number", "vgpu-memory", "vgpu-memory-percentage", "vgpu-cores"),
    **_plain("volcano.sh/", "volcano-legacy", "gpu-number", "gpu-memory"),
    "volcano.sh/gpu-mem.128Mi": Name({"cce": "gpu-mem"}),
    "volcano.sh/gpu-core.percentage": Name({"cce": "gpu-core"}),
    **_plain("vke.volcengine.com/", "vke", "mgpu-memory", "mgpu-core"),
    **_plain("koordinator.sh/", "koordinator", "gpu-memory", "gpu-core", "gpu"),
    "huawei.com/npu-core": Name({"koordinator": "npu-core"}),
    "koordinator.sh/gpu.shared": Name({"koordinator": "shared"}),
    "koordinator.sh/gpu-memory-ratio": Name({"koordinator": "ratio"}),
    **_plain("elasticgpu.io/", "elastic-gpu", "gpu-core", "gpu-memory"),
    "nano-gpu/gpu-percent": Name({"nano-gpu": "gpu-percent"}),
    **_plain("gpu.intel.com/", "intel", "memory.max", "millicores"),
    "gpu.intel.com/i915": Name({"intel": "cards"}, "i915"),
    "gpu.intel.com/xe": Name({"intel": "cards"}, "xe"),
    **_plain("iluvatar.ai/", "iluvatar", "vgpu", "vcuda-memory", "vcuda-core"),
    **_plain("mthreads.com/", "mthreads", "vgpu", "sgpu-memory", "sgpu-core"),
    **_plain("metax-tech.com/", "metax", "sgpu", "gpu", "vmemory", "vcore"),
    **_plain("amd.com/", "amd", "gpu", "gpumem", "gpumem-percentage", "gpucores"),
    **_plain("kunlunxin.com/", "kunlun", "xpu", "vxpu", "vxpu-memory"),
    **_plain("enflame.com/", "enflame", "gcu", "gcu-memory", "gcu-core", "drs-gcu", "vgcu", "vgcu-percentage"),
    "enflame.com/shared-gcu": Name({"enflame": "shared-gcu"}),
    **_plain("aws.amazon.com/", "neuron", "neuron", "neuroncore"),
    "cambricon.com/vmlu": Name({"cambricon": "vmlu"}),
    "birentech.com/gpu": Name({"biren": "gpu"}),
    "vastaitech.com/va": Name({"vastai": "va"}),
    **_names("hygon.com/dcu", "hygon", num="num", mem="mem", cores="cores"),
    **_names("hygon.com/hcu", "hygon", num="num", mem="mem", cores="cores"),
}
CHIPS = "MR-V100|MR-V50|BI-V150|BI-V100"
PATTERNS: tuple[tuple[re.Pattern[str], str, Mapping[str, str]], ...] = (
    (
        re.compile(rf"iluvatar\.ai/({CHIPS})(-vgpu|\.vMem|\.vCore)"),
        "iluvatar",
        {"-vgpu": "vgpu", ".vMem": "vcuda-memory", ".vCore": "vcuda-core"},
    ),
    (
        re.compile(r"baidu\.com/([a-z0-9]+(?:_[a-z0-9]+)?)_cgpu(_memory_percent|_memory|_core|)"),
        "baidu",
        {"": "cgpu", "_memory": "memory", "_memory_percent": "memory_percent", "_core": "core"},
    ),
    (
        re.compile(r"cambricon\.com/(mlu[0-9]*)\.smlu\.(vmemory|vcore)"),
        "cambricon",
        {"vmemory": "vmemory", "vcore": "vcore"},
    ),
    (
        re.compile(r"huawei\.com/Ascend(910A|910B[234]?|910B4-1|310P|910C)(-memory|-core|)"),
        "ascend",
        {"": "cards", "-memory": "memory", "-core": "core"},
    ),
    (re.compile(r"nvidia\.com/mig-([1-9]g\.[0-9]+gb(?:\.me)?)()"), "mig", {"": "slices"}),
    (re.compile(r"nvidia\.com/([a-z0-9]+(?:[.-][a-z0-9]+)*)\.shared()"), "timeslicing", {"": "gpu"}),
)


@lru_cache(maxsize=4096)
def name_of(resource: str) -> Name | None:
    """What a resource name is, or None for a name of nobody's."""
    if resource in EXACT:
        return EXACT[resource]
    for pattern, vendor, shorts in PATTERNS:
        match = pattern.fullmatch(resource)
        if match is not None:
            return Name({vendor: shorts[match[2]]}, match[1])
    return None


def owner_of(resource: str, owners: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Vendor, short name and variant of a resource name where these vendors are active for names of several."""
    name = name_of(resource)
    if name is None:
        return None
    vendor = owners.get(resource) or next(iter(name.short))
    vendor = "mig" if vendor == "mig-single" else vendor
    return vendor, name.short[vendor], name.variant
