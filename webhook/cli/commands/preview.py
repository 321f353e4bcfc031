"""``vgpu-webhook preview``: what the next pods of workloads would be, before anything is switched on."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import msgspec

from webhook.cli import completing
from webhook.cli.commands.check import as_text
from webhook.cli.manifests.files import manifests_in
from webhook.cli.manifests.preview import (
    NextPod,
    Preview,
    compared,
    next_pods,
    outcomes,
    pods_of,
    preview_pods,
    readiness_of,
)
from webhook.cli.options import (
    GivenPath,
    PolicyCommand,
    PolicyOptions,
    end,
    files_option,
    in_cluster,
    policy_options,
    strict_option,
)
from webhook.cli.terminal import FOUND, aligned, json_text, prose, table_width
from webhook.doctor.result import Check, Result, counted
from webhook.text import shown

if TYPE_CHECKING:
    from webhook.cli.policy_source import SourcedPolicy
    from webhook.cluster.client import Api
    from webhook.mapping.model.policy import Policy


@click.command(cls=PolicyCommand)
@files_option(required=False)
@click.option("-n", "--namespace", metavar="NAME", help="Only this namespace; of files: that of objects without one.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces of the cluster.")
@policy_options
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=completing.setting_names,
    help="Change a setting: bareDevices=whole; `vgpu-webhook schema settings` has them all.",
)
@click.option(
    "--compare",
    "other_values",
    metavar="OTHER-VALUES",
    type=GivenPath(path_type=Path),
    multiple=True,
    help="Only what would change with these values of the chart instead. Repeatable.",
)
@strict_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def preview(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    everywhere: bool,
    source: PolicyOptions,
    changes: tuple[str, ...],
    other_values: tuple[Path, ...],
    strict: bool,
    output: str,
) -> None:
    """Show what the next pods of workloads would be if their namespaces had opted in and enforced the policy.

    Reads the workloads and pods that run in the cluster, page by page, and changes nothing; or manifests. For each: whether
    its pods would be unchanged, get a default, be translated, get another scheduler or the shim, or be denied, and why. A
    namespace's own annotations apply. The policy is the one in force in the cluster, or that of --values, or of --mappings
    and --settings, with the changes of --set. At the end: whether the cluster's nodes, scheduler and device plugins fit it.

    With --compare: of the workloads whose next pods would change, what they are and what they would be; a change is a finding.

    \b
    Examples:
      vgpu-webhook preview -A
      vgpu-webhook preview -n team --set bareDevices=whole
      vgpu-webhook preview -f manifests/
      vgpu-webhook preview -A --values values.yaml --compare new-values.yaml
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    from webhook.cli.policy_source import sourced_policy

    if files and (everywhere or source.in_cluster or source.release_namespace is not None):
        raise click.UsageError("options of the cluster do not apply to files: remove the options, or -f")
    if not files and everywhere == (namespace is not None):
        raise click.UsageError("what should be previewed? -n NAME for one namespace, -A for all, or -f for manifests")
    # The cluster's workloads may be previewed under the policy of files.
    own = replace(source, context=None, kubeconfig=None, release_namespace=None)
    base = sourced_policy(own if source.from_files or files else replace(source, cluster=True))
    policies = [_changed(base, changes)]
    title = ", ".join([base.title, *changes])
    if other_values:
        other = sourced_policy(PolicyOptions(values=other_values))
        policies.append(other.policy)
        title = f"{title}; then {other.title}"
    found_in = _of_files(files, namespace, policies) if files else _of_cluster(source, policies, namespace)
    pods, unread, unjudged, checked = found_in
    found = compared(*pods) if other_values else preview_pods(pods[0])
    click.echo(preview_text(found, title, checked, output), nl=False)
    end(unread, unjudged, denied=bool(outcomes(found.pods)["denied"]), strict=strict)
    if found.pods and other_values:
        sys.exit(FOUND)


def _changed(base: "SourcedPolicy", changes: tuple[str, ...]) -> "Policy":
    """The policy with the settings of ``--set``."""
    from webhook.mapping.document import Document, MappingError, parse
    from webhook.mapping.model.policy import SETTINGS

    values: dict[str, Any] = {} if base.settings is None else dict(base.settings.data)
    try:
        for change in changes:
            key, equals, text = change.partition("=")
            if not equals:
                raise click.BadParameter(f"{change!r} has no value: write KEY=VALUE", param_hint="--set")
            for document in parse(f"{key}: {text}", change):
                values |= document.data
        return base.with_documents((), Document(SETTINGS, values, {}), partial=False) if changes else base.policy
    except MappingError as error:
        raise click.BadParameter("; ".join(str(problem) for problem in error.problems), param_hint="--set") from error


Checked: TypeAlias = Sequence[tuple[Check[Any], Result]]
Read: TypeAlias = tuple[Sequence[Sequence[NextPod]], Sequence[str], Sequence[str], Checked]
"""The pods under each policy, what could not be read, what nothing judged, and whether the cluster can run the pods of
the last one."""


def _of_files(files: tuple[str, ...], namespace: str | None, policies: Sequence["Policy"]) -> Read:
    from webhook.cli.manifests.simulate import simulate

    manifests, problems = manifests_in(files)
    found = [simulate(manifests, policy, problems=problems, namespace=namespace) for policy in policies]
    pods = [[*next_pods(each.objects, policy)] for each, policy in zip(found, policies, strict=True)]
    unread = dict.fromkeys(str(error) for each in found for error in each.errors)
    return pods, tuple(unread), tuple(dict.fromkeys(text for each in found for text in each.unjudged)), ()


def _of_cluster(source: PolicyOptions, policies: Sequence["Policy"], namespace: str | None) -> Read:
    async def read(api: "Api", release: str) -> Read:
        pods, unread = await pods_of(api, policies, namespace)
        return pods, unread, (), await readiness_of(api, policies[-1], release)

    return in_cluster(source, read)


HEADINGS: Final = ("NAMESPACE", "WORKLOAD", "BECOMES", "")


def preview_text(found: Preview, source: str, checked: Checked, output: str) -> str:
    """Format a preview as `output` says: ``table`` or ``json``."""
    if output == "json":
        return json_text(_data(found, source, checked))
    return "\n".join(_table(found, source, checked))


def _data(found: Preview, source: str, checked: Checked) -> dict[str, Any]:
    return {
        "policy": source,
        "pods": [_pod_data(pod) for pod in found.pods],
        "outcomes": outcomes(found.counted),
        "effects": found.effects,
        "codes": found.codes,
        "namespaces": found.namespaces,
        "others" if found.compared else "withoutRequest": found.others,
        "cluster": [{"name": check.name, **msgspec.to_builtins(result)} for check, result in checked],
    }


def _pod_data(pod: NextPod) -> dict[str, Any]:
    data = {name: getattr(pod, name) for name in ("namespace", "workload", "outcome", "effects", "codes", "text")}
    return data if pod.before is None else {**data, "before": _pod_data(pod.before)}


def _table(found: Preview, source: str, checked: Checked) -> Iterator[str]:
    yield f"as if every namespace had opted in and enforced; policy: {source}"
    yield ""
    if found.pods:
        yield "".join(_row_lines([HEADINGS, *(row for pod in found.pods for row in _rows(pod))]))
    which, others = ("that would change", "others") if found.compared else ("with a GPU request", "without one")
    yield f"{counted(len(found.counted), 'template')} {which}: {_counts(outcomes(found.counted))}"
    yield f"{others}: {found.others}"
    for what, counts in (("effects", found.effects), ("codes", found.codes)):
        if counts:
            yield from prose(f"{what}: {_counts(counts)}", rest="  ")
    if len(found.namespaces) > 1:
        yield from (f"namespace {name}: {_counts(counts)}" for name, counts in found.namespaces.items())
    if checked:
        yield ""
        yield as_text(checked).rstrip()
    yield ""


def _row_lines(rows: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    """Yield the lines of a table, details below a row beside which they do not fit."""
    width = table_width()
    for lines, (*_, details) in zip(aligned([cells for *cells, _ in rows], width), rows, strict=True):
        if lines.count("\n") == 1 and len(beside := f"{lines[:-1]}  {details}".rstrip()) <= width:
            yield f"{beside}\n"
        else:
            yield lines
            yield from (f"{line}\n" for line in prose(details, "  ", "    ", width))


def _rows(pod: NextPod) -> Iterator[tuple[str, str, str, str]]:
    """Yield the row of a pod; of a comparison one with what it is, and one with what it would be."""
    cells = _cells(pod)
    if pod.before is None:
        yield cells
    else:
        yield _cells(pod.before)
        yield "", "→ then", *cells[2:]


def _cells(pod: NextPod) -> tuple[str, str, str, str]:
    effects = ", ".join(pod.effects) or ("completed" if pod.outcome == "changed" else "unchanged")
    return pod.namespace, shown(pod.workload), effects, shown(pod.text)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())
