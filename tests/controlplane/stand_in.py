"""Another system's mutating webhook, served by a test: a stand-in for it is called by the API server."""

import base64
import datetime as dt
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from certs.x509 import issue, make_ca
from tests.others.pod import DeniedThereError, StandIn

from .client import Object
from .objects import mutating
from .plane import ControlPlane


@contextmanager
def called(plane: ControlPlane, folder: Path, name: str, stand_in: StandIn, selector: Object) -> Iterator[list[str]]:
    """Have a stand-in called for new pods of the selected namespaces, with `IfNeeded`; the names of the pods it was shown."""
    shown: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            pod = review["request"]["object"]
            shown.append(pod["metadata"]["name"])
            body = json.dumps({**review, "request": None, "response": _response(review["request"], stand_in)}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    now = dt.datetime.now(dt.UTC)
    authority = make_ca("stand-in", now)
    leaf = issue(authority, ["127.0.0.1"], now)
    file = folder / "stand-in.pem"
    file.write_bytes(leaf.key_pem + leaf.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bundle = base64.b64encode(authority.certificate_pem).decode()
        client = {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": bundle}
        again = {"reinvocationPolicy": "IfNeeded", "namespaceSelector": selector}
        configuration = mutating(name, "pods.stand-in.example", client, **again)
        plane.client.create(configuration).accepted()
        try:
            yield shown
        finally:
            plane.client.delete(configuration["apiVersion"], "mutatingwebhookconfigurations", name).accepted()
            server.shutdown()


def _response(request: Object, stand_in: StandIn) -> Object:
    try:
        pod = stand_in(request["object"])
    except DeniedThereError as denial:
        return {"uid": request["uid"], "allowed": False, "status": {"message": str(denial)}}
    changed = [part for part in ("metadata", "spec") if pod[part] != request["object"][part]]
    patch = [{"op": "replace", "path": f"/{part}", "value": pod[part]} for part in changed]
    if not patch:
        return {"uid": request["uid"], "allowed": True}
    text = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": text}
