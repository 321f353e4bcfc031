"""A way to an API server on which the news of one kind can be held back, while everything else goes through."""

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .plane import ControlPlane


@contextmanager
def held_back(plane: ControlPlane, path: str, folder: Path) -> Iterator[tuple[threading.Event, Path]]:
    """Open the way, to which the kubeconfig leads; the watches of the path's collection wait while the event is not set."""
    client, through = plane.client, threading.Event()
    through.set()

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
                        through.wait()
                    self.wfile.write(chunk)
                    self.wfile.flush()
            upstream.close()

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        way = f"http://127.0.0.1:{server.server_address[1]}"
        yield through, plane.write_kubeconfig(folder / "held-back.kubeconfig", server=way)
    finally:
        through.set()
        server.shutdown()
        server.server_close()
