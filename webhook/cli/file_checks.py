"""What `check` asks of files: are the documents in them valid, and would the webhook admit the pods?"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, TypeAlias

from msgspec import Struct, structs

from webhook.admission.survey import unread_keys
from webhook.cli.files import Manifest, ManifestError, bodies_of, read_manifests, read_stream
from webhook.cli.policy_source import WithDocuments, kind_of, policy_of_values
from webhook.cli.simulate import Simulated, namespaces_in, simulate
from webhook.cli.terminal import Failure
from webhook.cli.workloads import KubeObject, flattened, kube_object, mapping_or_empty, pod_places
from webhook.cluster.policy.documents import (
    MAPPING_KEY,
    SETTINGS_KEY,
    SETTINGS_NAME,
    ConfigMap,
    DocumentKind,
    overlooked,
)
from webhook.cluster.registration.names import sent_names
from webhook.doctor import (
    Check,
    FileLine,
    Level,
    Result,
    UnansweredError,
    counted,
    error,
    ok,
    warning,
)
from webhook.doctor.cluster import doubts, families_meant
from webhook.doctor.pods import invalid_values
from webhook.labels import MAPPING, PREFIX
from webhook.mapping.document import Document, FieldPath, MappingError, Problem, parse
from webhook.mapping.model.policy import Policy
from webhook.mapping.strict import API_VERSION
from webhook.reasons import Reason
from webhook.workloads import workloads_of

Found: TypeAlias = tuple[str, FileLine]
"""A detail of a result, and where it is found."""

_LITERAL: Final = re.compile(r"[|][-+0-9]*\s*(?:#.*)?$")
"""The end of a line before a literal block, whose lines are those of the file."""


class FoundDocument(Struct, frozen=True):
    """A document and its kind."""

    kind: DocumentKind
    document: Document


def in_manifest(manifest: Manifest, text: str) -> tuple[list[FoundDocument], list[Problem]]:
    """Decode the documents in the ConfigMaps of a manifest; return them and their problems."""
    found: list[FoundDocument] = []
    problems: list[Problem] = []
    plain = str(manifest.data.get("apiVersion")).startswith(PREFIX)
    if plain or "kind" not in manifest.data:
        message = "a plain document among Kubernetes objects: put it into a file of its own, or into a ConfigMap"
        problems.append(Problem(message, source=manifest.source, line=manifest.lines[()]))
    with suppress(ManifestError):  # what is no object is reported with the objects
        for obj in flattened(kube_object(manifest, manifest.data), lenient=True):
            try:
                found += _in_config_map(obj, text) if (obj.group, obj.kind) == ("", "ConfigMap") else ()
            except MappingError as error:
                problems += error.problems
    return found, problems


def _in_config_map(obj: KubeObject, text: str) -> Iterator[FoundDocument]:
    texts = mapping_or_empty(obj.data.get("data"))
    if obj.metadata.get("name") == SETTINGS_NAME:
        yield _embedded(obj, text, "settings", SETTINGS_KEY, texts.get(SETTINGS_KEY))
    elif mapping_or_empty(obj.metadata.get("labels")).get(MAPPING) == "true":
        yield _embedded(obj, text, "mapping", MAPPING_KEY, texts.get(MAPPING_KEY))
    else:
        labels = {key: str(value) for key, value in mapping_or_empty(obj.metadata.get("labels")).items()}
        why = overlooked(ConfigMap(str(obj.metadata.get("name")), texts, labels))
        if why is not None:
            raise _invalid(obj, ("metadata",), why)


def _invalid(obj: KubeObject, path: FieldPath, message: str) -> MappingError:
    place = (*obj.path, *path)
    return MappingError([Problem(message, place, None, obj.manifest.source, obj.manifest.line(place))])


def _embedded(obj: KubeObject, text: str, kind: DocumentKind, key: str, value: object) -> FoundDocument:
    path: FieldPath = ("data", key)
    if not isinstance(value, str):
        raise _invalid(obj, path, f"a text {key} is required")
    line = obj.manifest.line((*obj.path, *path))
    # The lines of other scalars are not those of the file.
    literal = _LITERAL.search(text.splitlines()[line - 1]) is not None

    def moved(inner: int | None) -> int:
        return line + inner if literal and inner is not None else line

    source = obj.manifest.source
    try:
        documents = parse(value, source)
    except MappingError as error:
        raise MappingError([structs.replace(each, line=moved(each.line)) for each in error.problems]) from None
    if not documents and kind == "settings":
        documents = [Document(source, {}, {})]
    if len(documents) != 1:
        raise _invalid(obj, path, f"{len(documents)} documents: a ConfigMap contains exactly one")
    (document,) = documents
    return FoundDocument(
        kind, structs.replace(document, lines={place: moved(inner) for place, inner in document.lines.items()})
    )


_HAS_KIND: Final = re.compile(r'^(?:kind|"kind"| +"kind") *:(?! *["\']?(?:Mapping|Settings)\b)', re.MULTILINE)
"""A line with the kind of a Kubernetes object, not of a mapping or settings document."""


def documents_of(body: bytes, source: str) -> tuple[list[FoundDocument], list[Manifest], list[Problem]]:
    """Read a file; return the documents in it, the Kubernetes objects, and the problems."""
    try:
        text = body.decode("utf-8-sig")
        if not _HAS_KIND.search(text):
            documents = parse(text, source)
            kinds: list[DocumentKind] = [
                "mapping" if kind_of(each.data) == "mapping" else "settings" for each in documents
            ]
            return list(map(FoundDocument, kinds, documents)), [], []
    except UnicodeDecodeError as error:
        return [], [], [Problem("not UTF-8 text", source=source, line=body.count(b"\n", 0, error.start) + 1)]
    except MappingError as error:
        return [], [], list(error.problems)
    manifests, problems = read_stream(body, source)
    found: list[FoundDocument] = []
    for manifest in manifests:
        more, wrong = in_manifest(manifest, text)
        found += more
        problems += wrong
    return found, manifests, problems


def header_warnings(found: Iterable[FoundDocument]) -> Iterator[Found]:
    """Warn of documents that do not specify their schema."""
    for each in found:
        header = {"apiVersion": API_VERSION, "kind": each.kind.capitalize()}
        missing = [f"{key}: {text}" for key, text in header.items() if key not in each.document.data]
        if missing:
            text = f"{each.document.source}: read as {API_VERSION}: add {' and '.join(missing)}"
            yield text, FileLine(each.document.source, each.document.lines.get(()))


class ReadFiles(Struct, frozen=True, dict=True):
    """What files contain: documents with their policy (None: one is invalid), objects, and policies of values."""

    documents: Sequence[FoundDocument]
    objects: list[Manifest]
    policy: Policy | None
    problems: Sequence[Problem]
    strict: bool
    values: Sequence[Policy] = ()

    @property
    def valid(self) -> Policy:
        """The policy; an `UnansweredError` if a document is invalid."""
        if self.policy is None:
            raise UnansweredError(warning("not checked: a document is invalid", hint="see above"))
        return self.policy

    @cached_property
    def outcome(self) -> Simulated:
        """What the cluster would store of the objects; an `UnansweredError` if a document is invalid."""
        return simulate(self.objects, self.valid, match=sent_names(self.valid))


def read_files(files: Sequence[str], with_documents: WithDocuments, *, strict: bool) -> ReadFiles:
    """Read files, all files of folders, and standard input."""
    found: list[FoundDocument] = []
    problems: list[Problem] = []
    objects: list[Manifest] = []
    values: list[Policy] = []
    for source, body in bodies_of(files):
        if (manifest := _values_in(body, source)) is not None:
            try:
                values.append(policy_of_values([manifest], source)[0])
            except MappingError as error:
                problems += error.problems
            continue
        more, manifests, wrong = documents_of(body, source)
        objects += manifests
        found += more
        problems += wrong
    if not found and not objects and not problems and not values:
        raise Failure([f"{', '.join(files)}: no document found"])
    policy, of_documents = _together(found, with_documents, partial=bool(problems))
    return ReadFiles(found, objects, policy, [*problems, *of_documents], strict, values)


def _values_in(body: bytes, source: str) -> Manifest | None:
    """Return a file that looks like values of the chart; None for any other."""
    try:
        (manifest,) = read_manifests(body, source)
    except (ManifestError, ValueError):
        return None
    return manifest if kind_of(manifest.data) == "values" else None


def _together(
    found: Sequence[FoundDocument], with_documents: WithDocuments, *, partial: bool
) -> tuple[Policy | None, Sequence[Problem]]:
    """The policy of documents, or None with every problem, of each alone and of all together."""
    mappings = [each.document for each in found if each.kind == "mapping"]
    settings = [each.document for each in found if each.kind == "settings"]
    second = [
        Problem(f"a second settings document, after {settings[0].source}", source=each.source, line=each.lines.get(()))
        for each in settings[1:]
    ]
    try:
        policy = with_documents(mappings, settings[0] if settings else None, partial=partial)
    except MappingError as error:
        return None, [*second, *error.problems]
    return None if second else policy, second


def _documents(files: ReadFiles) -> Result:
    """Are all documents valid, together and with the built-in mappings?"""
    if files.problems:
        found = [(str(each), FileLine(each.source, each.line)) for each in files.problems]
        message = f"{counted(len(found), 'problem')} in the documents"
        return _located(error(message, hint="the webhook rejects such documents"), found)
    mappings = sum(document.kind == "mapping" for document in files.documents)
    settings = len(files.documents) - mappings
    valid = [counted(mappings, "mapping"), f"{settings} settings"] if files.documents else []
    valid += [counted(len(files.values), "values file")] if files.values else []
    pods = sum(len(each.pods) for each in files.outcome.objects)
    told = [f"valid: {', '.join(valid)}"] if valid else []
    told += [f"{counted(pods, 'pod')} checked"] if pods or (files.objects and not told) else []
    return ok("; ".join(told) or "valid")


def _headers(files: ReadFiles) -> Result:
    """Does each document name its version and kind?"""
    _ = files.valid  # what is invalid is not completed
    return _found("documents without apiVersion or kind", header_warnings(files.documents), "write both into each")


def _vendors(files: ReadFiles) -> Result:
    """Can the keys of all vendors in force be read, and have `served` and `family` an effect?"""
    written = [each.document.data for each in files.documents if files.policy is None]
    texts = dict.fromkeys(families_meant((data.get("vendor"), data.get("family")) for data in written))
    if not texts:
        texts = dict.fromkeys(text for policy in (files.valid, *files.values) for text in doubts(policy))
    hint = "correct their mappings, or the settings"
    return _found("vendors to configure", ((text, FileLine()) for text in texts), hint)


def _keys(files: ReadFiles) -> Result:
    """Does each key occur once in its mapping?"""
    twice = ((str(each), FileLine(each.source, each.line)) for manifest in files.objects for each in manifest.warnings)
    return _found("keys that occur twice", twice, "remove all but the last one: it counts")


def _labels(files: ReadFiles) -> Result:
    """Have the webhook's labels and annotations of namespaces, pods and templates an effect?"""
    unused = _own_keys(files)
    return _found("labels or annotations of the webhook's own without effect", unused, "correct or remove them")


def _warnings(files: ReadFiles) -> Result:
    """Would `mutate` warn of nothing in the pods of the objects?"""
    unused = Reason.OWN_KEY_UNUSED.code  # `labels` tells these
    told = (each for each in _told(files, Level.WARNING) if unused not in each[0])
    return _found("warnings about pods", told, "vgpu-webhook explain -f FILE")


def _denied(files: ReadFiles) -> Result:
    """Would the webhook deny no pod of the objects?"""
    if denied := [*_told(files, Level.ERROR)]:
        return _located(error("the webhook would deny pods", hint="vgpu-webhook explain -f FILE"), denied)
    return ok("the webhook would deny no pod")


def _told(files: ReadFiles, level: Level) -> Iterator[Found]:
    for each in files.outcome.objects:
        told = (message for message in each.messages if message.level is level)
        yield from ((f"{each.at.file}: {each.title}: {message.text}", message.at) for message in told)


def _judged(files: ReadFiles) -> Result:
    """Can every object be read, and is every request for a GPU in a pod that the webhook would see?"""
    rest = [*_unjudged(files)]
    hint = "correct it, or move it into a pod template; with --no-strict, this is a warning"
    level = error if files.strict else warning
    if not rest:
        return ok("every request is in a pod")
    return _located(level("there are objects or requests that nothing judges", hint=hint), rest)


def _unjudged(files: ReadFiles) -> Iterator[Found]:
    """Yield a line for each object that cannot be read, and for each request that nothing judges, see `unjudged`."""
    yield from ((str(each), FileLine(each.source, each.line)) for each in files.outcome.errors)
    for each in files.outcome.objects:
        yield from ((f"{each.at.file}: {each.title}: {text}", at) for _, text, at in each.unjudged)


def _own_keys(files: ReadFiles) -> Iterator[Found]:
    """Yield the webhook's labels and annotations without effect on namespaces, pods and pod templates."""
    policy = files.valid
    for manifest in files.objects:
        try:
            for item in flattened(kube_object(manifest, manifest.data)):
                found = _of(item, policy)
                start = FileLine(manifest.source, manifest.lines[()])
                yield from ((f"{manifest.source}: {item.title}: {message}", start) for message in found)
        except ManifestError:
            continue  # not an object: only documents are checked for errors


def _of(item: KubeObject, policy: Policy) -> Iterator[str]:
    for namespace in namespaces_in(item):
        unread = unread_keys("namespace", namespace.labels, namespace.annotations, policy)
        yield from (*(each.message for each in unread), *invalid_values(namespace, policy))
    for place in pod_places(item, kinds=workloads_of(policy.settings)):
        metadata = place.pod.get("metadata")
        unread = unread_keys("pod", _texts(metadata, "labels"), _texts(metadata, "annotations"), policy)
        yield from (each.message for each in unread)


def _texts(metadata: object, key: str) -> dict[str, str]:
    values = metadata.get(key) if isinstance(metadata, dict) else None
    return {str(name): str(value) for name, value in values.items()} if isinstance(values, dict) else {}


def _found(what: str, cases: Iterator[Found], hint: str) -> Result:
    found = [*cases]
    return _located(warning(f"there are {what}", hint=hint), found) if found else ok(f"no {what}")


def _located(result: Result, found: Sequence[Found]) -> Result:
    return result._replace(details=tuple(text for text, _ in found), at=tuple(place for _, place in found))


FILE_CHECKS: Final[tuple[Check[Result], ...]] = (
    Check("documents", "files", _documents),
    Check("headers", "files", _headers),
    Check("vendors", "files", _vendors),
    Check("keys", "files", _keys),
    Check("labels", "files", _labels),
    Check("warnings", "files", _warnings),
    Check("denied", "files", _denied),
    Check("judged", "files", _judged),
)
