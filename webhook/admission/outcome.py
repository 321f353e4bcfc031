"""What is to become of a pod that asks, before its namespace's mode has a say."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.finding import Finding
from webhook.patch import Patch


class Outcome(NamedTuple):
    """What is to become of a pod that asks, whether or not its namespace has it done.

    Attributes:
        operations: the patch.
        findings: what is told.
        account: what was read, filled in and written.
        audit: the audit annotations of all this.
        denial: why it is refused; then nothing else but `findings` is there.
    """

    operations: Patch
    findings: tuple[Finding, ...]
    account: Mapping[str, Any]
    audit: Mapping[str, str]
    denial: Finding | None = None
