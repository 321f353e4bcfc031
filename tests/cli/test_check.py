"""`vgpu-webhook check`: documents and ConfigMaps that hold them, before they reach a cluster."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import click
import pytest

from tests.cli.conftest import Run
from tests.cluster.config_maps import vendor
from webhook.cli.commands.check import as_json, as_text, formatted
from webhook.cli.terminal import WIDTH
from webhook.doctor.checks import CHECKS
from webhook.doctor.result import Check, FileLine, Result, error, ok, warning

CHECKED = Path(__file__).parent / "golden" / "checked"
MAPPING = "apiVersion: vgpu-webhook.io/v1alpha1\nkind: Mapping\n"
CONFIG_MAP = """\
# ours
apiVersion: v1
kind: ConfigMap
metadata:
  name: ours
  labels: {vgpu-webhook.io/mapping: "true"}
data:
  mapping.yaml: |
    apiVersion: vgpu-webhook.io/v1alpha1
    kind: Mapping
    extends: nvidia
    defaults: {memory: 8000Mi}
"""
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: vgpu-webhook-settings}
data:
  settings.yaml: |-
    apiVersion: vgpu-webhook.io/v1alpha1
    kind: Settings
    target: nvidia
"""


def written(tmp_path: Path, **files: str) -> list[str]:
    """Write files, `_` for a dot in their names."""
    paths = []
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        paths.append(str(path))
    return paths


CHANGED = "policy: default (no target, whole devices), changed by the documents in the files"


def test_folders_and_stdin(run: Run, tmp_path: Path) -> None:
    """Every YAML and JSON file of a folder and below it; standard input."""
    written(tmp_path, sub__a_yaml=CONFIG_MAP, b_json='{"vendor": 1}', c_txt="[")
    result = run("check", str(tmp_path))
    assert result.exit_code == 1
    assert f"error: {tmp_path}/b.json:1: vendor: " in result.stderr
    printed = run("check", str(tmp_path / "sub"), "-", stdin=SETTINGS).stdout
    assert printed == f"{CHANGED}\nvalid: 1 mapping, 1 settings\n"


def test_nothing_found(run: Run, tmp_path: Path) -> None:
    """An empty folder, or files without any document, are a mistake in a pipeline: nothing was checked."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "full.yaml").write_text(CONFIG_MAP)
    for files in (["empty"], ["full.yaml", "empty"]):
        result = run("check", *(str(tmp_path / file) for file in files))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"error: {tmp_path}/empty: nothing found: the folder contains no YAML or JSON file\n"
    result = run("check", "-", stdin="# a comment\n")
    assert (result.exit_code, result.stderr) == (1, "error: -: no document found\n")


@pytest.mark.parametrize("file", sorted({*CHECKED.iterdir()} - {*CHECKED.glob("*.txt")}), ids=lambda file: file.stem)
def test_what_is_told_of_files(
    run: Run, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """With the line of each thing, and the exit code; those of a folder are checked together."""
    monkeypatch.chdir(CHECKED)
    result = run("check", file.name)
    golden(f"checked/{file.stem}.txt", f"{result.stdout}{result.stderr}exit {result.exit_code}\n")


def test_files_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    """They are named."""
    assert "nothing.yaml: No such file or directory" in run("check", str(tmp_path / "nothing.yaml")).stderr
    (tmp_path / "a.yaml").write_bytes(b"\n\xff")
    assert f"error: {tmp_path}/a.yaml:2: not UTF-8 text" in run("check", str(tmp_path)).stderr
    assert run("check", "-o", "nothing").exit_code == 1


@pytest.mark.parametrize(
    "command", [("check",), ("vendors", "--mappings"), ("registration", "--service", "a/b", "--mappings")], ids=" ".join
)
@pytest.mark.parametrize(
    "more, place",
    [
        (
            "variables: {x: {values: '(?i)a'}}\nkeys: {w: {resource: 'a.io/{x}', is: other}}\n",
            ":9: variables.x.values: ",
        ),
        ("match: {resources: [c]}\n", ":9: match.resources[0]: 'c' is not a prefix"),
        ("owned: ['*a*']\n", ":9: owned[0]: '*a*' would hold back ordinary pods"),
        ("known: [" + "a.io/b, " * 2000 + "]\n", ":9: known: has 2000 entries"),
    ],
    ids=["expression", "prefix", "mark", "list"],
)
def test_hostile_documents_are_reported(
    run: Run, tmp_path: Path, command: tuple[str, ...], more: str, place: str
) -> None:
    """Like any other mistake, by every command that reads documents."""
    text = vendor("acme")
    if "keys:" in more:
        text, more = text.replace("acme.example/gpu", '"acme.example/{x}-gpu"'), more.partition("\n")[0] + "\n"
    (path,) = written(tmp_path, acme_yaml=text.replace("forms:\n", "forms:\n\n") + more)
    result = run(*command, path)
    assert result.exit_code == 1
    assert f"error: {path}{place}" in result.stderr
    assert "Traceback" not in result.stderr


def test_forms_without_number(run: Run) -> None:
    """As many as a generator writes."""
    many = "".join(f"- {{name: f{number}, when: {{gpu: {number + 1}}}}}\n" for number in range(1500))
    result = run("check", "-", stdin=vendor("acme").partition("- {name")[0] + many)
    assert result.exit_code == 1
    assert "error: stdin:6: forms: has 1500 entries (at most 64 are allowed)" in result.stderr


def test_reports_as_of_an_installation(run: Run, tmp_path: Path) -> None:
    """In both formats, on stdout, with the same exit code as without a format."""
    names = ["documents", "headers", "vendors", "keys", "labels", "warnings", "denied", "judged"]
    good, bad = written(tmp_path, a_yaml=vendor("acme"), b_yaml=f"{MAPPING}plaec: {{}}\n{vendor('acme')}")
    result = run("check", "-o", "json", good)
    report = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, report["ok"]) == (0, "", True)
    assert [check["name"] for check in report["checks"]] == names
    assert {check["section"] for check in report["checks"]} == {"files"}
    assert [check["level"] for check in report["checks"]] == ["ok", "warning", *["ok"] * 6]
    assert report["checks"][0]["message"] == "valid: 1 mapping, 0 settings"
    assert f"policy: {report['policy']}" == CHANGED
    result = run("check", "-o", "json", bad)
    report = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, report["ok"]) == (1, "", False)
    assert report["checks"][0]["details"] == [f"{bad}:3: plaec: unknown key 'plaec' (did you mean `place`?)"]
    others = [check["message"] for check in report["checks"][2:] if check["name"] != "keys"]
    assert others == ["not checked: a document is invalid"] * 5
    result = run("check", "-o", "text", good)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(
        f"{CHANGED}\n\nfiles\n✓ documents: valid: 1 mapping, 0 settings\n‼ headers: there are documents"
    )
    assert result.stdout.endswith("\n\n7 ✓, 1 ‼\n")


def test_requests_that_nothing_judges(run: Run, tmp_path: Path) -> None:
    """An error beside the warnings, or with --no-strict a warning."""
    text = "apiVersion: example.org/v1\nkind: Train\nmetadata: {name: t}\nspec: {limits: {nvidia.com/gpu: 1}}\n"
    text += "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\n"
    text += "spec: {extendedResourceName: nvidia.com/gpu}\nspec: {extendedResourceName: nvidia.com/gpu}\n"
    (file,) = written(tmp_path, a_yaml=text)
    message = f"{file}: train/t: not judged: spec.limits.nvidia.com/gpu is outside of every pod"
    result = run("check", file)
    assert result.exit_code == 1
    assert f"error: {message}" in result.stderr
    assert f"warning: {file}:10: the key spec occurs twice in one mapping, first in line 9" in result.stderr
    result = run("check", "--no-strict", file)
    assert result.exit_code == 0
    assert f"warning: {message}" in result.stderr


MOUNTED = """\
      containers:
      - name: main
        image: app
        resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}
        volumeMounts: [{name: s, mountPath: /s}]
      volumes: [{name: s, hostPath: {path: /run/containerd/containerd.sock}}]
"""
DENIED = {
    "pod": ("v1", "Pod", f"spec:\n{MOUNTED}"),
    "deployment": ("apps/v1", "Deployment", f"spec:\n  template:\n    spec:\n{MOUNTED}"),
    "workflow": (
        "argoproj.io/v1alpha1",
        "Workflow",
        f"spec:\n  templates:\n  - name: t\n    containerSet:\n{MOUNTED}".replace("      volumes:", "  volumes:"),
    ),
}
"""Objects of which the webhook denies the pods: a mount lifts the limit of a share."""


def denied(kind: str) -> str:
    """One of them, in a namespace."""
    version, name, spec = DENIED[kind]
    return f"apiVersion: {version}\nkind: {name}\nmetadata: {{name: d, namespace: team}}\n{spec}"


@pytest.mark.parametrize("kind", DENIED)
def test_denied_pods(run: Run, tmp_path: Path, kind: str) -> None:
    """An error of any kind of object, with its line, as `mutate` denies it; of a namespace that only audits, nothing."""
    text = denied(kind)
    (file,) = written(tmp_path, a_yaml=text)
    result = run("check", file)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {file}: {kind}/d: VGW605: container main: the mount of the node's ")
    line = 1 + text[: text.index("volumeMounts")].count("\n")
    assert f"::error file={file},line={line},title=denied::" in run("check", "-o", "github", file).stdout
    assert run("mutate", "-f", file).exit_code == 2
    labels = "labels: {vgpu-webhook.io/inject: enabled, vgpu-webhook.io/mode: audit}"
    (space,) = written(tmp_path, b_yaml=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: team, {labels}}}\n")
    audited = run("check", file, space)
    assert (audited.exit_code, audited.stderr) == (0, "")


LONG = " ".join(["word"] * 60)


def found(*results: Result) -> list[tuple[Check[Any], Result]]:
    """Results of the first checks from the API server on."""
    return list(zip([each for each in CHECKS[1:] if each.name != "replicas"], results, strict=False))


def test_text() -> None:
    """Sections, marks, details and hints, each under the other."""
    results = found(
        ok("answers"),
        error("bad", "one", "two\nlines", hint="kubectl edit"),
        ok("none"),
        warning("odd", hint="look at it"),
    )
    assert click.unstyle(as_text(results)) == (
        "cluster\n"
        "✓ api-server: answers\n"
        "× mappings: bad\n"  # noqa: RUF001  (a cross)
        "    - one\n"
        "    - two lines\n"
        "    → kubectl edit\n"
        "✓ events: none\n"
        "\n"
        "registration\n"
        "‼ registration: odd\n"
        "    → look at it\n"
        "\n"
        "2 ✓, 1 ‼, 1 ×\n"  # noqa: RUF001  (a cross)
    )


def test_colours_are_for_terminals_only() -> None:
    """Marks have colours, which `click.echo` takes away where there is not a terminal."""
    assert "\x1b[31m" in as_text(found(error("bad", hint="x")))


def test_lines_fit() -> None:
    """Long messages, details and hints are wrapped, and continue under their beginning."""
    lines = click.unstyle(as_text(found(error(LONG, LONG, hint=LONG)))).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert sum(line.count("word") for line in lines) == 180
    assert lines[2].startswith("  word")


def test_data() -> None:
    """The same for programs; it is well unless something is an error."""
    assert json.loads(as_json(found(ok("a"), warning("b", "c", hint="d"))))["ok"] is True
    assert json.loads(as_json(found(ok("a"), error("b", "c", hint="d")))) == {
        "ok": False,
        "checks": [
            {"name": "api-server", "section": "cluster", "level": "ok", "message": "a", "details": [], "hint": ""},
            {"name": "mappings", "section": "cluster", "level": "error", "message": "b", "details": ["c"], "hint": "d"},
        ],
    }


def test_without_a_cluster(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing says where the API server is, that is a usage error, and nothing is printed as a finding."""
    result = run("check", "--kubeconfig", "/nowhere")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "/nowhere" in result.stderr


def unreachable(folder: Path) -> str:
    """Write a kubeconfig of a cluster that nobody serves."""
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    file = folder / "config"
    file.write_text(json.dumps(config))
    return str(file)


def test_nobody_answers(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An API server that cannot be reached is a finding."""
    file = unreachable(tmp_path_factory.mktemp("kube"))
    result = run("check", "--kubeconfig", file, "-o", "json")
    assert result.exit_code == 1
    printed = json.loads(result.stdout)
    assert [check["name"] for check in printed["checks"]] == ["api-server"]
    assert printed["ok"] is False


def test_junit_of_what_xml_forbids() -> None:
    """A parser gets every character that XML permits, and a replacement for others."""
    text = "a\x00b\x1b[31m\ud800\uffff <&\"'> ]]> \U0001f600\tc"
    (suite,) = ET.fromstring(formatted(found(error(text, text, hint=text), ok("fine")), "junit"))
    readable = "a\ufffdb\ufffd[31m\ufffd\ufffd <&\"'> ]]> \U0001f600\tc"
    assert suite[0][0].attrib["message"] == readable
    assert suite[0][0].text == f"{readable}\nnext: {readable}"
    assert len(suite[1]) == 0


def test_junit_of_a_cluster(run: Run, tmp_path: Path) -> None:
    """A failed check of an installation is a finding, as in other formats; there is no file to annotate."""
    file = unreachable(tmp_path)
    result = run("check", "--kubeconfig", file, "-o", "junit")
    assert result.exit_code == 1
    assert [case.attrib["name"] for case in ET.fromstring(result.stdout).iter("testcase")] == ["api-server"]
    result = run("check", "--kubeconfig", file, "-o", "github")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "-o github applies to files" in result.stderr


def test_github_escapes() -> None:
    """A runner decodes a command to the same text and name, and nothing in them begins another command."""
    file, text = "a,b:c%2C.yaml", "100 %\r\n::error::x%0A, y: z"
    results = found(Result(error("", hint="").level, "", (text,), "", (FileLine(file, 3),)))
    (line,) = formatted(results, "github").splitlines()
    command = re.fullmatch(r"::error file=([^,:]*),line=3,title=api-server::(.*)", line)
    assert command is not None
    assert unquote(command[1]) == file
    assert unquote(command[2]) == text
