"""Where the API server is found, by which proxy and as whom we go there, and what happens when that changes."""

import base64
import datetime as dt
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from yarl import URL

from certs.x509 import Pair, issue, make_ca
from tests.certs.made import DAY, signed
from webhook.cluster import connection
from webhook.cluster.client import Api, ConfigurationError, UnreachableError
from webhook.cluster.connection import connect, load_access, proxy_for

NOW = dt.datetime.now(dt.UTC)


@pytest.fixture(scope="module")
def authority() -> Pair:
    """Sign what servers and clients show here."""
    return make_ca("test", NOW)


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write_kubeconfig(path: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    """Write a kubeconfig with one cluster and one user."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "there", "user": "me"}}],
        "clusters": [{"name": "there", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": user}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config))
    return path


def write_service_account(folder: Path, authority: Pair, token: str) -> Path:
    """Write what the kubelet mounts into a pod."""
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    return folder


def client_certificate(authority: Pair) -> tuple[bytes, bytes]:
    """Sign a certificate as kubeadm gives them to administrators; give it with its key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    pair = Pair(signed(key, authority, "kubernetes-admin", NOW + DAY, (usage, False), since=NOW - DAY), key)
    return pair.certificate_pem, pair.key_pem


@asynccontextmanager
async def served(authority: Pair, folder: Path) -> AsyncIterator[tuple[int, list[str | None], set[str | None]]]:
    """Serve over TLS; give the port, the Authorization headers that came, and those that are good (all, if empty)."""
    leaf = issue(authority, ["127.0.0.1"], NOW)
    (folder / "leaf.crt").write_bytes(leaf.certificate_pem)
    (folder / "leaf.key").write_bytes(leaf.key_pem)
    (folder / "clients.crt").write_bytes(authority.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "leaf.crt", folder / "leaf.key")
    context.load_verify_locations(folder / "clients.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    came: list[str | None] = []
    good: set[str | None] = set()

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        came.append("certificate" if shown else request.headers.get("Authorization"))
        return web.Response(status=401 if good and came[-1] not in good else 200)

    app = web.Application()
    app.router.add_get("/api", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield site.port, came, good
    finally:
        await runner.cleanup()


async def status(api: Api) -> int:
    """Ask once."""
    return (await api.request("GET", "/api")).status


async def test_the_order(tmp_path: Path, authority: Pair) -> None:
    """A file that was named, KUBECONFIG, the pod's service account, the home's file; the first is taken."""
    account = write_service_account(tmp_path / "account", authority, "token")
    named = write_kubeconfig(tmp_path / "named", "https://named:1", {})
    variable = write_kubeconfig(tmp_path / "variable", "https://variable:2", {})
    home = write_kubeconfig(tmp_path / "home/.kube/config", "https://home:3", {}).parents[1]
    everything = {
        "HOME": str(home),
        "KUBECONFIG": str(variable),
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    found = []
    for kubeconfig, gone in ((named, ""), (None, "KUBECONFIG"), (None, "KUBERNETES_SERVICE_HOST"), (None, "")):
        found.append((await load_access(kubeconfig, everything, account, None)).configuration.host)
        everything.pop(gone, None)
    assert found == [
        "https://named:1",
        "https://variable:2",
        "https://[fd00::1]:443",
        "https://home:3",
    ]


KUBECONFIG = """\
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://x'}}]
users: USER
"""


@pytest.mark.parametrize(
    "text, why",
    [
        (None, "does not exist"),
        ("", "cannot be used"),
        ("a: [", "cannot be used"),
        ("- 1", "cannot be used"),
        ("text", "it is no kubeconfig"),
        ("user", "lacks what its context names"),
        ("program", "its program for credentials failed: .*'no-such-program'"),
        ("{}", "cannot be used"),
        ('{"current-context": "x", "contexts": [], "clusters": []}', "cannot be used"),
        ("server", "contains no https:// URL"),
    ],
)
async def test_what_cannot_be_used(tmp_path: Path, text: str | None, why: str) -> None:
    """Whatever is wrong with a file, the error names the file."""
    path = tmp_path / "kubeconfig"
    if text == "server":
        write_kubeconfig(path, "here", {"token": "x"})
    elif text == "user":
        path.write_text(KUBECONFIG.replace("USER", "[]"))
    elif text == "program":
        program = "{apiVersion: client.authentication.k8s.io/v1, command: no-such-program}"
        path.write_text(KUBECONFIG.replace("USER", f"[{{name: u, user: {{exec: {program}}}}}]"))
    elif text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=why) as raised:
        await connect(path)
    assert str(raised.value).startswith(f"{path}: ")


async def test_nothing_configured() -> None:
    """Without anything, the error says what is possible."""
    with pytest.raises(ConfigurationError, match="name a kubeconfig, or files"):
        await connect()


async def test_a_pod_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod whose service account is not mounted, the error says where it was looked for."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConfigurationError, match=f"{tmp_path}: cannot be used: Service token"):
        await connect(service_account=tmp_path)


async def test_every_way_to_say_who_we_are(tmp_path: Path, authority: Pair) -> None:
    """Token, token file (with a line break), password, client certificate, and a program that gives a token."""
    leaf = client_certificate(authority)
    (tmp_path / "token").write_text("from-file\n")
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-program"},
    }
    exec_ = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(program))})"],
    }
    ca = {"certificate-authority-data": base64.b64encode(authority.certificate_pem).decode()}
    users: list[dict[str, Any]] = [
        {"token": "plain"},
        {"tokenFile": "token"},
        {"username": "me", "password": "pass"},
        {"exec": exec_},
        {
            "client-certificate-data": base64.b64encode(leaf[0]).decode(),
            "client-key-data": base64.b64encode(leaf[1]).decode(),
        },
        {},
    ]
    async with served(authority, tmp_path) as (port, came, _):
        for user in users:
            api = await connect(write_kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{port}", user, **ca))
            assert await status(api) == 200
            await api.close()
    basic = f"Basic {base64.b64encode(b'me:pass').decode()}"
    assert came == ["Bearer plain", "Bearer from-file", basic, "Bearer from-program", "certificate", None]


async def test_a_server_that_nobody_vouches_for(tmp_path: Path, authority: Pair) -> None:
    """A certificate of another CA, or for another name, is nobody's answer; `tls-server-name` sets another name."""
    stranger = make_ca("stranger", NOW)
    (tmp_path / "ca.crt").write_bytes(stranger.certificate_pem)
    async with served(authority, tmp_path) as (port, came, _):
        path = write_kubeconfig(
            tmp_path / "kubeconfig", f"https://127.0.0.1:{port}", {"token": "x"}, **{"certificate-authority": "ca.crt"}
        )
        api = await connect(path)
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await status(api)
        await api.close()
        (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
        for server, name, good in (("localhost", None, False), ("localhost", "127.0.0.1", True)):
            named = {} if name is None else {"tls-server-name": name}
            cluster = {"certificate-authority": "ca.crt", **named}
            api = await connect(write_kubeconfig(path, f"https://{server}:{port}", {"token": "x"}, **cluster))
            if good:
                assert await status(api) == 200
            else:
                with pytest.raises(UnreachableError, match="certificate verify failed"):
                    await status(api)
            await api.close()
    assert came == ["Bearer x"]


async def test_a_service_account_whose_token_rotates(
    tmp_path: Path, authority: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new token is taken from its file as soon as the old one is refused, and without that within a minute."""
    account = write_service_account(tmp_path / "account", authority, "one\n")
    async with served(authority, tmp_path) as (port, came, good):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        api = await connect(service_account=account)
        assert await status(api) == 200
        (account / "token").write_text("two\n")
        assert await status(api) == 200
        good.add("bearer two")
        assert await status(api) == 200
        await api.close()
    assert came == ["bearer one", "bearer one", "bearer one", "bearer two"]


async def test_a_ca_that_is_replaced(tmp_path: Path, authority: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the server has a certificate of a new CA, the file is read again, and the next try succeeds."""
    monkeypatch.setattr(connection, "RENEWAL_PAUSE", 0.0)
    (tmp_path / "ca.crt").write_bytes(make_ca("former", NOW).certificate_pem)
    async with served(authority, tmp_path) as (port, came, _):
        cluster = {"certificate-authority": "ca.crt"}
        api = await connect(write_kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{port}", {}, **cluster))
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await status(api)
        (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
        assert await status(api) == 200
        await api.close()
    assert came == [None]


PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    "url, exceptions, direct",
    [
        ("https://10.96.0.1:443", "", False),
        ("https://10.96.0.1:443", "10.0.0.0/8", True),
        ("https://10.96.0.1:443", ".svc, .cluster.local,10.96.0.0/12", True),
        ("https://10.96.0.1:443", "10.96.0.1", True),
        ("https://10.96.0.1:443", "10.96.0.1:443", True),
        ("https://10.96.0.1:443", "10.96.0.1:6443", False),
        ("https://10.96.0.1:443", "10.96.0.2,192.168.0.0/16,garbage/99", False),
        ("https://10.96.0.1:443", "*", True),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://[fd00::1]:443", "[fd00::1]:443", True),
        ("https://[fd00::1]:443", "10.0.0.0/8", False),
        ("https://127.0.0.1:6443", "", True),
        ("https://localhost:6443", "", True),
        ("https://api.example.com:6443", "example.com", True),
        ("https://api.example.com:6443", ".example.com", True),
        ("https://api.example.com:6443", "*.EXAMPLE.com", True),
        ("https://example.com:6443", ".example.com", False),
        ("https://notexample.com", "example.com", False),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://api.example.com", "*", True),
    ],
)
def test_exceptions(url: str, exceptions: str, direct: bool) -> None:  # noqa: FBT001
    """Names, addresses, networks and ports are excepted as Go excepts them."""
    assert proxy_for(URL(url), {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}) == (None if direct else PROXY)
    assert proxy_for(URL(url), {"https_proxy": PROXY, "no_proxy": exceptions}) == (None if direct else PROXY)


def test_only_for_its_scheme() -> None:
    """The proxy for plain HTTP is not that for TLS; one without a scheme is HTTP."""
    assert proxy_for(URL("https://api.example.com"), {"HTTP_PROXY": PROXY}) is None
    assert proxy_for(URL("https://api.example.com"), {}) is None
    assert proxy_for(URL("https://api.example.com"), {"HTTPS_PROXY": "proxy:3128"}) == "http://proxy:3128"
