"""Whether a vendor's keys can express a request: what a translation may be denied for. Sources: as each vendor's reader.

What is rounded up counts as expressed, as the pages promise (``docs/behavior.md``, Translating): never less than requested.
A rule says what each device gets; that containers share a pod is for the judges of denials.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.fuzz.oracle.hami import ASCEND, KUNLUN, moore_threads_sizes
from tests.fuzz.oracle.keys import Cluster
from tests.fuzz.oracle.meaning import ALL, GIB, LARGEST, MIB, Amounts
from tests.fuzz.oracle.schedulers import MIG

SLICES = ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb")
"""Those of a device of 80 GB, where they are configured."""


class Wanted(NamedTuple):
    """What one container is to get of a vendor.

    Attributes:
        amounts: of one device each.
        cluster: what is configured.
        fillable: the dimensions that a default would fill where their key is left out.
        configured: whether the names are, for vendors whose names say which hardware it is.
    """

    amounts: Amounts
    cluster: Cluster
    fillable: frozenset[str]
    configured: bool = True

    @property
    def devices(self) -> int:
        """How many."""
        return self.amounts.devices

    @property
    def whole(self) -> bool:
        """Whether whole devices are wanted."""
        return self.amounts.whole

    @property
    def memory(self) -> str:
        """The kind of memory: ``size``, ``percent`` or ``unlimited``."""
        return self.amounts.memory[0]

    def open(self, dimension: str) -> bool:
        """Whether a dimension has no limit, and stays so if its key is left out."""
        amount: tuple[str, object] = getattr(self.amounts, dimension)
        return amount[0] == "unlimited" and dimension not in self.fillable

    def all_of(self, dimension: str) -> bool:
        """Whether all of a dimension is wanted, and is had if its key is left out."""
        return bool(getattr(self.amounts, dimension) == ALL) and dimension not in self.fillable

    def sized(self, unit: int, most: int = LARGEST) -> bool:
        """Whether memory is a size that so many bytes hold, in steps of a unit."""
        kind, number = self.amounts.memory
        return kind == "size" and -(-number // unit) * unit <= most

    def part(self, least: int = 1, most: int = 100, step: int = 1) -> bool:
        """Whether cores are a part that these numbers hold, in steps; less is raised to the least."""
        kind, number = self.amounts.cores
        return kind == "percent" and max(-(-number // step) * step, least) <= most


def volcano(wanted: Wanted) -> bool:
    """Volcano: MiB, or all memory without a key for it; no node reports its key for percent."""
    return (wanted.sized(MIB) or wanted.all_of("memory")) and (wanted.part() or wanted.open("cores"))


def hami_like(wanted: Wanted) -> bool:
    """HAMi: MiB or percent, cores or none, of any number of devices."""
    return (wanted.sized(MIB) or wanted.memory == "percent") and (wanted.part() or wanted.open("cores"))


def volcano_legacy(wanted: Wanted) -> bool:
    """MiB of one device, without a limit of cores; or whole devices."""
    return wanted.whole or (wanted.devices == 1 and wanted.sized(MIB) and wanted.open("cores"))


def aliyun(wanted: Wanted) -> bool:
    """GiB; cores of one device only, in steps of 5."""
    return wanted.sized(GIB) and (wanted.open("cores") or (wanted.devices == 1 and wanted.part(step=5)))


def gpushare(wanted: Wanted) -> bool:
    """Units of one device."""
    unit = wanted.cluster.units.get("gpushare") or GIB
    return wanted.devices == 1 and wanted.sized(unit) and wanted.open("cores")


def vcuda(wanted: Wanted) -> bool:
    """Whole devices; or 256 MiB and 1 to 99 % of one."""
    return wanted.whole or (wanted.devices == 1 and wanted.sized(256 * MIB) and wanted.part(most=99))


def qgpu(wanted: Wanted) -> bool:
    """Whole devices; GiB and 5 to 95 % by 5 of each; of several, a total above 100 % for each but the first."""
    if wanted.whole:
        return True
    if not wanted.sized(GIB) or wanted.amounts.cores[0] != "percent":
        return False
    if wanted.devices == 1:
        return wanted.part(5, 95, 5)
    each = -(-wanted.amounts.cores[1] // 5) * 5
    return each < 100 and each * wanted.devices > 100 * (wanted.devices - 1)


def baidu(wanted: Wanted) -> bool:
    """Whole devices; GiB or percent of each, cores from 5 % or none; the model is the cluster's."""
    if not wanted.configured:
        return False
    share = wanted.sized(GIB) or wanted.memory == "percent"
    return wanted.whole or (share and (wanted.part(5) or wanted.open("cores")))


def cce(wanted: Wanted) -> bool:
    """128 MiB of each device, cores in steps of 5 or none."""
    return wanted.sized(128 * MIB, 16384 * 128 * MIB) and (wanted.part(step=5, most=95) or wanted.open("cores"))


def vke(wanted: Wanted) -> bool:
    """Whole devices; or both MiB and 1 to 99 % of each."""
    return wanted.whole or (wanted.sized(MIB) and wanted.part(most=99))


def koordinator(wanted: Wanted) -> bool:
    """Bytes or a ratio of each device, cores or none."""
    return (wanted.sized(1) or wanted.memory == "percent") and (wanted.part() or wanted.open("cores"))


def elastic_gpu(wanted: Wanted) -> bool:
    """Whole devices; MiB of one, cores below 100 % or none; or cores alone."""
    share = wanted.sized(MIB) and (wanted.part(most=99) or wanted.open("cores"))
    return wanted.whole or (wanted.devices == 1 and (share or (wanted.open("memory") and wanted.part(most=99))))


def nano_gpu(wanted: Wanted) -> bool:
    """One percentage of one device."""
    amounts = wanted.amounts
    return wanted.devices == 1 and wanted.memory == "percent" and amounts.cores == amounts.memory


def intel(wanted: Wanted) -> bool:
    """Bytes and thousandths of each device, or no limit of either."""
    return (wanted.sized(1) or wanted.open("memory")) and (wanted.amounts.cores[0] == "percent" or wanted.open("cores"))


def vgpu_manager(wanted: Wanted) -> bool:
    """MiB of each device, or all of it; cores or none."""
    memory = wanted.sized(MIB) or wanted.all_of("memory")
    return memory and (wanted.part() or wanted.open("cores"))


def mig(wanted: Wanted) -> bool:
    """The smallest slice that is configured and holds the request: a program of CUDA sees one (its guide to MIG)."""
    slices = [MIG[name] for name in ((wanted.cluster.chip,) if wanted.cluster.chip else SLICES)]
    kind, number = wanted.amounts.memory
    held = any(mib * MIB >= number and part >= wanted.amounts.cores[1] for mib, part in slices)
    return wanted.configured and wanted.devices == 1 and kind == "size" and held


def mig_single(wanted: Wanted) -> bool:
    """The same, where the devices are cut into slices of one size."""
    return bool(wanted.cluster.chip) and mig(wanted)


def kai(wanted: Wanted) -> bool:
    """A fraction or MiB of each device."""
    kind, number = wanted.amounts.memory
    fraction = kind == "percent" and number < 100
    return (fraction or wanted.sized(MIB)) and wanted.open("cores")


def nvfractions(wanted: Wanted) -> bool:
    """Bytes of each device."""
    return wanted.sized(1) and wanted.open("cores")


def tensor_fusion(wanted: Wanted) -> bool:
    """Bytes and percent of each of up to 128 devices, one of the two at least."""
    memory, cores = wanted.sized(1), wanted.part()
    both = (memory or wanted.open("memory")) and (cores or wanted.open("cores"))
    return both and (memory or cores) and wanted.devices <= 128


def turns(wanted: Wanted) -> bool:
    """Turns on devices, without a limit of anything."""
    return wanted.open("memory") and wanted.open("cores")


def mps(wanted: Wanted) -> bool:
    """One part of one device."""
    return turns(wanted) and wanted.devices == 1


def devices(wanted: Wanted) -> bool:
    """Whole devices only."""
    return wanted.whole


def iluvatar(wanted: Wanted) -> bool:
    """Several devices are whole ones; 256 MiB of one, cores or none."""
    return wanted.whole or (wanted.devices == 1 and wanted.sized(256 * MIB) and (wanted.part() or wanted.open("cores")))


def cambricon(wanted: Wanted) -> bool:
    """Several devices are whole ones; the cluster's units of one, and cores: without them it is all."""
    if wanted.whole:
        return True
    if wanted.devices > 1 or not wanted.part() or "cambricon" not in wanted.cluster.units:
        return False
    unit = wanted.cluster.units["cambricon"]
    return wanted.memory == "percent" if unit is None else wanted.sized(unit)


def mthreads(wanted: Wanted) -> bool:
    """Several devices are whole ones; legal sizes of one, cores in sixteenths or none."""
    legal = wanted.sized(1, moore_threads_sizes(wanted.cluster.moore_threads)[-2] * 512 * MIB)
    return wanted.whole or (wanted.devices == 1 and legal and (wanted.part() or wanted.open("cores")))


def metax(wanted: Wanted) -> bool:
    """Whole devices; GiB and cores of each: without cores it is all."""
    return wanted.whole or (wanted.sized(GIB) and wanted.part())


def hygon(wanted: Wanted) -> bool:
    """Several devices are whole ones; MiB and cores of one: without cores it is all."""
    return wanted.whole or (wanted.devices == 1 and wanted.sized(MIB) and wanted.part())


def amd(wanted: Wanted) -> bool:
    """MiB, or all memory without a key for it, and cores: without cores it is all. HAMi 2.10.0 has no key for percent."""
    return wanted.whole or ((wanted.sized(MIB) or wanted.all_of("memory")) and wanted.part())


def kunlun(wanted: Wanted) -> bool:
    """Whole devices by 1, 2, 4 and 8; or quarters and halves of up to 7, with exactly that part of the cores."""
    if wanted.whole:
        return wanted.devices in {1, 2, 4, 8}
    part = next((part for mib, part in KUNLUN.items() if wanted.sized(1, mib * MIB)), None)
    return part is not None and wanted.amounts.cores == ("percent", part) and wanted.devices < 8 and part < 100


def enflame(wanted: Wanted) -> bool:
    """Whole devices; or GiB of one, cores or none."""
    share = wanted.devices == 1 and wanted.sized(GIB, 192 * GIB)
    return wanted.whole or (share and (wanted.part() or wanted.open("cores")))


def ascend(wanted: Wanted) -> bool:
    """Whole chips, one without its memory; or a template of one, without a limit of cores; the chip is the cluster's."""
    if not wanted.configured:
        return False
    *templates, _ = ASCEND["910B2"]
    if wanted.whole:
        return wanted.devices > 1 or wanted.all_of("memory")
    return wanted.devices == 1 and wanted.sized(1, templates[-1] * MIB) and wanted.open("cores")


def neuron(wanted: Wanted) -> bool:
    """Whole devices; or a core of one, which is half of it."""
    return wanted.whole or (wanted.devices == 1 and wanted.open("memory") and wanted.part(most=50))


EXPRESSES: Mapping[str, Callable[[Wanted], bool]] = {
    "nvidia": hami_like,
    "volcano": volcano,
    "volcano-legacy": volcano_legacy,
    "aliyun": aliyun,
    "gpushare": gpushare,
    "vcuda": vcuda,
    "qgpu": qgpu,
    "baidu": baidu,
    "cce": cce,
    "vke": vke,
    "koordinator": koordinator,
    "elastic-gpu": elastic_gpu,
    "nano-gpu": nano_gpu,
    "intel": intel,
    "vgpu-manager": vgpu_manager,
    "mig": mig,
    "mig-single": mig_single,
    "kai": kai,
    "nvfractions": nvfractions,
    "tensor-fusion": tensor_fusion,
    "timeslicing": turns,
    "mps": mps,
    "whole": devices,
    "biren": devices,
    "vastai": devices,
    "iluvatar": iluvatar,
    "cambricon": cambricon,
    "mthreads": mthreads,
    "metax": metax,
    "hygon": hygon,
    "amd": amd,
    "kunlun": kunlun,
    "enflame": enflame,
    "ascend": ascend,
    "neuron": neuron,
}
"""By target; `neutral` is none."""
