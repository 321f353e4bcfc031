"""Input that cannot be used: told on stderr, line by line, with exit code 1."""

from collections.abc import Iterable

import click


class Failure(click.ClickException):
    """What is wrong with a file, a mapping or an argument; nothing was printed to stdout.

    Args:
        messages: one line each, naming file and line where they are known.
    """

    exit_code = 1

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = tuple(messages)
        super().__init__("\n".join(self.messages))

    def show(self, file: object = None) -> None:
        del file
        for message in self.messages:
            click.echo(f"error: {message}", err=True)
