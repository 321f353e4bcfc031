"""What a vendor's scheduler and device plugin write is removed from new pods; what its admission writes stays."""

import json
from typing import Any, NamedTuple

import jsonpatch

from tests.decisions.test_guard_lists import OPTED_IN, SHARES, WHOLE, decided, policy, sent_for
from tests.mapping.vendors import policy as configured
from tests.naming import each_of
from webhook.admission import Context, decide
from webhook.pod import decode_pod
from webhook.reasons import Reason


class Marks(NamedTuple):
    """Keys that a vendor's system writes, and where that is to be read."""

    vendor: str
    annotations: tuple[str, ...]
    labels: tuple[str, ...]
    source: str


MARKS = [
    Marks(
        "vgpu-manager",
        tuple(f"nvidia.com/{each}" for each in ("predicate-node", "predicate-time", "pre-allocated", "real-allocated")),
        ("nvidia.com/assigned-phase", "nvidia.com/metrics-node"),
        "coldzerofear/vgpu-manager 3d7f66d, pkg/util/consts.go",
    ),
    Marks(
        "koordinator",
        tuple(f"scheduling.koordinator.sh/{each}" for each in ("device-allocated", "gpu-minors", "bind-timestamp")),
        ("hami.io/vgpu-node",),
        "koordinator-sh/koordinator a7a1b76b, pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go",
    ),
    Marks(
        "tensor-fusion",
        ("tensor-fusion.ai/effective-hard-sm-percent", "tensor-fusion.ai/gpu-ids", "tensor-fusion.ai/index"),
        (),
        "NexusGPU/tensor-fusion 3e0a4901, internal/scheduler/gpuresources/gpuresources.go",
    ),
    Marks(
        "elastic-gpu",
        ("elasticgpu.io/assumed", "elasticgpu.io/container-main"),
        ("elasticgpu.io/assumed",),
        "elastic-ai/elastic-gpu-scheduler, the function that makes an assumed pod",
    ),
    Marks(
        "cambricon",
        ("CAMBRICON_DSMLU_PROFILE", "CAMBRICON_DSMLU_PROFILE_INSTANCE"),
        (),
        "Cambricon/cambricon-k8s-device-plugin 3c9ed24, device-plugin/pkg/dsmlu/dsmlu.go: it destroys the named instance",
    ),
    Marks("nano-gpu", ("nano-gpu/assume",), ("nano-gpu/assume",), "nano-gpu/nano-gpu-scheduler, pkg/types"),
    Marks(
        "nvfractions",
        ("nvidia.com/container.main.gpus.devices", "nvidia.com/container.main.gpu-compute.portion"),
        (),
        "kai-scheduler/kai-gpu-fractioning, README.md: scheduler-owned",
    ),
    Marks(
        "vcuda",
        ("tencent.com/predicate-node", "tencent.com/predicate-time", "tencent.com/predicate-gpu-idx-0"),
        (),
        "tkestack/gpu-admission 47d56ae, pkg/util/util.go",
    ),
    Marks(
        "intel", ("gas-ts", "gas-container-cards", "gas-container-tiles"), (), "intel/platform-aware-scheduling, GAS"
    ),
    Marks("kunlun", ("hami.io/kunlun-allocated",), (), "Project-HAMi/HAMi 4707fb02, pkg/device/kunlun/device.go"),
    Marks("metax", ("metax-tech.com/predicate-time",), (), "Project-HAMi/HAMi 4707fb02, pkg/device/metax/protocol.go"),
    Marks(
        "neuron",
        ("NEURON_ALLOC_TIME", "NEURON_ALLOCATED", "NEURON_RESOURCE_TYPE", "aws.amazon.com/predicate-node"),
        (),
        "Project-HAMi/HAMi 4707fb02, pkg/device/awsneuron/device.go",
    ),
    Marks("ascend", ("predicate-time",), (), "Project-HAMi/HAMi 4707fb02, pkg/device/ascend/device.go"),
]
WRITTEN_AT_ADMISSION = [
    ("kai", "runai/shared-gpu-configmap", "KAI-Scheduler v0.17.0, pkg/binder/common/gpusharingconfigmap/config_map.go"),
    *(
        ("tensor-fusion", f"tensor-fusion.ai/gang-{each}", "tensor-fusion 3e0a4901, internal/webhook/v1/tf_parser.go")
        for each in ("group-key", "desired-members", "required-members")
    ),
]
OTHERS = {
    "intel": {"gpu.intel.com/i915": "1"},
    "metax": {"metax-tech.com/sgpu": "1"},
    "nano-gpu": {"nano-gpu/gpu-percent": "30"},
}


def sent_with(vendor: str, annotations: tuple[str, ...], labels: tuple[str, ...] = ()) -> dict[str, Any]:
    """A pod of a vendor with these keys."""
    sent = sent_for(vendor, SHARES.get(vendor) or WHOLE.get(vendor) or OTHERS[vendor])
    metadata = sent["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), **dict.fromkeys(annotations, "1")}
    metadata["labels"] = dict.fromkeys(labels, "1")
    return sent


@each_of("marks", MARKS)
def test_marks_are_removed(marks: Marks) -> None:
    """Each with a warning."""
    sent = sent_with(marks.vendor, marks.annotations, marks.labels)
    decision = decided(sent, policy())
    assert decision.allowed, decision.denial
    reported = [finding.field for finding in decision.warnings if finding.reason is Reason.OWNED_STRIPPED]
    assert sorted(filter(None, reported)) == sorted(
        [f"metadata.annotations[{key}]" for key in marks.annotations]
        + [f"metadata.labels[{key}]" for key in marks.labels]
    )


@each_of("vendor, key, source", WRITTEN_AT_ADMISSION)
def test_what_the_vendors_admission_writes_stays(vendor: str, key: str, source: str) -> None:
    """It may be there before our second pass, and would be missed."""
    assert source
    sent = sent_with(vendor, (key,))
    decision = decided(sent, policy())
    assert decision.allowed, decision.denial
    left = jsonpatch.apply_patch(sent, json.loads(decision.patch_json or b"[]"))
    assert left["metadata"]["annotations"][key] == "1"


def test_who_owns_marks_may_write_them() -> None:
    """`ownedBy` names users; pods that differ in nothing else are decided one after the other."""
    under = configured("extends: koordinator\nownedBy: [system:acme]\n")
    sent = json.dumps(sent_with("koordinator", ("scheduling.koordinator.sh/device-allocated",))).encode()
    for user in ("", "system:acme") * 3:
        decision = decide(decode_pod(sent), Context(OPTED_IN, "privileged", user), under)
        stripped = Reason.OWNED_STRIPPED in {finding.reason for finding in decision.warnings}
        assert stripped is (user == "")
