"""What becomes of shapes of public manifests under the policies of usual clusters; `becomes.txt` has it side by side.

``--update-golden`` writes it anew: look at each line as the author of that manifest would.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from webhook.cli.manifests.preview import NextPod, preview, simulated
from webhook.cli.manifests.read import read_manifests
from webhook.cli.manifests.simulate import SimulateOptions, unjudged_requests
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy

HERE: Final = Path(__file__).parent
GOLDEN: Final = HERE / "becomes.txt"
POLICIES: Final = {
    "HAMi, whole": "target: nvidia\nbareDevices: whole\n",
    "HAMi, share": "target: nvidia\nbareDevices: share\n",
    "Volcano, whole": "target: volcano\nbareDevices: whole\n",
    "KAI, whole": "target: kai\nbareDevices: whole\n",
}
WHOLE: Final = [name for name in POLICIES if name.endswith("whole")]


class Shape(NamedTuple):
    """A manifest after a public one, and whether it requests devices by resource names."""

    source: str
    manifest: dict[str, Any]
    requests: bool


class Result(NamedTuple):
    """What becomes of a shape: of its pods, and requests that nothing judges."""

    pods: tuple[NextPod, ...]
    unjudged: tuple[str, ...]


SHAPES: Final = [
    Shape(each["source"], each["object"], "requests" not in each)
    for each in yaml.safe_load((HERE / "shapes.yaml").read_text())
]
IDS: Final = [f"{number}-{shape.manifest['kind']}" for number, shape in enumerate(SHAPES)]


@cache
def policy_of(name: str) -> Policy:
    """The built-in mappings under the settings of a cluster."""
    (settings,) = parse(POLICIES[name], "settings.yaml")
    return build_policy([], settings)


def becomes(shape: Shape, name: str) -> Result:
    """What `vgpu-webhook preview -f` finds."""
    manifests = read_manifests(json.dumps(shape.manifest).encode(), "shape")
    policy = policy_of(name)
    found = preview(simulated(manifests, policy, SimulateOptions()).objects, policy)
    return Result(found.pods, tuple(unjudged_requests(manifests, policy)))


def lines_of(shape: Shape) -> Iterator[str]:
    """The block of a shape in the golden file; policies with the same result share a line."""
    yield f"{shape.manifest['kind']}, after {shape.source}"
    results: dict[str, list[str]] = {}
    for name in POLICIES:
        pods, unjudged = becomes(shape, name)
        texts = [
            f"{pod.outcome} ({', '.join(pod.effects) or '-'}) {' '.join(pod.codes) or '-'}: {pod.text}" for pod in pods
        ]
        results.setdefault(" | ".join([*dict.fromkeys(texts), *unjudged]) or "no request", []).append(name)
    yield from (f"  {'; '.join(names)}: {text}" for text, names in results.items())


def counts_alone(container: Mapping[str, Any]) -> bool:
    """Whether a container requests whole NVIDIA devices by their number alone."""
    resources = container["resources"]
    limits = resources.get("limits") or {} if isinstance(resources, dict) else {}
    return [name for name in limits if name.partition("/")[0] not in {"cpu", "memory"}] == ["nvidia.com/gpu"]


def containers_in(value: Any) -> Iterator[Mapping[str, Any]]:
    """Everything in an object that has resources."""
    if isinstance(value, dict):
        if "resources" in value:
            yield value
        for child in value.values():
            yield from containers_in(child)
    elif isinstance(value, list):
        for child in value:
            yield from containers_in(child)


def test_what_becomes_of_each(*, update_golden: bool) -> None:
    """As the golden file says."""
    text = "\n".join("\n".join([*lines_of(shape), ""]) for shape in SHAPES)
    if update_golden:
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_projects() -> None:
    """Shapes of at least forty projects, each with its repository and file."""
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+ [\w./@-]+", shape.source) for shape in SHAPES)
    assert len({shape.source.split()[0] for shape in SHAPES}) >= 40


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if any(map(counts_alone, containers_in(shape.manifest)))])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_devices_never_shrink(shape: Shape, name: str) -> None:
    """Where a count alone means whole devices, no pod that was written for them gets a size."""
    for pod in becomes(shape, name).pods:
        assert "MiB" not in pod.text or "denied" in pod.effects, pod
        assert "Mi" not in pod.text.replace("MiB", ""), pod


@pytest.mark.parametrize("shape", SHAPES, ids=IDS)
@pytest.mark.parametrize("name", POLICIES)
def test_no_silence(shape: Shape, name: str) -> None:
    """A request is judged, or reported as not judged; nothing else is."""
    result = becomes(shape, name)
    assert bool(result.pods or result.unjudged) is shape.requests
