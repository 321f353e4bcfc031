"""``vgpu-webhook completion``: the script with which a shell completes commands, options and their values."""

import click
from click.shell_completion import get_completion_class

from webhook.cli import PROGRAM

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print a script that completes commands, options and their values in a shell.

    \b
    Examples:
      vgpu-webhook completion bash > ~/.local/share/bash-completion/completions/vgpu-webhook
      vgpu-webhook completion zsh > ~/.zfunc/_vgpu-webhook
      vgpu-webhook completion fish > ~/.config/fish/completions/vgpu-webhook.fish
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101  (one of click's own)
    variable = f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE"
    click.echo(made(context.find_root().command, {}, PROGRAM, variable).source())
