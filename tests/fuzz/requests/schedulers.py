"""Requests in the terms of schedulers for NVIDIA's and Intel's devices, as their users write them."""

from tests.fuzz.draw import Draw
from tests.fuzz.requests.ask import Ask, Value, cards, cores, mib, some, under


def nvidia(draw: Draw, name: str) -> Ask:
    """Nvidia's."""
    parts = {
        **some(draw, 0.85, gpu=cards(draw)),
        **some(draw, 0.6, gpumem=mib(draw)),
        **some(draw, 0.25, gpumem_percentage=draw.pick((draw.whole(1, 99), 100))),
        **some(draw, 0.5, gpucores=cores(draw)),
        **some(draw, 0.05, priority=1),
    }
    ask = under("nvidia.com/", parts or {"gpu": 1})
    count = ask.resources.pop("nvidia.com/gpu", None)
    if count is not None:
        ask.resources[draw.pick((*["nvidia.com/gpu"] * 8, "nvidia.com/vgpu", "nvidia.com/gpualloc"))] = count
    return ask


def volcano(draw: Draw, name: str) -> Ask:
    """Volcano's."""
    parts = {
        **some(draw, 0.85, vgpu_number=cards(draw)),
        **some(draw, 0.7, vgpu_memory=mib(draw)),
        **some(draw, 0.15, vgpu_memory_percentage=draw.whole(1, 100)),
        **some(draw, 0.5, vgpu_cores=cores(draw)),
    }
    return under("volcano.sh/", parts or {"vgpu_number": 1})


def volcano_legacy(draw: Draw, name: str) -> Ask:
    """volcano-legacy's."""
    return under("volcano.sh/", {"gpu_memory": mib(draw)} if draw.chance(0.7) else {"gpu_number": cards(draw)})


def koordinator(draw: Draw, name: str) -> Ask:
    """Koordinator's."""
    count = draw.pick((1, 1, 2, 3))
    kind = draw.random()
    prefix = "koordinator.sh/"
    if kind < 0.2:
        return under(prefix, {"gpu": draw.pick((draw.whole(1, 99), 100, 200, 400))})
    resources: dict[str, Value] = {}
    if draw.chance(0.6):
        resources["koordinator.sh/gpu.shared"] = count
    if draw.chance(0.7):
        sizes: tuple[Value, ...] = (f"{draw.whole(1, 80)}Gi", f"{mib(draw)}Mi", mib(draw) * 10**6)
        resources["koordinator.sh/gpu-memory"] = draw.pick(sizes)
    else:
        resources["koordinator.sh/gpu-memory-ratio"] = count * draw.whole(1, 100)
    if draw.chance(0.5):
        resources["koordinator.sh/gpu-core"] = draw.pick((count * draw.whole(1, 100), 100, 200))
    if draw.chance(0.08):
        resources["huawei.com/npu-core"] = draw.whole(1, 20)
    elif draw.chance(0.06):
        resources["cambricon.com/mlu.smlu.vmemory"] = draw.whole(1, 96)
        resources.update(some(draw, 0.8, **{"cambricon.com/mlu.smlu.vcore": draw.whole(1, 100)}))
    return Ask(resources, {}, {})


def elastic(draw: Draw, name: str) -> Ask:
    """Elastic's."""
    parts = {
        **some(draw, 0.7, gpu_core=draw.pick((draw.whole(1, 99), 100, 150, 200))),
        **some(draw, 0.8, gpu_memory=mib(draw)),
    }
    return under("elasticgpu.io/", parts or {"gpu_core": 25})


def nano(draw: Draw, name: str) -> Ask:
    """Nano's."""
    return Ask({"nano-gpu/gpu-percent": draw.pick((draw.whole(1, 99), 100))}, {}, {})


def intel(draw: Draw, name: str) -> Ask:
    """Intel's."""
    count = cards(draw)
    resources: dict[str, Value] = {f"gpu.intel.com/{draw.pick(('i915', 'xe'))}": count}
    if draw.chance(0.6):
        resources["gpu.intel.com/memory.max"] = draw.pick(
            (f"{draw.whole(1, 80)}Gi", f"{draw.whole(100, 9000)}M", f"{mib(draw)}Mi")
        )
    if draw.chance(0.5):
        resources["gpu.intel.com/millicores"] = count * draw.whole(1, 1000)
    return Ask(resources, {}, {})


def vgpu_manager(draw: Draw, name: str) -> Ask:
    """vgpu-manager's."""
    parts = {
        **some(draw, 0.85, vgpu_number=cards(draw)),
        **some(draw, 0.7, vgpu_memory=mib(draw)),
        **some(draw, 0.5, vgpu_cores=cores(draw)),
    }
    return under("nvidia.com/", parts or {"vgpu_number": 1})


def mig(draw: Draw, name: str) -> Ask:
    """Mig's."""
    profile = draw.pick(
        ("1g.34gb", "1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "1g.5gb", "4g.40gb", "1g.23gb", "1g.6gb")
    )
    return Ask({f"nvidia.com/mig-{profile}": draw.pick((1, 1, 1, 2))}, {}, {})


def kai(draw: Draw, name: str) -> Ask:
    """Kai's."""
    size = mib(draw)
    part = draw.whole(1, 99)
    fraction = draw.pick((f"0.{part:02}", f"0.{part:02}", f"{part}e-2"))
    notes = {"gpu-memory": str(size)} if draw.chance(0.5) else {"gpu-fraction": fraction}
    if draw.chance(0.3):
        notes["gpu-fraction-num-devices"] = str(cards(draw))
    if draw.chance(0.1):  # the most that may be used: as much as is guaranteed, or more
        if "gpu-memory" in notes:
            notes["gpu-memory.limit"] = f"{draw.pick((size, size, size + 1))}Mi"
        else:
            notes[draw.pick(("gpu-fraction.limit", "gpu-fraction-limit"))] = draw.pick((fraction, "0.995"))
    if draw.chance(0.2):  # as KAI's own webhook repeats it in its newer keys, or as somebody does by hand
        copied = draw.pick((f"{size}Mi", f"{size}Mi", f"{size + 1}Mi"))
        notes[f"nvidia.com/container.{name}.gpu-memory.request"] = copied
        if draw.chance(0.5):
            return Ask({}, {}, notes)
    notes["gpu-fraction-container-name"] = name
    return Ask({}, {}, notes)


def nvfractions(draw: Draw, name: str) -> Ask:
    """Nvfractions's."""
    text = draw.pick((f"{mib(draw)}Mi", f"{draw.whole(1, 80)}Gi", f"{draw.whole(1, 80)}G"))
    notes = {f"nvidia.com/container.{name}.gpu-memory.{end}": text for end in ("limit", "request") if draw.chance(0.7)}
    if draw.chance(0.3):
        notes["gpu-fraction-num-devices"] = str(cards(draw))
    return Ask({}, {}, notes)


def tensor_fusion(draw: Draw, name: str) -> Ask:
    """tensor-fusion's."""
    notes = {}
    if draw.chance(0.85):
        notes["tensor-fusion.ai/vram-limit"] = draw.pick((f"{mib(draw)}Mi", f"{draw.whole(1, 80)}Gi"))
    if draw.chance(0.5) or not notes:
        notes["tensor-fusion.ai/compute-percent-limit"] = str(draw.whole(1, 100))
    if draw.chance(0.4):
        notes["tensor-fusion.ai/gpu-count"] = draw.pick((str(cards(draw)), str(cards(draw)), "129"))
    elif draw.chance(0.2):
        notes["tensor-fusion.ai/gpu-indices"] = draw.pick(("0", "0,1", "3,1,2"))
    if draw.chance(0.2):
        notes["tensor-fusion.ai/isolation"] = draw.pick(("soft", "hard", "partitioned", "shared"))
    if draw.chance(0.1):
        notes["tensor-fusion.ai/dedicated-gpu"] = draw.pick(("true", "true", "false"))
        notes.update({"tensor-fusion.ai/gpu-model": "A100"} if draw.chance(0.8) else {})
    native: dict[str, Value] = {"nvidia.com/gpu": cards(draw)} if draw.chance(0.25) else {}
    if native and draw.chance(0.3):
        return Ask(native, {"tensor-fusion.ai/enabled": "true"}, {})
    notes["tensor-fusion.ai/inject-container"] = draw.pick((name, name, name, "c0,c1"))
    return Ask(native, {"tensor-fusion.ai/enabled": "true"} if draw.chance(0.2) else {}, notes)


def neutral(draw: Draw, name: str) -> Ask:
    """Neutral's."""
    prefix = f"vgpu-webhook.io/container.{name}."
    notes = {f"{prefix}memory": draw.pick((f"{mib(draw)}Mi", f"{draw.whole(1, 80)}Gi"))}
    if draw.chance(0.5):
        notes[f"{prefix}cores"] = str(draw.whole(1, 100))
    if draw.chance(0.5):
        notes[f"{prefix}devices"] = str(cards(draw))
    return Ask({}, {}, notes)
