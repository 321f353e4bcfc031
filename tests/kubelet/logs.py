"""What pods have written, served as a kubelet does: for `kubectl logs` and `helm test --logs`."""

import datetime as dt
import ssl
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from certs.ca import issue, make_ca

PORT: Final = 10250


class Logs(BaseHTTPRequestHandler):
    """Answers `/containerLogs/NAMESPACE/POD/CONTAINER` from the pods' folders; each pod has one container."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        """Answer one connection."""
        self._folder = folder
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Send the whole log of a pod."""
        found: list[Path] = []
        asked = self.path.partition("?")[0].split("/")
        if asked[:2] == ["", "containerLogs"] and len(asked) == 5:
            found = sorted(self._folder.glob(f"{asked[3]}-????????/log"), key=lambda path: path.stat().st_mtime)
        self.send_response(200 if found else 404)
        self.end_headers()
        if found:
            self.wfile.write(found[-1].read_bytes())

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


def serve_logs(address: str, folder: Path, scratch: Path) -> None:
    """Serve the logs below a folder in a thread, under a certificate that nobody checks."""
    now = dt.datetime.now(dt.UTC)
    leaf = issue(make_ca("node", now), [address], now)
    pem = scratch / "kubelet.pem"
    pem.write_bytes(leaf.key_pem + leaf.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = ThreadingHTTPServer((address, PORT), partial(Logs, folder))
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
