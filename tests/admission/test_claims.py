"""Resource claims that the webhook writes; those of users are in `told/claims.yaml`, changed ones in `later/claims.yaml`."""

import re
from typing import Any

import pytest

from tests.decided import CONTEXT, POLICY, TEAM, decided, view
from tests.mapping.vendors import policy
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Namespace
from webhook.admission.claims import claims_in_status
from webhook.admission.judge import judge_pod
from webhook.labels import MODE
from webhook.mapping.model.policy import Policy
from webhook.mapping.writing import selectors_of
from webhook.pod import Metadata
from webhook.reasons import Reason
from webhook.request import template_name

SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "30"}


def pod(*resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with a container of each of these resources."""
    containers = [{"name": f"c{number}", "resources": requirements} for number, requirements in enumerate(resources)]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


WRITES = policy(settings="target: dra-hami")


def stored(data: dict[str, Any], in_force: Policy = WRITES) -> dict[str, Any]:
    """A pod as it is stored."""
    written: dict[str, Any] = apply_strictly(data, decided(data, in_force).patch)
    return written


def test_a_remembered_decision_needs_the_same_objects() -> None:
    """From the second pod of a template on the decision is remembered: those need the template, too."""
    decisions = [decided(pod({"limits": SHARE}), WRITES) for _ in range(4)]
    assert decisions[3] is decisions[2]
    (template,) = decisions[0].objects
    assert [decision.objects for decision in decisions] == [(template,)] * 4
    assert template.name == template_name(template.spec)


def test_only_a_changed_pod_needs_objects() -> None:
    """Where nothing is written, nothing is needed: in an audited namespace, and of a denied pod."""
    data = pod({"limits": SHARE})
    assert decided(data, WRITES).objects
    for mode in ("audit", "warn"):
        assert decided(data, WRITES, Context(Namespace("team", {**TEAM.labels, MODE: mode}))).objects == ()
    denied = decided(pod({"limits": SHARE}, nodeName="n"), WRITES)
    assert (denied.reason, denied.objects) == (Reason.NODE_NAME, ())


def test_a_status_describes_only_what_its_name_says() -> None:
    """A forged status yields no template: not with other numbers, another vendor, no quantity, or no JSON."""
    data = stored(pod({"limits": SHARE}))
    status = data["metadata"]["annotations"]["vgpu-webhook.io/status"]

    def found(text: str) -> list[str]:
        return [*claims_in_status(Metadata(annotations={"vgpu-webhook.io/status": text}), WRITES)]

    (name,) = found(status)
    assert data["spec"]["resourceClaims"] == [{"name": "vgpu-c0", "resourceClaimTemplateName": name}]
    for old, new in (
        ('"4000Mi"', '"40000Mi"'),
        ('"dra-hami"', '"dra-nvidia"'),
        ('"dra-hami"', '"nvidia"'),
        ('"4000Mi"', '"much"'),
        ("}}}", "}}"),
        (name, f"{name}0"),
    ):
        assert old in status
        forged = status.replace('"memory":"4000Mi"', '"memory":"1Mi"', 1).replace(old, new)
        assert found(forged) == []


@each_of("value", ["a' || true || '", "a\\", "!a", "ä", "a\nb"])
def test_what_a_forged_status_selects_is_quoted(value: str) -> None:
    """Whoever writes the hash of it, too, gets a template: nothing of a name stands outside its quotes."""
    expressions = selectors_of("d", WRITES.vendors["dra-hami"].keys["uuid"], value)
    outside = re.sub("'[^']*'", "", " ".join(expressions))
    assert re.fullmatch(r"(?:!?\(?device\.attributes\[\]\.uuid == (?: \|\| )?\)?)+", outside), expressions


MANAGES = policy(settings="target: dra-vgpu-manager")


def on_one_device(*mebibytes: int) -> dict[str, Any]:
    """A pod whose containers Volcano puts on one device."""
    return pod(*({"limits": {"volcano.sh/gpu-memory": str(number)}} for number in mebibytes))


def requests_of(data: dict[str, Any]) -> list[tuple[str, str]]:
    """The claim and the request of each container."""
    entries = [container["resources"]["claims"] for container in data["spec"]["containers"]]
    return [(claim["name"], claim["request"]) for (claim,) in entries]


def _capacities(request: dict[str, Any]) -> dict[str, str]:
    """What a request of a template takes of its device."""
    found: dict[str, str] = request["exactly"]["capacity"]["requests"]
    return found


def test_containers_on_one_device_have_a_request_each() -> None:
    """Of one claim; pods with the same amounts in any order share its template, and others have another."""
    (template,) = decided(on_one_device(1024, 2048, 1024), MANAGES).objects
    for amounts in ((1024, 1024, 2048), (2048, 1024, 1024)):
        assert decided(on_one_device(*amounts), MANAGES).objects == (template,)
        written = stored(on_one_device(*amounts), MANAGES)
        assert written["spec"]["resourceClaims"] == [
            {"name": "vgpu-volcano-legacy", "resourceClaimTemplateName": template.name}
        ]
        names = requests_of(written)
        assert sorted(names) == [("vgpu-volcano-legacy", f"gpu-{number}") for number in range(3)]
        assert names[amounts.index(2048)][1] == "gpu-2"
    assert decided(on_one_device(1024, 2048, 2048), MANAGES).objects != (template,)
    devices = template.spec["spec"]["devices"]
    assert [_capacities(request)["memory"] for request in devices["requests"]] == ["1Gi", "1Gi", "2Gi"]
    constraints = devices["constraints"]
    assert {"requests": ["gpu-0", "gpu-1", "gpu-2"], "matchAttribute": "manager.nvidia.com/uuid"} in constraints


@pytest.mark.parametrize("in_force", [MANAGES, policy(settings="target: nvidia"), policy(settings="target: dra-hami")])
def test_several_requests_stay(in_force: Policy) -> None:
    """A second pass, and whoever judges, reads the same and needs the same, whatever the target is now."""
    first = decided(on_one_device(1024, 2048, 1024), MANAGES)
    data = stored(on_one_device(1024, 2048, 1024), MANAGES)
    again = decided(data, in_force)
    assert (again.reason, again.patch, again.objects) == (Reason.ALREADY_RIGHT, (), first.objects)
    assert Reason.CLAIM_LEFT_UNCHANGED not in {each.reason for each in again.warnings}
    assert judge_pod(view(data), CONTEXT, in_force).allowed


def test_a_container_that_leaves_keeps_the_others_claim() -> None:
    """Another webhook that removes a container leaves the template as it is."""
    first = decided(on_one_device(1024, 2048, 3072), MANAGES)
    data = stored(on_one_device(1024, 2048, 3072), MANAGES)
    del data["spec"]["containers"][1]
    assert decided(data, MANAGES).objects == first.objects


def test_a_status_describes_only_the_requests_that_its_name_says() -> None:
    """Whoever swaps the requests of containers, leaves one out or adds one has described no template."""
    data = stored(on_one_device(1024, 2048), MANAGES)
    status = data["metadata"]["annotations"]["vgpu-webhook.io/status"]

    def found(text: str) -> list[str]:
        return [*claims_in_status(Metadata(annotations={"vgpu-webhook.io/status": text}), MANAGES)]

    assert found(status) == [data["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]]
    for old, new in (
        ('"gpu-0"', '"gpu-1"'),
        ('"gpu-1"', '"gpu-2"'),
        ('"gpu-1"', '"\\u0000"'),
        (',"claimRequest":"gpu-1"', ""),
        ('"2Gi"', '"3Gi"'),
        ('"target":"dra-vgpu-manager"', '"target":"dra-hami"'),
    ):
        assert old in status
        assert found(status.replace(old, new)) == []
    swapped = status.replace('"gpu-0"', '"x"').replace('"gpu-1"', '"gpu-0"').replace('"x"', '"gpu-1"')
    assert found(swapped) == []


def test_the_most_containers_on_one_device() -> None:
    """32 requests of one claim, whose names are in the order of their numbers."""
    (template,) = decided(on_one_device(*range(1, 33)), MANAGES).objects
    names = [request["name"] for request in template.spec["spec"]["devices"]["requests"]]
    assert names == [f"gpu-{number}" for number in range(32)]
    data = stored(on_one_device(*range(1, 33)), MANAGES)
    assert decided(data, MANAGES).objects == (template,)


TOGETHER = sorted(name for name, vendor in POLICY.vendors.items() if vendor.one_device)
WITH_CLAIMS = sorted(name for name, vendor in POLICY.vendors.items() if vendor.claim is not None and vendor.target)
OF_SOURCES = {"gpushare": ("aliyun.com/gpu-mem", 1024), "volcano-legacy": ("volcano.sh/gpu-memory", 1)}
"""How each source requests memory of its one device: the key, and the mebibytes of 1."""


@each_of("target", WITH_CLAIMS)
@each_of("source", TOGETHER)
def test_one_device_from_any_source_to_any_claim(source: str, target: str) -> None:
    """Each container's request in the template means what it requested; or all of it is denied."""
    key, unit = OF_SOURCES[source]
    in_force = policy(settings=f"target: {target}\nowners: {{aliyun.com/gpu-mem: gpushare}}\n")
    numbers = (3, 2, 2, 1)
    data = pod(*({"limits": {key: str(number * 1024 // unit)}} for number in numbers))
    decision = decided(data, in_force)
    vendor = in_force.vendors[target]
    assert vendor.claim is not None
    assert decision.allowed is (vendor.claim.matching is not None)
    if not decision.allowed:
        return
    (template,) = decision.objects
    found = {request["name"]: request for request in template.spec["spec"]["devices"]["requests"]}
    [capacity] = [key.claim for key in vendor.keys.values() if key.capacity and "memory" in key.dimensions]
    written = apply_strictly(data, decision.patch)
    for number, (_, request) in zip(numbers, requests_of(written), strict=True):
        assert found[request]["exactly"]["count"] == 1
        assert _capacities(found[request])[str(capacity)] == f"{number}Gi"
    again = decided(written, in_force)
    assert (again.reason, again.patch, again.objects) == (Reason.ALREADY_RIGHT, (), (template,))


def test_a_name_of_a_claim_that_is_taken() -> None:
    """The claim of ours gets another one."""
    sent = pod({"limits": SHARE}, {"claims": [{"name": "vgpu-c0"}]})
    assert [each["name"] for each in stored(sent)["spec"]["resourceClaims"]] == ["vgpu-c0-2"]
