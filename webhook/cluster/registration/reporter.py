"""What a reconciler reports about the webhook configuration, in words; each thing once, until it is over."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from webhook.cluster.client.api import Object
from webhook.cluster.registration.comparison import Difference, Severity, other_writers
from webhook.cluster.registration.desired import IGNORE, NAME, Terms
from webhook.cluster.registration.report import Notices, Report, ReportKind
from webhook.cluster.registration.update import Change

_IT: Final = f"the webhook configuration {NAME}"


class Reporter:
    """The reports of one reconciler.

    Args:
        report: called with each report; it must not block.
    """

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._notices = Notices(report)

    def failed(self, error: Exception) -> None:
        """Report that a pass failed."""
        self._notices.say(ReportKind.FAILED, f"{_IT} cannot be updated: {error}")

    def succeeded(self) -> None:
        """Note that a pass did not fail."""
        self._notices.over(ReportKind.FAILED)

    def removed(self, owner: str | None) -> None:
        """Report that the configuration went with its release."""
        self._notices.say(ReportKind.REMOVED, f"{_IT} is not created again: the ClusterRole {owner} is gone")

    def sparing(self, *, sparing: bool) -> None:
        """Report that pods do not wait for an answer, or note that they do."""
        message = f"{_IT} admits pods untreated until a replica can answer: {IGNORE}"
        self._say_if(sparing, ReportKind.SPARING, message)

    def kept(self, foreign: Mapping[str, Terms]) -> None:
        """Report the foreign terms that are kept, by the name of their webhook."""
        terms = "; ".join(f"{name}: {terms}" for name, terms in foreign.items())
        self._say_if(
            bool(terms), ReportKind.FOREIGN, f"foreign terms in the namespace selectors of {NAME} are kept: {terms}"
        )

    def by_hand(self, faults: Sequence[Difference]) -> None:
        """Report what differs in a configuration that is maintained by hand."""
        message = f"{_IT} is maintained by hand, and {_sentences(faults)}"
        self._say_if(bool(faults), ReportKind.LACKING, message)

    def newer(self, faults: Sequence[Difference]) -> None:
        """Report what keeps pods out in a configuration that a newer version maintains."""
        message = f"{_IT} is left to a newer version, but {_sentences(faults)}"
        serious = any(fault.severity is not Severity.SLIGHT for fault in faults)
        self._say_if(serious, ReportKind.NEWER, message)

    def written(self, change: Change) -> None:
        """Report a write."""
        self._notices.over(ReportKind.WRITTEN, ReportKind.REMOVED)
        self._notices.say(ReportKind.WRITTEN, f"{_IT} was {change.value}")

    def repaired(self, change: Change, found: Object | None, faults: Sequence[Difference], *, first: bool) -> None:
        """Report what others did; not what replicas with different policies add and remove.

        Args:
            change: the repair.
            found: the configuration before it; None if it was deleted.
            faults: what differed.
            first: it is the first repair after a while.
        """
        if change not in {Change.CREATED, Change.REPAIRED}:
            return
        if first:
            self._notices.over(ReportKind.REPAIRED, ReportKind.CONTESTED)
        if done := _done(found, faults):
            self._notices.say(ReportKind.REPAIRED, f"{_IT} was {done}, and was repaired")

    def contested(self, change: Change, found: Object | None, faults: Sequence[Difference], longest: float) -> None:
        """Report that others undo repairs again and again; the pause between them is `longest` seconds at most."""
        pace = f"repairs now wait, {longest:g} s at most"
        if change in {Change.NARROWED, Change.TAKEN_OVER}:
            pace = "replicas have different policies: nothing is removed for now"
        done = _done(found, faults) or "changed"
        self._notices.say(ReportKind.CONTESTED, f"{_IT} was {done} again and again: {pace}")

    def _say_if(self, holds: bool, kind: ReportKind, message: str) -> None:  # noqa: FBT001  (the condition, named by the method)
        if holds:
            self._notices.say(kind, message)
        else:
            self._notices.over(kind)


def _done(found: Object | None, faults: Sequence[Difference]) -> str:
    """What others did to the configuration; empty if that does not show."""
    if found is None:
        return "deleted"
    by, what = ", ".join(other_writers(found)), _sentences(faults)
    return f"changed{f' by {by}' if by else ''}{f' ({what})' if what else ''}" if by or what else ""


def _sentences(faults: Sequence[Difference]) -> str:
    return "; ".join(map(str, faults))
