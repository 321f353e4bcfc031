"""The outcome of one admission: what `webhook.admission.decide` returns and everything above it reads."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec

from webhook.finding import Finding
from webhook.patch import Patch
from webhook.reasons import Reason

Outcome: TypeAlias = Literal["patched", "untouched", "denied"]


class Decision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Allowed or denied, with patch, warnings, status and audit annotations.

    A decision is cached for all pods of a template, so patch and status are texts: as objects they take three times the
    memory.

    Attributes:
        allowed: whether the pod is created.
        reason: the outcome: `Reason.CHANGED`, or why the pod was left unchanged or denied.
        patch_json: the JSON Patch against the submitted object; empty when nothing changes.
        warnings: warnings for the user, in order.
        notes: findings for the status, the audit log and metrics only.
        denial: why it was denied.
        status_json: the status annotation; empty for a pod without a GPU request.
        audit: audit annotations: keys are qualified-name parts, values text.
        vendors: the vendors whose keys the pod has, for metrics.
    """

    allowed: bool
    reason: Reason
    patch_json: bytes = b""
    warnings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    denial: Finding | None = None
    status_json: str = ""
    audit: Mapping[str, str] = {}
    vendors: tuple[str, ...] = ()

    @cached_property
    def series(self) -> tuple[Outcome, str, str]:
        """The labels of its metric: outcome, reason, and the vendor (or ``several``, or ``none``)."""
        outcome: Outcome = "denied" if not self.allowed else "patched" if self.patch_json else "untouched"
        vendor = "none" if not self.vendors else self.vendors[0] if len(self.vendors) == 1 else "several"
        return outcome, self.reason.slug, vendor

    @cached_property
    def noted(self) -> tuple[str, ...]:
        """The names of the notes' reasons, each once, for metrics."""
        return tuple(dict.fromkeys([note.reason.slug for note in self.notes]))

    @property
    def patch(self) -> Patch:
        """The operations."""
        return tuple(msgspec.json.decode(self.patch_json)) if self.patch_json else ()

    @property
    def status(self) -> dict[str, Any]:
        """The status as plain data."""
        return msgspec.json.decode(self.status_json, type=dict[str, Any]) if self.status_json else {}


def untouched(reason: Reason, warnings: tuple[Finding, ...] = ()) -> Decision:
    """Return the decision that leaves a pod unchanged."""
    return Decision(allowed=True, reason=reason, warnings=warnings)
