"""The shim of a vendor, compiled: volumes that bring the library into a container, variables that make the loader find it.

A shim needs a limit, from variables of its own or from the device plugin. It never writes a ``*_VISIBLE_DEVICES``: a pod's
variable overrides the device plugin's and would grant access to all devices.

The variables of the dynamic loader, and how to put entries first in them.

glibc splits ``LD_LIBRARY_PATH`` at ``:`` and ``;``, and reads an empty element as the current directory, where everyone who
can write there could plant a library. ``LD_PRELOAD`` is split at blanks and colons, and its empty elements mean nothing.
``LD_AUDIT`` has the shim's files alone: of several libraries there the last decides what a symbol means (glibc 2.36). glibc
replaces ``$LIB`` by ``lib64`` or such as ``lib/x86_64-linux-gnu`` (ld.so(8)); musl takes it as it is, and passes over files
that are missing: so ``/opt/$LIB/shim.so`` is one file for glibc, and another for musl.
Before that the kubelet expands ``$(NAME)`` in a value, and ``$$`` to ``$`` (Kubernetes,
``third_party/forked/golang/expansion``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from webhook.mapping.document import schema
from webhook.quantity import Number
from webhook.request import ALL, UNLIMITED, Percent, Request, Size

LD_LIBRARY_PATH: Final = "LD_LIBRARY_PATH"
LD_PRELOAD: Final = "LD_PRELOAD"
LD_AUDIT: Final = "LD_AUDIT"
PRELOAD_FILE: Final = "/etc/ld.so.preload"
"""What glibc preloads into every program, also with an empty environment, and into setuid ones; musl does not read it."""
KEPT_LIBRARY_PATH: Final = "VGPU_WEBHOOK_LD_LIBRARY_PATH"
"""A variable that holds the user's ``LD_LIBRARY_PATH`` with a ``valueFrom``, for references to it."""

MAX_RESOLVED: Final = 4096
"""Characters of known values in one search path; with more, values count as not known. An ordinary path has some dozens."""

_EMPTY_ELEMENT: Final = re.compile(r"\A[:;]|[:;](?:[:;]|\Z)")
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")


def absolute(name: str) -> str:
    """Return a reference to a variable as one or more elements of a search path that are not empty at either end.

    The slash and ``/.`` do not change an absolute path, and make a relative one absolute. Without them an empty value, or a
    separator at an end of the value, would make an empty element.
    """
    return f"/$({name})/."


def resolved(path: str, values: Mapping[str, str]) -> str:
    """Return a search path whose references make no empty elements.

    A known value that makes empty elements replaces its reference, so that `search_path` drops them; other known values
    stay references. A reference with an unknown value is made absolute (see `absolute`) where it begins or ends an element;
    only an empty element inside its value remains possible.

    Args:
        path: the path that the user wrote.
        values: the values of known variables, with no references in them.
    """
    if "$(" not in path:
        return path
    if sum(len(values.get(name, "")) for name in _REFERENCE.findall(path)) > MAX_RESOLVED:
        values = {}

    def insert_value(found: re.Match[str]) -> str:
        value = None if found[1] is None else values.get(found[1])
        # An element with the value must not be empty, nor make others that are.
        return value if value is not None and (value == "" or has_empty_element(value)) else found[0]

    def make_absolute(found: re.Match[str]) -> str:
        if found[1] is None or found[1] in values:
            return found[0]
        text, begin, end = found.string, found.start(), found.end()
        before = "/" if begin == 0 or text[begin - 1] in ":;" else ""
        after = "/." if end == len(text) or text[end] in ":;" else ""
        return f"{before}{found[0]}{after}"

    return _REFERENCE.sub(make_absolute, _REFERENCE.sub(insert_value, path))


def has_empty_element(path: str) -> bool:
    """Return whether a search path that is not empty has an empty element, which means the current directory."""
    return path != "" and _EMPTY_ELEMENT.search(path) is not None


def search_path(first: tuple[str, ...], path: str) -> str:
    """Return a search path that begins with `first`, followed by the rest of `path`, without empty elements.

    A path that already is like that is returned unchanged, so that a second pass changes nothing.
    """
    beginning = "[:;]".join(map(re.escape, first))
    if re.match(rf"{beginning}(?![^:;])", path) and not has_empty_element(path):
        return path
    return _prepend(first, path, ":;")


def preload_list(first: tuple[str, ...], preload: str) -> str:
    """Return a list of files to preload that begins with `first`, followed by the rest of `preload`; see `search_path`."""
    beginning = "[ :]+".join(map(re.escape, first))
    if re.match(rf"[ :]*{beginning}(?![^ :])", preload):
        return preload
    return _prepend(first, preload, " :")


def _prepend(first: tuple[str, ...], text: str, separators: str) -> str:
    """Put `first` before the other elements of a text, without splitting it: megabytes would become millions of parts."""
    ours = "|".join(map(re.escape, first))
    others = re.sub(rf"(?<![^{separators}])(?:{ours})(?![^{separators}])", "", text)
    # A lookahead, not a group: replacing by a group takes five times as long, and there may be millions of matches.
    rest = re.sub(rf"[{separators}]+(?=[{separators}])", "", others).strip(separators)
    return ":".join((*first, rest)) if rest else ":".join(first)


DeliveryKind: TypeAlias = Literal["hostPath", "image", "emptyDir", "csi", "none"]

PLACEHOLDERS: Final = {
    "memory": "[1-9][0-9]*",
    "cores": "[1-9][0-9]?|100",
    "devices": "[1-9][0-9]*",
    "container": "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    "index": "0|[1-9][0-9]*",
}
"""The placeholders in the value of a variable, and patterns of what replaces them."""
PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")

INDEX: Final = "{index}"
ARCH_LABEL: Final = "kubernetes.io/arch"
MAX_INDEXED: Final = 64
"""The most devices of a container for each of which a variable is written: nodes have up to 16."""


def inside(path: str, folder: str) -> bool:
    """Return whether a normalized path is the folder or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


PodEntry: TypeAlias = Mapping[str, Any]
"""An entry of a list in a pod, as JSON data; shared between requests, so never changed."""
Need: TypeAlias = Literal["memory", "cores"]


_AMOUNTS: Final = frozenset({"memory", "cores"})
"""The placeholders that a request may leave without a value."""


@dataclass(frozen=True, slots=True)
class ShimVariable:
    """A variable that the shim reads, whose value may depend on the request.

    Attributes:
        name: with ``{index}``, one for each device, counted from 0.
        template: the value; ``{memory}`` stands for memory per device in the shim's unit, rounded up, ``{cores}`` likewise,
            ``{devices}`` for the count of devices, ``{container}`` for the container's name.
        uses: the placeholders in the template.
        indexed: whether there is one for each device.
        pattern: a pattern of its names: ``*`` stands for the index.
    """

    name: str
    template: str
    uses: frozenset[str]
    indexed: bool
    pattern: str

    def can_be(self, value: str) -> bool:
        """Return whether some request gives the variable this value, in any case."""
        parts = PLACEHOLDER.split(self.template)
        pattern = "".join(
            f"(?:{PLACEHOLDERS.get(part, '.*')})" if index % 2 else re.escape(part) for index, part in enumerate(parts)
        )
        return re.fullmatch(pattern, value, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A way in which the library reaches a container; ``none`` adds nothing.

    Attributes:
        kind: the name in documents, in the namespace's annotation and in the status.
        library: the name of the volume that holds the library, which no container may write to; empty for ``none``.
        mount_path: the mount path of the library; empty for ``none``.
        volumes: entries of the pod's ``volumes``, including the writable state.
        mounts: entries of the container's ``volumeMounts``.
        installer: the init container that fills the volume, with its name; None for a volume that has the library.
        marks: texts of which undecoded JSON contains one if it could collide: names of the volumes, last parts of the
            mount paths, or an escape, which may hide either.
    """

    kind: DeliveryKind
    library: str = ""
    mount_path: str = ""
    volumes: tuple[PodEntry, ...] = ()
    mounts: tuple[PodEntry, ...] = ()
    installer: PodEntry | None = None
    marks: tuple[bytes, ...] = ()

    @property
    def privileged(self) -> bool:
        """Whether only the Pod Security level ``privileged`` permits it."""
        return self.kind == "hostPath"


def has_mark(raw: bytes, marks: tuple[bytes, ...]) -> bool:
    """Return whether undecoded JSON has one of the marks of a delivery or a guard: fast, and never wrongly False."""
    for mark in marks:  # noqa: SIM110  (a generator takes three times as long)
        if mark in raw:
            return True
    return False


NO_DELIVERY: Final = Delivery("none")


@dataclass(frozen=True, slots=True)
class Shim:
    """What a container with a share gets; made by `compile_shim` only.

    Attributes:
        document: the shim in the document, for what is not compiled.
        mounted_by: label of the DaemonSets whose device plugin mounts the library; None if none is known.
        deliveries: in order of preference.
        by_architecture: the same for each architecture, the default first; empty if they are alike.
        library_path: directories that ``LD_LIBRARY_PATH`` begins with.
        leave_unset: a container without ``LD_LIBRARY_PATH`` keeps the image's.
        preload: files that ``LD_PRELOAD`` begins with.
        own_path: the search path in a variable of its own; None without one.
        covers: mounts, as path and volume, at a path that a guard may list.
        variables: the variables that the library reads, with that one and ``LD_AUDIT``.
        indexed: those of them that there are for each device.
        if_unset: variables, with values, that a container's own ``env`` may set otherwise.
        memory_unit: bytes in which variables contain memory.
        cores_unit: percent in which they contain cores.
        names: all variables that the shim may write; ``*`` in one stands for an index.
        path_alone: the entry for a container without ``LD_LIBRARY_PATH``.
        path_assumed: the warning about it, for it replaces the image's own.
        path_before_env_from: the entry for a container that may take one from ``envFrom``.
    """

    document: schema.Shim
    mounted_by: tuple[str, str] | None
    deliveries: tuple[Delivery, ...]
    by_architecture: Mapping[str, tuple[Delivery, ...]]
    library_path: tuple[str, ...]
    leave_unset: bool
    preload: tuple[str, ...]
    own_path: PodEntry | None
    covers: frozenset[tuple[str, str]]
    variables: tuple[ShimVariable, ...]
    indexed: tuple[ShimVariable, ...]
    if_unset: Mapping[str, str]
    memory_unit: Number
    cores_unit: Number
    names: frozenset[str]
    path_alone: PodEntry
    path_assumed: str
    path_before_env_from: PodEntry

    def serves(self, form: str | None) -> bool:
        """Return whether a request in this form gets the shim."""
        return self.document.forms is None or form in self.document.forms

    def unmet(self, request: Request) -> Need | None:
        """Return the dimension that the shim needs, or has a variable for, and whose limit cannot be written; else None."""
        if "memory" in self.document.needs and not isinstance(request.memory, Size):
            return "memory"
        if "cores" in self.document.needs and not isinstance(request.cores, Percent):
            return "cores"
        # No limit and all of a device need no variable; a percentage of a device of unknown size has no value to write.
        if isinstance(request.memory, Percent) and request.memory != ALL:
            return next(("memory" for variable in self.variables if "memory" in variable.uses), None)
        return None

    def amounts(self, request: Request) -> dict[str, str]:
        """Return memory and cores as the variables have them, as far as a settled request limits them."""
        amounts: dict[str, str] = {}
        if isinstance(request.memory, Size):
            amounts["memory"] = str(-(-request.memory.bytes // self.memory_unit))
        if request.cores is not UNLIMITED and request.cores is not None:
            amounts["cores"] = str(-(-request.cores.value // self.cores_unit))
        return amounts

    def values(self, request: Request, container: str) -> dict[str, str]:
        """Return the values of the variables for a settled request, without those for which it has no limit."""
        amounts = {"container": container, "devices": str(request.devices), **self.amounts(request)}
        missing = _AMOUNTS.difference(amounts)
        values = {
            variable.name: variable.template.format_map(amounts) if variable.uses else variable.template
            for variable in self.variables
            if not variable.indexed and (not missing or variable.uses.isdisjoint(missing))
        }
        for variable in self.indexed:
            for index in range(min(request.devices or 0, MAX_INDEXED) if variable.uses.isdisjoint(missing) else 0):
                amounts["index"] = str(index)
                values[variable.name.format_map(amounts)] = variable.template.format_map(amounts)
        return values
