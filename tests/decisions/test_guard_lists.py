"""One guard list for one library: what lifts under one of its vendors lifts under all; what its own system writes does not."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.decided import CONTEXT, decided
from tests.mapping.vendors import policy as configured
from tests.naming import each_of
from tests.placed import FIELDS, ROUNDABOUT, put_at
from tests.yaml_text import load_yaml
from webhook.admission import decide
from webhook.mapping.load import load_policy
from webhook.mapping.model.guard import Guard, GuardPlace
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

_REQUESTS: Mapping[str, Mapping[str, Any]] = load_yaml((Path(__file__).parent / "requests.yaml").read_text())
SHARES, WHOLE, OWNERS = _REQUESTS["shares"], _REQUESTS["whole"], _REQUESTS["owners"]
BY_ANNOTATIONS = {"kai", "nvfractions", "tensor-fusion"}
"""Vendors whose requests stand in the pod's annotations."""


@cache
def policy(settings: str = "") -> Policy:
    """The built-in mappings, under settings."""
    return configured(settings=settings)


def pod_of(resources: Mapping[str, str], *env: tuple[str, str], target: str | None = None) -> dict[str, Any]:
    """A pod of one container, as the API server sends it."""
    listed = [{"name": name, "value": value} for name, value in env]
    container = {"name": "main", "resources": {"limits": resources, "requests": resources}, "env": listed}
    annotations = {} if target is None else {"annotations": {"vgpu-webhook.io/target": target}}
    return {"metadata": {"name": "p", **annotations}, "spec": {"containers": [container]}}


def sent_for(vendor: str, resources: Mapping[str, str], *env: tuple[str, str]) -> dict[str, Any]:
    """A pod that ends up under a vendor: the one of whole devices owns no name, and is ordered."""
    if vendor in BY_ANNOTATIONS:
        made = pod_of({}, *env)
        made["metadata"]["annotations"] = dict(resources)
        return made
    return pod_of(resources, *env, target="whole" if vendor == "whole" else None)


def denied_by(vendor: str, place: GuardPlace, *, whole: bool) -> Iterator[tuple[Guard, str, str]]:
    """What each rule of a vendor denies in a place: a name, and a value that lifts."""
    guard = policy().vendors[vendor].guard
    for rule in (rule for rule in guard.rules if rule.place == place and rule.action == "deny"):
        lifts = rule.lifts
        value = "true" if lifts == "truthy" else (lifts or ["of-the-user"])[0]
        for name in (name.replace("*", "0") for name in rule.names):
            if guard.catch(name, value, whole=whole, place=place) is rule:
                yield rule, name, value


@each_of("vendor", SHARES)
def test_what_lifts_is_denied(vendor: str) -> None:
    """Whatever a list or a mapping has, under every vendor with it: by its value and by a reference."""
    under = policy(OWNERS.get(vendor, ""))
    assert decided(sent_for(vendor, SHARES[vendor]), under).allowed
    for _, name, value in denied_by(vendor, "env", whole=False):
        for written in (value, "$(OTHER)"):
            denial = decided(sent_for(vendor, SHARES[vendor], (name, written)), under).denial
            assert denial is not None, (name, written)
            assert denial.reason is Reason.GUARDED
            assert name in denial.message


@each_of("vendor", SHARES)
def test_no_mount_covers_what_the_library_reads(vendor: str) -> None:
    """However the path is written; not beside it, and not in a container that requests nothing."""
    under = policy(OWNERS.get(vendor, ""))

    def sent(path: str, index: int, kind: str) -> dict[str, Any]:
        made = sent_for(vendor, SHARES[vendor])
        made["spec"]["containers"].append({"name": "beside"})
        made["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
        made["spec"]["containers"][index] |= put_at(path)[kind]
        return made

    for kind in FIELDS:
        for rule, path, _ in denied_by(vendor, "mount", whole=False):
            parent, _, name = path.rpartition("/")
            ways = (path, path + "/", path[1:], f"{parent}//{name}", f"{parent}/./{name}", f"{parent}/x/../{name}/.")
            for spelled in (*ways, *(f"{way}{path}" for way in ROUNDABOUT)):
                denial = decided(sent(spelled, 0, kind), under).denial
                assert denial is not None, spelled
                assert denial.reason is Reason.GUARDED
                assert path in denial.message
                assert rule.whole or decided(sent(spelled, 1, kind), under).allowed
            assert decided(sent(f"/x{path}", 0, kind), under).allowed
        for other in ("/etc", "/usr/local", "/tmp"):
            assert decided(sent(other, 0, kind), under).allowed, other


@each_of("vendor", WHOLE)
def test_whole_devices_show_no_others(vendor: str) -> None:
    """What a container runtime reads is guarded beside them, unless it is harmless; limits are none to lift."""
    for rule, name, _ in denied_by(vendor, "env", whole=True):
        for value in rule.unless or ():
            assert decided(sent_for(vendor, WHOLE[vendor], (name, value)), policy()).allowed, (name, value)
        for value in ("all", "0", "0,1", "GPU-1", "$(OTHER)"):
            denial = decided(sent_for(vendor, WHOLE[vendor], (name, value)), policy()).denial
            assert denial is not None, (name, value)
            assert denial.reason is Reason.GUARDED
            assert "devices that the container did not request" in denial.message
    plain = decided(sent_for(vendor, WHOLE[vendor]), policy())
    for rule, name, value in denied_by(vendor, "env", whole=False):
        if not rule.whole:
            found = decided(sent_for(vendor, WHOLE[vendor], (name, value)), policy())
            assert (found.allowed, found.warnings) == (True, plain.warnings), name
    for rule, path, _ in denied_by(vendor, "mount", whole=False):
        made = sent_for(vendor, WHOLE[vendor])
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": path}]
        assert decided(made, policy()).allowed is not rule.whole


def test_an_escape_in_json_does_not_hide_the_mount() -> None:
    """Where undecoded JSON is searched, a path may be written with escapes, alone or after pods that are remembered."""
    under = load_policy()
    made = pod_of(SHARES["nvidia"])
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": "/data"}]
    written = json.dumps(made)
    for _ in range(3):
        assert decide(decode_pod(written.encode()), CONTEXT, under).allowed
        for path in (r"\/etc\/ld.so.preload", r"/etc/ld.s\u006f.preload", r"/etc\u002fld.so.preload"):
            hidden = written.replace("/data", path)
            assert not decide(decode_pod(hidden.encode()), CONTEXT, under).allowed, path


def test_an_escape_in_json_does_not_hide_the_variable() -> None:
    """Its name, or the key before it, however the JSON is laid out, alone or after pods that are remembered."""
    under = load_policy()
    made = pod_of(SHARES["nvidia"])
    made["spec"]["containers"][0]["env"] = [{"name": "A", "value": "true"}]
    written = json.dumps(made)
    entry = '{"name": "A", "value": "true"}'
    assert entry in written
    for _ in range(3):
        assert decide(decode_pod(written.encode()), CONTEXT, under).allowed
        for way in (
            r'{"name":"CUDA_DISABLE_CONTROL","value":"true"}',
            r'{"value":"true","name" :' + "\t" + r'"CUDA_DISABLE_CONTROL"}',
            r'{"name":"\u0043UDA_DISABLE_CONTROL","value":"true"}',
            r'{"n\u0061me":"CUDA_DISABLE_CONTROL","value":"true"}',
        ):
            hidden = written.replace(entry, way)
            assert not decide(decode_pod(hidden.encode()), CONTEXT, under).allowed, way


LEFT_ALONE: Mapping[str, dict[str, str]] = {
    "a count of 0": {"nvidia.com/gpu": "0"},
    "a priority alone": {"nvidia.com/priority": "1"},
    "several profiles": {"nvidia.com/mig-1g.5gb": "1", "nvidia.com/mig-2g.10gb": "1"},
}


@each_of("resources", LEFT_ALONE.values())
@each_of("kind", ["containers", "initContainers"])
@each_of("beside", [False, True])
def test_containers_that_are_left_alone_show_no_devices(resources: dict[str, str], kind: str, *, beside: bool) -> None:
    """Alone in a pod or beside a share, remembered or not; what would lift a limit is nothing to them."""

    def sent(*env: tuple[str, str]) -> dict[str, Any]:
        made = pod_of(SHARES["nvidia"] if beside else {})
        left = pod_of(resources, *env)["spec"]["containers"][0]
        made["spec"].setdefault(kind, []).append({**left, "name": "left"})
        return made

    under = load_policy()
    plain = decided(sent(), under)
    # The plugin of the share could take the third for the share's own.
    for env in [("A", "1"), ("NVIDIA_VISIBLE_DEVICES", "void"), ("CUDA_DISABLE_CONTROL", "true")][: 2 if beside else 3]:
        found = decided(sent(env), under)
        assert (found.allowed, found.reason) == (True, plain.reason)
        showing = sent()
        showing["spec"][kind][-1]["volumeMounts"] = [
            {"name": "n", "mountPath": "/var/run/nvidia-container-devices/all"}
        ]
        for each in (sent(("NVIDIA_VISIBLE_DEVICES", "all")), showing):
            denied = decided(each, under)
            assert denied.denial is not None
            assert (denied.denial.reason, denied.denial.container) == (Reason.GUARDED, "left")


MINORS = {"fieldRef": {"fieldPath": "metadata.annotations['scheduling.koordinator.sh/gpu-minors']"}}
LONGER = {"fieldRef": {"fieldPath": f"{MINORS['fieldRef']['fieldPath']}x"}}
FIELD = {"fieldRef": {"fieldPath": "metadata.annotations['mine']"}}
OF_KAI = {"configMapKeyRef": {"name": "p-x7k2m9q-shared-gpu-0", "key": "NVIDIA_VISIBLE_DEVICES"}}


@each_of(
    "vendor, resources, source, allowed",
    [
        ("koordinator", SHARES["koordinator"], MINORS, True),
        ("koordinator", WHOLE["koordinator"], MINORS, True),
        ("koordinator", SHARES["koordinator"], FIELD, False),
        ("koordinator", SHARES["koordinator"], LONGER, False),
        ("koordinator", WHOLE["koordinator"], FIELD, False),
        ("koordinator", SHARES["koordinator"], OF_KAI, False),
        ("kai", SHARES["kai"], OF_KAI, True),
        ("kai", SHARES["kai"], MINORS, False),
        ("nvidia", SHARES["nvidia"], MINORS, False),
        ("nvidia", SHARES["nvidia"], OF_KAI, False),
        ("nvidia", WHOLE["nvidia"], OF_KAI, False),
    ],
)
def test_a_source_is_the_vendors_own(
    vendor: str, resources: dict[str, str], source: dict[str, Any], *, allowed: bool
) -> None:
    """A source is harmless only under its own vendor, also where pods differ in nothing else."""
    for sources in [None, source, FIELD, source]:
        sent = sent_for(vendor, resources)
        if sources is not None:
            sent["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": sources}]
        assert decided(sent).allowed == (sources is None or (sources is source and allowed))


@pytest.mark.parametrize(
    "vendor, key, lifts, harmless",
    [
        ("vgpu-manager", "nvidia.com/vgpu-compute-policy", ["none", "NONE"], ["fixed", "balance", ""]),
        (
            "tensor-fusion",
            "tensor-fusion.ai/disable-features",
            ["gpu-limiter", "gpu-opt", "mem-manager,gpu-limiter"],
            ["mem-manager", "start-worker", ""],
        ),
    ],
)
def test_an_annotation_that_switches_limits_off(vendor: str, key: str, lifts: list[str], harmless: list[str]) -> None:
    """Remembered or not, of the vendor's own pods only.

    coldzerofear/vgpu-manager 3d7f66d, ``pkg/config/vgpu/vgpu_config.go``; NexusGPU/tensor-fusion 3e0a4901,
    ``internal/utils/compose.go``.
    """
    for value in [*harmless, *lifts, *harmless, *lifts]:
        for other in (vendor, "elastic-gpu"):
            sent = sent_for(other, SHARES[other])
            sent["metadata"].setdefault("annotations", {})[key] = value
            decision = decided(sent)
            assert decision.allowed == (value in harmless or other != vendor)
            assert decision.allowed or decision.reason is Reason.GUARDED
