"""Hostile objects that a real API server stores: no replica is lost, no command ends, everyone else is served."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.controlplane.client import Object
from tests.controlplane.in_cluster import installed
from tests.controlplane.objects import config_map, mapping, namespace, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process
from webhook import labels
from webhook.cli import main

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.kubernetes("1.36", why="older API servers drop the capacity of a claim"),
]

OWN, TEAM, OTHERS = "hostile-webhook", "hostile-team", "hostile-others"
OPT_IN = "hostile.example/inject"
CLAIMED = {labels.CLAIM: "true"}

LEVELS = 2000
FIELDS = b'{"f:a":' * LEVELS + b'{".":{}}' + b"}" * LEVELS
PARAMETERS = {
    "deep": b'{"a":' + b"[" * LEVELS + b"]" * LEVELS + b"}",
    "half": rb'{"a":"\ud800"}',
    "bytes": b'{"a":"\xff\xfe"}',
    "large": b'{"a":[99999999999999999999,1e300]}',
    "huge": b'{"a":"' + rb"\u0001" * 1000 + b'"}',
}
"""What is opaque to the API server in the template of a claim."""


def deep(manifest: Object) -> bytes:
    """An object with managed fields nested deeper than Python's stack."""
    entry = {"manager": "x", "operation": "Update", "apiVersion": manifest["apiVersion"], "fieldsType": "FieldsV1"}
    metadata = {**manifest["metadata"], "managedFields": [{**entry, "fieldsV1": "FIELDS"}]}
    return json.dumps({**manifest, "metadata": metadata}).encode().replace(b'"FIELDS"', FIELDS)


def create(plane: ControlPlane, path: str, body: bytes) -> None:
    """Store it; the API server stores what is hostile in it. It may be there from a try before."""
    status, answer = plane.client.send("POST", path, body)
    assert status in {201, 409}, answer[:500]


def template(name: str, parameters: bytes) -> bytes:
    """A labelled template of a claim."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example"}}
    config = [{"requests": ["gpu"], "opaque": {"driver": "gpu.example", "parameters": "PARAMETERS"}}]
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "labels": CLAIMED},
        "spec": {"spec": {"devices": {"requests": [request], "config": config}}},
    }
    return json.dumps(made).encode().replace(b'"PARAMETERS"', parameters)


def workload(kind: str, name: str, **spec: Any) -> Object:
    """A workload without pods."""
    app = {"app": name}
    pods = {"metadata": {"labels": app}, "spec": pod(name)["spec"]}
    body = {"replicas": 0, "selector": {"matchLabels": app}, "template": pods, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def store(plane: ControlPlane, name: str) -> None:
    """Store hostile objects of every kind that is watched or listed, under this name."""
    core, claims = "/api/v1/namespaces", f"/apis/resource.k8s.io/v1/namespaces/{OTHERS}/resourceclaimtemplates"
    create(plane, core, deep(namespace(f"hostile-{name}")))
    labelled = pod(name)
    labelled["metadata"] |= {"labels": CLAIMED, "annotations": {"vgpu-webhook.io/status": FORGED}}
    claim = {"name": "gpu", "resourceClaimTemplateName": "vgpu-0123456789abcdef0123"}
    labelled["spec"]["resourceClaims"] = [claim]
    create(plane, f"{core}/{OTHERS}/pods", json.dumps(labelled).encode())
    labelled["metadata"]["name"] = f"deep-{name}"
    create(plane, f"{core}/{OTHERS}/pods", deep(labelled))
    for kind, parameters in PARAMETERS.items():
        create(plane, claims, template(f"{kind}-{name}", parameters))
    text = "apiVersion: vgpu-webhook.io/v1alpha1\nkind: Mapping\nextends: nvidia\n"
    create(plane, f"{core}/{OWN}/configmaps", deep(mapping(name, text)))
    create(plane, f"{core}/{OWN}/configmaps", deep(config_map(f"other-{name}", {})))
    for kind in ("Deployment", "ReplicaSet"):
        create(plane, f"/apis/apps/v1/namespaces/{TEAM}/{kind.lower()}s", deep(workload(kind, name)))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"hostile-{name}"}}
    create(plane, "/api/v1/nodes", deep(node))


ZERO = {"claim": "vgpu-0123456789abcdef0123", "vendor": "dra-vgpu-manager", "written": {"vgpu-manager/count": "0"}}
FORGED = json.dumps({"containers": {"main": ZERO}})


@pytest.fixture(scope="module")
def replica(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A replica that has started with hostile objects, and gets more."""
    plane = control_plane
    for name, given in ((TEAM, {OPT_IN: labels.ENABLED}), (OTHERS, {}), (OWN, {})):
        plane.create_namespace(namespace(name, given))
    store(plane, "before")
    settings = f"optInLabel: {OPT_IN}\n"
    with installed(plane, tmp_path_factory.mktemp("hostile"), OWN, settings, "--claims") as process:
        store(plane, "after")
        yield process
    for path in ("/api/v1/nodes/hostile-", "/api/v1/namespaces/hostile-"):
        for name in ("before", "after"):
            plane.client.send("DELETE", f"{path}{name}")
            # What the controller manager would do.
            ended = {**namespace(f"hostile-{name}"), "spec": {"finalizers": []}}
            plane.client.send("PUT", f"/api/v1/namespaces/hostile-{name}/finalize", json.dumps(ended).encode())
    for version, space, resource in (
        ("api/v1", TEAM, "pods"),
        ("api/v1", OTHERS, "pods"),
        ("apis/apps/v1", TEAM, "deployments"),
        ("apis/apps/v1", TEAM, "replicasets"),
    ):
        plane.client.send("DELETE", f"/{version}/namespaces/{space}/{resource}")


def reports(process: Process) -> list[dict[str, Any]]:
    """What the replica has logged about objects that it could not read."""
    lines = [json.loads(line) for line in process.log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "object_unreadable"]


def test_a_replica_stays(control_plane: ControlPlane, replica: Process) -> None:
    """It names each hostile object once, serves the others, and none of it is a bug."""
    claims = "resourceclaimtemplates"
    expected = {
        each
        for when in ("before", "after")
        for each in (
            ("namespaces", "", f"hostile-{when}"),
            ("pods", OTHERS, f"deep-{when}"),
            ("configmaps", OWN, when),
            *((claims, OTHERS, f"{kind}-{when}") for kind in ("deep", "half", "bytes")),
        )
    }

    def named() -> list[tuple[str, str, str]]:
        return [(line["kind"], line["namespace"], line["name"]) for line in reports(replica)]

    control_plane.wait_until(lambda: expected <= set(named()), "reports")
    assert sorted(named()) == sorted(expected)

    def changed() -> bool:
        made = control_plane.client.create(pod("plain"), TEAM, dry_run=True).accepted()
        return bool(made["spec"]["schedulerName"] == "hami-scheduler")

    control_plane.wait_until(changed, "a pod of a neighbour")
    owner = control_plane.client.send("GET", f"/apis/apps/v1/namespaces/{TEAM}/replicasets/after")[1]
    start = owner.index(b'"uid":"') + len(b'"uid":"')
    uid = owner[start : owner.index(b'"', start)].decode()
    owned = pod("owned")
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "after", "uid": uid, "controller": True}
    owned["metadata"]["ownerReferences"] = [reference]
    control_plane.client.create(owned, TEAM).accepted()

    def told() -> bool:
        found = control_plane.client.list("v1", "events", TEAM)
        return any(each["involvedObject"]["name"] == "after" for each in found)

    control_plane.wait_until(told, "an Event about a hostile owner")
    replica.check()
    log = replica.log.read_text()
    assert '"event":"bug"' not in log
    assert "Traceback" not in log


def run(plane: ControlPlane, *arguments: str) -> Result:
    """A command against this API server, in this process."""
    return CliRunner().invoke(main, [*arguments, "--kubeconfig", str(plane.kubeconfig), "--release-namespace", OWN])


def test_commands(control_plane: ControlPlane, replica: Process, tmp_path: Path) -> None:
    """They name what they could not read, and go on."""
    assert replica.pid
    found = run(control_plane, "preview", "-A")
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert "deployment/before" in found.output
    assert found.exit_code == 1
    for name in (f"deployments {TEAM}/before", f"pods {OTHERS}/deep-after", "namespaces hostile-after"):
        assert f"{name}: in part not read: nested too deeply" in found.output
    found = run(control_plane, "check")
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert "nodes hostile-before: in part not read: nested too deeply" in found.output
    assert "scheduler" in found.output
    for command in (["vendors"], ["explain", "nvidia.com/gpu"], ["check", "--pre"], ["mutate", "-f", str(tmp_path)]):
        other = run(control_plane, *command)
        assert other.exception is None or isinstance(other.exception, SystemExit), (command, other.exception)
        assert "Traceback" not in other.output
