"""How it is read: odd objects, keys, versions, claims on demand."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from tests.doctor.scene import (
    AUTHORITY,
    LEAF,
    Facts,
    amended,
    but,
    cluster,
    device_class,
    outcome,
    pod,
    result_of,
    secret,
    space,
)
from webhook.doctor.checks import CHECKS, examine
from webhook.doctor.registration import _Secret, stored

CLAIMS = "/apis/resource.k8s.io/{}/{}"
OURS = {"labels": {"app.kubernetes.io/component": "webhook"}}
SHIM = {"labels": {"app.kubernetes.io/component": "shim-installer"}}


@pytest.mark.parametrize(
    "odd",
    [
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
        {"configurations": amended({f"{at} {key}": 5 for at in (0, 1) for key in ("clientConfig", "rules")})},
        {"stored": {"data": {"tls.crt": "***", "ca.crt": ""}}},
    ],
    ids=str,
)
async def test_odd_objects(odd: dict[str, Any]) -> None:
    """What has no value, or one of another kind, is read as nothing, and ends no check."""
    async with cluster(but(**odd)) as (seen, _):
        found = await examine(seen)
    assert len(found) == len(CHECKS)
    assert not [result for _, result in found if "defect of this program" in result.message]


async def test_the_secret_without_its_key() -> None:
    """Certificates are decoded, and the private key is in no answer that is remembered."""
    data = {**secret(LEAF, AUTHORITY)["data"], "tls.key": "bm90IG91cnM=", "ca.key": "bm90IG91cnM="}
    async with cluster(but(stored={"data": data})) as (seen, _):
        assert await stored(seen) == ((LEAF.certificate,), (AUTHORITY.certificate,))
    decoded = msgspec.json.decode(msgspec.json.encode({"data": data}), type=_Secret)
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


def claiming(target: str) -> dict[str, Any]:
    """Metadata with an annotation that names a target."""
    return {"annotations": {"vgpu-webhook.io/target": target}}


@pytest.mark.parametrize(
    "changes, driver",
    [
        ({"namespaces": [{"metadata": {**space("team")["metadata"], **claiming("dra-hami")}}]}, "hami-core-gpu"),
        ({"pods": {"team": [pod("a", **claiming("dra-nvidia"))]}}, "gpu.nvidia.com"),
        ({"outcome": outcome("target: dra-hami")}, "hami-core-gpu"),
        ({"pods": {"team": [pod("a", **claiming("unknown"))]}}, ""),
    ],
)
async def test_who_claims(changes: Facts, driver: str) -> None:
    """A target is also what the annotation of a namespace or of a pod names: its driver has to be there."""
    found = await result_of(but(**changes), "drivers")
    assert (found.message == "the target writes no resource claims") is not bool(driver)
    assert any(f"the driver {driver}" in line for line in found.details) is bool(driver)


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
