"""The messages of a reconciler about the webhook configuration; each condition is reported once, until it is over."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from certs.report import Report, Reporter
from webhook.cluster.client import Object
from webhook.cluster.events import shortened
from webhook.cluster.registration.desired import IGNORE, MUTATING, NAME, ConfigurationKind, Terms
from webhook.cluster.registration.update import Change, Difference, keeps_out, other_writers

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

    @property
    def warning(self) -> bool:
        """Whether an operator should look at it."""
        return self not in {RegistrationEvent.WRITTEN, RegistrationEvent.FOREIGN, RegistrationEvent.REMOVED}


RegistrationReport: TypeAlias = Report[RegistrationEvent]
"""One report: a log line, and for warnings an Event on the configuration."""


class RegistrationReporter:
    """The reports of one reconciler.

    Args:
        report: called with each report; it must not block.
        kind: of the configuration.
    """

    def __init__(self, report: Callable[[RegistrationReport], None], kind: ConfigurationKind = MUTATING) -> None:
        self._kind = kind
        self._subject = f"the {kind.noun} {NAME}"
        self._lasting: Reporter[RegistrationEvent] = Reporter(
            lambda told: report(Report(told.kind, shortened(told.message, MAX_MESSAGE)))
        )

    def passed(self, error: Exception | None = None) -> None:
        """Report that a pass failed, or note that it succeeded."""
        self._lasting.report_while(error, RegistrationEvent.FAILED, f"{self._subject} cannot be updated: {error}")

    def removed(self, owner: str | None) -> None:
        """Report that the configuration was deleted with its release."""
        self._lasting.report_once(
            RegistrationEvent.REMOVED, f"{self._subject} is not created again: the ClusterRole {owner} is gone"
        )

    def failing_open(self, *, failing_open: bool) -> None:
        """Report that pods are admitted without an answer, or note that they no longer are."""
        what = "unchanged until a replica" if self._kind is MUTATING else "without a judgment until every replica"
        message = f"{self._subject} has failurePolicy {IGNORE}: pods are admitted {what} can answer"
        self._lasting.report_while(failing_open, RegistrationEvent.FAILING_OPEN, message)

    def foreign_terms(self, foreign: Mapping[str, Terms]) -> None:
        """Report the foreign terms that are kept, by the name of their webhook."""
        terms = "; ".join(f"{name}: {terms}" for name, terms in foreign.items())
        self._lasting.report_while(
            terms, RegistrationEvent.FOREIGN, f"foreign terms in the namespace selectors of {NAME} are kept: {terms}"
        )

    def static(self, faults: Sequence[Difference]) -> None:
        """Report what differs in a configuration that is maintained by hand."""
        self._lasting.report_while(
            faults, RegistrationEvent.LACKING, f"{self._subject} is maintained by hand, and {_sentences(faults)}"
        )

    def newer(self, faults: Sequence[Difference]) -> None:
        """Report what keeps pods out in a configuration that a newer version maintains."""
        message = f"{self._subject} is left to a newer version, but {_sentences(faults)}"
        self._lasting.report_while(keeps_out(faults), RegistrationEvent.NEWER, message)

    def written(self, change: Change) -> None:
        """Report a write."""
        self._lasting.forget(RegistrationEvent.WRITTEN, RegistrationEvent.REMOVED)
        self._lasting.report_once(RegistrationEvent.WRITTEN, f"{self._subject} was {change.value}")

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
            self._lasting.forget(RegistrationEvent.REPAIRED, RegistrationEvent.CONTESTED)
        if done := _done(found, faults):
            self._lasting.report_once(RegistrationEvent.REPAIRED, f"{self._subject} was {done} and has been repaired")

    def contested(self, change: Change, found: Object | None, faults: Sequence[Difference], longest: float) -> None:
        """Report that others keep undoing repairs; the pause between these is `longest` seconds at most."""
        pace = f"there is now a pause between repairs, of {longest:g} s at most"
        if change.narrows:
            pace = "replicas have different policies: nothing is removed for now"
        done = _done(found, faults) or "changed"
        self._lasting.report_once(RegistrationEvent.CONTESTED, f"{self._subject} was {done} repeatedly: {pace}")


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
