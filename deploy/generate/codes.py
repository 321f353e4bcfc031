"""The page ``docs/codes.md``: the reason codes by what people do about them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.generate import DEPLOY
from webhook.reasons import REASON_GROUPS, Reason, ReasonGroup, ReasonKind, explanation_of

PAGE: Final[Path] = DEPLOY.parent / "docs" / "codes.md"

_USUAL_STATUS: Final = 422
"""The HTTP status of most denials, which the page names once."""

_BESIDE: Final[Mapping[ReasonKind, str]] = {ReasonKind.DENIAL: ", denied", ReasonKind.NOTE: ", note"}
"""What stands beside a name: a warning is the usual, and the group of outcomes says what they are."""

_WRITTEN: Final[frozenset[ReasonGroup]] = frozenset({"amount", "key"})
"""What the authors of pods write: the page shows examples of these denials."""

_HEADING: Final = """\
# Reason codes

<!-- Generated from `webhook/reasons.yaml` by `make docs`. -->

Grouped by what you do about them; `vgpu-webhook codes VGW105` explains one, with an example. Metrics carry the name. A code
is a warning to the pod's author, unless *denied* (HTTP status 422, or the one in brackets) or *note* (only in the status,
the audit log and metrics) stands beside the name.
"""


def page() -> str:
    """Return the codes of each group, with a section for each."""
    parts = [_HEADING]
    for group, (heading, remedy) in REASON_GROUPS.items():
        parts.append(f"## {heading}\n\n{remedy}\n")
        parts += [_section(reason) for reason in Reason if explanation_of(reason).group == group]
    return "\n".join(parts)


def _section(reason: Reason) -> str:
    explanation = explanation_of(reason)
    effect = _BESIDE.get(reason.kind, "")
    status = f" ({reason.status})" if reason.status not in {0, _USUAL_STATUS} else ""
    advice = f" {explanation.remedy}" if explanation.remedy else ""
    if explanation.example and reason.kind is ReasonKind.DENIAL and explanation.group in _WRITTEN:
        advice = f" “{explanation.example}”."
    return f"### {reason.code}\n\n`{reason.slug}`{effect}{status}: {explanation.meaning}{advice}\n"
