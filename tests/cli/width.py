"""Which lines of a command are longer than they should be."""

import re
from collections.abc import Iterator

import click

from webhook.cli.terminal import WIDTH, prose

_BEFORE = re.compile(r"^[^\w`/<{'\"]*(?:env )?")
"""Indentation, marks of a list, and the word before a variable."""


def too_long(text: str) -> Iterator[str]:
    """Yield the lines beyond `WIDTH` that could have been wrapped.

    Not those with one word, or one thing to paste, nor the first line that names the files of a policy.
    """
    for line in click.unstyle(text).splitlines():
        if line.startswith(("policy: ", "as if every namespace ")):
            continue
        if len(line) > WIDTH and len(prose(_BEFORE.sub("", line), width=1)) > 1:
            yield line
