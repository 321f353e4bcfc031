"""``vgpu-webhook test``: runs cases, folders of manifests with what is expected of them; for pipelines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import click

from webhook.cli.manifests.cases import POD, cases_in, judged_case
from webhook.cli.options import GivenPath, PolicyCommand, PolicyOptions, policy_options
from webhook.cli.policy_source import sourced_policy
from webhook.cli.reports import REPORTS, CommandReport, ReportLine
from webhook.cli.terminal import FOUND, json_text, prose
from webhook.doctor.result import FileLine, Level

Results: TypeAlias = Mapping[str, Sequence[str]]
"""The folders of cases, each with what is not as expected."""


@click.command(cls=PolicyCommand)
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=GivenPath(path_type=Path))
@policy_options
@click.option("--update", is_flag=True, help="Record what becomes of each case: report.txt and expected.yaml.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", *REPORTS]),
    default="text",
    show_default=True,
    help="The report.",
)
def test(*, folders: tuple[Path, ...], source: PolicyOptions, update: bool, output: str) -> None:
    """Test a policy with cases: folders with manifests and what is expected of them.

    A case is a folder with a pod.yaml (a pod, a workload, or several). Beside it:

    \b
      namespace.yaml            its namespace; without it, one that has opted in
      settings.yaml, mappings/  documents over the policy of the options
      expect.yaml               what you expect (`vgpu-webhook schema test`)
      expected.yaml, report.txt what is stored and reported, from --update

    \b
    Examples:
      vgpu-webhook test policies/
      vgpu-webhook test policies/ --values values.yaml -o junit > report.xml
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    with_documents = sourced_policy(source).with_documents
    results = {str(folder): judged_case(folder, with_documents, update=update) for folder in cases_in(folders)}
    click.echo(TEXTS[output](results) if output in TEXTS else REPORTS[output](_report(results)), nl=False)
    if any(results.values()):
        raise click.exceptions.Exit(FOUND)


def _as_text(results: Results) -> str:
    """Format each case that is not as expected, and the number of the others."""
    failed = {name: failures for name, failures in results.items() if failures}
    lines = [
        line
        for name, failures in failed.items()
        for line in (
            click.style(f"× {name}", fg="red"),  # noqa: RUF001  (a cross)
            *(line for failure in failures for line in _failure_lines(failure)),
            "",
        )
    ]
    return "\n".join([*lines, f"{len(results)} cases: {len(results) - len(failed)} as expected, {len(failed)} not", ""])


def _failure_lines(failure: str) -> Iterator[str]:
    """Yield the lines of a failure; those of a difference are never wrapped."""
    for line in failure.splitlines():
        yield from [f"    {line}"] if failure.startswith("---") else prose(line, "    ", "      ")


def _as_json(results: Results) -> str:
    """Format the same as JSON."""
    cases = [{"name": name, "failures": failures} for name, failures in results.items()]
    return json_text({"ok": not any(results.values()), "cases": cases})


def _report(results: Results) -> CommandReport:
    """Return a report with a test case for each; what fails is annotated at the beginning of its manifest."""
    cases = [(str(Path(name).parent), Path(name).name, failures, ()) for name, failures in results.items()]
    lines = [
        ReportLine("case", Level.ERROR, text, FileLine(f"{name}/{POD}", 1))
        for name, failures in results.items()
        for text in failures
    ]
    return CommandReport("test", cases, lines)


TEXTS: Final[Mapping[str, Callable[[Results], str]]] = {"text": _as_text, "json": _as_json}
"""The formats beside those of `REPORTS`."""
