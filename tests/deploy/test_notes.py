"""What Helm prints after an installation: where it leads, and what it says will change."""

from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import Object
from tests.naming import each_of
from tests.yaml_text import load_yaml
from webhook.mapping.load import builtin

from .charts import REQUIRED, Chart

pytestmark = pytest.mark.controlplane


def notes(helm: Chart, values: Object, *more: str) -> str:
    """What is printed for some values, on one line."""
    return " ".join(helm.notes(yaml.safe_dump(values), *REQUIRED, *more).split())


def test_audit_comes_first(helm: Chart) -> None:
    """The command that opts a namespace in changes no pod, and the page says how to go on."""
    printed = notes(helm, {"settings": {"optInLabel": "gpu/in"}})
    assert "kubectl label namespace NAMESPACE gpu/in=enabled vgpu-webhook.io/mode=audit" in printed
    assert "docs/start.md" in printed


@each_of("told", load_yaml((Path(__file__).parent / "notes.yaml").read_text()))
def test_what_becomes_of_a_whole_gpu(helm: Chart, told: Object) -> None:
    """The request that most pods have: whether it changes is said before the first pod is changed."""
    printed = notes(helm, told["values"])
    assert told["sentence"] in printed
    assert "docs/behavior.md#filling-in" in printed


def test_whole_gpus_stay_whole(helm: Chart) -> None:
    """With the other choice, the page says so."""
    printed = notes(helm, {}, "--set", "settings.bareDevices=whole")
    assert "nvidia.com/gpu: 1 without a size requests a whole GPU there (settings.bareDevices is whole)." in printed


def test_default_size_is_that_of_the_mapping() -> None:
    """The chart cannot read the built-in mappings: its number is compared here."""
    assert str(builtin()["nvidia"].data["defaults"]["memory"]) == "5000Mi"
