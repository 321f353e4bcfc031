"""``preview`` of files: what the next pods of workloads would be, under which policy, and in which format."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import EXAMPLES, SHARES, Run
from tests.cluster.fake_api import FakeApi, reading
from tests.mapping.vendors import policy
from webhook.cli.manifests.preview import compared, pods_of

ROOT = Path(__file__).parents[2]
WORKLOADS = """\
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {vgpu-webhook.io/mode: audit, vgpu-webhook.io/rollout: "0"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: whole, annotations: {vgpu-webhook.io/bare-devices: whole}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: team}
spec: {template: {spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: whole}
spec: {template: {spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sized, namespace: team}
spec:
  template:
    spec:
      schedulerName: hami-scheduler
      containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: wrong, namespace: team}
spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 8Gi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: team}
spec: {containers: [{name: main, image: i, resources: {limits: {cpu: 1}}}]}
"""


def previewed(run: Run, *options: str) -> dict[str, Any]:
    """The output as data."""
    result = run("preview", "-f", "-", "-o", "json", *SHARES, *options, stdin=WORKLOADS)
    printed: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (2 if printed["outcomes"]["denied"] else 0)
    return printed


def test_under_another_setting(run: Run) -> None:
    """``--set`` shows what another value would make of them; who is left to its own system is listed, too."""
    printed = previewed(run, "--set", "bareDevices=whole")
    outcomes = {(pod["namespace"], pod["workload"]): pod["outcome"] for pod in printed["pods"]}
    assert outcomes["team", "deployment/train"] == outcomes["whole", "deployment/train"]
    assert "VGW101" not in printed["codes"]
    assert "default filled" not in printed["effects"]
    assert printed["policy"].endswith(", bareDevices=whole")
    served = previewed(run, "--set", "target=kai", "--set", "bareDevices=whole")
    left = {(pod["namespace"], pod["workload"]): (pod["outcome"], pod["text"]) for pod in served["pods"]}
    assert left["team", "deployment/train"] == ("unchanged", "left to its own system")


def test_warnings_stand_with_their_workload(run: Run) -> None:
    """What no effect says: an amount that is probably wrong, a name that no device has."""
    pods = WORKLOADS.replace("gpumem: 3000", "gpumem: 16").replace("cpu: 1", "nvidia.com/mig-9g.99gb: 1")
    result = run("preview", "-f", "-", "--values", str(EXAMPLES / "values" / "several.yaml"), stdin=pods)
    table = " ".join(result.stdout.partition("\n\n")[2].partition("templates with")[0].split())
    sized, plain = (table.partition(title)[2] for title in ("job/sized", "pod/plain"))
    assert "VGW116: container main: nvidia.com/gpumem: 16 is only 16 MiB per device: write 16384" in sized
    assert plain.startswith(
        " unchanged left to its own system; VGW107: container main: no known device has nvidia.com/mig"
    )
    assert "VGW509" not in table


CONTAINER = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


def test_what_may_not_be_read_is_named() -> None:
    """The rest is shown, and each kind that could not be listed is an error: no workload is left out in silence."""
    template = {"spec": {"containers": [CONTAINER]}}
    pages = [{"metadata": {"name": name, "namespace": "team"}, "spec": {"template": template}} for name in "ab"]
    api = reading({"/apis/apps/v1/namespaces/team/deployments": pages})
    (found,), unread = asyncio.run(pods_of(api, [policy()], "team"))
    assert [pod.workload for pod in found] == ["deployment/a", "deployment/b"]
    assert unread[0].startswith("namespaces could not be read, so their annotations are unknown: 403")
    assert unread[1].startswith("API groups could not be read, so other kinds are unknown: 403")
    assert [line.partition(" could")[0] for line in unread[2:]] == [
        *("not all statefulsets", "not all daemonsets", "not all replicasets", "not all cronjobs", "not all jobs"),
        *("not all replicationcontrollers", "not all pods"),
    ]


def test_kinds_of_other_systems() -> None:
    """Those that the cluster serves are read where they contain pod templates; their pods are not counted again."""
    spec = {"containers": [CONTAINER]}
    named: dict[str, Any] = {"name": "a", "namespace": "team"}
    owner = {"apiVersion": "ray.io/v1alpha1", "kind": "RayCluster", "name": "a", "controller": True}
    server = owner | {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    ended = {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
    cluster = {"metadata": named, "spec": {"headGroupSpec": {"template": {"spec": spec}}}}
    served = ("apps/v1", "batch/v1", "ray.io/v1", "serving.kserve.io/v1beta1", "example.org/v1")
    groups = [{"name": each.split("/")[0], "preferredVersion": {"groupVersion": each}} for each in served]
    kinds = {"rayclusters": "RayCluster", "rayclusters/status": "RayCluster", "rayservices": "RayService", "x": "X"}
    resources = [{"name": name, "kind": kind, "namespaced": name != "rayservices"} for name, kind in kinds.items()]
    api = FakeApi(
        {
            "/apis": {"groups": groups},
            "/apis/ray.io/v1": {"resources": resources},
            "/apis/ray.io/v1/rayclusters": [cluster, {**cluster, **ended, "metadata": {**named, "name": "over"}}],
            "/api/v1/pods": [
                {"metadata": {**named, "ownerReferences": [owner]}, "spec": spec},
                {"metadata": {**named, "ownerReferences": [server]}, "spec": spec},
            ],
        }
    )
    (found,), unread = asyncio.run(pods_of(api, [policy()], None))
    assert unread == ()
    assert sorted(pod.workload for pod in found) == ["pod/of InferenceService a", "raycluster/a"]
    asked = {path for _, path, _ in api.requests if path.startswith(("/apis/r", "/apis/s", "/apis/e"))}
    assert asked == {"/apis/ray.io/v1", "/apis/ray.io/v1/rayclusters"}


@pytest.mark.parametrize("output, ending", [("table", "txt"), ("json", "json")])
def test_what_becomes_of_workloads(run: Run, golden: Callable[[str, str], None], output: str, ending: str) -> None:
    """A row for each template with a request, and the counts: as if their namespaces had opted in and enforced."""
    result = run("preview", "-f", "-", "-o", output, *SHARES, stdin=WORKLOADS)
    assert result.exit_code == 2
    golden(f"preview.{ending}", result.stdout.replace(f"{EXAMPLES}/", "examples/"))


def values(folder: Path, settings: str, shim: str = "{mode: inject}") -> str:
    """A file of values for the chart."""
    file = folder / "values.yaml"
    file.write_text(f"{{shim: {shim}, settings: {settings}}}\n")
    return str(file)


def test_what_other_values_would_change(run: Run, tmp_path: Path) -> None:
    """What each template is and what it would be, in every format; those that stay are counted."""
    other = values(tmp_path, "{target: volcano, bareDevices: share}")
    printed = {
        output: run("preview", "-f", "-", "-o", output, *SHARES, "--compare", other, stdin=WORKLOADS)
        for output in ("table", "json")
    }
    assert {result.exit_code for result in printed.values()} == {1}
    is_now, then = printed["table"].stdout.split("job/sized")[1].split("→ then")[:2]
    assert " shim" in is_now
    assert "scheduler: volcano" in " ".join(then.split())
    assert "wrong" not in printed["table"].stdout
    assert "\n3 templates that would change: 0 unchanged, 3 changed, 0 denied\nothers: 2\n" in printed["table"].stdout
    data = json.loads(printed["json"].stdout)
    assert not data["policy"].startswith("policy")
    assert data["policy"].endswith(f"; then {other} over the chart's values")
    first = data["pods"][0]
    assert first["before"]["effects"] == ["default filled", "other scheduler", "shim"]
    assert first["effects"] == ["default filled", "translated", "other scheduler"]


def test_nothing_would_change(run: Run, tmp_path: Path) -> None:
    """Another digest alone is no change."""
    other = values(tmp_path, "{bareDevices: share, timeoutSeconds: 7}")
    result = run("preview", "-f", "-", *SHARES, "--compare", other, stdin=WORKLOADS)
    assert result.exit_code == 0
    assert result.stdout.endswith("\n0 templates that would change: 0 unchanged, 0 changed, 0 denied\nothers: 5\n")


def test_a_pod_that_is_skipped(run: Run) -> None:
    """A pod for Windows that requests a GPU is listed, and not counted among those without a request."""
    limits = "resources: {limits: {nvidia.com/gpu: 1}}"
    spec = f"{{os: {{name: windows}}, containers: [{{name: main, image: i, {limits}}}]}}"
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: team}}\nspec: {spec}\n"
    printed = run("preview", "-f", "-", *SHARES, stdin=pod).stdout
    assert "pod/a     unchanged  skipped: Windows pod\n" in printed
    assert "1 template with a GPU request" in printed
    assert "without one: 0" in printed


def test_a_pod_that_only_nearly_requests(run: Run) -> None:
    """A misspelled annotation is named, and no request: as `mutate` and `explain` say."""
    spec = "{containers: [{name: main, image: i}]}"
    metadata = "{name: a, namespace: team, annotations: {gpu-fracton: '0.5'}}"
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {spec}\n"
    printed = run("preview", "-f", "-", *SHARES, stdin=pod).stdout
    assert "did you mean gpu-fraction?" in " ".join(printed.split())
    assert "0 templates with a GPU request" in printed
    assert "without one: 1" in printed


def test_what_only_the_stored_pod_shows(run: Run, tmp_path: Path) -> None:
    """Of a change that no summary has, that there is one."""
    mapping = "{extends: nvidia, place: {labels: {team.example/gpu: 'yes'}}}"
    other = values(tmp_path, f"{{bareDevices: share}}, mappings: {{own: {mapping}}}")
    result = run("preview", "-f", "-", "-o", "json", *SHARES, "--compare", other, stdin=WORKLOADS)
    sized = json.loads(result.stdout)["pods"][1]
    assert sized["text"] == f"{sized['before']['text']}; stored otherwise"


def test_one_reading_for_both_policies() -> None:
    """A pod that is created meanwhile is no change; a kind that only one policy knows has nothing to compare with."""
    pod = {"metadata": {"name": "a", "namespace": "team"}, "spec": {"containers": [CONTAINER]}}
    api = reading({"/api/v1/pods": [pod]})
    (now, then), _ = asyncio.run(pods_of(api, [policy(), policy(settings="target: volcano")], None))
    assert [path for _, path, _ in api.requests].count("/api/v1/pods") == 1
    assert [pod.workload for pod in compared(now, then).pods] == ["pod/a"]
    assert compared([], then).pods == ()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "-n NAME for one namespace, -A for all, or -f for manifests"),
        (("-A", "-n", "team"), "-n NAME for one namespace, -A for all, or -f for manifests"),
        (("-f", "-", "-A"), "options of the cluster do not apply to files"),
        (("-f", "-", "--set", "bareDevice=whole"), "unknown key 'bareDevice' (did you mean `bareDevices`?)"),
        (("-f", "-", "--set", "bareDevices"), "has no value: write KEY=VALUE"),
        (("-f", "-", "--set", "bareDevices=some"), "bareDevices"),
        (("-f", "-", "--set", "target=[", "--set", "served=[volcano]"), "not YAML"),
        (("-f", "-", "--set", "largestNode=0x10"), "largestNode: is '0x10', not a whole number"),
        (("-f", "-", "--set", "target=nobody"), "target"),
    ],
)
def test_usage(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """What cannot be previewed is refused, with what to write instead."""
    result = run("preview", *arguments, stdin=WORKLOADS)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""
