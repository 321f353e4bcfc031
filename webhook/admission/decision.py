"""The outcome of one admission: what `webhook.admission.decide` returns and everything above it reads."""

from collections.abc import Mapping
from typing import Any

import msgspec

from webhook.finding import Finding
from webhook.patch import NO_PATCH, Patch
from webhook.reasons import Reason


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Allowed or denied, with everything that is told about it. Made by the constructors below only.

    Attributes:
        allowed: whether the pod is created.
        reason: the outcome in one word: `Reason.CHANGED`, why it was left alone, or why it was denied.
        patch: the operations against the object that was sent; empty when nothing changes or it is denied.
        warnings: what the user is told, in order.
        denial: why it was denied.
        account: what was read, filled in and written, as plain JSON data; empty for a pod that asks for nothing.
        audit: audit annotations: keys are qualified-name parts, values text.
        vendors: the vendors in whose words was asked, for metrics.
    """

    allowed: bool
    reason: Reason
    patch: Patch = NO_PATCH
    warnings: tuple[Finding, ...] = ()
    denial: Finding | None = None
    account: Mapping[str, Any] = msgspec.field(default_factory=dict)
    audit: Mapping[str, str] = msgspec.field(default_factory=dict)
    vendors: tuple[str, ...] = ()


def untouched(reason: Reason, warnings: tuple[Finding, ...] = ()) -> Decision:
    """The pod is none of ours, or needs nothing."""
    return Decision(allowed=True, reason=reason, warnings=warnings)
