"""``vgpu-webhook playground``: serves a page on this machine until it is interrupted."""

from typing import Final

import click

from webhook.cli.options import PolicyCommand, PolicyOptions, policy_options
from webhook.cli.terminal import Failure

PORT: Final = 8090


@click.command(cls=PolicyCommand)
@policy_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port of the page on 127.0.0.1; 0: a free one.",
)
def playground(*, source: PolicyOptions, port: int) -> None:
    """Show on a page of this machine what becomes of manifests while you write them.

    Write a manifest, or choose an example, and see it changed or denied, with the explanation; try other targets, settings of
    the namespace, mappings and settings. The policy that they change is that of the options, as for `mutate`. Nothing leaves
    the machine. Ctrl-C ends it.
    """
    import asyncio

    from webhook.cli.pages import serve_page
    from webhook.cli.policy_source import sourced_policy

    sourced = sourced_policy(source)
    try:
        asyncio.run(serve_page(sourced, port))
    except OSError as error:
        raise Failure([f"--port {port}: {error.strerror or error}"]) from error
