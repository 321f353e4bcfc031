"""``vgpu-webhook playground``: a page on this machine that shows what becomes of manifests while they are written."""

import asyncio
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.options import PolicyCommand, PolicyOptions, policy_options
from webhook.cli.terminal import Failure

if TYPE_CHECKING:
    from webhook.cli.playground.pages import Pages

PORT: Final = 8090
HOST: Final = "127.0.0.1"


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
    from webhook.cli.playground.answers import Playground
    from webhook.cli.playground.pages import Pages
    from webhook.cli.policy_source import sourced_policy
    from webhook.server.limits import Limits

    sourced = sourced_policy(source)
    try:
        asyncio.run(_serve(Pages(Playground(sourced), Limits()), sourced.line, port))
    except OSError as error:
        raise Failure([f"--port {port}: {error.strerror or error}"]) from error


async def _serve(pages: "Pages", line: str, port: int) -> None:
    import signal
    import sys

    from webhook.cli.playground.pages import PATH
    from webhook.server.http import Connections, Endpoint, dispatcher, listening
    from webhook.server.logs import make_logger

    routes, limits = dict(pages.routes()), pages.limits
    routes["/"] = routes[PATH.removesuffix("/")]
    log = make_logger("warning", sys.stderr.buffer)
    connections = Connections(limits, limits.plain_connections)
    async with listening(dispatcher(routes, limits), Endpoint(HOST, port), connections, log) as endpoint:
        click.echo(line)
        click.echo(f"ready: http://{endpoint}{PATH} (Ctrl-C ends it)")
        ended = asyncio.Event()
        # A shell may have started it in the background, where the interrupt is ignored unless it is handled.
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, ended.set)
        await ended.wait()
