"""Which pods are handled, and in which mode: opt-in, opt-out, excluded namespaces, mode and roll-out.

Then what no honest pod exceeds, counted before anything is looked at, so that every pod is decided in bounded time: the API
server checks a pod after its webhooks, so any text and any list can be as long as a review. What is counted here is
what later steps walk through; texts that they only compare, or search once, need no limit. ``benchmarks/worst.py`` searches
for pods that take long nevertheless.

A pod beyond these bounds that requests devices is denied, any other let through. Where devices are hidden, they are from that
one, too, in few steps for each container, with a status that names none: whoever adds a request later has it denied.
"""

import enum
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Final, NamedTuple

import msgspec

from webhook.admission.claims import counts
from webhook.admission.decision import Context, Decision, Namespace, untouched
from webhook.admission.guard import HIDING, hiding_of
from webhook.admission.survey import MAX_CONTAINERS
from webhook.labels import INJECT, MODE, OPT_OUT, ROLLOUT
from webhook.mapping.model.policy import Policy
from webhook.mapping.notation import MAX_KEY
from webhook.patch import Operation
from webhook.pod import (
    ENV,
    MIRROR,
    WINDOWS,
    Container,
    Metadata,
    OwnerReference,
    Pod,
    PodSpec,
    Resources,
    entries,
    paths_in,
    present,
)
from webhook.reasons import Finding, Reason
from webhook.request import MIB

_TEMPLATE_HASH: Final = re.compile(r"-[a-z0-9]{1,10}$")
_DIGITS: Final = re.compile(r"-[0-9]+$")
_PERCENT: Final = re.compile(r"100|[1-9]?[0-9]")


class Mode(enum.Enum):
    """How the webhook handles the pods of a namespace."""

    ENFORCE = "enforce"
    WARN = "warn"
    AUDIT = "audit"


_MODES: Final = {mode.value: mode for mode in Mode}


class Enforcement(NamedTuple):
    """The mode that applies to one pod, with warnings about the labels that set it."""

    mode: Mode
    findings: tuple[Finding, ...] = ()


PLAIN: Final = Enforcement(Mode.ENFORCE)
"""Enforced without a warning, as nearly always: the same object each time."""


def opted_in(namespace: Namespace, policy: Policy) -> bool:
    """Whether a namespace has opted in."""
    return namespace.labels.get(policy.settings.opt_in_label) == "enabled"


def skip_reason(pod: Pod, context: Context, policy: Policy) -> Reason | None:
    """Why a pod is skipped before its keys are read, or None."""
    namespace = context.namespace
    if namespace.name in policy.never_touched:
        return Reason.NEVER_TOUCHED
    if not opted_in(namespace, policy):
        return Reason.NOT_OPTED_IN
    metadata, spec = pod.metadata, pod.spec
    if metadata.annotations is not None and MIRROR in metadata.annotations:
        return Reason.NOT_A_POD_CREATION
    if spec.os is not None and spec.os.name == WINDOWS:
        return Reason.WINDOWS_POD
    if (
        metadata.labels is not None
        and metadata.labels.get(INJECT) == "disabled"
        and namespace.labels.get(OPT_OUT) != "forbidden"
    ):
        return Reason.OPTED_OUT
    return None


def enforcement_of(pod: Pod, context: Context) -> Enforcement:
    """The mode of a pod, with a warning if it tries to opt out where its namespace forbids that."""
    enforcement, metadata = _mode_of(pod, context), pod.metadata
    if metadata.labels is None or metadata.labels.get(INJECT) != "disabled":
        return enforcement
    message = f"the label {INJECT}: disabled has no effect: the namespace forbids it by its label {OPT_OUT}"
    forbidden = Finding(Reason.OPT_OUT_FORBIDDEN, message, field=INJECT, value="disabled")
    return Enforcement(enforcement.mode, (*enforcement.findings, forbidden))


def _mode_of(pod: Pod, context: Context) -> Enforcement:
    """The mode of a pod: its namespace's, or only warnings for what is outside the namespace's roll-out.

    An unknown mode counts as `warn`: a namespace with the label nearly always wants less than the default.
    """
    labels = context.namespace.labels
    written = labels.get(MODE)
    rollout = labels.get(ROLLOUT)
    mode = Mode.ENFORCE if written is None else _MODES.get(written)
    if mode is None:
        message = (
            f"the namespace's label {MODE}: {written!r} is not a mode and counts as warn: write enforce, warn or audit"
        )
        unreadable = Finding(Reason.NAMESPACE_SETTING_INVALID, message, field=MODE, value=written)
        return Enforcement(Mode.WARN, (unreadable,))
    if mode is not Mode.ENFORCE:
        return Enforcement(mode)
    if rollout is None:
        return PLAIN
    if _PERCENT.fullmatch(rollout) is None:
        message = f"the namespace's label {ROLLOUT}: {rollout!r} was ignored: write a number from 0 to 100"
        return Enforcement(mode, (Finding(Reason.NAMESPACE_SETTING_INVALID, message, field=ROLLOUT, value=rollout),))
    if bucket(workload(pod, context.namespace.name)) < int(rollout):
        return PLAIN
    message = (
        f"outside the {rollout} % of the namespace's workloads that are changed: a larger label {ROLLOUT} includes more"
    )
    return Enforcement(Mode.WARN, (Finding(Reason.OUTSIDE_ROLLOUT, message, field=ROLLOUT, value=rollout),))


def owner_of(pod: Pod) -> OwnerReference | None:
    """The controller of a pod, or else its first owner."""
    owners = pod.metadata.owner_references or []
    return next((reference for reference in owners if reference.controller), owners[0] if owners else None)


def workload(pod: Pod, namespace: str) -> str:
    """The workload of a pod, the same for all its pods and at every roll-out: a Deployment, a CronJob, else the pod."""
    metadata, owner = pod.metadata, owner_of(pod)
    if owner is not None:
        name = owner.name
        if owner.kind == "ReplicaSet":
            name = _TEMPLATE_HASH.sub("", name)
        elif owner.kind == "Job":
            name = _DIGITS.sub("", name)
        return f"{namespace}/{owner.kind}/{name}"
    return f"{namespace}//{metadata.generate_name or metadata.name or ''}"


def bucket(text: str) -> int:
    """A number from 0 to 99, the same for the same text on every replica and in every version."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 100


MAX_ENTRIES: Final = 1024
"""The most labels, annotations, or node selector keys of a pod. Honest pods have some dozens."""

MAX_RESOURCES: Final = 4 * 1024
"""The most extended resources in limits and requests of all containers together: four for each of the most containers."""

MAX_CLAIMS: Final = 1024
"""The most resource claims: of the pod, and of all containers together. The API server permits 32 of a pod."""

MAX_LISTED: Final = 8 * 1024
"""The most variables that have to be looked through, and the most JSON objects in mounts of all containers together, or in
volumes. Honest pods have some hundreds; containers with any number of ordinary variables do not count."""

MAX_BYTES: Final = MIB
"""The most bytes of all mounts, and of the volumes. A path has at most 4,096 (``PATH_MAX``)."""

MAX_PLACEMENT: Final = 256 * 1024
"""The most bytes of the tolerations, of the affinity, and of the scheduling gates: far beyond any honest one."""

MAX_NODE_NAME: Final = 253
"""The most characters of the name of a node, a DNS subdomain (RFC 1123). It is written into each term of an affinity."""

_VARIABLES: Final = "variables in containers with one that matters to a share"


def overfull(pod: Pod) -> Finding | None:
    """Return the denial of a pod with more containers, or keys in a map, than are looked at one by one, or None."""
    spec, metadata = pod.spec, pod.metadata
    number = len(spec.containers) + len(spec.init_containers or ())
    if number > MAX_CONTAINERS:
        return _beyond(number, MAX_CONTAINERS, "containers", "spec.containers")
    for what, field, texts in (
        ("labels", "metadata.labels", metadata.labels),
        ("annotations", "metadata.annotations", metadata.annotations),
        ("node selector keys", "spec.nodeSelector", spec.node_selector),
    ):
        if texts and len(texts) > MAX_ENTRIES:
            return _beyond(len(texts), MAX_ENTRIES, what, field)
    return None


def exceeded(pod: Pod, *, few: bool) -> Finding | None:
    """Return the denial of a pod of which only the facts are left, and which exceeds a limit; else None.

    Args:
        pod: the facts of a pod that is not `overfull`.
        few: the facts are few bytes (`decision.MAX_FACTS`), too few for any limit but those on single texts.
    """
    spec, metadata = pod.spec, pod.metadata
    containers = spec.containers if spec.init_containers is None else [*spec.init_containers, *spec.containers]
    sides = [side for each in containers for side in each.sides if side]
    maps = filter(None, (metadata.labels, metadata.annotations, spec.node_selector))
    longest = max(itertools.chain(*maps, *sides), key=len, default="")
    if len(longest) > MAX_KEY:  # patterns search all of it
        return _finding(
            f"a key of the pod has {len(longest)} characters, more than the limit of {MAX_KEY}", longest[:40]
        )
    if few and (spec.node_name is None or len(spec.node_name) <= MAX_NODE_NAME):
        return None
    return next(filter(None, itertools.starmap(_beyond, _counted(spec, containers, sides))), None)


def _counted(
    spec: PodSpec, containers: Sequence[Container], sides: Sequence[Sized]
) -> Iterator[tuple[int, int, str, str]]:
    """Yield numbers, each with its limit, what is counted, and its field."""
    yield sum(map(len, sides)), MAX_RESOURCES, "resources of containers", "resources"
    yield sum([len(each.claims) for each in containers]), MAX_CLAIMS, "claims of containers", "claims"
    yield len(spec.resource_claims or ()), MAX_CLAIMS, "resource claims", "spec.resourceClaims"
    yield len(spec.node_name or ""), MAX_NODE_NAME, "characters of spec.nodeName", "spec.nodeName"
    yield len(bytes(spec.tolerations)), MAX_PLACEMENT, "bytes of tolerations", "spec.tolerations"
    yield len(bytes(spec.affinity)), MAX_PLACEMENT, "bytes of affinity", "spec.affinity"
    yield len(bytes(spec.scheduling_gates)), MAX_PLACEMENT, "bytes of scheduling gates", "spec.schedulingGates"
    yield _variables([each.env for each in containers]), MAX_LISTED, _VARIABLES, "env"
    for text, what in (
        (paths_in(containers), "mounts"),
        (b"".join([each.env_from for each in containers]), "envFrom"),
        (bytes(spec.volumes), "volumes"),
    ):
        yield len(text), MAX_BYTES, f"bytes of {what}", what
        yield text.count(b"{"), MAX_LISTED, f"{what} and parts of them", what


def _variables(lists: Sequence[msgspec.Raw]) -> int:
    """The number of variables that have to be looked through; 0 if there are few."""
    # Braces in values count, too: nearly always this shows that there are few.
    return 0 if b"".join(lists).count(b"{") <= MAX_LISTED else sum(len(entries(raw, ENV)) for raw in lists)


def _beyond(number: int, most: int, what: str, field: str) -> Finding | None:
    return None if number <= most else _finding(f"the pod has {number} {what}, more than the limit of {most}", field)


def _finding(message: str, field: str) -> Finding:
    return Finding(Reason.TOO_MANY, f"{message}: remove what is not needed", field=field)


MAX_HIDDEN: Final = 24 * 1024
"""The most containers from which devices are hidden. With that variable in each, a pod with more exceeds the 1.5 MiB of an
object in etcd (its ``--max-request-bytes``)."""

MAX_ANNOTATIONS: Final = 128 * 1024
"""The most characters of annotations beside which a status is written that may list a thousand containers: the API server
refuses more than 256 KiB in all (``TotalAnnotationSizeLimitB``)."""

MAX_NAMES: Final = 8 * 1024
"""The most extended resources, labels or annotations that are looked at: no pod has so many, and with more it requests."""

_encode: Final = msgspec.json.Encoder().encode


def _requests_something(pod: Pod, policy: Policy) -> bool:
    """Whether a pod of any size may request devices: it has a key with another number than 0, or claims."""
    spec = pod.spec
    containers = spec.containers if spec.init_containers is None else [*spec.init_containers, *spec.containers]
    resources = [each.resources for each in containers if each.resources is not None]
    if spec.resource_claims or any([each.claims for each in resources]):
        return True
    return _requests_by_keys(pod.metadata, policy) or _requests_resources(resources, policy)


def _requests_by_keys(metadata: Metadata, policy: Policy) -> bool:
    """Whether a label or annotation is a key, or there are too many to tell."""
    for texts, read in ((metadata.labels, policy.labels), (metadata.annotations, policy.annotations)):
        possible = read.possible(texts or ())
        if len(possible) > MAX_NAMES or any(map(read.owners, possible)):
            return True
    return False


def _requests_resources(resources: Iterable[Resources], policy: Policy) -> bool:
    """Whether a container has a key with another number than 0, or there are too many resources to tell."""
    sides = [side for each in resources for side in (each.limits, each.requests) if side]
    every = {name for name in itertools.chain(*sides) if "/" in name}
    if len(every) > MAX_NAMES:
        return True
    hidden = {*hiding_of(policy).resources.among(every)}
    possible = {*policy.resources.possible(every), *hidden}
    counted = (name for side in sides for name in possible.intersection(side) if counts(side[name]))
    return any(name in hidden or policy.resources.owners(name) for name in counted)


def crowded(pod: Pod, policy: Policy) -> Finding | None:
    """Return what keeps a status of hidden devices out of a pod: annotations that leave it no room; None if nothing does."""
    annotations = pod.metadata.annotations
    if not policy.settings.hide_devices or not annotations:
        return None
    size = sum(map(len, annotations)) + sum(map(len, annotations.values()))
    message = f"annotations of {size} characters leave no room for a status"
    return Finding(Reason.TOO_MANY, message, field="metadata.annotations") if size > MAX_ANNOTATIONS else None


def beyond(excess: Finding, pod: Pod, policy: Policy) -> Decision | None:
    """Return the decision on a pod beyond the bounds that requests nothing; None for one that has to be denied."""
    hiding = hiding_of(policy)
    metadata, containers, init = pod.metadata, pod.spec.containers, pod.spec.init_containers or []
    if _requests_something(pod, policy) or (hiding.variables and len(containers) + len(init) > MAX_HIDDEN):
        return None
    if not hiding.variables or any(hiding.keys.among(texts or ()) for texts in (metadata.labels, metadata.annotations)):
        return untouched(Reason.NO_GPU_KEYS)
    operations = [
        *_hidden("/spec/containers", containers, hiding.variables),
        *_hidden("/spec/initContainers", init, hiding.variables),
    ]
    if not operations:
        return untouched(Reason.NO_GPU_KEYS)
    message = (
        f"no container requests a device: {' and '.join(hiding.variables)} hides those of the node ({excess.message})"
    )
    return Decision(
        allowed=True,
        reason=Reason.CHANGED,
        patch_json=_encode(operations),
        notes=(Finding(Reason.HIDDEN, message),),
        status_json=_encode({"policy": policy.digest, "containers": {}}).decode(),
        audit={"reasons": Reason.HIDDEN.code},
    )


def _hidden(path: str, containers: Iterable[Container], variables: Mapping[str, str]) -> Iterator[Operation]:
    """The operations that hide devices from containers, few calls for each."""
    entries = [({"name": name, "value": value}, name.encode()) for name, value in variables.items()]
    for index, container in enumerate(containers):
        raw, env = container.env, f"{path}/{index}/env"
        if not present(raw):
            yield {"op": "add", "path": env, "value": [entry for entry, _ in entries]}
            continue
        text = bytes(raw)
        for entry, name in entries:
            last = _last(raw, entry["name"]) if name in text or b"\\" in text else None
            if last is None:
                yield {"op": "add", "path": f"{env}/-", "value": entry}
            elif last >= 0:
                yield {"op": "add", "path": f"{env}/{last}/value", "value": entry["value"]}


def _last(raw: msgspec.Raw, name: str) -> int | None:
    """The index of the variable that counts; None without one, -1 for one that hides, or whose reference no value replaces."""
    own = [(index, entry) for index, entry in enumerate(entries(raw, ENV)) if entry.name == name]
    if not own:
        return None
    index, entry = own[-1]
    return -1 if present(entry.value_from) or entry.value in HIDING else index
