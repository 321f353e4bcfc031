"""values.yaml → every value with its default and its description, and the README that lists them."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from deploy.generate import CHART, DEPLOY

DEFAULTS: Final = DEPLOY.parent / "webhook" / "cli" / "chart-values.yaml"
"""The chart's own values for the program, which has no chart where it is installed."""

MARK: Final = "# -- "
_KEY: Final = re.compile(r"( *)([A-Za-z]\w*):")
_LONGEST: Final = 60
"""Characters of a default that a table can bear."""

_HEAD: Final = """\
# vgpu-webhook

The Helm chart of [vgpu-webhook](../../README.md). [docs/install.md](../../docs/install.md) describes how to install, upgrade
and remove it, also with provided certificates, with GitOps tools and with a private API server.

It requires Kubernetes 1.30 or newer, and Helm 3.14 or newer or Helm 4. A cluster has one installation: Helm rejects a second
one.

## Values

<!-- This table is written by `make docs`, from the comments in values.yaml. -->

| value | meaning | default |
|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart.

    Attributes:
        path: its keys, the outermost first.
        default: its default.
        meaning: its comment in values.yaml.
    """

    path: tuple[str, ...]
    default: Any
    meaning: str

    @property
    def name(self) -> str:
        """Its name, as for `--set`."""
        return ".".join(self.path)


class UndescribedError(Exception):
    """A value has no comment; the text names it."""


def values() -> list[Value]:
    """Every value, in the order of values.yaml; the parts of a described value are not listed.

    Raises:
        UndescribedError: one has no comment.
    """
    text = (CHART / "values.yaml").read_text()
    described = _described(text)
    found: list[Value] = []
    _walk(yaml.safe_load(text), (), described, found)
    left = set(described) - {value.path for value in found}
    if left:
        raise UndescribedError(f"comments about what is no value: {sorted(left)}")
    return found


def readme() -> str:
    """The chart's README."""
    rows = (f"| `{value.name}` | {value.meaning} | {_default(value.default)} |\n" for value in values())
    return _HEAD + "".join(rows)


def _described(text: str) -> dict[tuple[str, ...], str]:
    described: dict[tuple[str, ...], str] = {}
    path: list[tuple[int, str]] = []
    comment: str | None = None
    for line in text.splitlines():
        if line.lstrip().startswith(MARK):
            comment = line.strip().removeprefix(MARK)
        elif comment is not None and line.lstrip().startswith("# "):
            comment += f" {line.strip().removeprefix('# ')}"
        elif key := _KEY.match(line):
            path = [part for part in path if part[0] < len(key[1])] + [(len(key[1]), key[2])]
            if comment is not None:
                described[tuple(name for _, name in path)] = comment
            comment = None
    return described


def _walk(node: Any, path: tuple[str, ...], described: dict[tuple[str, ...], str], found: list[Value]) -> None:
    if path in described:
        found.append(Value(path, node, described[path]))
    elif isinstance(node, dict) and node:
        for key, value in node.items():
            _walk(value, (*path, key), described, found)
    else:
        raise UndescribedError(f"{'.'.join(path)} in values.yaml has no comment: put `{MARK}...` above it")


def _default(value: Any) -> str:
    if value is None or value == "":
        return ""
    text = json.dumps(value)
    return "see values.yaml" if len(text) > _LONGEST else f"`{text}`"


def defaults() -> str:
    """The values themselves, without comments."""
    data = yaml.safe_load((CHART / "values.yaml").read_text())
    return "# Written by `make docs` from deploy/chart/values.yaml: change that.\n" + yaml.safe_dump(
        data, sort_keys=False
    )
