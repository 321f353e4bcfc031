"""Pods in the keys of the built-in vendors: mostly plausible, often wrong, with fields that nobody knows yet."""

from typing import Any

from hypothesis import strategies as st

from tests.fuzz.draw import Draw
from tests.fuzz.misspelled import misspelled_key

Json = dict[str, Any]
Side = dict[str, str | int]

ODD: list[str | int] = [
    *("-1", "500m", "0.5", ".5", "5.", "1e3", "1E2", "3k", "1Ki", "8Gi", "4n", "2500000u", "+2"),
    *("", "abc", "1 ", "\uff11", "1e10000000", "9223372036854775808", "9" * 50, "1i", "0x10"),
    *(1, 0, -3, 2**63),
]
KEY_NAMES = [
    *("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    *("nvidia.com/priority", "iluvatar.ai/vgpu", "iluvatar.ai/vcuda-memory", "iluvatar.ai/vcuda-core"),
    *("iluvatar.ai/MR-V100-vgpu", "iluvatar.ai/MR-V100.vMem", "iluvatar.ai/BI-V150.vCore"),
    *("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage", "tencent.com/vcuda-core", "tencent.com/vcuda-memory"),
]
STRANGERS = [
    *("cpu", "memory", "nvidia.com/pgpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpus", "nvidia.com/gpumemory"),
    *("aliyun.com/gpu-count", "tencent.com/vcuda-cores", "example.com/a~b/c", "x" * 70, "nvidia.com/", "/", "~1"),
]
VARIABLES = [
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT", "CUDA_REDIRECT"),
    *("CUDA_DISABLE_CONTROL", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT_0", "A", "B"),
    *("VGPU_WEBHOOK_LD_LIBRARY_PATH", "CUDA_DEVICE_MEMORY_SHARED_CACHE"),
]
VALUES = ["", "/opt/lib", "/opt/lib:", ":/a::b", "true", "false", "none", "3000m", "$(A)", "/usr/local/vgpu-shim:/x"]


def misspelled_keys() -> st.SearchStrategy[str]:
    """A label or annotation of the webhook with one letter too few, too many, or wrong."""
    return st.integers(0, 2**32).map(lambda seed: misspelled_key(Draw(seed)))


def whole(least: int, most: int) -> st.SearchStrategy[str | int]:
    """A number as the API server might send it."""
    return st.integers(least, most).map(_canonical)


def _canonical(number: int) -> str | int:
    return f"{number // 1000}k" if number and number % 1000 == 0 else str(number)


@st.composite
def nvidia(draw: st.DrawFn) -> Side:
    """A request that HAMi takes."""
    side: Side = {"nvidia.com/gpu": draw(whole(1, 4))}
    memory = draw(st.sampled_from(["size", "size", "percent", "both", "none", "zero"]))
    if memory in {"size", "both"}:
        side["nvidia.com/gpumem"] = draw(whole(1, 80_000))
    if memory in {"percent", "both"}:
        side["nvidia.com/gpumem-percentage"] = draw(whole(1, 100))
    if memory == "zero":
        side["nvidia.com/gpumem"] = "0"
    if draw(st.booleans()):
        side["nvidia.com/gpucores"] = draw(whole(0, 100))
    if draw(st.integers(0, 9)) == 0:
        side["nvidia.com/priority"] = "1"
    if len(side) > 1 and draw(st.booleans()):
        del side["nvidia.com/gpu"]
    return side


@st.composite
def iluvatar(draw: st.DrawFn) -> Side:
    """A request that Iluvatar's plugin takes, in the old spelling or a new one."""
    count, memory, cores = draw(
        st.sampled_from(
            [
                ("iluvatar.ai/vgpu", "iluvatar.ai/vcuda-memory", "iluvatar.ai/vcuda-core"),
                ("iluvatar.ai/MR-V100-vgpu", "iluvatar.ai/MR-V100.vMem", "iluvatar.ai/MR-V100.vCore"),
            ]
        )
    )
    side: Side = {count: draw(st.sampled_from(["1", "1", "1", "2", "3"]))}
    if draw(st.integers(0, 3)):
        side[memory] = draw(whole(1, 320))
    if draw(st.booleans()):
        side[cores] = draw(whole(1, 100))
    return side


@st.composite
def aliyun(draw: st.DrawFn, cards: int) -> Side:
    """A request that ACK takes."""
    side: Side = {"aliyun.com/gpu-mem": str(cards * draw(st.integers(1, 40)))}
    if cards == 1 and draw(st.booleans()):
        side["aliyun.com/gpu-core.percentage"] = str(5 * draw(st.integers(1, 20)))
    return side


@st.composite
def vcuda(draw: st.DrawFn) -> Side:
    """A request that gpu-manager takes."""
    if draw(st.integers(0, 3)) == 0:
        return {"tencent.com/vcuda-core": str(100 * draw(st.integers(1, 4)))}
    return {"tencent.com/vcuda-core": draw(whole(1, 99)), "tencent.com/vcuda-memory": draw(whole(1, 320))}


CHAOS: st.SearchStrategy[Side] = st.dictionaries(
    st.sampled_from([*KEY_NAMES, *STRANGERS]),
    st.one_of(st.sampled_from(["1", "2", "50"]), st.sampled_from(ODD)),
    max_size=4,
)


def resources(side: Side, shape: str) -> Json | None:
    """Resources of a container that hold a request, in one of the shapes in which it can arrive."""
    known: dict[str, Json | None] = {
        "both": {"limits": side, "requests": dict(side)},
        "limits": {"limits": side},
        "requests": {"requests": side},
        "empty requests": {"limits": side, "requests": {}},
        "null requests": {"limits": side, "requests": None},
        "null limits": {"limits": None, "requests": side},
    }
    return known[shape]


SHAPES = ["both", "both", "both", "limits", "requests", "empty requests", "null requests", "null limits"]


def futures() -> st.SearchStrategy[Json]:
    """A field that only a newer API server knows, or none."""
    values = st.sampled_from([1, 1.5, None, [], [{"a": "~/"}], {"limits": {"nvidia.com/gpu": "1"}}])
    return st.one_of(st.just({}), st.fixed_dictionaries({"futureField": values}))


def variables(names: list[str]) -> st.SearchStrategy[Any]:
    """The ``env`` of a container."""
    plain = st.fixed_dictionaries({"name": st.sampled_from(names), "value": st.sampled_from(VALUES)})
    elsewhere = st.sampled_from(["A", "LD_LIBRARY_PATH"]).map(
        lambda name: {"name": name, "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    )
    harmless = st.tuples(futures(), st.sampled_from(["A", "B"])).map(lambda each: {"name": each[1], **each[0]})
    return st.one_of(st.none(), st.lists(st.one_of(plain, harmless, elsewhere), max_size=4))


def mounts() -> st.SearchStrategy[Any]:
    """The ``volumeMounts`` of a container."""
    own = st.fixed_dictionaries({"name": st.just("own"), "mountPath": st.sampled_from(["/own", "/tmp", "/usr/local"])})
    ours = st.just({"name": "vgpu-shim", "mountPath": "/usr/local/vgpu-shim", "readOnly": True})
    clash = st.sampled_from([{"name": "own", "mountPath": path} for path in ("/tmp/vgpulock/", "/etc//ld.so.preload")])
    return st.one_of(
        st.just(None), st.just([]), st.lists(own, max_size=2), st.lists(st.one_of(own, ours, clash), max_size=2)
    )


CLAIMS = [{"name": "own"}, {"name": "own", "request": "r"}, {"name": "nic", "futureField": 1}]
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/gpu.example.com"


@st.composite
def claimed(draw: st.DrawFn, found: Json) -> Json:
    """Resources of a container, rarely with claims of Dynamic Resource Allocation beside whatever is there."""
    kind = draw(st.integers(0, 29))
    if kind == 0:
        return {**found, "claims": draw(st.one_of(st.none(), st.lists(st.sampled_from(CLAIMS), max_size=2)))}
    if kind == 1:
        number = draw(st.sampled_from(["1", "2", "0"]))
        return {**found, **{side: {**(found.get(side) or {}), DEVICE_CLASS: number} for side in ("limits", "requests")}}
    return found


@st.composite
def containers(draw: st.DrawFn, name: str, sides: st.SearchStrategy[Side], names: list[str]) -> Json:
    """One container."""
    container: Json = {"name": name, "image": "i", **draw(futures())}
    side = {**draw(sides), **draw(st.sampled_from([{}, {}, {"cpu": "500m"}]))}
    if draw(st.booleans()) or side:
        shaped = resources(side, draw(st.sampled_from(SHAPES))) or {}
        container["resources"] = {**draw(claimed(shaped)), **draw(futures())}
    for key, values in (("env", variables(names)), ("volumeMounts", mounts())):
        if draw(st.booleans()):
            container[key] = draw(values)
    if draw(st.integers(0, 9)) == 0:
        container["envFrom"] = [{"configMapRef": {"name": "c"}}]
    return container


SOUND_VARIABLES = ["LD_LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "A"]
TARGETS = ["nvidia", "aliyun", "gpushare", "vcuda", "iluvatar", "vke"]


@st.composite
def sound_pods(draw: st.DrawFn) -> Json:
    """A pod whose requests its vendor takes; whether its target does is another matter."""
    cards = draw(st.sampled_from([1, 1, 1, 2, 3, 4]))
    labels = {} if cards == 1 else {"aliyun.com/gpu-count": str(cards)}
    side = draw(st.sampled_from([nvidia(), nvidia(), iluvatar(), aliyun(cards), vcuda()]))
    count = 1 if labels else draw(st.integers(1, 3))
    nothing: st.SearchStrategy[Side] = st.just({})
    sides = [side, *[st.one_of(side, nothing)] * (count - 1)]
    spec: Json = {
        "containers": [draw(containers(f"c{n}", keys, SOUND_VARIABLES)) for n, keys in enumerate(sides)],
        **draw(futures()),
    }
    if draw(st.integers(0, 4)) == 0:
        spec["initContainers"] = [draw(containers("i0", nothing if labels else side, SOUND_VARIABLES))]
    annotations: Json = draw(ANNOTATIONS)
    if draw(st.booleans()):
        annotations["vgpu-webhook.io/target"] = draw(st.sampled_from(TARGETS))
    metadata: Json = {"name": "p", **draw(futures())}
    if draw(st.booleans()) or labels:
        metadata["labels"] = {"app": "a", **labels}
    if draw(st.booleans()) or annotations:
        metadata["annotations"] = annotations or None
    return _pod(draw, metadata, spec)


def _pod(draw: st.DrawFn, metadata: Json, spec: Json) -> Json:
    for key, values in (
        ("schedulerName", ["default-scheduler", "hami-scheduler", "volcano"]),
        ("volumes", [None, [], [{"name": "own", "emptyDir": {}, "futureField": 1}]]),
        ("tolerations", [None, [], [{"operator": "Exists"}]]),
        (
            "nodeSelector",
            [None, {}, {"gpu": "true"}, *[{"nvidia.com/gpu.product": card} for card in ("A100", "T4", "H20")]],
        ),
    ):
        if draw(st.booleans()):
            spec[key] = draw(st.sampled_from(values))
    if draw(st.integers(0, 9)) == 0:
        template = {"name": "own", "resourceClaimTemplateName": "t"}
        spec["resourceClaims"] = draw(
            st.sampled_from([None, [], [template], [template, {"name": "nic", "futureField": 1}]])
        )
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **draw(futures())}


ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "vgpu-webhook.io/status": st.just("{}"),
        "vgpu-webhook.io/summary": st.just("forged"),
        "nvidia.com/gpumem": st.just("3000"),
        "nvidia.com/use-gputype": st.just("A10"),
        "hami.io/vgpu-node": st.just("n"),
        "ALIYUN_COM_GPU_MEM_IDX": st.just("0"),
        "a/b~c": st.just("/~1"),
    },
)
LABELS = st.dictionaries(
    st.sampled_from(
        ["app", "aliyun.com/gpu-count", "nvidia.com/gpu", "vgpu-webhook.io/inject", "vgpu-webhook.io/changed"]
    ),
    st.sampled_from(["1", "2", "3", "4", "02", "two", "disabled"]),
    max_size=2,
)


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """A pod as it could be sent, often wrong."""
    side = st.one_of(nvidia(), iluvatar(), aliyun(2), vcuda(), CHAOS, CHAOS, st.just({}))
    metadata: Json = {"name": "p", **draw(futures())}
    spec: Json = {"containers": [draw(containers(f"c{n}", side, VARIABLES)) for n in range(draw(st.integers(1, 3)))]}
    if draw(st.integers(0, 3)) == 0:
        spec["initContainers"] = [draw(containers(f"i{n}", side, VARIABLES)) for n in range(draw(st.integers(0, 2)))]
    if draw(st.integers(0, 9)) == 0:
        spec["containers"][0]["securityContext"] = {"privileged": True}
    if draw(st.integers(0, 9)) == 0:
        spec["nodeName"] = "node-1"
        spec["affinity"] = draw(st.sampled_from([None, {}, {"nodeAffinity": {"futureField": 1}}]))
    if draw(st.booleans()):
        metadata["labels"] = draw(st.one_of(LABELS, st.none()))
    if draw(st.booleans()):
        metadata["annotations"] = {
            **draw(ANNOTATIONS),
            "vgpu-webhook.io/target": draw(st.sampled_from([*TARGETS, "x"])),
        }
    return _pod(draw, metadata, spec)
