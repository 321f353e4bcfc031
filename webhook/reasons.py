"""Every reason for what was done to a pod, or refused: one enumeration for messages, status, audit, logs and metrics.

The codes are stable: a number is never given a second meaning. ``docs/codes.md`` is generated from this file.
"""

import enum
from dataclasses import dataclass


class ReasonKind(enum.Enum):
    """What a reason does to the answer."""

    OUTCOME = "outcome"
    WARNING = "warning"
    DENIAL = "denial"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What stands behind a code.

    Attributes:
        code: ``VGW`` and three digits.
        kind: what it does to the answer.
        title: a few keys, for tables and headings.
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
    """By number: 0xx outcomes, 1xx reading, 2xx translating, 3xx and 4xx refusals of both, 5xx placing, 6xx shim."""

    NO_GPU_WORDS = _(
        "VGW001",
        ReasonKind.OUTCOME,
        "no GPU keys",
        "The pod asks for no GPU in the keys of any vendor in force.",
        "Nothing. If it should ask for one, see `vgpu-webhook vendors` for the keys.",
    )
    NOT_A_POD_CREATION = _(
        "VGW002",
        ReasonKind.OUTCOME,
        "not the creation of a pod",
        "Only CREATE of a v1 Pod without a subresource is looked at.",
        "Nothing.",
    )
    NOT_OPTED_IN = _(
        "VGW003",
        ReasonKind.OUTCOME,
        "namespace not opted in",
        "The namespace does not carry the label `vgpu-webhook.io/inject: enabled`.",
        "Label the namespace if its pods shall be treated.",
    )
    OPTED_OUT = _(
        "VGW004",
        ReasonKind.OUTCOME,
        "pod opted out",
        "The pod carries the label `vgpu-webhook.io/inject: disabled` and its namespace permits that.",
        "Nothing; to forbid it, label the namespace `vgpu-webhook.io/opt-out: forbidden`.",
    )
    MIRROR_POD = _(
        "VGW005",
        ReasonKind.OUTCOME,
        "mirror pod",
        "The pod stands for a static pod that the kubelet already runs; changing it would anger the kubelet.",
        "Nothing.",
    )
    WINDOWS_POD = _(
        "VGW006",
        ReasonKind.OUTCOME,
        "Windows pod",
        "Neither the shims nor the loader settings exist on Windows.",
        "Nothing.",
    )
    NEVER_TOUCHED = _(
        "VGW007",
        ReasonKind.OUTCOME,
        "namespace never touched",
        "The namespace is the cluster's own or listed under `neverTouched`.",
        "Nothing.",
    )
    ALREADY_RIGHT = _(
        "VGW008",
        ReasonKind.OUTCOME,
        "already right",
        "The pod asks for a GPU and already says everything that it needs.",
        "Nothing.",
    )
    CHANGED = _("VGW009", ReasonKind.OUTCOME, "changed", "The pod was changed; its status says how.", "Nothing.")
    WOULD_CHANGE = _(
        "VGW010",
        ReasonKind.OUTCOME,
        "would be changed",
        "The namespace's mode, or its roll-out, has the pod only looked at: it is stored as it was written.",
        "Set the mode to `enforce`, or raise the roll-out, to have pods changed.",
    )
    RESOURCE_CLAIMS = _(
        "VGW011",
        ReasonKind.OUTCOME,
        "resource claims only",
        "The pod requests devices by resource claims or device classes of Dynamic Resource Allocation, and nothing in the "
        "keys of a mapping: it was left as it is.",
        "Nothing: its scheduler and driver serve it.",
    )
    DEFAULT_FILLED = _(
        "VGW101",
        ReasonKind.WARNING,
        "default filled in",
        "The request left out a dimension and a default (of the namespace or of the mapping) was written.",
        "Write the dimension yourself to choose another value.",
    )
    NAMESPACE_DEFAULT_UNREADABLE = _(
        "VGW102",
        ReasonKind.WARNING,
        "namespace default unreadable",
        "An annotation `vgpu-webhook.io/default-*` of the namespace cannot be read; it was passed over.",
        "Write a size with its suffix (`4Gi`) or `all` for memory, a percentage from 0 to 100 for cores, a count for devices.",
    )
    DEFAULT_NOT_APPLIED = _(
        "VGW103",
        ReasonKind.WARNING,
        "default not applied",
        "A default (of the namespace or of the mapping) has no key there, or would have changed what the container "
        "specifies; it was passed over for this container.",
        "Specify the dimension in the container, or change the default.",
    )
    PROMOTED_TO_LIMITS = _(
        "VGW104",
        ReasonKind.WARNING,
        "promoted to limits",
        "A GPU resource stood in `requests` only, which the API server refuses; it was written to `limits` too.",
        "Write GPU resources under `limits`.",
    )
    WORD_IGNORED = _(
        "VGW105",
        ReasonKind.WARNING,
        "word ignored",
        "The vendor ignores this key beside the others; it has no effect.",
        "Leave it out, or see the message for what would make it count.",
    )
    MISPLACED_WORD = _(
        "VGW106",
        ReasonKind.WARNING,
        "word in the wrong place",
        "A request key stands where the vendor does not read it, for instance as an annotation.",
        "Move it to the place that the message names.",
    )
    UNKNOWN_WORD = _(
        "VGW107",
        ReasonKind.WARNING,
        "unknown key",
        "A resource name resembles a short known key, but is not known.",
        "Correct the name if it was meant to be that key.",
    )
    CORRECTED = _(
        "VGW108",
        ReasonKind.WARNING,
        "value corrected",
        "The vendor would raise this number to the next legal one; that number was written.",
        "Write the number that the message names.",
    )
    ROUNDED_DOWN = _(
        "VGW109",
        ReasonKind.WARNING,
        "value rounded down",
        "The vendor rounds this number down; what it gives is what was taken as asked.",
        "Write a number that divides.",
    )
    NAMESPACE_SETTING_UNREADABLE = _(
        "VGW110",
        ReasonKind.WARNING,
        "namespace setting unreadable",
        "A label or annotation `vgpu-webhook.io/*` of the namespace has a value that is not known; it was passed over, "
        "a mode treated as `warn`.",
        "Correct the value; the message lists the known ones.",
    )
    OUTSIDE_ROLLOUT = _(
        "VGW111",
        ReasonKind.WARNING,
        "outside the roll-out",
        "The namespace enforces for a percentage of its workloads and this one is not among them: nothing was changed.",
        "Raise the label `vgpu-webhook.io/rollout`, or remove it.",
    )
    CLAIM_LEFT_ALONE = _(
        "VGW112",
        ReasonKind.WARNING,
        "resource claim left as it is",
        "Beside its GPU request the pod has resource claims of Dynamic Resource Allocation; what they hold is not counted.",
        "Nothing, if the claim is for other devices than the request.",
    )
    ROUNDED = _(
        "VGW201",
        ReasonKind.WARNING,
        "rounded up",
        "The target cannot express the exact amount; the next larger one was written.",
        "Ask for an amount that the target can express.",
    )
    OTHER_FAMILY = _(
        "VGW202",
        ReasonKind.WARNING,
        "other hardware family",
        "The pod was translated, on explicit order, to another family of hardware.",
        "Make sure that the image is built for that hardware.",
    )
    WORD_NOT_CARRIED = _(
        "VGW203",
        ReasonKind.WARNING,
        "word not carried over",
        "The key has no meaning for the target and was removed.",
        "Leave it out, or write the target's own.",
    )
    HINT_NOT_CARRIED = _(
        "VGW204",
        ReasonKind.WARNING,
        "hint not carried over",
        "The annotation means something to the source vendor's scheduler only; it was left and has no effect.",
        "Write the target's own hint.",
    )
    DIMENSION_DROPPED = _(
        "VGW205",
        ReasonKind.WARNING,
        "dimension dropped",
        "The target cannot carry this dimension and its mapping says that it may be dropped.",
        "Choose another target if the limit matters.",
    )
    ONE_CARD_LOST = _(
        "VGW206",
        ReasonKind.WARNING,
        "one device for all is lost",
        "The source puts all containers of the pod on one device; the target promises that to none.",
        "Ask in one container only, or keep the source's keys.",
    )
    LIMIT_ADDED = _(
        "VGW207",
        ReasonKind.WARNING,
        "a limit was added",
        "The request had no limit of cores; the target's slice has one.",
        "Choose another target if that matters.",
    )
    VARIABLE_KEPT = _(
        "VGW208",
        ReasonKind.WARNING,
        "variable kept",
        "The source's device plugin sets this variable and the target's does not; what it would say was written to the pod.",
        "Nothing; a variable of that name in the pod is left as it is.",
    )
    VARIABLE_MISSING = _(
        "VGW209",
        ReasonKind.WARNING,
        "variables missing",
        "The source's device plugin sets these variables, the target's does not, and what they say is known on the node only.",
        "Do without them in the program, or set them in the pod.",
    )
    CARD_ASSUMED = _(
        "VGW210",
        ReasonKind.WARNING,
        "card assumed",
        "A percentage of memory became a size, or a size a percentage: the pod selects nodes by their device, and the setting "
        "`cards` says what memory it has.",
        "Nothing, if the setting `cards` is right for the pod's nodes.",
    )
    WORD_RETIRED = _(
        "VGW211",
        ReasonKind.WARNING,
        "retired key written",
        "A key was written that current versions of the target's system no longer read; the message says since when.",
        "Use it only where the older version runs, or choose another target.",
    )
    REFERENCES_DROPPED = _(
        "VGW212",
        ReasonKind.WARNING,
        "references to the source's ConfigMaps removed",
        "The source's own webhook had the pod refer to ConfigMaps that its scheduler makes; for the target nobody makes them.",
        "Nothing.",
    )
    BAD_QUANTITY = _(
        "VGW301",
        ReasonKind.DENIAL,
        "not a usable quantity",
        "The value is no Kubernetes quantity, or longer or larger than any honest one.",
        "Write a plain whole number.",
        400,
    )
    NOT_WHOLE = _(
        "VGW302",
        ReasonKind.DENIAL,
        "not a whole number",
        "The value comes out as a fraction or below zero in the vendor's unit.",
        "Write a whole number; the message says in which unit.",
        422,
    )
    TOO_LARGE = _(
        "VGW303",
        ReasonKind.DENIAL,
        "more than any device has",
        "The value is larger than any device, or counts more devices than any node has: usually a unit that was written "
        "although the key has its own.",
        "Write the number that the message names.",
        422,
    )
    NOT_LEGAL = _(
        "VGW304",
        ReasonKind.DENIAL,
        "not a legal value",
        "The vendor takes certain numbers only.",
        "Write one of those that the message names.",
        422,
    )
    NOT_DIVISIBLE = _(
        "VGW305",
        ReasonKind.DENIAL,
        "does not divide",
        "The number is a total over the devices and does not divide by their count, which the vendor refuses.",
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
        "no device, but a share of it",
        "The count is 0 beside memory or cores: the request contradicts itself.",
        "Write a count of 1 or more, or remove the other words.",
        422,
    )
    REFUSED_BY_VENDOR = _(
        "VGW308",
        ReasonKind.DENIAL,
        "refused by the vendor",
        "The vendor's own parts would refuse or ignore this combination on the node.",
        "Write what the message says.",
        422,
    )
    NO_FORM = _(
        "VGW309",
        ReasonKind.DENIAL,
        "words that make no request",
        "No form of the vendor's mapping fits these keys.",
        "See `vgpu-webhook vendors NAME` for the forms.",
        422,
    )
    BAD_COUNT = _(
        "VGW310",
        ReasonKind.DENIAL,
        "not a count",
        "A count in a label or annotation must be a plain positive whole number in quotes.",
        'Write for instance `"2"`.',
        422,
    )
    AMBIGUOUS_COUNT = _(
        "VGW311",
        ReasonKind.DENIAL,
        "count for several containers",
        "The count holds for the pod, and more than one container asks: whose it is cannot be known.",
        "Let one container ask, or put the others into pods of their own.",
        422,
    )
    TWO_VENDORS = _(
        "VGW312",
        ReasonKind.DENIAL,
        "two vendors in one container",
        "A container asks in the keys of two vendors; picking one would lose the other silently. Keys that copy those of "
        "another vendor are taken if both mean the same for the same container.",
        "Keep the keys of one vendor.",
        422,
    )
    NEAR_MISS = _(
        "VGW313",
        ReasonKind.DENIAL,
        "misspelt key",
        "A resource name is nearly a known key; it would be ignored and the pod would hang or run without a limit.",
        "Write the name that the message suggests.",
        422,
    )
    WORD_ON_STANDBY = _(
        "VGW314",
        ReasonKind.DENIAL,
        "vendor inactive",
        "The key belongs to a vendor that is not in force, because another one owns a name that both use.",
        "Change the setting `owners`, or write the other vendor's keys.",
        422,
    )
    UNIT_NOT_CONFIGURED = _(
        "VGW315",
        ReasonKind.DENIAL,
        "unit not configured",
        "The vendor's sources contradict each other on the unit of this key; it is not guessed.",
        "Set the `unit` in a mapping that extends this one.",
        422,
    )
    SPELLINGS_DIFFER = _(
        "VGW316",
        ReasonKind.DENIAL,
        "two spellings in one container",
        "The keys of one container name different models or chips, or one key stands there in two spellings.",
        "Use the same model or chip in all of them, and one spelling of each key.",
        422,
    )
    NO_SUCH_CONTAINER = _(
        "VGW317",
        ReasonKind.DENIAL,
        "no such container",
        "An annotation asks for a container that the pod does not have.",
        "Correct the container's name in the key or value.",
        422,
    )
    TOO_MANY = _(
        "VGW318",
        ReasonKind.DENIAL,
        "too many",
        "There is more of something than any honest pod has: containers that ask, GPU keys, characters of one of them, "
        "what has to be removed.",
        "Leave out what the message names, or split the pod.",
        422,
    )
    DIMENSION_MISSING = _(
        "VGW319",
        ReasonKind.DENIAL,
        "dimension missing",
        "The vendor gives a missing dimension no meaning and no default fills it.",
        "Write it.",
        422,
    )
    ONE_CONTAINER_ONLY = _(
        "VGW320",
        ReasonKind.DENIAL,
        "one container only",
        "The vendor serves one asking container in a pod, or several only if they request the same.",
        "Let one container ask, or request what the message names in each.",
        422,
    )
    SIZE_UNKNOWN = _(
        "VGW321",
        ReasonKind.DENIAL,
        "size not known",
        "The name is known, but not what it holds on the cluster's devices.",
        "Say it in a mapping that extends this one: add a row for the name, or name the model of the devices.",
        422,
    )
    TWINS_DIFFER = _(
        "VGW322",
        ReasonKind.DENIAL,
        "limit and request annotation differ",
        "The vendor's pair of annotations must agree where the pod is translated, for nothing else can be honoured elsewhere.",
        "Write the same value to both.",
        422,
    )
    AMBIGUOUS_NAME = _(
        "VGW323",
        ReasonKind.DENIAL,
        "name of two vendors",
        "Patterns of two vendors match this name, so that it is not known whose it is.",
        "Narrow a pattern under `variables` of one mapping, or put one of the vendors on `standby`.",
        422,
    )
    CLAIM_BESIDE_REQUEST = _(
        "VGW324",
        ReasonKind.DENIAL,
        "resource claim beside a GPU request",
        "A container requests a GPU in the keys of a mapping and has a resource claim, too: two systems would each status "
        "for a GPU of their own.",
        "Keep one of the two, or put them into different containers. For claims of other hardware (a network device, say) "
        "set `resourceClaims: warn`.",
        422,
    )
    UNKNOWN_TARGET = _(
        "VGW401",
        ReasonKind.DENIAL,
        "unknown target",
        "The annotation `vgpu-webhook.io/target` names no vendor in force.",
        "Write one of those that the message lists.",
        422,
    )
    NO_EQUIVALENT = _(
        "VGW402",
        ReasonKind.DENIAL,
        "no equivalent",
        "The target cannot express the request faithfully; it is refused, not approximated.",
        "Change the request as the message says, or choose another target.",
        422,
    )
    READ_BACK_DIFFERS = _(
        "VGW403",
        ReasonKind.DENIAL,
        "would be read differently",
        "What would be written does not read back as what was asked.",
        "Change the request as the message says, or choose another target.",
        422,
    )
    LABEL_CONFLICT = _(
        "VGW404",
        ReasonKind.DENIAL,
        "label says otherwise",
        "The target needs a label or annotation that the pod already carries with another value.",
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
        "The vendor's keys can be read, but not written.",
        "Choose another target.",
        422,
    )
    CONTAINERS_DISAGREE = _(
        "VGW407",
        ReasonKind.DENIAL,
        "containers disagree",
        "The target carries a value once for the whole pod, and its containers need different ones.",
        "Ask for the same in each, or split the pod.",
        422,
    )
    SCHEDULER_KEPT = _(
        "VGW501",
        ReasonKind.WARNING,
        "scheduler kept",
        "The pod names a scheduler of its own choice; it was kept, although the vendor needs another.",
        "Remove `schedulerName`, or name the one in the message.",
    )
    SCHEDULER_CONFLICT = _(
        "VGW502",
        ReasonKind.DENIAL,
        "scheduler conflict",
        "The pod names another scheduler than the vendor needs and the mapping forbids that.",
        "Remove `schedulerName`, or name the one in the message.",
        403,
    )
    SCHEDULERS_DIFFER = _(
        "VGW503",
        ReasonKind.DENIAL,
        "two schedulers needed",
        "Containers of one pod need different schedulers.",
        "Use one vendor's keys throughout, or split the pod.",
        422,
    )
    NODE_NAME = _(
        "VGW504",
        ReasonKind.DENIAL,
        "node named",
        "`spec.nodeName` bypasses the scheduler, so that a share cannot be honoured.",
        "Use a node selector or affinity instead.",
        403,
    )
    NODE_NAME_TO_AFFINITY = _(
        "VGW505",
        ReasonKind.WARNING,
        "node name became affinity",
        "`spec.nodeName` was turned into a required node affinity, so that the scheduler accounts for the share.",
        "Use a node selector or affinity yourself.",
    )
    PRIVILEGED = _(
        "VGW506",
        ReasonKind.DENIAL,
        "privileged container",
        "A privileged container sees every device: a share cannot be enforced.",
        "Drop `privileged`, or ask for whole devices.",
        403,
    )
    PLACEMENT_KEPT = _(
        "VGW507",
        ReasonKind.WARNING,
        "placement kept",
        "The pod already says otherwise than the mapping would; what the user wrote was kept.",
        "Remove it if the mapping's value is wanted.",
    )
    SCHEDULER_OVERRIDDEN = _(
        "VGW508",
        ReasonKind.WARNING,
        "scheduler overridden",
        "The pod named another scheduler; the mapping says to replace it.",
        "Remove `schedulerName`.",
    )
    IMAGE_PATH_ASSUMED = _(
        "VGW601",
        ReasonKind.WARNING,
        "image's library path assumed",
        "The image's own `LD_LIBRARY_PATH` is invisible to a webhook and is replaced; a usual tail was added.",
        "Set `LD_LIBRARY_PATH` in the pod if the image needs another.",
    )
    LEFT_TO_PLUGIN = _(
        "VGW602",
        ReasonKind.WARNING,
        "left to the device plugin",
        "No shim was injected; the limit is the device plugin's to enforce.",
        "Ask for memory as a size, or permit the delivery that the message names.",
    )
    LIMIT_NOT_MET = _(
        "VGW603",
        ReasonKind.DENIAL,
        "limit cannot be written",
        "The mapping refuses a share whose limit cannot be written before the device is known.",
        "Ask for memory as a size.",
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
        "A variable (or annotation, or label) of the pod lifts the limit of the share, or shows other devices.",
        "Remove it.",
        403,
    )
    GUARD_STRIPPED = _(
        "VGW606",
        ReasonKind.WARNING,
        "guarded variable removed",
        "A variable (or annotation, or label) lifts the limit, or shows other devices; it was removed: the mapping says so.",
        "Remove it.",
    )
    OWNED_STRIPPED = _(
        "VGW607",
        ReasonKind.WARNING,
        "scheduler's own mark removed",
        "A mark that only the scheduler may write was removed: copied, it breaks placement; forged, it steals devices.",
        "Leave it out of manifests.",
    )
    PRELOAD_FROM_ELSEWHERE = _(
        "VGW608",
        ReasonKind.DENIAL,
        "preload from elsewhere",
        "`LD_PRELOAD` takes its value from elsewhere, so that the shim cannot be put before it.",
        "Write its value, or remove it.",
        403,
    )
    PATH_CLEANED = _(
        "VGW609",
        ReasonKind.WARNING,
        "search path cleaned",
        "Empty elements of `LD_LIBRARY_PATH` were dropped: the loader reads them as the current directory.",
        "Write the path without empty elements.",
    )
    DEVICES_HIDDEN = _(
        "VGW610",
        ReasonKind.WARNING,
        "devices hidden",
        "A variable of the pod beats that of the device plugin and shows the container none of the devices that it requests. "
        "It is removed where the request is translated, and stays where it is not.",
        "Remove it. If another webhook writes it (HAMi's does with `overwriteEnv`), have that one leave the pod out.",
    )
    INTERNAL_ERROR = _(
        "VGW901",
        ReasonKind.BUG,
        "internal error",
        "A bug of the webhook; nothing was decided and the API server's `failurePolicy` applies.",
        "Report it with the correlation id from the log.",
    )

    def __init__(self, explanation: Explanation) -> None:
        # Plain attributes: `value` of an enumeration is computed at each look, and these are read in every review.
        self.code = explanation.code
        """``VGW`` and three digits."""
        self.slug = self.name.lower()
        """The name as a metric label: ``default_filled``."""


BY_CODE = {reason.code: reason for reason in Reason}
