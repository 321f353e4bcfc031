"""An aiohttp handler that does nothing: the least that any webhook on this stack costs.

``python -m benchmarks.empty STATE_DIR`` reads each body, answers with a fixed review, and prints its port once it listens.
Everything around the handler is as in the real server: TLS context, garbage collector, no access log.
"""

import asyncio
import datetime as dt
import sys
from pathlib import Path

from aiohttp import web

from certs.serving import Serving
from webhook.admission.decision import untouched
from webhook.reasons import Reason
from webhook.review import encode_answer
from webhook.server.metrics import settle_memory

ANSWER = encode_answer("00000000-0000-0000-0000-000000000000", untouched(Reason.NO_GPU_KEYS))


async def handle(request: web.Request) -> web.Response:
    """Do nothing."""
    await request.read()
    return web.Response(body=ANSWER, headers={"Content-Type": "application/json"})


async def main(state: Path) -> None:
    """Serve until the process is ended."""
    chain, key = (state / "tls.crt").read_bytes(), (state / "tls.key").read_bytes()
    app = web.Application(client_max_size=7 * 1024 * 1024)
    app.router.add_post("/mutate", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    tls = Serving()
    tls.swap(chain, key, dt.datetime.now(dt.UTC))
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.context)
    await site.start()
    settle_memory()
    print(site.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
