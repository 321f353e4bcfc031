"""``vgpu-webhook check``: checks mapping and settings documents, or without files an installation.

The former is for pipelines and pre-commit hooks, the latter for operators of a cluster.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from webhook.cli.options import GivenPath, PolicyCommand, PolicyOptions, in_cluster, policy_options, strict_option
from webhook.cli.terminal import DENIED, FOUND, REPORTS, CommandReport, Failure, ReportLine, json_text, prose, tell
from webhook.doctor import Check, FileLine, Level, Result, UnansweredError, unanswered

if TYPE_CHECKING:
    from webhook.cli.file_checks import ReadFiles


@click.command(cls=PolicyCommand, context_settings={"allow_interspersed_args": False})
@click.argument("files", type=GivenPath(), metavar="[FILE|DIR|-]...", nargs=-1)
@policy_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", *REPORTS]),
    help="The report; github only with files.  [default: text; with files, a line for each problem]",
)
@click.option("--pre", is_flag=True, help="Before an installation: print the chart's values that fit the cluster.")
@strict_option
def check(*, files: tuple[str, ...], source: PolicyOptions, output: str | None, pre: bool, strict: bool) -> None:
    """Check an installation; or, with FILEs, mapping and settings documents, values and manifests.

    Without files: examines the cluster without changing it, and reports each check as passed (✓), a warning (‼) or
    failed (×), with the next command to run.

    With files, or options that name files: checks values of the chart, each file by itself; and documents over the built-in
    mappings, or over the policy of --values, of --mappings and --settings, or in force in the cluster of --context or
    --kubeconfig. Documents are plain or in ConfigMaps. Folders are read recursively, - is standard input. Options come first:
    what follows a FILE is one, too, and after -- everything is. A pod that the webhook would deny is an error, as is a request
    for a GPU outside of every pod, pod template and pod spec. With -o, all of that is a report like that of an installation;
    as junit each check is a test case, github annotates files in a GitHub workflow.

    With --pre: prints a values file for Helm, from the resources that nodes offer, the schedulers that run, and whether a
    device plugin mounts a library; each value with the reason.

    \b
    Examples:
      vgpu-webhook check
      vgpu-webhook check --pre > values.yaml
      vgpu-webhook check mappings/ settings.yaml
      helm template ./chart | vgpu-webhook check -
    """  # noqa: D301, RUF002  (click wants the backspace itself; the cross is one)
    if pre:
        if files or output is not None or source.from_files:
            raise click.UsageError("--pre prints a values file for a cluster: remove files, -o and options of a policy")
        click.echo(_values_for(source), nl=False)
        return
    if late := [file for file in files if file.startswith("-") and file != "-" and not Path(file).exists()]:
        raise click.UsageError(f"{late[0]} is read as a file, because it follows one: options come first")
    offline = bool(files or source.from_files)
    if not offline:
        if output == "github":
            raise click.UsageError(f"-o {output} applies to files: name them, or write -o json or -o junit")
        found, title = _of_cluster(source), None
    else:
        found, title = _of_files(files, source, strict=strict)
    if offline and output is None:
        _print_lines(found, title)
    else:
        click.echo(formatted(found, output or "text", title), nl=False)
    if failed := {check.name for check, result in found if result.level is Level.ERROR}:
        raise click.exceptions.Exit(DENIED if failed == {"denied"} else FOUND)


def _of_files(
    files: Sequence[str], source: PolicyOptions, *, strict: bool
) -> tuple[list[tuple[Check[Any], Result]], str | None]:
    from webhook.cli.file_checks import FILE_CHECKS, ReadFiles, read_files
    from webhook.cli.policy_source import sourced_policy

    base = sourced_policy(source)
    read = (
        read_files(files, base.with_documents, strict=strict) if files else ReadFiles((), [], base.policy, (), strict)
    )
    changed = ", changed by the documents in the files" if read.documents else ""
    alone = bool(files) and not read.documents and not read.objects  # each values file is checked by itself
    return [(each, _answered(each, read)) for each in FILE_CHECKS], None if alone else f"{base.title}{changed}"


def _answered(check: Check[Result], read: "ReadFiles") -> Result:
    try:
        return check.answer(read)
    except Exception as problem:  # noqa: BLE001  (one check ends no other)
        return unanswered(problem)


def _of_cluster(source: PolicyOptions) -> list[tuple[Check[Any], Result]]:
    from webhook.doctor.checks import examine
    from webhook.doctor.reading import ClusterReader

    return [*in_cluster(source, lambda api, own: examine(ClusterReader(api, own, dt.datetime.now(dt.UTC))))]


def _values_for(source: PolicyOptions) -> str:
    from webhook.doctor.checks import proposed
    from webhook.doctor.reading import ClusterReader
    from webhook.mapping.load import load_policy

    try:
        return in_cluster(
            source, lambda api, own: proposed(ClusterReader(api, own, dt.datetime.now(dt.UTC), load_policy()))
        )
    except UnansweredError as problem:
        raise Failure([problem.result.message, *problem.result.details]) from problem


def _print_lines(found: Sequence[tuple[Check[Any], Result]], title: str | None) -> None:
    """Print what every command prints about its input: a line for each warning and problem."""
    if found[0][1].level is not Level.ERROR:
        if title is not None:
            tell(f"policy: {title}", err=False)
        tell(found[0][1].message, err=False)
    for level in (Level.WARNING, Level.ERROR):
        for detail in (detail for _, result in found if result.level is level for detail in result.details):
            tell(f"{level.value}: {detail}")


_MARKS: Final = {Level.OK: "✓", Level.WARNING: "‼", Level.ERROR: "×"}  # noqa: RUF001  (a cross)
_COLORS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}


def as_text(found: Sequence[tuple[Check[Any], Result]], policy: str | None = None) -> str:
    """Format sections with a line for each check; `click.echo` strips the colors if stdout is not a terminal."""
    lines = [] if policy is None else [f"policy: {policy}"]
    section = ""
    for check, result in found:
        if check.section != section:
            section = check.section
            lines += ([""] if lines else []) + [click.style(section, bold=True)]
        lines += _lines(check.name, result)
    return "\n".join([*lines, "", _summary([result for _, result in found])]) + "\n"


def as_json(found: Sequence[tuple[Check[Any], Result]], policy: str | None = None) -> str:
    """Format the same as JSON."""
    checks = [
        {
            "name": check.name,
            "section": check.section,
            "level": result.level.value,
            "message": result.message,
            "details": list(result.details),
            "hint": result.hint,
        }
        for check, result in found
    ]
    under = {} if policy is None else {"policy": policy}
    return json_text({**under, "ok": all(result.level is not Level.ERROR for _, result in found), "checks": checks})


def formatted(found: Sequence[tuple[Check[Any], Result]], output: str, policy: str | None) -> str:
    """Format results; `policy` says under which policy files were checked, in what is no report."""
    texts = {"text": as_text, "json": as_json}
    return texts[output](found, policy) if output in texts else REPORTS[output](_report_of(found))


def _report_of(found: Sequence[tuple[Check[Any], Result]]) -> CommandReport:
    """Return a report: each check is a rule and a test case; details of a warning are its output."""
    cases = []
    for check, result in found:
        advice = [f"next: {result.hint}"] if result.hint else []
        failed = result.level is Level.ERROR
        failures = [result.message, *result.details, *advice] if failed else []
        told = not failed and (result.details or result.level is Level.WARNING)
        output = [f"{result.level.value}: {result.message}", *result.details, *advice] if told else []
        cases.append((check.section, check.name, failures, output))
    lines = [
        ReportLine(check.name, result.level, text, at)
        for check, result in found
        for text, at in zip(result.details, result.at or [FileLine()] * len(result.details), strict=True)
    ]
    return CommandReport("check", cases, lines)


def _lines(name: str, result: Result) -> Iterator[str]:
    mark = click.style(_MARKS[result.level], fg=_COLORS[result.level])
    first, *rest = prose(f"{name}: {result.message}", "  ", "  ")
    yield f"{mark} {first.lstrip()}"
    yield from rest
    for detail in result.details:
        yield from prose(" ".join(detail.split()), "    - ", "      ")
    if result.hint:
        yield from prose(result.hint, "    → ", "      ")


def _summary(results: Sequence[Result]) -> str:
    counts = {level: sum(result.level is level for result in results) for level in Level}
    return ", ".join(f"{number} {_MARKS[level]}" for level, number in counts.items() if number)
