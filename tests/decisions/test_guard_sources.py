"""What a vendor's own system writes into pods is no way out of a limit; what only looks like it is, or switches limits off."""

from typing import Any

import pytest

from tests.decided import decided
from tests.decisions.test_guard_lists import SHARES, WHOLE, sent_for
from tests.naming import each_of
from webhook.reasons import Reason

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
