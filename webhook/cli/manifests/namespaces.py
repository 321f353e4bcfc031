"""Namespace manifests for a standalone server, read as by ``mutate``."""

from pathlib import Path

from webhook.admission.context import Namespace
from webhook.cli.failure import Failure
from webhook.cli.manifests.files import files_in
from webhook.cli.manifests.manifest import ManifestError
from webhook.cli.manifests.read import read_manifests
from webhook.cli.manifests.simulate import namespaces_in
from webhook.cli.manifests.workloads import kube_object
from webhook.server.namespaces import Described


def load_namespaces(place: Path | None, opt_in: str) -> Described:
    """Read the Namespaces in a file, or in the YAML and JSON files of a folder; other kinds are skipped.

    Args:
        place: the file or folder; None: no namespaces.
        opt_in: the label by which a namespace opts in.

    Raises:
        Failure: files cannot be read, or contain something other than objects; with all problems.
    """
    known: dict[str, Namespace] = {}
    problems: list[str] = []
    for path in [] if place is None else files_in(place):
        try:
            known |= _in_file(path)
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
        except ManifestError as error:
            problems.append(str(error))
    if problems:
        raise Failure(problems)
    return Described(known, opt_in)


def _in_file(path: Path) -> dict[str, Namespace]:
    found: dict[str, Namespace] = {}
    for manifest in read_manifests(path.read_bytes(), str(path)):
        for namespace in namespaces_in(kube_object(manifest, manifest.data)):
            if not namespace.name:
                raise manifest.error(("metadata", "name"), "a Namespace without a name")
            found[namespace.name] = namespace
    return found
