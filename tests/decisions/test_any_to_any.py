"""Any vendor's requests in any other's terms: denied with a reason, or valid there, the least not below what was requested.

Pods are made from the mappings with seeded generators, so that a new vendor is in at once: at random, and at the boundaries of
both documents. `make test-all PART=long` takes some of every pair, `make test` of a few pairs. What `vendors --matrix` says of
a pair is what becomes of pods with the probes.
"""

import itertools
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.depth import few_or_all, partners
from tests.generators.boundaries import boundary_pods
from tests.generators.requests import PATTERNED, Json, requesting_pods
from tests.mapping.vendors import unprobed
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.collect import ContainerRequest, collect
from webhook.admission.overrides import defaults_for
from webhook.admission.survey import survey
from webhook.cli.matrix import pairs, probes
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import documents_in
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.templates import read_template
from webhook.mapping.requests.values import KeyValue
from webhook.pod import decode_pod
from webhook.quantity import parse_quantity
from webhook.reasons import Denied, Reason
from webhook.request import ALL, UNLIMITED, Percent, Request, Size, template_name

DOCUMENTS = documents_in(Path(__file__).parents[1] / "mapping" / "documents")
CONFIGURED = "extends: cambricon\nkeys: {vmemory: {unit: 256Mi}}\n"
NAMESPACE = Namespace("team", {"vgpu-webhook.io/inject": "enabled"})
CONTEXT = Context(NAMESPACE, pod_security_default="privileged")
TARGET = "vgpu-webhook.io/target"
SEED = "any to any"
REASONS = {
    Reason.NO_EQUIVALENT,
    Reason.READ_BACK_DIFFERS,
    Reason.NOT_A_TARGET,
    Reason.LABEL_CONFLICT,
    Reason.VENDOR_INACTIVE,
    Reason.TOO_MANY,  # a shim has variables for so many devices only
}
"""Why a request that its own vendor takes is not translated."""
STANDBY = {
    "gpushare": "aliyun.com/gpu-mem",
    "mig-single": "nvidia.com/gpu",
    "mps": "nvidia.com/gpu.shared",
    "whole": "nvidia.com/gpu",
}
"""Vendors that are inactive unless they own this name."""


def policy_for(vendor: str = "", changes: str = "") -> Policy:
    """Everything configured that can be a source or a target, and the vendor in force that would are inactive.

    Args:
        vendor: who has to be in force.
        changes: a document in place of the one that configures the same vendor.
    """
    return _policy_for(vendor if vendor in STANDBY else "", changes)


@cache
def _policy_for(vendor: str, changes: str) -> Policy:
    settings = f"owners: {{{STANDBY[vendor]}: {vendor}}}\n" if vendor else "{}\n"
    own = parse(changes, "changes")
    changed = {document.data["extends"] for document in own}
    documents = [each for each in (*DOCUMENTS, *parse(CONFIGURED, "configured")) if each.data["extends"] not in changed]
    return unprobed([*documents, *own], parse(settings, "settings")[0])


POLICY = policy_for()
VENDORS = sorted(POLICY.vendors)
SOURCES = [name for name in VENDORS if POLICY.vendors[name].claim is None]
"""Those in whose keys pods are written; the others are targets only."""

REQUESTS = 5
"""Requests of each pair."""
ALWAYS = {"mig": "dra-nvidia-mig", "nvidia": "kunlun"}
"""A target that writes a request by the name that its keys have, and one that the source's defaults decide about."""


@cache
def policy_between(source: str, target: str) -> Policy:
    """Source and target active; the source alone, where the two share a name."""
    names = {vendor: {name for name, _ in resource_names(POLICY.vendors[vendor])} for vendor in (source, target)}
    if target not in STANDBY or STANDBY[target] in names[source]:
        return policy_for(source)
    if source not in STANDBY:
        return policy_for(target)
    owners = {STANDBY[source]: source, STANDBY[target]: target}
    documents = [*DOCUMENTS, *parse(CONFIGURED, "configured")]
    return unprobed(documents, parse(json.dumps({"owners": owners}), "settings")[0])


def resource_names(vendor: Vendor) -> Iterator[tuple[str, object]]:
    """The resource names that can be listed."""
    for key in vendor.keys.values():
        if key.place == "resource":
            for template in key.spellings:
                yield from template.names(vendor.document.variables)


def request_in(pod: Json, policy: Policy) -> ContainerRequest | None:
    """The container that requests a device, with its keys; None where its own vendor denies them."""
    try:
        found = collect(survey(decode_pod(json.dumps(pod).encode()), policy).keys, policy)
    except Denied:
        return None
    return found[0] if len(found) == 1 else None


def meaning(request: ContainerRequest, target: Vendor, policy: Policy) -> Request | None:
    """What it requests, with the defaults that hold on the way to the target; None where its own vendor refuses it."""
    defaults, _ = defaults_for(request.vendor, target, {})
    try:
        return read(request.vendor, request.key_values, defaults, policy.largest_card, request.name).request
    except Denied:
        return None


def translated(pod: Json, target: str, policy: Policy) -> tuple[Json, Decision]:
    """The pod on order for a target, and what is stored."""
    ordered = json.loads(json.dumps(pod))
    ordered["metadata"]["annotations"][TARGET] = target
    decision = decide(decode_pod(json.dumps(ordered).encode()), CONTEXT, policy)
    return apply_strictly(ordered, decision.patch), decision


def requests(source: str, target: str, policy: Policy, most: int) -> Iterator[tuple[Json, Request]]:
    """So many requests that the source takes, with what they ask for: at random, and at the boundaries of both documents."""
    random_ = random.Random(f"{SEED}: {source} to {target}")
    vendors = policy.vendors[source], policy.vendors[target]
    pods = itertools.chain.from_iterable(
        zip(requesting_pods(vendors[0], random_), boundary_pods(*vendors, random_), strict=False)
    )
    found = 0
    for pod in itertools.islice(pods, 40 * most):
        request = request_in(pod, policy)
        if request is None or request.vendor.name != source:
            continue
        requested = meaning(request, policy.vendors[target], policy)
        if requested is None:
            continue
        found += 1
        yield pod, requested
        if found == most:
            return
    assert found, f"no request of {source} is taken"


@pytest.mark.timeout(3600)
@few_or_all
@pytest.mark.parametrize("source", SOURCES)
def test_any_to_any(source: str, most: int) -> None:
    """Each request is denied, or written; what is written exactly translates back to the same request, unless it is denied."""
    for target in partners(source, VENDORS, most):
        policy = policy_between(source, target)
        for pod, requested in requests(source, target, policy, REQUESTS):
            stored, decision = translated(pod, target, policy)
            try:
                if decision.denial is not None:
                    assert decision.reason in REASONS
                    continue
                assert policy.vendors[target].target
                kept = requested
                if any(each.reason is Reason.DIMENSION_DROPPED for each in decision.warnings):
                    assert policy.vendors[target].document.drop
                    kept = replace(requested, cores=UNLIMITED)
                got = check_stored(pod, stored, kept, policy)
                before = request_in(pod, policy)
                assert before is not None
                check_templates(stored, decision, got, before, policy)
                check_least(policy.vendors[target], kept, stored, policy)
                if got == requested and policy.vendors[target].claim is None:
                    check_back(stored, source, got, policy)
            except AssertionError as error:
                raise AssertionError(f"{source} to {target}: {json.dumps(pod)} ({requested}): {decision}") from error


@pytest.mark.timeout(3600)
@few_or_all
@pytest.mark.parametrize("source", SOURCES)
def test_the_matrix_says_what_becomes_of_pods(source: str, most: int) -> None:
    """Written where all probes are written as pods for the target, denied where all are denied; else it depends."""
    table = {pair.target: pair.outcome for pair in pairs(POLICY, source)}
    assert table.keys() == {name for name in VENDORS if POLICY.vendors[name].target} - {source}
    for target in table.keys() & {*partners(source, VENDORS, most), ALWAYS.get(source)}:
        policy = policy_between(source, target)
        vendors = policy.vendors[source], policy.vendors[target]
        tried = [container for container, _ in probes(vendors[0], defaults_for(*vendors, {})[0], policy.largest_card)]
        written = {translated(pod_with(container), target, policy)[1].allowed for container in tried}
        names = [{name for name, _ in resource_names(vendor)} for vendor in vendors]
        if names[0] & names[1]:
            assert table[target] == "only one is active"
        elif len(written) > 1:
            assert table[target] == "depends on the amount", target
        else:
            assert table[target] == ("written" if True in written else "denied"), target


def pod_with(container: ContainerRequest) -> Json:
    """A pod in the keys of a probe, with the texts by which a name of another vendor is read."""
    side: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {"resource": side, "borrowed": side, "label": {}, "annotation": {}}
    keys = container.vendor.keys
    for entry in container.key_values.values():
        for other, text in keys[entry.key_name].in_pods.items():
            found[keys[other].place][keys[other].spelled({})] = text
        name = re.sub(r"\{(\w+)\}", lambda found: PATTERNED[found[1]], entry.key)
        found[keys[entry.key_name].place][name] = entry.text
    main = {"name": container.name, "resources": {"limits": side, "requests": dict(side)}}
    metadata = {"name": "p", "labels": found["label"], "annotations": found["annotation"]}
    return {"metadata": metadata, "spec": {"containers": [main]}}


def check_stored(pod: Json, stored: Json, requested: Request, policy: Policy) -> Request:
    """Not less than requested, no key of the source left, nothing of the user's lost, and valid for the target."""
    before, after = request_in(pod, policy), request_in(stored, policy)
    assert before is not None
    assert after is not None
    target = target_of_stored(stored, before, policy)
    assert after.name == before.name
    assert after.vendor is target or target.inactive
    got = meaning(after, target, policy)
    assert got is not None
    assert got.devices == requested.devices
    assert at_least(got.memory, requested.memory)
    assert at_least(got.cores, requested.cores)
    container = next(container for container in stored["spec"]["containers"] if container["name"] == before.name)
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    assert limits == requests
    assert all(isinstance(parse_quantity(text), int) for text in limits.values())
    left = {key_value.key for key_value in before.all_key_values.values()} - {
        key_value.key for key_value in after.all_key_values.values()
    }
    assert not left & {*limits, *stored["metadata"]["annotations"]}
    assert stored["metadata"]["labels"].items() >= pod["metadata"]["labels"].items()
    assert stored["metadata"]["annotations"]["team.example/a"] == "b"
    assert all(isinstance(text, str) for text in stored["metadata"]["annotations"].values())
    again = decide(decode_pod(json.dumps(stored).encode()), CONTEXT, policy)
    assert (again.denial, again.patch) == (None, ())
    return got


def target_of_stored(stored: Json, before: ContainerRequest, policy: Policy) -> Vendor:
    """The target on order; of slices, that of its slices."""
    target = policy.vendors[stored["metadata"]["annotations"][TARGET]]
    if before.vendor.name not in {"mig", "mig-single"} or target.name != "dra-nvidia":
        return target
    return policy.vendors["dra-nvidia-mig"]


def check_templates(stored: Json, decision: Decision, got: Request, before: ContainerRequest, policy: Policy) -> None:
    """The pod of a target with claims names one template, which alone means the same; no other pod needs any."""
    target = target_of_stored(stored, before, policy)
    named = [claim["resourceClaimTemplateName"] for claim in stored["spec"].get("resourceClaims", ())]
    assert named == [template.name for template in decision.objects]
    assert len(named) == (target.claim is not None)
    for template in decision.objects:
        assert template_name(template.spec) == template.name
        found = read_template(template.spec, policy.vendors.values())
        assert found is not None
        assert found.vendor is target
        key_values = {entry.key_name: entry for entry in found.requests["gpu"]}
        uncounted = any(not key.counted for key in target.keys.values())
        counted = replace(got, cores=UNLIMITED) if uncounted and not got.whole else got
        assert read(target, key_values, {}, policy.largest_card, "main").request == counted


def at_least(got: Any, requested: Any) -> bool:
    """Whether an amount is not less than another; no limit may become one of a name that has it, or of a whole device."""
    if isinstance(requested, Size):
        return got == ALL or (isinstance(got, Size) and got.bytes >= requested.bytes)
    if isinstance(requested, Percent):
        return isinstance(got, Percent) and got.value >= requested.value
    return requested is UNLIMITED


def check_least(target: Vendor, requested: Request, stored: Json, policy: Policy) -> None:
    """A step less of any written key would be too little, or not legal: read by the target's rules, key by key."""
    request = request_in(stored, policy)
    assert request is not None
    if request.vendor is not target:
        return
    check_least_name(target, requested, request)
    reading = read(target, request.key_values, {}, policy.largest_card, request.name)
    for name, key_value in request.key_values.items():
        key = reading.form.keys[name]
        if key.kind != "amount" or "devices" in key.dimensions or key.unit is None:
            continue
        step = key.step * (requested.devices or 1 if key.total else 1)
        less = {
            **request.key_values,
            name: replace(key_value, number=key_value.number - step, text=str(key_value.number - step)),
        }
        assert too_little(target, less, requested, reading.request, policy), f"{key_value} is more than needed"


def check_least_name(target: Vendor, requested: Request, request: ContainerRequest) -> None:
    """Of names that say the size, none that may be written and holds the request is smaller."""
    for variable in target.variables.values():
        chosen = next((dict(key_value.binding).get(variable.name) for key_value in request.key_values.values()), None)
        row = variable.rows.get(chosen or "")
        if row is None or not isinstance(row.least, Size):
            continue
        for other in (variable.rows[name] for name in variable.write):
            if isinstance(other.least, Size) and other.least.bytes < row.least.bytes:
                assert not (at_least(other.least, requested.memory) and at_least(other.least_cores, requested.cores)), (
                    chosen
                )


def too_little(
    target: Vendor, key_value: dict[str, KeyValue], requested: Request, written: Request, policy: Policy
) -> bool:
    """Whether keys mean less than requested, are invalid for the vendor, or (in a larger unit) mean more than was written."""
    if any(each.number <= 0 for each in key_value.values() if target.keys[each.key_name].kind == "amount"):
        return True
    try:
        reading = read(target, key_value, {}, policy.largest_card, "main")
    except Denied:
        return True
    if reading.corrections:  # the vendor itself would raise the number again
        return True
    got = reading.request
    if isinstance(got.memory, Size) and isinstance(written.memory, Size) and got.memory.bytes > written.memory.bytes:
        return True
    same = (
        got.devices == requested.devices
        and at_least(got.memory, requested.memory)
        and at_least(got.cores, requested.cores)
    )
    return (
        not same
        or (requested.cores is UNLIMITED and got.cores is not UNLIMITED)
        or (requested.memory is UNLIMITED and got.memory is not UNLIMITED)
    )


def check_back(stored: Json, source: str, got: Request, policy: Policy) -> None:
    """There and back is the least that the source writes for it, or denied; the keys alone: what a shim adds stays behind.

    Where a system takes more sizes than it writes (slices of other devices, amounts in other steps), that may be more.
    """
    vendor = policy.vendors[source]
    metadata = {key: stored["metadata"][key] for key in ("name", "labels", "annotations")}
    containers = [
        {key: container[key] for key in ("name", "resources") if key in container}
        for container in stored["spec"]["containers"]
    ]
    there = policy.vendors[metadata["annotations"][TARGET]]
    home, decision = translated({"metadata": metadata, "spec": {"containers": containers}}, source, policy)
    if decision.denial is not None:
        # A label stays, and with it the target still reads the names that it borrows.
        kept = not {name for name, _ in resource_names(vendor)}.isdisjoint(there.borrowed)
        reasons = {Reason.NO_EQUIVALENT, *([Reason.READ_BACK_DIFFERS] if kept else [])}
        assert decision.reason in (reasons if vendor.target else {Reason.NOT_A_TARGET})
        return
    request = request_in(home, policy)
    assert request is not None
    back = meaning(request, vendor, policy)
    assert back is not None
    assert back.devices == got.devices
    assert at_least(back.memory, got.memory)
    assert at_least(back.cores, got.cores)
    check_least(vendor, got, home, policy)
