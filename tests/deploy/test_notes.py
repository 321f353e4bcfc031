"""What Helm prints after an installation: where it leads, and what it says will change."""

import pytest
import yaml

from tests.controlplane.client import Object
from webhook.mapping.load import builtin

from .charts import REQUIRED, Chart

pytestmark = pytest.mark.controlplane


NO_SIZE = "without a size means what the mapping specifies there, because no size is filled in"


def notes(helm: Chart, values: Object, *more: str) -> str:
    """What is printed for some values, on one line; by the command itself: test_release.py."""
    return " ".join(helm.notes(yaml.safe_dump(values), *REQUIRED, *more).split())


def test_audit_comes_first(helm: Chart) -> None:
    """The command that opts a namespace in changes no pod, and the page says how to go on."""
    printed = notes(helm, {"settings": {"optInLabel": "gpu/in"}})
    assert "kubectl label namespace NAMESPACE gpu/in=enabled vgpu-webhook.io/mode=audit" in printed
    assert "docs/start.md" in printed


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({}, "without a size it is a share with 5000Mi of memory (mappings.nvidia.defaults.memory). If pods"),
        ({"mappings": {"nvidia": {"defaults": {"memory": "8Gi"}}}}, "it is a share with 8Gi of memory"),
        ({"settings": {"target": "nvidia"}}, "(mappings.nvidia.defaults.memory). If pods"),
        ({"settings": {"target": "volcano"}}, "defaults.memory), and is written in the keys of volcano. If pods"),
        (
            {"settings": {"owners": {"nvidia.com/gpu": "whole"}}},
            "nvidia.com/gpu: 1 stays a whole GPU there (settings.owners).",
        ),
        ({"mappings": {"nvidia": {"defaults": None}}}, f"{NO_SIZE} (mappings.nvidia.defaults.memory). docs"),
        (
            {"mappings": {"nvidia": {"defaults": {"memory": None}}}},
            f"{NO_SIZE} (mappings.nvidia.defaults.memory). docs",
        ),
        (
            {"mappings": {"nvidia": {"defaults": {"memory": "all"}}}},
            "nvidia.com/gpu: 1 without a size requests all memory there (mappings.nvidia.defaults.memory).",
        ),
        ({"mappings": {"nvidia": {"defaults": {}}}}, "it is a share with 5000Mi of memory"),
        ({"mappings": {"nvidia": {"defaults": {"cores": 10}}}}, "it is a share with 5000Mi of memory"),
        (
            {"mappings": {"nvidia": {"inactive": True}}},
            "inactive (mappings.nvidia.inactive): nvidia.com/gpu is not read",
        ),
        (
            {"mappings": {"nvidia": {"inactive": True}}, "settings": {"owners": {"nvidia.com/gpu": "nvidia"}}},
            "it is a share with 5000Mi of memory",
        ),
        ({"settings": {"owners": {"nvidia.com/gpu": "kai"}}}, "nvidia.com/gpu: 1 is read as a request of kai there"),
    ],
)
def test_what_becomes_of_a_whole_gpu(helm: Chart, values: Object, sentence: str) -> None:
    """The request that most pods have: whether it changes is said before the first pod is changed."""
    printed = notes(helm, values)
    assert sentence in printed
    assert "docs/behavior.md#filling-in" in printed


def test_whole_gpus_stay_whole(helm: Chart) -> None:
    """With the other choice, the page says so."""
    printed = notes(helm, {}, "--set", "settings.bareDevices=whole")
    assert "nvidia.com/gpu: 1 without a size requests a whole GPU there (settings.bareDevices is whole)." in printed


def test_default_size_is_that_of_the_mapping() -> None:
    """The chart cannot read the built-in mappings: its number is compared here."""
    assert str(builtin()["nvidia"].data["defaults"]["memory"]) == "5000Mi"
