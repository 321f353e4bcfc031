"""``vgpu-webhook check``: checks mapping and settings documents, or without files an installation.

The former is for pipelines and pre-commit hooks, the latter for operators of a cluster.
"""

import asyncio
import datetime as dt
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.failure import Failure
from webhook.cli.manifests.documents import files_in
from webhook.cli.options import of_cluster

if TYPE_CHECKING:
    from webhook.cli.manifests.documents import FoundDocument
    from webhook.cli.manifests.read import Manifest
    from webhook.mapping.document.problem import Problem
    from webhook.mapping.model.policy import Policy

STDIN: Final = "-"
BROKEN: Final = 2
"""Exit code if a check of an installation failed."""


@click.command()
@click.argument("files", metavar="[FILE|DIR|-]...", nargs=-1)
@of_cluster()
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    help="Without files: the report as text or JSON.",
)
def check(files: tuple[str, ...], kubeconfig: Path | None, release_namespace: str | None, output: str | None) -> None:
    """Check an installation; or, with FILEs, mapping and settings documents.

    Without files: examines the cluster without changing it, and reports each check as passed (✓), a warning (‼) or
    failed (×), with the next command to run.

    With files: checks their documents together with the built-in mappings, without a cluster. Documents are plain or in
    ConfigMaps. Folders are read recursively, - is standard input. In other objects, these get a warning: a DeviceClass
    that serves a key of a mapping, and a pod or pod template with a resource claim beside a GPU request in one container.
    What admission only records in a pod's status is a note: one line for each file.

    \b
    Exit codes with files:    0 all documents are valid; a vendor that must be configured first is reported on stderr
                              1 a document is invalid: every problem with file, line, path and what to write instead;
                                or there is no document
    Exit codes without files: 0 no check failed
                              2 a check failed
                              1 no cluster is configured

    \b
    Examples:
      vgpu-webhook check
      vgpu-webhook check mappings/ settings.yaml
      helm template ./chart | vgpu-webhook check -
    """  # noqa: D301, RUF002  (click wants the backspace itself; the cross is one)
    if not files:
        _examine(kubeconfig, release_namespace, output or "text")
        return
    if any(option is not None for option in (kubeconfig, release_namespace, output)):
        raise click.UsageError("options of the cluster do not apply to files: remove the options, or the files")
    from webhook.cli.manifests.documents import documents_of, header_warnings, objects_in
    from webhook.cli.manifests.simulate import allocation_warnings, own_key_warnings, pod_notes
    from webhook.mapping.requests.values import unreadable

    found: list[FoundDocument] = []
    problems: list[Problem] = []
    objects: list[Manifest] = []
    for source, body in _bodies(files):
        more, wrong = documents_of(body, source)
        objects += [] if wrong else objects_in(body, source)
        found += more
        problems += wrong
    if not found and not objects and not problems:
        raise Failure([f"{', '.join(files)}: no document found"])
    policy, together = _together(found, partial=bool(problems))
    problems += together
    if problems or policy is None:
        raise Failure(map(str, problems))
    mappings = sum(document.kind == "mapping" for document in found)
    click.echo(f"in order: {mappings} mapping{'' if mappings == 1 else 's'}, {len(found) - mappings} settings")
    keys = own_key_warnings(objects, policy)
    for warning in (
        *header_warnings(found),
        *unreadable(policy.vendors.values()),
        *keys,
        *allocation_warnings(objects, policy),
    ):
        click.echo(f"warning: {warning}", err=True)
    for note in pod_notes(objects, policy):
        click.echo(f"note: {note}")


def _examine(kubeconfig: Path | None, release_namespace: str | None, output: str) -> None:
    from webhook.cli.output.check import as_data, as_text
    from webhook.cluster.client.api import ConfigurationError
    from webhook.cluster.client.connection import connect, release_namespace_of
    from webhook.doctor.checks import examine
    from webhook.doctor.collect import collect_facts
    from webhook.doctor.facts import ClusterFacts, Level

    async def facts() -> ClusterFacts:
        api = await connect(kubeconfig)
        try:
            return await collect_facts(api, namespace, dt.datetime.now(dt.UTC))
        finally:
            await api.close()

    namespace = release_namespace_of(release_namespace)
    try:
        found = list(examine(asyncio.run(facts())))
    except ConfigurationError as error:
        raise Failure([str(error)]) from error
    if output == "json":
        click.echo(json.dumps(as_data(found), indent=2, ensure_ascii=False))
    else:
        click.echo(as_text(found), nl=False)
    if any(result.level is Level.ERROR for _, result in found):
        raise click.exceptions.Exit(BROKEN)


def _together(found: "Sequence[FoundDocument]", *, partial: bool) -> "tuple[Policy | None, Sequence[Problem]]":
    """Build the policy of documents, or list every problem, of each alone and of all together.

    Args:
        found: the documents that could be read.
        partial: others could not be read.
    """
    from webhook.mapping.document.problem import MappingError, Problem
    from webhook.mapping.load import build_policy

    mappings = [each.document for each in found if each.kind == "mapping"]
    settings = [each.document for each in found if each.kind == "settings"]
    problems = [
        Problem(
            f"a second settings document, after {settings[0].source}", source=extra.source, line=extra.lines.get(())
        )
        for extra in settings[1:]
    ]
    try:
        policy = build_policy(mappings, settings[0] if settings else None, partial=partial)
    except MappingError as error:
        return None, [*problems, *error.problems]
    return policy, problems


def _bodies(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        if file == STDIN:
            yield "stdin", sys.stdin.buffer.read()
            continue
        paths = files_in(Path(file))
        if not paths:
            raise Failure([f"{file}: nothing found: the folder contains no YAML or JSON file"])
        for path in paths:
            try:
                yield str(path), path.read_bytes()
            except OSError as error:
                raise Failure([f"{path}: {error.strerror}"]) from error
