"""The wire format of AdmissionReview ``admission.k8s.io/v1``, both ways: bytes to a `Review`, a `Decision` to bytes.

Exceptions, all of them for the sender of the bytes:

ReviewError                 cannot be answered as a review
├── NotAReviewError         no AdmissionReview of version v1, or one without a request and its uid
└── UndecodablePodError     the creation of a pod that is no pod
    .uid                    the review's
"""

from typing import Any, Final, Literal

import msgspec

from webhook.admission.decision import Decision
from webhook.finding import Finding
from webhook.pod import Pod

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises: bad JSON or a field of another type, bad UTF-8, nesting deeper than the interpreter's stack.

Parts of a pod are decoded when they are needed, so `decide` can raise them too.
"""

MAX_WARNINGS: Final = 4096
"""Characters of all warnings together up to which the API server passes each on whole (``filters/warning.go``)."""

MAX_DENIAL: Final = 2048
"""Characters of a denial's message: room for any list of what could be written instead, none for a flood."""

_STATUS_REASONS: Final = {400: "BadRequest", 403: "Forbidden", 422: "Invalid"}


class ReviewError(Exception):
    """The bytes cannot be answered as a review; the message says why, and quotes field names only."""


class NotAReviewError(ReviewError):
    """No AdmissionReview ``v1`` with a request."""


class UndecodablePodError(ReviewError):
    """The creation of a pod whose object cannot be decoded."""

    def __init__(self, uid: str, why: str) -> None:
        self.uid = uid
        super().__init__(f"the pod cannot be decoded: {why}")


class _Wire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of what is decoded: immutable, camelCase on the wire, unknown fields skipped."""


class Kind(_Wire, frozen=True):
    """``request.kind``: of the object as it is sent."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(_Wire, frozen=True):
    """``request.userInfo``."""

    username: str = ""


class _Request(_Wire, frozen=True):
    uid: str
    kind: Kind
    operation: str
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    user_info: UserInfo = UserInfo()
    dry_run: bool | None = None

    @property
    def creates_pod(self) -> bool:
        """CREATE of a ``v1 Pod`` itself, not of its binding or eviction: all that is looked at."""
        kind = self.kind
        return (
            self.operation == "CREATE"
            and kind.kind == "Pod"
            and kind.version == "v1"
            and not kind.group
            and not self.sub_resource
        )


class Review(_Request, frozen=True):
    """``request`` of a review: who asks for what, and the pod whenever `creates_pod`."""

    pod: Pod | None = msgspec.field(default=None, name="object")


class _Envelope(_Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: Review | None = None


class _BareEnvelope(_Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_envelope = msgspec.json.Decoder(_Envelope)
_bare_envelope = msgspec.json.Decoder(_BareEnvelope)


def decode_review(body: bytes) -> Review:
    """The review in a request's body.

    Nearly every review that arrives is the creation of a pod, so it is decoded as one, straight into the view. Only
    when that fails the body is looked at again, leaving the object alone, to see whether it had to be a pod.

    Raises:
        NotAReviewError: no AdmissionReview v1.
        UndecodablePodError: it creates a pod, which cannot be decoded.
    """
    try:
        envelope = _envelope.decode(body)
    except UNDECODABLE as failure:
        return _decode_bare(body, failure)
    review = envelope.request
    if review is None or not _is_v1(envelope) or not review.uid:
        raise _not_a_review(envelope)
    if review.pod is None and review.creates_pod:
        raise UndecodablePodError(review.uid, "there is no object")
    return review


def _decode_bare(body: bytes, failure: Exception) -> Review:
    try:
        envelope = _bare_envelope.decode(body)
    except UNDECODABLE as error:
        raise NotAReviewError(f"no {KIND}: {_why(error)}") from None
    request = envelope.request
    if request is None or not _is_v1(envelope) or not request.uid:
        raise _not_a_review(envelope)
    if request.creates_pod:
        raise UndecodablePodError(request.uid, _why(failure)) from None
    return Review(**{field: getattr(request, field) for field in request.__struct_fields__})


def _is_v1(envelope: _Envelope | _BareEnvelope) -> bool:
    return envelope.kind == KIND and envelope.api_version == API_VERSION


def _not_a_review(envelope: _Envelope | _BareEnvelope) -> NotAReviewError:
    missing = "a request with a uid is missing" if _is_v1(envelope) else f"it is not of kind {KIND}, {API_VERSION}"
    return NotAReviewError(f"no {KIND}: {missing}")


def _why(error: Exception) -> str:
    # The other two quote the input, or are about the interpreter.
    match error:
        case msgspec.DecodeError():
            return str(error)
        case UnicodeDecodeError():
            return "invalid UTF-8"
        case _:
            return "nested too deeply"


class _Status(msgspec.Struct, frozen=True, gc=False):
    code: int
    reason: str
    message: str
    status: str = "Failure"


class _Response(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    patch_type: Literal["JSONPatch"] | None = None
    patch: bytes | None = None
    warnings: list[str] = []
    status: _Status | None = None
    audit_annotations: dict[str, Any] = {}


class _Answer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_encoder = msgspec.json.Encoder()


def encode_untouched(uid: str) -> bytes:
    """The answer that lets the object pass as it is, saying nothing."""
    return _encoder.encode(_Answer(_Response(uid, allowed=True)))


def encode_decision(uid: str, decision: Decision) -> bytes:
    """The answer to the review `uid`.

    ``patch`` (base64 of the operations) and ``patchType`` are there together or not at all: the API server takes one
    without the other for a broken webhook, and an empty patch costs it a round.
    """
    patch = decision.patch
    denial = decision.denial
    response = _Response(
        uid,
        decision.allowed,
        "JSONPatch" if patch else None,
        patch.json if patch else None,
        warning_texts(decision.warnings) if decision.warnings else [],
        None if denial is None else _status(denial),
        dict(decision.audit) if decision.audit else {},
    )
    return _encoder.encode(_Answer(response))


def _status(denial: Finding) -> _Status:
    code = denial.reason.value.status
    message = f"{denial.reason.code}: {denial.sentence}"
    if len(message) > MAX_DENIAL:
        message = message[: MAX_DENIAL - 1] + "…"
    return _Status(code, _STATUS_REASONS.get(code, "Invalid"), message)


def warning_texts(findings: tuple[Finding, ...]) -> list[str]:
    """What the user is told: each once, as much as fits the API server's limit, and how many more there are."""
    texts = list(dict.fromkeys([finding.text for finding in findings]))
    if sum(map(len, texts)) < MAX_WARNINGS:
        return texts
    kept: list[str] = []
    room = MAX_WARNINGS - len(_more(len(texts))) - 1
    for text in texts:
        room -= len(text)
        if room < 0:
            break
        kept.append(text)
    return [*kept, _more(len(texts) - len(kept))]


def _more(count: int) -> str:
    return f"… and {count} more; the audit log and `vgpu-webhook mutate` have them all"
