"""A way to an API server on which the news of one kind can be held back, while everything else goes through."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .client import Client


class HeldBack:
    """What is held back: the watches of one collection."""

    def __init__(self, client: Client, path: str) -> None:
        self.client = client
        self.path = path
        self.through = threading.Event()
        self.through.set()

    def kubeconfig(self, folder: Path, port: int) -> Path:
        """Write what leads this way."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "held",
            "clusters": [{"name": "held", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "admin", "user": {"token": self.client.token}}],
            "contexts": [{"name": "held", "context": {"cluster": "held", "user": "admin"}}],
        }
        file = folder / "held-back.kubeconfig"
        file.write_text(json.dumps(config))
        return file


@contextmanager
def held_back(client: Client, path: str, folder: Path) -> Iterator[tuple[HeldBack, Path]]:
    """Open the way; what is held back comes when `through` is set again."""
    held = HeldBack(client, path)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._forward()

        do_PUT = do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def _forward(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            host = client.server.removeprefix("https://")
            upstream = http.client.HTTPSConnection(
                host, context=ssl.create_default_context(cafile=client.ca_file), timeout=700
            )
            headers = {key: value for key, value in self.headers.items() if key not in {"Host", "Accept-Encoding"}}
            upstream.request(self.command, self.path, self.rfile.read(length) if length else None, headers)
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in {"transfer-encoding", "content-length", "connection"}:
                    self.send_header(key, value)
            self.end_headers()
            with suppress(OSError, http.client.HTTPException):
                while chunk := answer.read1(65536):
                    if self.path.partition("?")[0] == path and "watch=true" in self.path:
                        held.through.wait()
                    self.wfile.write(chunk)
                    self.wfile.flush()
            upstream.close()

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield held, held.kubeconfig(folder, server.server_address[1])
    finally:
        held.through.set()
        server.shutdown()
        server.server_close()
