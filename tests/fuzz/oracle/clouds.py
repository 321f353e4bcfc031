"""Requests in the terms of cloud platforms. Sources: their documentation, named with each."""

from tests.fuzz.oracle.keys import Keys
from tests.fuzz.oracle.meaning import (
    ALL,
    GIB,
    MIB,
    UNLIMITED,
    Amount,
    Denied,
    Lacks,
    Meaning,
    Unsure,
    count,
    percent,
    share,
    size,
)


def aliyun(keys: Keys) -> Meaning:
    """Alibaba Cloud ACK, shared GPU scheduling: GiB in total over the devices of the pod's label, which divide it."""
    total, cores = keys.of("gpu-mem"), keys.of("gpu-core")
    if cores is not None and (cores % 5 or not 5 <= cores <= 100):
        raise Denied("cores are 5 to 100 in steps of 5")
    if total is None and cores is None:
        raise Denied("nothing is asked for")
    if total is None:
        return Meaning("aliyun", 1, None, percent(cores or 100))
    cards = keys.count_of(keys.labels, "aliyun.com/gpu-count") or 1
    if cards > 1 and cores is not None:
        raise Denied("several devices share memory only")
    memory = size(share(total, count(cards)), GIB)
    return Meaning("aliyun", cards, memory, None if cores is None else percent(cores), {"cores": UNLIMITED})


def gpushare(keys: Keys) -> Meaning | None:
    """gpushare-scheduler-extender ``docs/userguide.md``: a part of one device, in the cluster's unit, cores unlimited."""
    units = keys.of("gpu-mem")
    if units is None:
        return None
    return Meaning("gpushare", 1, size(units, keys.cluster.units.get("gpushare") or GIB), None, {"cores": UNLIMITED})


def vcuda(keys: Keys) -> Meaning:
    """Tencent gpu-manager ``README.md`` and ``pkg/services/allocator``: units of 256 MiB; k·100 cores are k whole devices."""
    cores, units = keys.of("vcuda-core"), keys.of("vcuda-memory")
    limit = keys.annotations.get("tencent.com/vcuda-core-limit")
    if limit is not None and not limit.isdecimal():
        raise Unsure("no number of cores that may be borrowed")
    if cores is not None and limit is not None and int(limit) != cores:
        raise Unsure("a guarantee and another maximum")
    if cores is not None and cores >= 100:
        return Meaning("vcuda", count(share(cores, 100)), ALL, ALL)
    memory = None if units is None else size(units, 256 * MIB)
    return Meaning("vcuda", 1, memory, None if cores is None else percent(cores))


def qgpu(keys: Keys) -> Meaning | None:
    """Tencent Cloud TKE qGPU: GiB; above 100 cores both are totals over as many devices as that takes, rounded down."""
    cores, total = keys.of("qgpu-core"), keys.of("qgpu-memory")
    if cores is None:
        return _qgpu_without_cores(keys, total)
    if cores % 100 == 0:
        return Meaning("qgpu", count(cores // 100), ALL, ALL)
    if cores < 100 and cores % 5:
        raise Denied("a share's cores are a multiple of 5")
    cards = -(-cores // 100)
    count(cards)
    if total is None:
        return Meaning("qgpu", cards, None, percent(cores // cards))
    if total < cards:
        raise Denied("less than 1 GiB for each device")
    return Meaning("qgpu", cards, size(total // cards, GIB), percent(cores // cards))


def _qgpu_without_cores(keys: Keys, total: int | None) -> Meaning | None:
    greedy = keys.of("greedy")
    if total is None:
        return None
    online = keys.annotations.get("tke.cloud.tencent.com/app-class") == "online"
    if greedy is not None:
        if online:
            raise Unsure("an online job's with an offline one's key")
        if greedy > 100:
            raise Denied("an offline share is of one device")
        return Meaning("qgpu", 1, size(total, GIB), UNLIMITED)
    if online:
        return Meaning("qgpu", 1, size(total, GIB), UNLIMITED)
    return Meaning("qgpu", 1, size(total, GIB), None)


def baidu(keys: Keys) -> Meaning:
    """Baidu AI Cloud CCE, sGPU: cores and memory are totals over the devices and have to divide."""
    cards, gib, part, cores = map(keys.of, ("cgpu", "memory", "memory_percent", "core"))
    if cards is None:
        raise Lacks("the count is missing")
    if gib is None and part is None and cores is None:
        return Meaning("baidu", count(cards), ALL, ALL)
    if gib is not None and part is not None:
        raise Unsure("both kinds of memory")
    of_cores: Amount | None = None
    if cores is not None:
        each = share(cores, count(cards))
        if each < 5:
            raise Unsure("the minimum changed")
        of_cores = percent(each)
    if gib is None and part is None:
        return Meaning("baidu", count(cards), None, of_cores)
    memory = size(share(gib, count(cards)), GIB) if gib is not None else percent(share(part or 0, count(cards)))
    return Meaning("baidu", count(cards), memory, of_cores, {"cores": UNLIMITED})


def cce(keys: Keys) -> Meaning:
    """Huawei Cloud CCE xGPU (cce_10_0965): 128 MiB and percent, in total over the devices of the pod's label."""
    units, cores = keys.of("gpu-mem"), keys.of("gpu-core")
    if keys.position is None:
        raise Denied("no virtual GPUs in init containers")
    if units is None and cores is None:
        raise Denied("nothing is asked for")
    cards = count(keys.count_of(keys.labels, "volcano.sh/gpu-num") or 1)
    of_cores = None if cores is None else share(cores, cards)
    if of_cores is not None and of_cores % 5:
        raise Denied("cores are a multiple of 5")
    part = None if of_cores is None else percent(of_cores)
    if units is None:
        return Meaning("cce", cards, None, part)
    if share(units, cards) > 16384:
        raise Denied("more than a device has")
    if cards == 1 and cores == 100:
        return Meaning("cce", 1, ALL, ALL)  # "the entire GPU will be used"
    return Meaning("cce", cards, size(share(units, cards), 128 * MIB), part, {"cores": UNLIMITED})


def vke(keys: Keys) -> Meaning | None:
    """Volcengine VKE mGPU and its validator: MiB and percent, in total over the devices of the container's entry of a list."""
    cores, mib = keys.of("mgpu-core"), keys.of("mgpu-memory")
    cards = _vke_count(keys)
    if mib is None and cores is None:
        return None
    if cards == 0:
        raise Denied("0 devices beside a request")
    if cards is None or (mib is None and cores is not None and cores % 100 == 0):
        return _vke_one(cores, mib, cards)
    each = None if mib is None else share(mib, cards)
    part = None if cores is None else share(cores, cards)
    if each is not None and each < 1024:
        raise Unsure("256 or 1024 MiB at least")
    if part is not None and part >= 100:
        raise Unsure("whole devices with a size") if part == 100 else Denied("more than whole devices")
    return Meaning("vke", cards, None if each is None else size(each, MIB), None if part is None else percent(part))


def _vke_one(cores: int | None, mib: int | None, cards: int | None) -> Meaning:
    if cores is not None and cores >= 100:
        if mib is not None:
            raise Denied("whole devices carry no memory")
        if cards is not None and cards * 100 != cores:
            raise Denied("a part of each of several devices needs memory")
        return Meaning("vke", count(share(cores, 100)), ALL, ALL)
    if mib is not None and mib < 256:
        raise Denied("less than 256 MiB")
    return Meaning("vke", 1, None if mib is None else size(mib, MIB), None if cores is None else percent(cores))


def _vke_count(keys: Keys) -> int | None:
    """The entry of the container, by its position; None for an init container, or without the annotation."""
    text = keys.annotations.get("vke.volcengine.com/container-multiple-gpu")
    if text is None:
        return None
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) != keys.regular:
        raise Denied("one entry for each container")
    if keys.position is None:
        return None
    entry = entries[keys.position]
    if not entry.isdecimal():
        raise Denied(f"no count: {entry!r}")
    return count(int(entry))
