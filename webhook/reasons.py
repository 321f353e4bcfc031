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
        "Nothing. If it should request one, see `vgpu-webhook vendors` for the keys.",
    )
    NOT_A_POD_CREATION = _(
        "VGW002",
        ReasonKind.OUTCOME,
        "not a pod creation",
        "The webhook handles only CREATE of a v1 Pod, without a subresource.",
        "Nothing.",
    )
    NOT_OPTED_IN = _(
        "VGW003",
        ReasonKind.OUTCOME,
        "namespace not opted in",
        "The namespace does not have the label `vgpu-webhook.io/inject: enabled`.",
        "Label the namespace if its pods are to be handled.",
    )
    OPTED_OUT = _(
        "VGW004",
        ReasonKind.OUTCOME,
        "pod opted out",
        "The pod has the label `vgpu-webhook.io/inject: disabled`, and its namespace permits that.",
        "Nothing. To forbid it, label the namespace `vgpu-webhook.io/opt-out: forbidden`.",
    )
    MIRROR_POD = _(
        "VGW005",
        ReasonKind.OUTCOME,
        "mirror pod",
        "The pod mirrors a static pod that the kubelet already runs; changing it has no effect on that pod.",
        "Nothing.",
    )
    WINDOWS_POD = _(
        "VGW006",
        ReasonKind.OUTCOME,
        "Windows pod",
        "Neither the shims nor the loader's variables exist on Windows.",
        "Nothing.",
    )
    NEVER_TOUCHED = _(
        "VGW007",
        ReasonKind.OUTCOME,
        "namespace excluded",
        "The namespace belongs to the cluster itself or is listed under `neverTouched`.",
        "Nothing.",
    )
    ALREADY_RIGHT = _(
        "VGW008",
        ReasonKind.OUTCOME,
        "already right",
        "The pod requests a GPU and already has everything that it needs.",
        "Nothing.",
    )
    CHANGED = _(
        "VGW009",
        ReasonKind.OUTCOME,
        "changed",
        "The pod was changed; its annotation `vgpu-webhook.io/status` describes how.",
        "Nothing.",
    )
    WOULD_CHANGE = _(
        "VGW010",
        ReasonKind.OUTCOME,
        "would be changed",
        "The namespace's mode or roll-out only reports what would be changed: the pod is stored as it was written.",
        "Set the mode to `enforce`, or raise the roll-out, to have pods changed.",
    )
    RESOURCE_CLAIMS = _(
        "VGW011",
        ReasonKind.OUTCOME,
        "resource claims only",
        "The pod requests devices only through resource claims or device classes of Dynamic Resource Allocation, which "
        "the webhook leaves unchanged.",
        "Nothing: the scheduler and the DRA driver allocate its devices.",
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
        "The request left out a dimension, and a default of the namespace or of the mapping was written.",
        "Set the key that the message names to choose another value.",
    )
    NAMESPACE_DEFAULT_INVALID = _(
        "VGW102",
        ReasonKind.WARNING,
        "namespace default invalid",
        "An annotation `vgpu-webhook.io/default-*` of the namespace has an invalid value and was ignored.",
        "Write a size with its suffix (`4Gi`) or `all` for memory, a percentage from 0 to 100 for cores, a count for devices.",
    )
    DEFAULT_NOT_APPLIED = _(
        "VGW103",
        ReasonKind.WARNING,
        "default not applied",
        "A default of the namespace or of the mapping has no key in this container's request, or would change what the "
        "container specifies; it was ignored for this container.",
        "Specify the dimension in the container, or change the default.",
    )
    PROMOTED_TO_LIMITS = _(
        "VGW104",
        ReasonKind.WARNING,
        "copied to limits",
        "A GPU resource is in `requests` only, which the API server denies; it was copied to `limits`.",
        "Write GPU resources under `limits`.",
    )
    KEY_IGNORED = _(
        "VGW105",
        ReasonKind.WARNING,
        "key ignored",
        "The vendor ignores this key beside the others; it has no effect.",
        "Remove it, or see the message for what it conflicts with.",
    )
    MISPLACED_KEY = _(
        "VGW106",
        ReasonKind.WARNING,
        "key in the wrong place",
        "A request key is where the vendor does not read it, for instance in an annotation.",
        "Move it to the place that the message names.",
    )
    UNKNOWN_KEY = _(
        "VGW107",
        ReasonKind.WARNING,
        "unknown key",
        "A resource name is unknown, and resembles a short key or belongs to the domain of the keys beside it.",
        "Correct the name if that key was meant.",
    )
    CORRECTED = _(
        "VGW108",
        ReasonKind.WARNING,
        "value corrected",
        "The vendor would raise this number to the next one that it accepts; that number was written.",
        "Write the number that the message names.",
    )
    ROUNDED_DOWN = _(
        "VGW109",
        ReasonKind.WARNING,
        "value rounded down",
        "The vendor rounds this number down; the request is for the lower number.",
        "Write a number that the vendor need not round.",
    )
    NAMESPACE_SETTING_INVALID = _(
        "VGW110",
        ReasonKind.WARNING,
        "namespace setting invalid",
        "A label or annotation `vgpu-webhook.io/*` of the namespace has an unknown value. An unknown mode counts as "
        "`warn`; anything else is ignored.",
        "Write one of the values that the message lists.",
    )
    OUTSIDE_ROLLOUT = _(
        "VGW111",
        ReasonKind.WARNING,
        "outside the roll-out",
        "The namespace enforces for a percentage of its workloads, and this one is not among them: nothing was changed.",
        "Raise the label `vgpu-webhook.io/rollout` of the namespace, or remove it.",
    )
    CLAIM_LEFT_UNCHANGED = _(
        "VGW112",
        ReasonKind.WARNING,
        "resource claim left unchanged",
        "Beside its GPU request, the pod has resource claims of Dynamic Resource Allocation; the webhook does not count "
        "what they allocate. A pod names the template of a claim, not its device class, so a claim may be for a GPU or not.",
        "Nothing, if the claim is for other devices than the request; otherwise keep one of the two.",
    )
    OWN_KEY_UNUSED = _(
        "VGW113",
        ReasonKind.WARNING,
        "webhook key without effect",
        "A label or annotation `vgpu-webhook.io/*` of the pod or its namespace is misspelled, in the wrong place, or has an "
        "unknown value: nothing reads it.",
        "Write what the message suggests, or remove it.",
    )
    LIMIT_NOT_KEPT = _(
        "VGW114",
        ReasonKind.WARNING,
        "limit not enforced",
        "In this combination of keys the vendor reserves what is requested, but does not limit the container to it.",
        "Write what the message names, if the container has to be limited.",
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
    ROUNDED = _(
        "VGW201",
        ReasonKind.WARNING,
        "rounded up",
        "The target cannot express the exact amount; the next larger one was written.",
        "Request an amount that the target can express.",
    )
    OTHER_FAMILY = _(
        "VGW202",
        ReasonKind.WARNING,
        "other hardware family",
        "The pod was translated, by explicit configuration, to another family of hardware.",
        "Make sure that the image is built for that hardware.",
    )
    KEY_NOT_CARRIED = _(
        "VGW203",
        ReasonKind.WARNING,
        "key not carried over",
        "The key has no meaning for the target and was removed.",
        "Remove it, or write the target's own key.",
    )
    HINT_NOT_CARRIED = _(
        "VGW204",
        ReasonKind.WARNING,
        "hint not carried over",
        "The annotation means something to the source vendor's scheduler only; it was left unchanged and has no effect.",
        "Write the target's own hint.",
    )
    DIMENSION_DROPPED = _(
        "VGW205",
        ReasonKind.WARNING,
        "dimension dropped",
        "The target cannot limit this dimension, and its mapping permits dropping it.",
        "Choose another target if the limit matters.",
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
        "The request did not limit this dimension; the target does.",
        "Choose another target if that matters.",
    )
    VARIABLE_ADDED = _(
        "VGW208",
        ReasonKind.WARNING,
        "variable added",
        "The source's device plugin sets this variable and the target's does not; its value was written to the pod.",
        "Nothing. To use another value, set the variable in the pod.",
    )
    VARIABLE_MISSING = _(
        "VGW209",
        ReasonKind.WARNING,
        "variables missing",
        "The source's device plugin sets these variables, the target's does not, and their values are known only on the node.",
        "Set them in the pod if the program needs them.",
    )
    DEVICE_MEMORY_ASSUMED = _(
        "VGW210",
        ReasonKind.WARNING,
        "device memory assumed",
        "A percentage of memory became a size, or a size a percentage: the pod selects nodes by their device, and the "
        "setting `cards` gives its memory.",
        "Nothing, if the setting `cards` is right for the pod's nodes.",
    )
    KEY_RETIRED = _(
        "VGW211",
        ReasonKind.WARNING,
        "retired key written",
        "Current versions of the target's system no longer read this key; the message names the last one that does.",
        "Use it only where that version runs, or choose another target.",
    )
    REFERENCES_DROPPED = _(
        "VGW212",
        ReasonKind.WARNING,
        "references to the source's ConfigMaps removed",
        "The source's own webhook made the pod refer to ConfigMaps that only the source's scheduler creates.",
        "Nothing.",
    )
    BAD_QUANTITY = _(
        "VGW301",
        ReasonKind.DENIAL,
        "invalid quantity",
        "The value is not a Kubernetes quantity, or is too long or too large to be one.",
        "Write a plain whole number.",
        400,
    )
    NOT_WHOLE = _(
        "VGW302",
        ReasonKind.DENIAL,
        "not a whole number",
        "The value is a fraction or negative in the vendor's unit.",
        "Write the number that the message names, in the unit of the key.",
        422,
    )
    TOO_LARGE = _(
        "VGW303",
        ReasonKind.DENIAL,
        "more than any device has",
        "The value is larger than any device, or counts more devices than any node has. Usually a unit was written "
        "although the key has its own.",
        "Write the number that the message names.",
        422,
    )
    NOT_LEGAL = _(
        "VGW304",
        ReasonKind.DENIAL,
        "value not allowed",
        "The vendor accepts certain numbers only.",
        "Write one of those that the message names.",
        422,
    )
    NOT_DIVISIBLE = _(
        "VGW305",
        ReasonKind.DENIAL,
        "not divisible",
        "The number is a total over the devices and is not divisible by their count, which the vendor denies.",
        "Write one of the numbers that the message names.",
        422,
    )
    LIMIT_DIFFERS = _(
        "VGW306",
        ReasonKind.DENIAL,
        "limit and request differ",
        "Extended resources cannot be overcommitted: limits and requests must agree.",
        "Write the same value to both, or leave `requests` out.",
        422,
    )
    ZERO_DEVICES = _(
        "VGW307",
        ReasonKind.DENIAL,
        "no device, but a share of one",
        "The count is 0 beside memory or cores: the request contradicts itself.",
        "Write a count of 1 or more, or remove the other keys.",
        422,
    )
    UNSUPPORTED_BY_VENDOR = _(
        "VGW308",
        ReasonKind.DENIAL,
        "not supported by the vendor",
        "The vendor's own components would deny or ignore this combination of keys.",
        "Write what the message names.",
        422,
    )
    NO_FORM = _(
        "VGW309",
        ReasonKind.DENIAL,
        "invalid combination of keys",
        "No form of the vendor's mapping matches these keys.",
        "See `vgpu-webhook vendors NAME` for the forms.",
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
        "The count is for one container of the pod, and several containers request devices.",
        "Keep the request of one container, or split the pod.",
        422,
    )
    TWO_VENDORS = _(
        "VGW312",
        ReasonKind.DENIAL,
        "two vendors in one container",
        "A container has keys of two vendors; choosing one would silently drop the other. A vendor's copy of another's "
        "keys is accepted if both mean the same for the same container.",
        "Keep the keys of one vendor.",
        422,
    )
    NEAR_MISS = _(
        "VGW313",
        ReasonKind.DENIAL,
        "misspelled key",
        "A resource name is nearly a known key; it would be ignored, and the pod would stay Pending or run without a limit.",
        "Write the name that the message suggests.",
        422,
    )
    VENDOR_INACTIVE = _(
        "VGW314",
        ReasonKind.DENIAL,
        "vendor inactive",
        "The key belongs to an inactive vendor, because another vendor owns a name that both use.",
        "Change the setting `owners`, or write the active vendor's keys.",
        422,
    )
    UNIT_NOT_CONFIGURED = _(
        "VGW315",
        ReasonKind.DENIAL,
        "unit not configured",
        "The vendor's sources contradict each other on the unit of this key, so the mapping does not assume one.",
        "Set the `unit` in a mapping that extends this one.",
        422,
    )
    SPELLINGS_DIFFER = _(
        "VGW316",
        ReasonKind.DENIAL,
        "conflicting keys in one container",
        "The keys of one container name different models or chips, or one key is there in two spellings.",
        "Use the same model or chip in all of them, and one spelling of each key.",
        422,
    )
    NO_SUCH_CONTAINER = _(
        "VGW317",
        ReasonKind.DENIAL,
        "no such container",
        "An annotation names a container that the pod does not have, or does not name the one that requests the GPU.",
        "Write the name of a container into the key or value that the message names.",
        422,
    )
    TOO_MANY = _(
        "VGW318",
        ReasonKind.DENIAL,
        "too many",
        "The pod exceeds a limit of the webhook: containers, containers that request, keys, their length, that of a variable, "
        "entries of a list, or entries that have to be removed.",
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
        "The vendor serves one requesting container of a pod, or several only if they request the same.",
        "Keep the request of one container, or request in each what the message names.",
        422,
    )
    SIZE_UNKNOWN = _(
        "VGW321",
        ReasonKind.DENIAL,
        "size not known",
        "The name is known, but not how much memory and cores it has on the cluster's devices.",
        "Configure it in a mapping that extends this one: add a row for the name, or name the model of the devices.",
        422,
    )
    TWINS_DIFFER = _(
        "VGW322",
        ReasonKind.DENIAL,
        "limit and request annotation differ",
        "The vendor's pair of annotations must agree where the pod is translated: other vendors do not support two amounts.",
        "Write the same value to both.",
        422,
    )
    AMBIGUOUS_NAME = _(
        "VGW323",
        ReasonKind.DENIAL,
        "name of two vendors",
        "Patterns of two vendors match this name.",
        "Narrow a pattern under `variables` of one mapping, or make one of the vendors `inactive`.",
        422,
    )
    CLAIM_BESIDE_REQUEST = _(
        "VGW324",
        ReasonKind.DENIAL,
        "device class beside a GPU request",
        "A container requests a GPU through a vendor's keys and, as an extended resource, devices of a DeviceClass, too: two "
        "systems would each allocate a GPU.",
        "Keep one of the two, or put them into different containers. A class of other hardware (network devices, say) "
        "belongs into the setting `otherDeviceClasses`.",
        422,
    )
    UNKNOWN_TARGET = _(
        "VGW401",
        ReasonKind.DENIAL,
        "unknown target",
        "The annotation `vgpu-webhook.io/target` does not name an active vendor.",
        "Write one of those that the message lists.",
        422,
    )
    NO_EQUIVALENT = _(
        "VGW402",
        ReasonKind.DENIAL,
        "no equivalent",
        "The target cannot express the request faithfully; requests are denied rather than approximated.",
        "Change the request as the message describes, or choose another target.",
        422,
    )
    READ_BACK_DIFFERS = _(
        "VGW403",
        ReasonKind.DENIAL,
        "would be read differently",
        "The keys that would be written do not read back as the request.",
        "Change the request as the message describes, or choose another target.",
        422,
    )
    LABEL_CONFLICT = _(
        "VGW404",
        ReasonKind.DENIAL,
        "conflicting label",
        "The target needs a label or annotation that the pod already has with another value.",
        "Remove it from the pod, or set it to the value that the message names.",
        422,
    )
    INIT_NOT_SERVED = _(
        "VGW405",
        ReasonKind.DENIAL,
        "init containers not served",
        "The target, or the vendor itself, does not serve init containers; the share would be lost.",
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
        "The pod has one value for all its containers, and they need different ones.",
        "Request the same in each, or split the pod.",
        422,
    )
    SCHEDULER_KEPT = _(
        "VGW501",
        ReasonKind.WARNING,
        "scheduler kept",
        "The pod names a scheduler, which was kept although the vendor needs another.",
        "Remove `schedulerName`, or write the one that the message names.",
    )
    SCHEDULER_CONFLICT = _(
        "VGW502",
        ReasonKind.DENIAL,
        "scheduler conflict",
        "The pod names a scheduler other than the vendor's, and the mapping forbids that.",
        "Remove `schedulerName`, or write the one that the message names.",
        403,
    )
    SCHEDULERS_DIFFER = _(
        "VGW503",
        ReasonKind.DENIAL,
        "two schedulers needed",
        "Containers of one pod need different schedulers.",
        "Use the keys of one vendor, or split the pod.",
        422,
    )
    NODE_NAME = _(
        "VGW504",
        ReasonKind.DENIAL,
        "node named",
        "`spec.nodeName` bypasses the scheduler, so no share can be allocated.",
        "Use a node selector or affinity instead.",
        403,
    )
    NODE_NAME_TO_AFFINITY = _(
        "VGW505",
        ReasonKind.WARNING,
        "node name became affinity",
        "`spec.nodeName` was turned into a required node affinity, so that the scheduler allocates the share.",
        "Use a node selector or affinity yourself.",
    )
    PRIVILEGED = _(
        "VGW506",
        ReasonKind.DENIAL,
        "privileged container",
        "A privileged container sees every device: a share cannot be enforced.",
        "Drop `privileged`, or request whole devices.",
        403,
    )
    PLACEMENT_KEPT = _(
        "VGW507",
        ReasonKind.WARNING,
        "placement kept",
        "The pod sets a field that the mapping sets, too, to another value; the pod's value was kept.",
        "Remove it to get the mapping's value.",
    )
    SCHEDULER_OVERRIDDEN = _(
        "VGW508",
        ReasonKind.WARNING,
        "scheduler replaced",
        "The pod named another scheduler; the mapping replaces it.",
        "Remove `schedulerName`.",
    )
    SCHEDULER_SET = _(
        "VGW509",
        ReasonKind.WARNING,
        "scheduler set",
        "The pod named no scheduler, or that of another vendor; it was set to the one that the request needs.",
        "Nothing. To avoid the warning, do what the message says.",
    )
    IMAGE_PATH_ASSUMED = _(
        "VGW601",
        ReasonKind.NOTE,
        "image's library path assumed",
        "A webhook cannot see the image's own `LD_LIBRARY_PATH`, which is replaced; usual directories were added.",
        "Set `LD_LIBRARY_PATH` in the pod if the image needs others.",
    )
    LEFT_TO_PLUGIN = _(
        "VGW602",
        ReasonKind.NOTE,
        "left to the device plugin",
        "No shim was injected; the device plugin enforces the limit.",
        "Nothing, if the device plugin enforces limits. To use the shim, request memory as a size, or permit the delivery "
        "that the message names.",
    )
    LIMIT_NOT_MET = _(
        "VGW603",
        ReasonKind.DENIAL,
        "limit cannot be written",
        "The shim's limit cannot be written before the device is known, and the mapping denies such a share.",
        "Request memory as a size.",
        403,
    )
    COLLISION = _(
        "VGW604",
        ReasonKind.DENIAL,
        "collision with the shim",
        "The pod already has a volume, mount or variable of the shim's name with other content.",
        "Rename or remove the pod's own.",
        422,
    )
    GUARDED = _(
        "VGW605",
        ReasonKind.DENIAL,
        "guarded variable",
        "A variable, annotation, label or mount of the pod lifts the limit of the share, or shows other devices.",
        "Remove it; mount a volume elsewhere.",
        403,
    )
    GUARD_STRIPPED = _(
        "VGW606",
        ReasonKind.WARNING,
        "guarded variable removed",
        "A variable, annotation, label or mount lifted the limit of the share, or showed other devices; it was removed, as "
        "the mapping specifies.",
        "Remove it.",
    )
    OWNED_STRIPPED = _(
        "VGW607",
        ReasonKind.WARNING,
        "scheduler's own mark removed",
        "A label or annotation that only the scheduler may write was removed: a copied one breaks placement, a forged "
        "one takes devices.",
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
        "Empty elements of `LD_LIBRARY_PATH` were removed: the loader reads them as the current directory.",
        "Write the path without empty elements.",
    )
    DEVICES_HIDDEN = _(
        "VGW610",
        ReasonKind.WARNING,
        "devices hidden",
        "A variable of the pod overrides the device plugin's and hides the devices that the container requests. It is "
        "removed if the request is translated, and kept otherwise.",
        "Remove it. If another webhook writes it, exclude the pod from that webhook.",
    )
    DELIVERY_UNUSED = _(
        "VGW611",
        ReasonKind.WARNING,
        "delivery not used",
        "The namespace's annotation `vgpu-webhook.io/shim: hostPath` has no effect on the pod: no shim can be injected, and "
        "the device plugin enforces the limit.",
        "Request memory as a size, change the mapping's deliveries, or remove the annotation.",
    )
    GUARD_KEPT = _(
        "VGW612",
        ReasonKind.WARNING,
        "guarded variable kept",
        "A variable, annotation, label or mount can lift the limit of the share, or show other devices, with some "
        "versions of what reads it; the mapping only reports it.",
        "Remove it. To deny it, set the namespace's annotation `vgpu-webhook.io/guard: deny`.",
    )
    INTERNAL_ERROR = _(
        "VGW901",
        ReasonKind.BUG,
        "internal error",
        "A bug of the webhook: it returned no decision, and the API server's `failurePolicy` applies.",
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
