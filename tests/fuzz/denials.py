"""Property 5, the other way round: who can be served is not denied. Every code of a denial has a judge.

A judge says from the pod, the settings and the oracle whether such a denial is due. `OPEN`: the vendor's documentation does
not say what the pod asks for.
"""

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from tests.fuzz.amounts import (
    NVIDIA,
    READING,
    beyond_the_largest,
    card_of,
    counts_alone,
    excluded,
    possible,
    target_of,
    whole_counts,
)
from tests.fuzz.enforcement import (
    BY_KUBELET,
    HAMI,
    escapes,
    is_covered,
    is_privileged,
    placed,
    reaches_beside,
    sandboxed,
    shows_devices,
)
from tests.fuzz.environment import GUARDED, LOADER, SWITCHES
from tests.fuzz.misspelled import PREFIX, nearly_read
from tests.fuzz.oracle.claims import names_a_gpu_class
from tests.fuzz.oracle.expressing import EXPRESSES, Wanted
from tests.fuzz.oracle.meaning import ALL, GIB, MOST_DEVICES, Amounts, Meaning
from tests.fuzz.oracle.names import EXACT, name_of, owner_of
from tests.fuzz.oracle.quantity import number_in
from tests.fuzz.oracle.reading import Read
from tests.fuzz.served import denied_by_settings
from tests.fuzz.trial import Finding, Trial, all_containers
from webhook.reasons import Finding as Denial

Json = dict[str, Any]
RULE = "what can be served is not denied"


class Verdict(enum.Enum):
    """What the oracle says of a denial."""

    DUE = "due"
    MISTAKEN = "mistaken"
    OPEN = "open"
    UNJUDGED = "without a judge"


Judge = Callable[[Trial, Denial], bool | None]
"""Whether a denial is due; None: open."""

SCHEDULERS = {
    **dict.fromkeys(
        ("aliyun", "gpushare", "elastic-gpu", "intel", "nano-gpu", "qgpu", "vcuda"), "default-scheduler, extended"
    ),
    **dict.fromkeys(("volcano", "volcano-legacy", "baidu", "cce"), "volcano"),
    **dict.fromkeys(("kai", "nvfractions"), "kai-scheduler"),
    **dict.fromkeys(("vke", "tensor-fusion", "mig", "mig-single", "whole", "timeslicing", "mps"), None),
    "koordinator": "koord-scheduler",
    "vgpu-manager": "vgpu-scheduler",
}
"""Who schedules for a vendor, None: anybody; for the others it is HAMi."""
NO_INIT = {
    *("aliyun", "gpushare", "vcuda", "cce", "volcano", "vgpu-manager", "koordinator", "ascend", "cambricon", "hygon"),
    *("kai", "nvfractions"),
}
"""Who serves no init containers: their documentation, or their schedulers count containers only."""
ONE_REQUEST = frozenset(("tensor-fusion", "koordinator"))
"""All containers of a pod get the same."""
ONE_CONTAINER = frozenset(("kai", "mthreads", "nvfractions"))
"""Who serves one container of a pod."""
FOR_THE_POD = frozenset(("aliyun", "cce", "vke", "kai", "nvfractions", "tensor-fusion", "mthreads", "koordinator"))
"""Who takes a key of the pod for all its containers, or serves one."""
DISPLACED = {
    "aliyun.com/gpu-mem": ("aliyun", "gpushare"),
    "nvidia.com/gpu": ("nvidia", "whole", "mig-single"),
    "nvidia.com/gpu.shared": ("timeslicing", "mps"),
}
"""Names of several vendors, the one that owns it unless configured otherwise first."""
HOLDS = (
    "aliyun.com/gpu-count",
    "volcano.sh/gpu-num",
    "vke.volcengine.com/",
    "gpu-fraction",
    "gpu-memory",
    "nvidia.com/",
)
PLACED = ("p.example.com/label", "p.example.com/annotation")
SHIM = "vgpu-shim"
FOLDERS = ("/usr/local/vgpu-shim/", "/opt/amd64/", "/opt/arm64/")
"""Those of the node with libraries for all pods, by any policy."""


def denial_verdict(trial: Trial) -> Verdict | None:
    """What the oracle says of the denial of a pod; None: it is not denied."""
    denial = trial.decision.denial
    if denial is None:
        return None
    judge = JUDGES.get(denial.reason.code)
    if judge is None:
        return Verdict.UNJUDGED
    due = judge(trial, denial)
    return Verdict.OPEN if due is None else Verdict.DUE if due else Verdict.MISTAKEN


def denial_findings(trial: Trial, verdict: Verdict | None) -> Iterator[Finding]:
    """A denial that is not due, or that nobody judges."""
    denial = trial.decision.denial
    if denial is None or verdict in {Verdict.DUE, Verdict.OPEN, None}:
        return
    rule = RULE if verdict is Verdict.MISTAKEN else "every denial has a judge"
    vendors = [read for read in _requesting(trial) if read.name == denial.container] or _requesting(trial)
    vendor = vendors[0].vendor or "" if vendors else ""
    yield Finding(f"{rule}: {denial.reason.code}", denial.text, f"{vendor} to {target_of(trial, vendor)}")


def _requesting(trial: Trial) -> list[Read]:
    return [read for read in trial.before if read.vendor is not None]


def _targets(trial: Trial) -> set[str]:
    """The vendors that requests are to be written for."""
    return {target_of(trial, read.vendor or "") for read in _requesting(trial)}


def _names(trial: Trial) -> list[str]:
    sides = [
        (container.get("resources") or {}).get(side) or {}
        for container in all_containers(trial.case.pod)
        for side in ("limits", "requests")
    ]
    return [name for side in sides for name in side]


def _reading(trial: Trial, denial: Denial) -> bool | None:
    """A request that its vendor rejects, or that is incomplete."""
    reads = _requesting(trial)
    if _two_schedulers(trial):
        return True
    if any(read.unsure for read in reads):
        return None
    if any(read.refused or read.left for read in reads):
        return True
    return not reads or any(read.meaning is not None and read.meaning.amounts() is None for read in reads)


def _two_schedulers(trial: Trial) -> bool:
    """Whether annotations of two vendors would take the same resource."""
    of_kai = any(key in {"gpu-fraction", "gpu-memory"} or ".gpu-memory." in key for key in trial.keys)
    return of_kai and any(key.startswith("tensor-fusion.ai/") for key in trial.keys)


def _unreported(trial: Trial, denial: Denial) -> bool:
    """A resource that no node reports, in a request that stays in these keys."""
    percent = {"volcano": "volcano.sh/vgpu-memory-percentage", "amd": "amd.com/gpumem-percentage"}
    return any(name in _names(trial) and target_of(trial, vendor) == vendor for vendor, name in percent.items())


def _one_container(trial: Trial, denial: Denial) -> bool | None:
    """A pod that its vendor rejects for its containers, or its target for the names that it keeps."""
    return any(excluded(target, trial.case.pod) for target in _targets(trial)) or _reading(trial, denial)


def _absent_container(trial: Trial, denial: Denial) -> bool:
    """An annotation names a container that the pod does not have, or none of those that request."""
    reads = trial.before
    notes = trial.case.pod["metadata"].get("annotations") or {}
    named = any(key in notes for key in ("gpu-fraction-container-name", "tensor-fusion.ai/inject-container"))
    return any(read.unsure == "a container that is not there" or read.refused for read in reads) or named


NO_SLICE = re.compile(r"nvidia\.com/mig-(0g.*|.*\.0gb.*)")
"""Profiles of nothing, which no device has."""


def _misspelled(trial: Trial, denial: Denial) -> bool:
    """A name of nobody's, or of somebody who is inactive, that is close to a known one."""
    owners = {name: owner_of(name, trial.setup.cluster.owners) for name in _names(trial) if "/" in name}
    unknown = {name for name, owner in owners.items() if owner is None or owner[0] in _inactive(trial)}
    return (
        bool(nearly_read(trial.keys))
        or any(_distance(name, known) <= 3 for name in unknown for known in EXACT)
        or any(_resembles(name) for name in unknown)
        or any(NO_SLICE.fullmatch(name) for name in owners)
    )


def _resembles(name: str) -> bool:
    """Whether a name under a domain of patterns is a letter away from one of them: it is one without, or with another."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
    for at in range(len(name) + 1):
        if name_of(name[:at] + name[at + 1 :]) is not None:
            return True
        if any(name_of(name[:at] + letter + name[at + end :]) is not None for letter in letters for end in (0, 1)):
            return True
    return False


def _distance(one: str, other: str) -> int:
    """How many letters have to be added, removed or replaced; 9 for texts that are too different in length."""
    if abs(len(one) - len(other)) > 3:
        return 9
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row[0] = row[0], at
        for end, expected in enumerate(other, 1):
            before, row[end] = row[end], min(row[end] + 1, row[end - 1] + 1, before + (letter != expected))
    return row[-1]


def _inactive(trial: Trial) -> set[str]:
    """The vendors that do not own the names that they share with others."""
    found: set[str] = set()
    for name, vendors in DISPLACED.items():
        owner = trial.setup.cluster.owners.get(name, vendors[0])
        found |= {*vendors} - {owner}
    return found


def _key_of_inactive(trial: Trial, denial: Denial) -> bool:
    owners = [owner_of(name, trial.setup.cluster.owners) for name in _names(trial)]
    return any(owner is not None and owner[0] in _inactive(trial) for owner in owners)


def _keyless(trial: Trial, denial: Denial) -> bool:
    """A template that the webhook makes, in a pod that is none of its."""
    claims = trial.case.pod["spec"].get("resourceClaims") or []
    return any((each.get("resourceClaimTemplateName") or "").startswith("vgpu-") for each in claims)


def _claimed(trial: Trial, denial: Denial) -> bool:
    """A claim beside a request, where that is not permitted."""
    pairs = zip(all_containers(trial.case.pod), trial.before, strict=True)
    return not trial.setup.claims_permitted and any(
        read.vendor is not None and names_a_gpu_class(container) for container, read in pairs
    )


def _too_many(trial: Trial, denial: Denial) -> bool:
    """More than any honest pod has: containers, keys, bytes of a key or a variable, devices with a variable for each."""
    limited = [read for read in _shares(trial) if target_of(trial, read.vendor or "") == "nvidia"]
    counts = [read.meaning.devices or 0 for read in limited if read.meaning is not None]
    return (
        len(all_containers(trial.case.pod)) > 128
        or max(counts, default=0) > 64
        or any(len(name) > 63 for name in _names(trial))
        or any(len(str(entry.get("value"))) > 8 * 1024 for entry in _variables(trial))
    )


def _no_equivalent(trial: Trial, denial: Denial) -> bool | None:
    reads = _requesting(trial)
    pairs = [(read, target_of(trial, read.vendor or "")) for read in reads]
    if len(pairs) > 1 and any(ONE_REQUEST & {read.vendor or "", target} for read, target in pairs):
        return True
    targets = [target for _, target in pairs]
    if any(targets.count(target) > 1 for target in ONE_CONTAINER):
        return True
    concerned = [pair for pair in pairs if denial.container in {None, pair[0].name}]
    if any(read.unsure for read, _ in concerned):
        return None
    return any(_cannot(trial, read, target) for read, target in concerned)


def _cannot(trial: Trial, read: Read, target: str) -> bool:
    """Whether a target cannot express what a container requests, with its own defaults."""
    if read.meaning is None:
        return True
    vendor = read.vendor or ""
    if target not in EXPRESSES or (target == vendor and not trial.setup.cluster.chip):
        return False
    whole = counts_alone(read.meaning) and whole_counts(trial)
    wanted = possible(trial, vendor, read.meaning) if whole else [_filled(trial, read.meaning, vendor)]
    return not wanted or any(filled is None or not _expresses(trial, read, filled, target) for filled in wanted)


def _expresses(trial: Trial, read: Read, filled: Amounts, target: str) -> bool:
    if target == "vke" and read.init and filled.devices > 1:
        return False
    named = {name for name in ("devices", "memory", "cores") if f"{PREFIX}default-{name}" in trial.case.annotations}
    fillable = frozenset({*trial.setup.defaults.get(target, {}), *named})
    return any(
        EXPRESSES[target](Wanted(amounts, trial.setup.cluster, fillable, bool(trial.setup.mappings)))
        for amounts in (filled, *_on_a_card(trial, filled, target))
    )


def _filled(trial: Trial, meaning: Meaning, vendor: str) -> Amounts | None:
    """What is requested with the defaults of the mapping; a default does not cut what is all of a device."""
    defaults = {name: amount for name, amount in trial.setup.defaults.get(vendor, {}).items() if name in meaning.unset}
    if ALL in {meaning.memory, meaning.cores}:
        defaults = {name: amount for name, amount in defaults.items() if name == "devices" or amount == ALL}
    return meaning.amounts(defaults)


def _on_a_card(trial: Trial, amounts: Amounts, target: str) -> Iterator[Amounts]:
    """The same with memory in the other unit, where the pod selects a device whose memory is configured."""
    selected: str = (trial.case.pod["spec"].get("nodeSelector") or {}).get("nvidia.com/gpu.product", "")
    card = trial.setup.cards.get(selected)
    if card is None or target not in NVIDIA or amounts.whole or amounts.memory[0] == "unlimited":
        return
    kind, number = amounts.memory
    if kind == "percent":
        yield amounts._replace(memory=("size", -(-number * card // 100)))
    elif number <= card:
        yield amounts._replace(memory=("percent", Fraction(number * 100, card)))


def _read_differently(trial: Trial, denial: Denial) -> bool | None:
    """Others read the target's names, or a key of the pod counts for what is written, too."""
    reads, targets = _requesting(trial), _targets(trial)
    if any(read.unsure for read in reads):
        return None
    if targets & _inactive(trial) or any(read.refused or read.left for read in reads):
        return True
    together = {*targets, *[read.vendor for read in reads]} & FOR_THE_POD
    if together and (len(reads) > 1 or any(read.init for read in reads)):
        return True
    keys = trial.keys
    selector = trial.case.pod["spec"].get("nodeSelector") or {}
    if "metax" in targets and any(key.startswith("metax-tech.com/sgpu-") for key in keys):
        return True
    if "ascend" in targets and "huawei.com/vnpu-mode" in keys:
        return True
    return any(key.startswith(HOLDS) or "fraction" in key or "tencent" in key for key in keys) or any(
        "gke" in key for key in selector
    )


def _held_otherwise(trial: Trial, denial: Denial) -> bool:
    """A label or annotation that counts devices, or that a mapping places, stands there already."""
    starts = (*HOLDS, *PLACED, "tensor-fusion.ai/", "metax-tech.com/sgpu-", f"{PREFIX}container.")
    return any(key.startswith(starts) for key in trial.keys)


def _init(trial: Trial, denial: Denial) -> bool:
    """An init container asks whoever serves none, or is to be moved there."""
    return any(
        read.init and NO_INIT & {read.vendor or "", target_of(trial, read.vendor or "")} for read in _requesting(trial)
    )


def _disagree(trial: Trial, denial: Denial) -> bool:
    """Several containers, and a key of the pod for all of them; or one of them stays where another leaves."""
    reads = _requesting(trial)
    return len(reads) > 1 and (bool(_targets(trial) & FOR_THE_POD) or any(read.left or read.unsure for read in reads))


def _other_scheduler(trial: Trial, denial: Denial) -> bool:
    """The mapping permits no other scheduler: Volcano's, where it is configured so."""
    scheduler = trial.case.pod["spec"].get("schedulerName")
    strict = "volcano, place: {conflict: deny}" in trial.setup.mappings
    return strict and "volcano" in _targets(trial) and scheduler not in {None, "", "volcano"}


def _shares(trial: Trial) -> list[Read]:
    """The containers that may hold a share: what is not certainly whole devices."""
    return [
        read
        for read in _requesting(trial)
        if read.meaning is None or not {read.meaning.memory, read.meaning.cores} <= {ALL}
    ]


def _on_a_node(trial: Trial, denial: Denial) -> bool:
    """A pod for one node, where a scheduler and not the kubelet chooses its devices."""
    named = trial.case.pod["spec"].get("nodeName")
    return bool(named) and "nodeName: affinity" not in trial.setup.settings and bool(_targets(trial) - BY_KUBELET)


def _privileged(trial: Trial, denial: Denial) -> bool:
    """A privileged container, whichever, in a pod with a share; under HAMi, whose webhook denies that, with anything."""
    concerned = bool(_shares(trial)) or bool(_targets(trial) & HAMI)
    return concerned and any(map(is_privileged, all_containers(trial.case.pod)))


def _unmet(trial: Trial, denial: Denial) -> bool:
    """No size of memory, where the mapping of the target denies that."""
    if "unmet: deny" not in trial.setup.mappings:
        return False
    return any(
        target_of(trial, read.vendor or "") == "nvidia"
        and (read.meaning is None or read.meaning.memory is None or read.meaning.memory[0] != "size")
        for read in _shares(trial)
    )


def _variables(trial: Trial) -> list[Json]:
    return [entry for container in all_containers(trial.case.pod) for entry in container.get("env") or []]


def _collides(trial: Trial, denial: Denial) -> bool:
    """A volume, mount or variable of the shim's name or place, also of its folder on the node."""
    spec = trial.case.pod["spec"]
    entries = [entry for container in all_containers(trial.case.pod) for entry in placed(container)]
    paths = [entry.get("mountPath") or entry["devicePath"] for entry in entries]
    writable = {entry["name"] for entry in entries if not entry.get("readOnly")}
    volumes = [volume for volume in spec.get("volumes") or [] if volume["name"] in writable and volume.get("hostPath")]
    folders = [volume["hostPath"]["path"].rstrip("/") for volume in volumes]
    return (
        any(each.startswith(f"{folder}/") or f"{folder}/".startswith(each) for folder in folders for each in FOLDERS)
        or any(volume["name"].startswith(SHIM) for volume in spec.get("volumes") or [])
        or any(entry["name"].startswith(SHIM) for entry in entries)
        or any(path.startswith("/tmp/vgpu") or "/usr/local" in path for path in paths)
        or any(entry["name"].startswith(("LD_", "VGPU_", "CUDA_")) for entry in _variables(trial))
    )


def _guarded(trial: Trial, denial: Denial) -> bool:
    """A variable, mount or key of the pod that is known to lift a limit, or to show devices, in a container that requests."""
    names = {read.name for read in _requesting(trial)}
    requesting = [container for container in all_containers(trial.case.pod) if container["name"] in names]
    variables = {entry["name"] for container in requesting for entry in container.get("env") or []}
    entries = [entry for container in requesting for entry in placed(container)]
    mounted = {entry.get("mountPath") or entry["devicePath"] for entry in entries}
    # The plugins of HAMi and Volcano can take it from any container of the pod.
    variables |= {entry["name"] for entry in _variables(trial)} & {"CUDA_DISABLE_CONTROL"}
    allowed = trial.case.annotations.get(f"{PREFIX}guard") in {"allow", "strip", "audit"}
    guarded = bool(variables & {*GUARDED, *LOADER}) or any(key in trial.keys for _, key, _ in SWITCHES)
    guarded = guarded or any(map(is_covered, mounted))
    all_of_it = trial.case.annotations.get(f"{PREFIX}guard") == "deny"
    reported = all_of_it and any(reaches_beside(trial.case.pod["spec"], container) for container in requesting)
    return (guarded and not allowed) or reported or _out_of_isolation(trial)


def _out_of_isolation(trial: Trial) -> bool:
    """Whether a container that may hold a share reaches out of it, or one with devices runs in a sandbox or sees others.

    What it does that by is never removed, so never stripped.
    """
    spec = trial.case.pod["spec"]
    requesting, shares = ({read.name for read in reads} for reads in (_requesting(trial), _shares(trial)))
    if not trial.guarded or not requesting:
        return False
    containers = [container for container in all_containers(trial.case.pod) if container["name"] in requesting]
    return sandboxed(spec) or any(
        shows_devices(spec, container) or (container["name"] in shares and escapes(spec, container))
        for container in containers
    )


def _too_large(trial: Trial, denial: Denial) -> bool | None:
    """A request that its vendor rejects, or for more than the settings say that the cluster has."""
    if beyond_the_largest(trial) or _absurd(trial):
        return True
    return None if any(map(partial(_nearly_all, card_of(trial)), _requesting(trial))) else _reading(trial, denial)


def _nearly_all(card: int | None, read: Read) -> bool:
    """Whether a request is for so much of a device that a unit of the target's may be more than it has."""
    amounts = None if read.meaning is None else read.meaning.amounts()
    if card is None or amounts is None or amounts.memory[0] == "unlimited":
        return False
    kind, number = amounts.memory
    return (number * card / 100 if kind == "percent" else number) > card - GIB * amounts.devices


def _absurd(trial: Trial) -> bool:
    """Whether a count that another vendor may borrow is more than any node has: it is denied before that is looked at."""
    sides = [side for each in all_containers(trial.case.pod) for side in (each.get("resources") or {}).values() if side]
    texts = [side["nvidia.com/gpu"] for side in sides if isinstance(side, dict) and "nvidia.com/gpu" in side]
    return any((number_in(text) or 0) > MOST_DEVICES for text in texts)


JUDGES: Mapping[str, Judge] = {
    **dict.fromkeys(sorted(READING), _reading),
    "VGW303": _too_large,
    "VGW313": _misspelled,
    "VGW314": _key_of_inactive,
    "VGW316": _reading,
    "VGW317": _absent_container,
    "VGW318": _too_many,
    "VGW320": _one_container,
    "VGW324": _claimed,
    "VGW325": _unreported,
    "VGW330": _keyless,
    "VGW401": lambda trial, _: not _targets(trial) <= {*EXPRESSES, "neutral"},
    "VGW402": _no_equivalent,
    "VGW403": _read_differently,
    "VGW404": _held_otherwise,
    "VGW405": _init,
    "VGW406": lambda trial, _: "neutral" in _targets(trial),
    "VGW407": _disagree,
    "VGW408": lambda trial, denial: any(
        denied_by_settings(trial, read) for read in _requesting(trial) if denial.container in {None, read.name}
    ),
    "VGW502": _other_scheduler,
    "VGW503": lambda trial, _: len({SCHEDULERS.get(each, "hami-scheduler") for each in _targets(trial)} - {None}) > 1,
    "VGW504": _on_a_node,
    "VGW506": _privileged,
    "VGW603": _unmet,
    "VGW604": _collides,
    "VGW605": _guarded,
    "VGW608": lambda trial, _: any(
        entry["name"] == "LD_PRELOAD" and entry.get("valueFrom") for entry in _variables(trial)
    ),
}
"""By code: every one that a decision can have (``test_fuzz.py``)."""
