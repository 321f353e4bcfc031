"""What each vendor can express: the smallest step of memory and cores, for one device. Sources: as its reader."""

from collections.abc import Mapping
from fractions import Fraction

from tests.fuzz.oracle.hami import ASCEND, moore_threads_sizes
from tests.fuzz.oracle.keys import Cluster
from tests.fuzz.oracle.meaning import ALL, GIB, MIB, Amounts, Number

UNITS = {
    **dict.fromkeys(
        ("nvidia", "volcano", "volcano-legacy", "vke", "kai", "elastic-gpu", "vgpu-manager", "hygon", "amd"), MIB
    ),
    **dict.fromkeys(("aliyun", "qgpu", "baidu", "metax", "enflame"), GIB),
    **dict.fromkeys(("koordinator", "intel", "nvfractions", "tensor-fusion", "neutral"), 1),
    "vcuda": 256 * MIB,
    "iluvatar": 256 * MIB,
    "cce": 128 * MIB,
}
SETS = {"kunlun": (24576 * MIB, 49152 * MIB, 98304 * MIB), "ascend": tuple(mib * MIB for mib in ASCEND["910B2"])}
STEP_OF_CORES: Mapping[str, Number] = {
    "aliyun": 5,
    "qgpu": 5,
    "cce": 5,
    "baidu": 5,
    "intel": Fraction(1, 10),
    "mthreads": Fraction(25, 4),
    "neuron": 50,
}


def memory_step(target: str, requested: Amounts, cluster: Cluster) -> Number | None:
    """Bytes below which a rounding has to stay; None where only the node knows."""
    kind, number = requested.memory
    if target == "vke" and kind == "size":
        least = 1024 * MIB if requested.devices > 1 else 256 * MIB
        return max(Fraction(MIB), least - number + 1)
    legal = SETS.get(target, ())
    if target == "mthreads":
        legal = tuple(units * 512 * MIB for units in moore_threads_sizes(cluster.moore_threads))
    if legal and kind == "size":
        above = next((each for each in legal if each >= number), None)
        return None if above is None else above - number + 1
    if target in {"gpushare", "cambricon"}:
        return cluster.units.get(target, GIB)
    return UNITS.get(target)


def core_step(target: str, requested: Amounts, got: Amounts) -> Number:
    """Percent below which a rounding has to stay."""
    if target in {"mig", "mig-single", "kunlun", "nano-gpu"} or got.memory == ALL:
        return 101
    return STEP_OF_CORES.get(target, 1)
