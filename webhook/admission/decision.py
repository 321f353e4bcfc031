"""What goes into a decision (`Context`, `Facts`), what its steps share (`Plan`), and what comes out (`Decision`).

The steps get the facts of a review and nothing else, and decisions are remembered under them. So a key that `ReadKeys` forgets
is hidden from every step, for every pod: it cannot make the memory give one pod's patch to another.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from sys import getsizeof
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from webhook.labels import GUARD, PREFIX, SHIM, STATUS
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.shim import DeliveryKind
from webhook.mapping.model.vendor import Vendor
from webhook.patch import Edits, Entry, Operation, Slot, append, write_list, write_map
from webhook.pod import (
    ABSENT,
    NO_METADATA,
    NULL,
    VOLUMES,
    Container,
    Metadata,
    Pod,
    PodSpec,
    Resources,
    Volume,
    entries,
    paths_in,
    present,
)
from webhook.reasons import Denied, Finding, Reason, ReasonKind
from webhook.request import ClaimTemplate, Request
from webhook.text import shorten

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]

ENFORCE_LABEL: Final = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: the Pod Security level that its pods must meet."""


CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    GUARD: ("deny", "strip", "allow", "audit"),
    SHIM: get_args(DeliveryKind),
}
"""The annotations of a namespace that choose one of several values."""


class Namespace(Struct, frozen=True, dict=True):
    """The namespace of a pod: its labels select the mode, its annotations set defaults and the target."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}

    @cached_property
    def decisive(self) -> "Namespace":
        """What of it can decide on an eligible pod: the webhook's keys, known or not, and its Pod Security level."""
        labels = {key: text for key, text in self.labels.items() if key.startswith(PREFIX) or key == ENFORCE_LABEL}
        return Namespace("", labels, {key: text for key, text in self.annotations.items() if key.startswith(PREFIX)})

    def odd_choice(self, key: str) -> Finding | None:
        """Return the warning about an unknown value of an annotation of `CHOICES`."""
        value = self.annotations.get(key)
        if value is None or value in CHOICES[key]:
            return None
        known = ", ".join(CHOICES[key])
        message = f"the namespace's annotation {key}: {shorten(value, 40)!r} was ignored: write one of {known}"
        return Finding(Reason.NAMESPACE_SETTING_INVALID, message, None, key, value)


class Context(Struct, frozen=True):
    """The circumstances of one decision."""

    namespace: Namespace
    # of a namespace without an ``enforce`` label, unless the settings have one: a webhook does not see the cluster's default
    pod_security_default: PodSecurityLevel = "baseline"
    user: str = ""  # who creates the pod; schedulers may write the marks that they own
    image_volumes: bool = True  # whether the cluster serves image volumes, unless the settings say so


Outcome: TypeAlias = Literal["patched", "untouched", "denied"]


class Decision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Allowed or denied, with patch, warnings, status and audit annotations.

    A decision is cached for all pods of a template, so patch and status are texts: as objects they take three times the
    memory.
    """

    allowed: bool  # whether the pod is created
    reason: Reason  # the outcome: `Reason.CHANGED`, or why the pod was left unchanged or denied
    patch_json: bytes = b""  # the JSON Patch against the submitted object; empty when nothing changes
    warnings: tuple[Finding, ...] = ()  # warnings for the user, in order
    notes: tuple[Finding, ...] = ()  # findings for the status, the audit log and metrics only
    denial: Finding | None = None  # why it was denied
    # the ResourceClaimTemplates that the changed pod names, to be in its namespace before it is scheduled
    objects: tuple[ClaimTemplate, ...] = ()
    status_json: str = ""  # the status annotation; empty for a pod without a GPU request
    audit: Mapping[str, str] = {}  # audit annotations: keys are qualified-name parts, values text
    vendors: tuple[str, ...] = ()  # the vendors whose keys the pod has, for metrics

    @cached_property
    def series(self) -> tuple[Outcome, str, str]:
        """The labels of its metric: outcome, reason, and the vendor (or ``several``, or ``none``)."""
        outcome: Outcome = "denied" if not self.allowed else "patched" if self.patch_json else "untouched"
        vendor = "none" if not self.vendors else self.vendors[0] if len(self.vendors) == 1 else "several"
        return outcome, self.reason.slug, vendor

    @cached_property
    def would_be(self) -> bool:
        """Whether its namespace only reports: under `enforce` the pod would be changed or denied."""
        return self.allowed and (self.reason is Reason.WOULD_CHANGE or self.reason.kind is ReasonKind.DENIAL)

    @cached_property
    def noted(self) -> tuple[str, ...]:
        """The names of the notes' reasons, each once, for metrics."""
        return tuple(dict.fromkeys([note.reason.slug for note in self.notes]))

    @property
    def patch(self) -> tuple[Operation, ...]:
        """The operations."""
        return tuple(msgspec.json.decode(self.patch_json)) if self.patch_json else ()

    @property
    def status(self) -> dict[str, Any]:
        """The status as plain data."""
        return msgspec.json.decode(self.status_json, type=dict[str, Any]) if self.status_json else {}


def untouched(reason: Reason, warnings: tuple[Finding, ...] = ()) -> Decision:
    """Return the decision that leaves a pod unchanged."""
    return Decision(allowed=True, reason=reason, warnings=warnings)


def denied(denial: Finding, findings: tuple[Finding, ...] = (), vendors: tuple[str, ...] = ()) -> Decision:
    """Return the decision that denies a pod, with the findings of earlier steps."""
    warnings = tuple(dict.fromkeys([finding for finding in findings if not finding.note]))
    audit = {**reasons_of((*warnings, denial)), "denied": denial.text}
    return Decision(allowed=False, reason=denial.reason, warnings=warnings, denial=denial, audit=audit, vendors=vendors)


def reasons_of(findings: tuple[Finding, ...]) -> dict[str, str]:
    """Return the codes of the findings, for the audit log; empty without findings."""
    return {"reasons": ",".join(dict.fromkeys([finding.reason.code for finding in findings]))} if findings else {}


class ContainerStatus(Struct, frozen=True, omit_defaults=True, rename={"claim_request": "claimRequest"}):
    """What the status says of a container: what it requests, what that means, what was written for it, and as what."""

    vendor: str = ""
    keys: Mapping[str, str] = {}
    request: Mapping[str, Any] = {}  # by dimension
    allocation: Mapping[str, Any] = {}  # if it differs from the request
    defaults: Mapping[str, str] = {}  # the origin of each dimension's
    target: str | None = None
    written: Mapping[str, str] = {}
    shim: str | None = None
    notes: Sequence[str] = ()
    claim: str | None = None  # the name of its template
    claim_request: str | None = None  # its request of several in it


class Status(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The status of a pod, as its annotation has it."""

    policy: str = ""
    containers: Mapping[str, ContainerStatus]
    scheduler: str | None = None
    hidden: Sequence[str] = ()  # the containers in which this webhook has hidden devices


class ClaimedContainer(Struct, frozen=True, rename={"claim_request": "claimRequest"}):
    """What is read back of a container: its request in the keys of its claim, if it has one."""

    vendor: str = ""
    target: str | None = None
    written: Mapping[str, str] = {}
    claim: str | None = None
    claim_request: str | None = None


class StoredStatus(Struct, frozen=True):
    """What is read back of a status: anybody, or another version of this webhook, may have written the rest."""

    containers: Mapping[str, ClaimedContainer] = {}
    hidden: Sequence[str] = ()


_status: Final = msgspec.json.Decoder(StoredStatus)

MAX_STATUS: Final = 256 * 1024
"""The most characters of a status that is read: an API server stores no longer annotations (``TotalAnnotationSizeLimitB``)."""


def status_in(metadata: Metadata) -> StoredStatus:
    """Return the status that a pod has; an empty one if it has none, or what this webhook does not write."""
    text = (metadata.annotations or {}).get(STATUS)
    try:
        return StoredStatus() if text is None or len(text) > MAX_STATUS else _status.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return StoredStatus()


MAX_FACTS: Final = 16 * 1024
"""The most bytes of facts that are remembered. Honest pods have less; without a bound, a few others could fill the memory."""

_OBJECTS: Final = 820
"""Bytes of what every decision consists of: itself, two dictionaries, tuples, and the response's frame."""

_OBJECT: Final = 96
"""Bytes of a finding, with its place in a tuple."""

_EMPTY: Final = msgspec.Raw(b"[]")
"""A list whose entries do not matter; that it is there does, for it changes the patch."""

_SOURCES: Final = msgspec.Raw(b"[{}]")
"""A list of which it matters only that it has entries."""

_encode: Final = msgspec.json.Encoder().encode


class Facts(Struct, frozen=True):
    """The facts of a review."""

    # the pod with what can matter: of labels, annotations and the node selector the keys that the policy reads, of
    # resources the names with a domain, of lists that nothing reads only that they are there
    pod: Pod
    # likewise: of a namespace without a name the webhook's keys and its level; what the settings say of it
    context: Context
    key: bytes | None  # all facts as bytes, equal for equal decisions; None if they are too long to be remembered


def facts_of(pod: Pod, context: Context, policy: Policy, *, every: bool = False) -> Facts | None:
    """Return the facts of a review; None if nothing in the pod can matter: no key, no resource with a domain, no claim.

    Where devices are hidden, or if that is asked for, every container matters.
    """
    spec, metadata = pod.spec, pod.metadata
    init = spec.init_containers
    containers = spec.containers if init is None else [*init, *spec.containers]
    among = policy.read_keys.among
    labels, annotations, selector = among(metadata.labels), among(metadata.annotations), among(spec.node_selector)
    resources = [_extended(container.resources) for container in containers]
    named = labels or annotations or selector or spec.resource_claims or policy.settings.hide_devices
    requesting = [each for each in resources if each is not None and (each.limits or each.requests or each.claims)]
    if not (named or every or requesting):
        return None
    # If a vendor's own webhook has added references to ConfigMaps, they are searched for in all lists.
    whole = annotations is not None and not policy.references.isdisjoint(annotations)
    mounts = whole or bool(policy.marks_of_mounts(paths_in(containers, spec.volumes)))
    reduced = _reduced(containers, resources, policy, whole=whole, mounts=mounts)
    affinity, gates = _belongings(spec, policy)
    first = 0 if init is None else len(init)
    facts = Pod(
        metadata if metadata is NO_METADATA else Metadata(labels=labels, annotations=annotations),
        replace(
            spec,
            containers=reduced[first:],
            init_containers=None if init is None else reduced[:first],
            ephemeral_containers=ABSENT,
            volumes=spec.volumes if mounts else _emptied(spec.volumes),
            node_selector=selector,
            affinity=affinity,
            os=None,
            scheduling_gates=gates,
        ),
    )
    settings, served = policy.settings, policy.settings.image_volumes
    around = Context(
        context.namespace.decisive,
        settings.pod_security_default or context.pod_security_default,
        context.user,
        context.image_volumes if served is None else served,
    )
    return Facts(facts, around, _key(facts, around))


def _belongings(spec: PodSpec, policy: Policy) -> tuple[msgspec.Raw, msgspec.Raw]:
    """The affinity and the scheduling gates, if they may matter."""
    affinity, gates = spec.affinity, spec.scheduling_gates
    if affinity is gates is ABSENT or policy.marks_of_belongings(b"".join([affinity, gates])):
        return affinity, gates
    return affinity if policy.cards or spec.node_name or policy.by_architecture else ABSENT, ABSENT


def _reduced(
    containers: Sequence[Container],
    resources: Sequence[Resources | None],
    policy: Policy,
    *,
    whole: bool,
    mounts: bool,
) -> list[Container]:
    """Containers with what can matter: resources, watched variables, and `mounts` that may meet a shim or a guard."""
    watched, installers = policy.watched_variables, policy.installers
    return [
        Container(
            each.name,
            extended,
            each.env if whole or watched(each.env) else _emptied(each.env),
            each.env_from if whole or each.env_from is ABSENT else _sources(each.env_from),
            each.volume_mounts if mounts else _emptied(each.volume_mounts),
            each.security_context,
            each.volume_devices if mounts else ABSENT,
            each.termination_message_path if mounts else ABSENT,
            restart_policy=each.restart_policy,
        )
        if each.name not in installers
        else replace(each, resources=extended)
        for each, extended in zip(containers, resources, strict=True)
    ]


def _sources(raw: msgspec.Raw) -> msgspec.Raw:
    return _SOURCES if b"{" in bytes(raw) else _emptied(raw)


def _emptied(raw: msgspec.Raw) -> msgspec.Raw:
    return ABSENT if raw is ABSENT or raw == NULL else _EMPTY


def _extended(resources: Resources | None) -> Resources | None:
    """The claims and the extended resources: names with a domain, which every key has."""
    if resources is None:
        return None
    limits, requests = resources.limits, resources.requests
    found = None if limits is None else {name: number for name, number in limits.items() if "/" in name}
    if requests == limits:  # of extended resources they have to be
        return Resources(found, found, resources.claims)
    asked = None if requests is None else {name: number for name, number in requests.items() if "/" in name}
    return Resources(found, asked, resources.claims)


def _key(pod: Pod, context: Context) -> bytes | None:
    namespace = context.namespace
    around = (
        namespace.labels,
        namespace.annotations,
        context.pod_security_default,
        context.user,
        context.image_volumes,
    )
    try:
        key = _encode((pod, pod.metadata is NO_METADATA, around))
    except OverflowError:
        return None  # a quantity of more than 64 bits
    return key if len(key) <= MAX_FACTS else None


def remember(key: bytes, decision: Decision, policy: Policy) -> Decision:
    """Remember a decision under its facts; return it as it is remembered."""
    # msgspec leaves room behind what it encodes, up to half as much again.
    decision = replace(decision, patch_json=bytes(memoryview(decision.patch_json)))
    policy.memo.keep(key, decision, getsizeof(key) + size_of(decision))
    return decision


def size_of(decision: Decision) -> int:
    """Return the bytes of a decision with the response that is encoded from it, without what policy and module have anyway.

    ``tests/decisions/test_remembered_size.py`` compares it with what the allocator gave.
    """
    denial = decision.denial
    # The response has the patch in base64, and what users and the audit log are told as JSON.
    told = _encode((decision.audit, [finding.text for finding in decision.warnings], denial and denial.sentence))
    texts: list[str | bytes] = [decision.patch_json, *decision.audit.values()]
    texts += [] if "status" in decision.audit else [decision.status_json]
    findings = (*decision.warnings, *decision.notes, *(() if denial is None else (denial,)))
    for template in decision.objects:
        texts += [template.name, template.spec_json]
    for finding in findings:
        texts += [text for text in (finding.message, finding.field, finding.value, finding.container) if text]
    response = 4 * len(decision.patch_json) // 3 + len(told)
    return _OBJECTS + _OBJECT * (len(findings) + len(decision.objects)) + sum(map(getsizeof, texts)) + response


class Allocation(Struct, frozen=True):
    """The allocation of one container."""

    slot: Slot
    source: Vendor  # the vendor whose keys request it
    owner: Vendor  # the vendor that owns the written keys; another than the target if the target is inactive
    vendor: Vendor  # the vendor under which it will run (the target)
    request: Request  # the settled request as the target's keys express it
    form: str | None  # the name of the target's form that those keys take
    copy: Vendor | None  # the vendor in whose keys the same request is repeated, and kept
    moved: bool  # keys of the source are removed; not in a second pass, which finds those of the target
    share: bool  # it is less than whole devices, so that the shim applies, and what guards a limit

    @property
    def vendors(self) -> tuple[Vendor, ...]:
        """All vendors concerned: one pass treats what they own or place as a second pass would."""
        return (self.source, self.owner, self.vendor, *([] if self.copy is None else [self.copy]))


Unsettled: TypeAlias = tuple[tuple[Slot, Vendor, bool | None], ...]
"""Containers left alone, each with its vendor; whether a plain device plugin gives it a share; None: it requests nothing."""


MAX_DENIALS: Final = 8
"""The most denials of one pod after which the steps go on."""


class Plan(Struct, eq=False, dict=True):
    """One pod during its admission: what was sent, what becomes of it, and the results of the steps so far."""

    pod: Pod
    context: Context
    policy: Policy
    slots: tuple[Slot, ...]  # every container that can hold resources
    claims: Mapping[str, tuple[str, ...]] = {}  # what containers claim, by their paths, if they claim something
    allocations: tuple[Allocation, ...] = ()  # the allocation of each requesting container, init containers first
    # containers with resources of a vendor, but without an allocation: a count of 0, names that cannot be read as a single
    # request, or a form with `leave`. The guard treats them like containers with whole devices, and those with True, which
    # a plain device plugin gives less, like shares; those with None request nothing.
    left_alone: Unsettled = ()
    findings: list[Finding] = []  # warnings for the user, in order
    denials: list[Finding] = []  # why it is denied, as far as the steps got
    labels: dict[str, str] = {}  # as they will be, like the two that follow
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    # other fields of the spec by name (``schedulerName``): a value to set, or None to remove a present one
    fields: dict[str, Any] = {}
    volumes: list[Volume] = []  # those that the pod was sent with
    volume_edits: Edits = {}  # what becomes of them
    volumes_added: list[Entry] = []
    tolerations_added: list[Entry] = []
    claims_added: list[Entry] = []
    installers: list[Entry] = []  # init containers to put before those of the pod
    templates: dict[str, ClaimTemplate] = {}  # by the path of a container, the template of its claim
    requests: dict[str, str] = {}  # by the path of a container, its request of several in its claim
    deliveries: dict[str, str] = {}  # for the status: by the name of a container, how the shim reaches it
    hidden: list[str] = []  # for the status: the containers in which devices are hidden by us
    stripped: int = 0  # variables that the guard has removed so far
    paths: int = 0  # characters of the search and preload paths that the shim has looked at so far
    covered: list[Slot] = []  # containers with a guarded mount that their shim has to account for

    def __post_init__(self) -> None:
        metadata = self.pod.metadata
        self.labels, self.annotations = dict(metadata.labels or ()), dict(metadata.annotations or ())
        self.node_selector = dict(self.pod.spec.node_selector or ())
        self.volumes = entries(self.pod.spec.volumes, VOLUMES)

    def deny(self, finding: Finding) -> None:
        """Deny the pod, but go on: what else denies it is told at once."""
        if len(self.denials) == MAX_DENIALS:
            raise Denied(finding)
        self.denials.append(finding)

    def report_once(self, finding: Finding) -> None:
        """Add, once, a finding that several containers cause but that concerns the pod."""
        if finding not in self.findings:
            self.findings.append(finding)

    def chosen(self, key: str) -> str | None:
        """Return what the namespace's annotation chooses (`CHOICES`); an unknown value is reported once, and ignored."""
        odd = self.context.namespace.odd_choice(key)
        if odd is None:
            return self.context.namespace.annotations.get(key)
        self.report_once(odd)
        return None

    @cached_property
    def volumes_called(self) -> Mapping[str, list[Volume]]:
        """The volumes by name: several of one, if the pod is not valid."""
        found: dict[str, list[Volume]] = {}
        for volume in self.volumes:
            found.setdefault(volume.name, []).append(volume)
        return found

    @property
    def objects(self) -> tuple[ClaimTemplate, ...]:
        """The templates of all claims, each once."""
        return tuple({each.name: each for each in self.templates.values()}.values()) if self.templates else ()

    @property
    def changed(self) -> bool:
        """Whether labels or annotations differ from those that were sent."""
        metadata = self.pod.metadata
        return self.labels != (metadata.labels or {}) or self.annotations != (metadata.annotations or {})

    def spec_operations(self) -> list[Operation]:
        """Return the operations for everything but labels and annotations."""
        operations: list[Operation] = []
        spec = self.pod.spec
        for slot in self.slots:
            slot.write(operations)
        if self.installers:  # after the changes of the others, whose positions change
            path = "/spec/initContainers"
            if spec.init_containers is None:
                append(path, self.installers, operations, missing=True)
            else:
                operations.extend(
                    [{"op": "add", "path": f"{path}/0", "value": each} for each in reversed(self.installers)]
                )
        if self.volume_edits:
            write_list("/spec/volumes", self.volumes, self.volume_edits, operations)
        for name, added, missing in (
            ("volumes", self.volumes_added, not present(spec.volumes)),
            ("resourceClaims", self.claims_added, spec.resource_claims is None),
            ("tolerations", self.tolerations_added, not present(spec.tolerations)),
        ):
            if added:
                append(f"/spec/{name}", added, operations, missing=missing)
        for name, value in self.fields.items():
            change = {"op": "remove"} if value is None else {"op": "add", "value": value}
            operations.append({**change, "path": f"/spec/{name}"})
        write_map("/spec/nodeSelector", spec.node_selector, self.node_selector, operations)
        return operations

    def metadata_operations(self) -> list[Operation]:
        """Return the operations for labels and annotations."""
        metadata = self.pod.metadata
        operations: list[Operation] = []
        write_map("/metadata/labels", metadata.labels, self.labels, operations)
        write_map("/metadata/annotations", metadata.annotations, self.annotations, operations)
        if operations and metadata is NO_METADATA:
            operations.insert(0, {"op": "add", "path": "/metadata", "value": {}})
        return operations
