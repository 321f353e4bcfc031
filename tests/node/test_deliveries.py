"""What brings the library into real containers, and what makes the loader of each kind of program find it."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import Object
from tests.controlplane.objects import config_map, mapping
from webhook.labels import SHIM

from .load import delete_pods
from .pods import Pods, share
from .releases import NAMESPACE, OPTED_IN, Release, namespace, remove_namespaces
from .small_images import LIBRARY, LIBRARY_PATH, LOADER, VERSIONS, library_folder

pytestmark = [pytest.mark.node, pytest.mark.once("isolation")]

FOLDER = "/usr/local/vgpu-shim"
IMAGE, FILE = f"{LIBRARY}:{VERSIONS[0]}", f"libvgpu.so.{VERSIONS[0]}"
VOLUME = {"volume": "vgpu-shim", "mountPath": FOLDER}
COPY = ["/bin/sh", "-ec", f"cp {LIBRARY_PATH}/{FILE} {FOLDER}/{FILE}"]
DRIVER = "shim.csi.example"
DELIVERIES: dict[str, Any] = {
    "hostPath": {**VOLUME, "path": FOLDER},
    "image": {**VOLUME, "reference": IMAGE, "pullPolicy": "Never", "subPath": LIBRARY_PATH.lstrip("/")},
    "emptyDir": {**VOLUME, "sizeLimit": "1Mi", "image": IMAGE, "pullPolicy": "Never", "command": COPY},
    "csi": {**VOLUME, "driver": DRIVER},
}
"""All that there are, by their names; the installer has filled the folder of the first one."""

BY_FOLDER = {key: value for key, value in DELIVERIES["emptyDir"].items() if key != "command"} | {"folder": LIBRARY_PATH}
PRELOAD: Object = {"preload": {"prefix": [f"{FOLDER}/{FILE}"]}}
USER: Object = {"runAsUser": 4711, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}


@contextmanager
def delivered(release: Release, deliveries: Mapping[str, Any], form: Object = PRELOAD) -> Iterator[None]:
    """In a block, a mapping with these deliveries and this form is in force in every replica."""
    shim = {
        "delivery": [{kind: volume} for kind, volume in deliveries.items()],
        "env": {"CUDA_REDIRECT": f"{FOLDER}/{FILE}"},
        **form,
    }
    client = release.plane.client
    before = release.plane.wait_until(release.policy, "one policy")
    client.create(mapping("nvidia", json.dumps({"extends": "nvidia", "shim": shim})), NAMESPACE).accepted()
    try:
        release.plane.wait_until(lambda: release.policy() not in {None, before}, "mapping in force")
        yield
    finally:
        client.delete("v1", "configmaps", "nvidia", NAMESPACE).accepted()
        release.plane.wait_until(lambda: release.policy() == before, "built-in mapping in force")


@pytest.fixture(scope="module")
def all_places(any_release: Release) -> Iterator[dict[str, Pods]]:
    """For each delivery the pods of a namespace that chooses it."""
    plane = any_release.plane
    places = {kind: Pods(plane, kind.lower()) for kind in DELIVERIES}
    for kind, pods in places.items():
        namespace(plane, pods.namespace, OPTED_IN, annotations={SHIM: kind})
    yield places
    remove_namespaces(plane, *(pods.namespace for pods in places.values()))


@pytest.fixture
def places(release: Release, all_places: dict[str, Pods]) -> Iterator[dict[str, Pods]]:
    """The same for one test: at its end the pods go."""
    for pods in all_places.values():
        release.serving(pods.namespace)
    yield all_places
    for pods in all_places.values():
        delete_pods(release.plane, pods.namespace)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library in all forms, in a folder of the node."""
    folder = tmp_path_factory.mktemp("library")
    library_folder(VERSIONS[0], folder)
    folder.chmod(0o755)
    return folder


def test_the_library_is_there_and_its_limit_holds(release: Release, places: dict[str, Pods], library: Path) -> None:
    """By each delivery: in an init container, a sidecar and a container, for any user, with a read-only root file system.

    What the library writes to is writable.
    """
    release.plane.serve_volumes(DRIVER, library)
    release.plane.wait_until(release.shim_ready, "shim on the node")
    common = {"image": "localhost/gpu:test", "securityContext": USER}
    first = {"name": "first", **common, **share(memory=1000)}
    beside = {"name": "beside", **common, **share(memory=2000), "restartPolicy": "Always", "args": ["hold"]}
    command = script("touch /tmp/vgpulock/lock /tmp/vgpu-cache/cache && exec /program")
    with delivered(release, DELIVERIES):
        made = {
            kind: pods.create(share(securityContext=USER, command=command), initContainers=[first, beside])
            for kind, pods in places.items()
        }
    for kind, pod in made.items():
        assert volumes(pod) == [kind]
        names = [each["name"] for each in pod["spec"]["initContainers"]]
        assert names == (["vgpu-shim", "first", "beside"] if kind == "emptyDir" else ["first", "beside"])
        places[kind].finish(pod)
        seen = [places[kind].printed(pod, name)[0] for name in ("first", "beside", "c0")]
        assert [each["memory"] for each in seen] == [1000, 2000, 3000]
        assert {each["library"] for each in seen} == {f"library {VERSIONS[0]}"}


def volumes(pod: Object) -> list[str]:
    """What kind of volume brings the library."""
    return [kind for each in pod["spec"]["volumes"] if each["name"] == "vgpu-shim" for kind in each.keys() - {"name"}]


def test_without_its_library_no_container_starts(release: Release, pods: Pods) -> None:
    """What copies it fails: the pod fails with it, and no share runs without a limit."""
    with delivered(release, {"emptyDir": BY_FOLDER}, {**PRELOAD, "files": ["other.so"]}):
        pod = pods.create(share())
    failed = pods.phase(pod, "Failed")
    terminated = failed["status"]["initContainerStatuses"][0]["state"]["terminated"]
    assert terminated["exitCode"] == 1
    assert terminated["message"].strip() == f"other.so is missing in {LIBRARY_PATH} of the image"
    assert "running" not in json.dumps(failed["status"]["containerStatuses"])


LEFT: Object = {"prefix": [FOLDER], "imageDefault": [], "ifUnset": "leave"}
FORMS: dict[str, Object] = {
    "`libraryPath`": {"libraryPath": {"prefix": [f"{FOLDER}/driver"]}, "preload": None},
    "`preload.prefix`": {"libraryPath": LEFT, **PRELOAD},
    "with `$LIB`": {"libraryPath": LEFT, "preload": {"prefix": [f"{FOLDER}/$LIB/{FILE}"]}},
    "`preload.file`": {"libraryPath": LEFT, "preload": {"prefix": [], "file": "ld.so.preload"}},
    "`audit`": {"libraryPath": LEFT, "preload": None, "audit": {"files": [f"{FOLDER}/audit.so"]}},
}
"""By the heading of the table in `docs/mapping.md`: what a mapping writes."""

SETTINGS = {"LD_LIBRARY_PATH": "/from/configmap", "LD_PRELOAD": "/opt/own/libown.so"}
OWN = [{"name": "LD_LIBRARY_PATH", "value": "/mine"}, {"name": "LD_PRELOAD", "value": "/opt/own/libown.so"}]
REFERENCE = {"configMapKeyRef": {"name": "loader", "key": "LD_LIBRARY_PATH"}}
FAILED = """ || echo '{"result": 127, "memory": 0}'"""


def script(text: str) -> list[str]:
    """A command in the image's shell."""
    return ["/bin/sh", "-c", text]


SITUATIONS: dict[str, list[Object]] = {
    "dynamic": [
        {},
        {"env": OWN},
        {"env": [{"name": "LD_LIBRARY_PATH", "valueFrom": REFERENCE}]},
        {"envFrom": [{"configMapRef": {"name": "loader"}}]},
        {"securityContext": USER},
        {"command": script("/program | cat")},
    ],
    "by `env -i`": [{"command": script("env -i /program")}],
    "setuid": [{"command": script("/setuid"), "securityContext": {"runAsUser": 4711}}],
    "static": [{"command": script("/static")}],
    "musl": [{"command": script(f"/musl{FAILED}")}],
}
"""By the rows of that table: containers."""


def outcome(printed: Object) -> str:
    """What a program got, as the table says it; a library that answers has read the limit of its container."""
    if printed["result"] == 127:
        return "fails"
    return {3000: "yes", 81920: "no", 0: "unusable"}[printed["memory"]]


def documented() -> dict[str, dict[str, str]]:
    """The table, by form and program."""
    page = (Path(__file__).parents[2] / "docs" / "mapping.md").read_text()
    [table] = re.findall(r"^\| program \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    return {form: {row[0]: row[number] for row in rows} for number, form in enumerate(FORMS, 1)}


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_who_answers(release: Release, places: dict[str, Pods], library: Path, form: str) -> None:
    """The library, with the limit requested; or the driver, as the documentation says."""
    release.plane.serve_volumes(DRIVER, library)
    deliveries = {**DELIVERIES, "emptyDir": BY_FOLDER, "hostPath": {**VOLUME, "path": str(library)}}
    if "file" in (FORMS[form]["preload"] or {}):
        del deliveries["image"]
    containers = [(program, each) for program, those in SITUATIONS.items() for each in those]
    for pods in places.values():
        release.plane.client.create(config_map("loader", SETTINGS), pods.namespace)
    with delivered(release, deliveries, FORMS[form]):
        made = {
            kind: places[kind].create(*(share(image=LOADER, **each) for _, each in containers)) for kind in deliveries
        }
    for kind, pod in made.items():
        assert volumes(pod) == [kind]
        places[kind].finish(pod)
        seen: dict[str, set[str]] = {program: set() for program in SITUATIONS}
        for number, (program, _) in enumerate(containers):
            # Loaders report what they cannot load in the same log.
            [line] = [line for line in places[kind].log(pod, f"c{number}").splitlines() if line.startswith("{")]
            seen[program].add(outcome(json.loads(line)))
        assert seen == {program: {text} for program, text in documented()[form].items()}, kind
