"""The outcome of one admission: what `webhook.admission.decide` returns and everything above it reads."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from webhook.finding import Finding
from webhook.patch import Patch
from webhook.reasons import Reason
from webhook.response import encode_tail


class Decision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Allowed or denied, with everything that is told about it.

    One decision may serve many pods of a template and is kept for them, so that patch and account are texts: as objects
    they take three times the memory.

    Attributes:
        allowed: whether the pod is created.
        reason: the outcome in one word: `Reason.CHANGED`, why it was left alone, or why it was denied.
        patch_json: the operations against the object that was sent, as they travel; empty when nothing is to change.
        warnings: what the user is told, in order.
        denial: why it was denied.
        account_json: what was read, filled in and written; empty for a pod that asks for nothing.
        audit: audit annotations: keys are qualified-name parts, values text.
        vendors: the vendors in whose words was asked, for metrics.
    """

    allowed: bool
    reason: Reason
    patch_json: bytes = b""
    warnings: tuple[Finding, ...] = ()
    denial: Finding | None = None
    status_json: str = ""
    audit: Mapping[str, str] = msgspec.field(default_factory=dict)
    vendors: tuple[str, ...] = ()

    @cached_property
    def answer_tail(self) -> bytes:
        """What the API server is told, after the uid of its review."""
        return encode_tail(
            allowed=self.allowed,
            patch=self.patch_json,
            warnings=self.warnings,
            denial=self.denial,
            audit=self.audit,
        )

    @property
    def patch(self) -> Patch:
        """The operations."""
        return tuple(msgspec.json.decode(self.patch_json)) if self.patch_json else ()

    @property
    def account(self) -> dict[str, Any]:
        """The account as plain data."""
        return msgspec.json.decode(self.status_json, type=dict[str, Any]) if self.status_json else {}


def untouched(reason: Reason, warnings: tuple[Finding, ...] = ()) -> Decision:
    """The pod is none of ours, or needs nothing."""
    return Decision(allowed=True, reason=reason, warnings=warnings)
