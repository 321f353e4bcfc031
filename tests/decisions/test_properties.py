"""The properties of ``docs/behavior.md``, What always holds, by its numbers, over generated pods, namespaces and policies."""

import copy
import json
from typing import Any

import jsonpatch
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.enforcement import core_limit, memory_limit
from tests.fuzz.oracle.claims import claims, claims_in
from tests.fuzz.oracle.meaning import at_least
from tests.generators.admissions import Admitted, admissions, all_containers, allowed, changed, decision_on
from tests.generators.pods import pods, sound_pods
from tests.generators.policies import Configured, contexts, policies
from tests.strict_patch import apply_strictly
from webhook.admission import Context
from webhook.labels import CHANGED
from webhook.quantity import parse_quantity
from webhook.reasons import Reason

SOURCES = {"nvidia.com", "iluvatar.ai", "aliyun.com", "tencent.com", "vke.volcengine.com"}


@given(changed())
def test_second_pass_changes_nothing(admitted: Admitted) -> None:
    """1: the output, sent again, is allowed and needs nothing."""
    again = decision_on(admitted.stored, admitted.context, admitted.policy)
    assert again.denial is None
    assert again.patch == ()


@given(changed())
def test_patch_applies_for_any_reader(admitted: Admitted) -> None:
    """2: two appliers, one strict and one lenient, make the same of it, and the pod that was sent is not touched."""
    before = copy.deepcopy(admitted.pod)
    assert jsonpatch.apply_patch(admitted.pod, json.loads(json.dumps(admitted.decision.patch))) == admitted.stored
    assert admitted.pod == before


@given(changed())
def test_what_we_do_not_know_survives(admitted: Admitted) -> None:
    """3: unknown fields stay as they were, and so does everything that a share does not concern."""
    assert futures(admitted.stored) == futures(admitted.pod)
    for before, after in admitted.containers():
        assert {**before, **dict.fromkeys(OURS_IN_CONTAINERS)} == {**after, **dict.fromkeys(OURS_IN_CONTAINERS)}
        for side in ("limits", "requests"):
            assert foreign(before, side) == foreign(after, side)
        assert listed(before, "volumeMounts") == listed(after, "volumeMounts")[: len(listed(before, "volumeMounts"))]
    spec, stored = admitted.pod["spec"], admitted.stored["spec"]
    assert {**spec, **dict.fromkeys(OURS_IN_SPEC)} == {**stored, **dict.fromkeys(OURS_IN_SPEC)}
    assert listed(stored, "volumes")[: len(listed(spec, "volumes"))] == listed(spec, "volumes")
    labels, stored_labels = (pod["metadata"].get("labels") or {} for pod in (admitted.pod, admitted.stored))
    assert {**labels, CHANGED: ""}.items() <= {**stored_labels, CHANGED: ""}.items()


OURS_IN_CONTAINERS = ("resources", "env", "volumeMounts")
OURS_IN_SPEC = ("containers", "initContainers", "volumes", "schedulerName", "nodeName", "affinity")


def futures(pod: Any) -> list[str]:
    """The unknown fields of a pod with their values, wherever they stand."""
    found: list[str] = []
    members = pod.items() if isinstance(pod, dict) else enumerate(pod) if isinstance(pod, list) else ()
    for key, value in members:
        found.extend([json.dumps(value)] if key == "futureField" else futures(value))
    return found


def foreign(container: dict[str, Any], side: str) -> dict[str, Any]:
    """The resources that no vendor knows."""
    resources = (container.get("resources") or {}).get(side) or {}
    return {name: value for name, value in resources.items() if name.partition("/")[0] not in SOURCES}


def listed(parent: dict[str, Any], key: str) -> list[Any]:
    """A list that may be absent or null."""
    return parent.get(key) or []


@given(changed())
def test_limits_and_requests_agree(admitted: Admitted) -> None:
    """4: what was written stands in both with one value, and of a translated container no source name is left."""
    of_the_pod = {name for part in ("labels", "annotations") for name in admitted.stored["metadata"].get(part) or ()}
    for before, after in admitted.containers():
        account = admitted.decision.status["containers"].get(before["name"])
        if account is None:
            assert before == after
            continue
        resources = after.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in account.get("written", {}):
            if name in limits or name not in of_the_pod:
                assert parse_quantity(str(limits[name])) == parse_quantity(str(requests[name]))
        if "target" in account:
            for name in {*limits, *requests} - account["written"].keys():
                owners = admitted.policy.resources.owners(name)
                assert not owners or owners[0].vendor != account["vendor"]


@given(allowed())
def test_never_less_than_requested(admitted: Admitted) -> None:
    """5: by the vendors' documentation every container gets at least the devices, memory and cores that it requested."""
    dropped = {
        finding.container for finding in admitted.decision.warnings if finding.reason is Reason.DIMENSION_DROPPED
    }
    for before, after in admitted.containers():
        requested, got = admitted.read(admitted.pod, before).meaning, admitted.amounts(admitted.stored, after)
        if requested is None or before["name"] not in admitted.decision.status.get("containers", {}):
            assert before == after
            continue
        assert got is not None
        filled = {dimension for dimension in requested.unset if fillable(admitted, requested.vendor, dimension)}
        wanted = requested.amounts({dimension: getattr(got, dimension) for dimension in filled})
        assert wanted is not None
        assert got.devices == wanted.devices
        assert at_least(got.memory, wanted.memory, admitted.card)
        assert before["name"] in dropped or at_least(got.cores, wanted.cores)


def fillable(admitted: Admitted, vendor: str, dimension: str) -> bool:
    """Whether a default of the mapping or the namespace could be filled in."""
    annotated = f"vgpu-webhook.io/default-{dimension}" in admitted.context.namespace.annotations
    return annotated or dimension in admitted.policy.vendors[vendor].defaults


@given(admissions())
def test_claims_stay_and_are_never_beside_a_request(admitted: Admitted) -> None:
    """Claims are never changed, nor called no GPU, and no container that holds GPUs has one beside them."""
    if claims_in(admitted.pod):
        assert admitted.decision.reason is not Reason.NO_GPU_KEYS
    for before, after in admitted.containers():
        assert (before.get("resources") or {}).get("claims") == (after.get("resources") or {}).get("claims")
        holds = before["name"] in admitted.decision.status.get("containers", {})
        assert not (admitted.decision.allowed and holds and claims(before))
    assert admitted.stored["spec"].get("resourceClaims") == admitted.pod["spec"].get("resourceClaims")


LIBRARY = "/usr/local/vgpu-shim/libvgpu.so"
OUR_MOUNTS = st.fixed_dictionaries(
    {
        "name": st.just("vgpu-shim"),
        "mountPath": st.sampled_from(["/usr/local/vgpu-shim", "/usr/local/vgpu-shim/", "/own"]),
        "readOnly": st.just(value=True),
    }
)
PARTS = st.sampled_from([{}, {"subPath": ""}, {"subPath": "part"}, {"subPathExpr": ""}, {"subPathExpr": "$(A)"}])
"""What of the volume with the shim's library is mounted: the whole, as we do, or a part, which the library may not be in."""


@st.composite
def with_our_volume(draw: st.DrawFn) -> Admitted:
    """A pod for NVIDIA's devices with the decision on it, in which the shim's volume or a part of it is mounted already."""
    pod = draw(sound_pods())
    pod["metadata"]["annotations"] = {"vgpu-webhook.io/target": "nvidia"}
    for container in all_containers(pod):
        container["volumeMounts"] = [{**draw(OUR_MOUNTS), **draw(PARTS)}]
    return Admitted(pod, draw(contexts()), draw(policies()))


@given(with_our_volume().filter(lambda each: each.decision.allowed))
def test_no_shim_without_its_library(admitted: Admitted) -> None:
    """6: a mount of the shim's own volume that does not bring the library is never taken for one that does."""
    check_shim(admitted)


@given(allowed())
def test_no_shim_without_its_limit(admitted: Admitted) -> None:
    """6: whoever gets the shim gets its library and the limit of exactly his share, and nobody has a limit of his own."""
    check_shim(admitted)


def check_shim(admitted: Admitted) -> None:
    """Property 6 of a pod that is not denied."""
    for before, after in admitted.containers():
        env = {entry["name"]: entry.get("value") for entry in listed(after, "env")}
        vendor, got = admitted.read(admitted.stored, after).vendor, admitted.amounts(admitted.stored, after)
        if LIBRARY in (env.get("LD_PRELOAD") or ""):
            assert got is not None
            assert vendor == "nvidia"
            assert not got.whole
            assert env["CUDA_DEVICE_MEMORY_LIMIT"] == memory_limit(got) is not None
            assert env.get("CUDA_DEVICE_SM_LIMIT") == core_limit(got)
            assert_library_is_mounted(after)
        if got is None or vendor != "nvidia" or before["name"] not in admitted.decision.status.get("containers", {}):
            continue
        limits = {name: value for name, value in env.items() if name.startswith("CUDA_DEVICE_MEMORY_LIMIT")}
        if not got.whole:
            if limits or "CUDA_REDIRECT" in env:
                assert limits == {"CUDA_DEVICE_MEMORY_LIMIT": memory_limit(got)}
            assert env.get("CUDA_DEVICE_SM_LIMIT") in {None, core_limit(got)}


def assert_library_is_mounted(container: dict[str, Any]) -> None:
    """At the folder of the shim's library stands its volume alone: the whole of it, and read-only."""
    mounts = listed(container, "volumeMounts")
    resources = [mount for mount in mounts if mount["mountPath"].rstrip("/") == "/usr/local/vgpu-shim"]
    assert resources
    for mount in resources:
        assert mount["name"] == "vgpu-shim"
        assert mount["readOnly"] is True
        assert not mount.get("subPath")
        assert not mount.get("subPathExpr")


@given(allowed())
def test_search_path_is_clean(admitted: Admitted) -> None:
    """Where the search path was written it has no empty element, which would mean the current directory."""
    for before, after in admitted.containers():
        if listed(before, "env") == listed(after, "env"):
            continue
        for entry in listed(after, "env"):
            if entry["name"] == "LD_LIBRARY_PATH" and "value" in entry:
                assert all(entry["value"].split(":"))


FIELDS = [
    *("metadata", "spec", "containers", "initContainers", "resources", "limits", "requests", "env", "name", "value"),
    *("labels", "annotations", "volumes", "volumeMounts", "nvidia.com/gpu", "nvidia.com/gpumem", "aliyun.com/gpu-mem"),
]
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(), st.sampled_from(FIELDS)), inner, max_size=4),
    ),
    max_leaves=20,
)


@st.composite
def shaped_like_pods(draw: st.DrawFn) -> Any:
    """A pod in which something, somewhere, is anything."""
    pod: Any = draw(pods())
    parent, key = pod, draw(st.sampled_from(sorted(pod)))
    while isinstance(parent[key], dict | list) and parent[key] and draw(st.integers(0, 4)) > 0:
        parent = parent[key]
        key = draw(st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent))))
    parent[key] = draw(st.one_of(JSON, st.sampled_from(["9" * 400, 1e300, -1, [None], {"": {}}])))
    return pod


@given(
    st.one_of(shaped_like_pods(), st.fixed_dictionaries({"metadata": JSON, "spec": JSON}), JSON), contexts(), policies()
)
def test_anything_that_is_decoded_is_decided(pod: Any, context: Context, configured: Configured) -> None:
    """Whatever comes is no pod, or gets a decision whose patch applies; nothing else ever happens."""
    try:
        decision = decision_on(pod, context, configured.policy)
    except msgspec.DecodeError:  # also of the parts that are decoded only where they matter
        return
    apply_strictly(pod, decision.patch)
