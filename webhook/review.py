"""The wire format of AdmissionReview ``admission.k8s.io/v1``: bytes to a `Review`, and a decision to a response.

Exceptions, all for the sender of the bytes:

ReviewError                 cannot be answered as a review
├── NotAReviewError         not an AdmissionReview of version v1, or one without a request and its uid
└── UndecodableError        a review whose object cannot be decoded; it has the rest of it
"""

import re
from collections.abc import Mapping
from typing import Final, Generic, Literal, TypeVar

import msgspec

from webhook.admission.decision import Decision
from webhook.pod import ABSENT, MAX_TEXTS, UNDECODABLE, Pod, RawPod, check_few_texts
from webhook.reasons import Finding
from webhook.text import shorten

MAX_UID: Final = 128
"""The longest uid of a review in characters; the response contains it. Those of the API server have 36."""

MAX_OBJECTS: Final = 256 * 1024
"""The most JSON objects in a review. Each may take 100 bytes once decoded and 3 before, so a body of 7 MiB without a limit
could take 300 MiB. A pod with 40,000 variables, listed again in its ``managedFields``, has as many."""

MAX_QUOTES: Final = 1024 * 1024
"""The most quotes in a body with more braces than that, of which those in strings are told apart."""

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')

_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""A DNS label (RFC 1123), as the name of every namespace is."""


class ReviewError(Exception):
    """The bytes cannot be answered as a review; the message says why, and quotes only field names."""


class NotAReviewError(ReviewError):
    """Not an AdmissionReview ``v1`` with a request."""


T = TypeVar("T")
R = TypeVar("R", bound="ReviewHead")


class _Wire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of what is decoded: immutable, camelCase on the wire, unknown fields skipped."""


class GroupVersionKind(_Wire, frozen=True):
    """``request.kind``: the kind of the object in the review."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(_Wire, frozen=True):
    """``request.userInfo``."""

    username: str = ""


class ReviewHead(_Wire, frozen=True):
    """``request`` of a review, without its objects."""

    uid: str
    kind: GroupVersionKind
    operation: str
    sub_resource: str | None = None
    namespace: str | None = None
    user_info: UserInfo = UserInfo()
    dry_run: bool | None = None

    @property
    def creates_pod(self) -> bool:
        """Whether it creates a ``v1 Pod``, not a binding or eviction: the webhook treats nothing else."""
        kind = self.kind
        what = (self.operation, kind.group, kind.version, kind.kind)
        return what == ("CREATE", "", "v1", "Pod") and not self.sub_resource


class UndecodableError(ReviewError):
    """A review whose object cannot be decoded, or is more than is decoded; `request` is the review without its objects."""

    def __init__(self, message: str, request: ReviewHead) -> None:
        super().__init__(message)
        self.request = request


class Review(ReviewHead, frozen=True):
    """``request`` of a review: the user, the operation, and the pod if `creates_pod`."""

    pod: Pod | None = msgspec.field(default=None, name="object")


class ObjectReview(ReviewHead, frozen=True):
    """``request`` of a review whose objects may be of any kind, and stay undecoded."""

    object: msgspec.Raw = ABSENT
    old_object: msgspec.Raw = ABSENT


class _Envelope(_Wire, Generic[T], frozen=True):
    api_version: str = ""
    kind: str = ""
    request: T | None = None


class _RawRequest(_Wire, frozen=True):
    pod: RawPod | None = msgspec.field(default=None, name="object")


_envelope = msgspec.json.Decoder(_Envelope[Review])
_raw_envelope = msgspec.json.Decoder(_Envelope[_RawRequest])
_object_envelope = msgspec.json.Decoder(_Envelope[ObjectReview])
_bare_envelope = msgspec.json.Decoder(_Envelope[ReviewHead])


def decode_review(body: bytes) -> Review:
    """Decode the review in the body of a request.

    Nearly all reviews create a pod, so the body is decoded directly into the view of a pod. Only if that fails, it is decoded
    again without the object, to find whether the object had to be a pod.

    Raises:
        NotAReviewError: not an AdmissionReview v1.
        UndecodableError: it creates a pod, which cannot be decoded, or it has too many objects.
    """
    try:
        if _has_too_many(body):
            raise UndecodableError(f"the request has more than {MAX_OBJECTS} JSON objects", read_head(body))
        if len(body) > MAX_TEXTS:
            raw = _raw_envelope.decode(body).request
            check_few_texts(RawPod() if raw is None or raw.pod is None else raw.pod)
        envelope = _envelope.decode(body)
    except UNDECODABLE as failure:
        return _decode_bare(body, failure)
    review = _request_in(envelope)
    if review.pod is None and review.creates_pod:
        raise UndecodableError("the pod cannot be decoded: there is not an object", review)
    return review


def _has_too_many(body: bytes) -> bool:
    """Whether there are more objects than are decoded; braces in strings count only if there are too many strings to tell."""
    if len(body) <= MAX_OBJECTS or body.count(b"{") <= MAX_OBJECTS:
        return False
    return body.count(b'"') > MAX_QUOTES or _STRING.sub(b"", body).count(b"{") > MAX_OBJECTS


def decode_object_review(body: bytes) -> ObjectReview:
    """Decode the review in the body of a request, without its objects.

    Raises:
        NotAReviewError: not an AdmissionReview v1.
        UndecodableError: its objects are nested too deeply, or no UTF-8.
    """
    try:
        return _request_in(_object_envelope.decode(body))
    except UNDECODABLE as failure:
        raise UndecodableError(f"the object cannot be decoded: {_why(failure)}", read_head(body)) from None


def read_head(body: bytes) -> ReviewHead:
    """Read what comes before the objects of a review: in those of API servers everything that says what it is about.

    Args:
        body: the body, or its beginning.

    Raises:
        NotAReviewError: there is no such beginning.
    """
    # Quotes in strings are escaped, and the only map of anybody's keys there, `userInfo.extra`, has lists as values.
    head, found, _ = body.partition(b',"object":{')
    return _decoded(head + b"}}" if found else body, _bare_envelope)


def namespace_of(review: ReviewHead) -> str:
    """Return the namespace of a review.

    Raises:
        NotAReviewError: the name is not a DNS label, so no such namespace can exist.
    """
    name = review.namespace
    if not name:
        pod = review.pod if isinstance(review, Review) else None
        name = (None if pod is None else pod.metadata.namespace) or "default"
    if _LABEL.fullmatch(name) is None:
        raise NotAReviewError("the namespace of the request is no DNS label")
    return name


def _decode_bare(body: bytes, failure: Exception) -> Review:
    try:
        request = _request_in(_bare_envelope.decode(body))
    except UNDECODABLE:
        request = read_head(body)
    if request.creates_pod:
        raise UndecodableError(f"the pod cannot be decoded: {_why(failure)}", request) from None
    return Review(**{field: getattr(request, field) for field in request.__struct_fields__})


def _decoded(body: bytes, decoder: "msgspec.json.Decoder[_Envelope[R]]") -> R:
    """Decode a request, as far as its type goes: what cannot be decoded is no review."""
    try:
        return _request_in(decoder.decode(body))
    except UNDECODABLE as error:
        raise NotAReviewError(f"no {KIND}: {_why(error)}") from None


def _request_in(envelope: _Envelope[R]) -> R:
    request = envelope.request
    if envelope.kind != KIND or envelope.api_version != API_VERSION:
        raise NotAReviewError(f"no {KIND}: it is not of kind {KIND}, {API_VERSION}")
    if request is None or not 0 < len(request.uid) <= MAX_UID:
        raise NotAReviewError(f"no {KIND}: a request with a uid of at most {MAX_UID} characters is missing")
    return request


def _why(error: Exception) -> str:
    # The messages of the other two quote the input, or concern the interpreter.
    match error:
        case msgspec.DecodeError():
            return str(error)
        case UnicodeDecodeError():
            return "invalid UTF-8"
        case _:
            return "nested too deeply"


API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

MAX_WARNINGS: Final = 4096
"""Characters of all warnings together, others' too, beyond which the API server cuts each (``filters/warning.go``), ..."""

MAX_WARNING: Final = 256
"""... at this length, without a mark."""

MAX_WHOLE: Final = 3072
"""Characters of our warnings together up to which none is cut; there is room for those of others."""

MAX_DENIAL: Final = 2048
"""The longest message of a denial in characters: enough for every list of what to write instead."""

_STATUS_REASONS: Final = {400: "BadRequest", 403: "Forbidden", 422: "Invalid"}
_HEAD: Final = f'{{"apiVersion":"{API_VERSION}","kind":"{KIND}","response":{{"uid":'.encode()
_TAIL: Final = "response"
"""Where a decision stores its encoded response."""


class _Status(msgspec.Struct, frozen=True, gc=False):
    code: int
    reason: str
    message: str
    status: str = "Failure"


class _Response(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    allowed: bool
    patch_type: Literal["JSONPatch"] | None = None
    patch: bytes | None = None
    warnings: list[str] = []
    status: _Status | None = None
    audit_annotations: Mapping[str, str] = {}


_encode = msgspec.json.Encoder().encode


def encode_answer(uid: str, decision: Decision) -> bytes:
    """Encode the response to the review `uid`.

    ``patch`` (base64 of the operations) and ``patchType`` are both set or both absent: the API server treats one without the
    other as a webhook failure, and an empty patch costs it time.
    """
    # A remembered decision answers many reviews, which differ only in their uid.
    tail = decision.__dict__.get(_TAIL)
    if tail is None:
        tail = decision.__dict__[_TAIL] = _tail(decision)
    return b"".join((_HEAD, _encode(uid), tail))


def _tail(decision: Decision) -> bytes:
    """Everything after the uid."""
    denial, patch = decision.denial, decision.patch_json
    response = _Response(
        decision.allowed,
        "JSONPatch" if patch else None,
        patch or None,
        warning_texts(decision.warnings) if decision.warnings else [],
        None if denial is None else _status(denial),
        decision.audit,
    )
    return b"," + _encode(response)[1:] + b"}"


def _status(denial: Finding) -> _Status:
    code = denial.reason.status
    return _Status(code, _STATUS_REASONS.get(code, "Invalid"), shorten(denial.text, MAX_DENIAL))


def warning_texts(findings: tuple[Finding, ...]) -> list[str]:
    """Return the warnings for the user: each once, as many as fit the API server's limit, and the number of the others."""
    texts = list(dict.fromkeys([finding.text for finding in findings]))
    if sum(map(len, texts)) > MAX_WHOLE:
        texts = list(dict.fromkeys([shorten(text, MAX_WARNING) for text in texts]))
    return fitting(texts, MAX_WARNINGS)


def fitting(texts: list[str], most: int, between: int = 0) -> list[str]:
    """Return texts, as many as fit into less than `most` characters with some between them, and the number of the others."""
    if sum(map(len, texts)) + between * len(texts) < most:
        return texts
    shown: list[str] = []
    space = most - len(_more(len(texts))) - 1
    for text in texts:
        space -= len(text) + between
        if space < 0:
            break
        shown.append(text)
    return [*shown, _more(len(texts) - len(shown))]


def _more(count: int) -> str:
    return f"… and {count} more; the audit log and `vgpu-webhook mutate` have them all"
