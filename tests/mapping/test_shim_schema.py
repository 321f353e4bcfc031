"""The shim of a document: what is compiled from it, and what is refused."""

import copy
import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from webhook.mapping.compile.shim import compile_shim
from webhook.mapping.document import schema
from webhook.mapping.document.problem import FieldPath, Problem, Problems
from webhook.mapping.model.shim import NO_DELIVERY, Shim
from webhook.request import ALL, UNLIMITED, Percent, Request, Size

MIB = 1024**2
GOOD: dict[str, Any] = {
    "limit": "env",
    "needs": ["memory"],
    "forms": ["share"],
    "delivery": [{"hostPath": {"volume": "lib", "path": "/opt/host", "mountPath": "/opt/lib"}}, "none"],
    "state": {
        "volume": "state",
        "emptyDir": {"sizeLimit": "64Mi", "medium": "Memory"},
        "mounts": {"/tmp/lock": "lock"},
    },
    "libraryPath": {"prefix": ["/opt/lib", "/opt/more"], "imageDefault": ["/usr/a"]},
    "preload": {"prefix": ["/opt/lib/limit.so"]},
    "env": {"MEMORY": "{memory}m", "CORES": "{cores}", "WHO": "{container}-{devices}", "FILE": "/opt/lib/limit.so"},
}


def compiled(changes: dict[FieldPath, Any] | None = None) -> tuple[Shim, list[Problem]]:
    """The good document with some places changed; None takes a key away."""
    document = copy.deepcopy(GOOD)
    for path, value in (changes or {}).items():
        part: Any = document
        for key in path[:-1]:
            part = part[key]
        if value is None:
            del part[path[-1]]
        else:
            part[path[-1]] = value
    problems = Problems()
    return compile_shim(schema.Shim.model_validate(document), ["share", "whole"], problems), problems.found


def shim(changes: dict[FieldPath, Any] | None = None) -> Shim:
    """A shim without problems."""
    made, problems = compiled(changes)
    assert problems == []
    return made


def test_good_document_is_compiled() -> None:
    """Everything that requests have in common is computed once."""
    made = shim()
    assert made.names == {"LD_LIBRARY_PATH", "LD_PRELOAD", "MEMORY", "CORES", "WHO", "FILE"}
    assert made.path_alone == {"name": "LD_LIBRARY_PATH", "value": "/opt/lib:/opt/more:/usr/a"}
    assert made.path_before_env_from == {"name": "LD_LIBRARY_PATH", "value": "/opt/lib:/opt/more:/$(LD_LIBRARY_PATH)/."}
    assert made.preload == ("/opt/lib/limit.so",)
    host, none = made.deliveries
    assert none is NO_DELIVERY
    assert host.volumes == (
        {"name": "lib", "hostPath": {"path": "/opt/host", "type": "Directory"}},
        {"name": "state", "emptyDir": {"sizeLimit": "64Mi", "medium": "Memory"}},
    )
    assert host.mounts == (
        {"name": "lib", "mountPath": "/opt/lib", "readOnly": True},
        {"name": "state", "mountPath": "/tmp/lock", "subPath": "lock"},
    )


def test_least_document_is_compiled() -> None:
    """A vendor whose plugin does everything needs a search path only."""
    model = schema.Shim.model_validate({"limit": "plugin", "libraryPath": {"prefix": ["/a"]}})
    problems = Problems()
    made = compile_shim(model, [], problems)
    assert problems.found == []
    assert made.deliveries == (NO_DELIVERY,)
    assert made.names == {"LD_LIBRARY_PATH"}
    assert made.serves(None)
    assert made.unmet(Request(1, UNLIMITED, UNLIMITED)) is None
    assert made.unmet(Request(1, Percent(50), UNLIMITED)) is None


def test_a_search_path_of_its_own() -> None:
    """In its place LD_LIBRARY_PATH is left to the pod: nothing of the shim is written there."""
    names = shim({("libraryPath",): {"prefix": ["/opt/lib"], "variable": "ACME_PATH"}}).names
    assert names == {"ACME_PATH", "LD_PRELOAD", "MEMORY", "CORES", "WHO", "FILE"}


def test_a_percentage_has_no_value_for_a_variable() -> None:
    """Even where the library does not need the limit; all of a device needs no variable."""
    made = replace(shim(), document=shim().document.model_copy(update={"needs": []}))
    amounts = (Percent(50), ALL, UNLIMITED)
    assert [made.unmet(Request(1, memory, UNLIMITED)) for memory in amounts] == ["memory", None, None]


@pytest.mark.parametrize(
    "request_, values",
    [
        (Request(2, Size(3 * MIB), Percent(30)), {"MEMORY": "3m", "CORES": "30", "WHO": "main-2"}),
        (Request(1, Size(3 * MIB + 1), Percent(Fraction(61, 2))), {"MEMORY": "4m", "CORES": "31", "WHO": "main-1"}),
        (Request(1, Size(Fraction(MIB, 3)), ALL), {"MEMORY": "1m", "CORES": "100", "WHO": "main-1"}),
        (Request(1, UNLIMITED, UNLIMITED), {"WHO": "main-1"}),
        (Request(1, Percent(50), UNLIMITED), {"WHO": "main-1"}),
    ],
)
def test_values_are_of_the_request(request_: Request, values: dict[str, str]) -> None:
    """MiB and percent per device, rounded up; what has no limit is left out."""
    assert shim().values(request_, "main") == {**values, "FILE": "/opt/lib/limit.so"}


def test_units_and_a_variable_for_each_device() -> None:
    """Rounded up to the unit; without a limit no device has one."""
    units = {"memory": "1Gi", "cores": "0.5%"}
    made = shim({("units",): units, ("env", "M_{index}"): "{index}:{memory}", ("env", "C_{index}"): "{cores}"})
    assert {"M_*", "C_*"} < made.names
    values = made.values(Request(2, Size(1025 * MIB), Percent(Fraction(61, 4))), "main")
    indexed = {"M_0": "0:2", "M_1": "1:2", "C_0": "31", "C_1": "31"}
    assert values.items() >= {**indexed, "MEMORY": "2m", "CORES": "31"}.items()
    assert "M_0" not in made.values(Request(2, UNLIMITED, ALL), "main")


def test_variables_of_the_shim_replace_those_if_unset() -> None:
    """A document that extends another writes one of its `envIfUnset` always, by name or for each device."""
    made = shim({("envIfUnset",): {"MEMORY": "1", "M_1": "1", "M_x": "1"}, ("env", "M_{index}"): "{memory}m"})
    assert made.if_unset == {"M_x": "1"}


def test_one_entry_for_either_libc() -> None:
    """`$LIB` is a folder for musl, and glibc's own folders for glibc."""
    assert shim({("preload", "prefix"): ["/opt/$LIB/limit.so"]}).preload == ("/opt/$LIB/limit.so",)


def test_device_plugins_that_mount_it_have_a_label() -> None:
    """Key and value, of which `check` looks for the DaemonSet."""
    assert shim({("mountedBy",): "app.kubernetes.io/component=plugin"}).mounted_by == (
        "app.kubernetes.io/component",
        "plugin",
    )
    assert shim().mounted_by is None


def test_forms_say_who_is_served() -> None:
    """Only requests in the forms named, or all."""
    assert shim().serves("share")
    assert not shim().serves("whole")
    assert not shim().serves(None)
    assert shim({("forms",): None}).serves("whole")


LIBRARY = {"volume": "lib", "mountPath": "/opt/lib"}


def image(**parts: str) -> dict[str, Any]:
    """A delivery by an image volume."""
    return {"image": {**LIBRARY, "reference": "registry.example/shim@sha256:" + "0" * 64, **parts}}


def copied(**parts: str) -> dict[str, Any]:
    """A delivery by an init container."""
    return {"emptyDir": {**LIBRARY, "sizeLimit": "1Mi", "image": "shim", "command": ["/copy"], **parts}}


MISTAKES: list[tuple[Any, ...]] = [
    ({("limit",): None}, ("limit",), "`limit` is missing"),
    ({("mountedBy",): "a b"}, ("mountedBy",), "is not a label with its value"),
    ({("mountedBy",): "a="}, ("mountedBy",), "is not a label with its value"),
    ({("env", "MEMORY"): None}, ("needs", 0), "limit of memory"),
    ({("env",): None}, ("needs", 0), "limit of memory"),
    ({("needs",): None}, ("needs",), "which limit"),
    ({("needs",): ["memory", "cores"], ("env", "CORES"): None}, ("needs", 1), "limit of cores"),
    ({("forms",): ["share", "shares"]}, ("forms", 1), "no form is called 'shares'"),
    ({("env", "X"): "{mem}"}, ("env", "X"), "{mem} is not known"),
    ({("env", "X"): "{memory"}, ("env", "X"), "brace"),
    ({("env", "X"): "memory}"}, ("env", "X"), "brace"),
    ({("env", "X"): "{}"}, ("env", "X"), "{} is not known"),
    ({("env", "X"): "$(HOME)/x"}, ("env", "X"), "the user decides"),
    ({("env", "1X"): "1"}, ("env", "1X"), "not a name of a variable"),
    ({("env", "LD_PRELOAD"): "/x"}, ("env", "LD_PRELOAD"), "cannot be set here"),
    ({("env", "LD_LIBRARY_PATH"): "/x"}, ("env", "LD_LIBRARY_PATH"), "cannot be set here"),
    ({("env", "ACME_VISIBLE_DEVICES"): "0"}, ("env", "ACME_VISIBLE_DEVICES"), "override the device plugin"),
    ({("delivery",): []}, ("delivery",), "no delivery"),
    ({("delivery",): ["none", "none"]}, ("delivery", 1), "twice"),
    ({("delivery", 0): image(volume="Lib")}, ("delivery", 0, "image", "volume"), "name of a volume"),
    ({("delivery", 0): image(mountPath="lib")}, ("delivery", 0, "image", "mountPath"), "absolute path"),
    ({("delivery", 0): image(reference="a b")}, ("delivery", 0, "image", "reference"), "name of an image"),
    ({("delivery", 0): image(subPath="/lib")}, ("delivery", 0, "image", "subPath"), "folder of the image"),
    ({("delivery", 0): copied(image="")}, ("delivery", 0, "emptyDir", "image"), "name of an image"),
    ({("delivery", 0): copied(sizeLimit="1MB")}, ("delivery", 0, "emptyDir", "sizeLimit"), "1MB"),
    ({("delivery", 0): copied(cpu="0")}, ("delivery", 0, "emptyDir", "cpu"), "is nothing"),
    ({("delivery", 0): copied(memory="-1")}, ("delivery", 0, "emptyDir", "memory"), "-1"),
    ({("delivery", 0): copied(volume="state")}, ("state", "volume"), "volume of the library"),
    ({("delivery", 0): copied(mountPath="/tmp")}, ("state", "mounts", "/tmp/lock"), "overlap"),
    (
        {("delivery", 1): {"csi": {**LIBRARY, "driver": "a", "volume": "A"}}},
        ("delivery", 1, "csi", "volume"),
        "name of",
    ),
    ({("delivery", 0, "hostPath", "volume"): "Lib"}, ("delivery", 0, "hostPath", "volume"), "name of a volume"),
    ({("delivery", 0, "hostPath", "volume"): "a" * 64}, ("delivery", 0, "hostPath", "volume"), "name of a volume"),
    ({("delivery", 0, "hostPath", "volume"): "lib\n"}, ("delivery", 0, "hostPath", "volume"), "name of a volume"),
    ({("delivery", 0, "hostPath", "volume"): "state"}, ("state", "volume"), "volume of the library"),
    ({("delivery", 0, "hostPath", "path"): "opt"}, ("delivery", 0, "hostPath", "path"), "absolute path"),
    ({("delivery", 0, "hostPath", "path"): "/opt/../etc"}, ("delivery", 0, "hostPath", "path"), "absolute path"),
    ({("delivery", 0, "hostPath", "path"): "/"}, ("delivery", 0, "hostPath", "path"), "absolute path"),
    ({("delivery", 0, "hostPath", "mountPath"): "/a:b"}, ("delivery", 0, "hostPath", "mountPath"), "absolute path"),
    ({("delivery", 0, "hostPath", "mountPath"): "/a/"}, ("delivery", 0, "hostPath", "mountPath"), "absolute path"),
    ({("delivery", 0, "hostPath", "mountPath"): "//a"}, ("delivery", 0, "hostPath", "mountPath"), "absolute path"),
    ({("state", "volume"): "a_b"}, ("state", "volume"), "name of a volume"),
    ({("state", "mounts"): {}}, ("state", "mounts"), "mounted nowhere"),
    ({("state", "mounts"): {"/opt/lib": "x"}}, ("state", "mounts", "/opt/lib"), "overlap"),
    ({("state", "mounts"): {"/opt/lib/x": "x"}}, ("state", "mounts", "/opt/lib/x"), "overlap"),
    ({("state", "mounts"): {"/opt": "x"}}, ("state", "mounts", "/opt"), "overlap"),
    ({("state", "mounts"): {"tmp": "x"}}, ("state", "mounts", "tmp"), "absolute path"),
    ({("state", "mounts"): {"/tmp": "/x"}}, ("state", "mounts", "/tmp"), "inside the volume"),
    ({("state", "mounts"): {"/tmp": "../x"}}, ("state", "mounts", "/tmp"), "inside the volume"),
    ({("state", "mounts"): {"/tmp": ""}}, ("state", "mounts", "/tmp"), "inside the volume"),
    ({("state", "emptyDir"): {"sizeLimit": "64MB"}}, ("state", "emptyDir", "sizeLimit"), "64MB"),
    ({("state", "emptyDir"): {"sizeLimit": "1Mi", "size": "64Mi"}}, ("state", "emptyDir", "size"), "no size"),
    ({("state", "emptyDir"): {"sizeLimit": "1Mi", "medium": "Disk"}}, ("state", "emptyDir", "medium"), "Disk"),
    ({("libraryPath", "prefix"): ["/a", "/a"]}, ("libraryPath", "prefix", 1), "twice"),
    ({("libraryPath", "prefix"): ["/a", "$ORIGIN"]}, ("libraryPath", "prefix", 1), "absolute path"),
    ({("libraryPath", "prefix"): ["/a;/b"]}, ("libraryPath", "prefix", 0), "absolute path"),
    ({("libraryPath", "imageDefault"): ["/opt/lib"]}, ("libraryPath", "imageDefault", 0), "twice"),
    ({("libraryPath", "imageDefault"): [""]}, ("libraryPath", "imageDefault", 0), "absolute path"),
    ({("preload", "prefix"): ["limit.so"]}, ("preload", "prefix", 0), "absolute path"),
    ({("preload", "prefix"): ["/a b.so"]}, ("preload", "prefix", 0), "absolute path"),
    ({("limit",): "plugin", ("delivery",): ["none"]}, ("state",), "no effect"),
    ({("env", "LD_AUDIT"): "/x"}, ("env", "LD_AUDIT"), "cannot be set here"),
    ({("delivery", 0): copied(folder="/lib")}, ("delivery", 0, "emptyDir"), "exactly one of"),
    (
        {("delivery", 0): {"emptyDir": {**LIBRARY, "sizeLimit": "1Mi", "image": "shim", "folder": "lib"}}},
        ("delivery", 0, "emptyDir", "folder"),
        "absolute path",
    ),
    (
        {
            ("delivery", 0): {"emptyDir": {**LIBRARY, "sizeLimit": "1Mi", "image": "shim", "folder": "/lib"}},
            ("files",): ["a", "/a"],
        },
        ("files", 1),
        "not a file of the library's folder",
    ),
    ({("state", "emptyDir"): {"medium": "Memory"}}, ("state", "emptyDir"), "no bound"),
    ({("files",): ["a"]}, ("files",), "no delivery copies"),
    ({("architectures",): ["amd64"]}, ("architectures",), "no effect"),
    (
        {("architectures",): ["amd64", "A"], ("delivery", 0, "hostPath", "path"): "/opt/{arch}"},
        ("architectures", 1),
        "not an architecture",
    ),
    (
        {("architectures",): ["amd64"], ("delivery", 0, "hostPath", "mountPath"): "/opt/{arch}"},
        ("delivery", 0, "hostPath"),
        "cannot be in",
    ),
    ({("delivery", 0, "hostPath", "path"): "/opt/{arch}"}, ("delivery", 0, "hostPath", "path"), "absolute path"),
    ({("env", "X"): "{index}"}, ("env", "X"), "variable for each device"),
    (
        {("env", "X"): "{memory}", ("env", "X_{index}"): "{memory}m"},
        ("env", "X_{index}"),
        "'{memory}', not '{memory}m'",
    ),
    ({("env", "X_{index}_{index}"): "1"}, ("env", "X_{index}_{index}"), "not a name of a variable"),
    (
        dict.fromkeys((("state",), ("preload",), ("env",), ("needs",)))
        | {("limit",): "plugin", ("delivery",): ["none"], ("envIfUnset",): {"X": "1"}},
        ("envIfUnset",),
        "no effect",
    ),
    ({("envIfUnset",): {"LD_PRELOAD": ""}}, ("envIfUnset", "LD_PRELOAD"), "cannot be set here"),
    ({("envIfUnset",): {"X": "$(HOME)"}}, ("envIfUnset", "X"), "the user decides"),
    ({("preload",): {"prefix": []}}, ("preload",), "nothing is preloaded"),
    ({("delivery", 0): image(), ("preload", "file"): "ld.so.preload"}, ("delivery", 0), "folders, not the file"),
    ({("preload", "file"): "/etc/ld.so.preload"}, ("preload", "file"), "not a file of the library's folder"),
    ({("preload", "prefix"): ["/a/$LIB"]}, ("preload", "prefix", 0), "absolute path"),
    ({("audit",): {"files": ["/a/$LIB/b"]}}, ("audit", "files", 0), "absolute path"),
    ({("libraryPath", "ifUnset"): "leave"}, ("libraryPath", "imageDefault"), "no effect"),
    (
        {("libraryPath",): {"prefix": ["/a"], "ifUnset": "leave"}, ("preload",): None},
        ("libraryPath", "ifUnset"),
        "find",
    ),
    ({("libraryPath", "variable"): "P"}, ("libraryPath", "imageDefault"), "no effect"),
    ({("libraryPath",): {"prefix": ["/a"], "variable": "LD_AUDIT"}}, ("libraryPath", "variable"), "cannot be set"),
    ({("libraryPath",): {"prefix": ["/a"], "variable": "FILE"}}, ("libraryPath", "variable"), "also in `env`"),
    (
        {("libraryPath",): {"prefix": ["/a"], "variable": "P", "ifUnset": "leave"}},
        ("libraryPath", "ifUnset"),
        "beside `variable`",
    ),
    ({("units",): {"memory": "1%"}}, ("units", "memory"), "not a unit of memory"),
    ({("units",): {"memory": "0"}}, ("units", "memory"), "not above 0"),
    ({("units",): {"cores": "1Mi"}}, ("units", "cores"), "not a unit of cores"),
    ({("units",): {"cores": "x"}}, ("units", "cores"), "x"),
]


@pytest.mark.parametrize("changes, path, keys", MISTAKES)
def test_mistake_is_reported_with_its_place(changes: dict[FieldPath, Any], path: FieldPath, keys: str) -> None:
    """Every rule that types cannot express is one problem at its place in the document."""
    _, problems = compiled(changes)
    assert [problem.path for problem in problems] == [("shim", *path)]
    assert keys in problems[0].message


def test_all_mistakes_are_reported_at_once() -> None:
    """A document is not corrected one mistake at a time."""
    _, problems = compiled({("limit",): None, ("forms",): ["x"], ("env", "X"): "{y}"})
    assert len(problems) == 3


def test_long_paths_are_checked_in_linear_time() -> None:
    """A document is somebody's input too."""
    start = time.process_time()
    compiled({("delivery", 0, "hostPath", "path"): "/a" * 511 + ":"})
    assert time.process_time() - start < 2
