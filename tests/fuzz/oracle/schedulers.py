"""Requests in the terms of schedulers and device plugins for NVIDIA's devices, and Intel's. Sources with each."""

import re
from collections.abc import Mapping
from fractions import Fraction

from tests.fuzz.oracle.keys import Keys, decimal
from tests.fuzz.oracle.meaning import (
    ALL,
    MIB,
    UNLIMITED,
    Alone,
    Amount,
    Denied,
    Lacks,
    Meaning,
    Number,
    Unsure,
    count,
    percent,
    share,
    size,
    some_count,
    some_percent,
)
from tests.fuzz.oracle.quantity import UnreadableError, quantity

WHOLE = {"tensor-fusion.ai/isolation": "shared", "tensor-fusion.ai/dedicated-gpu": "true"}
"""What asks TensorFusion for whole devices (``pod_webhook.go``, ``handleDedicatedGPU``)."""
UNSIZED = frozenset({"1g.34gb"})
"""Profiles of which no listing says what they hold (mig-parted ``config-default.yaml``, B300)."""
MIG = {
    "1g.5gb": (4864, 14),
    "2g.10gb": (9856, 28),
    "3g.20gb": (19968, 42),
    "1g.6gb": (5836, 25),
    "1g.10gb": (9728, 14),
    "2g.20gb": (19968, 28),
    "3g.40gb": (40192, 42),
    "4g.40gb": (40192, 57),
    "7g.80gb": (80640, 100),
    "7g.40gb": (40192, 100),
}
"""Profile → MiB that it holds on the smallest device that has it, and percent of its cores (``nvidia-smi mig -lgip``)."""


def volcano(keys: Keys) -> Meaning:
    """Volcano ``devices/nvidia/vgpu``: without count and size it is no request; a percentage counts beside a size."""
    number, mib, part, cores = map(keys.of, ("vgpu-number", "vgpu-memory", "vgpu-memory-percentage", "vgpu-cores"))
    if number is None and mib is None:
        raise Lacks("the scheduler passes over it")
    if "vgpu-memory-percentage" in keys.zeros:
        raise Denied("0 % is placed with no memory at all")
    memory = percent(part) if part is not None else None if mib is None else size(mib, MIB)
    absent: dict[str, int | Amount] = {"devices": 1, "memory": ALL, "cores": UNLIMITED}
    return Meaning("volcano", some_count(number), memory, some_percent(cores), absent)


def volcano_legacy(keys: Keys) -> Meaning:
    """Volcano ``devices/nvidia/gpushare``: MiB of one device, or whole devices."""
    number, mib = keys.of("gpu-number"), keys.of("gpu-memory")
    if number is not None and mib is not None:
        raise Unsure("both")
    if number is not None:
        return Meaning("volcano-legacy", count(number), ALL, ALL)
    if mib is None:
        raise Denied("nothing is asked for")
    return Meaning("volcano-legacy", 1, size(mib, MIB), None, {"cores": UNLIMITED})


def koordinator(keys: Keys) -> Meaning | None:
    """Koordinator ``deviceshare/utils.go`` and ``devicehandler_gpu.go``: totals over ``gpu.shared`` devices."""
    if keys.has("npu-core"):
        _ascend(keys)
        return None
    shared, total, ratio, core, gpu = map(keys.of, ("shared", "gpu-memory", "ratio", "gpu-core", "gpu"))
    if total is not None and ratio is not None:
        raise Denied("both kinds of memory")
    if gpu is not None:
        if keys.has("shared", "gpu-memory", "ratio", "gpu-core"):
            raise Denied("gpu stands alone")
        cards = 1 if gpu < 100 else count(share(gpu, 100))
        return Meaning("koordinator", cards, percent(Fraction(gpu, cards)), percent(Fraction(gpu, cards)))
    if shared is not None:
        return _koordinator_shared(count(shared), total, ratio, core)
    if ratio is not None and ratio >= 100:
        cards = count(share(ratio, 100))
        cores = None if core is None else percent(share(core, cards))
        return Meaning("koordinator", cards, ALL, cores, {"cores": ALL})
    if core is not None and core > 100:
        raise Denied("cores of several devices, without saying how many devices")
    return _koordinator_shared(1, total, ratio, core)


def _ascend(keys: Keys) -> None:
    """koordinator.sh ``device-scheduling-ascend-npu.md``: with cores of an NPU the other keys are those of an NPU, too.

    Raises:
        Alone: such a device is asked for.
    """
    if keys.has("shared", "gpu-memory", "ratio", "gpu-core", "gpu"):
        count(keys.of("shared") or 1)
        raise Alone


def _koordinator_shared(cards: int, total: int | None, ratio: int | None, core: int | None) -> Meaning:
    cores = None if core is None else percent(share(core, cards))
    if ratio is not None:
        return Meaning("koordinator", cards, percent(share(ratio, cards)), cores, {"cores": UNLIMITED})
    if total is None:
        return Meaning("koordinator", cards, None, cores, {"cores": UNLIMITED})
    if total < cards:
        raise Denied("no byte for each device")
    return Meaning("koordinator", cards, size(total // cards, 1), cores, {"cores": UNLIMITED})


def elastic_gpu(keys: Keys) -> Meaning:
    """elastic-gpu ``README.md``: MiB of one device; from 100 cores on whole devices, and the rest is dropped."""
    cores, mib = keys.of("gpu-core"), keys.of("gpu-memory")
    if cores is not None and cores >= 100:
        return Meaning("elastic-gpu", count(cores // 100), ALL, ALL)
    if mib is not None:
        return Meaning("elastic-gpu", 1, size(mib, MIB), some_percent(cores), {"cores": UNLIMITED})
    if cores is None:
        raise Denied("nothing is asked for")
    return Meaning("elastic-gpu", 1, None, percent(cores), {"memory": UNLIMITED})


def nano_gpu(keys: Keys) -> Meaning | None:
    """nano-gpu ``README.md``: one percentage of one device, for memory and cores."""
    part = keys.of("gpu-percent")
    if part is None:
        raise Denied("1 to 100")
    return Meaning("nano-gpu", 1, percent(part), percent(part))


def vgpu_manager(keys: Keys) -> Meaning:
    """vgpu-manager ``README.md``: MiB and percent of each device."""
    number, mib, cores = map(keys.of, ("vgpu-number", "vgpu-memory", "vgpu-cores"))
    memory = None if mib is None else size(mib, MIB)
    if number is not None and number > 16:
        raise Denied("no container gets more than 16 (filter_predicate.go)")
    if number is None:  # its webhook writes 1 (pod_mutate.go), and so does ours
        raise Lacks("the count is missing")
    return Meaning("vgpu-manager", count(number), memory, some_percent(cores), {"memory": ALL, "cores": UNLIMITED})


def intel(keys: Keys) -> Meaning:
    """Intel platform-aware-scheduling ``gpu-aware-scheduling/docs/usage.md``: totals over the devices, rounded down."""
    cards, total, thousandths = keys.of("cards"), keys.of("memory.max"), keys.of("millicores")
    if cards is None:
        raise Lacks("the count is missing")
    count(cards)
    if (total is not None and total < cards) or (thousandths is not None and thousandths < cards):
        raise Unsure("nothing for each device")
    memory = None if total is None else size(total // cards, 1)
    cores = None if thousandths is None else percent(Fraction(thousandths // cards, 10))
    return Meaning("intel", cards, memory, cores, {"memory": UNLIMITED, "cores": UNLIMITED})


def kai(keys: Keys) -> Meaning:
    """KAI ``gpusharing/gpu-request/gpu_request_validator.go``: a fraction or MiB of each of some devices."""
    notes = keys.annotations
    fraction, mib = notes.get("gpu-fraction"), notes.get("gpu-memory")
    if fraction is not None and mib is not None:
        raise Denied("both kinds of memory")
    if keys.requesters > 1:
        raise Denied("one container of a pod")
    if _more(notes):
        raise Unsure("a request below its limit")
    cards = keys.count_of(notes, "gpu-fraction-num-devices")
    memory: Amount
    if fraction is not None:
        part = decimal(fraction)
        if not 0 < part < 1:
            raise Denied("a fraction is between 0 and 1")
        if (part * 10**4).denominator != 1:
            raise Unsure("finer than it is counted")
        memory = percent(part * 100)
    else:
        if mib is None or not mib.isdecimal() or not mib.isascii() or int(mib) == 0:
            raise Denied("memory is a positive number")
        if len(mib) > 18:
            raise Unsure("zeros before it")
        memory = size(int(mib), MIB)
    return Meaning("kai", some_count(cards), memory, None, {"devices": 1, "cores": UNLIMITED})


def _more(notes: Mapping[str, str]) -> bool:
    """KAI ``nvfractions/mutation.go``, run:ai's dynamic fractions: a request is guaranteed, and may grow to a limit."""
    requests = {
        "gpu-memory.limit": f"{notes['gpu-memory']}Mi" if "gpu-memory" in notes else None,
        "gpu-fraction.limit": notes.get("gpu-fraction"),
        "gpu-fraction-limit": notes.get("gpu-fraction"),
    }
    return any(key in notes and notes[key] != request for key, request in requests.items())


def nvfractions(keys: Keys) -> Meaning:
    """KAI ``nvfractions`` (v0.18): bytes by keys that hold the container's name."""
    prefix = f"nvidia.com/container.{keys.container}.gpu-memory."
    if keys.requesters > 1:
        raise Denied("one container of a pod")
    limit, request = keys.annotations.get(f"{prefix}limit"), keys.annotations.get(f"{prefix}request")
    if limit is not None and request is not None and _bytes(limit) != _bytes(request):
        raise Unsure("a request below its limit")
    total = _bytes(limit if limit is not None else request)
    cards = keys.count_of(keys.annotations, "gpu-fraction-num-devices")
    if not total:
        raise Unsure("no memory")
    return Meaning("nvfractions", some_count(cards), size(total, 1), None, {"devices": 1, "cores": UNLIMITED})


def tensor_fusion(keys: Keys) -> Meaning:
    """TensorFusion ``pod_webhook.go``, ``tf_parser.go``: bytes and percent of each device, or whole ones."""
    notes = {key.removeprefix("tensor-fusion.ai/"): text for key, text in keys.annotations.items()}
    vram, compute = _twins(notes, "vram"), _twins(notes, "compute-percent")
    if "tflops-limit" in notes or "tflops-request" in notes:
        raise Unsure("tflops")
    if notes.get("isolation") not in {None, "soft", "hard", "partitioned", "shared"}:
        raise Unsure("another isolation")
    cards, claimed = _fused(notes, keys)
    if notes.get("dedicated-gpu") == "true" and "gpu-model" not in notes:
        raise Denied("a dedicated device of no model")
    total = None if vram is None else _bytes(vram)
    cores = None if compute is None else _whole_percent(compute)
    if any(keys.annotations.get(key) == text for key, text in WHOLE.items()):
        return Meaning("tensor-fusion", some_count(cards), ALL, ALL, {"devices": 1})
    if total == 0 or (total is None and compute is None and not claimed):
        raise Unsure("no memory")
    if total is None and cores is None and not claimed:
        raise Unsure("nothing of a device")
    memory = None if total is None else size(total, 1)
    rest = ALL if claimed and compute is None else UNLIMITED
    return Meaning("tensor-fusion", some_count(cards), memory, cores, {"devices": 1, "memory": rest, "cores": rest})


def _fused(notes: Mapping[str, str], keys: Keys) -> tuple[int | None, bool]:
    """The devices, and whether a native count alone asks for them: of whole ones, unless an annotation says less."""
    keys.requesters = 1  # all of them get the same devices, and the count is of these
    cards, native = keys.count_of(notes, "gpu-count"), keys.of("native")
    listed = None
    if "gpu-indices" in notes:
        indices = notes["gpu-indices"].split(",")
        listed = len(indices)
        if not all(re.fullmatch("[0-9]{1,9}", each.strip()) for each in indices):
            raise Denied("no count: a list of devices")
    if any(each is not None and each > 128 for each in (cards, listed or cards or native)):
        raise Denied("1 to 128 devices")
    return listed or cards or native, native is not None and cards is None


def _whole_percent(text: str) -> Amount | None:
    if not text.isdecimal() or not text.isascii() or len(text) > 18:
        raise Unsure("a part of a percent")
    return some_percent(int(text) or None)


def mig(keys: Keys) -> Meaning:
    """NVIDIA device plugin, MIG: slices of a profile; the least that such a slice holds."""
    variant = keys.variant or keys.cluster.chip
    slices = keys.of("slices")
    if slices is None:
        raise Denied("nothing is asked for")
    if variant in UNSIZED:
        count(slices)
        raise Alone
    if variant not in MIG:
        raise Unsure("not in the table")
    mib, cores = MIG[variant]
    return Meaning("mig", count(slices), size(mib, MIB), percent(cores))


def mps(keys: Keys) -> Meaning | None:
    """NVIDIA device plugin, ``api/config/v1/config.go``: as time-slicing, but above 1 fails unless configured otherwise."""
    number = keys.of("gpu")
    if number is not None and number > 1:
        raise Denied("more than one part")
    return timeslicing(keys)


def timeslicing(keys: Keys) -> Meaning | None:
    """NVIDIA device plugin, time-slicing and MPS: a turn on a device, without a size."""
    number = keys.of("gpu")
    return (
        None
        if number is None
        else Meaning("timeslicing", count(number), None, None, {"memory": UNLIMITED, "cores": UNLIMITED})
    )


def neutral(keys: Keys) -> Meaning:
    """This project's own annotations (``docs/mapping.md``); a profile says what is not specified beside it."""
    prefix = f"vgpu-webhook.io/container.{keys.container}."
    named = {key.removeprefix(prefix): text for key, text in keys.annotations.items() if key.startswith(prefix)}
    if "profile" in named:
        raise Unsure("profiles are the platform's")
    cards = keys.annotations.get(f"{prefix}devices")
    if cards is not None and not (cards.isdecimal() and cards.isascii() and not cards.startswith("0")):
        raise Denied(f"no count: {cards!r}")
    cores = named.get("cores")
    if cores is not None and not (cores.isdecimal() and cores.isascii() and len(cores) < 19):
        raise Denied(f"no percentage: {cores!r}")
    total = _bytes(named["memory"]) if "memory" in named else 0
    if "memory" not in named and "cores" not in named:
        raise Unsure("a count alone")
    return Meaning(
        "neutral",
        some_count(None if cards is None else int(cards)),
        size(total, 1) if total else None,
        some_percent(int(cores or 0) or None),
        {"devices": 1, "memory": ALL, "cores": UNLIMITED},
    )


def _twins(notes: dict[str, str], name: str) -> str | None:
    limit, request = notes.get(f"{name}-limit"), notes.get(f"{name}-request")
    if limit is not None and request is not None and limit != request:
        raise Unsure("a request below its limit")
    return limit if limit is not None else request


def _bytes(text: str | None) -> Number:
    if text is None:
        raise Denied("no memory")
    try:
        exact = quantity(text)
    except UnreadableError as error:
        raise Denied(str(error)) from None
    if exact < 0 or exact != int(exact):
        raise Denied("a part of a byte")
    return exact
