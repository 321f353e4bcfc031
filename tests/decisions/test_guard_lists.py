"""One guard list for one library: what lifts under one of its vendors lifts under all, and whole devices show no others."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from tests.naming import each_of
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

OPTED_IN = Namespace("team", {"vgpu-webhook.io/inject": "enabled"})

SHARES: Mapping[str, dict[str, str]] = {
    "nvidia": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3k"},
    "volcano": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3k"},
    "koordinator": {"koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-memory-ratio": "30"},
    "vgpu-manager": {"nvidia.com/vgpu-number": "1", "nvidia.com/vgpu-memory": "3k"},
    "vcuda": {"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "16"},
    "elastic-gpu": {"elasticgpu.io/gpu-core": "30", "elasticgpu.io/gpu-memory": "3k"},
    "mig": {"nvidia.com/mig-1g.5gb": "1"},
    "timeslicing": {"nvidia.com/gpu.shared": "1"},
    "kai": {"gpu-fraction": "0.5"},
    "nvfractions": {"nvidia.com/container.main.gpu-memory.limit": "3Gi"},
    "tensor-fusion": {"tensor-fusion.ai/vram-limit": "3Gi", "tensor-fusion.ai/inject-container": "main"},
    "gpushare": {"aliyun.com/gpu-mem": "3"},
    "amd": {"amd.com/gpu": "1", "amd.com/gpumem": "3k"},
    "ascend": {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"},
    "cambricon": {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vcore": "30"},
    "enflame": {"enflame.com/gcu-memory": "3"},
    "hygon": {"hygon.com/dcunum": "1", "hygon.com/dcumem": "3k"},
    "iluvatar": {"iluvatar.ai/vgpu": "1", "iluvatar.ai/vcuda-memory": "16"},
    "intel": {"gpu.intel.com/i915": "1", "gpu.intel.com/tiles": "1"},
    "kunlun": {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "24576"},
    "neuron": {"aws.amazon.com/neuroncore": "1"},
}
BY_ANNOTATIONS = {"kai", "nvfractions", "tensor-fusion"}
"""Vendors whose requests stand in the pod's annotations."""
WHOLE: Mapping[str, dict[str, str]] = {
    "nvidia": {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "100"},
    "whole": {"nvidia.com/gpu": "1"},
    "volcano": {"volcano.sh/vgpu-number": "1"},
    "volcano-legacy": {"volcano.sh/gpu-number": "2"},
    "koordinator": {"koordinator.sh/gpu": "100"},
    "vgpu-manager": {"nvidia.com/vgpu-number": "1"},
    "vcuda": {"tencent.com/vcuda-core": "100"},
    "elastic-gpu": {"elasticgpu.io/gpu-core": "100"},
    "qgpu": {"tke.cloud.tencent.com/qgpu-core": "100"},
    "vke": {"vke.volcengine.com/mgpu-core": "100"},
    "baidu": {"baidu.com/a10_24g_cgpu": "1"},
    "nano-gpu": {"nano-gpu/gpu-percent": "100"},
    "amd": {"amd.com/gpu": "1"},
    "ascend": {"huawei.com/Ascend910B3": "2"},
    "cambricon": {"cambricon.com/vmlu": "2"},
    "enflame": {"enflame.com/gcu": "1"},
    "hygon": {"hygon.com/dcunum": "2"},
    "iluvatar": {"iluvatar.ai/vgpu": "2"},
    "kunlun": {"kunlunxin.com/xpu": "1"},
    "mthreads": {"mthreads.com/vgpu": "1"},
    "neuron": {"aws.amazon.com/neuron": "1"},
    "vastai": {"vastaitech.com/va": "1"},
}
VISIBLE: Mapping[str, tuple[str, ...]] = {
    # ROCm/container-toolkit 192fe8e, internal/oci/oci.go, getAMDEnv: any DOCKER_RESOURCE_ counts, whatever follows.
    "amd": ("AMD_VISIBLE_DEVICES", "DOCKER_RESOURCE_GPU", "DOCKER_RESOURCE_"),
    "ascend": ("ASCEND_VISIBLE_DEVICES",),
    "cambricon": ("CAMBRICON_VISIBLE_DEVICES",),
    "enflame": ("ENFLAME_VISIBLE_DEVICES",),
    # HYGON-AI/hcu-container-toolkit 9b3eed0, internal/config/image: envvars.go, and dtk_image.go, DevicesFromEnvvars.
    "hygon": (
        "DCU_VISIBLE_DEVICES",
        "HCU_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "VHCU_VISIBLE_DEVICES",
        "MIG_VISIBLE_DEVICES",
        "DOCKER_RESOURCE_HCU",
    ),
    "iluvatar": ("IX_VISIBLE_DEVICES", "ILUVATAR_COREX_VISIBLE_DEVICES"),
    "kunlun": ("CXPU_VISIBLE_DEVICES",),
    "mthreads": ("MTHREADS_VISIBLE_DEVICES",),
    "neuron": ("AWS_NEURON_VISIBLE_DEVICES",),
    "vastai": ("VASTAI_VISIBLE_DEVICES",),
}
"""By vendor the variables by which its container runtime gives devices; of the others it is NVIDIA's."""
LIFTING = {
    "hami-core": [
        ("CUDA_DISABLE_CONTROL", "true"),
        ("CUDA_OVERSUBSCRIBE", "true"),
        ("GPU_CORE_UTILIZATION_POLICY", "disable"),
        ("CUDA_DEVICE_MEMORY_LIMIT", "80g"),
        ("CUDA_DEVICE_MEMORY_LIMIT_0", "80g"),
        ("CUDA_DEVICE_SM_LIMIT", "0"),
        ("CUDA_DEVICE_SM_LIMIT_1", "100"),
        ("CUDA_REDIRECT", "/tmp/mine.so"),
        ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/opt/mine.cache"),
    ],
    "vgpu-manager": [
        ("DISABLE_VGPU_CONTROL", "true"),
        ("CUDA_MEM_LIMIT_0", "80g"),
        ("CUDA_MEM_RATIO", "9"),
        ("CUDA_MEM_OVERSOLD_0", "1"),
        ("CUDA_CORE_LIMIT", ""),
        ("CUDA_CORE_SOFT_LIMIT_0", "100"),
        ("MANAGER_VISIBLE_DEVICES", "GPU-1"),
        ("MANAGER_VISIBLE_DEVICE_0", "GPU-1"),
        ("VGPU_POD_UID", "1"),
        ("CUDA_SM_SHARED_BUCKET", "false"),
    ],
    "nvidia-runtime": [("NVIDIA_VISIBLE_DEVICES", "all"), ("NVIDIA_VISIBLE_DEVICES", "0")],
    "fractiond": [
        ("NVIDIA_GPU_MEMORY_LIMIT", "81920"),
        ("NVIDIA_GPU_MEMORY_LIMITS", "81920"),
        ("NVIDIA_GPU_MEMORY_REQUESTS", "1"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=80G"),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"),
        ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mine"),
    ],
    # NexusGPU/tensor-fusion 3e0a4901, pkg/constants/env.go.
    "of tensor-fusion": [("DISABLE_GPU_LIMITER", "true"), ("TF_ENABLE_DISPATCH_FORWARD", "1")],
    # AliyunContainerService/gpushare-device-plugin, allocate.go: what its cGPU takes for off.
    "of gpushare": [("CGPU_DISABLE", "true"), ("CGPU_DISABLE", "1")],
    # Project-HAMi/amd-device-plugin 808784f, internal/pkg/plugin/plugin.go; amd-hami-core 17db229, src/hip/env_policy.h.
    "of amd": [
        ("HSA_CU_MASK", "0:0-303"),
        ("ROCR_VISIBLE_DEVICES", "GPU-1"),
        ("HIP_DEVICE_MEMORY_LIMIT", "80g"),
        ("HIP_DEVICE_MEMORY_LIMIT_0", "80g"),
        ("HIP_DEVICE_MEMORY_SHARED_CACHE", "/opt/mine"),
        ("LD_AUDIT", ""),
        ("LD_AUDIT", "/opt/mine.so"),
        ("HIP_OVERSUBSCRIBE", "true"),
    ],
    # Project-HAMi/ascend-device-plugin ed35e1c, internal/server/allocate.go, and its library's manager.
    "of ascend": [
        ("ASCEND_VNPU_SPECS", "vir10_3c_32g"),
        ("NPU_MEM_QUOTA", "65536"),
        ("NPU_PRIORITY", "100"),
        ("NPU_GLOBAL_SHM_PATH", "/tmp/mine"),
        ("NPU_LOCAL_SHM_PATH", "/tmp/mine"),
        ("NPU_LOCAL_SHM_NAME", "mine"),
        ("NPU_TOKEN_SCALE", "1000"),
        ("NPU_AVG_ALPHA", "0.1"),
        ("NPU_FIXED_SHARE_RATIO", "0"),
        # Ascend/ascend-docker-runtime c451124, runtime/main.go: the numbers of others' virtual devices.
        ("ASCEND_RUNTIME_OPTIONS", "VIRTUAL"),
        ("ASCEND_RUNTIME_OPTIONS", "NODRV,VIRTUAL"),
    ],
    # Cambricon/cambricon-k8s-device-plugin 3c9ed24, device-plugin/pkg/mlu/server.go, PrepareResponse.
    "of cambricon": [("VIRTUAL_DEVICES", "/dev/cambricon_dev0"), ("CAMBRICON_SPLIT_MEMS", "99999")],
    # What Enflame's device plugin sets for a slice names it; a number is the whole device.
    "of enflame": [("TOPS_VISIBLE_DEVICES", "0")],
    # zxw3221/xpu-container-toolkit 0f514a2, cmd/xpu-container-toolkit/container_config.go.
    "of kunlun": [("BAIDU_COM_XPU_MEM_LIMIT_INBYTES", "99999999999"), ("XPU0_MEMORY_LIMIT", "98304")],
    # AWS Neuron's documentation, k8s-neuron-scheduler-flow: the device plugin sets the cores of the container.
    "of neuron": [("NEURON_RT_VISIBLE_CORES", "0-1")],
}
ENFORCING = {
    "nvidia": ["/etc/ld.so.preload", "/usr/local/vgpu", "/usr/local/vgpu/libvgpu.so"],
    "volcano": ["/etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so", "/tmp/vgpu"],
    "koordinator": ["/usr/local/vgpu/libvgpu.so"],
    "kai": ["/etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so"],
    "vgpu-manager": [
        *("/etc/ld.so.preload", "/etc/vgpu-manager/driver/libvgpu-control.so", "/etc/vgpu-manager/config"),
        *("/etc/vgpu-manager/.host_proc", "/etc/vgpu-manager/watcher", "/etc/vgpu-manager/registry"),
        *("/tmp/.vgpu_lock", "/tmp/.vmem_node", "/tmp/.sm_node"),
    ],
    "vcuda": ["/usr/local/nvidia", "/usr/local/nvidia/lib64", "/etc/vcuda"],
    "ascend": ["/etc/ld.so.preload", "/hami-vnpu-core", "/hami-shared-region", "/hami-vnpu-shmem"],
    "amd": ["/usr/local/vgpu/libamvgpu.so"],
    "hygon": ["/etc/vdev/docker", "/etc/vdev/docker/vdev0.conf"],
}
"""Where device plugins mount what enforces a share, by the code that the mappings and their guard lists name."""
USERS = {
    "hami-core": ["nvidia", "volcano", "koordinator", "kai"],
    "vgpu-manager": ["vgpu-manager"],
    "fractiond": ["nvfractions"],
    "nvidia-runtime": [vendor for vendor in SHARES if vendor not in {*VISIBLE, "intel"}],
    **{key: [key.removeprefix("of ")] for key in LIFTING if key.startswith("of ")},
}


@cache
def policy(settings: str = "", folder: Path | None = None) -> Policy:
    """The built-in mappings, under settings."""
    if folder is None:
        return load_policy()
    path = folder / "settings.yaml"
    path.write_text(settings)
    return load_policy(settings=path)


def pod_of(resources: Mapping[str, str], *env: tuple[str, str], target: str | None = None) -> dict[str, Any]:
    """A pod of one container, as the API server sends it."""
    listed = [{"name": name, "value": value} for name, value in env]
    container = {"name": "main", "resources": {"limits": resources, "requests": resources}, "env": listed}
    annotations = {} if target is None else {"annotations": {"vgpu-webhook.io/target": target}}
    return {"metadata": {"name": "p", **annotations}, "spec": {"containers": [container]}}


def decided(sent: Mapping[str, Any], under: Policy) -> Decision:
    """What becomes of a pod."""
    return decide(decode_pod(json.dumps(sent).encode()), Context(OPTED_IN, "privileged"), under)


def sent_for(vendor: str, resources: Mapping[str, str], *env: tuple[str, str]) -> dict[str, Any]:
    """A pod that ends up under a vendor: the one of whole devices owns no name, and is ordered."""
    if vendor in BY_ANNOTATIONS:
        made = pod_of({}, *env)
        made["metadata"]["annotations"] = dict(resources)
        return made
    return pod_of(resources, *env, target="whole" if vendor == "whole" else None)


def test_the_vendors_of_a_list_are_those_that_name_it() -> None:
    """So that none is left out of what follows."""
    for name in ("hami-core", "vgpu-manager", "fractiond"):
        users = [
            vendor.name
            for vendor in policy().vendors.values()
            # Nobody requests in the keys of a vendor with claims: tests/cases/claim-guarded-afterwards.
            if vendor.claim is None and any(g.named == name for g in vendor.document.guard)
        ]
        assert sorted(users) == sorted(USERS[name])
    family = {vendor.name for vendor in policy().vendors.values() if vendor.family == "nvidia"}
    named = {
        vendor.name
        for vendor in policy().vendors.values()
        if any(g.named == "nvidia-runtime" for g in vendor.document.guard)
    }
    assert family == named


@pytest.mark.parametrize(
    "vendor, name, value",
    [(vendor, *each) for key, users in USERS.items() for vendor in users for each in LIFTING[key]],
)
def test_what_lifts_under_one_vendor_lifts_under_all_with_the_library(
    vendor: str, name: str, value: str, tmp_path: Path
) -> None:
    """By its value, by a reference, and from elsewhere alike."""
    under = policy("owners: {aliyun.com/gpu-mem: gpushare}\n", tmp_path) if vendor == "gpushare" else policy()
    assert decided(sent_for(vendor, SHARES[vendor]), under).allowed
    for written in (value, "$(OTHER)"):
        decision = decided(sent_for(vendor, SHARES[vendor], (name, written)), under)
        assert decision.denial is not None
        assert decision.denial.reason is Reason.GUARDED
        assert name in decision.denial.message


@each_of("vendor, path", [(vendor, path) for vendor, paths in ENFORCING.items() for path in paths])
@each_of("as_device", [False, True])
def test_no_mount_covers_what_the_plugin_mounts(vendor: str, path: str, *, as_device: bool) -> None:
    """However the path is written; not beside it, not below it, and not in a container that requests nothing."""

    def sent(path: str, index: int) -> dict[str, Any]:
        made = sent_for(vendor, SHARES[vendor])
        made["spec"]["containers"].append({"name": "beside"})
        made["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
        entry = {"volumeDevices": [{"name": "own", "devicePath": path}]}
        mount = {"volumeMounts": [{"name": "own", "mountPath": path}]}
        made["spec"]["containers"][index].update(entry if as_device else mount)
        return made

    parent, _, name = path.rpartition("/")
    for spelled in (path, path + "/", path[1:], f"{parent}//{name}", f"{parent}/./{name}", f"{parent}/x/../{name}/."):
        denial = decided(sent(spelled, 0), policy()).denial
        assert denial is not None, spelled
        assert denial.reason is Reason.GUARDED
        assert path in denial.message
        assert decided(sent(spelled, 1), policy()).allowed
    for other in ("/etc", "/usr/local", "/tmp", f"/x{path}"):
        assert decided(sent(other, 0), policy()).allowed, other


@each_of("vendor", WHOLE)
def test_whole_devices_show_no_others(vendor: str) -> None:
    """What a container runtime reads is guarded beside whole devices; with a harmless value, or none, nothing is."""
    for path in ENFORCING.get(vendor, []):
        made = sent_for(vendor, WHOLE[vendor])
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": path}]
        assert decided(made, policy()).allowed
    for name in VISIBLE.get(vendor, ("NVIDIA_VISIBLE_DEVICES",)):
        for harmless in ([], [(name, "none")], [(name, "void")], [(name, "")]):
            assert decided(sent_for(vendor, WHOLE[vendor], *harmless), policy()).allowed
        for value in ("all", "0", "0,1", "GPU-1", "$(OTHER)"):
            decision = decided(sent_for(vendor, WHOLE[vendor], (name, value)), policy())
            assert decision.denial is not None, (name, value)
            assert decision.denial.reason is Reason.GUARDED
            assert "devices that the container did not request" in decision.denial.message


@each_of("vendor", sorted(VISIBLE.keys() & SHARES.keys()))
def test_shares_show_no_others(vendor: str) -> None:
    """Nor does a share."""
    for name in VISIBLE[vendor]:
        decision = decided(sent_for(vendor, SHARES[vendor], (name, "all")), policy())
        assert decision.reason is Reason.GUARDED, name


@pytest.mark.parametrize(
    "vendor, resources, name, harmless",
    [
        ("intel", SHARES["intel"], "ZE_AFFINITY_MASK", None),
        ("biren", {"birentech.com/gpu": "1"}, "BIREN_VISIBLE_DEVICES", "none"),
    ],
)
def test_what_is_only_reported(vendor: str, resources: dict[str, str], name: str, harmless: str | None) -> None:
    """What lifts with some versions only, or by hearsay: a warning, and nothing is changed; a namespace may deny it."""
    plain = decided(sent_for(vendor, resources), policy())
    for value in ("0", "$(OTHER)"):
        found = decided(sent_for(vendor, resources, (name, value)), policy())
        assert found.allowed
        assert found.patch_json == plain.patch_json
        kept = [each for each in found.warnings if each.reason is Reason.GUARD_KEPT]
        assert [each.field for each in kept] == [f"env[{name}]"]
    if harmless is not None:
        assert Reason.GUARD_KEPT not in {
            each.reason for each in decided(sent_for(vendor, resources, (name, harmless)), policy()).warnings
        }
    strict = Context(Namespace("team", OPTED_IN.labels, {"vgpu-webhook.io/guard": "deny"}), "privileged")
    sent = sent_for(vendor, resources, (name, "0"))
    assert decide(decode_pod(json.dumps(sent).encode()), strict, policy()).reason is Reason.GUARDED


@pytest.mark.parametrize(
    "vendor, name, value",
    [("enflame", "TOPS_VISIBLE_DEVICES", "0"), ("neuron", "NEURON_RT_VISIBLE_CORES", "0")],
)
def test_a_selection_among_the_containers_own_devices_is_none_to_guard(vendor: str, name: str, value: str) -> None:
    """With whole devices these variables select, as `CUDA_VISIBLE_DEVICES` does: they show nothing that is not there."""
    assert (
        decided(sent_for(vendor, WHOLE[vendor], (name, value)), policy()).warnings
        == decided(sent_for(vendor, WHOLE[vendor]), policy()).warnings
    )


@pytest.mark.parametrize("vendor", [each for each in USERS["hami-core"] if each in WHOLE])
def test_limits_are_nothing_to_a_whole_device(vendor: str) -> None:
    """There is none to lift."""
    for name, value in LIFTING["hami-core"]:
        assert decided(sent_for(vendor, WHOLE[vendor], (name, value)), policy()).allowed


def test_a_remembered_decision_does_not_hide_the_variable() -> None:
    """Pods that are alike but for their variables: the harmless ones first, many times."""
    under = load_policy()
    for _ in range(3):
        assert decided(sent_for("nvidia", WHOLE["nvidia"], ("A", "1")), under).allowed
        assert not decided(sent_for("nvidia", WHOLE["nvidia"], ("NVIDIA_VISIBLE_DEVICES", "all")), under).allowed


def test_an_escape_in_json_does_not_hide_the_mount() -> None:
    """Where undecoded JSON is searched, a path may be written with escapes, alone or after pods that are remembered."""
    under = load_policy()
    made = pod_of(SHARES["nvidia"])
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": "/data"}]
    written = json.dumps(made)
    for _ in range(3):
        assert decide(decode_pod(written.encode()), Context(OPTED_IN, "privileged"), under).allowed
        for path in (r"\/etc\/ld.so.preload", r"/etc/ld.s\u006f.preload", r"/etc\u002fld.so.preload"):
            hidden = written.replace("/data", path)
            assert not decide(decode_pod(hidden.encode()), Context(OPTED_IN, "privileged"), under).allowed, path


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


def hami(policy_of_cores: str) -> Callable[[dict[str, Any]], None]:
    """HAMi's webhook as far as it concerns variables of NVIDIA containers: each gets one more entry, looked up or not.

    HAMi 4707fb02, ``pkg/device/nvidia/device.go``, MutateAdmission; ``overwriteEnv`` for containers without a GPU.
    """

    def mutate(sent: dict[str, Any]) -> None:
        for container in sent["spec"]["containers"]:
            variables = container.setdefault("env", [])
            if policy_of_cores not in {"", "default"}:
                variables.append({"name": "GPU_CORE_UTILIZATION_POLICY", "value": policy_of_cores})
            if not any(name.startswith("nvidia.com/") for name in container.get("resources", {}).get("limits", {})):
                variables.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"})

    return mutate


def passes(sent: dict[str, Any], between: Callable[[dict[str, Any]], None], under: Policy) -> list[Decision]:
    """A first pass, another webhook, and the pass that it causes."""
    first = decided(sent, under)
    changed = jsonpatch.apply_patch(json.loads(json.dumps(sent)), json.loads(first.patch_json or b"[]"))
    between(changed)
    return [first, decided(changed, under)]


@pytest.mark.parametrize("resources", [SHARES["nvidia"], WHOLE["nvidia"], {"nvidia.com/gpu": "1"}, SHARES["vcuda"]])
def test_what_the_administrator_chose_is_no_way_out(resources: dict[str, str], tmp_path: Path) -> None:
    """HAMi's webhook between two passes: with the exception nothing is denied, and the second pass changes nothing."""
    target = "nvidia" if "tencent.com/vcuda-core" in resources else None
    sent = pod_of(resources, target=target)
    sent["spec"]["containers"].append({"name": "side"})
    under = policy("guardExceptions: {GPU_CORE_UTILIZATION_POLICY: [disable]}\n", tmp_path)
    first, second = passes(sent, hami("disable"), under)
    assert first.allowed
    assert second.allowed
    assert second.patch_json == b""
    for value in ("force", "default", ""):
        assert all(each.allowed for each in passes(sent, hami(value), policy()))


def test_without_the_exception_the_second_pass_denies(tmp_path: Path) -> None:
    """That is the clash that `check` finds; an exception is for one value of one variable."""
    sent = pod_of(SHARES["nvidia"])
    first, second = passes(sent, hami("disable"), policy())
    assert (first.allowed, second.allowed) == (True, False)
    under = policy("guardExceptions: {GPU_CORE_UTILIZATION_POLICY: [disable], CUDA_REDIRECT: [/a.so]}\n", tmp_path)
    for name, value in [
        ("CUDA_DISABLE_CONTROL", "true"),
        ("GPU_CORE_UTILIZATION_POLICY", "$(X)"),
        ("CUDA_REDIRECT", "/b"),
    ]:
        assert not decided(pod_of(SHARES["nvidia"], (name, value)), under).allowed
    from_elsewhere = pod_of(SHARES["nvidia"])
    reference = {"configMapKeyRef": {"name": "c", "key": "k"}}
    from_elsewhere["spec"]["containers"][0]["env"] = [{"name": "GPU_CORE_UTILIZATION_POLICY", "valueFrom": reference}]
    assert not decided(from_elsewhere, under).allowed
