"""Requests under HAMi, whatever the hardware. Sources: HAMi ``docs/`` and ``pkg/device/*/device.go``, by vendor."""

from collections.abc import Mapping
from fractions import Fraction

from tests.fuzz.oracle.keys import Keys
from tests.fuzz.oracle.meaning import (
    ALL,
    MIB,
    UNLIMITED,
    Alone,
    Amount,
    Denied,
    Lacks,
    Meaning,
    Unsure,
    count,
    percent,
    size,
    some_count,
    some_percent,
)

SHARED: Mapping[str, int | Amount] = {"devices": 1, "memory": ALL, "cores": UNLIMITED}
ASCEND = {
    "910A": (2184, 4369, 8738, 17476, 32768),
    "910B2": (8192, 16384, 32768, 65536),
    "910B3": (16384, 32768, 65536),
    "910B4": (8192, 16384, 32768),
    "310P": (3072, 6144, 12288, 21527),
    "910C": (16384, 32768, 65536),
}
"""MiB of the templates by chip, of which HAMi's scheduler takes the smallest that holds the request (``values.yaml``).

The last one is the whole chip, which can be asked for as what it has, too: 24576 of a 310P.
"""
GKE = tuple(
    f"cloud.google.com/gke-{name}"
    for name in ("gpu-sharing-strategy", "max-shared-clients-per-gpu", "gpu-partition-size")
)
"""Labels of GKE's nodes, which pods select."""
KUNLUN = {24576: 25, 49152: 50, 98304: 100}
"""MiB of a part of a device, with the percentage of its cores (``kunlun/vdevice.go``)."""


def nvidia(keys: Keys) -> Meaning | None:
    """``pkg/device/nvidia/device.go``: a size counts beside a percentage; without a count it is 1."""
    if not keys.has("gpu", "gpumem", "gpumem-percentage", "gpucores"):
        return None
    gpu, mib, part, cores = map(keys.of, ("gpu", "gpumem", "gpumem-percentage", "gpucores"))
    devices = some_count(gpu)
    elsewhere(keys, "gpumem", "gpumem-percentage")  # HAMi's webhook adds all cores to a bare count
    memory = size(mib, MIB) if mib is not None else some_percent(part)
    return Meaning("nvidia", devices, memory, some_percent(cores), SHARED)


def elsewhere(keys: Keys, *amounts: str) -> None:
    """GKE (its guide to sharing GPUs, and to MIG) and ClearML's injector (its documentation) serve ``nvidia.com/gpu: 1``.

    Raises:
        Alone: so it is.
        Refused: they know no amounts.
    """
    if not any(key in keys.node_selector for key in GKE) and "clearml-injector/fraction" not in keys.labels:
        return
    if keys.has(*amounts):
        raise Denied("amounts of HAMi where another system shares the device")
    raise Alone


def iluvatar(keys: Keys) -> Meaning:
    """``pkg/device/iluvatar/device.go``: several devices are whole ones; units of 256 MiB."""
    vgpu, units, cores = map(keys.of, ("vgpu", "vcuda-memory", "vcuda-core"))
    if vgpu is None:
        raise Lacks("the plugin ignores the rest without vgpu")
    if cores is not None and cores > 100 * vgpu:
        raise Denied("more cores than the devices have")
    if vgpu > 1:
        return Meaning("iluvatar", count(vgpu), ALL, ALL, corrected=cores not in {None, 100 * vgpu})
    memory = None if units is None else size(units, 256 * MIB)
    return Meaning("iluvatar", 1, memory, some_percent(cores), SHARED)


def cambricon(keys: Keys) -> Meaning:
    """``pkg/device/cambricon/device.go``: several devices are whole ones; the unit is the cluster's."""
    vmlu, units, cores = map(keys.of, ("vmlu", "vmemory", "vcore"))
    if vmlu is None:
        raise Lacks("vmlu is missing")
    if vmlu > 1:
        return Meaning("cambricon", count(vmlu), ALL, ALL)
    if units is not None and "cambricon" not in keys.cluster.units:
        raise Denied("the unit is not configured")
    unit = keys.cluster.units.get("cambricon")
    memory = None if units is None else percent(units) if unit is None else size(units, unit)
    return Meaning("cambricon", 1, memory, some_percent(cores), {"memory": ALL, "cores": ALL})


def moore_threads_sizes(models: tuple[int, ...]) -> tuple[int, ...]:
    """Units of 512 MiB that can be requested: powers of two from 2, and all of a device.

    HAMi's website (``specify-device-memory-usage.md``) lists them for the two models that it knows; with both in one
    cluster those of either are valid (``charts/hami/README.md``, ``memoryPerCard``).
    """
    powers = (2**exponent for exponent in range(1, max(models).bit_length()))
    return tuple(sorted({*models, *(power for power in powers if power < max(models))}))


def mthreads(keys: Keys) -> Meaning:
    """``pkg/device/mthreads/device.go``: several devices are whole ones; 16 units of cores.

    Raises:
        Alone: without a count it is a request to Moore Threads' own scheduler (its guide to sGPU).
    """
    vgpu, units, cores = map(keys.of, ("vgpu", "sgpu-memory", "sgpu-core"))
    if vgpu is None:
        raise Alone
    if cores is not None and cores > 16 * vgpu:
        raise Denied("a device has 16 units of cores")
    if vgpu > 1 and "sgpu-memory" in keys.zeros:
        raise Unsure("HAMi makes all of it in limits only")
    if "sgpu-memory" in keys.zeros:
        raise Denied("0 is no legal size")
    if vgpu > 1 or units is None:
        return Meaning("mthreads", count(vgpu), ALL, ALL, corrected=cores not in {None, 16 * vgpu})
    models = keys.cluster.moore_threads
    if units not in moore_threads_sizes(models):
        raise Denied(f"no legal size: {units}")
    part = None if cores is None else percent(Fraction(cores * 100, 16))
    memory = ALL if units == max(models) else size(units, 512 * MIB)
    return Meaning("mthreads", 1, memory, part, {"cores": UNLIMITED})


def metax(keys: Keys) -> Meaning:
    """``pkg/device/metax/sdevice.go``: GiB as a plain number, bytes with a suffix; online, cores are not counted."""
    sgpu, gpu, units, cores = map(keys.of, ("sgpu", "gpu", "vmemory", "vcore"))
    if gpu is not None and sgpu is not None:
        raise Denied("sgpu and gpu exclude each other")
    if gpu is not None:
        return Meaning("metax", count(gpu), ALL, ALL)
    if sgpu is None:
        raise Lacks("sgpu is missing")
    memory: Amount | None = None
    if units is not None:
        suffixed = not keys.texts["vmemory"].lstrip("+").isdecimal()
        if suffixed != (units >= MIB):
            raise Unsure("bytes or GiB")
        memory = size(units, 1 if suffixed else 1024 * MIB)
    kind = keys.annotations.get("metax-tech.com/sgpu-app-class")
    if kind is not None and (sgpu > 1 or kind not in {"online", "offline"}):
        raise Denied("online or offline, of one device")
    policy = keys.annotations.get("metax-tech.com/sgpu-qos-policy", "best-effort")
    if kind != "online" and policy not in {"best-effort", "fixed-share", "burst-share"}:
        raise Denied("no policy that it knows")
    if kind == "online":
        return Meaning("metax", 1, memory, UNLIMITED, {"memory": ALL})
    return Meaning("metax", count(sgpu), memory, some_percent(cores), {"memory": ALL, "cores": ALL})


def hygon(keys: Keys) -> Meaning:
    """``pkg/device/hygon/device.go``: MiB; cores are all where they are not specified."""
    number, mib, cores = map(keys.of, ("num", "mem", "cores"))
    if number is None:
        raise Lacks("the count is missing")
    if number > 1 and (mib or cores):
        raise Unsure("a part of several devices")
    if number > 1:
        return Meaning("hygon", count(number), ALL, ALL)
    memory = None if mib is None else size(mib, MIB)
    return Meaning("hygon", 1, memory, some_percent(cores), {"memory": ALL, "cores": ALL})


def amd(keys: Keys) -> Meaning:
    """``pkg/device/amd/device.go``: MiB; a size counts beside a percentage."""
    gpu, mib, part, cores = map(keys.of, ("gpu", "gpumem", "gpumem-percentage", "gpucores"))
    if gpu is None:
        raise Lacks("the count is missing")
    if "gpucores" in keys.zeros:
        raise Denied("cores are 1 to 100")
    memory = size(mib, MIB) if mib is not None else some_percent(part)
    return Meaning("amd", count(gpu), memory, some_percent(cores), {"memory": ALL, "cores": ALL})


def kunlun(keys: Keys) -> Meaning:
    """``pkg/device/kunlun``: whole devices by 1, 2, 4 or 8; parts of a quarter, a half, or all of it."""
    xpu, vxpu = map(keys.of, ("xpu", "vxpu"))
    mib = 0 if "vxpu-memory" in keys.zeros else keys.of("vxpu-memory")  # rounded up, as every number
    if xpu is not None and vxpu is not None:
        raise Denied("xpu and vxpu exclude each other")
    if xpu is not None:
        if xpu not in {1, 2, 4, 8}:
            raise Denied("xpu is 1, 2, 4 or 8")
        return Meaning("kunlun", xpu, ALL, ALL)
    if vxpu is None:
        raise Lacks("vxpu is missing")
    if mib is None:
        return Meaning("kunlun", count(vxpu), None, ALL, {"memory": ALL})
    part = next((each for each in KUNLUN if mib <= each), None)
    if part is None:
        raise Denied("more memory than a device has")
    if part == 24576 and vxpu >= 8:
        raise Denied("the driver has no handles for so many quarters")
    return Meaning("kunlun", count(vxpu), size(part, MIB), percent(KUNLUN[part]), corrected=mib != part)


def enflame(keys: Keys) -> Meaning:
    """``pkg/device/enflame``: GB as GiB; slices and older names are left to the engine.

    Raises:
        Alone: ``shared-gcu`` alone is a request to Enflame's own scheduler (gcushare, ``deployments/example``). HAMi never
            reads the name.
    """
    if keys.numbers.keys() == {"shared-gcu"}:
        raise Alone
    gcu, units, cores = map(keys.of, ("gcu", "gcu-memory", "gcu-core"))
    if keys.has("drs-gcu", "vgcu", "vgcu-percentage"):
        raise Unsure("slices")
    if gcu is not None:
        return Meaning("enflame", count(gcu), ALL, ALL)
    if "gcu-memory" in keys.zeros:
        raise Denied("memory is above 0")
    if units is None:
        if cores is None:
            raise Denied("nothing is asked for")
        return Meaning("enflame", 1, None, some_percent(cores), {"memory": UNLIMITED})
    if units > 192:
        raise Unsure("MiB or GB")
    return Meaning("enflame", 1, size(units, 1024 * MIB), some_percent(cores), {"cores": UNLIMITED})


def ascend(keys: Keys) -> Meaning:
    """``pkg/device/ascend/device.go``: the smallest template that holds the request; several devices are whole ones."""
    cards, mib = keys.of("cards"), 0 if "memory" in keys.zeros else keys.of("memory")
    if cards is None:
        raise Lacks("the count is missing")
    mode = keys.annotations.get("huawei.com/vnpu-mode")
    if keys.variant not in ASCEND or mode not in {None, "enpu"} or (mode is None and keys.has("core")):
        raise Unsure("soft mode, or another chip")
    return _templates(keys, cards, mib) if mode is None else _enpu(keys, cards)


def _templates(keys: Keys, cards: int, mib: int | None) -> Meaning:
    """``values.yaml`` of its chart: see `ASCEND`."""
    *templates, whole_chip = ASCEND[keys.variant]
    most = 24576 if keys.variant == "310P" else whole_chip
    if mib is not None and mib > most:
        raise Denied("more memory than the chip has")
    if keys.variant == "910C":
        return _super_pod(cards, mib)
    if cards > 1 and mib is not None and mib <= templates[-1]:
        raise Denied("a template on several devices")
    if cards > 1 and mib is not None and mib < whole_chip:
        raise Unsure("HAMi takes it for all of each device; here it has to be written")
    if cards > 1:
        return Meaning("ascend", count(cards), ALL, ALL)
    if mib is None:
        return Meaning("ascend", 1, None, None, {"memory": ALL, "cores": UNLIMITED})
    template = next((template for template in templates if mib <= template), None)
    if template is None:
        return Meaning("ascend", 1, ALL, ALL, corrected=mib < whole_chip)
    return Meaning("ascend", 1, size(template, MIB), None, {"cores": UNLIMITED}, corrected=mib != template)


ENPU_POLICIES = frozenset(
    {"fixed-share", "fixed_share", "fixed", "1", "elastic", "2", "best-effort", "best_effort", "besteffort", "3"}
)
"""``enpuPolicy`` there: the first that a pod has counts, and others are no policy."""


def _enpu(keys: Keys, cards: int) -> Meaning:
    """ENPU, ``ascend-device-plugin/internal/server/enpu.go``: exact MiB of one die; cores are limited by fixed-share only."""
    if cards != 1:
        raise Denied("one die")
    mib, cores = keys.of("memory"), some_percent(keys.of("core"))  # 0 is all of it (``enpuQuota``)
    shared = "huawei.com/scheduler.softShareDev.policy"
    given = (keys.annotations.get("huawei.com/enpu-policy"), keys.annotations.get(shared), keys.labels.get(shared))
    policies = [policy.strip().lower() for policy in given if policy is not None]
    if next(filter(None, policies), "elastic") not in ENPU_POLICIES:
        raise Denied("no policy of ENPU")
    whole_chip = mib == ASCEND[keys.variant][-1] or (keys.variant == "310P" and mib in range(21527, 24577))
    memory = None if mib is None else ALL if whole_chip else size(mib, MIB)
    return Meaning("ascend", 1, memory, cores, {"memory": ALL, "cores": ALL})


def _super_pod(cards: int, mib: int | None) -> Meaning:
    """``superPod`` in the chart: two chips on a board go together, each with the template that holds the request."""
    if cards > 1 and cards % 2:
        raise Denied("an odd number of chips")
    together = count(cards + cards % 2)
    if mib is None and cards == 1:  # as for one of any other chip
        return Meaning("ascend", together, None, None, {"memory": ALL, "cores": UNLIMITED})
    if mib is None:
        return Meaning("ascend", together, ALL, ALL)
    template = next(each for each in ASCEND["910C"] if mib <= each)
    if cards > 1 and template != mib:
        raise Unsure("a template of several devices has to be written as it is")
    if template == ASCEND["910C"][-1]:
        return Meaning("ascend", together, ALL, ALL, corrected=mib < template)
    return Meaning("ascend", together, size(template, MIB), None, {"cores": UNLIMITED}, corrected=mib != template)


def neuron(keys: Keys) -> Meaning:
    """``pkg/device/awsneuron/device.go``: two cores to a device."""
    devices, cores = keys.of("neuron"), keys.of("neuroncore")
    if devices is not None:  # cores beside it are ignored
        return Meaning("neuron", count(devices), ALL, ALL)
    if cores is None:
        raise Denied("nothing is asked for")
    if cores == 1:
        return Meaning("neuron", 1, None, percent(50), {"memory": UNLIMITED})
    if cores % 2:
        raise Denied("cores of whole devices are even")
    return Meaning("neuron", count(cores // 2), ALL, ALL)


def whole(vendor: str, key: str, keys: Keys) -> Meaning | None:
    """A vendor of whole devices."""
    number = some_count(keys.of(key))
    if number is not None and vendor == "whole":
        elsewhere(keys)
    return None if number is None else Meaning(vendor, number, ALL, ALL)
