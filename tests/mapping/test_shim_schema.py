"""The shim of a document: what is compiled from it, and what is refused."""

import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tests.naming import each_of
from webhook.mapping.document.problem import FieldPath, Problem, Problems
from webhook.mapping.model import schema
from webhook.mapping.model.shim import NO_DELIVERY, Shim, compile_shim
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


@each_of(
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


def test_long_paths_are_checked_in_linear_time() -> None:
    """A document is somebody's input too: two to the power of 511 would not end within any test's time."""
    compiled({("delivery", 0, "hostPath", "path"): "/a" * 511 + ":"})
