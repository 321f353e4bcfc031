"""All checks of files: of the documents in them, and of the objects beside these."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from webhook.cli.failure import Failure
from webhook.cli.manifests.documents import FoundDocument, documents_of, files_in, header_warnings, objects_in
from webhook.cli.manifests.read import Manifest
from webhook.cli.manifests.simulate import allocation_warnings, own_key_warnings, pod_notes, unjudged_requests
from webhook.doctor.result import Check, Result, UnansweredError, counted, error, ok, warning
from webhook.mapping.document.problem import MappingError, Problem
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.model.policy import Policy
from webhook.mapping.requests.values import unreadable

STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """What files contain.

    Attributes:
        documents: mapping and settings documents, in order.
        objects: the Kubernetes objects of files whose documents can be read.
        policy: that of all documents together; the problems, if a document is invalid.
        strict: whether a request that nothing judges is an error.
    """

    documents: Sequence[FoundDocument]
    objects: list[Manifest]
    policy: Policy | Sequence[Problem]
    strict: bool = True

    @property
    def valid(self) -> Policy:
        """The policy.

        Raises:
            UnansweredError: a document is invalid.
        """
        if not isinstance(self.policy, Policy):
            raise UnansweredError(warning("not checked: a document is invalid", hint="see above"))
        return self.policy


class WithDocuments(Protocol):
    """Makes the policy that results from documents; see `SourcedPolicy.with_documents`."""

    def __call__(self, mappings: Sequence[Document], settings: Document | None, *, partial: bool) -> Policy:
        """Raises `MappingError` for invalid documents."""


def read_files(files: Sequence[str], with_documents: WithDocuments, *, strict: bool = True) -> ReadFiles:
    """Read files, all files of folders, and standard input.

    Args:
        files: their names.
        with_documents: makes the policy of the documents in them.
        strict: whether a request that nothing judges is an error.

    Raises:
        Failure: a file cannot be read, or nothing is found.
    """
    found: list[FoundDocument] = []
    problems: list[Problem] = []
    objects: list[Manifest] = []
    for source, body in _bodies(files):
        more, wrong = documents_of(body, source)
        objects += [] if wrong else objects_in(body, source)
        found += more
        problems += wrong
    if not found and not objects and not problems:
        raise Failure([f"{', '.join(files)}: no document found"])
    return ReadFiles(found, objects, _together(found, problems, with_documents), strict)


def _together(
    found: Sequence[FoundDocument], problems: Sequence[Problem], with_documents: WithDocuments
) -> Policy | Sequence[Problem]:
    """The policy of documents, or every problem, of each alone and of all together."""
    mappings = [each.document for each in found if each.kind == "mapping"]
    settings = [each.document for each in found if each.kind == "settings"]
    all_problems = [
        *problems,
        *(
            Problem(
                f"a second settings document, after {settings[0].source}", source=each.source, line=each.lines.get(())
            )
            for each in settings[1:]
        ),
    ]
    try:
        policy = with_documents(mappings, settings[0] if settings else None, partial=bool(problems))
    except MappingError as error:
        return [*all_problems, *error.problems]
    return all_problems or policy


def _bodies(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        if file == STDIN:
            yield "stdin", sys.stdin.buffer.read()
            continue
        paths = files_in(Path(file))
        if not paths:
            raise Failure([f"{file}: nothing found: the folder contains no YAML or JSON file"])
        for path in paths:
            try:
                yield str(path), path.read_bytes()
            except OSError as error:
                raise Failure([f"{path}: {error.strerror}"]) from error


def _documents(files: ReadFiles) -> Result:
    """Are all documents valid, together and with the built-in mappings?"""
    if not isinstance(files.policy, Policy):
        number = counted(len(files.policy), "problem")
        return error(f"{number} in the documents", *map(str, files.policy), hint="the webhook rejects such documents")
    mappings = sum(document.kind == "mapping" for document in files.documents)
    return ok(f"valid: {counted(mappings, 'mapping')}, {len(files.documents) - mappings} settings")


def _headers(files: ReadFiles) -> Result:
    """Does each document name its version and kind?"""
    return _found("documents without apiVersion or kind", header_warnings(files.documents), "write both into each")


def _vendors(files: ReadFiles) -> Result:
    """Can the keys of all vendors in force be read?"""
    hint = "configure their mappings, or change the setting `owners`"
    return _found("vendors whose keys cannot be read yet", unreadable(files.valid.vendors.values()), hint)


def _keys(files: ReadFiles) -> Result:
    """Does each key occur once in its mapping?"""
    twice = (str(each) for manifest in files.objects for each in manifest.warnings)
    return _found("keys that occur twice", twice, "remove all but the last one: it counts")


def _labels(files: ReadFiles) -> Result:
    """Have the webhook's labels and annotations of namespaces, pods and templates an effect?"""
    unused = own_key_warnings(files.objects, files.valid)
    return _found("labels or annotations without effect", unused, "correct or remove them")


def _claims(files: ReadFiles) -> Result:
    """Does a DeviceClass serve a key of the policy, and do pods have claims beside such keys?"""
    conflicts = allocation_warnings(files.objects, files.valid)
    return _found("objects that conflict with the policy", conflicts, "vgpu-webhook explain -f FILE")


def _judged(files: ReadFiles) -> Result:
    """Can every object be read, and is every request for a GPU in a pod that the webhook would see?"""
    rest = tuple(unjudged_requests(files.objects, files.valid))
    hint = "correct it, or move it into a pod template; with --no-strict, this is a warning"
    level = error if files.strict else warning
    return (
        level("there are objects or requests that nothing judges", *rest, hint=hint)
        if rest
        else ok("every request is in a pod")
    )


def _notes(files: ReadFiles) -> Result:
    """What would the webhook note in the status of pods, without a warning?"""
    noted = tuple(pod_notes(files.objects, files.valid))
    return ok(f"the webhook would note {'something' if noted else 'nothing'} on pods that needs no action", *noted)


def _found(what: str, cases: Iterator[str], hint: str) -> Result:
    details = tuple(cases)
    return warning(f"there are {what}", *details, hint=hint) if details else ok(f"no {what}")


FILE_CHECKS: Final[tuple[Check[ReadFiles], ...]] = (
    Check("documents", "files", "", _documents),
    Check("headers", "files", "", _headers),
    Check("vendors", "files", "", _vendors),
    Check("keys", "files", "", _keys),
    Check("labels", "files", "", _labels),
    Check("claims", "files", "", _claims),
    Check("judged", "files", "", _judged),
    Check("notes", "files", "", _notes),
)
