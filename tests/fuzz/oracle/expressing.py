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

    def cores(self, least: int = 1, most: int = 100, step: int = 1) -> bool:
        """The same, or no limit of them."""
        return self.part(least, most, step) or self.open("cores")


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


def mig(wanted: Wanted) -> bool:
    """The smallest slice that is configured and holds the request: a program of CUDA sees one (its guide to MIG)."""
    slices = [MIG[name] for name in ((wanted.cluster.chip,) if wanted.cluster.chip else SLICES)]
    kind, number = wanted.amounts.memory
    held = any(mib * MIB >= number and part >= wanted.amounts.cores[1] for mib, part in slices)
    return wanted.configured and wanted.devices == 1 and kind == "size" and held


def tensor_fusion(wanted: Wanted) -> bool:
    """Bytes and percent of each of up to 128 devices, one of the two at least."""
    memory, cores = wanted.sized(1), wanted.part()
    both = (memory or wanted.open("memory")) and (cores or wanted.open("cores"))
    return both and (memory or cores) and wanted.devices <= 128


def cambricon(wanted: Wanted) -> bool:
    """Several devices are whole ones; the cluster's units of one, and cores: without them it is all."""
    if wanted.whole:
        return True
    if wanted.devices > 1 or not wanted.part() or "cambricon" not in wanted.cluster.units:
        return False
    unit = wanted.cluster.units["cambricon"]
    return wanted.memory == "percent" if unit is None else wanted.sized(unit)


def kunlun(wanted: Wanted) -> bool:
    """Whole devices by 1, 2, 4 and 8; or quarters and halves of up to 7, with exactly that part of the cores."""
    if wanted.whole:
        return wanted.devices in {1, 2, 4, 8}
    part = next((part for mib, part in KUNLUN.items() if wanted.sized(1, mib * MIB)), None)
    return part is not None and wanted.amounts.cores == ("percent", part) and wanted.devices < 8 and part < 100


def ascend(wanted: Wanted) -> bool:
    """Whole chips, one without its memory; or a template of one, without a limit of cores; the chip is the cluster's."""
    if not wanted.configured:
        return False
    *templates, _ = ASCEND["910B2"]
    if wanted.whole:
        return wanted.devices > 1 or wanted.all_of("memory")
    return wanted.devices == 1 and wanted.sized(1, templates[-1] * MIB) and wanted.open("cores")


EXPRESSES: Mapping[str, Callable[[Wanted], bool]] = {
    # HAMi: MiB or percent, cores or none, of any number of devices.
    "nvidia": lambda each: (each.sized(MIB) or each.memory == "percent") and each.cores(),
    # MiB, or all memory without a key for it; no node reports Volcano's key for percent.
    "volcano": lambda each: (each.sized(MIB) or each.all_of("memory")) and each.cores(),
    # MiB of one device, without a limit of cores.
    "volcano-legacy": lambda each: each.whole or (each.devices == 1 and each.sized(MIB) and each.open("cores")),
    # GiB; cores of one device only, in steps of 5.
    "aliyun": lambda each: each.sized(GIB) and (each.open("cores") or (each.devices == 1 and each.part(step=5))),
    # Units of one device.
    "gpushare": lambda each: (
        each.devices == 1 and each.sized(each.cluster.units.get("gpushare") or GIB) and each.open("cores")
    ),
    # 256 MiB and 1 to 99 % of one.
    "vcuda": lambda each: each.whole or (each.devices == 1 and each.sized(256 * MIB) and each.part(most=99)),
    "qgpu": qgpu,
    # GiB or percent of each, cores from 5 % or none; the model is the cluster's.
    "baidu": lambda each: (
        each.configured and (each.whole or ((each.sized(GIB) or each.memory == "percent") and each.cores(5)))
    ),
    # 128 MiB of each device, cores in steps of 5 or none.
    "cce": lambda each: each.sized(128 * MIB, 16384 * 128 * MIB) and each.cores(step=5, most=95),
    # Both MiB and 1 to 99 % of each.
    "vke": lambda each: each.whole or (each.sized(MIB) and each.part(most=99)),
    # Bytes or a ratio of each device, cores or none.
    "koordinator": lambda each: (each.sized(1) or each.memory == "percent") and each.cores(),
    # MiB of one, cores below 100 % or none; or cores alone.
    "elastic-gpu": lambda each: (
        each.whole
        or (
            each.devices == 1
            and ((each.sized(MIB) and each.cores(most=99)) or (each.open("memory") and each.part(most=99)))
        )
    ),
    # One percentage of one device.
    "nano-gpu": lambda each: (
        each.devices == 1 and each.memory == "percent" and each.amounts.cores == each.amounts.memory
    ),
    # Bytes and thousandths of each device, or no limit of either.
    "intel": lambda each: (
        (each.sized(1) or each.open("memory")) and (each.amounts.cores[0] == "percent" or each.open("cores"))
    ),
    # MiB of each device, or all of it; cores or none.
    "vgpu-manager": lambda each: each.devices <= 16 and (each.sized(MIB) or each.all_of("memory")) and each.cores(),
    "mig": mig,
    # The same, where the devices are cut into slices of one size.
    "mig-single": lambda each: bool(each.cluster.chip) and mig(each),
    # A fraction or MiB of each device.
    "kai": lambda each: (
        ((each.memory == "percent" and each.amounts.memory[1] < 100) or each.sized(MIB)) and each.open("cores")
    ),
    # Bytes of each device.
    "nvfractions": lambda each: each.sized(1) and each.open("cores"),
    "tensor-fusion": tensor_fusion,
    # Turns on devices, without a limit of anything; by MPS one part of one device.
    "timeslicing": lambda each: each.open("memory") and each.open("cores"),
    "mps": lambda each: each.open("memory") and each.open("cores") and each.devices == 1,
    **dict.fromkeys(("whole", "biren", "vastai"), lambda each: each.whole),
    # Several devices are whole ones; 256 MiB of one, cores or none.
    "iluvatar": lambda each: each.whole or (each.devices == 1 and each.sized(256 * MIB) and each.cores()),
    "cambricon": cambricon,
    # Several devices are whole ones; legal sizes of one, cores in sixteenths or none.
    "mthreads": lambda each: (
        each.whole
        or (
            each.devices == 1
            and each.sized(1, moore_threads_sizes(each.cluster.moore_threads)[-2] * 512 * MIB)
            and each.cores()
        )
    ),
    # GiB and cores of each: without cores it is all.
    "metax": lambda each: each.whole or (each.sized(GIB) and each.part()),
    # Several devices are whole ones; MiB and cores of one: without cores it is all.
    "hygon": lambda each: each.whole or (each.devices == 1 and each.sized(MIB) and each.part()),
    # MiB, or all memory without a key for it, and cores: without cores it is all. HAMi 2.10.0 has no key for percent.
    "amd": lambda each: each.whole or ((each.sized(MIB) or each.all_of("memory")) and each.part()),
    "kunlun": kunlun,
    # GiB of one, cores or none.
    "enflame": lambda each: each.whole or (each.devices == 1 and each.sized(GIB, 192 * GIB) and each.cores()),
    "ascend": ascend,
    # A core of one, which is half of it.
    "neuron": lambda each: each.whole or (each.devices == 1 and each.open("memory") and each.part(most=50)),
}
"""By target; `neutral` is none. `each.whole` alone: whole devices."""
