"""What brings the library into real containers, and what makes the loader of each kind of program find it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import Object
from tests.controlplane.objects import config_map, mapping

from .pods import Pods, share
from .releases import NAMESPACE, TEAM, Release
from .small_images import LIBRARY, LIBRARY_PATH, LOADER, VERSIONS, library_folder

pytestmark = [pytest.mark.node, pytest.mark.once("isolation")]

FOLDER = "/usr/local/vgpu-shim"
IMAGE, FILE = f"{LIBRARY}:{VERSIONS[0]}", f"libvgpu.so.{VERSIONS[0]}"
VOLUME = {"volume": "vgpu-shim", "mountPath": FOLDER}
COPY = ["/bin/sh", "-ec", f"cp {LIBRARY_PATH}/{FILE} {FOLDER}/{FILE}"]
DELIVERIES: dict[str, Any] = {
    "image": {**VOLUME, "reference": IMAGE, "pullPolicy": "Never", "subPath": LIBRARY_PATH.lstrip("/")},
    "emptyDir": {**VOLUME, "sizeLimit": "1Mi", "image": IMAGE, "pullPolicy": "Never", "command": COPY},
}


PRELOAD: Object = {"preload": {"prefix": [f"{FOLDER}/{FILE}"]}}


@contextmanager
def delivered(release: Release, delivery: Object, form: Object = PRELOAD) -> Iterator[None]:
    """A mapping with this delivery and form alone is in force until the end of the block."""
    [(kind, volume)] = delivery.items()
    kind = str(volume.get("path", kind))
    shim = {"delivery": [delivery], "env": {"CUDA_REDIRECT": f"{FOLDER}/{FILE}"}, **form}
    client = release.plane.client
    client.create(mapping("nvidia", json.dumps({"extends": "nvidia", "shim": shim})), NAMESPACE).accepted()
    try:
        release.plane.wait_until(lambda: source(release) == kind, f"delivery {kind} in force", 60)
        yield
    finally:
        client.delete("v1", "configmaps", "nvidia", NAMESPACE).accepted()
        release.plane.wait_until(lambda: source(release) == FOLDER, "built-in mapping in force", 60)


def source(release: Release) -> str:
    """Which volume brings the library to a new pod: its kind, or the path on the node.

    None while replicas have different policies, and one denies it.
    """
    volumes = release.create(TEAM, dry_run=True).body.get("spec", {}).get("volumes", [])
    [own] = [each for each in volumes if each["name"] == "vgpu-shim"] or [{"name": "", "": {}}]
    [(kind, volume)] = [(key, each) for key, each in own.items() if key != "name"]
    return str(volume.get("path", kind))


@pytest.mark.parametrize("kind", DELIVERIES)
def test_the_library_is_there_and_its_limit_holds(release: Release, pods: Pods, kind: str) -> None:
    """In an init container, a sidecar and a container, for any user, with a root file system that is read-only."""
    context: Object = {"readOnlyRootFilesystem": True, "runAsUser": 4711, "allowPrivilegeEscalation": False}
    common = {"image": "localhost/gpu:test", "securityContext": context}
    first = {"name": "first", **common, **share(memory=1000)}
    beside = {"name": "beside", **common, **share(memory=2000), "restartPolicy": "Always", "args": ["hold"]}
    with delivered(release, {kind: DELIVERIES[kind]}):
        pod = pods.create(share(securityContext=context), initContainers=[first, beside])
        names = [each["name"] for each in pod["spec"]["initContainers"]]
        assert names == (["vgpu-shim", "first", "beside"] if kind == "emptyDir" else ["first", "beside"])
        pods.finish(pod)
        seen = [pods.printed(pod, name)[0] for name in ("first", "beside", "c0")]
    assert [each["memory"] for each in seen] == [1000, 2000, 3000]
    assert {each["library"] for each in seen} == {f"library {VERSIONS[0]}"}


def test_without_its_library_no_container_starts(release: Release, pods: Pods) -> None:
    """What copies it fails: the pod fails with it, and no share runs without a limit."""
    broken = {key: value for key, value in DELIVERIES["emptyDir"].items() if key != "command"} | {
        "folder": LIBRARY_PATH
    }
    with delivered(release, {"emptyDir": broken}, {**PRELOAD, "files": ["other.so"]}):
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
USER: Object = {"runAsUser": 4711, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
OWN = [{"name": "LD_LIBRARY_PATH", "value": "/mine"}, {"name": "LD_PRELOAD", "value": "/opt/own/libown.so"}]
REFERENCE = {"configMapKeyRef": {"name": "loader", "key": "LD_LIBRARY_PATH"}}
DRIVER = "shim.csi.example"
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


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library in all forms, in a folder of the node."""
    folder = tmp_path_factory.mktemp("library")
    library_folder(VERSIONS[0], folder)
    folder.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    "form, kind",
    [
        *((form, "image") for form in FORMS if form != "`preload.file`"),
        ("`preload.file`", "emptyDir"),
        ("`preload.file`", "hostPath"),
        *((form, "csi") for form in FORMS),
    ],
)
def test_who_answers(release: Release, pods: Pods, library: Path, form: str, kind: str) -> None:
    """The library, with the limit requested; or the driver, as the documentation says."""
    if kind == "csi":
        pods.cluster.serve_volumes(DRIVER, library)
    copy = {key: value for key, value in DELIVERIES["emptyDir"].items() if key != "command"}
    delivery = {
        "image": DELIVERIES["image"],
        "emptyDir": {**copy, "folder": LIBRARY_PATH},
        "hostPath": {**VOLUME, "path": str(library)},
        "csi": {**VOLUME, "driver": DRIVER},
    }[kind]
    release.plane.client.create(config_map("loader", SETTINGS), TEAM)
    containers = [(program, each) for program, those in SITUATIONS.items() for each in those]
    with delivered(release, {kind: delivery}, FORMS[form]):
        pod = pods.create(*(share(image=LOADER, **each) for _, each in containers))
        pods.finish(pod)
    seen: dict[str, set[str]] = {program: set() for program in SITUATIONS}
    for number, (program, _) in enumerate(containers):
        # Loaders report what they cannot load in the same log.
        [line] = [line for line in pods.log(pod, f"c{number}").splitlines() if line.startswith("{")]
        seen[program].add(outcome(json.loads(line)))
    assert seen == {program: {text} for program, text in documented()[form].items()}
