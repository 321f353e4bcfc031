"""The output of `mutate`: documents, patches or differences."""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import click

from webhook.cli.manifests.simulate import Simulated
from webhook.cli.output.yaml_output import yaml_stream, yaml_text

Format: TypeAlias = Literal["yaml", "json", "patch", "diff"]

_COLORS: Final = {"+": "green", "-": "red", "@": "cyan"}


def as_yaml(outcome: Simulated) -> str:
    """Format the documents, as a stream if there are several."""
    return yaml_stream(outcome.documents)


def as_json(outcome: Simulated) -> str:
    """Format the document; a ``List`` if there were several, even if fewer remain."""
    if not outcome.single:
        return _json({"apiVersion": "v1", "kind": "List", "items": outcome.documents})
    return "".join(map(_json, outcome.documents))


def as_patch(outcome: Simulated) -> str:
    """Format one JSON Patch (RFC 6902) per object, each on a line; ``[]`` if nothing changes."""
    lines = [json.dumps(each.patch, ensure_ascii=False) for each in outcome.objects if each.after is not None]
    return "".join(f"{line}\n" for line in lines)


def as_diff(outcome: Simulated) -> str:
    """Format unified differences of the objects in YAML; `click.echo` strips the colors if stdout is not a terminal."""
    return "".join(line for each in outcome.objects for line in _diff(each.title, each.before, each.after))


FORMATS: Final[Mapping[Format, Callable[[Simulated], str]]] = {
    "yaml": as_yaml,
    "json": as_json,
    "patch": as_patch,
    "diff": as_diff,
}


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _diff(title: str, before: dict[str, Any], after: dict[str, Any] | None) -> Iterator[str]:
    if after is None or after == before:
        return
    old, new = (yaml_text(data).splitlines() for data in (before, after))
    for number, line in enumerate(
        difflib.unified_diff(old, new, f"{title} as written", f"{title} as stored", lineterm="")
    ):
        if number < 2:  # noqa: PLR2004  (the two lines of the heading)
            yield click.style(line, bold=True) + "\n"
        else:
            yield click.style(line, fg=_COLORS.get(line[0])) + "\n"
