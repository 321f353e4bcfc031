"""How it is read: odd objects, keys, versions, claims on demand, handshakes."""

import asyncio
import datetime as dt
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from certs.x509 import Pair, issue, make_ca
from tests.doctor.scene import (
    AUTHORITY,
    LEAF,
    OUTCOME,
    Facts,
    amended,
    but,
    cluster,
    device_class,
    outcome,
    pod,
    registered,
    result_of,
    secret,
    space,
)
from webhook.doctor import certificates
from webhook.doctor.certificates import handshake, stored
from webhook.doctor.checks import CHECKS, examine
from webhook.doctor.result import Level

SERVICE = "/api/v1/namespaces/gpu/services/vgpu-webhook"
ENDPOINTS = "/apis/discovery.k8s.io/v1/namespaces/gpu/endpointslices"
CLAIMS = "/apis/resource.k8s.io/{}/{}"
OURS = {"labels": {"app.kubernetes.io/component": "webhook"}}
OF_SERVICE = {"metadata": {"labels": {"kubernetes.io/service-name": "vgpu-webhook"}}}
SHIM = {"labels": {"app.kubernetes.io/component": "shim-installer"}}
PORTS = {"ports": [{"name": None, "port": 443}]}


@pytest.mark.parametrize(
    "odd",
    [
        {SERVICE: {"spec": {"ports": None}}},
        {SERVICE: {"spec": {**PORTS, "clusterIP": 5}}},
        {ENDPOINTS: [{**OF_SERVICE, "endpoints": None, "ports": None}]},
        {ENDPOINTS: [{**OF_SERVICE, "endpoints": ["a", {"addresses": "a"}], "ports": 5}]},
        {"daemon_sets": [{"metadata": SHIM, "spec": {"selector": None}, "status": {"numberReady": None}}]},
        {"daemon_sets": [{"spec": {"template": {"spec": {"volumes": [{"hostPath": {}}, None]}}}}]},
        {"nodes": [{"metadata": {"name": "n"}, "status": {"allocatable": [1]}}]},
        {"leases": [{"metadata": {"name": "hami-scheduler"}, "spec": {"renewTime": 5}}], "waiting": []},
        {"waiting": [{"metadata": {"creationTimestamp": "?"}, "status": {"conditions": [None, {"type": 5}]}}]},
        {"device_classes": [{"metadata": {"name": "a"}, "spec": {"selectors": [None], "extendedResourceName": 5}}]},
        {"slices": [{"spec": {"driver": 5, "pool": [], "devices": [None]}}], "outcome": outcome("target: dra-hami")},
        {"events": [{"source": {"component": "vgpu-webhook"}, "type": "Warning", "involvedObject": 5, "count": "x"}]},
        {"deployments": [{"metadata": OURS, "spec": {"replicas": "2", "template": 5}}]},
        {"replicas": [{"metadata": OURS, "status": {"containerStatuses": [None, {"state": 5}], "conditions": 5}}]},
        {"configurations": amended(lambda webhooks: [each.update(clientConfig=None, rules=None) for each in webhooks])},
        {"stored": {"data": {"tls.crt": "***", "ca.crt": ""}}},
    ],
    ids=str,
)
async def test_odd_objects(odd: dict[str, Any]) -> None:
    """What has no value, or one of another kind, is read as nothing, and ends no check."""
    if {SERVICE, ENDPOINTS} & odd.keys():
        odd = {"configurations": [registered(OUTCOME, service=True)], SERVICE: {"spec": PORTS}, ENDPOINTS: [], **odd}
    async with cluster(but(**odd)) as (seen, _):
        found = await examine(seen)
    assert len(found) == len(CHECKS)
    assert not [result for _, result in found if "defect of this program" in result.message]


async def test_the_secret_without_its_key() -> None:
    """Certificates are decoded, and the private key is in no answer that is remembered."""
    data = {**secret(LEAF, AUTHORITY)["data"], "tls.key": "bm90IG91cnM=", "ca.key": "bm90IG91cnM="}
    async with cluster(but(stored={"data": data})) as (seen, _):
        assert await stored(seen) == ((LEAF.certificate,), (AUTHORITY.certificate,))
    decoded = msgspec.json.decode(msgspec.json.encode({"data": data}), type=certificates._Secret)  # noqa: SLF001
    assert data["tls.crt"] in repr(decoded)
    assert data["tls.key"] not in repr(decoded)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1", None])
async def test_versions_of_device_classes(version: str | None) -> None:
    """They are read in the newest version that is served; where none is, there are none."""
    served: dict[str, Any] = {CLAIMS.format(each, "deviceclasses"): 404 for each in ("v1", "v1beta2", "v1beta1")}
    if version is not None:
        served[CLAIMS.format(version, "deviceclasses")] = [device_class("a", "a.example/nic"), device_class("b")]
    found = await result_of(
        {**but(), "device_classes": served.pop(CLAIMS.format("v1", "deviceclasses")), **served}, "claims"
    )
    assert found.message.endswith("(2 DeviceClasses)" if version else "(0 DeviceClasses)")


async def gate(**changes: Any) -> tuple[str, list[Any]]:
    """What is said of the gate, and the templates that were tried."""
    async with cluster(but(**changes)) as (seen, api):
        found = {check.name: result.message for check, result in await examine(seen)}
    return found["feature-gate"], [each.body for each in api.requests if "resourceclaimtemplates" in each.path]


def claiming(target: str) -> dict[str, Any]:
    """Metadata with an annotation that names a target."""
    return {"annotations": {"vgpu-webhook.io/target": target}}


@pytest.mark.parametrize(
    "changes, vendor",
    [
        ({"namespaces": [{"metadata": {**space("team")["metadata"], **claiming("dra-hami")}}]}, "dra-hami"),
        ({"pods": {"team": [pod("a", **claiming("dra-nvidia"))]}}, "dra-nvidia"),
        ({"outcome": outcome("target: dra-hami")}, "dra-hami"),
        ({"pods": {"team": [pod("a", **claiming("unknown"))]}}, ""),
    ],
)
async def test_who_claims(changes: Facts, vendor: str) -> None:
    """A target is also what the annotation of a namespace or of a pod names: only for one with claims is a template tried."""
    message, bodies = await gate(**changes)
    expected = f"the API server keeps the capacities of {vendor}'s resource claims (dry run)"
    assert message == (expected if vendor else "the target writes no resource claims")
    assert len(bodies) == bool(vendor)


async def test_what_is_tried() -> None:
    """The smallest request with capacities, with its constraint; under no name that pods have, and without our label."""
    message, [manifest] = await gate(outcome=outcome("target: dra-nvidia"))
    assert "keeps the capacities of dra-nvidia" in message
    assert manifest["metadata"] == {"generateName": "vgpu-webhook-check-"}
    devices = manifest["spec"]["spec"]["devices"]
    assert devices["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "1Mi"}}
    assert devices["constraints"][0]["distinctAttribute"] == "gpu.nvidia.com/uuid"


async def test_a_service_with_endpoints(tmp_path: Path) -> None:
    """Each endpoint is connected to, by the port of its slice and the Service's name; one that is not ready is not."""
    authority = make_ca("now", TODAY)
    endpoints = [
        {"addresses": ["127.0.0.1"], "conditions": None},
        {"addresses": ["127.0.0.2"], "conditions": {"ready": False}},
        {"conditions": {"ready": True}},
    ]
    async with server(tmp_path, issue(authority, ["vgpu-webhook.gpu.svc"], TODAY)) as port:
        ports = [{"name": "metrics", "port": 1}, {"name": "https", "port": port}]
        facts = but(
            configurations=[registered(OUTCOME, authority, service=True)],
            shown=None,
            **{
                SERVICE: {"spec": {"clusterIP": "None", "ports": [{"name": "https", "port": 443}]}},
                ENDPOINTS: [
                    {**OF_SERVICE, "endpoints": endpoints, "ports": ports},
                    {"metadata": {}, "endpoints": endpoints},
                ],
            },
        )
        found = await result_of(facts, "served")
    assert (found.level, found.message) == (Level.OK, f"the caBundle verifies what 127.0.0.1:{port} serves")


TODAY = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)
TRUSTED = make_ca("one", TODAY - DAY)
UNTRUSTED = make_ca("other", TODAY - DAY)
NAME = "webhook.gpu.svc"


@asynccontextmanager
async def server(folder: Path, leaf: Pair | None) -> AsyncIterator[int]:
    """A server with this certificate, or without TLS; its port."""
    context = None
    if leaf is not None:
        (folder / "tls.crt").write_bytes(leaf.certificate_pem)
        (folder / "tls.key").write_bytes(leaf.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    async def plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if leaf is None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(plainly, "127.0.0.1", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "make,authorities,end,why",
    [
        (lambda: issue(TRUSTED, [NAME], TODAY), TRUSTED.certificate_pem, "verified", ""),
        (
            lambda: issue(TRUSTED, [NAME], TODAY),
            UNTRUSTED.certificate_pem + TRUSTED.certificate_pem,
            "verified",
            "",
        ),
        (lambda: issue(TRUSTED, [NAME], TODAY), UNTRUSTED.certificate_pem, "untrusted", ""),
        (lambda: issue(TRUSTED, [NAME], TODAY), b"", "untrusted", ""),
        (lambda: issue(TRUSTED, [NAME], TODAY), b"nonsense", "untrusted", "caBundle cannot be read"),
        (lambda: issue(TRUSTED, ["elsewhere"], TODAY), TRUSTED.certificate_pem, "untrusted", "ostname"),
        (lambda: issue(TRUSTED, [NAME], TODAY - 100 * DAY), TRUSTED.certificate_pem, "untrusted", "expired"),
        (lambda: None, TRUSTED.certificate_pem, "no TLS", ""),
    ],
)
async def test_ends(tmp_path: Path, make: Callable[[], Pair | None], authorities: bytes, end: str, why: str) -> None:
    """How it ends, and the certificate also where it is not trusted."""
    leaf = make()
    async with server(tmp_path, leaf) as port:
        shown = await handshake("127.0.0.1", port, NAME, authorities, seconds=30)
    assert (shown.handshake, why in shown.why) == (end, True), shown
    assert shown.address == f"127.0.0.1:{port}"
    assert shown.certificate == (None if leaf is None else leaf.certificate)


async def test_nobody_there() -> None:
    """A port that nobody listens on refuses; one that never answers is not reached."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    assert (await handshake("127.0.0.1", port, NAME, b"", seconds=30)).handshake == "refused"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        shown = await handshake("127.0.0.1", silent.getsockname()[1], NAME, b"", seconds=0.2)
    assert shown.handshake == "unreachable"
    assert "0.2 s" in shown.why


AT_ONCE = """
import asyncio, sys
import msgspec
from webhook.cluster.client import Answer
from webhook.cluster.client import list_objects

PAGE = b'{"metadata": {"resourceVersion": "1"}, "items": [{"inner": {"text0": "x"}, "more1": [{"text3": "y"}]}]}'

class Pages:
    unread = []

    async def request(self, *_, **__):
        await asyncio.sleep(0)
        return Answer(200, PAGE)

async def main():
    for number in range(1000):
        texts = [(f"text{each}", str, "") for each in range(20)]
        inner = msgspec.defstruct(f"Inner{number}", texts)
        lists = [(f"more{each}", list[inner], msgspec.field(default_factory=list)) for each in range(20)]
        kind = msgspec.defstruct(f"Outer{number}", [("inner", inner), *lists])
        found = await asyncio.gather(*(list_objects(Pages(), "/things", kind) for _ in range(4)))
        assert all(one.inner.text0 == "x" for (one,) in found)

sys.setswitchinterval(1e-6)
asyncio.run(main())
"""
"""In a process of its own: the library ends one in which two threads meet a type for the first time at once."""


def test_types_that_are_met_for_the_first_time_at_once() -> None:
    """`check` reads pods, nodes and ConfigMaps side by side."""
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
