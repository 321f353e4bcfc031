"""Requests in the terms of cloud platforms, as their users write them."""

from tests.fuzz.draw import Draw
from tests.fuzz.requests.ask import Ask, Value, cards, some, under


def aliyun(draw: Draw, name: str) -> Ask:
    """Aliyun's."""
    count = draw.pick((1, 1, 1, 1, 2, 4))
    resources: dict[str, Value] = {"aliyun.com/gpu-mem": count * draw.whole(1, 80)}
    if count == 1 and draw.chance(0.4):
        resources["aliyun.com/gpu-core.percentage"] = 5 * draw.whole(1, 20)
    return Ask(resources, {"aliyun.com/gpu-count": str(count)} if count > 1 or draw.chance(0.1) else {}, {})


def vcuda(draw: Draw, name: str) -> Ask:
    """Vcuda's."""
    if draw.chance(0.25):
        return under("tencent.com/", {"vcuda_core": 100 * cards(draw), **some(draw, 0.3, vcuda_memory=16)})
    parts = {**some(draw, 0.85, vcuda_core=draw.whole(1, 99)), **some(draw, 0.85, vcuda_memory=draw.whole(1, 320))}
    return under("tencent.com/", parts or {"vcuda_memory": 16})


def qgpu(draw: Draw, name: str) -> Ask:
    """Qgpu's."""
    notes: dict[str, str] = {}
    parts: dict[str, Value] = {"qgpu_memory": draw.whole(1, 80)}
    kind = draw.random()
    if kind < 0.5:
        parts["qgpu_core"] = 5 * draw.whole(1, 19)
    elif kind < 0.65:
        parts["qgpu_core"] = draw.pick((100, 200, 400))
    elif kind < 0.8:
        parts |= {"qgpu_core": draw.whole(101, 199), "qgpu_memory": draw.whole(2, 160)}
    elif kind < 0.9:
        parts["qgpu_core_greedy"] = draw.whole(1, 100)
    elif draw.chance(0.7):
        notes["tke.cloud.tencent.com/app-class"] = "online"
    return Ask(under("tke.cloud.tencent.com/", parts).resources, {}, notes)


def baidu(draw: Draw, name: str) -> Ask:
    """Baidu's."""
    base = f"baidu.com/{draw.pick(('a10_24g', 'a10_24g', 'v100_32g', 'l20'))}_cgpu"
    count = cards(draw)
    resources: dict[str, Value] = {base: count}
    if draw.chance(0.7):
        resources[f"{base}_memory"] = count * draw.whole(1, 40)
    elif draw.chance(0.4):
        resources[f"{base}_memory_percent"] = count * draw.whole(1, 100)
    if draw.chance(0.5) and len(resources) > 1:
        resources[f"{base}_core"] = count * draw.whole(5, 100)
    return Ask(resources, {}, {})


def cce(draw: Draw, name: str) -> Ask:
    """Cce's."""
    count = draw.pick((1, 1, 1, 2, 4))
    resources: dict[str, Value] = {"volcano.sh/gpu-mem.128Mi": count * draw.whole(1, 640)}
    if draw.chance(0.5):
        resources["volcano.sh/gpu-core.percentage"] = min(count * 5 * draw.whole(1, 20), draw.pick((100, 400)))
    return Ask(resources, {"volcano.sh/gpu-num": str(count)} if count > 1 else {}, {})


def vke(draw: Draw, name: str) -> Ask:
    """Vke's."""
    count = draw.pick((1, 1, 1, 2, 4))
    if draw.chance(0.2):
        parts: dict[str, Value] = {"mgpu_core": 100 * count}
    else:
        parts = {
            **some(draw, 0.95, mgpu_core=count * draw.whole(1, 99)),
            **some(draw, 0.95, mgpu_memory=count * draw.pick((draw.whole(256, 80_000), 1024 * draw.whole(1, 80)))),
        }
    ask = under("vke.volcengine.com/", parts or {"mgpu_core": 30})
    return ask._replace(listed=draw.pick((str(count), str(count), str(count), "0")) if count > 1 else None)
