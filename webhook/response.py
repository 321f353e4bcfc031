"""The wire format of a response, ``response`` of AdmissionReview ``admission.k8s.io/v1``."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from webhook.admission.decision import Decision
from webhook.finding import Finding
from webhook.text import shorten

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

MAX_WARNINGS: Final = 4096
"""Characters of all warnings together up to which the API server does not truncate them (``filters/warning.go``)."""

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
    code = denial.reason.value.status
    message = shorten(f"{denial.reason.code}: {denial.sentence}", MAX_DENIAL)
    return _Status(code, _STATUS_REASONS.get(code, "Invalid"), message)


def warning_texts(findings: tuple[Finding, ...]) -> list[str]:
    """Return the warnings for the user: each once, as many as fit the API server's limit, and the number of the others."""
    texts = list(dict.fromkeys([finding.text for finding in findings]))
    if sum(map(len, texts)) < MAX_WARNINGS:
        return texts
    shown: list[str] = []
    space = MAX_WARNINGS - len(_more(len(texts))) - 1
    for text in texts:
        space -= len(text)
        if space < 0:
            break
        shown.append(text)
    return [*shown, _more(len(texts) - len(shown))]


def _more(count: int) -> str:
    return f"… and {count} more; the audit log and `vgpu-webhook mutate` have them all"
