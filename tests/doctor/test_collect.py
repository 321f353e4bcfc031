"""How facts are read: a Service and its endpoints, the Secret, schedulers, refusals, pages."""

import asyncio
import base64
import datetime as dt
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from certs.x509 import Pair, issue, make_ca
from tests.cluster.fake_api import reading
from tests.doctor.scene import AUTHORITY, LEAF, NOW, OUTCOME, device_class, registered
from webhook.cluster.client import UnreachableError, read_object
from webhook.doctor import collect
from webhook.doctor.checks import CHECKS, examine
from webhook.doctor.collect import collect_facts, handshake
from webhook.doctor.facts import INSTALLER, Backend, HandshakeResult, Scheduler, StoredCertificates, TemplateDryRun
from webhook.doctor.result import Missing
from webhook.labels import TARGET

TEAM = {"name": "team", "labels": {"vgpu-webhook.io/inject": "enabled", "kubernetes.io/metadata.name": "team"}}
LONG_AGO = (NOW - dt.timedelta(hours=1)).isoformat()


async def test_without_any_right() -> None:
    """Each fact says what was refused; nothing is written but the dry run, which has no namespace."""
    api = reading({})
    facts = await collect_facts(api, "gpu", NOW)
    assert facts.reachable
    for missing in (
        facts.outcome,
        facts.configurations,
        facts.namespaces,
        facts.nodes,
        facts.daemon_sets,
        facts.stored,
    ):
        assert isinstance(missing, Missing)
        assert missing.why.startswith("no /")
    assert {method for method, _, _ in api.requests} == {"GET"}


@pytest.mark.parametrize(
    "answer,more", [(UnreachableError("refused"), "nothing"), (401, "nothing"), (403, "all")], ids=str
)
async def test_the_server(answer: object, more: str) -> None:
    """Without an answer, or without valid credentials, nothing else is requested."""
    api = reading({"/version": answer})
    facts = await collect_facts(api, "gpu", NOW)
    assert isinstance(facts.server, Missing)
    assert facts.reachable is (more == "all")
    assert (len(api.requests) == 1) is (more == "nothing")


async def test_the_dry_run_and_pages() -> None:
    """A pod is created as a dry run in an opted-in namespace, and all pages of a list are read."""
    made = {"metadata": {"name": "x", "annotations": {"vgpu-webhook.io/status": "{}"}}, "spec": {"containers": []}}
    ended = {"metadata": {"name": "ended"}, "spec": {"containers": []}, "status": {"phase": "Succeeded"}}
    running = {"metadata": {"name": "running"}, "spec": {"containers": []}, "status": {"phase": "Running"}}
    spaces = [{"metadata": {"name": "else"}}, {"metadata": TEAM}]
    api = reading({"/api/v1/namespaces": spaces, "/api/v1/namespaces/team/pods": [ended, running]})
    api.answers["/api/v1/namespaces/team/pods"] = [ended, running]
    facts = await collect_facts(api, "gpu", NOW)
    assert not isinstance(facts.namespaces, Missing)
    assert [namespace.name for namespace in facts.namespaces] == ["else", "team"]
    pods = facts.pods["team"]
    assert not isinstance(pods, Missing)
    assert [pod.metadata.name for pod in pods] == ["running"]
    created = [(path, query) for method, path, query in api.requests if method == "POST"]
    assert created == [("/api/v1/namespaces/team/pods", {"dryRun": "All"})]
    api.answers["/api/v1/namespaces/team/pods"] = made
    trial = (await collect_facts(api, "gpu", NOW)).dry_run
    assert not isinstance(trial, Missing)
    assert (trial.namespace, trial.touched, trial.message) == ("team", True, "")


async def test_a_service_without_ready_endpoints() -> None:
    """Its endpoints are counted, and nothing is connected to."""
    ours = registered(OUTCOME, service=True)
    below = "/api/v1/namespaces/gpu/services/vgpu-webhook"
    slices = "/apis/discovery.k8s.io/v1/namespaces/gpu/endpointslices"
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": False}}
    api = reading(
        {
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": [ours],
            below: {"spec": {"clusterIP": "None", "ports": [{"name": "https", "port": 443}]}},
            slices: [{"endpoints": [endpoint], "ports": [{"name": "https", "port": 8443}]}],
        }
    )
    facts = await collect_facts(api, "gpu", NOW)
    assert facts.backend == Backend(0, 1)
    assert isinstance(facts.handshakes, Missing)
    queries = {path: query for _, path, query in api.requests}
    assert queries[slices]["labelSelector"] == "kubernetes.io/service-name=vgpu-webhook"
    del api.answers[below]
    assert isinstance((await collect_facts(api, "gpu", NOW)).backend, Missing)


async def test_a_service_with_endpoints(tmp_path: Path) -> None:
    """Each endpoint is connected to, by the port of its slice and the Service's name; one that is not ready is not."""
    authority = make_ca("now", dt.datetime.now(dt.UTC))
    ours = registered(OUTCOME, authority, service=True)
    endpoints = [
        {"addresses": ["127.0.0.1"], "conditions": None},
        {"addresses": ["127.0.0.2"], "conditions": {"ready": False}},
        {"conditions": {"ready": True}},
    ]
    leaf = issue(authority, ["vgpu-webhook.gpu.svc"], dt.datetime.now(dt.UTC))
    async with server(tmp_path, leaf) as port:
        ports = [{"name": "metrics", "port": 1}, {"name": "https", "port": port}]
        api = reading(
            {
                "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": [ours],
                "/api/v1/namespaces/gpu/services/vgpu-webhook": {
                    "spec": {"clusterIP": "None", "ports": [{"name": "https", "port": 443}]}
                },
                "/apis/discovery.k8s.io/v1/namespaces/gpu/endpointslices": [{"endpoints": endpoints, "ports": ports}],
            }
        )
        facts = await collect_facts(api, "gpu", NOW)
    assert facts.backend == Backend(1, 1)
    assert facts.handshakes == [HandshakeResult(f"127.0.0.1:{port}", "verified", "", leaf.certificate)]


SERVICE = "/api/v1/namespaces/gpu/services/vgpu-webhook"
ENDPOINTS = "/apis/discovery.k8s.io/v1/namespaces/gpu/endpointslices"
DAEMON_SETS = "/apis/apps/v1/daemonsets"
DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
ON_NODES = {"metadata": {"namespace": "gpu", "name": "plugin", "labels": {INSTALLER[0]: INSTALLER[1]}}}


@pytest.mark.parametrize(
    "path,odd",
    [
        (SERVICE, {"spec": {"ports": None}}),
        (SERVICE, {"spec": {"ports": [{"name": None, "port": 443}], "clusterIP": 5}}),
        (ENDPOINTS, [{"endpoints": None, "ports": None}]),
        (ENDPOINTS, [{"endpoints": ["10.0.0.1", {"addresses": "10.0.0.1"}], "ports": 5}]),
        (
            DAEMON_SETS,
            [{**ON_NODES, "spec": {"selector": None, "template": {"spec": {"volumes": [{"hostPath": {}}]}}}}],
        ),
        (DAEMON_SETS, [{**ON_NODES, "spec": {}, "status": {"numberReady": None, "desiredNumberScheduled": "2"}}]),
        ("/api/v1/nodes", [{"metadata": {"name": "n"}, "status": {"allocatable": [1]}}]),
        ("/apis/coordination.k8s.io/v1/leases", [{"spec": {"renewTime": 5}}]),
        (DEVICE_CLASSES, [{"metadata": {"name": "a"}, "spec": {"selectors": [None], "extendedResourceName": 5}}]),
    ],
    ids=str,
)
async def test_odd_objects(path: str, odd: object) -> None:
    """What has no value, or one of another kind, is read as nothing, and ends no check."""
    answers = {
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": [registered(OUTCOME, service=True)],
        SERVICE: {"spec": {"clusterIP": "None", "ports": [{"name": None, "port": 443}]}},
        ENDPOINTS: [{"endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"port": 1}]}],
        DAEMON_SETS: [],
        "/api/v1/nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}],
        "/api/v1/pods": [],
    }
    facts = await collect_facts(reading({**answers, path: odd}), "gpu", NOW)
    assert len(examine(facts)) == len(CHECKS)


async def test_the_secret_without_its_key() -> None:
    """Certificates are decoded, and the private key is in no fact."""
    path = "/api/v1/namespaces/gpu/secrets/vgpu-webhook-certificates"
    key = base64.b64encode(LEAF.key_pem).decode()
    data = {
        "tls.crt": base64.b64encode(LEAF.certificate_pem).decode(),
        "ca.crt": base64.b64encode(AUTHORITY.certificate_pem).decode(),
        "tls.key": key,
        "ca.key": key,
    }
    api = reading({path: {"data": data}})
    stored = (await collect_facts(api, "gpu", NOW)).stored
    assert not isinstance(stored, Missing | None)
    assert (stored.serving_certificate, stored.cas) == (LEAF.certificate, (AUTHORITY.certificate,))
    assert key not in repr(await read_object(api, path, StoredCertificates))
    api.answers[path] = 404
    assert (await collect_facts(api, "gpu", NOW)).stored is None
    api.answers[path] = {"data": {"tls.crt": "***", "ca.crt": ""}}
    broken = (await collect_facts(api, "gpu", NOW)).stored
    assert not isinstance(broken, Missing | None)
    assert broken.serving_certificate is None


async def test_a_scheduler() -> None:
    """Its pods by whether they have a node, and whether it has looked at them; the age of its Lease."""

    def pod(node: str = "", phase: str = "Pending", reason: str = "", created: str = LONG_AGO) -> dict[str, Any]:
        conditions = [{"type": "PodScheduled", "status": "False", "reason": reason}] if reason else None
        status = {"phase": phase, "conditions": conditions}
        return {"metadata": {"creationTimestamp": created}, "spec": {"nodeName": node}, "status": status}

    lease = {"metadata": {"name": "hami-scheduler"}, "spec": {"renewTime": LONG_AGO}}
    pods = [
        *(pod("n1"), pod(), pod(reason="Unschedulable"), pod(reason="SchedulingGated")),
        *(pod(phase="Failed"), pod(created=NOW.isoformat())),
    ]
    api = reading(
        {
            "/api/v1/nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}],
            "/api/v1/pods": pods,
            "/apis/coordination.k8s.io/v1/leases": [lease],
        }
    )
    facts = await collect_facts(api, "gpu", NOW)
    assert facts.schedulers == {"hami-scheduler": Scheduler(1, 2, 1, 3600.0)}
    api.answers["/apis/coordination.k8s.io/v1/leases"] = []
    assert (await collect_facts(api, "gpu", NOW)).schedulers == {"hami-scheduler": Scheduler(1, 2, 1, None)}


async def test_schedulers_that_pods_wait_for() -> None:
    """Whatever the target: those that some mapping names, and no others."""

    def pod(scheduler: str, phase: str = "Pending") -> dict[str, Any]:
        metadata = {"creationTimestamp": LONG_AGO}
        return {"metadata": metadata, "spec": {"schedulerName": scheduler}, "status": {"phase": phase}}

    pods = [pod("volcano"), pod("somebody-elses"), pod("default-scheduler"), pod("hami-scheduler", "Failed")]
    api = reading({"/api/v1/nodes": [], "/api/v1/pods": pods, "/apis/coordination.k8s.io/v1/leases": []})
    facts = await collect_facts(api, "gpu", NOW)
    assert (facts.awaited, list(facts.schedulers)) == (["volcano"], ["volcano"])
    queries = [query["fieldSelector"] for _, path, query in api.requests if path == "/api/v1/pods"]
    assert set(queries) == {"spec.nodeName=", "spec.schedulerName=volcano"}
    assert isinstance((await collect_facts(reading({}), "gpu", NOW)).awaited, Missing)


async def test_schedulers_of_systems_beside_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the setting `target` those of all vendors are looked for: the cluster may serve them, too."""

    async def policy_now(*_: object) -> object:
        return OUTCOME

    monkeypatch.setattr(collect, "policy_now", policy_now)
    api = reading({"/api/v1/nodes": [], "/api/v1/pods": [], "/apis/coordination.k8s.io/v1/leases": []})
    facts = await collect_facts(api, "gpu", NOW)
    assert {"hami-scheduler", "volcano", "kai-scheduler"} <= facts.schedulers.keys()


async def test_an_empty_cluster() -> None:
    """Where nothing is installed, nothing further is requested, and no pod is created."""
    deployments = "/apis/apps/v1/namespaces/gpu/deployments"
    lists = ["/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", deployments]
    api = reading({**{path: [] for path in lists}, "/api/v1/namespaces": [{"metadata": TEAM}], "/api/v1/nodes": []})
    facts = await collect_facts(api, "gpu", NOW)
    assert facts.nothing_installed
    assert facts.deployment is None
    assert {method for method, _, _ in api.requests} == {"GET"}
    assert not any(path == "/api/v1/pods" for _, path, _ in api.requests)
    api.answers[deployments] = [{"metadata": {"name": "vgpu-webhook"}}]
    api.answers["/api/v1/namespaces"] = [{"metadata": {"name": "gpu"}}]
    facts = await collect_facts(api, "gpu", NOW)
    assert (facts.deployment is not None, facts.nothing_installed) == (True, False)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1", None])
async def test_device_classes(version: str | None) -> None:
    """They are read in the newest version that is served; where none is, there are none."""
    below = "/apis/resource.k8s.io/{}/deviceclasses"
    served = [
        {"metadata": {"name": "a"}, "spec": {"extendedResourceName": "a.example/gpu"}},
        {"metadata": {"name": "b"}},
    ]
    api = reading({below.format(each): 404 for each in ("v1", "v1beta2", "v1beta1")})
    if version is not None:
        api.answers[below.format(version)] = served
    found = (await collect_facts(api, "gpu", NOW)).device_classes
    assert found == ([device_class("a", "a.example/gpu"), device_class("b")] if version else [])


async def test_device_classes_that_may_not_be_read() -> None:
    """That they may not be read does not mean that there are none."""
    assert isinstance((await collect_facts(reading({}), "gpu", NOW)).device_classes, Missing)


async def test_labels_of_nodes() -> None:
    """They come with the resources of which a node has any."""
    allocatable = {"nvidia.com/gpu": "8", "nvidia.com/gpu.shared": "0"}
    node = {"metadata": {"name": "n1", "labels": {"a": "b"}}, "status": {"allocatable": allocatable}}
    facts = await collect_facts(reading({"/api/v1/nodes": [node]}), "gpu", NOW)
    assert not isinstance(facts.nodes, Missing)
    (read,) = facts.nodes
    assert (read.name, set(read.resources), dict(read.labels)) == ("n1", {"nvidia.com/gpu"}, {"a": "b"})


async def test_what_the_webhook_reported() -> None:
    """Its own Warning Events of the last hour, those of cluster-wide objects too, the newest first."""

    def event(reason: str, minutes: float | None, **more: object) -> dict[str, object]:
        last = None if minutes is None else (NOW - dt.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        involved = {"kind": "ConfigMap", "name": "bad"}
        return {"reason": reason, "message": "why", "involvedObject": involved, "lastTimestamp": last, **more}

    api = reading(
        {
            "/api/v1/namespaces/gpu/events": [event("Older", 59, count=7), event("Past", 61)],
            "/api/v1/namespaces/default/events": [event("Unknown", None), event("Newer", 1)],
        }
    )
    reported = (await collect_facts(api, "gpu", NOW)).reported
    assert not isinstance(reported, Missing)
    assert [(each.reason, each.count) for each in reported] == [("Unknown", None), ("Newer", None), ("Older", 7)]
    assert {(each.subject, each.message) for each in reported} == {("configmap/bad", "why")}
    queries = [query for _, path, query in api.requests if path.endswith("/events")]
    assert {query["fieldSelector"] for query in queries} == {"source=vgpu-webhook,type=Warning"}


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


SLICES = "/apis/resource.k8s.io/v1/resourceslices"
TRIED = "/apis/resource.k8s.io/v1/namespaces/gpu/resourceclaimtemplates"


async def test_claims_are_read_for_targets_with_claims_only() -> None:
    """Also those of a namespace: slices, and a dry run in the webhook's own namespace."""
    answers: dict[str, Any] = {
        "/api/v1/namespaces": [{"metadata": TEAM}],
        "/api/v1/nodes": [],
        SLICES: [{"metadata": {"name": "s"}, "spec": {"driver": "gpu.example"}}],
        TRIED: {"metadata": {"name": "x"}, "spec": {"spec": {"dropped": True}}},
    }
    api = reading(answers)
    facts = await collect_facts(api, "gpu", NOW)
    assert (facts.resource_slices, facts.template_dry_run) == ([], None)
    assert not [path for _, path, _ in api.requests if path in {SLICES, TRIED}]
    api.answers["/api/v1/namespaces"] = [{"metadata": {**TEAM, "annotations": {TARGET: "dra-hami"}}}]
    facts = await collect_facts(api, "gpu", NOW)
    assert not isinstance(facts.resource_slices, Missing)
    assert [each.spec.driver for each in facts.resource_slices] == ["gpu.example"]
    tried = facts.template_dry_run
    assert isinstance(tried, TemplateDryRun)
    assert (tried.vendor, tried.status, tried.spec) == ("dra-hami", 201, {"spec": {"dropped": True}})
    queries = {(method, path): query for method, path, query in api.requests}
    assert queries["POST", TRIED] == {"dryRun": "All"}
    api.answers[TRIED] = 403
    tried = (await collect_facts(api, "gpu", NOW)).template_dry_run
    assert isinstance(tried, TemplateDryRun)
    assert (tried.status, tried.message, tried.spec) == (403, f"no {TRIED}", None)
    api.answers[TRIED] = UnreachableError("refused")
    assert isinstance((await collect_facts(api, "gpu", NOW)).template_dry_run, Missing)
