"""The command line, ``vgpu-webhook``: a group that imports a command only when it is used."""

import atexit
import difflib
import gc
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from textwrap import wrap
from typing import Final

import click
from click.shell_completion import CompletionItem

from webhook import __version__
from webhook.cli.terminal import ENDINGS, FOUND, fitted

PROGRAM: Final = "vgpu-webhook"
_EPILOG: Final = "\n".join(
    [
        "\b",
        "Exit codes:",
        *(line for code, text in ENDINGS.items() for line in wrap(f"  {code}  {text}", 78, subsequent_indent="     ")),
    ]
)
"""What ends the help of every command."""


GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Try": {
        "mutate": "Print manifests as the cluster would store them.",
        "explain": "Explain what becomes of manifests, or what a key means.",
        "preview": "Show what the next pods of workloads would be.",
        "playground": "Show on a page what becomes of what you write.",
    },
    "Author": {
        "vendors": "Show the mappings in force: keys, units, targets.",
        "test": "Test a policy with manifests and what is expected of them.",
        "schema": "Print the JSON Schema of what people write.",
        "codes": "Explain the reason codes (VGW###).",
    },
    "Operate": {
        "check": "Check an installation, or mapping and settings documents.",
        "serve": "Serve admission reviews over TLS.",
        "certs": "Request new certificates.",
        "registration": "Print the webhook configuration of a policy, for GitOps.",
    },
}
"""The commands, each in the module of its name, with their lines in the overview, which must not import them."""

COMMANDS: Final = {name: line for group in GROUPS.values() for name, line in group.items()}


class Program(click.Group):
    """The group: commands are imported lazily, each has ``--version``; a usage error exits with `FOUND`, not click's 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click calls it so)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        # What a command imports and compiles stays: to look for garbage in it took a tenth of the time.
        gc.set_threshold(200_000)
        # Nor is it looked for at the end, when all of it goes at once.
        atexit.register(gc.freeze)
        command = getattr(import_module(f"webhook.cli.commands.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101  (a mistake in the table above)
        for each in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
            own = (each.epilog or "").removesuffix(_EPILOG).rstrip()
            each.epilog = f"{own}\n\n{_EPILOG}" if own else _EPILOG
        return command if any(parameter.name == "version" for parameter in command.params) else _version(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command; a shell shows its line of the overview, without an import of any."""
        commands = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from webhook.cli.options import policy_records

        longest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), line) for name, line in commands.items()])
        with formatter.section("Policy; without any of these no target, and whole devices stay whole"):
            formatter.write_dl(policy_records(ctx))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        with _adapted_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _adapted_errors():
            return super().invoke(ctx)


@contextmanager
def _adapted_errors() -> Iterator[None]:
    """Give a usage error our exit code, and the width of the terminal."""
    try:
        yield
    except click.UsageError as error:
        error.exit_code = FOUND  # type: ignore[misc]  # of this one error only
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            raise  # a page, not a message
        taken = [] if error.ctx is None else [option for each in error.ctx.command.params for option in each.opts]
        if error.message.startswith("Got unexpected extra argument") and "--filename" in taken:
            error.message += ": manifests follow -f"  # type: ignore[misc]  # likewise
        before = len("Error: ") + len(error.format_message()) - len(error.message)
        error.message = fitted(error.message, sys.stderr, before)  # type: ignore[misc]  # likewise
        raise


_version = click.version_option(__version__, prog_name=PROGRAM)


@click.command(cls=Program, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@_version
@click.pass_context
def main(context: click.Context) -> None:
    """Translate GPU share requests of pods into the keys that the cluster's vendor reads.

    The webhook makes the same decision in a cluster (serve) as offline on manifests (mutate).
    """
    if os.environ.get("NO_COLOR"):  # https://no-color.org
        context.color = False


def kubectl() -> None:
    """Run as a plugin of kubectl, which calls a program ``kubectl-vgpu``."""
    main(prog_name="kubectl vgpu")
