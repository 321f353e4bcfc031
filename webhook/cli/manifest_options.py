"""Options of the commands that read manifests, and the manifests that they name."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.failure import Failure
from webhook.cli.manifests.documents import files_in
from webhook.cli.options import Command, policy_options

if TYPE_CHECKING:
    from webhook.cli.manifests.read import Manifest
    from webhook.cli.manifests.simulate import Simulated
    from webhook.mapping.document.problem import Problem

DENIED: Final = 2
"""Exit code when an object was denied."""

STDIN: Final = "-"


def manifest_options(*, required: bool) -> Callable[[Command], Command]:
    """Give a command the options of manifests, from ``-f`` to ``--strict``, and those of `policy_options`.

    Args:
        required: whether the command requires ``-f``.
    """
    files = click.option(
        "-f",
        "--filename",
        "files",
        metavar="FILE|DIR|-",
        multiple=True,
        required=required,
        help="Manifests in YAML or JSON; a folder is read recursively. Repeatable.",
    )
    namespace = click.option(
        "-n", "--namespace", metavar="NAME", help="Namespace of objects that name none.  [default: default]"
    )
    target = click.option(
        "--to", "target", metavar="VENDOR", help="Translate every request to this vendor, for instance nvidia."
    )
    template_paths = click.option(
        "--template-path",
        "template_paths",
        metavar="PATH",
        multiple=True,
        help="Path of further pod templates or pod specs, * for any key: spec.replicaSpecs.*.template. Repeatable.",
    )

    strict = click.option(
        "--strict", is_flag=True, help="End with exit code 1 if a request for a GPU is in no pod that was found."
    )

    def add(command: Command) -> Command:
        return files(namespace(policy_options(target(template_paths(strict(command))))))

    return add


def end(
    manifests: "Sequence[Manifest]",
    problems: "Sequence[Problem]",
    outcome: "Simulated",
    *,
    denied: bool,
    strict: bool,
) -> None:
    """Print what was not read or not judged, and exit with 1 or 2 if something was wrong.

    Args:
        manifests: the documents.
        problems: why other documents could not be read.
        outcome: the result for all documents, already printed.
        denied: whether an object was denied.
        strict: whether a request that nothing judged is an error.
    """
    for warning in (each for manifest in manifests for each in manifest.warnings):
        click.echo(f"warning: {warning}", err=True)
    errors = [*problems, *outcome.errors]
    for error in errors:
        click.echo(f"error: {error}", err=True)
    unjudged = [f"{each.title}: {text}" for each in outcome.objects for text in each.unjudged]
    for text in unjudged:
        click.echo(f"{'error' if strict else 'warning'}: {text}", err=True)
    if errors or (strict and unjudged):
        sys.exit(Failure.exit_code)
    if denied:
        sys.exit(DENIED)


def check_template_paths(outcome: "Simulated") -> None:
    """Check that each template path matched something.

    Raises:
        Failure: one did not.
    """
    if outcome.unmatched:
        raise Failure([f"--template-path {path}: matches no pod template or pod spec" for path in outcome.unmatched])


def manifests_in(files: Iterable[str]) -> "tuple[list[Manifest], list[Problem]]":
    """Read the documents of these files, and of the files in these folders; ``-`` is standard input.

    Returns:
        The documents, and the problem of each that cannot be read.

    Raises:
        Failure: a file or no document can be read, or there is none.
        click.UsageError: standard input is named twice.
    """
    from webhook.cli.manifests.read import read_stream

    manifests: list[Manifest] = []
    problems: list[Problem] = []
    names = list(files)
    if names.count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once")
    for name in names:
        if name == STDIN:
            found, wrong = read_stream(sys.stdin.buffer.read(), "standard input")
            manifests, problems = manifests + found, problems + wrong
            continue
        for path in files_in(Path(name)):
            try:
                body = path.read_bytes()
            except OSError as error:
                raise Failure([f"{path}: {error.strerror}"]) from error
            found, wrong = read_stream(body, str(path))
            manifests, problems = manifests + found, problems + wrong
    if not manifests:
        raise Failure([str(each) for each in problems] or [f"{', '.join(names)}: no document"])
    return manifests, problems
