"""``examples/values``: in each of these clusters, what is written, and by whom it is scheduled, or that it is denied."""

import json
import re
from pathlib import Path

import jsonschema
import yaml

import webhook
from deploy.generate.schema import values_schema
from tests.cli.conftest import Run
from tests.naming import each_of

VALUES = Path(webhook.__file__).parent.parent / "examples" / "values"
SLICE = {"nvidia.com/mig-1g.10gb": 1}
HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096}
VOLCANO = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4096}
TENCENT = {"tencent.com/vcuda-core": 20, "tencent.com/vcuda-memory": 16}
HYGON = {"hygon.com/dcunum": 1, "hygon.com/dcumem": 4096}
WHOLE = {"nvidia.com/gpu": 1}
ALL = {**WHOLE, "nvidia.com/gpumem-percentage": 100, "nvidia.com/gpucores": 100}

BECOMES = {
    "hami": (
        (WHOLE, ALL, "hami-scheduler"),
        (HAMI, HAMI, "hami-scheduler"),
        (VOLCANO, HAMI, "hami-scheduler"),
        (TENCENT, {**HAMI, "nvidia.com/gpucores": 20}, "hami-scheduler"),
        (HYGON, HYGON, "hami-scheduler"),
        (SLICE, "VGW408", None),
    ),
    "volcano": (
        (WHOLE, {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 100}, "volcano"),
        (HAMI, VOLCANO, "volcano"),
        (VOLCANO, VOLCANO, "volcano"),
        (TENCENT, {**VOLCANO, "volcano.sh/vgpu-cores": 20}, "volcano"),
        (HYGON, "VGW408", None),
        (SLICE, "VGW408", None),
    ),
    "plain": (
        (WHOLE, WHOLE, None),
        (SLICE, SLICE, None),
        (HAMI, "VGW314", None),
        (VOLCANO, "VGW402", None),
        (TENCENT, "VGW402", None),
        (HYGON, "VGW408", None),
        ({"nvidia.com/gpu.shared": 1}, "VGW402", None),
    ),
    "shares": (
        (WHOLE, {**WHOLE, "nvidia.com/gpumem": 5000}, "hami-scheduler"),
        (HAMI, HAMI, "hami-scheduler"),
        (VOLCANO, HAMI, "hami-scheduler"),
        (TENCENT, {**HAMI, "nvidia.com/gpucores": 20}, "hami-scheduler"),
        (HYGON, HYGON, "hami-scheduler"),
        (SLICE, "VGW408", None),
    ),
    "several": (
        (WHOLE, ALL, "hami-scheduler"),
        (HAMI, HAMI, "hami-scheduler"),
        (VOLCANO, VOLCANO, "volcano"),
        (TENCENT, {**HAMI, "nvidia.com/gpucores": 20}, "hami-scheduler"),
        (HYGON, HYGON, "hami-scheduler"),
        (SLICE, SLICE, None),
    ),
}


def test_every_example_has_a_table() -> None:
    """A file without one would be tested by nobody."""
    assert {path.stem for path in VALUES.iterdir()} == BECOMES.keys()


@each_of("name", BECOMES)
def test_what_becomes_of_requests(name: str, run: Run) -> None:
    """Nobody's scheduler is written but one that runs there, and every share is either served or denied."""
    values = VALUES / f"{name}.yaml"
    jsonschema.validate(yaml.safe_load(values.read_text()), json.loads(values_schema()))
    found = []
    for limits, _, _ in BECOMES[name]:
        container = {"name": "main", "image": "i", "resources": {"limits": limits}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
        result = run("mutate", "-f", "-", "--values", str(values), "-o", "json", stdin=json.dumps(pod))
        if result.exit_code:
            found.append((limits, re.findall(r"VGW\d+", result.stderr)[0], None))
            continue
        spec = json.loads(result.stdout)["spec"]
        written = {key: int(value) for key, value in spec["containers"][0]["resources"]["limits"].items()}
        found.append((limits, written, spec.get("schedulerName")))
    assert tuple(found) == BECOMES[name]
