"""``vgpu-webhook test``: runs cases, for pipelines; this project's own tests are cases, too.

A case is a folder with ``pod.yaml``: a pod, or anything with pods. It may have ``namespace.yaml`` (else its namespace has
opted in and permits everything), ``settings.yaml`` and a folder ``mappings``. What is expected is recorded (``expected.yaml``,
what is stored, unless all is denied; ``report.txt``, what is reported), or written by hand (``expect.yaml``), or both.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import click
import msgspec
from msgspec import Struct
from msgspec.structs import astuple
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from webhook.admission.decision import Decision
from webhook.cli.files import Manifest, ManifestError, read_manifests, yaml_stream
from webhook.cli.options import GivenPath, PolicyCommand, PolicyOptions, output_option, policy_options
from webhook.cli.policy_source import WithDocuments, sourced_policy
from webhook.cli.simulate import SimulatedObject, SimulatedPod, simulate
from webhook.cli.terminal import FOUND, REPORTS, CommandReport, Failure, ReportLine, json_text, prose
from webhook.cli.workloads import mapping_or_empty
from webhook.doctor import FileLine, Level
from webhook.mapping.document import MappingError, parse, path_text
from webhook.mapping.load import documents_in, settings_in
from webhook.mapping.strict import API_VERSION, SOME, Strict, validated
from webhook.reasons import BY_CODE, Finding, explanation_of

Results: TypeAlias = Mapping[str, Sequence[str]]
"""The folders of cases, each with what is not as expected."""


@click.command(cls=PolicyCommand)
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=GivenPath(path_type=Path))
@policy_options
@click.option("--update", is_flag=True, help="Record what becomes of each case: report.txt and expected.yaml.")
@output_option("text", "json", *REPORTS, means="The report.")
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
    texts = {"text": _as_text, "json": _as_json}
    click.echo(texts[output](results) if output in texts else REPORTS[output](_report(results)), nl=False)
    if any(results.values()):
        raise click.exceptions.Exit(FOUND)


def _as_text(results: Results) -> str:
    """Format each case that is not as expected, and the number of the others."""
    failed = {name: failures for name, failures in results.items() if failures}
    lines: list[str] = []
    for name, failures in failed.items():
        lines.append(click.style(f"× {name}", fg="red"))  # noqa: RUF001  (a cross)
        lines += [*(line for failure in failures for line in _failure_lines(failure)), ""]
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


POD: Final = "pod.yaml"
NAMESPACE: Final = "namespace.yaml"
SETTINGS: Final = "settings.yaml"
MAPPINGS: Final = "mappings"
STORED: Final = "expected.yaml"
REPORT: Final = "report.txt"
EXPECTATION: Final = "expect.yaml"
OF_A_CASE: Final = (POD, STORED, REPORT, EXPECTATION)
"""Files by which a folder is a case."""
KNOWN: Final = frozenset({POD, NAMESPACE, SETTINGS, MAPPINGS, STORED, REPORT, EXPECTATION})

DEFAULT_NAMESPACE: Final = "team"
DIGEST: Final = "0" * 12
"""Stands for the policy's digest in what is recorded: it changes with every version."""


def _known_code(code: str) -> str:
    if code not in BY_CODE:
        raise PydanticCustomError("code", "should be a code of a reason, as `vgpu-webhook codes` lists them")
    return code


Code = Annotated[str, Field(pattern=r"^VGW[0-9]{3}$"), AfterValidator(_known_code)]


class Expectation(Strict):
    """What a person expects of a case; what is left out is not compared."""

    api_version: Literal["vgpu-webhook.io/v1alpha1"] = Field(API_VERSION)
    kind: Literal["Expectation"] = "Expectation"
    denied: Code | None = Field(None, description="the code of a denial; without it, nothing may be denied")
    warnings: list[Code] | None = Field(None, max_length=SOME, description="the codes of all warnings, in any order")
    stored: dict[str, Any] | None = Field(
        None,
        description="a part of what is stored of the first object: maps may have more keys; of a list whose entries have "
        "names, each is compared with the entry of that name, and there may be others",
    )


class Ran(Struct, frozen=True):
    """What became of a case: its report, the objects that would be stored with what they need, and codes in order."""

    report: str
    stored: tuple[dict[str, Any], ...]
    denials: tuple[str, ...]
    warnings: tuple[str, ...]


def cases_in(places: Sequence[Path]) -> list[Path]:
    """Find the folders of cases, in these folders and below; one with another file of a case lacks its manifest."""
    found: dict[Path, None] = {}
    for place in places:
        if not place.is_dir():
            raise Failure([f"{place}: {'is no folder' if place.exists() else 'no such folder'}"])
        cases = sorted({each.parent for name in OF_A_CASE for each in place.rglob(name)})
        if not cases:
            raise Failure([f"{place}: no case: a case is a folder with a {POD}"])
        found.update(dict.fromkeys(cases))
    return [*found]


def judged_case(folder: Path, with_documents: WithDocuments, *, update: bool) -> tuple[str, ...]:
    """Run a case, and compare it with what is expected; return what differs."""
    try:
        ran = run_case(folder, with_documents)
        expectation = _expectation(folder / EXPECTATION)
        if update and (expectation is None or (folder / REPORT).exists()):
            _record(folder, ran)
        return tuple(_failures(folder, ran, expectation))
    except MappingError as error:
        return tuple(map(str, error.problems))
    except ManifestError as error:
        return (str(error),)
    except OSError as error:
        return (f"{error.filename}: {error.strerror}",)


def run_case(folder: Path, with_documents: WithDocuments) -> Ran:
    """Decide on what is in a case.

    Raises:
        MappingError: a mapping or the settings are invalid.
        ManifestError: a manifest cannot be read.
        OSError: a file cannot be read.
    """
    mappings, settings = (part if part.exists() else None for part in (folder / MAPPINGS, folder / SETTINGS))
    policy = with_documents(documents_in(mappings), settings_in(settings), partial=False)
    namespaces = _read(folder / NAMESPACE)
    names = [mapping_or_empty(each.data.get("metadata")).get("name") for each in namespaces]
    pod_file = folder / POD
    manifests = [*namespaces, *read_manifests(pod_file.read_bytes(), str(pod_file))]
    simulated = simulate(manifests, policy, namespace=next(iter(names), None) or DEFAULT_NAMESPACE)
    if simulated.errors:
        raise ManifestError(simulated.errors[0])
    if not (pods := [(each, pod) for each in simulated.objects for pod in each.pods]):
        raise OSError(0, "contains no pod, and nothing with pods", str(pod_file))
    decisions = [pod.decision for _, pod in pods]
    whole = [part for each in simulated.objects if each.after is not None for part in (each.after, *each.needed)]
    recorded = msgspec.json.encode(whole).replace(policy.digest.encode(), DIGEST.encode())
    return Ran(
        "".join(f"{_heading(each, pod) if len(pods) > 1 else ''}{report(pod.decision)}" for each, pod in pods),
        tuple(msgspec.json.decode(recorded, type=list[dict[str, Any]])),
        tuple(each.denial.reason.code for each in decisions if each.denial is not None and not each.allowed),
        tuple(finding.reason.code for each in decisions for finding in each.warnings),
    )


def _heading(simulated: SimulatedObject, pod: SimulatedPod) -> str:
    return f"{simulated.title}{f' {pod.path}' if pod.path else ''}:\n"


def _read(file: Path) -> list[Manifest]:
    return read_manifests(file.read_bytes(), str(file)) if file.exists() else []


def _expectation(file: Path) -> Expectation | None:
    if not file.exists():
        return None
    documents = parse(file.read_text("utf-8", "surrogateescape"), str(file))
    if len(documents) != 1:
        raise OSError(0, f"contains {len(documents)} documents, not one", str(file))
    return validated(Expectation, documents[0].data, documents[0])


def _record(folder: Path, ran: Ran) -> None:
    (folder / REPORT).write_text(ran.report, encoding="utf-8")
    if ran.stored:
        (folder / STORED).write_text(yaml_stream(ran.stored), encoding="utf-8")
    else:
        (folder / STORED).unlink(missing_ok=True)


def _failures(folder: Path, ran: Ran, expectation: Expectation | None) -> Iterator[str]:
    unknown = sorted(each.name for each in folder.iterdir() if each.name not in KNOWN and not each.name.startswith("."))
    if unknown:
        yield f"is not read: {', '.join(unknown)}; a case may have {', '.join(sorted(KNOWN))}"
    stored, reported = folder / STORED, folder / REPORT
    if expectation is None and not stored.exists() and not reported.exists():
        yield f"nothing is expected: write {EXPECTATION}, or record what becomes of it with --update"
    if reported.exists() and (text := reported.read_text("utf-8", "replace")) != ran.report:
        yield _difference(REPORT, text, ran.report)
    if stored.exists() or reported.exists():
        expected = [each.data for each in _read(stored)]
        if expected != list(ran.stored):
            yield _difference(STORED, yaml_stream(expected), yaml_stream(ran.stored))
    if expectation is not None:
        yield from _unexpected(expectation, ran)


def _difference(name: str, expected: str, actual: str) -> str:
    lines = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), f"{name} as recorded", f"{name} now", lineterm=""
    )
    return "\n".join(lines)


def _unexpected(expectation: Expectation, ran: Ran) -> Iterator[str]:
    """What a person expects and does not get."""
    if expectation.denied is None and ran.denials:
        yield f"is denied: {ran.report.strip()}"
    if expectation.denied is not None and expectation.denied not in ran.denials:
        yield f"should be denied with {expectation.denied}: {ran.report.strip()}"
    if expectation.warnings is not None and sorted(expectation.warnings) != sorted(ran.warnings):
        expected, actual = (", ".join(sorted(codes)) or "none" for codes in (expectation.warnings, ran.warnings))
        yield f"warnings should be {expected}, and are {actual}"
    if expectation.stored is not None:
        yield from _missing(expectation.stored, ran.stored[0] if ran.stored else None, ())


def _missing(expected: Any, actual: Any, path: tuple[str | int, ...]) -> Iterator[str]:
    """What of an expected value is not in the actual one, by path."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key, value in expected.items():
            yield from _missing(value, actual.get(key), (*path, key))
    elif isinstance(expected, list) and isinstance(actual, list) and all(_name(each) for each in expected):
        named = {_name(each): each for each in actual}
        for each in expected:
            yield from _missing(each, named.get(_name(each)), (*path, str(_name(each))))
    elif expected != actual and not (_is_number(expected, actual) and str(expected) == str(actual)):
        yield f"{path_text(path) or 'the object'} should be {expected!r}, and is {actual!r}"


def _is_number(*values: Any) -> bool:
    """Whether these are numbers, of which a manifest may write those of quantities as texts, too."""
    return all(isinstance(value, int | float | str) and not isinstance(value, bool) for value in values)


def _name(value: Any) -> Any:
    return value.get("name") if isinstance(value, Mapping) else None


def report(decision: Decision) -> str:
    """Return all that is reported: what it is about, with its value; a number that was changed; notes as well."""
    title = explanation_of(decision.reason).title
    if decision.denial is not None:
        lines = [f"denied, {decision.reason.status}: {title}", _reported(decision.denial)]
    else:
        lines = [f"allowed: {title}"]
    lines += [f"warning: {_reported(finding)}" for finding in decision.warnings]
    lines += [f"note: {_reported(finding)}" for finding in decision.notes]
    return "\n".join([*lines, ""])


def _reported(finding: Finding) -> str:
    text = f"{finding.reason.code}: {finding.sentence}"
    if finding.field is not None:
        text += f" [{finding.field}{'' if finding.value is None else f' = {finding.value}'}]"
    if finding.step is not None:
        text += f" ({', '.join(astuple(finding.step))})"
    return text
