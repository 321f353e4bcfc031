"""The messages of a reconciler about the webhook configuration; each condition is reported once, until it is over."""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from webhook.cluster.client.api import Object
from webhook.cluster.client.events import shortened
from webhook.cluster.registration.desired import IGNORE, NAME, Terms
from webhook.cluster.registration.update import Change, Difference, Severity, other_writers

MAX_MESSAGE: Final = 1000
"""The most bytes of a message, which may quote the configuration."""


class RegistrationEvent(enum.Enum):
    """What a report is about; a warning unless it is `WRITTEN`, `FOREIGN` or `REMOVED`."""

    WRITTEN = "written"
    FOREIGN = "foreign terms kept"
    LACKING = "lacking"
    NEWER = "written by a newer version"
    REMOVED = "goes with its release"
    REPAIRED = "changed by others"
    CONTESTED = "repeatedly changed by others"
    FAILING_OPEN = "pods do not wait for an answer"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RegistrationReport:
    """One report: a log line, and for warnings an Event on the configuration."""

    kind: RegistrationEvent
    message: str

    @property
    def warning(self) -> bool:
        """Whether an operator should look at it."""
        return self.kind not in {
            RegistrationEvent.WRITTEN,
            RegistrationEvent.FOREIGN,
            RegistrationEvent.REMOVED,
        }


@dataclass(frozen=True, slots=True)
class Notices:
    """Passes reports on, without repeating them.

    Attributes:
        report: called with each report; it must not block.
    """

    report: Callable[[RegistrationReport], None]
    _last: dict[RegistrationEvent, str] = field(default_factory=dict)

    def report_once(self, kind: RegistrationEvent, message: str) -> None:
        """Report something, unless it equals the last report of its kind."""
        message = shortened(message, MAX_MESSAGE)
        if self._last.get(kind) != message:
            self._last[kind] = message
            self.report(RegistrationReport(kind, message))

    def forget(self, *kinds: RegistrationEvent) -> None:
        """Forget reports of these kinds: if one recurs, it is reported again."""
        for kind in kinds:
            self._last.pop(kind, None)


_SUBJECT: Final = f"the webhook configuration {NAME}"


class RegistrationReporter:
    """The reports of one reconciler.

    Args:
        report: called with each report; it must not block.
    """

    def __init__(self, report: Callable[[RegistrationReport], None]) -> None:
        self._notices = Notices(report)

    def failed(self, error: Exception) -> None:
        """Report that a pass failed."""
        self._notices.report_once(RegistrationEvent.FAILED, f"{_SUBJECT} cannot be updated: {error}")

    def succeeded(self) -> None:
        """Note that a pass succeeded."""
        self._notices.forget(RegistrationEvent.FAILED)

    def removed(self, owner: str | None) -> None:
        """Report that the configuration was deleted with its release."""
        self._notices.report_once(
            RegistrationEvent.REMOVED, f"{_SUBJECT} is not created again: the ClusterRole {owner} is gone"
        )

    def failing_open(self, *, failing_open: bool) -> None:
        """Report that pods are admitted without an answer, or note that they no longer are."""
        message = f"{_SUBJECT} has failurePolicy {IGNORE}: pods are admitted unchanged until a replica can answer"
        self._report_if(failing_open, RegistrationEvent.FAILING_OPEN, message)

    def foreign_terms(self, foreign: Mapping[str, Terms]) -> None:
        """Report the foreign terms that are kept, by the name of their webhook."""
        terms = "; ".join(f"{name}: {terms}" for name, terms in foreign.items())
        self._report_if(
            bool(terms),
            RegistrationEvent.FOREIGN,
            f"foreign terms in the namespace selectors of {NAME} are kept: {terms}",
        )

    def static(self, faults: Sequence[Difference]) -> None:
        """Report what differs in a configuration that is maintained by hand."""
        message = f"{_SUBJECT} is maintained by hand, and {_sentences(faults)}"
        self._report_if(bool(faults), RegistrationEvent.LACKING, message)

    def newer(self, faults: Sequence[Difference]) -> None:
        """Report what keeps pods out in a configuration that a newer version maintains."""
        message = f"{_SUBJECT} is left to a newer version, but {_sentences(faults)}"
        serious = any(fault.severity is not Severity.SLIGHT for fault in faults)
        self._report_if(serious, RegistrationEvent.NEWER, message)

    def written(self, change: Change) -> None:
        """Report a write."""
        self._notices.forget(RegistrationEvent.WRITTEN, RegistrationEvent.REMOVED)
        self._notices.report_once(RegistrationEvent.WRITTEN, f"{_SUBJECT} was {change.value}")

    def repaired(self, change: Change, found: Object | None, faults: Sequence[Difference], *, first: bool) -> None:
        """Report changes by others, but not those of replicas with different policies.

        Args:
            change: the repair.
            found: the configuration before it; None if it was deleted.
            faults: what differed.
            first: whether it is the first repair after a while.
        """
        if change not in {Change.CREATED, Change.REPAIRED}:
            return
        if first:
            self._notices.forget(RegistrationEvent.REPAIRED, RegistrationEvent.CONTESTED)
        if done := _done(found, faults):
            self._notices.report_once(RegistrationEvent.REPAIRED, f"{_SUBJECT} was {done} and has been repaired")

    def contested(self, change: Change, found: Object | None, faults: Sequence[Difference], longest: float) -> None:
        """Report that others keep undoing repairs; the pause between these is `longest` seconds at most."""
        pace = f"there is now a pause between repairs, of {longest:g} s at most"
        if change in {Change.NARROWED, Change.TAKEN_OVER}:
            pace = "replicas have different policies: nothing is removed for now"
        done = _done(found, faults) or "changed"
        self._notices.report_once(RegistrationEvent.CONTESTED, f"{_SUBJECT} was {done} repeatedly: {pace}")

    def _report_if(self, condition: bool, kind: RegistrationEvent, message: str) -> None:  # noqa: FBT001  (the method's name says what it is)
        if condition:
            self._notices.report_once(kind, message)
        else:
            self._notices.forget(kind)


def _done(found: Object | None, faults: Sequence[Difference]) -> str:
    """What others did to the configuration; empty if that is unknown."""
    if found is None:
        return "deleted"
    writers, changes = ", ".join(other_writers(found)), _sentences(faults)
    if not writers and not changes:
        return ""
    return "changed" + (f" by {writers}" if writers else "") + (f" ({changes})" if changes else "")


def _sentences(faults: Sequence[Difference]) -> str:
    return "; ".join(map(str, faults))
