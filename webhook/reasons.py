"""Every reason for a decision: one enumeration for messages, status, audit annotations, logs and metrics.

The codes are stable: a number never gets a second meaning. ``reasons.yaml`` explains them, and becomes ``docs/codes.md``.
A finding about a pod is a reason with its details, as a warning or as a denial.
"""

import enum
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, Literal, TypeAlias

import msgspec

from webhook.request import Number
from webhook.text import shorten, shown


class ReasonKind(enum.Enum):
    """The effect of a reason on the response."""

    OUTCOME = "outcome"
    WARNING = "warning"
    NOTE = "note"
    DENIAL = "denial"
    BUG = "bug"


class Reason(enum.Enum):
    """By number: 0xx outcomes, 1xx reading, 2xx translating, 3xx and 4xx denials of both, 5xx placing, 6xx shim."""

    NO_GPU_KEYS = "VGW001", ReasonKind.OUTCOME
    NOT_A_POD_CREATION = "VGW002", ReasonKind.OUTCOME
    NOT_OPTED_IN = "VGW003", ReasonKind.OUTCOME
    OPTED_OUT = "VGW004", ReasonKind.OUTCOME
    WINDOWS_POD = "VGW006", ReasonKind.OUTCOME
    NEVER_TOUCHED = "VGW007", ReasonKind.OUTCOME
    ALREADY_RIGHT = "VGW008", ReasonKind.OUTCOME
    CHANGED = "VGW009", ReasonKind.OUTCOME
    WOULD_CHANGE = "VGW010", ReasonKind.OUTCOME
    RESOURCE_CLAIMS = "VGW011", ReasonKind.OUTCOME
    LEFT = "VGW012", ReasonKind.OUTCOME
    DEFAULT_FILLED = "VGW101", ReasonKind.WARNING
    NAMESPACE_DEFAULT_INVALID = "VGW102", ReasonKind.WARNING
    DEFAULT_NOT_APPLIED = "VGW103", ReasonKind.WARNING
    PROMOTED_TO_LIMITS = "VGW104", ReasonKind.WARNING
    KEY_IGNORED = "VGW105", ReasonKind.WARNING
    MISPLACED_KEY = "VGW106", ReasonKind.WARNING
    UNKNOWN_KEY = "VGW107", ReasonKind.WARNING
    CORRECTED = "VGW108", ReasonKind.WARNING
    ROUNDED_DOWN = "VGW109", ReasonKind.WARNING
    NAMESPACE_SETTING_INVALID = "VGW110", ReasonKind.WARNING
    OUTSIDE_ROLLOUT = "VGW111", ReasonKind.WARNING
    CLAIM_LEFT_UNCHANGED = "VGW112", ReasonKind.WARNING
    OWN_KEY_UNUSED = "VGW113", ReasonKind.WARNING
    LIMIT_NOT_KEPT = "VGW114", ReasonKind.WARNING
    OPT_OUT_FORBIDDEN = "VGW115", ReasonKind.WARNING
    SIZE_TOO_SMALL = "VGW116", ReasonKind.WARNING
    OTHER_SYSTEM = "VGW117", ReasonKind.WARNING
    DOCUMENT_UNUSED = "VGW118", ReasonKind.WARNING
    PLACEHOLDER = "VGW119", ReasonKind.WARNING
    IMPROBABLE = "VGW120", ReasonKind.WARNING
    ROUNDED = "VGW201", ReasonKind.WARNING
    OTHER_FAMILY = "VGW202", ReasonKind.WARNING
    KEY_NOT_CARRIED = "VGW203", ReasonKind.WARNING
    HINT_NOT_CARRIED = "VGW204", ReasonKind.WARNING
    DIMENSION_DROPPED = "VGW205", ReasonKind.WARNING
    SINGLE_DEVICE_LOST = "VGW206", ReasonKind.WARNING
    LIMIT_ADDED = "VGW207", ReasonKind.WARNING
    VARIABLE_ADDED = "VGW208", ReasonKind.WARNING
    VARIABLE_MISSING = "VGW209", ReasonKind.WARNING
    DEVICE_MEMORY_ASSUMED = "VGW210", ReasonKind.WARNING
    KEY_RETIRED = "VGW211", ReasonKind.WARNING
    CLAIM_OF_INIT_CONTAINER = "VGW213", ReasonKind.WARNING
    ISOLATION_LOST = "VGW214", ReasonKind.WARNING
    BAD_QUANTITY = "VGW301", ReasonKind.DENIAL, 400
    NOT_WHOLE = "VGW302", ReasonKind.DENIAL
    TOO_LARGE = "VGW303", ReasonKind.DENIAL
    NOT_LEGAL = "VGW304", ReasonKind.DENIAL
    NOT_DIVISIBLE = "VGW305", ReasonKind.DENIAL
    LIMIT_DIFFERS = "VGW306", ReasonKind.DENIAL
    ZERO_DEVICES = "VGW307", ReasonKind.DENIAL
    UNSUPPORTED_BY_VENDOR = "VGW308", ReasonKind.DENIAL
    NO_FORM = "VGW309", ReasonKind.DENIAL
    BAD_COUNT = "VGW310", ReasonKind.DENIAL
    AMBIGUOUS_COUNT = "VGW311", ReasonKind.DENIAL
    TWO_VENDORS = "VGW312", ReasonKind.DENIAL
    NEAR_MISS = "VGW313", ReasonKind.DENIAL
    VENDOR_INACTIVE = "VGW314", ReasonKind.DENIAL
    UNIT_NOT_CONFIGURED = "VGW315", ReasonKind.DENIAL
    SPELLINGS_DIFFER = "VGW316", ReasonKind.DENIAL
    NO_SUCH_CONTAINER = "VGW317", ReasonKind.DENIAL
    TOO_MANY = "VGW318", ReasonKind.DENIAL
    DIMENSION_MISSING = "VGW319", ReasonKind.DENIAL
    ONE_CONTAINER_ONLY = "VGW320", ReasonKind.DENIAL
    SIZE_UNKNOWN = "VGW321", ReasonKind.DENIAL
    TWINS_DIFFER = "VGW322", ReasonKind.DENIAL
    AMBIGUOUS_NAME = "VGW323", ReasonKind.DENIAL
    CLAIM_BESIDE_REQUEST = "VGW324", ReasonKind.DENIAL
    UNREPORTED = "VGW325", ReasonKind.DENIAL
    UNDONE = "VGW326", ReasonKind.DENIAL, 403
    OWNED_CHANGED = "VGW613", ReasonKind.DENIAL, 403
    INVALID_DOCUMENT = "VGW327", ReasonKind.DENIAL
    CLAIM_REFUSED = "VGW329", ReasonKind.DENIAL, 403
    CLAIM_WITHOUT_KEYS = "VGW330", ReasonKind.DENIAL, 403
    UNKNOWN_TARGET = "VGW401", ReasonKind.DENIAL
    NO_EQUIVALENT = "VGW402", ReasonKind.DENIAL
    READ_BACK_DIFFERS = "VGW403", ReasonKind.DENIAL
    LABEL_CONFLICT = "VGW404", ReasonKind.DENIAL
    INIT_NOT_SERVED = "VGW405", ReasonKind.DENIAL
    NOT_A_TARGET = "VGW406", ReasonKind.DENIAL
    CONTAINERS_DISAGREE = "VGW407", ReasonKind.DENIAL
    NOT_SERVED = "VGW408", ReasonKind.DENIAL
    SCHEDULER_KEPT = "VGW501", ReasonKind.WARNING
    SCHEDULER_CONFLICT = "VGW502", ReasonKind.DENIAL, 403
    SCHEDULERS_DIFFER = "VGW503", ReasonKind.DENIAL
    NODE_NAME = "VGW504", ReasonKind.DENIAL, 403
    NODE_NAME_TO_AFFINITY = "VGW505", ReasonKind.WARNING
    PRIVILEGED = "VGW506", ReasonKind.DENIAL, 403
    PLACEMENT_KEPT = "VGW507", ReasonKind.WARNING
    SCHEDULER_OVERRIDDEN = "VGW508", ReasonKind.WARNING
    SCHEDULER_SET = "VGW509", ReasonKind.WARNING
    BELONGINGS_KEPT = "VGW510", ReasonKind.WARNING
    IMAGE_PATH_ASSUMED = "VGW601", ReasonKind.NOTE
    LEFT_TO_PLUGIN = "VGW602", ReasonKind.NOTE
    LIMIT_NOT_MET = "VGW603", ReasonKind.DENIAL, 403
    COLLISION = "VGW604", ReasonKind.DENIAL
    GUARDED = "VGW605", ReasonKind.DENIAL, 403
    GUARD_STRIPPED = "VGW606", ReasonKind.WARNING
    OWNED_STRIPPED = "VGW607", ReasonKind.WARNING
    PRELOAD_BY_REFERENCE = "VGW608", ReasonKind.DENIAL, 403
    PATH_CLEANED = "VGW609", ReasonKind.WARNING
    DEVICES_HIDDEN = "VGW610", ReasonKind.WARNING
    DELIVERY_UNUSED = "VGW611", ReasonKind.WARNING
    HIDDEN = "VGW614", ReasonKind.NOTE
    GUARD_KEPT = "VGW612", ReasonKind.WARNING
    DELIVERY_PASSED_OVER = "VGW615", ReasonKind.NOTE
    GUARD_BLIND = "VGW616", ReasonKind.WARNING
    ARCHITECTURE_ASSUMED = "VGW618", ReasonKind.NOTE
    INTERNAL_ERROR = "VGW901", ReasonKind.BUG

    def __init__(self, code: str, kind: ReasonKind, status: int = 0) -> None:
        # Plain attributes: an enumeration computes `value` on each access, and every review reads these.
        self.code = code
        """``VGW`` and three digits."""
        self.kind = kind
        self.status = status or (422 if kind is ReasonKind.DENIAL else 0)
        """The HTTP code of a denial, 0 otherwise."""
        self.slug = self.name.lower()
        """The name as a metric label: ``default_filled``."""
        self.note = kind is ReasonKind.NOTE
        """Whether it is only recorded: in the status, the audit log and metrics."""


BY_CODE = {reason.code: reason for reason in Reason}
MAX_SENTENCE: Final = 4096  # whatever the pod contains: `webhook.review` cuts what the API server is told further


class Step(msgspec.Struct, frozen=True, gc=False):
    """A number that was changed to another, for explanations."""

    what: str  # a key, or a dimension of each device
    before: str  # with its unit where it has any
    after: str
    difference: str = ""  # with its sign; empty where it means nothing


Instead: TypeAlias = tuple[tuple[tuple[str, Number | None], ...], ...]
"""Choices of resources with the numbers to write, the likeliest first; None: to remove one."""


def instead_of(name: str, *numbers: Number | None) -> Instead:
    """Return other numbers of one resource as choices; None is left out."""
    return tuple(((name, number),) for number in numbers if number is not None)


class Finding(msgspec.Struct, frozen=True):
    """A warning, a change or a denial."""

    reason: Reason
    message: str  # what is wrong, then what to write instead; without the code and the container
    container: str | None = None  # its name; None for the pod
    field: str | None = None  # the path in the pod: ``limits[nvidia.com/gpumem]``
    value: str | None = None  # the value at that path
    step: Step | None = None  # the number that was rounded, corrected or converted
    instead: Instead = ()  # of a denial, what may be written instead, as the message says: tried by `advice.advised`
    expected: bool = False  # it is what the webhook is installed for: a warning only where it does not happen
    named: Instead = ()  # of a denial, likewise, where that is less than the pod requests, or one of several choices

    @property
    def note(self) -> bool:
        """Whether a pod that is changed accordingly gets no warning of it."""
        return self.expected or self.reason.note

    @property
    def text(self) -> str:
        """The code and the sentence, on one line."""
        return f"{self.reason.code}: {self.sentence}"

    @property
    def sentence(self) -> str:
        """The container and the message, without control characters and their like, at most `MAX_SENTENCE` characters."""
        where = "" if self.container is None else f"container {self.container[:MAX_SENTENCE]}: "
        text = f"{where}{self.message[:MAX_SENTENCE]}"
        return shown(shorten(text, MAX_SENTENCE))


class Denied(Exception):  # noqa: N818  (a decision about the pod, not an error of the webhook)
    """The pod is denied; `finding` has the reason and what to write instead."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.text)


def deny(
    reason: Reason,
    message: str,
    *,
    container: str | None = None,
    field: str | None = None,
    value: str | None = None,
    instead: Instead = (),
    named: Instead = (),
) -> Denied:
    """Return the exception for a denial with these details."""
    return Denied(Finding(reason, message, container, field, value, instead=instead, named=named))


ReasonGroup: TypeAlias = Literal["amount", "key", "target", "place", "limit", "cluster", "nothing", "bug"]

REASON_GROUPS: Final[Mapping[ReasonGroup, tuple[str, str]]] = {
    "amount": ("Write another amount", "Write the amount that the message names."),
    "key": ("Correct a key", "Write, move or remove the key as the message says."),
    "target": ("See what the target lacks", "Change the request as the message says, or choose another target."),
    "place": ("Leave the node to the mapping", "Remove the field that the message names."),
    "limit": ("Leave the limit alone", "Remove what the message names, or write it as it says."),
    "cluster": ("Ask whoever runs the cluster", "The policy or the namespace decides."),
    "nothing": ("Nothing is wrong", "Nothing to do. Only the status, the audit log and metrics say so."),
    "bug": ("Report a bug", "Report the log line and the manifest of the pod."),
}
"""What a person does about a code: the groups of the page, each with its heading and what to do."""


class Explanation(msgspec.Struct, frozen=True):
    """The meaning of a code."""

    title: str  # a few words, for tables and headings
    group: ReasonGroup  # what a person does about it
    meaning: str  # what happened, in a sentence
    remedy: str = ""  # what to do about it beyond what its group says
    example: str = ""  # a message that says what to do, where there is no remedy

    @property
    def advice(self) -> str:
        """What to do about it, with what its group says."""
        return self.remedy or REASON_GROUPS[self.group][1]


def explanation_of(reason: Reason) -> Explanation:
    """Return what a reason means; read when somebody asks for it."""
    return _explanations()[reason.code]


@cache
def _explanations() -> dict[str, Explanation]:
    return msgspec.yaml.decode((resources.files("webhook") / "reasons.yaml").read_bytes(), type=dict[str, Explanation])
