"""An aiohttp handler that does nothing: the least that any webhook on this stack costs.

``python -m benchmarks.empty STATE_DIR`` reads each body, answers with a fixed review, and prints its port once it listens.
With ``replay`` after it, it answers an API server: with the uid of each review, and at ``/mutate`` with the patch that the
webhook makes for the first pod. Everything around the handler is as in the real server: TLS context, garbage collector, no
access log.
"""

import asyncio
import datetime as dt
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from certs.store import Serving
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.decision import untouched
from webhook.labels import ENABLED, INJECT
from webhook.mapping.load import load_policy
from webhook.reasons import Reason
from webhook.review import decode_review, encode_answer
from webhook.server.metrics import settle_memory

NOTHING = untouched(Reason.NO_GPU_KEYS)
ANSWER = encode_answer("00000000-0000-0000-0000-000000000000", NOTHING)
UID = re.compile(rb'"uid":"([^"]*)"')
"""The first of a review of an API server is its own."""


async def handle(request: web.Request) -> web.Response:
    """Do nothing."""
    await request.read()
    return web.Response(body=ANSWER, headers={"Content-Type": "application/json"})


def replaying() -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler that decides once."""
    policy, decisions = load_policy(), {"/validate": NOTHING}

    def first(body: bytes) -> Decision:
        pod = decode_review(body).pod
        assert pod is not None
        return decide(pod, Context(Namespace("replay", {INJECT: ENABLED}), "privileged"), policy)

    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        uid = UID.search(body)
        assert uid is not None
        decision = decisions.get(request.path) or decisions.setdefault(request.path, first(body))
        answer = encode_answer(uid[1].decode(), decision)
        return web.Response(body=answer, headers={"Content-Type": "application/json"})

    return handle


async def main(state: Path, handler: Callable[[web.Request], Awaitable[web.Response]]) -> None:
    """Serve until the process is ended."""
    chain, key = (state / "tls.crt").read_bytes(), (state / "tls.key").read_bytes()
    app = web.Application(client_max_size=7 * 1024 * 1024)
    for path in ("/mutate", "/validate"):
        app.router.add_post(path, handler)
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
    asyncio.run(main(Path(sys.argv[1]), replaying() if "replay" in sys.argv[2:] else handle))
