"""Manifests through a stand-in for the decision: what it is called with, and how its patches are applied."""

import json
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from webhook.admission.decision import Context, Decision, untouched
from webhook.cli.manifests.files import read_manifests
from webhook.cli.manifests.simulate import UNWRITTEN, Simulated, load_namespaces, simulate
from webhook.cli.terminal import Failure
from webhook.labels import INJECT
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.patch import Operation, write_map
from webhook.pod import Pod, Resources
from webhook.reasons import Finding, Reason


@dataclass
class Decider:
    """Sets an annotation and a label of every pod; denies pods whose first container is called ``bad``."""

    calls: list[tuple[Pod, Context]] = field(default_factory=list)

    def __call__(self, pod: Pod, context: Context, _policy: Policy) -> Decision:
        self.calls.append((pod, context))
        if pod.spec.containers[0].name == "bad":
            return Decision(allowed=False, reason=Reason.TOO_LARGE, denial=Finding(Reason.TOO_LARGE, "too large"))
        metadata = pod.metadata
        patch: list[Operation] = []
        write_map("/metadata/labels", metadata.labels, {**(metadata.labels or {}), "l": "1"}, patch)
        write_map("/metadata/annotations", metadata.annotations, {**(metadata.annotations or {}), "a/b": "2"}, patch)
        warning = Finding(Reason.CORRECTED, "corrected", container=pod.spec.containers[0].name)
        return Decision(allowed=True, reason=Reason.CHANGED, patch_json=msgspec.json.encode(patch), warnings=(warning,))


POLICY = load_policy()


def treated(text: str, **options: Any) -> tuple[Simulated, Decider]:
    """The outcome for a manifest, and the calls of the stand-in."""
    decider = Decider()
    manifests = read_manifests(textwrap.dedent(text).encode(), "a.yaml")
    return simulate(manifests, POLICY, decide=decider, **options), decider


POD = """
    apiVersion: v1
    kind: Pod
    metadata: {name: demo}
    spec: {containers: [{name: c}]}
    """


@pytest.mark.parametrize(
    "metadata, after",
    [
        ("{name: demo}", {"name": "demo", "labels": {"l": "1"}, "annotations": {"a/b": "2"}}),
        ("", {"labels": {"l": "1"}, "annotations": {"a/b": "2"}}),
        ("{labels: {x: z}, annotations: null}", {"labels": {"x": "z", "l": "1"}, "annotations": {"a/b": "2"}}),
        ("{annotations: {x: z}, labels: null}", {"annotations": {"x": "z", "a/b": "2"}, "labels": {"l": "1"}}),
        ("{annotations: {vgpu-webhook.io/target: x}}", None),
    ],
)
@pytest.mark.parametrize("target", [None, "nvidia"])
def test_metadata_that_is_not_there(metadata: str, after: dict[str, Any] | None, target: str | None) -> None:
    """Patches apply whatever the manifest leaves out, with `--to` too, which leaves no trace."""
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {{containers: [{{name: c}}]}}\n"
    if not metadata:
        text = text.replace("metadata: \n", "")
    outcome, decider = treated(text, target=target)
    (document,) = outcome.documents
    expected = after or {"annotations": {"vgpu-webhook.io/target": "x", "a/b": "2"}, "labels": {"l": "1"}}
    assert document["metadata"] == expected
    annotations = decider.calls[0][0].metadata.annotations or {}
    assert annotations.get("vgpu-webhook.io/target") == (target or (None if after else "x"))


def test_no_groundwork_without_a_patch() -> None:
    """A pod that needs nothing gets no empty maps."""
    manifests = read_manifests(b"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c}]}\n", "a.yaml")
    outcome = simulate(manifests, POLICY, target="nvidia", decide=lambda *_: untouched(Reason.NO_GPU_KEYS))
    assert outcome.objects[0].patch == ()
    assert outcome.documents == [manifests[0].data]


@pytest.mark.parametrize(
    "kind, version, path, kept_owner",
    [
        ("Deployment", "apps/v1", "spec/template", ("ReplicaSet", "demo-5d4f8c7b9")),
        ("CronJob", "batch/v1", "spec/jobTemplate/spec/template", ("Job", "demo-28000000")),
    ],
)
def test_templates_are_treated_as_their_pods(kind: str, version: str, path: str, kept_owner: tuple[str, str]) -> None:
    """The view is the pod that the controller would create; the patch belongs to the object."""
    template: dict[str, Any] = {
        "metadata": {"name": "ignored", "labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c"}]},
    }
    spec: Any = template
    for part in reversed(path.split("/")):
        spec = {part: spec}
    outcome, decider = treated(
        json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "demo", "namespace": "team"}, **spec})
    )
    pod, context = decider.calls[0]
    assert (pod.metadata.name, pod.metadata.generate_name) == (None, f"{kept_owner[1]}-")
    assert pod.metadata.owner_references is not None
    assert [(owner.kind, owner.name, owner.controller) for owner in pod.metadata.owner_references] == [
        (*kept_owner, True)
    ]
    assert pod.metadata.namespace == context.namespace.name == "team"
    (treated_object,) = outcome.objects
    assert treated_object.title == f"{kind.lower()}/demo"
    assert treated_object.patch == (
        {"op": "add", "path": f"/{path}/metadata/labels/l", "value": "1"},
        {"op": "add", "path": f"/{path}/metadata/annotations", "value": {"a/b": "2"}},
    )
    assert treated_object.before != treated_object.after


@pytest.mark.parametrize(
    "written, option, name", [("x", "y", "x"), (None, "y", "y"), (None, None, "default"), ("", "y", "y")]
)
def test_the_namespace_of_a_pod(written: str | None, option: str | None, name: str) -> None:
    """Its own, else the command line's, else default; without a document opted in and privileged."""
    metadata = "{}" if written is None else f'{{namespace: "{written}"}}'
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {{containers: [{{name: c}}]}}\n"
    outcome, decider = treated(text, namespace=option)
    context = decider.calls[0][1]
    assert context.namespace.name == decider.calls[0][0].metadata.namespace == name
    assert context.namespace.labels == {"vgpu-webhook.io/inject": "enabled"}
    assert context.pod_security_default == "privileged"
    assert outcome.documents[0]["metadata"].get("namespace") == written
    assert outcome.single


def test_lists() -> None:
    """Items are treated one by one; a denied one is left out, the others and the list stay."""
    outcome, _ = treated(
        """
        apiVersion: v1
        kind: PodList
        metadata: {resourceVersion: "1"}
        items:
        - {metadata: {name: one}, spec: {containers: [{name: c}]}}
        - {metadata: {name: two}, spec: {containers: [{name: bad}]}}
        - {apiVersion: v1, kind: Service, metadata: {name: three}}
        """
    )
    assert outcome.single
    assert outcome.denied
    (document,) = outcome.documents
    assert [item["metadata"]["name"] for item in document["items"]] == ["one", "three"]
    assert document["metadata"] == {"resourceVersion": "1"}
    assert [each.title for each in outcome.objects] == ["pod/one", "pod/two", "service/three"]
    assert [each.after is None for each in outcome.objects] == [False, True, False]
    assert outcome.objects[1].denials == ("VGW303: too large",)
    assert outcome.objects[1].patch == ()
    assert outcome.objects[2].before is outcome.objects[2].after


RAY = """
    apiVersion: example.org/v1
    kind: Cluster
    metadata: {name: demo}
    spec:
      head: {template: {spec: {containers: [{name: c}]}}}
      workers:
      - template: {spec: {containers: [{name: c}]}}
      - template: {spec: {containers: [{name: bad}]}}
    """


def test_other_kinds_with_templates() -> None:
    """All are changed or none; what has no containers that look like some is none."""
    outcome, decider = treated(RAY)
    assert outcome.documents == [outcome.objects[0].before]
    assert decider.calls == []
    outcome, _ = treated(RAY.replace("name: c", "name: c, image: i"))
    assert outcome.objects[0].warnings == (
        "spec.head.template: VGW108: container c: corrected",
        "spec.workers[0].template: VGW108: container c: corrected",
    )
    workers = outcome.documents[0]["spec"]["workers"]
    assert workers[0]["template"]["metadata"] == {"labels": {"l": "1"}, "annotations": {"a/b": "2"}}
    assert "metadata" not in workers[1]["template"]
    outcome, _ = treated(RAY.replace("name: c", "name: c, image: i").replace("name: bad", "name: bad, image: i"))
    assert outcome.documents == []
    assert outcome.objects[0].denials == ("spec.workers[1].template: VGW303: too large",)


def test_pods_that_have_no_place_for_all_that_is_written() -> None:
    """They are decided; the object is printed as it was, with a note, unless only the status is left out."""
    text = RAY.replace(
        "template: {spec: {containers: [{name: c}]}}",
        "template: {replicas: 1, spec: {containers: [{name: c, image: i}]}}",
    )
    outcome, decider = treated(text)
    assert len(decider.calls) == 2
    (result,) = outcome.objects
    assert result.notes == tuple(f"{where}.template.spec: {UNWRITTEN}" for where in ("spec.head", "spec.workers[0]"))
    assert (result.patch, result.after) == ((), result.before)

    def decided(pod: Pod, _: Context, __: Policy) -> Decision:
        patch: list[Operation] = [{"op": "add", "path": "/spec/schedulerName", "value": "x"}]
        write_map("/metadata/labels", pod.metadata.labels, {"vgpu-webhook.io/changed": "2"}, patch)
        write_map("/metadata/annotations", pod.metadata.annotations, {"vgpu-webhook.io/summary": "2"}, patch)
        return Decision(allowed=True, reason=Reason.CHANGED, patch_json=msgspec.json.encode(patch))

    manifests = read_manifests(textwrap.dedent(text).encode(), "a.yaml")
    (result,) = simulate(manifests, POLICY, decide=decided).objects
    paths = ["/spec/head/template/spec/schedulerName", "/spec/workers/0/template/spec/schedulerName"]
    assert [operation["path"] for operation in result.patch] == paths


def test_what_only_the_decision_decodes() -> None:
    """Parts that seldom matter stay undecoded until then; the place is the pod's spec."""

    def decide(pod: Pod, _context: Context, _policy: Policy) -> Decision:
        msgspec.json.decode(bytes(pod.spec.tolerations), type=list)
        return untouched(Reason.ALREADY_RIGHT)

    manifests = read_manifests(b"apiVersion: v1\nkind: Pod\nspec:\n  tolerations: 1\n", "a.yaml")
    (error,) = map(str, simulate(manifests, POLICY, decide=decide).errors)
    assert error.startswith("a.yaml:3: spec: Kubernetes could not decode this: Expected `array`")


def test_quantities_without_a_value() -> None:
    """They are read and stored as 0, with a warning (Quantity.UnmarshalJSON of Kubernetes)."""
    text = """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: demo}
        spec:
          template:
            spec:
              containers:
              - {name: a}
              - {name: c, resources: {limits: {cpu: 1, nvidia.com/gpu: }, requests: null}}
        """
    outcome, decider = treated(text)
    (result,) = outcome.objects
    where = "spec.template.spec.containers[1].resources.limits.nvidia.com/gpu"
    assert result.warnings[0] == f"{where} has no value: read as 0"
    assert (
        outcome.documents[0]["spec"]["template"]["spec"]["containers"][1]["resources"]["limits"]["nvidia.com/gpu"]
        == "0"
    )
    assert decider.calls[0][0].spec.containers[1].resources == Resources(limits={"cpu": 1, "nvidia.com/gpu": "0"})
    assert result.before["spec"]["template"]["spec"]["containers"][1]["resources"]["limits"]["nvidia.com/gpu"] is None


ONE_NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: one
  labels:
    vgpu-webhook.io/inject: enabled
    kubernetes.io/metadata.name: one
  annotations:
    vgpu-webhook.io/target: acme
  creationTimestamp: null
spec:
  finalizers:
  - kubernetes
"""
TWO = "apiVersion: v1\nkind: Namespace\nmetadata: {name: two}\n"
LIST = """\
{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "two"}}]}
"""
ONE_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\n"


def test_file_of_namespaces(tmp_path: Path) -> None:
    """A described namespace is what its document says; other kinds are passed over."""
    (tmp_path / "all.yaml").write_text(f"{ONE_NAMESPACE}---\n{ONE_POD}---\n{TWO}")
    namespaces = load_namespaces(tmp_path / "all.yaml", INJECT)
    assert namespaces.lookup("one").annotations == {"vgpu-webhook.io/target": "acme"}
    assert namespaces.lookup("one").labels["vgpu-webhook.io/inject"] == "enabled"
    assert namespaces.lookup("two").labels == {}


def test_folder_of_namespaces(tmp_path: Path) -> None:
    """A folder's YAML and JSON files are read, also what kubectl prints for several."""
    (tmp_path / "a.yaml").write_text(ONE_NAMESPACE)
    (tmp_path / "b.json").write_text(LIST)
    (tmp_path / "notes.txt").write_text("not: [read")
    namespaces = load_namespaces(tmp_path, INJECT)
    assert set(namespaces.known) == {"one", "two"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("metadata: {}\n", r":3: metadata.name: a Namespace without a name"),
        ("metadata: {name: x, labels: {a: 1}}\n", r":3: metadata.labels.a: text is expected here"),
        ("metadata: {name: x, annotations: [a]}\n", r":3: metadata.annotations: "),
        ("metadata: [", "not YAML"),
        ("metadata: {name: x}\n---\nkind: Namespace\n", "apiVersion"),
    ],
)
def test_mistakes_are_reported_with_their_file(tmp_path: Path, text: str, message: str) -> None:
    """A document that says Namespace and is none stops the start."""
    path = tmp_path / "file.yaml"
    path.write_text(f"apiVersion: v1\nkind: Namespace\n{text}")
    with pytest.raises(Failure, match=message) as caught:
        load_namespaces(path, INJECT)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    """A missing file, or one that is no text, is named."""
    path = tmp_path / "file.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Failure, match=r"file\.yaml"):
        load_namespaces(path, INJECT)
