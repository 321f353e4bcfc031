"""Requests for other hardware under HAMi, as its users write them."""

from tests.fuzz.draw import Draw
from tests.fuzz.requests.ask import Ask, Value, cards, cores, mib, some, under


def iluvatar(draw: Draw, name: str) -> Ask:
    """Iluvatar's."""
    chip = draw.pick(("", "", "MR-V100", "BI-V150"))
    keys = ("vgpu", "vcuda-memory", "vcuda-core") if not chip else (f"{chip}-vgpu", f"{chip}.vMem", f"{chip}.vCore")
    values: tuple[Value, ...] = (draw.pick((1, 1, 1, 2, 3)), draw.whole(1, 320), draw.whole(1, 100))
    wanted = (0.95, 0.7, 0.5)
    found = {
        f"iluvatar.ai/{key}": value for key, value, odds in zip(keys, values, wanted, strict=True) if draw.chance(odds)
    }
    return Ask(found or {f"iluvatar.ai/{keys[0]}": 1}, {}, {})


def mthreads(draw: Draw, name: str) -> Ask:
    """Mthreads's."""
    parts = {
        **some(draw, 0.9, vgpu=draw.pick((1, 1, 1, 2))),
        **some(draw, 0.7, sgpu_memory=draw.pick((2, 4, 8, 16, 32, 64, 96, 128, 160, 3))),
        **some(draw, 0.5, sgpu_core=draw.whole(1, 16)),
    }
    return under("mthreads.com/", parts or {"vgpu": 1})


def metax(draw: Draw, name: str) -> Ask:
    """Metax's."""
    if draw.chance(0.2):
        return under("metax-tech.com/", {"gpu": cards(draw)})
    sizes: tuple[Value, ...] = (draw.whole(1, 64), f"{draw.whole(1, 64)}Gi")
    parts = {"sgpu": cards(draw), **some(draw, 0.7, vmemory=draw.pick(sizes)), **some(draw, 0.5, vcore=cores(draw))}
    notes: dict[str, str] = {}
    if draw.chance(0.3):
        notes["metax-tech.com/sgpu-qos-policy"] = draw.pick(("fixed-share", "best-effort", "burst-share"))
    if draw.chance(0.1):
        notes["metax-tech.com/sgpu-app-class"] = draw.pick(("online", "offline"))
    return under("metax-tech.com/", parts)._replace(annotations=notes)


def hygon(draw: Draw, name: str) -> Ask:
    """Hygon's."""
    kind = draw.pick(("dcu", "dcu", "hcu"))
    found: dict[str, Value] = {f"hygon.com/{kind}num": draw.pick((1, 1, 1, 2))}
    if draw.chance(0.7):
        found[f"hygon.com/{kind}mem"] = mib(draw)
    if draw.chance(0.5):
        found[f"hygon.com/{kind}cores"] = cores(draw)
    return Ask(found, {}, {})


def amd(draw: Draw, name: str) -> Ask:
    """Amd's."""
    parts = {
        "gpu": cards(draw),
        **some(draw, 0.6, gpumem=mib(draw)),
        **some(draw, 0.2, gpumem_percentage=draw.whole(1, 100)),
        **some(draw, 0.5, gpucores=cores(draw)),
    }
    return under("amd.com/", parts)


def kunlun(draw: Draw, name: str) -> Ask:
    """Kunlun's."""
    if draw.chance(0.3):
        return under("kunlunxin.com/", {"xpu": draw.pick((1, 2, 4, 8, 3))})
    return under(
        "kunlunxin.com/",
        {"vxpu": cards(draw), **some(draw, 0.8, vxpu_memory=draw.pick((24576, 49152, 98304, mib(draw))))},
    )


def enflame(draw: Draw, name: str) -> Ask:
    """Enflame's."""
    if draw.chance(0.3):
        return under("enflame.com/", {"gcu": cards(draw)})
    parts = {
        **some(draw, 0.7, gcu_memory=draw.whole(1, 96)),
        **some(draw, 0.5, gcu_core=draw.whole(1, 100)),
        **some(draw, 0.2, shared_gcu=draw.whole(1, 6)),
    }
    return under("enflame.com/", parts or {"drs_gcu": 1})


def cambricon(draw: Draw, name: str) -> Ask:
    """Cambricon's."""
    base = f"cambricon.com/{draw.pick(('mlu', 'mlu', 'mlu370'))}.smlu."
    found: dict[str, Value] = {"cambricon.com/vmlu": draw.pick((1, 1, 1, 2))}
    if draw.chance(0.7):
        found[f"{base}vmemory"] = draw.whole(1, 100)
    if draw.chance(0.5):
        found[f"{base}vcore"] = cores(draw)
    return Ask(found, {}, {})


def ascend(draw: Draw, name: str) -> Ask:
    """Ascend's."""
    chip = f"huawei.com/Ascend{draw.pick(('910B2', '910B3', '910A', '910B4', '310P', '910C'))}"
    found: dict[str, Value] = {chip: draw.pick((1, 1, 1, 2, 3))}
    if draw.chance(0.6):
        found[f"{chip}-memory"] = draw.pick((8192, 16384, 32768, 65536, mib(draw)))
    if draw.chance(0.8):
        return Ask(found, {}, {})
    if draw.chance(0.5):
        found[f"{chip}-core"] = draw.whole(1, 100)
    policies = ("fixed-share", "elastic", "best-effort", "fixed", "2", "fixed-share")
    key = draw.pick(("huawei.com/enpu-policy", "huawei.com/enpu-policy", "huawei.com/scheduler.softShareDev.policy"))
    policy = {key: draw.pick(policies)} if draw.chance(0.7) else {}
    labels = {"huawei.com/scheduler.softShareDev.policy": draw.pick(policies)} if draw.chance(0.2) else {}
    return Ask(found, labels, {"huawei.com/vnpu-mode": "enpu", **policy})


def neuron(draw: Draw, name: str) -> Ask:
    """Neuron's."""
    number = draw.pick((1, 2, 4, 3))
    parts: dict[str, Value] = {"neuroncore": number} if draw.chance(0.5) else {"neuron": cards(draw)}
    return under("aws.amazon.com/", {**parts, **some(draw, 0.1, neuroncore=number)})
