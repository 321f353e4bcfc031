"""`vgpu-webhook mutate` in this process, on what the API server received."""

import json
from dataclasses import dataclass

from click.testing import CliRunner

from .client import Object
from .examples import MAPPINGS, SETTINGS, Example, namespaces


@dataclass(frozen=True, slots=True)
class Offline:
    """What the command answered.

    Attributes:
        exit_code: 0 done, 2 denied.
        manifest: what it printed, None if it was denied.
        warnings: the texts after `warning: OBJECT: `.
        errors: the texts after `error: OBJECT: `.
    """

    exit_code: int
    manifest: Object | None
    warnings: tuple[str, ...]
    errors: tuple[str, ...]


def mutate(example: Example) -> Offline:
    """Run the command on an example and the namespaces, as `mutate -f - -o json` gets them by a pipe."""
    from webhook.cli import main

    # JSON is YAML: a stream of documents.
    stream = "\n---\n".join(json.dumps(document) for document in [*namespaces(), example.manifest])
    command = ["mutate", "-f", "-", "-o", "json", "--namespace", example.namespace]
    command += ["--mappings", str(MAPPINGS), "--settings", str(SETTINGS)]
    result = CliRunner().invoke(main, command, input=stream, catch_exceptions=False)
    lines = [line.partition(": ") for line in result.stderr.splitlines()]
    return Offline(
        result.exit_code,
        _only(json.loads(result.stdout)) if result.stdout.strip() else None,
        tuple(rest.partition(": ")[2] for kind, _, rest in lines if kind == "warning"),
        tuple(rest.partition(": ")[2] for kind, _, rest in lines if kind == "error"),
    )


def _only(printed: Object) -> Object | None:
    """Return the one document that was printed; several would come as a `List`."""
    if printed["kind"] != "List":
        return printed
    items: list[Object] = printed["items"]
    return items[0] if len(items) == 1 else None
