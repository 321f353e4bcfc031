"""What those who keep certificates tell: each thing once, until it changes or is over."""

from collections.abc import Callable, Collection

from certs.problem import CertificateError, UnusablePairError
from certs.report import FAILURES, Report, ReportKind


class Reporter:
    """Hands notices on.

    Args:
        tell: called with what is to be told; it must not block.
    """

    def __init__(self, tell: Callable[[Report], None]) -> None:
        self.tell = tell
        self._told: dict[ReportKind, str] = {}

    def say(self, kind: ReportKind, message: str) -> None:
        """Tell what lasts, unless it was what was told of that kind last."""
        if self._told.get(kind) != message:
            self._told[kind] = message
            self.tell(Report(kind, message))

    def only(self, kind: ReportKind, message: str) -> None:
        """The same, where nothing else lasts besides."""
        self._told = {one: said for one, said in self._told.items() if one is kind}
        self.say(kind, message)

    def over(self, *, lasting: Collection[ReportKind] = ()) -> None:
        """All is well but for what lasts: if that ends a failure it is told."""
        ended = self._told.keys() - set(lasting)
        self._told = {kind: message for kind, message in self._told.items() if kind not in ended}
        if ended & FAILURES:
            self.tell(Report(ReportKind.RECOVERED, "the certificates are looked after again"))

    def forget(self, *kinds: ReportKind) -> None:
        """What is over without a key; it is told again when it comes again."""
        for kind in kinds:
            self._told.pop(kind, None)


def failure(error: Exception) -> tuple[ReportKind, str]:
    """What to say of a failure."""
    if isinstance(error, UnusablePairError):
        return ReportKind.REFUSED, f"not served: {error}"
    if isinstance(error, CertificateError):
        return ReportKind.STORE, str(error)
    # Its text is not told: nobody knows what is in it.
    return ReportKind.BUG, f"the certificates were not looked after: {type(error).__name__}"
