"""The shim of a vendor, compiled: volumes that bring the library into a container, variables that make the loader find it.

A shim needs a limit, from variables of its own or from the device plugin. It never writes a ``*_VISIBLE_DEVICES``: a pod's
variable overrides the device plugin's and would grant access to all devices.

glibc splits ``LD_LIBRARY_PATH`` at ``:`` and ``;``, and reads an empty element as the current directory, where everyone who
can write there could plant a library. ``LD_PRELOAD`` is split at blanks and colons, and its empty elements mean nothing.
``LD_AUDIT`` has the shim's files alone: of several libraries there the last decides what a symbol means (glibc 2.36). glibc
replaces ``$LIB`` by ``lib64`` or such as ``lib/x86_64-linux-gnu`` (ld.so(8)); musl takes it as it is, and passes over files
that are missing: so ``/opt/$LIB/shim.so`` is one file for glibc, and another for musl.
Before that the kubelet expands ``$(NAME)`` in a value, and ``$$`` to ``$`` (``third_party/forked/golang/expansion``).
"""

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from webhook.mapping.document import Problems
from webhook.mapping.model.keys import VARIABLE
from webhook.mapping.strict import (
    FEW,
    SOME,
    KeyText,
    Long,
    Quantity,
    ShareUnit,
    SizeUnit,
    Strict,
    like,
    one_of,
    told,
)
from webhook.request import ALL, Percent, Request, Size

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
    """Return a reference to a variable as elements of a search path that are not empty at either end.

    The slash and ``/.`` do not change an absolute path, and make a relative one absolute. Without them an empty value, or a
    separator at an end of the value, would make an empty element.
    """
    return f"/$({name})/."


def resolved(path: str, values: Mapping[str, str]) -> str:
    """Return a search path whose references make no empty elements; `values` are known ones, without references.

    A known value that makes empty elements replaces its reference, so that `search_path` drops them; other known values
    stay references. A reference with an unknown value is made absolute (see `absolute`) where it begins or ends an element;
    only an empty element inside its value remains possible.
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


ARCH: Final = "{arch}"
"""What stands for the architecture of a node, where the library comes from."""

_LETTER: Final = r"[^/:;{}$\s\\]"
_PART: Final = rf"(?!\.{{1,2}}(?:/|\Z)){_LETTER}+"
_SOURCE_PART: Final = rf"(?!\.{{1,2}}(?:/|\Z))(?:{_LETTER}|{re.escape(ARCH)})+"
_NAME: Final = r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_IMAGE: Final = rf"(?:[a-zA-Z0-9]|{re.escape(ARCH)})(?:[-a-zA-Z0-9._/:]|{re.escape(ARCH)})*(?:@sha256:[0-9a-f]{{64}})?"
_ABSOLUTE: Final = (
    "a plain absolute path",
    "begin with `/`; no `/` at the end, no `..`, `:`, `;`, `$`, blank or brace",
)
_RELATIVE: Final = ("a plain relative path", "write one such as `cache`")

VolumeName: TypeAlias = Annotated[KeyText, like(_NAME, "a name of a volume", "use at most 63 of a-z, 0-9 and `-`")]
PlainPath: TypeAlias = Annotated[Long, like(rf"(?:/{_PART})+", *_ABSOLUTE)]
PreloadPath: TypeAlias = Annotated[Long, like(rf"(?:/(?:{_PART}|\$LIB(?=/)))+", *_ABSOLUTE)]
RelativePath: TypeAlias = Annotated[Long, like(rf"{_PART}(?:/{_PART})*", *_RELATIVE)]
SourcePath: TypeAlias = Annotated[Long, like(rf"(?:/{_SOURCE_PART})+", *_ABSOLUTE)]
SourceFolder: TypeAlias = Annotated[Long, like(rf"{_SOURCE_PART}(?:/{_SOURCE_PART})*", *_RELATIVE)]
ImageName: TypeAlias = Annotated[
    Long, like(_IMAGE, "the name of an image", "write such as `registry.example/shim@sha256:…`")
]
PullPolicy: TypeAlias = Literal["Always", "IfNotPresent", "Never"]


class HostFolder(Strict):
    """A folder of the node with the library; Pod Security permits it in privileged namespaces only."""

    volume: VolumeName
    path: SourcePath
    type: Literal["", "Directory", "DirectoryOrCreate"] = "Directory"
    mount_path: PlainPath


class ImageVolume(Strict):
    """A read-only volume with the files of an image (KEP-4639), in clusters that serve them."""

    volume: VolumeName
    reference: ImageName = Field(description="the image, with its digest")
    pull_policy: PullPolicy = "IfNotPresent"
    sub_path: SourceFolder | None = told("the folder in the image that has the library; without it, all of the image")
    mount_path: PlainPath


class FilledEmptyDir(Strict):
    """An emptyDir that an init container, the first of the pod, fills; every Pod Security level permits it."""

    volume: VolumeName = Field(description="also the name of the init container")
    size_limit: Quantity
    image: ImageName = Field(description="of the init container, with its digest")
    pull_policy: PullPolicy = "IfNotPresent"
    folder: SourcePath | None = told("the folder of the image that `sh` and `cp` copy; they fail if a file is missing")
    command: list[Long] | None = told(
        "in place of `folder`: copies the library to `mountPath` or fails, as any user", min_length=1, max_length=FEW
    )
    cpu: Quantity = told("of the init container, as limit and request", "50m")
    memory: Quantity = told("likewise", "64Mi")
    mount_path: PlainPath

    _source = one_of("folder", "command")


class CsiVolume(Strict):
    """An inline volume of a CSI driver, whose name a CSIDriver object of the cluster has."""

    volume: VolumeName
    driver: KeyText
    attributes: dict[KeyText, Long] = told("the `volumeAttributes`", {}, max_length=FEW)
    mount_path: PlainPath


DeliveryVolume: TypeAlias = HostFolder | ImageVolume | FilledEmptyDir | CsiVolume


class WrittenDelivery(Strict):
    """A way in which the library reaches a container: one of these."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    host_path: HostFolder | None = None
    image: ImageVolume | None = None
    empty_dir: FilledEmptyDir | None = None
    csi: CsiVolume | None = None

    _kind = one_of("host_path", "image", "empty_dir", "csi")


class StateVolume(Strict):
    """The emptyDir of a state."""

    size_limit: Quantity
    medium: Literal["", "Memory"] | None = None


class ShimState(Strict):
    """A writable volume that the shim needs: an emptyDir, mounted at paths by subPath."""

    volume: VolumeName
    empty_dir: StateVolume
    mounts: dict[PlainPath, RelativePath] = Field(min_length=1, max_length=FEW, description="mount path: subPath")


class LibraryPath(Strict):
    """The beginning of `LD_LIBRARY_PATH`, and the end that replaces the image's own value."""

    prefix: list[PlainPath] = Field(min_length=1, max_length=FEW)
    image_default: list[PlainPath] = Field([], max_length=FEW)
    if_unset: Literal["write", "leave"] = told("without `LD_LIBRARY_PATH`; leave: the image keeps its own", "write")
    variable: KeyText | None = told("a variable of the shim's own, written in place of `LD_LIBRARY_PATH`")


class Preload(Strict):
    """The beginning of `LD_PRELOAD`, and a file in the place of `/etc/ld.so.preload`."""

    prefix: list[PreloadPath] = Field([], max_length=FEW)
    file: RelativePath | None = told("a file of the library's folder, mounted at `/etc/ld.so.preload`")


class Audit(Strict):
    """The value of `LD_AUDIT`."""

    files: list[PlainPath] = Field(min_length=1, max_length=FEW)


class Units(Strict):
    """The units in which variables contain amounts, rounded up."""

    memory: SizeUnit = Field("1Mi", validate_default=True)
    cores: ShareUnit = Field("1%", validate_default=True)


DeliveryKind: TypeAlias = Literal["hostPath", "image", "emptyDir", "csi", "none"]
PodEntry: TypeAlias = Mapping[str, Any]
"""An entry of a list in a pod, as JSON data; shared between requests, so never changed."""
Need: TypeAlias = Literal["memory", "cores"]

PLACEHOLDERS: Final = {
    "memory": "[1-9][0-9]*",
    "cores": "[1-9][0-9]?|100",
    "devices": "[1-9][0-9]*",
    "container": "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    "index": "0|[1-9][0-9]*",
}
"""The placeholders in the value of a variable, and patterns of what replaces them."""
_AMOUNTS: Final = frozenset({"memory", "cores"})  # a request may leave them without a value

INDEX: Final = "{index}"
ARCH_LABEL: Final = "kubernetes.io/arch"
MAX_INDEXED: Final = 64  # the most devices of a container for each of which a variable is written: nodes have up to 16


def inside(path: str, folder: str) -> bool:
    """Return whether a normalized path is the folder or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


class ShimVariable(Struct, frozen=True, dict=True):
    """A variable that the shim reads, whose value may depend on the request.

    ``{memory}`` stands for memory per device in the shim's unit, rounded up, ``{cores}`` likewise, ``{devices}`` for the count
    of devices, ``{container}`` for the container's name.
    """

    name: str  # with `{index}`, one for each device, counted from 0
    template: str

    @cached_property
    def uses(self) -> frozenset[str]:
        """The placeholders in the template."""
        return frozenset(VARIABLE.findall(self.template))

    @cached_property
    def indexed(self) -> bool:
        """Whether there is one for each device."""
        return INDEX in self.name

    @cached_property
    def pattern(self) -> str:
        """A pattern of its names: ``*`` stands for the index."""
        return self.name.replace(INDEX, "*")

    def can_be(self, value: str) -> bool:
        """Return whether some request gives the variable this value, in any case."""
        parts = VARIABLE.split(self.template)
        pattern = "".join(
            f"(?:{PLACEHOLDERS.get(part, '.*')})" if index % 2 else re.escape(part) for index, part in enumerate(parts)
        )
        return re.fullmatch(pattern, value, re.IGNORECASE) is not None


class Delivery(Struct, frozen=True):
    """A way in which the library reaches a container; ``none`` adds nothing.

    The volume `library` holds it, which no container may write to; the installer is the init container that fills this, with
    its name. Undecoded JSON that could collide contains one of `marks`: names of the volumes, last parts of the mount paths,
    or an escape, which may hide either.
    """

    kind: DeliveryKind  # the name in documents, in the namespace's annotation and in the status
    library: str = ""
    mount_path: str = ""
    volumes: tuple[PodEntry, ...] = ()  # of the pod, including the writable state
    mounts: tuple[PodEntry, ...] = ()
    installer: PodEntry | None = None  # None for a volume that has the library
    marks: tuple[bytes, ...] = ()

    @property
    def privileged(self) -> bool:
        """Whether only the Pod Security level ``privileged`` permits it."""
        return self.kind == "hostPath"


NO_DELIVERY: Final = Delivery("none")


class Shim(Strict):
    """The library that enforces the share inside the container, and what makes the loader find it."""

    mode: Literal["inject", "plugin"] = told("plugin: the cluster's device plugin mounts it", "inject")
    mounted_by: Annotated[Long, like(r"[^=\s]+=[^=\s]+", "a label with its value", "write key=value")] | None = told(
        "label (key=value) of DaemonSets whose device plugin mounts this library itself"
    )
    limit: Literal["env", "plugin"] | None = told("what sets the limit: variables, or the device plugin")
    forms: list[KeyText] | None = told("only for requests with these forms", max_length=SOME)
    needs: list[Literal["memory", "cores"]] = told("without whose limits no shim is added", [], max_length=FEW)
    without: Literal["plugin", "deny"] = told(default="plugin", alias="unmet")
    delivery: list[Literal["none"] | WrittenDelivery] = Field(["none"], min_length=1, max_length=FEW)
    architectures: list[Annotated[KeyText, like("[a-z0-9]+", "an architecture of nodes", "write such as `amd64`")]] = (
        told("of nodes, the default first, for `{arch}` in deliveries", [], max_length=FEW)
    )
    files: list[RelativePath] = told("what a copied folder must have, beside what is loaded first", [], max_length=FEW)
    state: ShimState | None = None
    search: LibraryPath | None = told(alias="libraryPath")
    preloaded: Preload | None = told(alias="preload")
    audit: Audit | None = None
    units: Units = told("of {memory} and {cores}", {}, validate_default=True)
    env: dict[KeyText, Long] = told(
        "with {memory}, {cores}, {devices} and {container}; {index} in names: one for each device", {}, max_length=SOME
    )
    env_if_unset: dict[KeyText, Long] = told("variables that only a container's `env` may replace", {}, max_length=SOME)

    if TYPE_CHECKING:
        deliveries: tuple[Delivery, ...]  # in order of preference
        by_architecture: Mapping[str, tuple[Delivery, ...]]  # the default first; empty if they are alike
        library_path: tuple[str, ...]  # what `LD_LIBRARY_PATH` begins with
        leave_unset: bool
        preload: tuple[str, ...]  # what `LD_PRELOAD` begins with
        own_path: PodEntry | None  # the search path in a variable of its own; None without one
        covers: frozenset[tuple[str, str]]  # mounts, as path and volume, at a path that a guard may list
        variables: tuple[ShimVariable, ...]  # that the library reads, with that one and `LD_AUDIT`
        indexed: bool  # whether any of these is for each device: such are the last
        if_unset: Mapping[str, str]  # variables, with values, that a container's own `env` may set otherwise
        names: frozenset[str]  # all variables that the shim may write; `*` in one stands for an index
        path_alone: PodEntry  # the entry for a container without `LD_LIBRARY_PATH`
        path_assumed: str  # the warning about it
        path_before_env_from: PodEntry  # the entry for a container that may take one from `envFrom`

    @property
    def mounted(self) -> list[tuple[str, str]]:
        """The volumes that it mounts, with the paths in a container."""
        injected = self.deliveries if self.mode == "inject" else ()
        return [(each.library, mount["mountPath"]) for each in injected for mount in each.mounts]

    def serves(self, form: str | None) -> bool:
        """Return whether a request in this form gets the shim."""
        return self.forms is None or form in self.forms

    def unmet(self, request: Request) -> Need | None:
        """Return the dimension that the shim needs, or has a variable for, and whose limit cannot be written; else None."""
        if "memory" in self.needs and not isinstance(request.memory, Size):
            return "memory"
        if "cores" in self.needs and not isinstance(request.cores, Percent):
            return "cores"
        # No limit and all of a device need no variable; a percentage of a device of unknown size has no value to write.
        if isinstance(request.memory, Percent) and request.memory != ALL:
            return next(("memory" for variable in self.variables if "memory" in variable.uses), None)
        return None

    def values(self, request: Request, container: str) -> dict[str, str]:
        """Return the values of the variables for a settled request, without those for which it has no limit."""
        amounts = {"container": container, "devices": str(request.devices)}
        if isinstance(request.memory, Size):
            amounts["memory"] = str(-(-request.memory.bytes // self.units.memory))
        if isinstance(request.cores, Percent):
            amounts["cores"] = str(-(-request.cores.value // self.units.cores))
        missing = _AMOUNTS.difference(amounts)
        values: dict[str, str] = {}
        indexes = [str(index) for index in range(min(request.devices or 0, MAX_INDEXED))] if self.indexed else []
        for variable in self.variables:
            if variable.uses.isdisjoint(missing):
                for index in indexes if variable.indexed else ("",):
                    amounts["index"] = index
                    values[variable.name.replace(INDEX, index)] = variable.template.format_map(amounts)
        return values


NOBODY: Final = 65534  # the user of what copies a library: a volume is writable for every user

_COPY: Final = (
    'from=$1 to=$2; shift 2; cp -R "$from/." "$to"; for file; do '
    '[ -f "$to/$file" ] || { echo "$file is missing in $from of the image" >&2; exit 1; }; done'
)


def compile_shim(model: Shim, forms: Collection[str], problems: Problems) -> Shim:
    """Compile the shim of a document, whose forms have these names; the result is usable only without problems."""
    for check in (_check_architectures, _check_limit, _check_deliveries, _check_state, _check_loader, _check_env):
        check(model, problems)
    for index, name in enumerate(model.forms or ()):
        problems.unknown(("forms", index), "form", name, forms)
    deliveries = tuple(_delivery(delivery, model) for delivery in model.delivery)
    by_architecture = {name: tuple(_on(name, each) for each in deliveries) for name in model.architectures}
    derived: dict[str, Any] = {
        "deliveries": next(iter(by_architecture.values()), deliveries),
        "by_architecture": by_architecture,
        "preload": tuple(getattr(model.preloaded, "prefix", ())),
        **_search(model.search or LibraryPath.model_construct(prefix=[], image_default=[])),
    }
    compiled = model.model_copy(update=derived)
    covers = frozenset((path, library) for library, path in compiled.mounted if path == PRELOAD_FILE)
    return compiled.model_copy(update={"covers": covers, **_variables(compiled)})


def _search(path: LibraryPath) -> dict[str, Any]:
    """What follows from the search path."""
    prefix, image = ":".join(path.prefix), ":".join(path.image_default)
    assumed = f"LD_LIBRARY_PATH replaces the image's own, assumed to be {image or 'empty'}"
    return {
        "library_path": tuple(path.prefix) if path.variable is None else (),
        "leave_unset": path.if_unset == "leave",
        "own_path": None if path.variable is None else {"name": path.variable, "value": prefix},
        "path_alone": {"name": LD_LIBRARY_PATH, "value": ":".join((*path.prefix, *path.image_default))},
        "path_assumed": f"{assumed}: set it in the pod if the image needs another",
        "path_before_env_from": {"name": LD_LIBRARY_PATH, "value": f"{prefix}:{absolute(LD_LIBRARY_PATH)}"},
    }


def _variables(shim: Shim) -> dict[str, Any]:
    """The variables that the library reads, and the names of all that the shim may write."""
    written = {} if shim.audit is None else {LD_AUDIT: ":".join(shim.audit.files)}
    written |= {} if shim.own_path is None else {shim.own_path["name"]: shim.own_path["value"]}
    variables = sorted((ShimVariable(*each) for each in (written | shim.env).items()), key=attrgetter("indexed"))
    if_unset = _if_unset(shim, variables)
    loader = {LD_PRELOAD: shim.preload, LD_LIBRARY_PATH: shim.library_path}
    named = (*(variable.pattern for variable in variables), *if_unset, *(name for name, led in loader.items() if led))
    indexed = any(variable.indexed for variable in variables)
    return {"variables": tuple(variables), "indexed": indexed, "if_unset": if_unset, "names": frozenset(named)}


def _if_unset(shim: Shim, variables: Iterable[ShimVariable]) -> dict[str, str]:
    """Those of a document that is extended give way to the variables of the one that extends it."""
    taken = re.compile("|".join(re.escape(each.pattern).replace(r"\*", "[0-9]+") for each in variables) or "(?!)")
    return {name: value for name, value in shim.env_if_unset.items() if taken.fullmatch(name) is None}


def _source(delivery: Literal["none"] | WrittenDelivery) -> tuple[DeliveryKind, DeliveryVolume | None]:
    """The kind of a delivery, and its volume."""
    if delivery == "none":
        return delivery, None
    name, volume = next((name, volume) for name, volume in delivery if volume is not None)
    return cast("DeliveryKind", to_camel(name)), volume


def _on(architecture: str, delivery: Delivery) -> Delivery:
    """A delivery on nodes of an architecture."""
    entries = [delivery.volumes, delivery.mounts, delivery.installer]
    volumes, mounts, installer = json.loads(json.dumps(entries).replace(ARCH, architecture))
    return replace(delivery, volumes=tuple(volumes), mounts=tuple(mounts), installer=installer)


def _delivery(model: Literal["none"] | WrittenDelivery, shim: Shim) -> Delivery:
    kind, library = _source(model)
    if library is None:
        return NO_DELIVERY
    name, folder = library.volume, library.sub_path if isinstance(library, ImageVolume) else None
    within = {} if folder is None else {"subPath": folder}
    volumes: list[PodEntry] = [{"name": name, **_volume_source(library)}]
    mounts: list[PodEntry] = [{"name": name, "mountPath": library.mount_path, "readOnly": True, **within}]
    file = shim.preloaded and shim.preloaded.file
    if file is not None:
        path = file if folder is None else f"{folder}/{file}"
        mounts.append({"name": name, "mountPath": PRELOAD_FILE, "subPath": path, "readOnly": True})
    state = shim.state
    if state is not None:
        volumes.append({"name": state.volume, "emptyDir": state.empty_dir.model_dump(by_alias=True, exclude_none=True)})
        mounts += [{"name": state.volume, "mountPath": at, "subPath": sub} for at, sub in state.mounts.items()]
    installer = _installer(library, shim) if isinstance(library, FilledEmptyDir) else None
    return Delivery(kind, name, library.mount_path, tuple(volumes), tuple(mounts), installer, _marks(volumes, mounts))


def _marks(volumes: Iterable[PodEntry], mounts: Iterable[PodEntry]) -> tuple[bytes, ...]:
    """An escape, and the shortest texts of which one is in every name of a volume or path of a mount."""
    names = {volume["name"] for volume in volumes} | {posixpath.basename(mount["mountPath"]) for mount in mounts}
    shortest = sorted(name for name in names if not any(other in name for other in names - {name}))
    return (b"\\", *map(str.encode, shortest))


def _volume_source(library: DeliveryVolume) -> PodEntry:
    if isinstance(library, HostFolder):
        return {"hostPath": {"path": library.path, "type": library.type}}
    if isinstance(library, ImageVolume):
        return {"image": {"reference": library.reference, "pullPolicy": library.pull_policy}}
    if isinstance(library, FilledEmptyDir):
        return {"emptyDir": {"sizeLimit": library.size_limit}}
    attributes = {"volumeAttributes": dict(library.attributes)} if library.attributes else {}
    return {"csi": {"driver": library.driver, "readOnly": True, **attributes}}


def _copy_command(folder: str, mount_path: str, shim: Shim) -> list[str]:
    """Copy the folder, then fail for each file that the mapping names and it does not have."""
    loaded = [*(shim.preloaded.prefix if shim.preloaded else ()), *(shim.audit.files if shim.audit else ())]
    files = [path.removeprefix(f"{mount_path}/") for path in loaded if path.startswith(f"{mount_path}/")]
    if shim.preloaded is not None and shim.preloaded.file is not None:
        files.append(shim.preloaded.file)
    named = dict.fromkeys(file for file in (*shim.files, *files) if "$" not in file)
    return ["sh", "-ec", _COPY, "sh", folder, mount_path, *named]


def _installer(library: FilledEmptyDir, shim: Shim) -> PodEntry:
    """The init container that fills the volume: every Pod Security level and quota permits it."""
    command = library.command or _copy_command(library.folder or "", library.mount_path, shim)
    amounts = {"cpu": library.cpu, "memory": library.memory}
    return {
        "name": library.volume,
        "image": library.image,
        "imagePullPolicy": library.pull_policy,
        "command": list(command),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"limits": amounts, "requests": amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": library.volume, "mountPath": library.mount_path}],
    }


_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_architectures(model: Shim, problems: Problems) -> None:
    used = any(ARCH in repr(delivery) for delivery in model.delivery)
    message = f"has no effect: no delivery has {ARCH}" if not used else f"is missing: a delivery has {ARCH}"
    problems.when(used != bool(model.architectures), "architectures", message)


def _check_limit(model: Shim, problems: Problems) -> None:
    hint = "write `limit: env` if variables of the pod set it, `limit: plugin` if the device plugin does"
    problems.when(model.limit is None, "limit", "is missing: what sets the limit", hint)
    if model.limit == "env":
        limited = {name for value in model.env.values() for name in VARIABLE.findall(value)}
        message = "`limit: env` does not specify which limit the variables set"
        problems.when(not model.needs, "needs", message, "write `needs: [memory]`")
        for index, need in enumerate(model.needs):
            hint = f"give one a value with {{{need}}}, or write `limit: plugin`"
            message = f"no variable of `env` sets the limit of {need}"
            problems.when(need not in limited, ("needs", index), message, hint)
    own = {"state": model.state, "preload": model.preloaded, "audit": model.audit, "env": model.env}
    unused = [key for key, value in {**own, "envIfUnset": model.env_if_unset}.items() if value]
    if model.limit == "plugin" and unused and {*map(str, model.delivery)} <= {"none"}:
        message = f"`{unused[0]}` has no effect: without a delivery only the search path is set"
        problems.add((unused[0],), message, "add a delivery, or remove it")


def _check_deliveries(model: Shim, problems: Problems) -> None:
    sources = list(map(_source, model.delivery))
    kinds = [kind for kind, _ in sources]
    for index, kind in enumerate(kinds):
        problems.when(kind in kinds[:index], ("delivery", index), f"{kind} is listed twice")
    copied = any(isinstance(each, FilledEmptyDir) and each.folder is not None for _, each in sources)
    wrong, message = model.files and not copied, "has no effect: no delivery copies a folder"
    problems.when(wrong, "files", message, "add an emptyDir with `folder`")


def _check_state(model: Shim, problems: Problems) -> None:
    state, here = model.state, problems.at("state")
    if state is None:
        return
    for library in (volume for _, volume in map(_source, model.delivery) if volume is not None):
        message = f"the volume of the library is called {library.volume!r}, too"
        here.when(library.volume == state.volume, "volume", message)
        for mount_path in state.mounts:
            overlap = inside(mount_path, library.mount_path) or inside(library.mount_path, mount_path)
            message = f"{mount_path} and {library.mount_path}, of the library, overlap"
            here.when(overlap, ("mounts", mount_path), message)


def _check_loader(model: Shim, problems: Problems) -> None:
    path, preload, audit = model.search, model.preloaded, model.audit
    if path is not None:
        _check_search(model, path, problems)
    if preload is not None:
        empty = preload.file is None and not preload.prefix
        problems.when(empty, "preload", "nothing is preloaded", "write `prefix` or `file`, or remove it")
    for index, (kind, _) in enumerate(map(_source, model.delivery)):
        wrong = kind == "image" and preload is not None and preload.file is not None
        message, hint = (
            "an image volume brings folders, not the file of `preload`",
            "use another delivery, or `preload.prefix`",
        )
        problems.when(wrong, ("delivery", index), message, hint)
    seen: set[str] = set()
    for key, name, part in (
        ("libraryPath", "prefix", getattr(path, "prefix", ())),
        ("libraryPath", "imageDefault", getattr(path, "image_default", ())),
        ("preload", "prefix", getattr(preload, "prefix", ())),
        ("audit", "files", getattr(audit, "files", ())),
    ):
        for index, entry in enumerate(part):
            problems.when(entry in seen, (key, name, index), f"{entry} is listed twice")
            seen.add(entry)


def _check_search(model: Shim, path: LibraryPath, problems: Problems) -> None:
    here, left, variable = problems.at("libraryPath"), path.if_unset == "leave", path.variable
    if variable is not None:
        _check_name(variable, here.at("variable"))
        here.when(variable in model.env, "variable", f"{variable} is also in `env`", "write it in one place")
    own = path.image_default and (left or variable is not None)
    here.when(own, "imageDefault", "has no effect: the image's own value stays in force", "remove it")
    if left and variable is not None:
        here.add(("ifUnset",), "has no effect beside `variable`", "remove it")
    elif left and (model.preloaded, model.audit) == (None, None):
        message = "nothing makes the loader find the library in a container without LD_LIBRARY_PATH"
        here.add(("ifUnset",), message, "add `preload`, or write `ifUnset: write`")


def _check_env(model: Shim, problems: Problems) -> None:
    for section, variables in (("env", model.env), ("envIfUnset", model.env_if_unset)):
        for name, value in variables.items():
            here = problems.at(section, name)
            if section == "env":
                _check_variable(name, value, model, here)
            elif name != LD_AUDIT:
                _check_name(name, here)
            here.when("$(" in value, (), "the user decides the value of `$(…)`", "write the value itself")


def _check_variable(name: str, value: str, model: Shim, problems: Problems) -> None:
    _check_name(name.replace(INDEX, "0", 1), problems)
    wrong, hint = INDEX in value and INDEX not in name, f"write such as `{name}_{INDEX}`"
    problems.when(wrong, (), "{index} needs a variable for each device", hint)
    plain = model.env.get(name.replace(f"_{INDEX}", ""), value)
    message = f"the variable for all devices is {plain!r}, not {value!r}"
    problems.when(plain != value and INDEX not in value, (), message, "write the same in both")
    hint = f"write one of {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}"
    for placeholder in VARIABLE.findall(value):
        problems.when(placeholder not in PLACEHOLDERS, (), f"{{{placeholder}}} is not known", hint)
    problems.when(re.search("[{}]", VARIABLE.sub("", value)), (), "unmatched brace")


def _check_name(name: str, problems: Problems) -> None:
    if name in {LD_LIBRARY_PATH, LD_PRELOAD, LD_AUDIT, KEPT_LIBRARY_PATH}:
        problems.add((), f"{name} cannot be set here", "use `libraryPath`, `preload` or `audit`")
    elif name.endswith("VISIBLE_DEVICES"):
        message = f"{name} would override the device plugin's and grant access to other devices"
        problems.add((), message, "remove it")
    elif _ENV_NAME.fullmatch(name) is None:
        problems.add((), f"{name!r} is not a name of a variable", "use letters, digits and `_`")
