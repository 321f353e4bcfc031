"""Every reason for a decision: one enumeration for messages, status, audit annotations, logs and metrics.

The codes are stable: a number never gets a second meaning. ``docs/codes.md`` is generated from this file.
"""

import enum
from dataclasses import dataclass


class ReasonKind(enum.Enum):
    """The effect of a reason on the response."""

    OUTCOME = "outcome"
    WARNING = "warning"
    NOTE = "note"
    DENIAL = "denial"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a code.

    Attributes:
        code: ``VGW`` and three digits.
        kind: its effect on the response.
        title: a few words, for tables and headings.
        meaning: what happened, in a sentence.
        remedy: what to do about it.
        status: the HTTP code of a denial, 0 otherwise.
    """

    code: str
    kind: ReasonKind
    title: str
    meaning: str
    remedy: str
    status: int = 0


_ = Explanation


class Reason(enum.Enum):
    """By number: 0xx outcomes, 1xx reading, 2xx translating, 3xx and 4xx denials of both, 5xx placing, 6xx shim."""

    NO_GPU_KEYS = _(
        "VGW001",
        ReasonKind.OUTCOME,
        "no GPU keys",
        "The pod requests no GPU through a key of any active vendor.",
        "If one should, `vgpu-webhook vendors` lists the keys.",
    )
    NOT_A_POD_CREATION = _(
        "VGW002",
        ReasonKind.OUTCOME,
        "not a pod creation",
        "The webhook handles only the creation of a v1 Pod.",
        "Nothing.",
    )
    NOT_OPTED_IN = _(
        "VGW003",
        ReasonKind.OUTCOME,
        "namespace not opted in",
        "The namespace lacks the label `vgpu-webhook.io/inject: enabled`.",
        "To have its pods handled, label it.",
    )
    OPTED_OUT = _(
        "VGW004",
        ReasonKind.OUTCOME,
        "pod opted out",
        "The pod has the label `vgpu-webhook.io/inject: disabled`.",
        "To forbid it, label the namespace `vgpu-webhook.io/opt-out: forbidden`.",
    )
    MIRROR_POD = _(
        "VGW005",
        ReasonKind.OUTCOME,
        "mirror pod",
        "The pod mirrors a static pod, which already runs.",
        "Nothing.",
    )
    WINDOWS_POD = _(
        "VGW006",
        ReasonKind.OUTCOME,
        "Windows pod",
        "Shims need Linux.",
        "Nothing.",
    )
    NEVER_TOUCHED = _(
        "VGW007",
        ReasonKind.OUTCOME,
        "namespace excluded",
        "The namespace belongs to the cluster or is listed under `neverTouched`.",
        "Nothing.",
    )
    ALREADY_RIGHT = _(
        "VGW008",
        ReasonKind.OUTCOME,
        "already right",
        "The pod requests a GPU and needs no change.",
        "Nothing.",
    )
    CHANGED = _(
        "VGW009",
        ReasonKind.OUTCOME,
        "changed",
        "The annotation `vgpu-webhook.io/status` describes the changes.",
        "Nothing.",
    )
    WOULD_CHANGE = _(
        "VGW010",
        ReasonKind.OUTCOME,
        "would be changed",
        "The namespace's mode or roll-out only reports changes; the pod is stored as written.",
        "Set the mode to `enforce`, or raise the roll-out.",
    )
    RESOURCE_CLAIMS = _(
        "VGW011",
        ReasonKind.OUTCOME,
        "resource claims only",
        "The pod requests devices only through Dynamic Resource Allocation.",
        "Nothing.",
    )
    LEFT = _(
        "VGW012",
        ReasonKind.OUTCOME,
        "left to its own system",
        "The pod requests devices in keys that another system serves as they are: whole devices of a plain device plugin, "
        "or what only the vendor's own plugin can tell apart.",
        "Nothing. If a system that the webhook knows should serve it, set `target` or `served` in the settings.",
    )
    DEFAULT_FILLED = _(
        "VGW101",
        ReasonKind.WARNING,
        "default applied",
        "A default of the namespace or mapping was written for a missing dimension.",
        "To choose another, set the key that the message names.",
    )
    NAMESPACE_DEFAULT_INVALID = _(
        "VGW102",
        ReasonKind.WARNING,
        "namespace default invalid",
        "An annotation `vgpu-webhook.io/default-*` of the namespace is invalid and ignored.",
        "Write memory as `4Gi` or `all`, cores as 0 to 100, devices as a count.",
    )
    DEFAULT_NOT_APPLIED = _(
        "VGW103",
        ReasonKind.WARNING,
        "default not applied",
        "A default was ignored: the container's keys cannot express it, or it would change what they specify.",
        "Specify the dimension, or change the default.",
    )
    PROMOTED_TO_LIMITS = _(
        "VGW104",
        ReasonKind.WARNING,
        "copied to limits",
        "A GPU resource is in `requests` only; it was copied to `limits`.",
        "Write GPU resources under `limits`.",
    )
    KEY_IGNORED = _(
        "VGW105",
        ReasonKind.WARNING,
        "key ignored",
        "The vendor ignores this key beside the others.",
        "Remove it.",
    )
    MISPLACED_KEY = _(
        "VGW106",
        ReasonKind.WARNING,
        "key in the wrong place",
        "The vendor does not read the key in this place.",
        "Move it as the message says.",
    )
    UNKNOWN_KEY = _(
        "VGW107",
        ReasonKind.WARNING,
        "unknown key",
        "A resource name, label or annotation is unknown, and resembles a key, or belongs to the domain of keys beside it.",
        "If you meant that key, correct the name.",
    )
    CORRECTED = _(
        "VGW108",
        ReasonKind.WARNING,
        "value corrected",
        "The number was raised to the next one that the vendor accepts.",
        "Write what the message names.",
    )
    ROUNDED_DOWN = _(
        "VGW109",
        ReasonKind.WARNING,
        "value rounded down",
        "The vendor rounds this number down.",
        "Write the lower number.",
    )
    NAMESPACE_SETTING_INVALID = _(
        "VGW110",
        ReasonKind.WARNING,
        "namespace setting invalid",
        "A label or annotation `vgpu-webhook.io/*` of the namespace is invalid and ignored; an unknown mode counts as `warn`.",
        "Write a value that the message lists.",
    )
    OUTSIDE_ROLLOUT = _(
        "VGW111",
        ReasonKind.WARNING,
        "outside the roll-out",
        "The namespace's roll-out does not include this workload: nothing was changed.",
        "Raise or remove the namespace's label `vgpu-webhook.io/rollout`.",
    )
    CLAIM_LEFT_UNCHANGED = _(
        "VGW112",
        ReasonKind.WARNING,
        "resource claim left unchanged",
        "The pod also has resource claims, which the webhook does not count; it cannot see their device classes.",
        "Make sure that they are for other devices.",
    )
    OWN_KEY_UNUSED = _(
        "VGW113",
        ReasonKind.WARNING,
        "webhook key without effect",
        "Nothing reads this label or annotation `vgpu-webhook.io/*`: it is misspelled, misplaced or invalid.",
        "Write what the message suggests, or remove it.",
    )
    LIMIT_NOT_KEPT = _(
        "VGW114",
        ReasonKind.WARNING,
        "limit not enforced",
        "With these keys the vendor reserves the request, but does not limit the container to it.",
        "If you need the limit, write what the message names.",
    )
    OPT_OUT_FORBIDDEN = _(
        "VGW115",
        ReasonKind.WARNING,
        "opt-out forbidden",
        "The pod has the label that opts out, and its namespace forbids that.",
        "Remove the label, or ask whoever administers the namespace.",
    )
    SIZE_TOO_SMALL = _(
        "VGW116",
        ReasonKind.WARNING,
        "memory suspiciously small",
        "The request is for less memory per device than the setting `smallestMemory`: another unit was meant.",
        "Write the number that the message names, if that was meant.",
    )
    OTHER_SYSTEM = _(
        "VGW117",
        ReasonKind.WARNING,
        "name of another system",
        "A resource name, label or annotation belongs to a system, or to a version of one, that no mapping reads: the webhook "
        "does nothing about it.",
        "Write what the message suggests, unless the cluster runs that system.",
    )
    DOCUMENT_UNUSED = _(
        "VGW118",
        ReasonKind.WARNING,
        "document not in force",
        "A ConfigMap is in a namespace where the webhook does not read it, or its document contradicts others, so that what "
        "was in force stays.",
        "Write it into the webhook's own namespace, or correct what the message names.",
    )
    ROUNDED = _(
        "VGW201",
        ReasonKind.WARNING,
        "rounded up",
        "The target cannot express the exact amount; the next larger one was written.",
        "Nothing.",
    )
    OTHER_FAMILY = _(
        "VGW202",
        ReasonKind.WARNING,
        "other hardware family",
        "The pod was translated, as configured, to another hardware family.",
        "Make sure that the image is built for it.",
    )
    KEY_NOT_CARRIED = _(
        "VGW203",
        ReasonKind.WARNING,
        "key not carried over",
        "The key has no meaning for the target and was removed.",
        "Remove it, or write the target's own.",
    )
    HINT_NOT_CARRIED = _(
        "VGW204",
        ReasonKind.WARNING,
        "hint not carried over",
        "Only the source's scheduler reads this annotation, which was kept.",
        "Write the target's own.",
    )
    DIMENSION_DROPPED = _(
        "VGW205",
        ReasonKind.WARNING,
        "dimension dropped",
        "The target cannot limit this dimension; its mapping permits that.",
        "If the limit matters, choose another target.",
    )
    SINGLE_DEVICE_LOST = _(
        "VGW206",
        ReasonKind.WARNING,
        "single device not guaranteed",
        "The source places all containers of the pod on one device; the target does not guarantee that.",
        "Request in one container only, or keep the source's keys.",
    )
    LIMIT_ADDED = _(
        "VGW207",
        ReasonKind.WARNING,
        "limit added",
        "The target limits a dimension that the request does not.",
        "If that matters, choose another target.",
    )
    VARIABLE_ADDED = _(
        "VGW208",
        ReasonKind.WARNING,
        "variable added",
        "The source's device plugin sets this variable, the target's does not; it was added.",
        "To use another value, set it.",
    )
    VARIABLE_MISSING = _(
        "VGW209",
        ReasonKind.WARNING,
        "variables missing",
        "The source's device plugin sets these variables on the node; the target's does not.",
        "Set them in the pod if the program needs them.",
    )
    DEVICE_MEMORY_ASSUMED = _(
        "VGW210",
        ReasonKind.WARNING,
        "device memory assumed",
        "A percentage of memory became a size, or the reverse, by the setting `cards` for the devices that the pod selects.",
        "Make sure that `cards` is right for these nodes.",
    )
    KEY_RETIRED = _(
        "VGW211",
        ReasonKind.WARNING,
        "retired key written",
        "Current versions of the target's system do not read this key.",
        "Use it only with the version that the message names.",
    )
    REFERENCES_DROPPED = _(
        "VGW212",
        ReasonKind.WARNING,
        "references to the source's ConfigMaps removed",
        "The source's webhook refers to ConfigMaps that only its scheduler creates; these references were removed.",
        "Nothing.",
    )
    BAD_QUANTITY = _(
        "VGW301",
        ReasonKind.DENIAL,
        "invalid quantity",
        "The value is no Kubernetes quantity, or too long or too large.",
        "Write a plain whole number.",
        400,
    )
    NOT_WHOLE = _(
        "VGW302",
        ReasonKind.DENIAL,
        "not a whole number",
        "The value is a fraction or negative in the key's unit.",
        "Write what the message names.",
        422,
    )
    TOO_LARGE = _(
        "VGW303",
        ReasonKind.DENIAL,
        "more than any device has",
        "No device or node has that much. Often a unit was written although the key has its own.",
        "Write what the message names.",
        422,
    )
    NOT_LEGAL = _(
        "VGW304",
        ReasonKind.DENIAL,
        "value not allowed",
        "The vendor accepts certain numbers only.",
        "Write what the message names.",
        422,
    )
    NOT_DIVISIBLE = _(
        "VGW305",
        ReasonKind.DENIAL,
        "not divisible",
        "The total is not divisible by the number of devices.",
        "Write what the message names.",
        422,
    )
    LIMIT_DIFFERS = _(
        "VGW306",
        ReasonKind.DENIAL,
        "limit and request differ",
        "Limits and requests of an extended resource must agree.",
        "Write the same value to both, or leave `requests` out.",
        422,
    )
    ZERO_DEVICES = _(
        "VGW307",
        ReasonKind.DENIAL,
        "no device, but a share of one",
        "The count is 0 beside memory or cores.",
        "Write a count from 1, or remove the other keys.",
        422,
    )
    UNSUPPORTED_BY_VENDOR = _(
        "VGW308",
        ReasonKind.DENIAL,
        "not supported by the vendor",
        "The vendor's components would deny or ignore these keys together.",
        "Write what the message names.",
        422,
    )
    NO_FORM = _(
        "VGW309",
        ReasonKind.DENIAL,
        "invalid combination of keys",
        "No form of the vendor's mapping matches these keys.",
        "`vgpu-webhook vendors NAME` lists the forms.",
        422,
    )
    BAD_COUNT = _(
        "VGW310",
        ReasonKind.DENIAL,
        "not a count",
        "A count in a label or annotation must be a positive whole number, in quotes.",
        'Write for instance `"2"`.',
        422,
    )
    AMBIGUOUS_COUNT = _(
        "VGW311",
        ReasonKind.DENIAL,
        "count for several containers",
        "The count is for one container, and several request devices.",
        "Keep one request, or split the pod.",
        422,
    )
    TWO_VENDORS = _(
        "VGW312",
        ReasonKind.DENIAL,
        "two vendors in one container",
        "A container has keys of two vendors that mean different things.",
        "Keep the keys of one vendor.",
        422,
    )
    NEAR_MISS = _(
        "VGW313",
        ReasonKind.DENIAL,
        "misspelled key",
        "A resource name, label or annotation is nearly a known key; the vendor would ignore it.",
        "Write what the message names.",
        422,
    )
    VENDOR_INACTIVE = _(
        "VGW314",
        ReasonKind.DENIAL,
        "vendor inactive",
        "The key's vendor is inactive: another owns a name that both use.",
        "Change the setting `owners`, or write the active vendor's keys.",
        422,
    )
    UNIT_NOT_CONFIGURED = _(
        "VGW315",
        ReasonKind.DENIAL,
        "unit not configured",
        "The vendor's sources contradict each other on this key's unit.",
        "Set its `unit` in a mapping that extends this one.",
        422,
    )
    SPELLINGS_DIFFER = _(
        "VGW316",
        ReasonKind.DENIAL,
        "conflicting keys in one container",
        "The container's keys name different models or chips, or one key has two spellings.",
        "Use one model or chip, and one spelling.",
        422,
    )
    NO_SUCH_CONTAINER = _(
        "VGW317",
        ReasonKind.DENIAL,
        "no such container",
        "An annotation names no container of the pod, or not the one that requests the GPU.",
        "Write the container that the message names.",
        422,
    )
    TOO_MANY = _(
        "VGW318",
        ReasonKind.DENIAL,
        "too many",
        "The pod exceeds a limit of the webhook, such as that of containers or keys.",
        "Remove what the message names, or split the pod.",
        422,
    )
    DIMENSION_MISSING = _(
        "VGW319",
        ReasonKind.DENIAL,
        "dimension missing",
        "The vendor requires this dimension, and no default applies.",
        "Add the key that the message names.",
        422,
    )
    ONE_CONTAINER_ONLY = _(
        "VGW320",
        ReasonKind.DENIAL,
        "one container only",
        "The vendor serves one requesting container of a pod, or several that request the same.",
        "Keep one request, or write what the message names.",
        422,
    )
    SIZE_UNKNOWN = _(
        "VGW321",
        ReasonKind.DENIAL,
        "size not known",
        "The memory and cores that this name stands for on your devices are unknown.",
        "Add the name, or the devices' model, in a mapping that extends this one.",
        422,
    )
    TWINS_DIFFER = _(
        "VGW322",
        ReasonKind.DENIAL,
        "limit and request annotation differ",
        "To be translated, the two annotations must agree.",
        "Write the same value to both.",
        422,
    )
    AMBIGUOUS_NAME = _(
        "VGW323",
        ReasonKind.DENIAL,
        "name of two vendors",
        "Patterns of two vendors match this name.",
        "Narrow a pattern under `variables` of one mapping, or make one vendor `inactive`.",
        422,
    )
    CLAIM_BESIDE_REQUEST = _(
        "VGW324",
        ReasonKind.DENIAL,
        "device class beside a GPU request",
        "A container requests a GPU through a vendor's keys and, as an extended resource, devices of a DeviceClass: it would "
        "get two.",
        "Keep one. A class of other hardware belongs into the setting `otherDeviceClasses`.",
        422,
    )
    UNREPORTED = _(
        "VGW325",
        ReasonKind.DENIAL,
        "resource that no node reports",
        "The device plugin of the system does not report this resource, so the pod would stay Pending.",
        "Write what the message names, or, where nodes report it, set the key's `unreported: null` in the mapping.",
        422,
    )
    UNDONE = _(
        "VGW326",
        ReasonKind.DENIAL,
        "changed after the webhook",
        "The pod as it would be stored is not what this webhook wrote: another one, called later, undid a change or added a "
        "request.",
        "Have that webhook called before `00-vgpu-webhook`, or exclude the pod from it. `validation` in the settings switches "
        "the check off.",
        403,
    )
    OWNED_CHANGED = _(
        "VGW613",
        ReasonKind.DENIAL,
        "scheduler's own mark changed",
        "An update changes a label or annotation that only the scheduler may write.",
        "Leave it. If a scheduler does so, list its user under `ownedBy` of the mapping.",
        403,
    )
    INVALID_DOCUMENT = _(
        "VGW327",
        ReasonKind.DENIAL,
        "invalid document",
        "A ConfigMap with a mapping or the settings is invalid in itself.",
        "Correct what the message names, with its line. `vgpu-webhook check FILE` prints all of it.",
        422,
    )
    UNKNOWN_TARGET = _(
        "VGW401",
        ReasonKind.DENIAL,
        "unknown target",
        "The annotation `vgpu-webhook.io/target` names no active vendor.",
        "Write one that the message lists.",
        422,
    )
    NO_EQUIVALENT = _(
        "VGW402",
        ReasonKind.DENIAL,
        "no equivalent",
        "The target cannot express the request.",
        "Change the request as the message says, or choose another target.",
        422,
    )
    READ_BACK_DIFFERS = _(
        "VGW403",
        ReasonKind.DENIAL,
        "would be read differently",
        "The keys that would be written do not read back as the request.",
        "Change the request, or choose another target.",
        422,
    )
    LABEL_CONFLICT = _(
        "VGW404",
        ReasonKind.DENIAL,
        "conflicting label",
        "The target needs a label or annotation that the pod has with another value.",
        "Remove it, or write what the message names.",
        422,
    )
    INIT_NOT_SERVED = _(
        "VGW405",
        ReasonKind.DENIAL,
        "init containers not served",
        "The target, or the vendor itself, does not serve init containers.",
        "Move the request to a container, or choose another target.",
        422,
    )
    NOT_A_TARGET = _(
        "VGW406",
        ReasonKind.DENIAL,
        "not a target",
        "The webhook reads the vendor's keys but does not write them.",
        "Choose another target.",
        422,
    )
    CONTAINERS_DISAGREE = _(
        "VGW407",
        ReasonKind.DENIAL,
        "containers disagree",
        "The containers need different values, but the pod has only one.",
        "Request the same in each, or split the pod.",
        422,
    )
    SCHEDULER_KEPT = _(
        "VGW501",
        ReasonKind.WARNING,
        "scheduler kept",
        "The pod's scheduler was kept, although the vendor needs another.",
        "Remove `schedulerName`.",
    )
    SCHEDULER_CONFLICT = _(
        "VGW502",
        ReasonKind.DENIAL,
        "scheduler conflict",
        "The mapping permits only the vendor's scheduler.",
        "Remove `schedulerName`.",
        403,
    )
    SCHEDULERS_DIFFER = _(
        "VGW503",
        ReasonKind.DENIAL,
        "two schedulers needed",
        "Containers of the pod need different schedulers.",
        "Use the keys of one vendor, or split the pod.",
        422,
    )
    NODE_NAME = _(
        "VGW504",
        ReasonKind.DENIAL,
        "node named",
        "`spec.nodeName` bypasses the scheduler, so no share can be allocated.",
        "Use a node selector or affinity.",
        403,
    )
    NODE_NAME_TO_AFFINITY = _(
        "VGW505",
        ReasonKind.WARNING,
        "node name became affinity",
        "`spec.nodeName` became a required node affinity.",
        "Use a node selector or affinity.",
    )
    PRIVILEGED = _(
        "VGW506",
        ReasonKind.DENIAL,
        "privileged container",
        "A privileged container sees every device.",
        "Drop `privileged`, or request whole devices.",
        403,
    )
    PLACEMENT_KEPT = _(
        "VGW507",
        ReasonKind.WARNING,
        "placement kept",
        "The pod sets a field to another value than the mapping; the pod's was kept.",
        "To get the mapping's value, remove the field.",
    )
    SCHEDULER_OVERRIDDEN = _(
        "VGW508",
        ReasonKind.WARNING,
        "scheduler replaced",
        "The mapping replaces the pod's scheduler.",
        "Remove `schedulerName`.",
    )
    SCHEDULER_SET = _(
        "VGW509",
        ReasonKind.WARNING,
        "scheduler set",
        "The pod named no scheduler, or another vendor's; the one that the request needs was set.",
        "To avoid the warning, do what the message says.",
    )
    BELONGINGS_KEPT = _(
        "VGW510",
        ReasonKind.WARNING,
        "names of another system kept",
        "The request was translated, but the pod keeps names that only the previous system knows: of queues, gangs or nodes.",
        "Remove them, or write those of the system that serves the pod now. A node selector, an affinity or a scheduling gate "
        "of the previous one can keep it Pending.",
    )
    IMAGE_PATH_ASSUMED = _(
        "VGW601",
        ReasonKind.NOTE,
        "image's library path assumed",
        "`LD_LIBRARY_PATH` was set to usual directories: a webhook cannot see the image's own.",
        "Set `LD_LIBRARY_PATH` in the pod if the image needs others.",
    )
    LEFT_TO_PLUGIN = _(
        "VGW602",
        ReasonKind.NOTE,
        "left to the device plugin",
        "No shim was injected; the device plugin has to enforce the limit.",
        "To use the shim, request memory as a size, or permit the delivery that the message names.",
    )
    LIMIT_NOT_MET = _(
        "VGW603",
        ReasonKind.DENIAL,
        "limit cannot be written",
        "The shim's limit depends on the device, which is not yet known.",
        "Request memory as a size.",
        403,
    )
    COLLISION = _(
        "VGW604",
        ReasonKind.DENIAL,
        "collision with the shim",
        "The pod has a volume, mount or variable of the shim's name with other content.",
        "Rename or remove it.",
        422,
    )
    GUARDED = _(
        "VGW605",
        ReasonKind.DENIAL,
        "guarded variable",
        "A variable, annotation, label or mount lifts the share's limit, or shows other devices.",
        "Remove it; mount a volume elsewhere.",
        403,
    )
    GUARD_STRIPPED = _(
        "VGW606",
        ReasonKind.WARNING,
        "guarded variable removed",
        "A variable, annotation, label or mount that lifts the share's limit, or shows other devices, was removed.",
        "Remove it.",
    )
    OWNED_STRIPPED = _(
        "VGW607",
        ReasonKind.WARNING,
        "scheduler's own mark removed",
        "Only the scheduler may write this label or annotation; it was removed.",
        "Remove it from the manifest.",
    )
    PRELOAD_BY_REFERENCE = _(
        "VGW608",
        ReasonKind.DENIAL,
        "preload by reference",
        "`LD_PRELOAD` is set by `valueFrom`, so the shim cannot be put first.",
        "Write its value, or remove it.",
        403,
    )
    PATH_CLEANED = _(
        "VGW609",
        ReasonKind.WARNING,
        "search path cleaned",
        "Empty elements of `LD_LIBRARY_PATH`, which mean the current directory, were removed.",
        "Write the path without them.",
    )
    DEVICES_HIDDEN = _(
        "VGW610",
        ReasonKind.WARNING,
        "devices hidden",
        "A variable of the pod hides the devices that the container requests; it is removed if the request is translated.",
        "Remove it. If another webhook writes it, exclude the pod from that webhook.",
    )
    DELIVERY_UNUSED = _(
        "VGW611",
        ReasonKind.WARNING,
        "delivery not used",
        "The delivery in the namespace's annotation `vgpu-webhook.io/shim` is not possible; another one, or none, was used.",
        "Request memory as a size, change the mapping's deliveries, or remove the annotation.",
    )
    HIDDEN = _(
        "VGW614",
        ReasonKind.NOTE,
        "devices hidden by setting",
        "The container requests no device, and the setting `hideDevices` hides those of the node.",
        "If it should see devices, request one.",
    )
    GUARD_KEPT = _(
        "VGW612",
        ReasonKind.WARNING,
        "guarded variable kept",
        "A variable, annotation, label or mount may lift the share's limit, or show other devices; it is only reported.",
        "Remove it. To deny it, annotate the namespace `vgpu-webhook.io/guard: deny`.",
    )
    DELIVERY_PASSED_OVER = _(
        "VGW615",
        ReasonKind.NOTE,
        "delivery passed over",
        "The shim came by another delivery than the mapping prefers: the namespace or the cluster does not permit that one.",
        "Nothing has to be done. To use it, permit what the message names.",
    )
    INTERNAL_ERROR = _(
        "VGW901",
        ReasonKind.BUG,
        "internal error",
        "The webhook returned no decision; the API server's `failurePolicy` applies.",
        "Report it with the correlation ID from the log.",
    )

    def __init__(self, explanation: Explanation) -> None:
        # Plain attributes: an enumeration computes `value` on each access, and every review reads these.
        self.code = explanation.code
        """``VGW`` and three digits."""
        self.slug = self.name.lower()
        """The name as a metric label: ``default_filled``."""
        self.note = explanation.kind is ReasonKind.NOTE
        """Whether it is only recorded: in the status, the audit log and metrics."""


BY_CODE = {reason.code: reason for reason in Reason}
