"""Property 5 by the oracle: never less than requested, nothing specified changes, nothing empty is accepted."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from tests.fuzz.mismatch import mismatch
from tests.fuzz.misspelled import PREFIX
from tests.fuzz.oracle.expressing import EXPRESSES, Wanted
from tests.fuzz.oracle.meaning import ALL, GIB, MOST_DEVICES, Amount, Amounts, Denied, Meaning, at_least, percent
from tests.fuzz.oracle.names import name_of
from tests.fuzz.oracle.quantity import UnreadableError, quantity
from tests.fuzz.oracle.reading import Read, asks, read_with
from tests.fuzz.oracle.several import EXCLUDES, OPEN_SUM
from tests.fuzz.status import status_findings
from tests.fuzz.trial import Finding, Trial, all_containers

NVIDIA = frozenset(
    {
        *("nvidia", "aliyun", "gpushare", "vcuda", "qgpu", "baidu", "volcano", "volcano-legacy", "cce", "vke"),
        *("koordinator", "elastic-gpu", "nano-gpu", "vgpu-manager", "kai", "nvfractions", "tensor-fusion", "mig"),
        *("whole", "timeslicing", "mps", "mig-single"),
    }
)
"""The vendors of NVIDIA's hardware."""
Json = dict[str, Any]
LIBRARY = "/usr/local/vgpu-shim/libvgpu.so"
"""Where the shim stands in a container."""
READING = frozenset(f"VGW{number}" for number in (*range(301, 313), 315, *range(317, 324)))
"""The codes by which the webhook says that a request is none."""
PARTS = frozenset({"mig", "mig-single", "timeslicing", "mps"})
"""Who counts parts of devices, several of which may lie on one: no count is whole (NVIDIA/k8s-device-plugin ``README.md``)."""
BY_SIZE = {"volcano": "volcano.sh/vgpu-memory", "mthreads": "mthreads.com/sgpu-memory"}
"""Vendors to whom a size of memory makes another request of what stands beside it, with the key of that size."""

PLAIN = re.compile(
    r"nvidia\.com/gpu|amd\.com/gpu|aws\.amazon\.com/neuron(core)?|gpu\.intel\.com/(i915|xe)|birentech\.com/gpu"
)
"""Names that the plain device plugins of NVIDIA, AMD, AWS, Intel and Biren serve as whole devices."""


def amount_findings(trial: Trial) -> Iterator[Finding]:
    """Everything that is wrong with what the containers get."""
    if trial.skipped or trial.decision.reason.code == "VGW010" or not trial.enforced:
        return
    if all(read.idle or not read.vendor for read in trial.before):
        if trial.decision.patch_json and not any(read.unsure for read in trial.before):
            yield Finding("who asks for nothing is left alone", trial.decision.patch_json.decode())
        return
    if trial.decision.denial is not None:
        yield from _denied(trial)
        return
    if not any(read.unsure or read.left or read.lacks for read in trial.before) and _certainly_beyond(trial):
        yield Finding("nothing that no node of the cluster has", str(trial.stored["spec"].get("containers"))[:200])
    yield from _together(trial)
    yield from _excluded(trial)
    if not any(read.unsure for read in trial.before):
        yield from _each(trial)


def card_of(trial: Trial) -> int | None:
    """Bytes of the device that a pod selects by nodes of a label, where that is one of known memory (``docs/behavior.md``)."""
    spec = trial.case.pod["spec"]
    label = "nvidia.com/gpu.product"
    chosen = (spec.get("nodeSelector") or {}).get(label)
    named: list[set[str]] = [] if chosen is None else [{chosen}]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {"nodeSelectorTerms": []}
    expressions = [each for term in required["nodeSelectorTerms"] for each in term.get("matchExpressions") or ()]
    named += [set(each["values"]) for each in expressions if (each["key"], each["operator"]) == (label, "In")]
    sizes = {trial.setup.cards.get(card) for card in set.intersection(*named)} if named else set()
    return sizes.pop() if len(sizes) == 1 else None


def beyond_the_largest(trial: Trial) -> bool:
    """Whether a container requests more than a device or node of the cluster has, or all together more whole devices."""
    setup, whole = trial.setup, 0
    for read in trial.before:
        meaning, target = read.meaning, target_of(trial, read.vendor or "")
        if meaning is None:
            continue
        size = meaning.memory[1] if meaning.memory is not None and meaning.memory[0] == "size" else 0
        card = card_of(trial) if target in NVIDIA else None
        if any(most is not None and size > most for most in (setup.largest_device, card)):
            return True
        if target in PARTS:
            continue
        if setup.largest_node is not None and (meaning.devices or 1) > setup.largest_node:
            return True
        whole += 0 if read.init or size else meaning.devices or 1
    return setup.largest_node is not None and whole > setup.largest_node


def _certainly_beyond(trial: Trial) -> bool:
    """Whether one container alone is beyond the largest: several may be read as one request."""
    return (
        any(read.meaning is not None for read in trial.before) and len(trial.before) == 1 and beyond_the_largest(trial)
    )


def _together(trial: Trial) -> Iterator[Finding]:
    """TensorFusion gives all containers one request: it is never made of several, nor several of it."""
    pairs = [(before.vendor, after.vendor) for before, after in zip(trial.before, trial.after, strict=True)]
    for at, what in ((0, "one request for all became several"), (1, "several requests became one for all")):
        shared = [pair for pair in pairs if pair[at] == "tensor-fusion"]
        if len(shared) > 1 and any(pair[1 - at] not in {"tensor-fusion", None} for pair in shared):
            yield Finding("5 one request for all stays one", what, "tensor-fusion")


def _excluded(trial: Trial) -> Iterator[Finding]:
    """No pod keeps a name with which the system of its shares takes none."""
    for vendor in {read.vendor for read in trial.after if read.vendor in EXCLUDES and read.meaning is not None}:
        for name in excluded(vendor or "", trial.stored):
            yield Finding("what a system does not take is denied", name, vendor or "")


def excluded(vendor: str, pod: Json) -> list[str]:
    """The names in a pod with which a vendor's system takes none."""
    asked = [each.get("resources") or {} for each in all_containers(pod)]
    return [name for name in EXCLUDES.get(vendor, ()) for resources in asked if asks(resources, name)]


def _each(trial: Trial) -> Iterator[Finding]:
    for before, after in zip(trial.before, trial.after, strict=True):
        if before.left or stays_plain(trial, before):
            yield from _alone(trial, before)
        elif before.lacks is not None:
            candidates = completed(trial, before)
            if candidates is not None:
                yield from _container(trial, before, candidates, after)
        elif before.refused is not None and not _made_equal(trial, before):
            if not _warned(trial, before):
                yield _rejected(before)
        elif before.meaning is not None:
            yield from _container(trial, before, possible(trial, before.vendor or "", before.meaning), after)


def _made_equal(trial: Trial, read: Read) -> bool:
    """Whether containers whose requests are summed became equal: a default filled in what one of them leaves open."""
    pairs = zip(trial.before, trial.after, strict=True)
    summed = [after.meaning for before, after in pairs if before.refused == OPEN_SUM]
    amounts = {meaning.amounts() for meaning in summed if meaning is not None}
    return read.refused == OPEN_SUM and None not in summed and len(amounts) == 1


def _alone(trial: Trial, before: Read) -> Iterator[Finding]:
    """A container that is left unchanged is neither filled in nor translated, and gets no shim."""
    for was, stored in trial.containers():
        if was["name"] == before.name and was.get("resources") != stored.get("resources"):
            yield Finding("who is left alone stays as it stands", f"{before.name}: {stored.get('resources')}")
        if was["name"] == before.name and LIBRARY in str(stored.get("env")) and LIBRARY not in str(was.get("env")):
            yield Finding("who is left alone gets no shim", before.name, before.vendor or "")


def _rejected(read: Read) -> Finding:
    why = read.refused or "incomplete"
    return Finding(f"denied is: {why.partition(':')[0]}", f"{read.name}: {why}", read.vendor or "")


def _warned(trial: Trial, read: Read) -> bool:
    """Whether a container that stays as it is was reported; a changed one has to be right."""
    return not trial.decision.patch_json and any(finding.container == read.name for finding in trial.decision.warnings)


def _denied(trial: Trial) -> Iterator[Finding]:
    denial = trial.decision.denial
    assert denial is not None
    if denial.reason.code in READING and all(read.left for read in trial.before if read.vendor):
        requests = [read for read in trial.before if read.vendor]
        vendor = next((read for read in requests if read.name == denial.container), requests[0]).vendor or ""
        if denial.reason.code != "VGW321" or target_of(trial, vendor) == vendor:
            yield Finding("who is left alone is not denied", denial.text, vendor)


def _container(trial: Trial, before: Read, candidates: list[Amounts], after: Read) -> Iterator[Finding]:
    vendor = before.vendor or ""
    if not candidates:
        if not _warned(trial, before):
            yield _rejected(before)
        return
    target = target_of(trial, vendor)
    left = _left(trial, before, target)
    if left:
        yield Finding("4 no name of the source is left", ", ".join(left), vendor)
        return
    if after.unsure is not None:
        return
    got = None if after.meaning is None else after.meaning.amounts()
    if got is None:
        why = after.refused or "nothing is asked for"
        yield Finding("5 what is written is a request", f"{before.name}: {why}", vendor)
        return
    if vendor == "mig" and got.memory[0] == "size":
        # A slice holds a little more on some devices than on others; by how much is the driver's business.
        candidates = [
            candidate._replace(memory=got.memory) for candidate in candidates if at_least(got.memory, candidate.memory)
        ]
    wrong = [mismatch(trial, target, candidate, got) for candidate in candidates]
    if all(wrong):
        what, asked = (wrong[0], candidates[0]) if candidates else ("memory", None)
        detail = f"{before.name}: {what}; {vendor} to {target}, asked {asked}, got {got} by {after.vendor}"
        yield Finding(f"5 {what}", detail, vendor)
        return
    if trial.decision.patch_json and "mig" not in {vendor, after.vendor}:
        yield from status_findings(trial, before, candidates, got)


def _left(trial: Trial, before: Read, target: str) -> list[str]:
    """The source's names that still stand in a container that was to be written for another vendor."""
    if before.vendor == target or not before.used:
        return []
    container = next(container for container in all_containers(trial.stored) if container["name"] == before.name)
    resources = container.get("resources") or {}
    written_names = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    shared = "mig" if target == "mig-single" else target
    return [name for name in before.used if name in written_names and shared not in getattr(name_of(name), "short", ())]


def target_of(trial: Trial, vendor: str) -> str:
    """The vendor that a request has to be written for, by the order of ``docs/behavior.md``, Translating."""
    for notes in (trial.case.pod["metadata"].get("annotations") or {}, trial.case.annotations):
        if f"{PREFIX}target" in notes:
            return str(notes[f"{PREFIX}target"])
    setup = trial.setup
    if vendor in setup.translate:
        return setup.translate[vendor]
    if vendor in setup.served:
        return vendor
    if setup.target is not None and ((vendor in NVIDIA) == (setup.target in NVIDIA) or vendor == "neutral"):
        return setup.target
    return vendor


def whole_counts(trial: Trial) -> bool:
    """Whether a count alone is whole devices: by the namespace's annotation, its default of memory, or the settings."""
    notes = trial.case.annotations
    chosen = notes.get(f"{PREFIX}bare-devices")
    if chosen in {"whole", "share"}:
        return chosen == "whole"
    text = notes.get(f"{PREFIX}default-memory")
    if text is not None:
        try:
            return _namespace_default("memory", text) == ALL
        except (UnreadableError, Denied, ValueError):
            pass
    return trial.setup.whole


def counts_alone(meaning: Meaning) -> bool:
    """Whether a number of devices is all that is specified."""
    return meaning.devices is not None and meaning.memory is None and meaning.cores is None


def stays_plain(trial: Trial, read: Read) -> bool:
    """Whether a container keeps a plain device plugin's names: nothing names its vendor, or the target has no whole ones."""
    vendor, setup = read.vendor, trial.setup
    # Where MIG's slices have the name of whole devices, only the owner of the name says what a count is.
    if vendor is None or vendor == "mig" or not read.used or not all(map(PLAIN.fullmatch, names_in(trial, read))):
        return False
    named = f"{PREFIX}target" in (trial.case.pod["metadata"].get("annotations") or {})
    target = target_of(trial, vendor)
    if target == vendor:
        noted = named or f"{PREFIX}target" in trial.case.annotations
        return whole_counts(trial) and not noted and vendor not in {setup.target, *setup.served, *setup.translate}
    if read.meaning is not None and whole_counts(trial) and counts_alone(read.meaning) and kept_elsewhere(trial, read):
        return not named and NVIDIA.issuperset((vendor, target))
    if named or read.meaning is None or target not in EXPRESSES or not NVIDIA.issuperset((vendor, target)):
        return False
    if vendor != "whole" and not whole_counts(trial):
        return False
    filled = possible(trial, vendor, read.meaning)
    fillable = frozenset(setup.defaults.get(target, {}))
    return bool(filled) and not any(
        not amounts.whole or EXPRESSES[target](Wanted(amounts, setup.cluster, fillable, bool(setup.mappings)))
        for amounts in filled
    )


def kept_elsewhere(trial: Trial, read: Read) -> bool:
    """Whether the pod keeps a scheduler of its own, and its container is said to stay for that."""
    told = any(each.reason.code == "VGW501" and each.container == read.name for each in trial.decision.warnings)
    return told and trial.case.pod["spec"].get("schedulerName") not in {None, "", "default-scheduler"}


def names_in(trial: Trial, read: Read) -> list[str]:
    """The names of known keys among the resources of a container, without those of 0: a priority of 0 is the highest."""
    container = next(each for each in all_containers(trial.case.pod) if each["name"] == read.name)
    resources = container.get("resources") or {}
    names = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    counted = (name for name in names if name == "nvidia.com/priority" or asks(resources, name))
    return [name for name in counted if name_of(name) is not None]


def completed(trial: Trial, before: Read) -> list[Amounts] | None:
    """What a container may get that lacks a key of its vendor, by the defaults for it; what is specified still counts.

    None: nobody knows what it then asks for.
    """
    vendor, cluster = before.vendor or "", trial.setup.cluster
    found: list[Amounts] = []
    for default in defaults_of(trial, vendor, "devices"):
        counted = read_with(trial.case.pod, before, {before.lacks or "": default}, cluster)
        if counted.unsure is not None:
            return None
        if counted.meaning is not None and not counted.ignores:
            found += possible(trial, vendor, counted.meaning)
    for counts in _counts_beside_size(trial, before):
        sized = read_with(trial.case.pod, before, {**counts, BY_SIZE[vendor]: 2}, cluster)
        if sized.meaning is not None and not sized.ignores and (sized.meaning.memory or ALL)[0] == "size":
            absent = {name: amount for name, amount in sized.meaning.absent.items() if name != "memory"}
            found += possible(trial, vendor, replace(sized.meaning, memory=None, absent=absent))
    return found


def _counts_beside_size(trial: Trial, before: Read) -> list[dict[str, int | Amount]]:
    """The count to add beside a size of memory: none where the size makes a request, or that of each default."""
    vendor = before.vendor or ""
    if vendor not in BY_SIZE:
        return []
    return [
        *([{}] if vendor == "volcano" else []),
        *({before.lacks or "": default} for default in defaults_of(trial, vendor, "devices")),
    ]


def possible(trial: Trial, vendor: str, meaning: Meaning) -> list[Amounts]:
    """What the container may get: each default that holds is filled in or passed over; what is specified stays."""
    if counts_alone(meaning) and whole_counts(trial) and vendor not in PARTS:
        default = {"memory": ALL} if defaults_of(trial, vendor, "memory") else {}
        return [amounts for filled in (default, {}) if (amounts := meaning.amounts(filled)) is not None]
    choices = [
        [None, *((dimension, default) for default in defaults_of(trial, vendor, dimension))]
        for dimension in sorted(meaning.unset)
    ]
    found = []
    for chosen in product(*choices):
        amounts = meaning.amounts(dict(each for each in chosen if each is not None))
        if amounts is not None and amounts not in found:
            found.append(amounts)
    return found


def defaults_of(trial: Trial, vendor: str, dimension: str) -> list[int | Amount]:
    """The defaults for a dimension: the namespace's, and the mapping's, where the first cannot be read or written."""
    found = [] if (default := trial.setup.defaults.get(vendor, {}).get(dimension)) is None else [default]
    text = trial.case.annotations.get(f"{PREFIX}default-{dimension}")
    if text is not None:
        try:
            namespace = _namespace_default(dimension, text)
        except (UnreadableError, Denied, ValueError):
            return found
        return found if namespace is None else [namespace, *found]
    return found


def _namespace_default(dimension: str, text: str) -> int | Amount | None:
    if text == "0" and dimension != "devices":
        return None
    if dimension == "memory" and text == "all":
        return ALL
    if dimension == "memory":
        exact = quantity(text)
        if text[-1:].isdigit() or exact <= 0 or exact > 1024 * GIB:
            raise ValueError(text)
        return ("size", exact)
    exact = quantity(text)
    if exact <= 0:
        raise ValueError(text)
    if dimension == "cores":
        return percent(exact)
    if not text.isdecimal() or text.startswith("0") or exact > MOST_DEVICES:
        raise ValueError(text)
    return int(text)
