"""``mutate``, end to end with the real decision: what is printed where, and the exit code."""

import json
import subprocess
import sys
from pathlib import Path

import jsonpatch
import yaml

from tests.cli.conftest import Run

POD = """\
# a comment
kind: Pod
apiVersion: v1
metadata:
  name: demo
spec:
  containers:
  - name: main
    image: example
    args: ["y", "1e3", "0o17", "yes", "plain"]
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3e3}}
"""
BAD = POD.replace("name: demo", "name: bad").replace("3e3", "8Ti")
DEFAULT = "policy: default (no target, whole devices); yours: --values FILE, --context NAME\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - port: 80\n    protocol: TCP\n"


def join(*documents: str) -> str:
    """A stream."""
    return "---\n".join(documents)


def test_the_output_is_stable(run: Run) -> None:
    """Feeding it back changes nothing more."""
    once = run("mutate", "-f", "-", stdin=POD).stdout
    again = run("mutate", "-f", "-", "-o", "patch", stdin=once)
    assert again.stdout == "[]\n"
    assert again.stderr == DEFAULT


def test_patch(run: Run, tmp_path: Path) -> None:
    """One RFC 6902 array for each object and line; applied, it is what the other formats print."""
    (tmp_path / "a.yaml").write_text(join(POD, SERVICE))
    patch = run("mutate", "-f", str(tmp_path / "a.yaml"), "-o", "patch")
    first, second = patch.stdout.splitlines()
    assert json.loads(second) == []
    stored = json.loads(run("mutate", "-f", str(tmp_path / "a.yaml"), "-o", "json").stdout)["items"][0]
    written = yaml.safe_load(POD.replace("3e3", "3000").replace("yes", "'yes'"))
    written["spec"]["containers"][0]["args"] = ["y", "1e3", "0o17", "yes", "plain"]
    assert jsonpatch.apply_patch(written, json.loads(first)) == stored


def test_as_a_process() -> None:
    """Bytes in, bytes out, exit code to the shell; what is no ASCII stays."""
    pod = POD.replace("image: example", "image: exämple")
    command = [sys.executable, "-m", "webhook", "mutate", "-f", "-"]
    done = subprocess.run(command, input=join(pod, BAD).encode(), capture_output=True, check=False)
    assert done.returncode == 2
    assert "image: exämple\n" in done.stdout.decode()
    assert done.stderr.decode().count("error: pod/bad: ") == 1


def test_deployments_of_one_name_are_rolled_out_alike(run: Run) -> None:
    """The percentage holds for a workload: its template, its pods and its next pods are treated the same."""
    space = (
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: default\n"
        "  labels: {vgpu-webhook.io/inject: enabled, vgpu-webhook.io/rollout: '50'}\n"
    )
    spec = "{containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 3000}}}]}"
    treated: dict[bool, int] = {True: 0, False: 0}
    for number in range(20):
        name = f"demo{number}"
        deployment = (
            f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {spec}}}}}\n"
        )
        owner = f"ownerReferences: [{{kind: ReplicaSet, name: {name}-6b7f9cd5f4, controller: true}}]"
        pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}-6b7f9cd5f4-x2x4z, {owner}}}\nspec: {spec}\n"
        result = run("mutate", "-f", "-", "-o", "patch", stdin=join(space, deployment, pod))
        first, second = (line != "[]" for line in result.stdout.splitlines())
        assert first == second
        treated[first] += 1
    assert min(treated.values()) > 0
