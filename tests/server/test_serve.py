"""The command ``serve``: arguments, environment, files, and what is reported when something is wrong with them."""

import asyncio
import datetime as dt
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.certs.made import root, rsa_leaf
from tests.server.harness import connected, pod, request, review
from tests.server.process import Process, started
from tests.waiting import until_told
from webhook.cli import main
from webhook.cli.commands.serve import serve
from webhook.replica.run import serving_names
from webhook.server.http import Endpoint

GPU_POD = pod()
GPU_POD["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}


def run(*arguments: str, **environment: str) -> Result:
    """Run the command in this process, up to where it would begin to listen."""
    return CliRunner(env=environment).invoke(serve, arguments)


def test_help_names_every_endpoint() -> None:
    """And a variable for an option; options are explained one by one: tests/project/test_docs.py."""
    output = CliRunner().invoke(main, ["serve", "--help"]).output
    for text in ("/mutate", "/healthz", "/readyz", "/metrics", "SIGTERM", "VGPU_WEBHOOK_STATE_DIR"):
        assert text in output


async def answers(server: Process, caller: ssl.SSLContext) -> bool:
    """Whether a caller that shows a certificate is answered."""
    try:
        async with connected(server.mutate, caller) as connection:
            return (await connection.call(request(review()))).status == 200
    except (ssl.SSLError, ConnectionError, EOFError):
        return False


ROTATED = b'vgpu_webhook_certificate_rotations_total{kind="serving"} 1.0'


async def test_pair_from_outside_with_client_certificates(tmp_path: Path) -> None:
    """A company's pair is served and followed by content, and only clients with a certificate are answered."""
    now = dt.datetime.now(dt.UTC)
    company, callers = root(now), root(now)

    def write(extra: str) -> None:
        chain, key = rsa_leaf(company, now, ("localhost", extra))
        for name, data in {"ca.crt": company.certificate_pem, "tls.crt": chain, "tls.key": key}.items():
            (tmp_path / name).write_bytes(data)

    await asyncio.to_thread(write, "first")
    (tmp_path / "callers.pem").write_bytes(callers.certificate_pem)
    (tmp_path / "caller.pem").write_bytes(b"".join(rsa_leaf(callers, now, ("caller",))))
    arguments = ["--certificate-dir", str(tmp_path), "--client-ca-file", str(tmp_path / "callers.pem")]
    async with started(None, *arguments) as server:
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await server.call()
        caller = server.client
        caller.load_cert_chain(tmp_path / "caller.pem")
        async with connected(server.mutate, caller) as connection:
            assert (await connection.call(request(review()))).status == 200
        await asyncio.to_thread(write, "second")

        async def renewed() -> bool:
            return ROTATED in (await server.get("/metrics")).body

        await until_told(renewed, "the second pair")


def test_port_that_is_taken(tmp_path: Path) -> None:
    """A port that somebody else has is reported in a line."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        for options in (
            ["--listen", taken, "--plain-listen", "127.0.0.1:0"],
            ["--listen", "127.0.0.1:0", "--plain-listen", taken],
        ):
            done = run("--standalone", "--state-dir", str(tmp_path), *options)
            assert done.exit_code == 1
            last = done.stderr.splitlines()[-1]
            assert re.fullmatch(r"error: cannot listen: .*address already in use.*", last, re.IGNORECASE)


@pytest.mark.parametrize(
    "host, expected",
    [(None, False), ("0.0.0.0", False), ("::", False), ("192.0.2.7", True), ("gpu.example.com", True), ("b_d", False)],
)
def test_names_of_the_certificate(host: str | None, *, expected: bool) -> None:
    """The certificate is good for the loopback names and for the address that is listened on."""
    names = serving_names(Endpoint(host, 8443))
    assert {"localhost", "127.0.0.1", "::1"} <= set(names)
    assert (host in names) is expected


async def test_standalone_serves(tmp_path: Path) -> None:
    """A fresh start with nothing but a folder answers reviews by the built-in mappings; a restart keeps the CA.

    Who trusts only the public CAs is right not to connect. Standard error holds JSON lines and nothing else.
    """
    authorities, events = [], []
    for _ in range(2):
        async with started(tmp_path / "state", "--drain-grace", "0") as server:
            answer = await server.call(request(review(obj=GPU_POD)))
            assert answer.status == 200
            assert "patch" not in answer.json["response"]  # whole devices stay whole, as for every command
            share = json.loads(json.dumps(GPU_POD).replace('"nvidia.com/gpu": "1"', '"nvidia.com/gpumem": "3000"'))
            answer = await server.call(request(review(obj=share)))
            assert answer.json["response"]["patchType"] == "JSONPatch"
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection(server.mutate.host, server.mutate.port, ssl=ssl.create_default_context())
            server.signal(signal.SIGINT)
            assert await server.ended() == 0
            assert server.process.stderr is not None
            errors = (await server.process.stderr.read()).decode()
            events.append([json.loads(line)["event"] for line in errors.splitlines()])
        authorities.append((tmp_path / "state/ca.crt").read_bytes())
    assert authorities[0] == authorities[1]
    assert events[0] == ["certificates", "certificates", "ready", "draining", "stopping", "stopped"]


def test_variables_are_named_like_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the help says, also where the parameter has another name."""
    context = click.Context(serve, **serve.context_settings)
    for option in serve.params:
        name = f"VGPU_WEBHOOK_{option.opts[0].removeprefix('--').replace('-', '_').upper()}"
        monkeypatch.setenv(name, "x")
        assert option.resolve_envvar_value(context) == "x", name


async def test_environment_variables_count(tmp_path: Path) -> None:
    """Each option can be a variable: here the namespaces, which opt out, and the level of the log."""
    (tmp_path / "namespaces.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n")
    environment = {
        **os.environ,
        "VGPU_WEBHOOK_NAMESPACES": str(tmp_path / "namespaces.yaml"),
        "VGPU_WEBHOOK_LOG_LEVEL": "debug",
    }
    async with started(tmp_path / "state", **environment) as server:
        answer = await server.call(request(review(obj=GPU_POD)))
        assert answer.json["response"] == {"uid": answer.json["response"]["uid"], "allowed": True} | {
            key: value for key, value in answer.json["response"].items() if key == "auditAnnotations"
        }
        assert (await server.logged("review"))["reason"] == "not_opted_in"


def test_nothing_heavy_is_imported() -> None:
    """The start pays for no Kubernetes client and no JSON Patch."""
    code = "import sys, webhook.replica.run, certs.upkeep; print(*sys.modules)"
    modules = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert {"aiohttp", "webhook.replica.run"} <= modules
    assert not modules & {"kubernetes", "jsonpatch", "requests"}
