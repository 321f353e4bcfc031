"""``vgpu-webhook codes``: explains each reason code and its remedy; also generates ``docs/codes.md``."""

import difflib
import textwrap
from collections.abc import Iterable, Mapping
from typing import Final

import click

from webhook.cli.terminal import columns, json_text
from webhook.reasons import BY_CODE, Reason, ReasonKind

_DOES: Final[Mapping[ReasonKind, str]] = {
    ReasonKind.OUTCOME: "only in the status, the audit log and metrics",
    ReasonKind.NOTE: "recorded in the status, the audit log and metrics only",
    ReasonKind.WARNING: "the pod is created, and its author gets a warning",
    ReasonKind.DENIAL: "the pod is not created",
    ReasonKind.BUG: "nothing was decided",
}
"""What each kind does, in the order of the page."""

_USUAL_STATUS: Final = 422
"""The HTTP status of most denials, which the page names once."""

_USUAL_REMEDY: Final = "Write what the message names."
"""The remedy of many denials, which the page names once; the terminal prints it with each."""

_HEADING: Final = """\
# Reason codes

<!-- Generated from `webhook/reasons.yaml` by `make docs`. -->

Warnings, denials, the audit log and log lines contain a code, metrics its name. `vgpu-webhook codes VGW101` explains one.
"""

_OF_DENIALS: Final = (
    " Unless stated otherwise, the HTTP status is 422, and the remedy is to write what the message names."
)


@click.command()
@click.argument("code", metavar="[VGW###]", required=False)
@click.option("--markdown", is_flag=True, help="Print docs/codes.md.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def codes(code: str | None, markdown: bool, output: str) -> None:
    """Explain the reason codes that warnings, denials, logs and metrics carry."""
    if markdown:
        click.echo(as_markdown(), nl=False)
    elif output == "json":
        click.echo(_as_json(Reason if code is None else [_known(code)]), nl=False)
    elif code is None:
        rows = [(reason.code, reason.kind.value, reason.explanation.title) for reason in Reason]
        click.echo(columns([("CODE", "KIND", "TITLE"), *rows]), nl=False)
    else:
        click.echo(_explained(_known(code)), nl=False)


def _known(code: str) -> Reason:
    reason = BY_CODE.get(code.upper()) or next((each for each in Reason if each.slug == code.lower()), None)
    if reason is None:
        near = difflib.get_close_matches(code.upper(), BY_CODE, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise click.BadParameter(f"{code} is not a reason code{hint}", param_hint="VGW###")
    return reason


def _explained(reason: Reason) -> str:
    explanation = reason.explanation
    status = f" (HTTP status {reason.status})" if reason.status else ""
    lines = [
        f"{reason.code}: {explanation.title} ({reason.slug})",
        f"{reason.kind.value}: {_DOES[reason.kind]}{status}",
        "",
        *textwrap.wrap(explanation.meaning, 100),
        "",
        *textwrap.wrap(f"What to do: {explanation.remedy}", 100),
    ]
    return "\n".join(lines) + "\n"


def _as_json(found: Iterable[Reason]) -> str:
    data = [
        {
            "code": reason.code,
            "name": reason.slug,
            "kind": reason.kind.value,
            **({"status": reason.status} if reason.status else {}),
            "title": reason.explanation.title,
            "meaning": reason.explanation.meaning,
            "remedy": reason.explanation.remedy,
        }
        for reason in found
    ]
    return json_text(data)


def as_markdown() -> str:
    """The page ``docs/codes.md``: the codes of each kind, with a section for each."""
    parts = [_HEADING]
    for kind, does in _DOES.items():
        more = _OF_DENIALS if kind is ReasonKind.DENIAL else ""
        parts.append(f"## {kind.value.capitalize()}s\n\n{does.capitalize()}.{more}\n")
        parts += [_section(reason) for reason in Reason if reason.kind is kind]
    return "\n".join(parts)


def _section(reason: Reason) -> str:
    explanation = reason.explanation
    status = f", {reason.status}" if reason.status not in {0, _USUAL_STATUS} else ""
    usual = _USUAL_REMEDY if reason.kind is ReasonKind.DENIAL else "Nothing."
    remedy = "" if explanation.remedy == usual else f"\n{explanation.remedy}\n"
    return f"### {reason.code}\n\n`{reason.slug}`{status}: {explanation.meaning}\n{remedy}"
