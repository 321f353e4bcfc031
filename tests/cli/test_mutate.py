"""``mutate``, end to end with the real decision: what is printed where, and the exit code."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonpatch
import pytest
import yaml

from tests.cli.conftest import SHARES, Run

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
CPU = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: cpu\nspec:\n  containers:\n  - name: main\n    image: example\n"
BAD = POD.replace("name: demo", "name: bad").replace("3e3", "8Ti")
DEFAULT = "policy: default (no target, whole devices); yours: --values FILE, --context NAME\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - port: 80\n    protocol: TCP\n"


def join(*documents: str) -> str:
    """A stream."""
    return "---\n".join(documents)


def limits(pod: dict[str, object]) -> dict[str, object]:
    """The limits of a pod's first container."""
    containers: list[dict[str, dict[str, dict[str, object]]]] = pod["spec"]["containers"]  # type: ignore[index]
    return containers[0]["resources"]["limits"]


def test_one_document_in_that_document_out(run: Run) -> None:
    """As YAML with its keys in order, mistakable text quoted, nothing of ours but what the cluster would store."""
    result = run("mutate", "-f", "-", *SHARES, stdin=POD)
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "kind: Pod\napiVersion: v1\nmetadata:\n  name: demo\n  labels:\n    vgpu-webhook.io/changed: "
    )
    assert "    args:\n    - 'y'\n    - '1e3'\n    - '0o17'\n    - 'yes'\n    - plain\n" in result.stdout
    pod = yaml.safe_load(result.stdout)
    assert limits(pod) == {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}
    assert pod["spec"]["schedulerName"] == "hami-scheduler"
    assert {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "3000m"} in pod["spec"]["containers"][0]["env"]
    assert list(pod) == ["kind", "apiVersion", "metadata", "spec"]
    assert result.stderr.startswith("policy: the settings of ")
    assert "VGW601: LD_LIBRARY_PATH" in pod["metadata"]["annotations"]["vgpu-webhook.io/status"]


def test_the_output_is_stable(run: Run) -> None:
    """Feeding it back changes nothing more."""
    once = run("mutate", "-f", "-", stdin=POD).stdout
    again = run("mutate", "-f", "-", "-o", "patch", stdin=once)
    assert again.stdout == "[]\n"
    assert again.stderr == DEFAULT


def test_files_are_repeatable_and_a_dash_is_stdin(run: Run, tmp_path: Path) -> None:
    """Manifests are printed in the order of the options."""
    (tmp_path / "a.yaml").write_text(join(SERVICE, CPU))
    (tmp_path / "b.json").write_text(json.dumps(yaml.safe_load(SERVICE.replace("web", "api"))))
    files = ["-f", str(tmp_path / "a.yaml"), "-f", "-", "--filename", str(tmp_path / "b.json")]
    result = run("mutate", *files, stdin=CPU.replace("cpu", "stdin"))
    assert result.exit_code == 0
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(result.stdout)]
    assert names == ["web", "cpu", "stdin", "api"]


def test_other_kinds_and_other_pods_pass_unchanged(run: Run) -> None:
    """Several documents: a stream."""
    assert run("mutate", "-f", "-", stdin=join(SERVICE, CPU)).stdout == join(SERVICE, CPU)


def test_json(run: Run) -> None:
    """One document is that document, several are a List."""
    alone = run("mutate", "-f", "-", "-o", "json", stdin=POD)
    assert list(json.loads(alone.stdout)) == ["kind", "apiVersion", "metadata", "spec"]
    several = json.loads(run("mutate", "-f", "-", "-o", "json", stdin=join(POD, SERVICE)).stdout)
    assert (several["apiVersion"], several["kind"]) == ("v1", "List")
    assert [item["kind"] for item in several["items"]] == ["Pod", "Service"]


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


def test_patch_of_a_template(run: Run) -> None:
    """Paths begin at the workload."""
    text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: demo}\nspec:\n  template:\n"
    spec = "    spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 3000}}}]}\n"
    result = run("mutate", "-f", "-", "-o", "patch", stdin=text + spec)
    operations = json.loads(result.stdout)
    assert all(operation["path"].startswith("/spec/template/") for operation in operations)
    assert "warning: deployment/demo: VGW101: container a: " in result.stderr


def test_diff(run: Run) -> None:
    """Unified; what does not change is not printed; no colours where nobody looks."""
    result = run("mutate", "-f", "-", "-o", "diff", stdin=join(SERVICE, POD))
    lines = result.stdout.splitlines()
    assert lines[:2] == ["--- pod/demo as written", "+++ pod/demo as stored"]
    assert lines[2].startswith("@@ ")
    assert "+  schedulerName: hami-scheduler" in lines
    assert "\x1b" not in result.stdout


def test_a_pod_without_difference_is_said(run: Run) -> None:
    """With the reason; of other objects nothing is, and nothing with other outputs."""
    pods = join(SERVICE, POD.replace("nvidia.com/gpu", "cpu"))
    assert run("mutate", "-f", "-", "-o", "diff", stdin=pods).stderr.splitlines()[1:] == [
        "note: pod/demo: unchanged: no GPU keys"
    ]
    assert len(run("mutate", "-f", "-", stdin=pods).stderr.splitlines()) == 1


def test_diff_is_coloured_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless NO_COLOR is set."""
    result = run("mutate", "-f", "-", "-o", "diff", stdin=POD, color=True)
    assert "\x1b[32m+  schedulerName: hami-scheduler\x1b[0m" in result.stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("mutate", "-f", "-", "-o", "diff", stdin=POD, color=True).stdout


@pytest.mark.parametrize("output", ["yaml", "json", "patch", "diff"])
def test_denied(run: Run, output: str) -> None:
    """Exit 2; what is denied is not printed, the others are, and stderr says why."""
    result = run("mutate", "-f", "-", "-o", output, stdin=join(BAD, POD, SERVICE))
    assert result.exit_code == 2
    assert "bad" not in result.stdout
    assert "demo" in result.stdout or output == "patch"
    assert len(result.stdout.splitlines()) == 2 or output != "patch"
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: pod/bad: VGW303: container main: nvidia.com/gpumem: 8Ti")
    assert result.stderr.splitlines()[-1].startswith("note: `vgpu-webhook explain` with the same -f and policy shows")


@pytest.mark.parametrize("output", ["yaml", "json", "patch", "diff"])
def test_one_denied_document_prints_nothing(run: Run, output: str) -> None:
    """Not even an empty one."""
    result = run("mutate", "-f", "-", "-o", output, stdin=BAD)
    assert (result.exit_code, result.stdout) == (2, "")


def test_to(run: Run, tmp_path: Path) -> None:
    """`--to` overrides the pod's annotation and the settings for this run, and is not stored."""
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: demo}\nspec:\n  containers:\n  - name: a\n"
        "    resources: {limits: {tencent.com/vcuda-core: 50, tencent.com/vcuda-memory: 16}}\n"
    )
    translated = yaml.safe_load(run("mutate", "-f", "-", "--to", "nvidia", stdin=pod).stdout)
    assert limits(translated) == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "50"}
    assert list(translated["metadata"]["annotations"]) == ["vgpu-webhook.io/status", "vgpu-webhook.io/summary"]
    annotated = pod.replace("{name: demo}", "{name: demo, annotations: {vgpu-webhook.io/target: vcuda}}")
    stored = yaml.safe_load(run("mutate", "-f", "-", "--to", "nvidia", stdin=annotated).stdout)
    assert limits(stored) == limits(translated)
    assert stored["metadata"]["annotations"]["vgpu-webhook.io/target"] == "vcuda"
    (tmp_path / "settings").write_text("target: aliyun\n")
    elsewhere = run("mutate", "-f", "-", "--to", "nvidia", "--settings", str(tmp_path / "settings"), stdin=pod)
    assert limits(yaml.safe_load(elsewhere.stdout)) == limits(translated)


def test_namespace_documents(run: Run) -> None:
    """Labels and annotations hold for the pods in it; `--namespace` puts pods there; the document is not printed."""
    space = (
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n  labels: {vgpu-webhook.io/inject: enabled}\n"
        "  annotations: {vgpu-webhook.io/default-memory: 4Gi}\n"
    )
    pod = POD.replace(", nvidia.com/gpumem: 3e3", "")
    inside = run("mutate", "-f", "-", *SHARES, "-n", "team", "-o", "json", stdin=join(pod, space))
    assert limits(json.loads(inside.stdout))["nvidia.com/gpumem"] == "4096"
    outside = run("mutate", "-f", "-", *SHARES, "-o", "json", stdin=join(space, pod))
    assert limits(json.loads(outside.stdout))["nvidia.com/gpumem"] == "5000"
    only = run("mutate", "-f", "-", stdin=space)
    assert (only.exit_code, only.stdout, only.stderr) == (0, "", DEFAULT)


def test_a_namespace_that_is_not_opted_in(run: Run) -> None:
    """Its pods are left alone, with a note."""
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
    result = run("mutate", "-f", "-", "-n", "team", "-o", "patch", stdin=join(space, POD))
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert result.stderr == (
        f"{DEFAULT}note: pod/demo: unchanged: namespace team lacks the label vgpu-webhook.io/inject: enabled\n"
    )


def test_pod_security_of_a_namespace(run: Run) -> None:
    """Without a document hostPath is permitted; with one its label decides."""
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {vgpu-webhook.io/inject: enabled%s}}\n"
    assert "hostPath" in run("mutate", "-f", "-", *SHARES, stdin=POD).stdout
    assert "hostPath" in run("mutate", "-f", "-", *SHARES, stdin=join(space % "", POD)).stdout
    label = ", pod-security.kubernetes.io/enforce: baseline"
    baseline = run("mutate", "-f", "-", *SHARES, stdin=join(space % label, POD))
    assert "hostPath:" not in baseline.stdout
    assert "VGW602" in baseline.stdout


def test_without_options_least_is_changed(run: Run) -> None:
    """Whole devices stay whole, nothing is translated, and the library is the device plugin's; the first line says so."""
    whole = POD.replace(", nvidia.com/gpumem: 3e3", "")
    assert run("mutate", "-f", "-", "-o", "patch", stdin=whole).stdout == "[]\n"
    other = POD.replace("nvidia.com/gpu: 1, nvidia.com/gpumem: 3e3", "tencent.com/vcuda-core: 100")
    assert "nvidia.com" not in run("mutate", "-f", "-", stdin=other).stdout
    share = run("mutate", "-f", "-", stdin=POD)
    assert "LD_" not in share.stdout
    assert "volume" not in share.stdout
    assert share.stderr == DEFAULT


def test_mappings_and_settings(run: Run, tmp_path: Path) -> None:
    """What the cluster is configured with."""
    (tmp_path / "own.yaml").write_text(
        "extends: nvidia\ndefaults: {memory: 8000Mi}\nplace: {scheduler: my-scheduler}\n"
    )
    (tmp_path / "settings").write_text("target: nvidia\n")
    pod = POD.replace(", nvidia.com/gpumem: 3e3", "")
    configured = ["--mappings", str(tmp_path), "--settings", str(tmp_path / "settings")]
    stored = yaml.safe_load(run("mutate", "-f", "-", *configured, stdin=pod).stdout)
    assert limits(stored)["nvidia.com/gpumem"] == "8000"
    assert stored["spec"]["schedulerName"] == "my-scheduler"
    vcuda = POD.replace("nvidia.com/gpu: 1, nvidia.com/gpumem: 3e3", "tencent.com/vcuda-core: 100")
    assert "nvidia.com/gpu" in limits(yaml.safe_load(run("mutate", "-f", "-", *configured, stdin=vcuda).stdout))


def test_other_kinds(run: Run) -> None:
    """The pods of known kinds are decided, and what looks like a pod in others."""
    job = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: train\nspec:\n  pytorchReplicaSpecs:\n"
        "    Worker:\n      template:\n        spec:\n          containers:\n          - name: a\n"
        "            resources:\n              limits:\n                nvidia.com/gpumem: 3000\n"
    )
    unlike = job.replace("PyTorchJob", "X").replace("resources", "more")
    unlike = unlike.replace("          containers:", "          containers: [{name: b}]\n          other:")
    for text in (job, job.replace("kubeflow.org/v1", "x/v1")):
        treated = run("mutate", "-f", "-", stdin=text)
        template = yaml.safe_load(treated.stdout)["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
        assert limits(template)["nvidia.com/gpu"] == "1"
        assert "vgpu-webhook.io/status" in template["metadata"]["annotations"]
        assert "warning: pytorchjob/train: VGW101: container a: " in treated.stderr
    where = "spec.pytorchReplicaSpecs.Worker.template.spec.other[0].more.limits.nvidia.com/gpumem"
    rest = f"x/train: not judged: {where} is outside of every pod template and pod spec found in it\n"
    result = run("mutate", "-f", "-", "-o", "json", stdin=unlike)
    assert (result.exit_code, result.stderr) == (1, f"{DEFAULT}error: {rest}")
    for words in (("mutate", "-f"), ("explain", "-f"), ("preview", "-f"), ("check",)):
        for option, level in (("--strict", "error"), ("--no-strict", "warning")):
            result = run(*words[:1], option, *words[1:], "-", stdin=unlike)
            told = result.stderr.removeprefix(DEFAULT).replace("stdin: ", "")
            assert (result.exit_code, told) == (int(level == "error"), f"{level}: {rest}")
            assert where not in result.stdout  # it is told once
    for command in ("mutate", "explain"):
        assert run(command, "-f", "-", stdin=job).exit_code == 0
        lenient = run(command, "-f", "-", "--no-strict", stdin=f"{unlike}---\n{job}")
        assert lenient.exit_code == 0
    report = json.loads(run("explain", "-f", "-", "-o", "json", stdin=unlike).stdout)
    assert report["objects"][0]["unjudged"] == [rest.partition(": ")[2].rstrip()]


def test_which_file(run: Run, tmp_path: Path) -> None:
    """Of several files, each message names its own."""
    (tmp_path / "good.yaml").write_text(POD)
    (tmp_path / "wrong.yaml").write_text(POD.replace("nvidia.com/gpu:", "nvidia.com/gpux:"))
    (tmp_path / "outside.yaml").write_text("apiVersion: v1\nkind: A\nspec: {template: {limits: {nvidia.com/gpu: 1}}}\n")
    lines = run("mutate", "-f", str(tmp_path)).stderr.splitlines()
    errors = sorted(line for line in lines if line.startswith("error: "))
    assert errors[0].startswith(f"error: {tmp_path}/outside.yaml: a/?: not judged: "), errors
    assert errors[1].startswith(f"error: {tmp_path}/wrong.yaml: pod/demo: VGW313: "), errors


def test_the_rest_of_a_stream(run: Run) -> None:
    """One bad document does not end the others; each is an error with its line, and the exit code says so."""
    broken = POD.replace("main", "5")
    text = join(SERVICE, broken, "a: [\n", "replicas: 2\n", SERVICE.replace("metadata:", "kind: Service\nmetadata:"))
    lines = text.splitlines()
    last = max(number for number, line in enumerate(lines, 1) if line == "kind: Service")

    def line(part: str) -> int:
        return next(number for number, line in enumerate(lines, 1) if part in line)

    for command in ("mutate", "explain", "preview"):
        result = run(command, "-f", "-", stdin=text)
        assert result.exit_code == 1
        errors = [line.partition(": ")[2] for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert errors[0].startswith(f"stdin:{line('a: [')}: not YAML")
        assert errors[1].startswith(
            f"stdin:{line('replicas')}: no Kubernetes object: `apiVersion` is missing or not a string"
        )
        assert errors[2].startswith(f"stdin:{line('name: 5')}: spec.containers[0].name: text is expected here")
        if command == "mutate":
            assert [each["kind"] for each in yaml.safe_load_all(result.stdout)] == ["Service", "Service"]
        if command != "preview":
            assert f"warning: stdin:{last}: the key kind occurs twice in one mapping" in result.stderr


def test_what_kubernetes_could_not_decode(
    run: Run, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, line, where and what: in pods, templates, namespaces and lists."""
    monkeypatch.chdir(Path(__file__).parent / "golden" / "undecodable")
    result = run("mutate", "-f", "stream.yaml")
    assert result.exit_code == 1
    golden("undecodable/stream.txt", result.stdout + result.stderr)


def test_every_manifest_of_a_folder(run: Run, tmp_path: Path) -> None:
    """Those below it, too, in the order of their paths; other files are passed over."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yml").write_text(POD)
    (tmp_path / "b.json").write_text('{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}')
    (tmp_path / "notes.txt").write_text("[")
    result = run("mutate", "-f", str(tmp_path))
    assert result.exit_code == 0
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(result.stdout)] == ["web", "demo"]
    (tmp_path / "sub" / "c.yaml").write_text("kind: [\n")
    assert f"error: {tmp_path}/sub/c.yaml:" in run("mutate", "-f", str(tmp_path)).stderr


def test_files_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    """Missing ones, empty folders and empty files are named; stdin is read once."""
    missing = run("mutate", "-f", str(tmp_path / "nothing.yaml"))
    assert (missing.exit_code, missing.stderr) == (1, f"error: {tmp_path}/nothing.yaml: No such file or directory\n")
    folder = run("mutate", "-f", str(tmp_path))
    assert (folder.exit_code, folder.stderr) == (
        1,
        f"error: {tmp_path}: nothing found: the folder contains no YAML or JSON file\n",
    )
    empty = run("mutate", "-f", "-", stdin="")
    assert (empty.exit_code, empty.stdout, empty.stderr) == (1, "", "error: -: no document\n")
    twice = run("mutate", "-f", "-", "-f", "-", stdin=POD)
    assert twice.exit_code == 1
    assert "only once" in twice.stderr


def test_bad_settings(run: Run, tmp_path: Path) -> None:
    """Told with file and line, before any manifest is read."""
    (tmp_path / "s.yaml").write_text("nodeName: allow\n")
    result = run("mutate", "-f", "nothing.yaml", "--settings", str(tmp_path / "s.yaml"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {tmp_path}/s.yaml:1: nodeName: 'allow' is not one of ")


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


def test_what_is_skipped_is_said(run: Run) -> None:
    """Why a pod that requests a GPU stays as it is, whatever it requests."""
    windows = POD.replace("spec:\n", "spec:\n  os: {name: windows}\n")
    result = run("mutate", "-f", "-", "-o", "patch", stdin=windows)
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert "note: pod/demo: skipped: GPU shares are for Linux: pods of Windows stay as they are\n" in result.stderr
    disabled = POD.replace("name: demo", "name: demo\n  labels: {vgpu-webhook.io/inject: disabled}")
    assert "note: pod/demo: skipped: The pod has the label" in run("mutate", "-f", "-", stdin=disabled).stderr
