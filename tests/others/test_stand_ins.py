"""Each stand-in does what its system's own tests want: numbers from their tables, opened at the commits of the stand-ins."""

from functools import partial
from typing import Any

import pytest

from tests.naming import each_of

from .hami import Configured, hami
from .kai import Configured as KaiConfigured
from .kai import kai
from .koordinator import koordinator
from .pod import DeniedThereError, Json, StandIn, with_defaults
from .vgpu_manager import vgpu_manager
from .volcano import volcano

FRACTIONS = KaiConfigured(fractions=True, visible_devices=False)


def pod_of(limits: Json, annotations: Json | None = None, **spec: Any) -> Json:
    """A pod with one container, requests as the API server has them."""
    resources = {"limits": dict(limits), "requests": dict(limits)} if limits else {}
    container = {"name": "container-0", "resources": resources}
    metadata = {"name": "p", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def gpu(**amounts: str) -> Json:
    """Names of HAMi's for NVIDIA's."""
    return {f"nvidia.com/{name}": amount for name, amount in amounts.items()}


PERCENT = "nvidia.com/gpumem-percentage"
SHARED, CORE, RATIO = (f"koordinator.sh/gpu{name}" for name in (".shared", "-core", "-memory-ratio"))


@each_of(
    "source, stand_in, limits, after",
    [
        ("nvidia: count alone is exclusive", hami, gpu(gpu="1"), gpu(gpu="1", gpucores="100")),
        ("nvidia: memory asked", hami, gpu(gpu="1", gpumem="1024"), gpu(gpu="1", gpumem="1024")),
        ("nvidia: count is written", hami, gpu(gpumem="1"), gpu(gpu="1", gpumem="1")),
        ("nvidia: all memory is exclusive", hami, {PERCENT: "100"}, {PERCENT: "100", **gpu(gpu="1", gpucores="100")}),
        ("nvidia: half is not", hami, {**gpu(gpu="1"), PERCENT: "50"}, {**gpu(gpu="1"), PERCENT: "50"}),
        (
            "ascend, Test_MutateAdmission_NilRequests: the template of 5000",
            hami,
            {"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": "5000"},
            {"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": "8738"},
        ),
        (
            "ascend, Test_MutateAdmission_NilRequests: count alone is all",
            hami,
            {"huawei.com/Ascend910A": "1"},
            {"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": "32768"},
        ),
        (
            "ascend, Test_MutateAdmission910C: 1 is 2",
            hami,
            {"huawei.com/Ascend910C": "1"},
            {"huawei.com/Ascend910C": "2", "huawei.com/Ascend910C-memory": "65536"},
        ),
        (
            "mthreads: several are whole",
            hami,
            {"mthreads.com/vgpu": "2"},
            {"mthreads.com/vgpu": "2", "mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"},
        ),
        (
            "iluvatar: 100 for each",
            hami,
            {"iluvatar.ai/MR-V100-vgpu": "2"},
            {"iluvatar.ai/MR-V100-vgpu": "2", "iluvatar.ai/MR-V100.vCore": "200"},
        ),
        (
            "kunlun: sizes",
            hami,
            {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "30000"},
            {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "49152"},
        ),
        (
            "koordinator, device_resource_spec_test.go: ratio below 100",
            koordinator,
            {CORE: "100", RATIO: "50"},
            {CORE: "100", RATIO: "50", SHARED: "1"},
        ),
        (
            "koordinator, device_resource_spec_test.go: ratio of hundreds",
            koordinator,
            {CORE: "100", RATIO: "200"},
            {CORE: "100", RATIO: "200", SHARED: "2"},
        ),
        (
            "koordinator, device_resource_spec_test.go: gpu",
            koordinator,
            {"koordinator.sh/gpu": "200"},
            {CORE: "200", RATIO: "200", SHARED: "2"},
        ),
        (
            "vgpu-manager: number beside memory",
            vgpu_manager,
            {"nvidia.com/vgpu-memory": "1024"},
            {"nvidia.com/vgpu-memory": "1024", "nvidia.com/vgpu-number": "1"},
        ),
        (
            "vgpu-manager: all cores of a number alone",
            vgpu_manager,
            {"nvidia.com/vgpu-number": "2"},
            {"nvidia.com/vgpu-number": "2", "nvidia.com/vgpu-cores": "100"},
        ),
        ("vgpu-manager: claims", partial(vgpu_manager, claims=True), {"nvidia.com/vgpu-number": "2"}, {}),
        ("volcano knows no name", volcano, gpu(gpu="1"), gpu(gpu="1")),
    ],
)
def test_limits(source: str, stand_in: StandIn, limits: Json, after: Json) -> None:
    """Limits become these, and requests the same; the argument stays unchanged."""
    pod = pod_of(limits)
    made = with_defaults(stand_in(pod))["spec"]["containers"][0]["resources"]
    assert made.get("limits", {}) == made.get("requests", {}) == after, source
    assert pod == pod_of(limits)


@each_of(
    "source, limits",
    [
        ("nvidia, Test_MutateAdmission_MemoryPercentageValidation", {**gpu(gpu="1"), PERCENT: "101"}),
        ("ascend: Test_MutateAdmission910C", {"huawei.com/Ascend910C": "3"}),
        ("ascend: no such size", {"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": "40000"}),
        ("ascend: several parts", {"huawei.com/Ascend910A": "2", "huawei.com/Ascend910A-memory": "2184"}),
        ("ascend, HardSplitCoreRejected", {"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-core": "50"}),
        ("mthreads: sizes", {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "3"}),
        ("mthreads: requests differ from limits", {"mthreads.com/vgpu": "2", "mthreads.com/sgpu-core": "1"}),
        ("enflame: above a whole card", {"enflame.com/gcu-core": "101"}),
        ("awsneuron: an odd number of cores", {"aws.amazon.com/neuroncore": "3"}),
    ],
)
def test_denied_there(source: str, limits: Json) -> None:
    """HAMi's webhook, or the API server of what it wrote, does not take these."""
    with pytest.raises(DeniedThereError):
        with_defaults(hami(pod_of(limits)))
    assert source


@each_of(
    "configured, limits, added",
    [
        (Configured(), gpu(gpu="1", gpumem="1", priority="0"), {"CUDA_TASK_PRIORITY": "0"}),
        (Configured(core_policy="force"), gpu(gpu="1", gpumem="1"), {"GPU_CORE_UTILIZATION_POLICY": "force"}),
        (Configured(overwrite_env=True), {}, {"ASCEND_VISIBLE_DEVICES": None, "NVIDIA_VISIBLE_DEVICES": "none"}),
        (Configured(overwrite_env=True), gpu(gpu="1", gpumem="1"), {"ASCEND_VISIBLE_DEVICES": None}),
    ],
)
def test_variables_of_hami(configured: Configured, limits: Json, added: Json) -> None:
    """TestMutateAdmission_Priority, _CorePolicy and _OverwriteEnv of pkg/device/nvidia/device_test.go."""
    container = hami(pod_of(limits), configured)["spec"]["containers"][0]
    assert {variable["name"]: variable.get("value") for variable in container.get("env", ())} == added


def test_hami_lets_others_be() -> None:
    """Another scheduler's pods, and those with the label of its chart's object selector."""
    elsewhere = pod_of(gpu(gpu="1"), schedulerName="volcano")
    assert hami(elsewhere) == elsewhere
    ignored = pod_of(gpu(gpu="1"))
    ignored["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    assert hami(ignored) == ignored


def test_kai_shares_by_a_config_map() -> None:
    """`AddGPUSharingEnvVars`: three variables, a volume and a source of variables; once, however often it is called."""
    pod = pod_of({}, {"gpu-fraction": "0.5"}, schedulerName="kai-scheduler")
    made = kai(kai(pod))
    (container,) = made["spec"]["containers"]
    assert [variable["name"] for variable in container["env"]] == [
        "NVIDIA_VISIBLE_DEVICES",
        "RUNAI_NUM_OF_GPUS",
        "GPU_PORTION",
    ]
    assert container["env"][0]["valueFrom"]["configMapKeyRef"]["name"] == "p-x7k2p9q-shared-gpu-0"
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["p-x7k2p9q-shared-gpu-0-vol"]
    assert made["spec"]["runtimeClassName"] == "nvidia"
    assert kai(pod_of({}, {"gpu-fraction": "0.5"})) == pod_of({}, {"gpu-fraction": "0.5"})


def test_kai_copies_memory() -> None:
    """`TestMutateConvertsLegacyGpuMemoryForNamedContainer`: the old annotation stays; another amount is denied."""
    key = "nvidia.com/container.container-0.gpu-memory.request"
    pod = pod_of({}, {"gpu-memory": "2000"}, schedulerName="kai-scheduler")
    made = kai(pod, FRACTIONS)
    assert made["metadata"]["annotations"].items() >= {"gpu-memory": "2000", key: "2000Mi"}.items()
    assert "NVIDIA_VISIBLE_DEVICES" not in str(made)
    assert (
        kai(pod_of({}, {"gpu-memory": "1024"}, schedulerName="kai-scheduler"), FRACTIONS)["metadata"]["annotations"][
            key
        ]
        == "1Gi"
    )
    pod["metadata"]["annotations"][key] = "1Gi"
    with pytest.raises(DeniedThereError, match="conflicts"):
        kai(pod, FRACTIONS)
