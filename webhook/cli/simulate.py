"""Simulates what the cluster would store of manifests: every pod goes through the same `decide` as in the webhook.

And explains it.
"""

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jsonpatch
import msgspec

from webhook import labels
from webhook.admission import decide
from webhook.admission.decision import Context, Decision, Namespace
from webhook.admission.judge import decide_template, strays
from webhook.cli.files import Manifest, ManifestError, decode_error, files_in, read_manifests
from webhook.cli.terminal import Failure
from webhook.cli.workloads import (
    KubeObject,
    PodPlace,
    field_of,
    flattened,
    kube_object,
    list_items,
    mapping_or_empty,
    pod_places,
    pointer,
    spots_of,
    unjudged,
)
from webhook.cluster.registration.names import NOT_SENT, MatchedNames, sends, sent_names
from webhook.doctor import FileLine, Level
from webhook.mapping.document import FieldPath, Problem, path_text
from webhook.mapping.model.names import MAX_SIMILAR
from webhook.mapping.model.policy import Policy
from webhook.patch import Operation
from webhook.pod import ENV, MOUNTS, VOLUMES, Pod, decode_pod, entries
from webhook.reasons import Finding, Reason, explanation_of
from webhook.request import ClaimTemplate
from webhook.workloads import CONTAINERS, matches, owned_metadata, workloads_of

if TYPE_CHECKING:
    from webhook.server.reviews import Described

DEFAULT_NAMESPACE: Final = "default"


class _Options(msgspec.Struct, frozen=True):
    """What holds for all documents; see `simulate`."""

    policy: Policy
    namespace: str | None
    target: str | None
    match: MatchedNames | None
    namespaces: Mapping[str, Namespace]

    def space(self, name: str) -> Namespace:
        """The namespace of a name; one that is not among the documents has opted in."""
        return self.namespaces.get(name) or Namespace(name, {self.policy.settings.opt_in_label: "enabled"})


class SimulatedPod(msgspec.Struct, frozen=True):
    """A pod as a controller would create it, with its path in the object (empty for that itself) and its decision."""

    path: str
    pod: Pod
    context: Context
    decision: Decision


class Message(NamedTuple):
    """What is reported of an object, at the field that it is about: as an error a denial, as ok a note."""

    level: Level
    text: str
    at: FileLine = FileLine()


class SimulatedObject(msgspec.Struct, frozen=True):
    """The result for one object: before and after (None: denied), what is reported, and the objects that its pods need."""

    title: str
    at: FileLine
    before: dict[str, Any]
    after: dict[str, Any] | None
    patch: tuple[Operation, ...] = ()
    messages: tuple[Message, ...] = ()
    unjudged: tuple[Message, ...] = ()
    pods: tuple[SimulatedPod, ...] = ()
    needed: tuple[dict[str, Any], ...] = ()

    def told(self, level: Level) -> tuple[str, ...]:
        """The texts of its messages: why it was denied, what applying it would warn of, or notes of this command only."""
        return tuple(each.text for each in self.messages if each.level is level)


class Simulated(msgspec.Struct):
    """The result for all documents; Namespaces are left out, also when `single` counts the documents, denied ones too."""

    objects: list[SimulatedObject] = []
    documents: list[dict[str, Any]] = []
    single: bool = True
    errors: list[Problem] = []
    manifests: Sequence[Manifest] = ()

    @property
    def denied(self) -> bool:
        """Whether any object was denied."""
        return any(result.told(Level.ERROR) for result in self.objects)

    @property
    def unjudged(self) -> list[str]:
        """The requests that nothing judged, with their objects."""
        return [f"{self.title_of(each)}: {text}" for each in self.objects for _, text, _ in each.unjudged]

    def title_of(self, simulated: SimulatedObject) -> str:
        """The title of an object, after its file if there are several."""
        several = len({manifest.source for manifest in self.manifests}) > 1
        return f"{simulated.at.file}: {simulated.title}" if several else simulated.title


def simulate(
    manifests: Sequence[Manifest],
    policy: Policy,
    *,
    problems: Sequence[Problem] = (),
    namespace: str | None = None,
    target: str | None = None,
    match: MatchedNames | None = None,
) -> Simulated:
    """Simulate what the cluster would store of these documents; an object that Kubernetes could not read is an error."""
    policy = _serving(policy, target)
    outcome = Simulated(manifests=manifests)
    documents: list[KubeObject] = []
    namespaces: dict[str, Namespace] = {}
    for manifest in manifests:
        try:
            obj = kube_object(manifest, manifest.data)
            namespaces |= {space.name: space for space in namespaces_in(obj)}
            documents += [] if _is_namespace(obj) else [obj]
        except ManifestError as error:
            outcome.errors.append(error.problem)
    outcome.single = len(documents) + len(outcome.errors) == 1
    outcome.errors[:0] = problems
    everything = [item for obj in documents for item in flattened(obj)]
    options = _Options(policy, namespace, target, match, namespaces)
    for obj in documents:
        printed = _document(obj, outcome, options)
        if printed is not None:
            outcome.documents.append(printed)
    present = [(each.group, each.kind, each.metadata.get("namespace"), each.name) for each in everything]
    for needed in (needed for each in outcome.objects for needed in each.needed):
        metadata = needed["metadata"]
        group = needed["apiVersion"].partition("/")[0]
        identity = (group, needed["kind"], metadata.get("namespace"), metadata["name"])
        if identity not in present:
            present.append(identity)
            outcome.documents.append(needed)
            outcome.single = False
    return outcome


def _serving(policy: Policy, target: str | None) -> Policy:
    """The policy for a target that a command names: who names it says that something serves it."""
    vendor = None if target is None else policy.vendor_called(target)
    if vendor is None or not policy.served:
        return policy
    served = [*policy.settings.served, vendor.name]
    return replace(policy, settings=policy.settings.model_copy(update={"served": served}))


def _document(obj: KubeObject, outcome: Simulated, options: _Options) -> dict[str, Any] | None:
    items = list_items(obj)
    if items is None:
        try:
            simulated = _object(obj, options)
        except ManifestError as error:
            outcome.errors.append(error.problem)
            return None
        outcome.objects.append(simulated)
        return simulated.after
    printed = [_document(item, outcome, options) for item in items if not _is_namespace(item)]
    return {**obj.data, "items": [item for item in printed if item is not None]}


def _is_namespace(obj: KubeObject) -> bool:
    return (obj.group, obj.kind) == ("", "Namespace")


def namespaces_in(obj: KubeObject) -> Iterator[Namespace]:
    """Yield the Namespaces among an object and its items; a `ManifestError` if Kubernetes could not decode one of them."""
    for item in filter(_is_namespace, flattened(obj)):
        pod = _decoded(item, PodPlace((), None, {"metadata": item.data.get("metadata")}, (((), ()),)), {})
        yield Namespace(pod.metadata.name or "", pod.metadata.labels or {}, pod.metadata.annotations or {})


def _object(obj: KubeObject, options: _Options) -> SimulatedObject:
    policy, at = options.policy, _at(obj, ())
    kinds = workloads_of(policy.settings)
    places = pod_places(obj, kinds)
    outside = unjudged(obj, places, lambda name: bool(policy.resources.owners(name)), kinds)
    rest = [Message(Level.WARNING, text, _at(obj, path)) for path, text in outside]
    messages: list[Message] = []
    for path, finding in strays(obj.data, spots_of(obj, places, kinds), policy):
        known = rest if finding.reason is Reason.MISPLACED_KEY else messages
        known.append(Message(Level.WARNING, finding.text, _at(obj, path)))
    if not places:
        return SimulatedObject(obj.title, at, obj.data, obj.data, unjudged=tuple(rest))
    namespace = obj.metadata.get("namespace") or options.namespace or ""
    if not isinstance(namespace, str):
        raise obj.manifest.error((*obj.path, "metadata", "namespace"), "a namespace is text")
    context = Context(options.space(namespace or DEFAULT_NAMESPACE), pod_security_default="privileged")
    judged = [_judged(obj, place, context, options, several=len(places) > 1) for place in places]
    messages += [message for each in judged for message in each.messages]
    pods = tuple(each.pod for each in judged)
    if any(each.level is Level.ERROR for each in messages):
        return SimulatedObject(obj.title, at, obj.data, None, (), tuple(messages), tuple(rest), pods)
    patch = [operation for each in judged for operation in each.operations]
    needed = (template.manifest(namespace, {labels.CLAIM: "true"}) for each in judged for template in each.needed)
    after = _applied(obj.data, patch)
    return SimulatedObject(
        obj.title, at, obj.data, after, tuple(patch), tuple(messages), tuple(rest), pods, tuple(needed)
    )


class _Judged(NamedTuple):
    """A pod of an object, what is reported of it, the patch of the object, and what it needs besides."""

    pod: SimulatedPod
    messages: Sequence[Message]
    operations: Sequence[Operation]
    needed: Sequence[ClaimTemplate]


def _judged(obj: KubeObject, place: PodPlace, context: Context, options: _Options, *, several: bool) -> _Judged:
    """Decide on one pod, of `several` in its object."""
    place, zeros = _with_zeros(place)
    pod = _decoded(obj, place, _as_created(place, context.namespace.name, options.target))
    try:
        decision = (decide if place.owner is None else decide_template)(pod, context, options.policy)
    except msgspec.DecodeError as error:  # in a part that is decoded on demand: tolerations, affinity
        where = (*obj.path, *place.field(("spec",)))
        raise obj.manifest.error(where, f"Kubernetes could not decode this: {error}") from error
    fields = [place.field(path) for path in zeros]
    messages = [
        Message(Level.WARNING, f"{path_text(field)} has no value: read as 0", _at(obj, field)) for field in fields
    ]
    for path, meant in _without_domain(place.pod, options.policy):
        text = f"{path_text(path)} is refused by the API server, as it has no domain: did you mean {meant}?"
        messages.append(Message(Level.WARNING, text, _at(obj, place.field(path))))
    operations: list[Operation] = [{"op": "replace", "path": pointer(field), "value": "0"} for field in fields]
    written, later = _operations(place, decision.patch)
    unsent = options.match is not None and not sends(pod, options.match) and bool(_findings(decision))
    space, opt_in = context.namespace, options.policy.settings.opt_in_label
    other = f", and has {space.labels[opt_in]!r}" if opt_in in space.labels else ""
    missing = f"namespace {space.name} lacks the label {opt_in}: enabled{other}"
    told = _unsent(obj, place, decision) if unsent else _messages(obj, place, decision, missing, later)
    where_ = f"{path_text(place.path)}: " if several else ""
    messages += [each._replace(text=f"{where_}{each.text}") for each in told]
    simulated = SimulatedPod(path_text(place.path), pod, context, decision)
    if unsent:
        return _Judged(simulated, messages, operations, ())
    return _Judged(simulated, messages, [*operations, *written], decision.objects)


def _unsent(obj: KubeObject, place: PodPlace, decision: Decision) -> Iterator[Message]:
    """Yield what is reported of a pod that the cluster would not send to the webhook."""
    yield Message(Level.OK, NOT_SENT)
    yield from (Message(Level.WARNING, each.text, _place_of(obj, place, each)) for each in _findings(decision))


def _messages(
    obj: KubeObject, place: PodPlace, decision: Decision, missing: str, later: tuple[str, ...]
) -> Iterator[Message]:
    """Yield what is reported of one pod; `later` is what would be written, and has no place in the object."""
    if later:
        yield Message(Level.OK, UNWRITTEN if later == _EVERYTHING else UNPLACED.format(", ".join(later)))
    yield from (Message(Level.WARNING, each.text, _place_of(obj, place, each)) for each in decision.warnings)
    if (denial := decision.denial) is not None and not decision.allowed:
        yield Message(Level.ERROR, denial.text, _place_of(obj, place, denial))
    if decision.reason is Reason.NOT_OPTED_IN:
        yield Message(Level.OK, f"unchanged: {missing}")
    elif decision.reason in SKIPPED:
        yield Message(Level.OK, f"{_SKIPPED_NOTE}{explanation_of(decision.reason).meaning.removesuffix('.')}")


def _at(obj: KubeObject, path: FieldPath) -> FileLine:
    return FileLine(obj.manifest.source, obj.manifest.line((*obj.path, *path)))


def _place_of(obj: KubeObject, place: PodPlace, finding: Finding) -> FileLine:
    """Return the place of the field that a finding is about; else that of its container, or of the pod."""
    start = _container(place.pod, finding.container)
    for path in (*_fields(place.pod, start, finding.field or ""), start):
        if (*obj.path, *place.field(path)) in obj.manifest.lines:
            return _at(obj, place.field(path))
    return _at(obj, place.path)


def _container(pod: Mapping[str, Any], name: str | None) -> FieldPath:
    found = (
        path
        for kind in CONTAINERS
        for path, container in matches(pod, ("spec", kind, "*"))
        if name is not None and mapping_or_empty(container).get("name") == name
    )
    return next(found, ("spec",))


def _fields(pod: Mapping[str, Any], start: FieldPath, field: str) -> Iterator[FieldPath]:
    """Yield where a field of a finding may be: in its container, whose path is `start`, or in the pod."""
    key = field.partition("[")[2].removesuffix("]") or field.rpartition(" ")[2]
    yield from ((*start, "resources", kind, key) for kind in ("limits", "requests"))
    for kind in ("env", "volumeMounts"):
        for path, entry in matches(pod, (*map(str, start), kind, "*")):
            if key in {mapping_or_empty(entry).get("name"), mapping_or_empty(entry).get("mountPath")}:
                yield path
    yield from (("metadata", kind, key) for kind in ("annotations", "labels"))
    yield ("spec", "nodeSelector", key)
    yield tuple(field.split("."))
    yield (*start, *field.split("."))


def _findings(decision: Decision) -> tuple[Finding, ...]:
    """What the webhook would say about a pod."""
    denials = () if decision.denial is None or decision.allowed else (decision.denial,)
    return *decision.warnings, *denials


UNWRITTEN: Final = (
    "its pods are changed when they are created; not all of that has a place in the object, which stays as it is"
)
"""The note on an object of which a controller assembles the pods."""

UNPLACED: Final = "left out, because this kind may refuse it: {}; its pods get it when they are created"
"""The note on an object whose API lacks fields that a pod gets."""

_SKIPPED_NOTE: Final = "skipped: "
SKIPPED: Final = frozenset({Reason.WINDOWS_POD, Reason.NEVER_TOUCHED, Reason.OPTED_OUT, Reason.NOT_A_POD_CREATION})
"""Why a pod stays as it is, whatever it requests."""

_EVERYTHING: Final = ("everything",)

_INDEPENDENT: Final = frozenset({"schedulerName", "runtimeClassName", "nodeSelector", "tolerations"})
"""The fields of a pod spec that nothing else in a pod refers to: without them the rest is right, too."""


def _quantities(pod: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the quantities of a pod's containers, with their paths."""
    for key, side in itertools.product(CONTAINERS, ("limits", "requests")):
        for path, quantities in matches(pod, ("spec", key, "*", "resources", side)):
            found = quantities.items() if isinstance(quantities, dict) else ()
            yield from (((*path, name), quantity) for name, quantity in found)


def _without_domain(pod: Mapping[str, Any], policy: Policy) -> Iterator[tuple[FieldPath, str]]:
    """Yield the resource names without a domain, which no step of a decision sees, that may be meant as keys, and these."""
    for path, _ in _quantities(pod):
        name = str(path[-1])
        similar = () if "/" in name else policy.near.vaguely(name, policy.settings.target)[:MAX_SIMILAR]
        yield from [(path, " or ".join(similar))] if similar else ()


def _with_zeros(place: PodPlace) -> tuple[PodPlace, list[FieldPath]]:
    """Read quantities that are null as 0, like ``Quantity.UnmarshalJSON`` of Kubernetes; return their paths in the pod."""
    zeros = [path for path, quantity in _quantities(place.pod) if quantity is None]
    if not zeros:
        return place, []
    pod = copy.deepcopy(place.pod)
    for path in zeros:
        value: Any = pod
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = "0"
    return msgspec.structs.replace(place, pod=pod), zeros


def _operations(place: PodPlace, patch: Iterable[Operation]) -> tuple[list[Operation], tuple[str, ...]]:
    """The patch with paths from the object's root, and the fields that have no place in it: nothing is written for most."""
    operations: list[Operation] = []
    later: list[str] = []
    for operation in patch:
        path = place.target(operation["path"])
        if path is not None:
            operations.append({**operation, "path": path})
        elif (field := field_of(operation["path"])) in _INDEPENDENT:
            later.append(str(field))
        elif not _status_only(operation):
            return [], _EVERYTHING
    if place.template:
        operations[:0] = _missing_parents(place.pod, pointer(place.path), operations)
    parts = dict(place.parts)
    end = parts.get((*_VOLUMES, "-"))
    # Its pods have volumes of the object, and none of their own yet.
    if end and (*_VOLUMES, 0) not in parts and any(operation["path"] == pointer(end) for operation in operations):
        operations.insert(0, {"op": "add", "path": pointer(end[:-1]), "value": []})
    return operations, tuple(sorted(set(later)))


_VOLUMES: Final = ("spec", "volumes")


def _status_only(operation: Operation) -> bool:
    """Whether an operation writes only our own labels and annotations: a pod gets these when it is created."""
    path, value = str(operation["path"]), operation.get("value")
    if path in {"/metadata/labels", "/metadata/annotations"} and isinstance(value, dict):
        return all(key.startswith(labels.PREFIX) for key in value)
    own = labels.PREFIX.replace("/", "~1")
    return path.startswith((f"/metadata/labels/{own}", f"/metadata/annotations/{own}"))


def _as_created(place: PodPlace, namespace: str, target: str | None) -> dict[str, Any]:
    """The metadata that a controller and the API server would add to the pod's."""
    metadata: dict[str, Any] = {"namespace": namespace}
    own = mapping_or_empty(place.pod.get("metadata"))
    if target is not None and isinstance(own.get("annotations"), dict | None):
        metadata["annotations"] = {**(own.get("annotations") or {}), labels.TARGET: target}
    if place.owner is not None:
        metadata |= owned_metadata(*place.owner)
    return metadata


def _decoded(obj: KubeObject, place: PodPlace, metadata: Mapping[str, Any]) -> Pod:
    """Decode a pod in an object, with `metadata` added to its own; also check the parts that stay undecoded in it."""
    own = place.pod.get("metadata")
    whole = {
        **place.pod,
        "metadata": {**own, **metadata} if isinstance(own, dict) else metadata if own is None else own,
    }
    checked: FieldPath = ()
    try:
        pod = decode_pod(msgspec.json.encode(whole))
        checked = ("spec", "volumes")
        entries(pod.spec.volumes, VOLUMES)
        for kind, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
            for index, container in enumerate(containers or ()):
                checked = ("spec", kind, index, "env")
                entries(container.env, ENV)
                checked = ("spec", kind, index, "volumeMounts")
                entries(container.volume_mounts, MOUNTS)
    except msgspec.DecodeError as error:
        inner, message = decode_error(str(error), whole, checked)
        raise obj.manifest.error((*obj.path, *place.field(inner)), message) from error
    return pod


def _missing_parents(template: Mapping[str, Any], prefix: str, operations: Iterable[Operation]) -> Iterator[Operation]:
    """Add the metadata and the annotations if operations need them and the template has none."""
    metadata = template.get("metadata")
    for path, exists in (
        ("/metadata", metadata is not None),
        ("/metadata/annotations", isinstance(metadata, dict) and metadata.get("annotations") is not None),
    ):
        if not exists and any(operation["path"].startswith(f"{prefix}{path}/") for operation in operations):
            yield {"op": "add", "path": prefix + path, "value": {}}


def _applied(data: dict[str, Any], patch: list[Operation]) -> dict[str, Any]:
    if not patch:
        return data
    after: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(data), patch, in_place=True)
    return after


def load_namespaces(place: Path | None, opt_in: str) -> "Described":
    """Read the Namespaces in a file, or in the YAML and JSON files of a folder; other kinds are skipped."""
    known: dict[str, Namespace] = {}
    problems: list[str] = []
    for path in [] if place is None else files_in(place):
        try:
            for manifest in read_manifests(path.read_bytes(), str(path)):
                for namespace in namespaces_in(kube_object(manifest, manifest.data)):
                    if not namespace.name:
                        raise manifest.error(("metadata", "name"), "a Namespace without a name")
                    known[namespace.name] = namespace
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
        except ManifestError as error:
            problems.append(str(error))
    if problems:
        raise Failure(problems)
    from webhook.server.reviews import Described

    return Described(known, opt_in)


def explain_objects(outcome: Simulated, policy: Policy, target: str | None) -> Iterator[dict[str, Any]]:
    """Yield the explanation of each object, as data for JSON.

    ``title`` is its name in messages, ``notes`` are messages of the command itself, ``unjudged`` are its requests that nothing
    judged, and ``pods`` the pods in it, each with
    its ``path``, which is empty for the object itself, and what `explain_pod` says.
    """
    from webhook.explanation.pods import POD_TARGET, explain_pod

    match = sent_names(policy)
    policy = _serving(policy, target)
    pod_target = POD_TARGET if target is None else f"--to {target}"
    for each in outcome.objects:
        notes = [note for note in each.told(Level.OK) if not note.startswith(_SKIPPED_NOTE)]  # their reason says so
        pods = []
        for pod in each.pods:
            unsent = None if match is None or sends(pod.pod, match) else NOT_SENT
            left = pod.decision if Reason.PLACEHOLDER in {each.reason for each in pod.decision.warnings} else None
            explained = explain_pod(pod.pod, pod.context, policy, pod_target, unsent, left_open=left)
            pods.append({"path": pod.path, **explained})
        unjudged_ = [text for _, text, _ in each.unjudged]
        yield {"title": each.title, "notes": notes, "unjudged": unjudged_, "pods": pods}
