"""``vgpu-webhook check``: are these documents in order? For a pipeline, and for a hook before a commit."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.failure import Failure

if TYPE_CHECKING:
    from webhook.cli.config_maps import Found
    from webhook.mapping.problem import Problem

STDIN: Final = "-"
SUFFIXES: Final = {".yaml", ".yml", ".json"}


@click.command()
@click.argument("files", metavar="FILE|DIR|-...", nargs=-1, required=True)
def check(files: tuple[str, ...]) -> None:
    """Check mapping and settings documents, together, over the built-in mappings.

    Files hold them plainly, or in ConfigMaps; objects of other kinds are passed over. Of a folder every YAML and JSON
    file in it and below it is read, - is standard input.

    \b
    Exit codes: 0 all of them would be in force
                1 they would not: every problem with file, line, path and what to write instead

    \b
    Examples:
      vgpu-webhook check mappings/ settings.yaml
      helm template ./chart | vgpu-webhook check -
    """  # noqa: D301  (click wants the backspace itself)
    from webhook.cli.documents import documents_of

    found: list[Found] = []
    problems: list[Problem] = []
    for source, body in _bodies(files):
        more, wrong = documents_of(body, source)
        found += more
        problems += wrong
    problems += _problems(found, alone=bool(problems))
    if problems:
        raise Failure(map(str, problems))
    mappings = sum(one.kind == "mapping" for one in found)
    click.echo(f"in order: {mappings} mapping{'' if mappings == 1 else 's'}, {len(found) - mappings} settings")


def _problems(found: "Sequence[Found]", *, alone: bool) -> "Sequence[Problem]":
    """What is wrong with documents, each by itself and (unless some could not be read) with each other."""
    from webhook.mapping.load import build_policy, prepare, settings_of
    from webhook.mapping.problem import MappingError, Problem

    mappings = [one.document for one in found if one.kind == "mapping"]
    settings = [one.document for one in found if one.kind == "settings"]
    problems = [
        Problem(f"the settings are in {settings[0].source} already", source=one.source, line=one.lines.get(()))
        for one in settings[1:]
    ]
    try:
        if not alone:
            build_policy(mappings, settings[0] if settings else None)
            return problems
    except MappingError as error:
        return [*problems, *error.problems]
    for one in found:
        try:
            if one.kind == "mapping":
                prepare(one.document)
            else:
                settings_of(one.document, None)
        except MappingError as error:
            problems += error.problems
    return problems


def _bodies(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        if file == STDIN:
            yield "stdin", sys.stdin.buffer.read()
            continue
        for path in _paths(Path(file)):
            try:
                yield str(path), path.read_bytes()
            except OSError as error:
                raise Failure([f"{path}: {error.strerror}"]) from error


def _paths(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file())
