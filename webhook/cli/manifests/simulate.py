"""Manifests → what the cluster would store: every pod in them goes through the same `decide` as in the webhook."""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import jsonpatch
import msgspec

from webhook import labels
from webhook.admission.context import Context, Namespace
from webhook.admission.decision import Decision
from webhook.cli.manifests.decode_errors import decode_error
from webhook.cli.manifests.manifest import Manifest, Path, path_text
from webhook.cli.manifests.workloads import (
    KubeObject,
    PodPlace,
    kube_object,
    list_items,
    pod_places,
    pointer,
    untreated_templates,
)
from webhook.patch import Operation
from webhook.pod import Pod, decode_env, decode_mounts, decode_pod, decode_volumes
from webhook.reasons import Reason

DEFAULT_NAMESPACE: Final = "default"

Decide: TypeAlias = Callable[[Pod, Context], Decision]


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What the command line says about all documents.

    Attributes:
        namespace: of objects that name none.
        target: stands in for the pods' target annotation.
        template_paths: where pod templates are in kinds that are not known.
        opt_in: the label by which a namespace opts in; one that nobody described has.
    """

    namespace: str | None = None
    target: str | None = None
    template_paths: tuple[str, ...] = ()
    opt_in: str = labels.INJECT


@dataclass(frozen=True, slots=True)
class TreatedPod:
    """A pod of an object, as it was decided on.

    Attributes:
        path: where it is in the object, for people; empty for the object itself.
        pod: as a controller would create it.
        context: the circumstances of the decision.
    """

    path: str
    pod: Pod
    context: Context


@dataclass(frozen=True, slots=True)
class Treated:
    """What became of one object.

    Attributes:
        title: how messages name it.
        before: the object as it was read.
        after: as it would be stored; None where it was denied.
        patch: the operations between them.
        warnings: what whoever applies it would be told.
        denials: why it was denied; empty where it was not.
        notes: what only concerns this command.
        pods: the pods in it, in order.
    """

    title: str
    before: dict[str, Any]
    after: dict[str, Any] | None
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    denials: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pods: tuple[TreatedPod, ...] = ()


@dataclass(slots=True)
class Simulated:
    """What became of all documents.

    Attributes:
        objects: every object but Namespaces, items of lists one by one, in order.
        documents: the documents to print; lists hold what became of their items.
        single: whether there was one document (Namespaces do not count), whatever became of it.
    """

    objects: list[Treated] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    single: bool = True

    @property
    def denied(self) -> bool:
        """Whether any object was denied."""
        return any(treated.denials for treated in self.objects)


def treat(manifests: Sequence[Manifest], decide: Decide, wishes: SimulateOptions) -> Simulated:
    """What the cluster would store of these documents.

    Raises:
        ManifestError: a document is no object, or holds a pod that Kubernetes could not decode.
    """
    objects = [kube_object(manifest, manifest.data) for manifest in manifests]
    spaces = {space.name: space for obj in objects for space in namespaces_in(obj)}
    documents = [obj for obj in objects if not _is_namespace(obj)]
    outcome = Simulated(single=len(documents) == 1)
    for obj in documents:
        printed = _document(obj, outcome, decide, wishes, spaces)
        if printed is not None:
            outcome.documents.append(printed)
    return outcome


def _document(
    obj: KubeObject, outcome: Simulated, decide: Decide, wishes: SimulateOptions, spaces: Mapping[str, Namespace]
) -> dict[str, Any] | None:
    items = list_items(obj)
    if items is None:
        treated = _object(obj, decide, wishes, spaces)
        outcome.objects.append(treated)
        return treated.after
    printed = [_document(item, outcome, decide, wishes, spaces) for item in items if not _is_namespace(item)]
    return {**obj.data, "items": [item for item in printed if item is not None]}


def _is_namespace(obj: KubeObject) -> bool:
    return (obj.group, obj.kind) == ("", "Namespace")


def namespaces_in(obj: KubeObject) -> Iterator[Namespace]:
    """The Namespaces that an object is, or has as its items.

    Raises:
        ManifestError: one of them could not be decoded by Kubernetes.
    """
    items = list_items(obj)
    if items is not None:
        yield from itertools.chain.from_iterable(map(namespaces_in, items))
    elif _is_namespace(obj):
        pod = _decoded(obj, {"metadata": obj.data.get("metadata")}, (), {})
        yield Namespace(pod.metadata.name or "", pod.metadata.labels or {}, pod.metadata.annotations or {})


def _object(obj: KubeObject, decide: Decide, wishes: SimulateOptions, spaces: Mapping[str, Namespace]) -> Treated:
    places = pod_places(obj, wishes.template_paths)
    if not places:
        return Treated(obj.title, obj.data, obj.data, notes=_untreated(obj))
    name = obj.metadata.get("namespace") or wishes.namespace or DEFAULT_NAMESPACE
    if not isinstance(name, str):
        raise obj.manifest.error((*obj.path, "metadata", "namespace"), "a namespace is text")
    space = spaces.get(name)
    context = Context(space or Namespace(name, {wishes.opt_in: "enabled"}), pod_security_default="privileged")
    patch: list[Operation] = []
    warnings: list[str] = []
    denials: list[str] = []
    notes: list[str] = []
    pods: list[TreatedPod] = []
    for place in places:
        pod, decision, operations = _place(obj, place, context, decide, wishes.target)
        pods.append(TreatedPod(path_text(place.path), pod, context))
        where = f"{path_text(place.path)}: " if len(places) > 1 else ""
        patch.extend(operations)
        warnings.extend(where + finding.text for finding in decision.warnings)
        if decision.denial is not None and not decision.allowed:
            denials.append(f"{where}{decision.denial.reason.code}: {decision.denial.sentence}")
        if decision.reason is Reason.NOT_OPTED_IN:
            notes.append(f"{where}left alone: namespace {name} lacks the label {wishes.opt_in}: enabled")
    after = None if denials else _applied(obj.data, patch)
    return Treated(
        obj.title,
        obj.data,
        after,
        () if denials else tuple(patch),
        tuple(warnings),
        tuple(denials),
        tuple(notes),
        tuple(pods),
    )


def _untreated(obj: KubeObject) -> tuple[str, ...]:
    paths = untreated_templates(obj)
    if not paths:
        return ()
    return (
        f"holds pod templates that were left alone; to treat them: {' '.join(f'--template-path {p}' for p in paths)}",
    )


def _place(
    obj: KubeObject, place: PodPlace, context: Context, decide: Decide, target: str | None
) -> tuple[Pod, Decision, list[Operation]]:
    """One pod, the decision on it, and its patch with paths from the object's root."""
    template: Any = obj.data
    for part in place.path:
        template = template[part]
    if not isinstance(template, dict):
        raise obj.manifest.error((*obj.path, *place.path), "a pod template is no mapping of keys")
    pod = _decoded(obj, template, place.path, _as_created(template, place, context.namespace.name, target))
    try:
        decision = decide(pod, context)
    except msgspec.DecodeError as error:  # of a part that is decoded only where it matters: tolerations, affinity
        raise obj.manifest.error(
            (*obj.path, *place.path, "spec"), f"Kubernetes could not decode this: {error}"
        ) from error
    prefix = pointer(place.path)
    operations = [{**operation, "path": prefix + operation["path"]} for operation in decision.patch]
    return pod, decision, [*_groundwork(template, prefix, operations), *operations]


def _as_created(template: Mapping[str, Any], place: PodPlace, namespace: str, target: str | None) -> dict[str, Any]:
    """What a controller and the API server would put into the pod's metadata, over the manifest's."""
    metadata: dict[str, Any] = {"namespace": namespace}
    said = template.get("metadata")
    said = said if isinstance(said, dict) else {}
    if target is not None and isinstance(said.get("annotations"), dict | None):
        metadata["annotations"] = {**(said.get("annotations") or {}), labels.TARGET: target}
    if place.owner is not None:
        owner = {"kind": place.owner.kind, "name": place.owner.name, "controller": True}
        metadata |= {"name": None, "generateName": f"{place.owner.name}-", "ownerReferences": [owner]}
    return metadata


def _decoded(obj: KubeObject, data: Mapping[str, Any], path: Path, metadata: Mapping[str, Any]) -> Pod:
    """The view of a pod in an object, with `metadata` over its own; also what stays undecoded in it is checked."""
    said = data.get("metadata")
    whole = {**data, "metadata": {**said, **metadata} if isinstance(said, dict) else metadata if said is None else said}
    checked: Path = ()
    try:
        pod = decode_pod(msgspec.json.encode(whole))
        checked = ("spec", "volumes")
        decode_volumes(pod.spec.volumes)
        for kind, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
            for index, container in enumerate(containers or ()):
                checked = ("spec", kind, index, "env")
                decode_env(container.env)
                checked = ("spec", kind, index, "volumeMounts")
                decode_mounts(container.volume_mounts)
    except msgspec.DecodeError as error:
        where, what = decode_error(str(error), whole, checked)
        raise obj.manifest.error((*obj.path, *path, *where), what) from error
    return pod


def _groundwork(template: Mapping[str, Any], prefix: str, operations: Iterable[Operation]) -> Iterator[Operation]:
    """Adds what only the view of the pod had, where an operation stands on it: metadata, and its annotations."""
    metadata = template.get("metadata")
    for path, there in (
        ("/metadata", metadata is not None),
        ("/metadata/annotations", isinstance(metadata, dict) and metadata.get("annotations") is not None),
    ):
        if not there and any(operation["path"].startswith(f"{prefix}{path}/") for operation in operations):
            yield {"op": "add", "path": prefix + path, "value": {}}


def _applied(data: dict[str, Any], patch: list[Operation]) -> dict[str, Any]:
    if not patch:
        return data
    after: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(data), patch, in_place=True)
    return after
