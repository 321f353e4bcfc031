"""The formats of findings for pipelines: what `check`, `mutate` and `test` print of the same files, as golden files."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Run
from webhook import __version__

FILES = {
    "wrong.yaml": """\
apiVersion: vgpu-webhook.io/v1alpha1
kind: Mapping
extends: nvidia
deflauts: {}
""",
    "un used.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
---
apiVersion: v1
kind: Namespace
metadata: {name: demo, labels: {vgpu-webhook.io/taget: nvidia}}
""",
    # A pod that gets warnings, one that is denied, a request that nothing judges, and what cannot be read.
    "pods.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: warned}
spec:
  containers:
  - {name: other, image: example}
  - name: main
    image: example
    env:
    - name: LD_LIBRARY_PATH
      value: "/opt/lib:"
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}
---
apiVersion: v1
kind: Pod
metadata: {name: denied}
spec:
  nodeName: node-1
  containers:
  - {name: main, image: example, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}}
---
apiVersion: example.com/v1
kind: Unknown
metadata: {name: beyond}
spec:
  limits: {nvidia.com/gpumem: 3000}
---
apiVersion: v1
kind: Pod
metadata: {name: unreadable}
spec: {containers: 1}
""",
    "cases/bad/pod.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec: {containers: [{name: main, image: app, resources: {limits: {nvidia.com/gpu: 1}}}]}
""",
    "cases/bad/expect.yaml": "warnings: []\n",
    "cases/good/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b}]}\n",
    "cases/good/expect.yaml": "warnings: []\n",
}
COMMANDS = {
    "check": (("check", "wrong.yaml", "un used.yaml"), 1),
    "check-warnings": (("check", "un used.yaml"), 0),
    "check-stdin": (("check", "-"), 1),
    "mutate": (("mutate", "-f", "pods.yaml"), 1),
    "mutate-strict": (("mutate", "-f", "pods.yaml", "--strict"), 1),
    "mutate-stdin": (("mutate", "-f", "-"), 1),
    "test": (("test", "cases"), 2),
}
"""The arguments, and the exit code, which the format does not change."""

OUTPUTS = [
    *((name, output) for name in ("check", "mutate") for output in ("github", "junit", "sarif")),
    ("check-warnings", "github"),
    ("check-warnings", "junit"),
    ("check-stdin", "github"),
    ("mutate-strict", "github"),
    ("mutate-stdin", "github"),
    *(("test", output) for output in ("github", "junit", "json")),
]


@pytest.mark.parametrize("name, output", OUTPUTS)
def test_formats(  # noqa: PLR0917  (pytest passes them by name)
    run: Run,
    golden: Callable[[str, str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    output: str,
) -> None:
    """Places, levels, rules and texts; nothing of them is on stderr."""
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text)
    arguments, code = COMMANDS[name]
    result = run(*arguments, "-o", output, stdin=FILES["wrong.yaml" if "check" in name else "pods.yaml"])
    assert result.exit_code == code
    assert "VGW" not in result.stderr
    printed = result.stdout.replace(__version__, "VERSION")
    if output == "junit":
        ET.fromstring(printed)
    elif output == "sarif":
        printed = json.dumps(json.loads(printed), indent=1) + "\n"
    golden(f"reports/{name}.{output}", printed)
