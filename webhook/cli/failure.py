"""The error for unusable input: one line per problem on stderr, exit code 1."""

from collections.abc import Iterable

import click


class Failure(click.ClickException):
    """Problems of a file, a mapping or an argument; nothing was printed to stdout.

    Args:
        messages: one line each, with file and line as far as they are known.
    """

    exit_code = 1

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = tuple(messages)
        super().__init__("\n".join(self.messages))

    def show(self, file: object = None) -> None:
        del file
        for message in self.messages:
            click.echo(f"error: {message}", err=True)
