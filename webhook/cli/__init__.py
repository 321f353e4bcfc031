"""The command line, ``vgpu-webhook``: a group that imports a command only when it is used.

Exit codes of every command: 0 done, 1 usage or unreadable input; `mutate`, `explain` and `preview` add 2, denied, and
`check` 2, broken.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import click

from webhook import __version__

PROGRAM: Final = "vgpu-webhook"
USAGE: Final = 1
"""Exit code for usage errors; click's own is 2, which here means denied."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command of the group: where it is defined, and its line in the overview, which must not import it."""

    module: str
    attribute: str
    summary: str


COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "serve": CommandEntry("webhook.cli.commands.serve", "serve", "Serve admission reviews over TLS."),
    "mutate": CommandEntry("webhook.cli.commands.mutate", "mutate", "Print manifests as the cluster would store them."),
    "explain": CommandEntry(
        "webhook.cli.commands.explain", "explain", "Explain what becomes of manifests, or what a key means."
    ),
    "preview": CommandEntry(
        "webhook.cli.commands.preview", "preview", "Show what the next pods of workloads would be."
    ),
    "vendors": CommandEntry(
        "webhook.cli.commands.vendors", "vendors", "Show the mappings in force: keys, units, targets."
    ),
    "check": CommandEntry(
        "webhook.cli.commands.check", "check", "Check an installation, or mapping and settings documents."
    ),
    "registration": CommandEntry(
        "webhook.cli.commands.registration", "registration", "Print the webhook configuration of a policy, for GitOps."
    ),
    "admission-policies": CommandEntry(
        "webhook.cli.commands.admission_policies",
        "admission_policies",
        "Print policies that API servers apply themselves.",
    ),
    "certs": CommandEntry("webhook.cli.commands.certs", "certs", "Show the certificates, or request new ones."),
    "codes": CommandEntry("webhook.cli.commands.codes", "codes", "Explain the reason codes (VGW###)."),
}


class Program(click.Group):
    """The group: commands are imported lazily, each has ``--version``, and a usage error exits with `USAGE`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click calls it so)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)  # noqa: S101  (a mistake in the table above)
        return command if any(parameter.name == "version" for parameter in command.params) else _version(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            error.exit_code = USAGE  # type: ignore[misc]  # of this one error only
            raise

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.exit_code = USAGE  # type: ignore[misc]  # of this one error only
            raise


_version = click.version_option(__version__, prog_name=PROGRAM)


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@_version
def main() -> None:
    """Translate GPU share requests of pods into the keys that the cluster's vendor reads.

    The webhook makes the same decision in a cluster (serve) as offline on manifests (mutate).
    """
