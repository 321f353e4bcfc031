"""The policy of offline commands: that of an installation's values, of documents, or of a cluster; and which one it was."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.cli.conftest import Run
from tests.deploy.charts import VALUES as VALUES_OF_CHARTS
from webhook.cli.policy_source import chart_values, merged, mistakes
from webhook.cluster.policy.documents import NO_SETTINGS
from webhook.labels import MAPPING

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
SETTINGS = "apiVersion: vgpu-webhook.io/v1alpha1\nkind: Settings\ntarget: nvidia\nbareDevices: share\n"
NVIDIA = (
    "apiVersion: vgpu-webhook.io/v1alpha1\nkind: Mapping\nextends: nvidia\n"
    "shim: {mode: plugin}\ndefaults: {memory: 8000Mi}\n"
)


@contextmanager
def api_server(objects: dict[str, dict[str, str]], namespace: str = "gpu") -> Iterator[str]:
    """The ConfigMaps of one namespace, by name, as an API server lists them; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            selector = parse_qs(url.query).get("labelSelector", [""])[0]
            field = parse_qs(url.query).get("fieldSelector", [""])[0]
            items = [
                {
                    "metadata": {
                        "name": name,
                        "resourceVersion": "1",
                        "labels": {MAPPING: "true"} if "mapping.yaml" in data else {},
                    },
                    "data": data,
                }
                for name, data in objects.items()
                if url.path == f"/api/v1/namespaces/{namespace}/configmaps"
                and ("mapping.yaml" in data if selector else field == f"metadata.name={name}")
            ]
            found = url.path.endswith("/configmaps")
            body = {"metadata": {"resourceVersion": "1"}, "items": items} if found else {"kind": "Status", "code": 404}
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(folder: Path, server: str) -> str:
    """A file with the context ``here`` for a server, and another one, which is the current one, for none."""
    clusters = [
        {"name": "there", "cluster": {"server": server}},
        {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}},
    ]
    contexts = [
        {"name": "here", "context": {"cluster": "there", "user": "u"}},
        {"name": "gone", "context": {"cluster": "nowhere", "user": "u"}},
    ]
    config = {"apiVersion": "v1", "kind": "Config", "clusters": clusters, "contexts": contexts}
    file = folder / "config"
    file.write_text(yaml.safe_dump({**config, "users": [{"name": "u", "user": {}}], "current-context": "gone"}))
    return str(file)


@pytest.mark.parametrize("name", VALUES_OF_CHARTS)
def test_values_that_the_chart_takes(name: str) -> None:
    """What Helm renders elsewhere in the tests is no mistake."""
    values = merged(chart_values(), VALUES_OF_CHARTS[name])
    assert [*mistakes(values, chart_values())] == []


def test_the_policy_in_force(run: Run, tmp_path: Path) -> None:
    """Of the named context, in the named namespace; each command decides by it."""
    objects = {
        "vgpu-webhook-settings": {"settings.yaml": SETTINGS},
        "vgpu-webhook-mapping-nvidia": {"mapping.yaml": NVIDIA},
    }
    with api_server(objects) as server:
        file = kubeconfig(tmp_path, server)
        options = ("--kubeconfig", file, "--context", "here", "--release-namespace", "gpu")
        result = run("mutate", "-f", "-", *options, stdin=POD)
        digest = result.stderr.splitlines()[0].rpartition("(digest ")[2].removesuffix(")")
        line = f"policy: in force in context here, namespace gpu (digest {digest})"
        assert (result.exit_code, result.stderr.splitlines()[0], len(digest)) == (0, line, 12)
        assert "nvidia.com/gpumem: '8000'" in result.stdout
        assert f'"policy":"{digest}"' in result.stdout
        assert "LD_PRELOAD" not in result.stdout
        assert run("explain", "-f", "-", *options, stdin=POD).stdout.splitlines()[0] == line
        assert run("check", *options, "-", stdin=POD).stdout.splitlines()[0] == line
        assert "configmap/vgpu-webhook-mapping-nvidia" in run("vendors", *options).stdout
        (tmp_path / "s.yaml").write_text(SETTINGS.replace("nvidia", "volcano"))
        over = run("check", *options, str(tmp_path / "s.yaml"))
        assert over.stdout.splitlines()[0] == f"{line}, changed by the documents in the files"
        elsewhere = run("mutate", "-f", "-", *options[:-1], "other", stdin=POD)
        assert elsewhere.exit_code == 0
        assert elsewhere.stderr.splitlines()[0].startswith("policy: in force in context here, namespace other (digest ")
        assert elsewhere.stderr.splitlines()[1] == (
            f"warning: namespace other: {NO_SETTINGS}; --release-namespace names the webhook's own namespace"
        )
        (tmp_path / "config").write_text((tmp_path / "config").read_text().replace("t: gone", "t: here"))
        current = run("mutate", "-f", "-", "--kubeconfig", file, "--release-namespace", "gpu", stdin=POD)
        assert current.stderr.splitlines()[0] == line


def test_a_context_that_is_not_there(run: Run, tmp_path: Path) -> None:
    """An error that names the file and the context."""
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")
    result = run("mutate", "-f", "-", "--kubeconfig", file, "--context", "nobody", stdin=POD)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {file}: cannot be used: ")
    assert "nobody" in result.stderr
