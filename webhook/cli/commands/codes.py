"""``vgpu-webhook codes``: explains each reason code and its remedy."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

import click

from webhook.cli.options import output_option
from webhook.cli.terminal import columns, json_text, prose
from webhook.reasons import BY_CODE, Reason, ReasonKind, explanation_of

_DOES: Final[Mapping[ReasonKind, str]] = {
    ReasonKind.OUTCOME: "only in the status, the audit log and metrics",
    ReasonKind.NOTE: "recorded in the status, the audit log and metrics only",
    ReasonKind.WARNING: "the pod is created, and its author gets a warning",
    ReasonKind.DENIAL: "the pod is not created",
    ReasonKind.BUG: "nothing was decided",
}
"""What each kind does."""


def _completed(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    return [code for code in BY_CODE if code.startswith(begun.upper())]


@click.command()
@click.argument("names", metavar="[VGW###]...", nargs=-1, shell_complete=_completed)
@output_option("text", "json")
def codes(names: tuple[str, ...], output: str) -> None:
    """Explain the reason codes that warnings, denials, logs and metrics carry."""
    found = [_known(name) for name in names]
    if output == "json":
        click.echo(_as_json(found or Reason), nl=False)
    elif found:
        click.echo("\n".join(map(_explained, found)), nl=False)
    else:
        rows = [(reason.code, reason.kind.value, explanation_of(reason).title) for reason in Reason]
        click.echo(columns([("CODE", "KIND", "TITLE"), *rows]), nl=False)


def _known(code: str) -> Reason:
    known = {name.lower(): (name, reason) for reason in Reason for name in (reason.code, reason.slug)}
    found = known.get(code.lower()) or known.get(f"vgw{code}")
    if found is not None:
        return found[1]
    # Another number is another code, however near it is.
    near = [] if code.lower().startswith("vgw") else difflib.get_close_matches(code.lower(), known, n=1)
    hint = f"did you mean {known[near[0]][0]}?" if near else "`vgpu-webhook codes` lists them"
    raise click.BadParameter(f"{code} is not a reason code; {hint}", param_hint="VGW###")


def _explained(reason: Reason) -> str:
    explanation = explanation_of(reason)
    status = f" (HTTP status {reason.status})" if reason.status else ""
    lines = [
        f"{reason.code}: {explanation.title} ({reason.slug})",
        *prose(f"{reason.kind.value}: {_DOES[reason.kind]}{status}"),
        "",
        *prose(explanation.meaning),
        "",
        *prose(f"What to do: {explanation.advice}"),
        *(["", *prose(f"For example: {explanation.example}")] if explanation.example else []),
    ]
    return "\n".join(lines) + "\n"


def _as_json(found: Iterable[Reason]) -> str:
    data = [
        {
            "code": reason.code,
            "name": reason.slug,
            "kind": reason.kind.value,
            **({"status": reason.status} if reason.status else {}),
            "title": explanation_of(reason).title,
            "meaning": explanation_of(reason).meaning,
            "remedy": explanation_of(reason).advice,
            **({"example": explanation_of(reason).example} if explanation_of(reason).example else {}),
        }
        for reason in found
    ]
    return json_text(data)
