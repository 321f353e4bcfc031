"""Which containers of a pod ask, in whose keys, and what that means."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.fuzz.oracle import clouds, hami, schedulers
from tests.fuzz.oracle.keys import Cluster, Keys
from tests.fuzz.oracle.meaning import ALL, Alone, Denied, Lacks, Meaning, Unsure, count
from tests.fuzz.oracle.names import name_of, owner_of
from tests.fuzz.oracle.quantity import UnreadableError, number_in, quantity
from tests.fuzz.oracle.several import alone, checked_sums, copied

Json = dict[str, Any]

READERS: Mapping[str, Callable[[Keys], Meaning | None]] = {
    "nvidia": hami.nvidia,
    "iluvatar": hami.iluvatar,
    "cambricon": hami.cambricon,
    "mthreads": hami.mthreads,
    "metax": hami.metax,
    "hygon": hami.hygon,
    "amd": hami.amd,
    "kunlun": hami.kunlun,
    "enflame": hami.enflame,
    "ascend": hami.ascend,
    "neuron": hami.neuron,
    "biren": partial(hami.whole, "biren", "gpu"),
    "vastai": partial(hami.whole, "vastai", "va"),
    "whole": partial(hami.whole, "whole", "gpu"),
    "aliyun": clouds.aliyun,
    "gpushare": clouds.gpushare,
    "vcuda": clouds.vcuda,
    "qgpu": clouds.qgpu,
    "baidu": clouds.baidu,
    "cce": clouds.cce,
    "vke": clouds.vke,
    "volcano": schedulers.volcano,
    "volcano-legacy": schedulers.volcano_legacy,
    "koordinator": schedulers.koordinator,
    "elastic-gpu": schedulers.elastic_gpu,
    "nano-gpu": schedulers.nano_gpu,
    "vgpu-manager": schedulers.vgpu_manager,
    "intel": schedulers.intel,
    "kai": schedulers.kai,
    "nvfractions": schedulers.nvfractions,
    "tensor-fusion": schedulers.tensor_fusion,
    "mig": schedulers.mig,
    "timeslicing": schedulers.timeslicing,
    "mps": schedulers.mps,
    "neutral": schedulers.neutral,
}
COUNTS = {
    "nvidia": {"gpu"},
    "iluvatar": {"vgpu"},
    "cambricon": {"vmlu"},
    "mthreads": {"vgpu"},
    "metax": {"sgpu", "gpu"},
    "hygon": {"num"},
    "amd": {"gpu"},
    "kunlun": {"xpu", "vxpu"},
    "enflame": {"gcu", "drs-gcu", "vgcu"},
    "ascend": {"cards"},
    "neuron": {"neuron"},
    "biren": {"gpu"},
    "vastai": {"va"},
    "whole": {"gpu"},
    "baidu": {"cgpu"},
    "volcano": {"vgpu-number"},
    "volcano-legacy": {"gpu-number"},
    "koordinator": {"shared"},
    "vgpu-manager": {"vgpu-number"},
    "intel": {"cards"},
    "mig": {"slices"},
    "timeslicing": {"gpu"},
    "mps": {"gpu"},
}
"""The keys that count devices: at 0 they ask for none."""
APART = {"vgpu-manager": {"vgpu-number"}, "volcano-legacy": {"gpu-number"}, "enflame": {"gcu"}}
"""Counts that are at 0 as if they were not there, for others ask without them: vgpu-manager ``pod_mutate.go`` makes 1 of it,
Volcano ``gpushare/device_info.go`` and HAMi ``enflame/gcu.go`` count the others apart."""
PARTS = {"priority", "greedy", "shared-gcu", "npu-core"}
"""Keys that are no amounts of a device."""
AS_ABSENT = {
    "nvidia": {"gpumem", "gpumem-percentage", "gpucores"},
    "volcano": {"vgpu-memory", "vgpu-memory-percentage", "vgpu-cores"},
    "volcano-legacy": {"gpu-memory"},
    "vgpu-manager": {"vgpu-memory", "vgpu-cores"},
    "koordinator": {"gpu-memory", "ratio", "gpu-core", "npu-core"},
    "vcuda": {"vcuda-core", "vcuda-memory"},
    "iluvatar": {"vcuda-memory", "vcuda-core"},
    "cambricon": {"vmemory"},
    "hygon": {"mem"},
    "metax": {"vmemory"},
    "mthreads": {"sgpu-core"},
    "amd": {"gpumem"},
    "ascend": {"core"},
}
"""Where 0 is read as if the key were not there (``GenerateResourceRequests`` of HAMi's devices, ``ExtractResourceRequest`` of
Volcano, ``RemoveZeros`` in Koordinator's ``GetPodDeviceRequests``, ``IsGPURequiredContainer`` of gpu-admission)."""
READ = {
    "kunlun": {"vxpu-memory"},
    "ascend": {"memory"},
    "amd": {"gpucores"},
    "mthreads": {"sgpu-memory"},
    "enflame": {"gcu-memory"},
}
"""Where a reader knows better."""
COUNT_NAMES = {
    "iluvatar": "iluvatar.ai/vgpu",
    "cambricon": "cambricon.com/vmlu",
    "metax": "metax-tech.com/sgpu",
    "amd": "amd.com/gpu",
    "kunlun": "kunlunxin.com/vxpu",
    "volcano": "volcano.sh/vgpu-number",
    "vgpu-manager": "nvidia.com/vgpu-number",
    "intel": "gpu.intel.com/i915",
}
"""The counts without which the vendors ignore the rest."""
NATIVE = "nvidia.com/gpu"
FUSED = "tensor-fusion.ai/enabled"
"""The label of pods that TensorFusion's webhook takes (``pod_webhook.go``)."""
COPIES = ("kai", "nvfractions")
"""The second repeats the first one's requests in its own keys; both stay."""
BESIDE = (("koordinator", "cambricon"), ("koordinator", "metax"), ("koordinator", "hygon"))
"""An MLU or a MetaX GPU by Koordinator: the keys of both stand in one container (``device-scheduling-cambricon-mlu.md``,
announcement of 1.8.0), or a DCU (koordinator#3044)."""
CONTAINER_KEY = re.compile(r"(?:nvidia\.com|vgpu-webhook\.io)/container\.(.+?)\.(gpu-memory\.|memory|cores|devices)")


@dataclass(frozen=True, slots=True)
class Read:
    """One container as its vendor takes it.

    Attributes:
        vendor: in whose keys it asks, be it for 0; None: in nobody's.
        meaning: what it asks for; None where it asks for nothing, or `refused` or `unsure` says why that is not known.
        refused: why the vendor rejects or ignores it.
        lacks: the resource name of the count without which it is ignored.
        ignores: whether a size or cores are specified that have no effect beside the count.
        unsure: what the vendor's documentation leaves open.
        left: another system serves it, or nobody knows what the name holds: it stays as it stands.
        used: the resource names that carry the request.
    """

    name: str
    init: bool
    vendor: str | None = None
    meaning: Meaning | None = None
    refused: str | None = None
    unsure: str | None = None
    lacks: str | None = None
    ignores: bool = False
    left: bool = False
    used: tuple[str, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether it asks for nothing."""
        return self.meaning is None and not (self.refused or self.unsure or self.left or self.used)


def read_with(pod: Json, read: Read, added: Json, cluster: Cluster) -> Read:
    """A container read once more as if these resources stood there, too."""
    changed = json.loads(json.dumps(pod))
    for container in [*(changed["spec"].get("initContainers") or []), *changed["spec"]["containers"]]:
        if container["name"] == read.name:
            limits = {**(container["resources"].get("requests") or {}), **(container["resources"].get("limits") or {})}
            container["resources"] = {"limits": {**limits, **added}}
    return next(each for each in read_pod(changed, cluster) if each.name == read.name)


def read_pod(pod: Json, cluster: Cluster) -> list[Read]:
    """Every container of a pod, init containers first."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    regular, init = spec.get("containers") or [], spec.get("initContainers") or []
    listed = [(each, None) for each in init] + [(container, at) for at, container in enumerate(regular)]
    found = [_found(container, cluster) for container, _ in listed]
    names = {container.get("name", "") for container, _ in listed}
    by_annotation = dict(_annotated(annotations, [each.get("name", "") for each in regular])) if annotations else {}
    if not by_annotation.keys() <= names:
        return [
            Read(container.get("name", ""), at is None, "", unsure="a container that is not there")
            for container, at in listed
        ]
    requesters: dict[str, int] = {}
    for (container, _), vendors in zip(listed, found, strict=True):
        for vendor in {*vendors, *by_annotation.get(container.get("name", ""), ())}:
            requesters[vendor] = requesters.get(vendor, 0) + 1
    of_kai, of_copies = ({name for name, vendors_of in by_annotation.items() if each in vendors_of} for each in COPIES)
    elsewhere = bool(of_kai and of_copies) and of_kai != of_copies
    reads: list[Read] = []
    summed: list[tuple[int, Keys]] = []
    for (container, position), vendors in zip(listed, found, strict=True):
        name = container.get("name", "")
        vendors_of = list(dict.fromkeys([*vendors, *by_annotation.get(name, ())]))
        if not vendors_of:
            reads.append(_idle(container, position, cluster))
            continue
        used = tuple(vendors.get(vendors_of[0], ()))
        both = COPIES if set(vendors_of) == set(COPIES) else tuple(vendors_of)
        if elsewhere and vendors_of[0] in COPIES:
            reads.append(Read(name, position is None, vendors_of[0], refused="a copy for another container", used=used))
            continue
        its = Keys(name, position, len(regular), labels, annotations, cluster)
        single = len(list(filter(None, found))) == 1 and not {"tensor-fusion"} & requesters.keys() - {*vendors_of}
        mixed = _mixed(container, vendors_of, vendors, its, alone=single)
        if mixed is not None:
            reads.append(mixed)
            continue
        selector = spec.get("nodeSelector") or {}
        keys = Keys(name, position, len(regular), labels, annotations, cluster, selector, requesters[both[0]])
        read = _read(container, both[0], used, keys)
        reads.append(read if both != COPIES else copied(read, _read(container, both[1], used, keys)))
        if both[0] == "koordinator":
            summed.append((len(reads) - 1, keys))
    return alone(checked_sums(reads, summed), "mthreads")


def _mixed(
    container: Json, vendors_of: list[str], vendors: dict[str, list[str]], keys: Keys, *, alone: bool
) -> Read | None:
    """A container with names of several systems, or in a pod that another system takes; None for any other."""
    beside = next((pair for pair in BESIDE if set(vendors_of) == set(pair)), None)
    if beside is not None:
        return _beside(container, beside, vendors, keys)
    if [*vendors.values()] == [[NATIVE]] and ("tensor-fusion" in vendors_of or keys.labels.get(FUSED) == "true"):
        return _native(container, keys, alone=alone, sized="tensor-fusion" in vendors_of)
    if len(vendors_of) > 1 and set(vendors_of) != set(COPIES):
        used = tuple(vendors.get(vendors_of[0], ()))
        return Read(keys.container, keys.position is None, vendors_of[0], refused="two vendors", used=used)
    return None


def _native(container: Json, keys: Keys, *, alone: bool, sized: bool) -> Read:
    """TensorFusion ``tf_parser.go``: a native count in a pod that its webhook takes, which adds up those of all containers."""
    name, init = keys.container, keys.position is None
    if init or not alone:
        return Read(name, init, "", unsure="native counts of several containers, or of one that ends")
    used = () if sized else (NATIVE,)
    try:
        _take(container["resources"], (NATIVE,), keys)
        keys.numbers = {"native": next(iter(keys.numbers.values()))}
        return Read(name, init, "tensor-fusion", schedulers.tensor_fusion(keys), used=used)
    except (Denied, UnreadableError) as error:
        return Read(name, init, "tensor-fusion", refused=str(error), used=used)
    except Unsure as error:
        return Read(name, init, "tensor-fusion", unsure=str(error))


def _beside(container: Json, pair: tuple[str, str], vendors: dict[str, list[str]], keys: Keys) -> Read:
    """Another system serves the container, if its numbers can be read at all."""
    used = tuple(vendors[pair[0]])
    for vendor in pair:
        its = replace(keys, numbers={}, texts={}, zeros=set(), variant="")
        try:
            _take(container["resources"], tuple(vendors[vendor]), its)
            counts = {"metax": ("sgpu", "gpu"), "hygon": ("num",)}.get(vendor, ("shared", "vmlu"))
            count(max((its.numbers.get(name, 1) for name in counts), default=1))
        except (Denied, UnreadableError) as error:
            return Read(keys.container, keys.position is None, vendor, refused=str(error), used=used)
        except Unsure as error:
            return Read(keys.container, keys.position is None, vendor, unsure=str(error), used=used)
        if its.zeros:
            return Read(keys.container, keys.position is None, vendor, unsure="0 may be no legal number", used=used)
    return Read(keys.container, keys.position is None, pair[0], left=True, used=used)


def _found(container: Json, cluster: Cluster) -> dict[str, list[str]]:
    """The vendors in whose resource names a container requests, each with these names."""
    resources = container.get("resources")
    if not resources:
        return {}
    found: dict[str, list[str]] = {}
    for name in {**(resources.get("requests") or {}), **(resources.get("limits") or {})}:
        owner = owner_of(name, cluster.owners)
        if owner is not None:
            found.setdefault(owner[0], []).append(name)
    return {vendor: names for vendor, names in found.items() if any(asks(resources, name) for name in names)}


def _idle(container: Json, position: int | None, cluster: Cluster) -> Read:
    """A container that asks for nothing, in whosever names: what is 0 stays as it stands."""
    resources = container.get("resources") or {}
    names = sorted({**(resources.get("requests") or {}), **(resources.get("limits") or {})})
    owners = [owner for name in names if (owner := owner_of(name, cluster.owners)) is not None]
    return Read(container.get("name", ""), position is None, owners[0][0] if owners else None)


def asks(resources: Json, name: str) -> bool:
    """Whether a name has another amount than 0: what is 0 asks for nothing, in whosever keys."""
    texts = [side[name] for side in (resources.get("limits"), resources.get("requests")) if side and name in side]
    return any(number_in(text) != 0 for text in texts)


def _annotated(annotations: Mapping[str, str], regular: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The containers for which the pod's annotations ask, each with the vendors."""
    found: dict[str, list[str]] = {}
    if "gpu-fraction" in annotations or "gpu-memory" in annotations:
        copies = [match[1] for key in annotations if key.startswith("nvidia") and (match := CONTAINER_KEY.match(key))]
        named = annotations.get("gpu-fraction-container-name", next(iter(copies), None))
        found.setdefault(regular[0] if named is None and regular else named or "", []).append("kai")
    fused = any(key.startswith(("tensor-fusion.ai/vram-", "tensor-fusion.ai/compute-p")) for key in annotations)
    if fused or any(annotations.get(key) == text for key, text in schedulers.WHOLE.items()):
        named = annotations.get("tensor-fusion.ai/inject-container")
        for name in regular[:1] if named is None else named.split(","):
            found.setdefault(name.strip(), []).append("tensor-fusion")
    for key in annotations:
        match = CONTAINER_KEY.match(key)
        if match is not None:
            vendor = "nvfractions" if key.startswith("nvidia.com/") else "neutral"
            vendors = found.setdefault(match[1], [])
            if vendor not in vendors and (vendor == "nvfractions" or key.endswith((".memory", ".cores"))):
                vendors.append(vendor)
    yield from found.items()


def _read(container: Json, vendor: str, used: tuple[str, ...], keys: Keys) -> Read:
    init = keys.position is None
    try:
        if used:
            _take(container["resources"], used, keys)
        _check_count(container, vendor, keys)
        meaning = _meaning(vendor, keys)
    except Alone:
        return Read(keys.container, init, vendor, left=True, used=used)
    except Lacks as error:
        lacks = counts_as(vendor, used)
        return Read(keys.container, init, vendor, refused=str(error), lacks=lacks, used=used)
    except (Denied, UnreadableError) as error:
        return Read(keys.container, init, vendor, refused=str(error), used=used)
    except Unsure as error:
        return Read(keys.container, init, vendor, unsure=str(error), used=used)
    all_of_it = meaning is not None and meaning.memory == ALL and not any("percentage" in key for key in keys.numbers)
    # Beside several Ascend devices memory is read, and only that of whole ones is legal; 16 units of cores are a device.
    written = vendor == "ascend" or (
        vendor == "mthreads"
        and keys.of("vgpu") == 1
        and (keys.of("sgpu-memory") is not None or keys.of("sgpu-core") == 16)
    )
    ignores = all_of_it and not written and len(keys.numbers) > 1
    return Read(keys.container, init, vendor, meaning, ignores=ignores, used=used)


def _check_count(container: Json, vendor: str, keys: Keys) -> None:
    """HAMi's ``resourceName`` can be anything: an unknown name beside the others may be it.

    Raises:
        Unsure: so it is.
    """
    if vendor != "nvidia" or "gpu" in keys.texts:
        return
    resources = container.get("resources") or {}
    resources_of = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    if any(re.fullmatch(r"nvidia\.com/.*gpu.*", name) and name_of(name) is None for name in resources_of):
        raise Unsure("the count under a name of the cluster's own")


def counts_as(vendor: str, used: tuple[str, ...]) -> str:
    """The resource name of a vendor's count beside other names of the same container."""
    first = used[0]
    if vendor == "baidu":
        return f"{first.partition('_cgpu')[0]}_cgpu"
    if vendor == "ascend":
        return first.removesuffix("-memory").removesuffix("-core")
    if vendor == "hygon":
        return f"{first[:13]}num"
    if vendor == "iluvatar" and ("." in first.partition("/")[2]):
        return f"{first.rpartition('.')[0]}-vgpu"
    return COUNT_NAMES[vendor]


def _take(resources: Json, used: tuple[str, ...], keys: Keys) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in used:
        text = limits[name] if name in limits else requests[name]
        number = quantity(text)
        if name in limits and name in requests and requests[name] != text and quantity(requests[name]) != number:
            raise Denied(f"limits and requests differ: {name}")
        if not isinstance(number, int) or number < 0:
            raise Denied(f"no whole number: {name}: {text}")
        owner = owner_of(name, keys.cluster.owners)
        assert owner is not None
        _, short, variant = owner
        if short in keys.texts:
            raise Unsure("two spellings of one key")
        if variant and keys.variant and variant != keys.variant:
            raise Denied("the names say different hardware")
        keys.variant = variant or keys.variant
        keys.texts[short] = str(text)
        if number:
            keys.numbers[short] = number
        else:
            keys.zeros.add(short)


def _meaning(vendor: str, keys: Keys) -> Meaning | None:
    counts = COUNTS.get(vendor, set())
    amounts = keys.numbers.keys() - PARTS
    if amounts and keys.zeros & counts - APART.get(vendor, set()) and not keys.has(*counts):
        raise Denied("no device, and a part of one")
    if keys.zeros - counts - AS_ABSENT.get(vendor, set()) - READ.get(vendor, set()) - PARTS:
        raise Unsure("0 may be no legal number")
    if not amounts and keys.zeros:
        return None
    return READERS[vendor](keys)
