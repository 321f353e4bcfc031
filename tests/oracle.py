"""What a container's words mean, read from the vendors' documentation and not from our mappings.

HAMi ``docs/userguide`` (nvidia, iluvatar), Alibaba Cloud ACK "shared GPU scheduling" (aliyun), gpushare-scheduler-extender
``docs/userguide.md``, Tencent gpu-manager ``README.md`` (vcuda). It knows only requests that the vendors accept.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from webhook.quantity import parse_quantity

MIB = 1024**2
ALL = ("percent", Fraction(100))
FREE = ("free", Fraction(0))

WORDS = {
    "nvidia.com": {"gpu", "gpumem", "gpumem-percentage", "gpucores"},
    "iluvatar.ai": {"vgpu", "vcuda-memory", "vcuda-core", "MR-V100-vgpu", "MR-V100.vMem", "MR-V100.vCore"},
    "aliyun.com": {"gpu-mem", "gpu-core.percentage"},
    "tencent.com": {"vcuda-core", "vcuda-memory"},
}

Amount = tuple[str, Fraction]


@dataclass(frozen=True)
class Meaning:
    """What one container gets, per card; `unsaid` are the dimensions that the pod leaves to the vendor."""

    vendor: str
    devices: int
    memory: Amount
    cores: Amount
    unsaid: frozenset[str] = frozenset()


def words_of(container: dict[str, Any]) -> dict[str, Fraction]:
    """The GPU words of a container, limits before requests."""
    resources = container.get("resources") or {}
    sides = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    known = {f"{domain}/{word}" for domain, words in WORDS.items() for word in words}
    return {name: Fraction(parse_quantity(str(value))) for name, value in sides.items() if name in known}


def meaning(container: dict[str, Any], labels: dict[str, str], gpushare_unit: int | None = None) -> Meaning | None:
    """What an accepted request means; None for a container that asks for nothing.

    Args:
        container: as it stands in the pod.
        labels: the pod's.
        gpushare_unit: MiB that 1 of the shared resource name is worth where the open-source plugin owns it.
    """
    written = words_of(container)
    by_prefix = {name.partition("/")[0] for name in written}
    words = {name: number for name, number in written.items() if number}
    if written.get("nvidia.com/gpu") == 0:
        return None
    if "nvidia.com" in by_prefix:
        return _nvidia(words)
    if "iluvatar.ai" in by_prefix:
        return _iluvatar({name.removeprefix("iluvatar.ai/").removeprefix("MR-V100"): n for name, n in words.items()})
    if "aliyun.com" in by_prefix:
        return _aliyun(words, labels) if gpushare_unit is None else _gpushare(words, gpushare_unit)
    if "tencent.com" in by_prefix:
        return _vcuda(words)
    return None


def _settled(
    vendor: str, devices: Fraction | int, memory: Amount | None, cores: Fraction | None, *extra: str
) -> Meaning:
    """Missing memory is all of the card, missing cores are no limit; nobody fits beside all of the memory."""
    unsaid = {*extra, *(["memory"] if memory is None else []), *(["cores"] if cores is None else [])}
    settled = ALL if memory is None else memory
    amount = FREE if cores is None else ("percent", cores)
    if settled == ALL and amount == FREE:
        amount = ALL
    return Meaning(vendor, int(devices), settled, amount, frozenset(unsaid))


def _nvidia(words: dict[str, Fraction]) -> Meaning:
    keys = ("gpu", "gpumem", "gpumem-percentage", "gpucores")
    count, size, percent, cores = (words.get(f"nvidia.com/{key}") for key in keys)
    memory = ("size", size * MIB) if size is not None else None if percent is None else ("percent", percent)
    return _settled("nvidia", count or 1, memory, cores, *([] if count else ["devices"]))


def _iluvatar(words: dict[str, Fraction]) -> Meaning | None:
    count = words.get("vgpu", words.get("-vgpu", Fraction(0)))
    if count > 1:
        return Meaning("iluvatar", int(count), ALL, ALL)
    units = words.get("vcuda-memory", words.get(".vMem"))
    cores = words.get("vcuda-core", words.get(".vCore"))
    memory = None if units is None else ("size", units * 256 * MIB)
    return _settled("iluvatar", 1, memory, cores, *([] if count else ["devices"]))


def _aliyun(words: dict[str, Fraction], labels: dict[str, str]) -> Meaning | None:
    total, cores = words.get("aliyun.com/gpu-mem"), words.get("aliyun.com/gpu-core.percentage")
    if total is cores is None:
        return None
    count = int(labels.get("aliyun.com/gpu-count", "1"))
    return _settled("aliyun", count, None if total is None else ("size", total * 1024 * MIB / count), cores)


def _gpushare(words: dict[str, Fraction], unit: int) -> Meaning | None:
    size = words.get("aliyun.com/gpu-mem")
    return None if size is None else _settled("gpushare", 1, ("size", size * unit * MIB), None)


def _vcuda(words: dict[str, Fraction]) -> Meaning | None:
    cores, units = words.get("tencent.com/vcuda-core"), words.get("tencent.com/vcuda-memory")
    if cores is units is None:
        return None
    if cores is not None and cores >= 100:
        return Meaning("vcuda", int(cores / 100), ALL, ALL)
    return _settled("vcuda", 1, None if units is None else ("size", units * 256 * MIB), cores)


def at_least(got: Amount, asked: Amount, card: Fraction | None = None) -> bool:
    """Whether an amount gives what was asked: no limit stays so, a size stays a size, a part of a card a part.

    On a card of so many bytes a size and a part are the same, unless the part is all of it.
    """
    if card is not None and asked != ALL and {got[0], asked[0]} == {"size", "percent"}:
        got, asked = (one if one[0] == "size" else ("size", one[1] * card / 100) for one in (got, asked))
    return got[0] == asked[0] and got[1] >= asked[1]
