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

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic.alias_generators import to_camel

from webhook.mapping.document.problem import FieldPath, Problem, Problems
from webhook.mapping.model import schema
from webhook.mapping.notation import parse_unit
from webhook.quantity import Number, QuantityError, parse_quantity
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
PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_AMOUNTS: Final = frozenset({"memory", "cores"})  # a request may leave them without a value

INDEX: Final = "{index}"
ARCH: Final = "{arch}"
ARCH_LABEL: Final = "kubernetes.io/arch"
MAX_INDEXED: Final = 64
"""The most devices of a container for each of which a variable is written: nodes have up to 16."""

NOBODY: Final = 65534
"""The user of what copies a library: a volume is writable for every user."""

_COPY: Final = (
    'from=$1 to=$2; shift 2; cp -R "$from/." "$to"; for file; do '
    '[ -f "$to/$file" ] || { echo "$file is missing in $from of the image" >&2; exit 1; }; done'
)


def inside(path: str, folder: str) -> bool:
    """Return whether a normalized path is the folder or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


def has_mark(raw: bytes, marks: tuple[bytes, ...]) -> bool:
    """Return whether undecoded JSON has one of the marks of a delivery or a guard: fast, and never wrongly False."""
    for mark in marks:  # noqa: SIM110  (a generator takes three times as long)
        if mark in raw:
            return True
    return False


@dataclass(frozen=True)
class ShimVariable:
    """A variable that the shim reads, whose value may depend on the request.

    Attributes:
        template: the value; ``{memory}`` stands for memory per device in the shim's unit, rounded up, ``{cores}`` likewise,
            ``{devices}`` for the count of devices, ``{container}`` for the container's name.
    """

    name: str  # with `{index}`, one for each device, counted from 0
    template: str

    @cached_property
    def uses(self) -> frozenset[str]:
        """The placeholders in the template."""
        return frozenset(PLACEHOLDER.findall(self.template))

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
        parts = PLACEHOLDER.split(self.template)
        pattern = "".join(
            f"(?:{PLACEHOLDERS.get(part, '.*')})" if index % 2 else re.escape(part) for index, part in enumerate(parts)
        )
        return re.fullmatch(pattern, value, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A way in which the library reaches a container; ``none`` adds nothing.

    Attributes:
        library, mount_path: the volume that holds the library, which no container may write to, and where it is mounted.
        volumes, mounts: entries of the pod, including the writable state, and of the container.
        installer: the init container that fills the volume, with its name; None for a volume that has the library.
        marks: texts of which undecoded JSON contains one if it could collide: names of the volumes, last parts of the
            mount paths, or an escape, which may hide either.
    """

    kind: DeliveryKind  # the name in documents, in the namespace's annotation and in the status
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


NO_DELIVERY: Final = Delivery("none")


@dataclass(frozen=True, slots=True)
class Shim:
    """What a container with a share gets; made by `compile_shim` only."""

    document: schema.Shim
    mounted_by: tuple[str, str] | None  # label of the DaemonSets whose device plugin mounts the library, if it is known
    deliveries: tuple[Delivery, ...]  # in order of preference
    by_architecture: Mapping[str, tuple[Delivery, ...]]  # the default first; empty if they are alike
    library_path: tuple[str, ...]  # what `LD_LIBRARY_PATH` begins with
    leave_unset: bool
    preload: tuple[str, ...]  # what `LD_PRELOAD` begins with
    own_path: PodEntry | None  # the search path in a variable of its own; None without one
    covers: frozenset[tuple[str, str]]  # mounts, as path and volume, at a path that a guard may list
    variables: tuple[ShimVariable, ...]  # that the library reads, with that one and `LD_AUDIT`
    indexed: tuple[ShimVariable, ...]  # of these, those for each device
    if_unset: Mapping[str, str]  # variables, with values, that a container's own `env` may set otherwise
    memory_unit: Number  # bytes in which variables contain amounts
    cores_unit: Number  # percent, likewise
    names: frozenset[str]  # all variables that the shim may write; `*` in one stands for an index
    path_alone: PodEntry  # the entry for a container without `LD_LIBRARY_PATH`
    path_assumed: str  # the warning about it
    path_before_env_from: PodEntry  # the entry for a container that may take one from `envFrom`

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

    def values(self, request: Request, container: str) -> dict[str, str]:
        """Return the values of the variables for a settled request, without those for which it has no limit."""
        amounts = {"container": container, "devices": str(request.devices)}
        if isinstance(request.memory, Size):
            amounts["memory"] = str(-(-request.memory.bytes // self.memory_unit))
        if isinstance(request.cores, Percent):
            amounts["cores"] = str(-(-request.cores.value // self.cores_unit))
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


def compile_shim(model: schema.Shim, forms: Collection[str], problems: Problems) -> Shim:
    """Compile the shim of a document, whose forms have these names; the result is usable only without problems."""
    problems.extend(_architecture_problems(model), "shim")
    default = _in_architecture(model)
    checks = (_limit_problems, _delivery_problems, _state_problems, _loader_problems, _env_problems, _unit_problems)
    problems.extend((problem for check in checks for problem in check(default)), "shim")
    if model.mounted_by is not None and not re.fullmatch(r"[^=\s]+=[^=\s]+", model.mounted_by):
        problems.add(("shim", "mountedBy"), f"{model.mounted_by!r} is not a label with its value", "write key=value")
    for index, name in enumerate(model.forms or ()):
        if name not in forms:
            problems.unknown(("shim", "forms", index), "form", name, forms)
    return _shim(model)


def _in_architecture(model: schema.Shim, architecture: str | None = None) -> schema.Shim:
    """The shim on nodes of an architecture, by default of the first."""
    if not model.architectures:
        return model
    name = re.sub("[^a-z0-9]", "", architecture or model.architectures[0])
    deliveries: list[schema.Delivery] = [
        delivery
        if delivery == "none"
        else type(delivery).model_validate_json(delivery.model_dump_json(by_alias=True).replace(ARCH, name))
        for delivery in model.delivery
    ]
    return model.model_copy(update={"delivery": deliveries})


def _source(delivery: schema.Delivery) -> tuple[DeliveryKind, schema.DeliveryVolume | None]:
    """The kind of a delivery, and its volume."""
    if delivery == "none":
        return delivery, None
    ((name, volume),) = delivery
    return cast("DeliveryKind", to_camel(name)), volume


def _shim(model: schema.Shim) -> Shim:
    path = model.library_path or schema.LibraryPath.model_construct(prefix=[], image_default=[])
    prefix, whole_path = ":".join(path.prefix), ":".join((*path.prefix, *path.image_default))
    own_path = None if path.variable is None else {"name": path.variable, "value": prefix}
    written = {} if model.audit is None else {LD_AUDIT: ":".join(model.audit.files)}
    written |= {} if path.variable is None else {path.variable: prefix}
    variables = tuple(ShimVariable(*each) for each in (written | model.env).items())
    # Those of a document that is extended give way to the variables of the one that extends it.
    taken = re.compile("|".join(re.escape(each.pattern).replace(r"\*", "[0-9]+") for each in variables) or "(?!)")
    if_unset = {name: value for name, value in model.env_if_unset.items() if taken.fullmatch(name) is None}
    preload = () if model.preload is None else tuple(model.preload.prefix)
    needed = ((LD_PRELOAD, preload), (LD_LIBRARY_PATH, prefix and own_path is None))
    loader = [name for name, is_needed in needed if is_needed]
    by_architecture = {name: _deliveries(_in_architecture(model, name)) for name in model.architectures}
    deliveries = next(iter(by_architecture.values()), _deliveries(model))
    injected = deliveries if model.mode == "inject" else ()
    mounts = [(each.library, mount["mountPath"]) for each in injected for mount in each.mounts]
    key, _, value = (model.mounted_by or "").partition("=")
    return Shim(
        document=model,
        mounted_by=None if model.mounted_by is None else (key, value),
        deliveries=deliveries,
        by_architecture=by_architecture,
        library_path=tuple(path.prefix) if own_path is None else (),
        leave_unset=path.if_unset == "leave",
        preload=preload,
        own_path=own_path,
        covers=frozenset((PRELOAD_FILE, library) for library, path in mounts if path == PRELOAD_FILE),
        variables=variables,
        indexed=tuple(variable for variable in variables if variable.indexed),
        if_unset=if_unset,
        memory_unit=_unit(model.units.memory),
        cores_unit=_unit(model.units.cores),
        names=frozenset([*(variable.pattern for variable in variables), *if_unset, *loader]),
        path_alone={"name": LD_LIBRARY_PATH, "value": whole_path},
        path_assumed="LD_LIBRARY_PATH replaces the image's own, "
        f"assumed to be {':'.join(path.image_default) or 'empty'}: set it in the pod if the image needs another",
        path_before_env_from={"name": LD_LIBRARY_PATH, "value": f"{prefix}:{absolute(LD_LIBRARY_PATH)}"},
    )


def _unit(text: str) -> Number:
    try:
        return parse_unit(text)[0]
    except ValueError:
        return 1  # reported as a problem


def _deliveries(model: schema.Shim) -> tuple[Delivery, ...]:
    return tuple(_delivery(delivery, model) for delivery in model.delivery)


def _delivery(model: schema.Delivery, shim: schema.Shim) -> Delivery:
    kind, library = _source(model)
    if library is None:
        return NO_DELIVERY
    mount = {"name": library.volume, "mountPath": library.mount_path, "readOnly": True}
    folder = library.sub_path if isinstance(library, schema.ImageVolume) else None
    if folder is not None:
        mount["subPath"] = folder
    volumes: list[PodEntry] = [{"name": library.volume, **_volume_source(library)}]
    mounts: list[PodEntry] = [mount]
    if shim.preload is not None and shim.preload.file is not None:
        file = shim.preload.file if folder is None else f"{folder}/{shim.preload.file}"
        mounts.append({"name": library.volume, "mountPath": PRELOAD_FILE, "subPath": file, "readOnly": True})
    state = shim.state
    if state is not None:
        volumes.append({"name": state.volume, "emptyDir": dict(state.empty_dir)})
        mounts += [{"name": state.volume, "mountPath": at, "subPath": sub} for at, sub in state.mounts.items()]
    names = {volume["name"] for volume in volumes} | {posixpath.basename(mount["mountPath"]) for mount in mounts}
    marks = ("\\", *sorted(name for name in names if not any(other in name for other in names - {name})))
    installer = _installer(library, shim) if isinstance(library, schema.FilledEmptyDir) else None
    encoded = tuple(map(str.encode, marks))
    return Delivery(kind, library.volume, library.mount_path, tuple(volumes), tuple(mounts), installer, encoded)


def _volume_source(library: schema.DeliveryVolume) -> PodEntry:
    if isinstance(library, schema.HostPath):
        return {"hostPath": {"path": library.path, "type": library.type}}
    if isinstance(library, schema.ImageVolume):
        return {"image": {"reference": library.reference, "pullPolicy": library.pull_policy}}
    if isinstance(library, schema.FilledEmptyDir):
        return {"emptyDir": {"sizeLimit": library.size_limit}}
    attributes = {"volumeAttributes": dict(library.attributes)} if library.attributes else {}
    return {"csi": {"driver": library.driver, "readOnly": True, **attributes}}


def _copy_command(folder: str, mount_path: str, shim: schema.Shim) -> list[str]:
    """Copy the folder, then fail for each file that the mapping names and it does not have."""
    loaded = [*(shim.preload.prefix if shim.preload else ()), *(shim.audit.files if shim.audit else ())]
    files = [path.removeprefix(f"{mount_path}/") for path in loaded if path.startswith(f"{mount_path}/")]
    if shim.preload is not None and shim.preload.file is not None:
        files.append(shim.preload.file)
    named = dict.fromkeys(file for file in (*shim.files, *files) if re.fullmatch(_RELATIVE, file))
    return ["sh", "-ec", _COPY, "sh", folder, mount_path, *named]


def _installer(library: schema.FilledEmptyDir, shim: schema.Shim) -> PodEntry:
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
_PATH_PART: Final = r"(?!\.{1,2}(?:/|\Z))[^/:;{}$\s\\]+"
_RELATIVE: Final = rf"{_PATH_PART}(?:/{_PATH_PART})*"
_FOLDER_HINT: Final = "write a relative path such as `cache`"
_TEXTS: Final = {
    "volume": (
        r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        "a name of a volume",
        "use at most 63 of a-z, 0-9 and `-`",
    ),
    "path": (
        rf"(?:/{_PATH_PART})+",
        "a plain absolute path",
        "begin with `/`; no `/` at the end, no `..`, `:`, `;`, `$`, blank or brace",
    ),
    "image": (
        r"[a-zA-Z0-9][-a-zA-Z0-9._/:]*(?:@sha256:[0-9a-f]{64})?",
        "the name of an image",
        "write such as `registry.example/shim@sha256:…`",
    ),
    "folder": (_RELATIVE, "a folder of the image", _FOLDER_HINT),
    "state": (_RELATIVE, "a folder inside the volume", _FOLDER_HINT),
    "file": (_RELATIVE, "a file of the library's folder", "write a relative path such as `ld.so.preload`"),
}
"""By kind of text: what it has to look like, what it should be, and a hint."""


def _unlike(kind: str, text: str | None, *path: str | int) -> Iterator[Problem]:
    pattern, what, hint = _TEXTS[kind]
    if text is not None and re.fullmatch(pattern, text) is None:
        yield Problem(f"{text!r} is not {what}", path, hint)


def _architecture_problems(model: schema.Shim) -> Iterator[Problem]:
    for index, name in enumerate(model.architectures):
        if re.fullmatch("[a-z0-9]+", name) is None:
            hint = "write such as `amd64`"
            yield Problem(f"{name!r} is not an architecture of nodes", ("architectures", index), hint)
    for index, delivery in enumerate(model.delivery if model.architectures else ()):
        kind, volume = _source(delivery)
        if volume is not None and ARCH in f"{volume.volume} {volume.mount_path}":
            hint = "use it in paths and images that the library comes from"
            yield Problem(f"{ARCH} cannot be in `volume` or `mountPath`", ("delivery", index, kind), hint)
    if model.architectures and _in_architecture(model) == model:
        yield Problem(f"has no effect: no delivery has {ARCH}", ("architectures",), "remove it")


def _limit_problems(model: schema.Shim) -> Iterator[Problem]:
    if model.limit is None:
        hint = "write `limit: env` if variables of the pod set it, `limit: plugin` if the device plugin does"
        yield Problem("a shim needs a limit, and `limit` is missing", ("limit",), hint)
    if model.limit == "env":
        limited = {name for value in model.env.values() for name in PLACEHOLDER.findall(value)}
        if not model.needs:
            message = "`limit: env` does not specify which limit the variables set"
            yield Problem(message, ("needs",), "write `needs: [memory]`")
        for index, need in enumerate(model.needs):
            if need not in limited:
                hint = f"give one a value with {{{need}}}, or write `limit: plugin`"
                yield Problem(f"no variable of `env` sets the limit of {need}", ("needs", index), hint)
    own = {"state": model.state, "preload": model.preload, "audit": model.audit, "env": model.env}
    unused = [key for key, value in {**own, "envIfUnset": model.env_if_unset}.items() if value]
    if model.limit == "plugin" and unused and all(delivery == "none" for delivery in model.delivery):
        message = f"`{unused[0]}` has no effect: without a delivery only the search path is set"
        yield Problem(message, (unused[0],), "add a delivery, or remove it")


def _delivery_problems(model: schema.Shim) -> Iterator[Problem]:
    if not model.delivery:
        yield Problem("no delivery is listed", ("delivery",), "write `delivery: [none]` if nothing is to be mounted")
    sources = [_source(delivery) for delivery in model.delivery]
    for index, (kind, volume) in enumerate(sources):
        if kind in {other for other, _ in sources[:index]}:
            yield Problem(f"{kind} is listed twice", ("delivery", index))
        if volume is not None:
            yield from _volume_problems(volume, "delivery", index, kind)
    for index, file in enumerate(model.files):
        yield from _unlike("file", file, "files", index)
    copied = any(isinstance(each, schema.FilledEmptyDir) and each.folder is not None for _, each in sources)
    if model.files and not copied:
        yield Problem("has no effect: no delivery copies a folder", ("files",), "add an emptyDir with `folder`")


def _volume_problems(volume: schema.DeliveryVolume, *path: str | int) -> Iterator[Problem]:
    yield from _unlike("volume", volume.volume, *path, "volume")
    yield from _unlike("path", volume.mount_path, *path, "mountPath")
    if isinstance(volume, schema.HostPath):
        yield from _unlike("path", volume.path, *path, "path")
    if isinstance(volume, schema.ImageVolume):
        yield from _unlike("image", volume.reference, *path, "reference")
        yield from _unlike("folder", volume.sub_path, *path, "subPath")
    if isinstance(volume, schema.FilledEmptyDir):
        yield from _unlike("image", volume.image, *path, "image")
        if (volume.folder is None) == (volume.command is None):
            message = "has not exactly one of `folder` and `command`"
            yield Problem(message, path, "write the library's folder in the image as `folder`")
        yield from _unlike("path", volume.folder, *path, "folder")
        for key, amount in (("sizeLimit", volume.size_limit), ("cpu", volume.cpu), ("memory", volume.memory)):
            yield from _quantity_problems(amount, *path, key)


def _quantity_problems(text: str, *path: str | int) -> Iterator[Problem]:
    try:
        if parse_quantity(text) <= 0:
            yield Problem(f"{text} is nothing", path, "write an amount such as `64Mi`")
    except QuantityError as error:
        yield Problem(str(error), path, "write an amount such as `64Mi`")


def _state_problems(model: schema.Shim) -> Iterator[Problem]:
    state = model.state
    if state is None:
        return
    yield from _unlike("volume", state.volume, "state", "volume")
    yield from _empty_dir_problems(state.empty_dir)
    if not state.mounts:
        yield Problem("the volume is mounted nowhere", ("state", "mounts"), "write `mounts: {/some/path: folder}`")
    for mount_path, sub_path in state.mounts.items():
        yield from _unlike("path", mount_path, "state", "mounts", mount_path)
        yield from _unlike("state", sub_path, "state", "mounts", mount_path)
    for library in (volume for _, volume in map(_source, model.delivery) if volume is not None):
        if library.volume == state.volume:
            yield Problem(f"the volume of the library is called {library.volume!r}, too", ("state", "volume"))
        for mount_path in state.mounts:
            if inside(mount_path, library.mount_path) or inside(library.mount_path, mount_path):
                message = f"{mount_path} and {library.mount_path}, of the library, overlap"
                yield Problem(message, ("state", "mounts", mount_path))


def _empty_dir_problems(empty_dir: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in empty_dir.items():
        if key == "sizeLimit":
            yield from _quantity_problems(value, "state", "emptyDir", key)
        elif key != "medium" or value not in {"", "Memory"}:
            hint = "write `sizeLimit`, or `medium: Memory`"
            yield Problem(f"an emptyDir has no {key}: {value}", ("state", "emptyDir", key), hint)
    if "sizeLimit" not in empty_dir:
        yield Problem("the volume has no bound", ("state", "emptyDir"), "write `emptyDir: {sizeLimit: 64Mi}`")


def _loader_problems(model: schema.Shim) -> Iterator[Problem]:
    path, preload = model.library_path, model.preload
    if path is not None:
        yield from _library_path_problems(model, path)
    if preload is not None and preload.file is None and not preload.prefix:
        yield Problem("nothing is preloaded", ("preload",), "write `prefix` or `file`, or remove it")
    if preload is not None and preload.file is not None:
        yield from _unlike("file", preload.file, "preload", "file")
        for index, (kind, _) in enumerate(map(_source, model.delivery)):
            if kind == "image":
                message = "an image volume brings folders, not the file of `preload`"
                yield Problem(message, ("delivery", index), "use another delivery, or `preload.prefix`")
    seen: set[str] = set()
    for key, name, entries in (
        ("libraryPath", "prefix", path.prefix if path else ()),
        ("libraryPath", "imageDefault", path.image_default if path else ()),
        ("preload", "prefix", preload.prefix if preload else ()),
        ("audit", "files", model.audit.files if model.audit else ()),
    ):
        for index, entry in enumerate(entries):
            plain = entry.replace("/$LIB/", "/lib/") if key == "preload" else entry
            yield from _unlike("path", plain, key, name, index)
            if entry in seen:
                yield Problem(f"{entry} is listed twice", (key, name, index))
            seen.add(entry)


def _library_path_problems(model: schema.Shim, path: schema.LibraryPath) -> Iterator[Problem]:
    left = path.if_unset == "leave"
    if path.variable is not None:
        yield from _name_problems(path.variable, ("libraryPath", "variable"))
        if path.variable in model.env:
            yield Problem(f"{path.variable} is also in `env`", ("libraryPath", "variable"), "write it in one place")
    if path.image_default and (path.variable is not None or left):
        message = "has no effect: the image's own value stays in force"
        yield Problem(message, ("libraryPath", "imageDefault"), "remove it")
    if left and path.variable is not None:
        yield Problem("has no effect beside `variable`", ("libraryPath", "ifUnset"), "remove it")
    elif left and model.preload is None and model.audit is None:
        message = "nothing makes the loader find the library in a container without LD_LIBRARY_PATH"
        yield Problem(message, ("libraryPath", "ifUnset"), "add `preload`, or write `ifUnset: write`")


def _unit_problems(model: schema.Shim) -> Iterator[Problem]:
    for key, text, sized in (("memory", model.units.memory, True), ("cores", model.units.cores, False)):
        hint = "write a size such as `1Mi`" if sized else "write a percentage of a device such as `1%`"
        try:
            if parse_unit(text)[1] is not sized:
                yield Problem(f"{text} is not a unit of {key}", ("units", key), hint)
        except ValueError as error:
            yield Problem(str(error).partition(": write")[0], ("units", key), hint)


def _env_problems(model: schema.Shim) -> Iterator[Problem]:
    for section, variables in (("env", model.env), ("envIfUnset", model.env_if_unset)):
        for name, value in variables.items():
            if section == "env":
                yield from _variable_problems(name, value, model)
            elif name != LD_AUDIT:
                yield from _name_problems(name, (section, name))
            if "$(" in value:
                yield Problem("the user decides the value of `$(…)`", (section, name), "write the value itself")


def _variable_problems(name: str, value: str, model: schema.Shim) -> Iterator[Problem]:
    path: FieldPath = ("env", name)
    yield from _name_problems(name.replace(INDEX, "0", 1), path)
    if INDEX in value and INDEX not in name:
        yield Problem("{index} needs a variable for each device", path, f"write such as `{name}_{INDEX}`")
    plain = model.env.get(name.replace(f"_{INDEX}", ""), value)
    if plain != value and INDEX not in value:
        yield Problem(f"the variable for all devices is {plain!r}, not {value!r}", path, "write the same in both")
    for placeholder in PLACEHOLDER.findall(value):
        if placeholder not in PLACEHOLDERS:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            yield Problem(f"{{{placeholder}}} is not known", path, f"write one of {known}")
    if re.search("[{}]", PLACEHOLDER.sub("", value)):
        yield Problem("unmatched brace", path)


def _name_problems(name: str, path: FieldPath) -> Iterator[Problem]:
    if name in {LD_LIBRARY_PATH, LD_PRELOAD, LD_AUDIT, KEPT_LIBRARY_PATH}:
        yield Problem(f"{name} cannot be set here", path, "use `libraryPath`, `preload` or `audit`")
    elif name.endswith("VISIBLE_DEVICES"):
        yield Problem(f"{name} would override the device plugin's and grant access to other devices", path, "remove it")
    elif _ENV_NAME.fullmatch(name) is None:
        yield Problem(f"{name!r} is not a name of a variable", path, "use letters, digits and `_`")
