"""The policy of offline commands: that of an installation's values, of documents, or of a cluster; and which one it was."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.cli.conftest import SHARES, Run
from tests.deploy.charts import VALUES as VALUES_OF_CHARTS
from webhook.cli.manifests.chart_schema import mistakes
from webhook.cli.manifests.values import chart_values, merged
from webhook.cluster.policy.documents import NO_SETTINGS
from webhook.labels import MAPPING

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
MISSPELLED = POD.replace("nvidia.com/gpu", "nvida.com/gpu")
VALUES = "settings: {target: nvidia, bareDevices: share}\nshim: {mode: plugin}\n"
MORE = "mappings: {nvidia: {defaults: {memory: 8000Mi}}}\n"
SETTINGS = "apiVersion: vgpu-webhook.io/v1alpha1\nkind: Settings\ntarget: nvidia\nbareDevices: share\n"
NVIDIA = (
    "apiVersion: vgpu-webhook.io/v1alpha1\nkind: Mapping\nextends: nvidia\n"
    "shim: {mode: plugin}\ndefaults: {memory: 8000Mi}\n"
)


@pytest.fixture
def values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files of values, which is the current one."""
    (tmp_path / "values.yaml").write_text(VALUES)
    (tmp_path / "more.yaml").write_text(MORE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def api_server(objects: dict[str, dict[str, str]], namespace: str = "gpu") -> Iterator[str]:
    """The ConfigMaps of one namespace, by name, as an API server lists them; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            selector = parse_qs(url.query).get("labelSelector", [""])[0]
            field = parse_qs(url.query).get("fieldSelector", [""])[0]
            items = [
                {
                    "metadata": {
                        "name": name,
                        "resourceVersion": "1",
                        "labels": {MAPPING: "true"} if "mapping.yaml" in data else {},
                    },
                    "data": data,
                }
                for name, data in objects.items()
                if url.path == f"/api/v1/namespaces/{namespace}/configmaps"
                and ("mapping.yaml" in data if selector else field == f"metadata.name={name}")
            ]
            found = url.path.endswith("/configmaps")
            body = {"metadata": {"resourceVersion": "1"}, "items": items} if found else {"kind": "Status", "code": 404}
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(folder: Path, server: str) -> str:
    """A file with the context ``here`` for a server, and another one, which is the current one, for none."""
    clusters = [
        {"name": "there", "cluster": {"server": server}},
        {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}},
    ]
    contexts = [
        {"name": "here", "context": {"cluster": "there", "user": "u"}},
        {"name": "gone", "context": {"cluster": "nowhere", "user": "u"}},
    ]
    config = {"apiVersion": "v1", "kind": "Config", "clusters": clusters, "contexts": contexts}
    file = folder / "config"
    file.write_text(yaml.safe_dump({**config, "users": [{"name": "u", "user": {}}], "current-context": "gone"}))
    return str(file)


def test_values(run: Run, values: Path) -> None:
    """What an installation with these values stores: the plugin's library, and the default of the mapping."""
    result = run("mutate", "-f", "-", "--values", "values.yaml", "--values", "more.yaml", stdin=POD)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == "policy: values.yaml, more.yaml over the chart's values"
    assert "LD_PRELOAD" not in result.stdout
    assert "nvidia.com/gpumem: '8000'" in result.stdout
    inject = run("mutate", "-f", "-", *SHARES, stdin=POD)
    assert "LD_PRELOAD" in inject.stdout


def test_every_report_says_which_policy(run: Run, values: Path) -> None:
    """In its first line, or in a field."""
    line = "policy: values.yaml over the chart's values"
    chosen = ("--values", "values.yaml")
    for command, *arguments in (("explain", "-f", "-"), ("explain", "--name", "nvidia.com/gpu"), ("check", "-")):
        assert run(command, *chosen, *arguments, stdin=POD).stdout.splitlines()[0] == line
        report = run(command, *chosen, "-o", "json", *arguments, stdin=POD).stdout
        assert f"policy: {json.loads(report)['policy']}" == line
    assert run("check", *chosen, "-o", "text", "-", stdin=POD).stdout.startswith(f"{line}\n\nfiles\n")
    assert "nvidia" in run("vendors", *chosen).stdout


def test_documents_are_named(run: Run, values: Path) -> None:
    """Each only where it is given."""
    (values / "nvidia.yaml").write_text(NVIDIA)
    (values / "settings.yaml").write_text(SETTINGS)
    mappings, settings = ("--mappings", "nvidia.yaml"), ("--settings", "settings.yaml")
    for options, title in (
        ((), "default (no target, whole devices)"),
        (mappings, "default (no target, whole devices), changed by nvidia.yaml"),
        (settings, "the settings of settings.yaml"),
        ((*mappings, *settings), "the settings of settings.yaml, changed by nvidia.yaml"),
    ):
        result = run("mutate", "-f", "-", *options, stdin=POD)
        others = "" if options else "; yours: --values FILE, --context NAME"
        assert result.stderr.splitlines()[0] == f"policy: {title}{others}"


@pytest.mark.parametrize("command", [("mutate", "-f", "-"), ("explain", "-f", "-"), ("check", "-"), ("vendors",)])
@pytest.mark.parametrize(
    "options",
    [
        ("--values", "--settings"),
        ("--values", "--mappings"),
        ("--values", "--context"),
        ("--values", "--kubeconfig"),
        ("--mappings", "--context"),
        ("--settings", "--kubeconfig"),
    ],
    ids=" ".join,
)
def test_sources_exclude_each_other(run: Run, command: tuple[str, ...], options: tuple[str, str]) -> None:
    """A usage error names both."""
    first, second = options
    result = run(command[0], second, "x", first, "y", *command[1:], stdin=POD)
    assert (result.exit_code, result.stdout) == (1, "")
    within = second.removeprefix("--") if first == "--values" else ""
    hint = f", or put the {within} below `{within}:` of the values" if within in {"mappings", "settings"} else ""
    told = f"Error: {first} and {second} are different sources of the policy: remove one of them{hint}\n"
    assert told in result.stderr


def test_a_namespace_needs_a_cluster(run: Run) -> None:
    """Alone it says nothing."""
    result = run("mutate", "-f", "-", "--release-namespace", "gpu", stdin=POD)
    assert result.exit_code == 1
    assert "--release-namespace needs --context or --kubeconfig" in result.stderr


@pytest.mark.parametrize(
    "text, message",
    [
        (VALUES + "setings: {}\n", "values.yaml:3: setings: is no value of the chart (did you mean `settings`?)"),
        ("shim: {mode: plugin}\n", "values.yaml: settings.bareDevices: is not set, and the chart requires it"),
        (
            VALUES.replace("target:", "traget:"),
            "values.yaml:1: settings.traget: unknown key 'traget' (did you mean `target`?)",
        ),
        (
            "shim: {mode: plugn}\nsettings: {tarqet: a}\n",
            "values.yaml:1: shim.mode: is 'plugn' (did you mean `plugin`?)",
        ),
        ("shim: {mode: plugn}\nsettings: {tarqet: a}\n", "values.yaml:2: settings.tarqet: unknown key 'tarqet'"),
        (
            VALUES.replace("nvidia", "hamii"),
            "values.yaml:1: settings.target: no vendor is called 'hamii' (did you mean `hami`?)",
        ),
        (
            f"{VALUES}mappings:\n  nvidia:\n    plaec: {{}}\n",
            "values.yaml:5: mappings.nvidia.plaec: unknown key 'plaec'",
        ),
        (
            f"{VALUES}mappings:\n  mine.yaml: |\n    extends: nvidia\n",
            "values.yaml:4: mappings.mine.yaml: must be a map (write the document itself below the name of its vendor",
        ),
        (
            VALUES.replace("plugin", "plugin, vendors: [hami]"),
            "values.yaml:2: shim.vendors[0]: 'hami' is not a built-in mapping (it is an alias: write `nvidia`)",
        ),
        ("a: 1\n---\nb: 2\n", "values.yaml: contains more than one document"),
        (
            VALUES + "image: {tag: 0.10}",
            "values.yaml:3: image.tag: must be a text or a whole number (write it in quotes)",
        ),
        (VALUES + 'replicaCount: "2"', "values.yaml:3: replicaCount: must be a whole number (write it without quotes)"),
        (VALUES + 'rbac: {create: "["}', "values.yaml:3: rbac.create: must be true or false\n"),
        (VALUES + 'hostNetwork: "true"', "values.yaml:3: hostNetwork: must be true or false (write it without quotes)"),
        (VALUES + "extraArgs: [1]", "values.yaml:3: extraArgs[0]: must be a text (write it in quotes)"),
        (
            VALUES + "service: {typ: NodePort}",
            "values.yaml:3: service.typ: is no value of the chart (did you mean `type`?)",
        ),
        (VALUES + "logLevel: warn", "values.yaml:3: logLevel: is 'warn' (did you mean `warning`?)"),
        (
            VALUES + "test:",
            "values.yaml:3: test: is empty, which deletes the chart's values (remove the line, or write",
        ),
        (VALUES + "containerPorts: {webhook: 0}", "values.yaml:3: containerPorts.webhook: must be at least 1"),
        (VALUES + "serviceMonitor: {interval: soon}", "values.yaml:3: serviceMonitor.interval: does not match ^"),
    ],
)
def test_invalid_values(run: Run, values: Path, text: str, message: str) -> None:
    """With the file, the line where it is known, and what to write."""
    (values / "values.yaml").write_text(text)
    result = run("mutate", "-f", "-", "--values", "values.yaml", stdin=POD)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"error: {message}" in result.stderr


def test_mistakes_in_values_are_told_in_order(run: Run, values: Path) -> None:
    """All at once, each once, by line, the first file first."""
    (values / "values.yaml").write_text("settings:\n  targte: nvidia\n  baredevices: share\nshim: {mode: plugn}\n")
    (values / "more.yaml").write_text('replicaCounts: 2\nreplicaCount: "2"\n')
    result = run("check", "--values", "values.yaml", "--values", "more.yaml")
    assert [line.split(": ")[1:3] for line in result.stderr.splitlines()] == [
        ["values.yaml:2", "settings.targte"],
        ["values.yaml:3", "settings.baredevices"],
        ["values.yaml:4", "shim.mode"],
        ["more.yaml:1", "replicaCounts"],
        ["more.yaml:2", "replicaCount"],
    ]


@pytest.mark.parametrize("name", VALUES_OF_CHARTS)
def test_values_that_the_chart_takes(name: str) -> None:
    """What Helm renders elsewhere in the tests is no mistake."""
    values = merged(chart_values(), VALUES_OF_CHARTS[name])
    assert [*mistakes(values, chart_values())] == []


def test_invalid_values_of_several_files(run: Run, values: Path) -> None:
    """The file and line of the last one that has the value."""
    (values / "more.yaml").write_text("# over the others\nsettings: {target: hamii}\n")
    result = run("mutate", "-f", "-", "--values", "values.yaml", "--values", "more.yaml", stdin=POD)
    assert result.stderr == "error: more.yaml:2: settings.target: no vendor is called 'hamii' (did you mean `hami`?)\n"


def test_check_of_values(run: Run, values: Path) -> None:
    """Alone by the option, merged as by Helm; or among files, which it does not change: each by itself."""
    both = run("check", "--values", "values.yaml", "--values", "more.yaml")
    assert (both.exit_code, both.output) == (0, "policy: values.yaml, more.yaml over the chart's values\nvalid\n")
    alone = run("check", "values.yaml")
    assert (alone.exit_code, alone.stdout.splitlines()[1]) == (0, "valid: 1 values file")
    (values / "pod.yaml").write_text(POD)
    assert run("check", ".").stderr == (
        "error: more.yaml: settings.bareDevices: is not set, and the chart requires it (write `whole`, or `share` for the "
        "default size of each mapping)\nerror: more.yaml: shim.mode: is not set, and the chart requires it (write "
        "`plugin` if the device plugin mounts the enforcing library, or else `inject`)\n"
    )
    (values / "values.yaml").write_text(VALUES.replace("nvidia", "hamii"))
    message = "error: values.yaml:1: settings.target: no vendor is called 'hamii' (did you mean `hami`?)\n"
    for arguments in (("values.yaml",), ("--values", "values.yaml")):
        result = run("check", *arguments)
        assert (result.exit_code, result.stderr) == (1, message)


def test_files_that_are_not_there(run: Run, values: Path) -> None:
    """An error, no trace."""
    result = run("explain", "-f", "-", "--values", "none.yaml", stdin=POD)
    assert (result.exit_code, result.stderr) == (1, "error: none.yaml: No such file or directory\n")


def test_check_puts_documents_over_values(run: Run, values: Path) -> None:
    """A document replaces that of the same vendor; the others, and the settings, stay."""
    (values / "acme.yaml").write_text(NVIDIA.replace("8000Mi", "x"))
    both = ("check", "--values", "values.yaml", "--values", "more.yaml", "acme.yaml")
    assert "acme.yaml:5: defaults.memory" in run(*both).stderr
    (values / "acme.yaml").write_text(NVIDIA.replace("8000Mi", "9000Mi"))
    result = run(*both)
    title = "values.yaml, more.yaml over the chart's values, changed by the documents in the files"
    assert (result.exit_code, result.stdout) == (0, f"policy: {title}\nvalid: 1 mapping, 0 settings\n")
    (values / "settings.yaml").write_text(SETTINGS.replace("target: nvidia", "target: nobody"))
    assert "settings.yaml:3: target" in run("check", "--values", "values.yaml", "settings.yaml").stderr


def test_the_policy_in_force(run: Run, tmp_path: Path) -> None:
    """Of the named context, in the named namespace; each command decides by it."""
    objects = {
        "vgpu-webhook-settings": {"settings.yaml": SETTINGS},
        "vgpu-webhook-mapping-nvidia": {"mapping.yaml": NVIDIA},
    }
    with api_server(objects) as server:
        file = kubeconfig(tmp_path, server)
        options = ("--kubeconfig", file, "--context", "here", "--release-namespace", "gpu")
        result = run("mutate", "-f", "-", *options, stdin=POD)
        digest = result.stderr.splitlines()[0].rpartition("(digest ")[2].removesuffix(")")
        line = f"policy: in force in context here, namespace gpu (digest {digest})"
        assert (result.exit_code, result.stderr.splitlines()[0], len(digest)) == (0, line, 12)
        assert "nvidia.com/gpumem: '8000'" in result.stdout
        assert f'"policy":"{digest}"' in result.stdout
        assert "LD_PRELOAD" not in result.stdout
        assert run("explain", "-f", "-", *options, stdin=POD).stdout.splitlines()[0] == line
        assert run("check", *options, "-", stdin=POD).stdout.splitlines()[0] == line
        assert "configmap/vgpu-webhook-mapping-nvidia" in run("vendors", *options).stdout
        (tmp_path / "s.yaml").write_text(SETTINGS.replace("nvidia", "volcano"))
        over = run("check", *options, str(tmp_path / "s.yaml"))
        assert over.stdout.splitlines()[0] == f"{line}, changed by the documents in the files"
        elsewhere = run("mutate", "-f", "-", *options[:-1], "other", stdin=POD)
        assert elsewhere.exit_code == 0
        assert elsewhere.stderr.splitlines()[0].startswith("policy: in force in context here, namespace other (digest ")
        assert elsewhere.stderr.splitlines()[1] == (
            f"warning: namespace other: {NO_SETTINGS}; --release-namespace names the webhook's own namespace"
        )
        (tmp_path / "config").write_text((tmp_path / "config").read_text().replace("t: gone", "t: here"))
        current = run("mutate", "-f", "-", "--kubeconfig", file, "--release-namespace", "gpu", stdin=POD)
        assert current.stderr.splitlines()[0] == line


@pytest.mark.parametrize("command", ["mutate", "explain", "preview"])
@pytest.mark.parametrize("option", ["--context", "--kubeconfig"])
def test_an_empty_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str) -> None:
    """Of a variable that is not set: it never means the built-in policy."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    result = run(command, "-f", "-", option, "", stdin=POD)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "built-in" not in result.stderr


def test_a_context_that_is_not_there(run: Run, tmp_path: Path) -> None:
    """An error that names the file and the context."""
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")
    result = run("mutate", "-f", "-", "--kubeconfig", file, "--context", "nobody", stdin=POD)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {file}: cannot be used: ")
    assert "nobody" in result.stderr


def test_a_pod_that_the_cluster_would_not_send(run: Run) -> None:
    """It stays as it is, as in the cluster, and the misspelling is told all the same."""
    why = "the webhook would not see this pod: it has no key that the webhook knows"
    hint = "nvida.com/gpu is not a known resource; did you mean nvidia.com/gpu?"
    result = run("mutate", "-f", "-", "-o", "patch", stdin=MISSPELLED)
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert result.stderr.splitlines()[1:] == [f"note: pod/p: {why}", f"warning: pod/p: VGW313: container c: {hint}"]
    explained = run("explain", "-f", "-", stdin=MISSPELLED)
    assert explained.exit_code == 0
    assert " ".join(explained.stdout.split()).endswith(
        f" pod/p in namespace default: allowed, no GPU keys (VGW001) because {why} warnings VGW313 {hint}"
    )
    report = json.loads(run("explain", "-f", "-", "-o", "json", stdin=MISSPELLED).stdout)
    pod = report["objects"][0]["pods"][0]
    assert (pod["sent"], pod["allowed"], pod["denial"]) == (False, True, None)
    checked = run("check", "-", stdin=MISSPELLED)
    assert (checked.exit_code, checked.stderr) == (0, f"warning: stdin: pod/p: VGW313: container c: {hint}\n")
    previewed = run("preview", "-f", "-", stdin=MISSPELLED)
    assert previewed.exit_code == 0
    assert f"default pod/p unchanged {why}; VGW313: container c: {hint}" in " ".join(previewed.stdout.split())
    assert "without one: 1" in previewed.stdout


def test_other_pods_that_are_not_sent(run: Run) -> None:
    """Of an ordinary pod nothing is said; a misspelled key below a known domain is sent, and denied."""
    ordinary = POD.replace("nvidia.com/gpu", "cpu")
    assert len(run("mutate", "-f", "-", stdin=ordinary).stderr.splitlines()) == 1
    denied = run("mutate", "-f", "-", stdin=POD.replace("nvidia.com/gpu", "nvidia.com/gpumme"))
    assert denied.exit_code == 2
    template = yaml.safe_load(POD)["spec"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": template}}}
    written = yaml.safe_dump(job).replace("nvidia.com/gpu", "nvida.com/gpu")
    assert "note: job/j: the webhook would not see this pod" in run("mutate", "-f", "-", stdin=written).stderr
