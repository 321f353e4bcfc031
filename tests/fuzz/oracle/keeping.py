"""Who does not keep a container to its request, or its request free for it. Sources with each."""

from collections.abc import Mapping
from typing import Any

from tests.fuzz.oracle.meaning import ALL, UNLIMITED, Amounts

Json = dict[str, Any]

RESERVES = frozenset({"gpushare", "volcano-legacy", "kai"})
"""Who counts memory, and limits none: gpushare-scheduler-extender ``docs/userguide.md``, Volcano ``gpushare/share.go``, KAI
``docs/gpu-sharing/README.md``."""
PASSES_INIT = frozenset(
    {"gpushare", "aliyun", "vcuda", "volcano", "koordinator", "vgpu-manager", "ascend", "cambricon", "hygon"}
)
"""Who does not look at init containers: gpushare-scheduler-extender ``nodeinfo.go``, gpu-admission ``util.go``, Volcano
``devices/util.go``, Koordinator ``deviceshare/utils.go``, vgpu-manager 0.4.1; HAMi's website for the last three."""
FREES_SIDECARS = frozenset(
    {"nvidia", "amd", "biren", "enflame", "iluvatar", "kunlun", "metax", "mthreads", "neuron", "vastai"}
)
"""Who counts a native sidecar as an init container that ends: HAMi until 2.10.0 (HAMi#2723)."""


def not_kept(vendor: str, got: Amounts, container: Json, keys: Mapping[str, str], *, init: bool) -> bool:
    """Whether something of a container's request is not kept.

    Args:
        vendor: who serves it.
        got: what it gets.
        container: as it is stored.
        keys: the labels of its pod, as they are stored, and its annotations, which precede them.
        init: whether it is an init container.
    """
    limited = not got.whole and (got.memory, got.cores) != (UNLIMITED, UNLIMITED)
    if init and (vendor in PASSES_INIT or (vendor in FREES_SIDECARS and container.get("restartPolicy") == "Always")):
        return True
    # KAI repeats a request in the keys of NvFractions (``nvfractions/mutation.go``), whose fractiond enforces it.
    repeated = any(key.startswith(f"nvidia.com/container.{container['name']}.gpu-memory.") for key in keys)
    if limited and vendor in RESERVES and not repeated:
        return True
    if limited and vendor == "koordinator":  # ``docs/user-manuals/device-scheduling-gpu-share-with-hami.md``
        return keys.get("koordinator.sh/gpu-isolation-provider") != "HAMi-core"
    if vendor == "ascend" and keys.get("huawei.com/vnpu-mode") == "enpu":  # ascend-device-plugin ``enpu.go``
        shared = keys.get("huawei.com/scheduler.softShareDev.policy")
        policy = keys.get("huawei.com/enpu-policy") or shared or "elastic"
        return got.cores != ALL and policy not in {"fixed-share", "fixed", "fixed_share", "1"}
    fixed = keys.get("metax-tech.com/sgpu-qos-policy") == "fixed-share"  # HAMi ``metax/sdevice.go``
    return vendor == "metax" and not fixed and got.cores not in {ALL, UNLIMITED}
