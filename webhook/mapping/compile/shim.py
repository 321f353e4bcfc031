"""Compiles the shim of a document, or reports what is wrong with it."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import starmap
from typing import Final

from webhook.mapping.document import schema
from webhook.mapping.document.problem import FieldPath, Problem, Problems
from webhook.mapping.model.shim import (
    INDEX,
    KEPT_LIBRARY_PATH,
    LD_AUDIT,
    LD_LIBRARY_PATH,
    LD_PRELOAD,
    NO_DELIVERY,
    PLACEHOLDER,
    PLACEHOLDERS,
    PRELOAD_FILE,
    Delivery,
    DeliveryKind,
    PodEntry,
    Shim,
    ShimVariable,
    absolute,
    inside,
)
from webhook.mapping.notation import parse_unit
from webhook.quantity import Number, QuantityError, parse_quantity

ARCH: Final = "{arch}"
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DNS_LABEL: Final = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PATH_PART: Final = r"(?!\.{1,2}(?:/|\Z))[^/:;{}$\s\\]+"
_ABSOLUTE: Final = re.compile(rf"(?:/{_PATH_PART})+")
_IMAGE: Final = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9._/:]*(?:@sha256:[0-9a-f]{64})?")
_RELATIVE_HINT: Final = "write a relative path such as `cache`"
_RELATIVE: Final = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")
_FILE_HINT: Final = "write a relative path such as `ld.so.preload`"
_LIB: Final = "/$LIB/"


def compile_shim(model: schema.Shim, forms: Collection[str], problems: Problems) -> Shim:
    """Compile the shim of a document; the result is usable only without problems.

    Args:
        model: the part of the document.
        forms: the names of the vendor's forms.
        problems: collects problems.
    """
    problems.extend(_architecture_problems(model), "shim")
    problems.extend(_problems(_in_architecture(model), forms), "shim")
    return _shim(model)


def _problems(model: schema.Shim, forms: Collection[str]) -> Iterator[Problem]:
    """Report everything that is wrong with a shim, with paths relative to it."""
    for check in (
        _limit_problems,
        _delivery_problems,
        _state_problems,
        _loader_problems,
        _env_problems,
        _unit_problems,
    ):
        yield from check(model)
    if model.mounted_by is not None and not re.fullmatch(r"[^=\s]+=[^=\s]+", model.mounted_by):
        yield Problem(f"{model.mounted_by!r} is not a label with its value", ("mountedBy",), "write key=value")
    for index, name in enumerate(model.forms or ()):
        if name not in forms:
            yield Problem(f"no form is called {name!r}", ("forms", index), f"forms are {', '.join(forms)}")


def _limit_problems(model: schema.Shim) -> Iterator[Problem]:
    if model.limit is None:
        yield Problem(
            "a shim needs a limit, and `limit` is missing",
            ("limit",),
            "write `limit: env` if variables of the pod set it, `limit: plugin` if the device plugin does",
        )
    if model.limit == "env":
        limited = {name for value in model.env.values() for name in PLACEHOLDER.findall(value)}
        if not model.needs:
            yield Problem(
                "`limit: env` does not specify which limit the variables set", ("needs",), "write `needs: [memory]`"
            )
        for index, need in enumerate(model.needs):
            if need not in limited:
                yield Problem(
                    f"no variable of `env` sets the limit of {need}",
                    ("needs", index),
                    f"give one a value with {{{need}}}, or write `limit: plugin`",
                )
    own = {"state": model.state, "preload": model.preload, "audit": model.audit, "env": model.env}
    unused = [key for key, value in {**own, "envIfUnset": model.env_if_unset}.items() if value]
    if model.limit == "plugin" and unused and all(delivery == "none" for delivery in model.delivery):
        yield Problem(
            f"`{unused[0]}` has no effect: without a delivery only the search path is set",
            (unused[0],),
            "add a delivery, or remove it",
        )


def _delivery_problems(model: schema.Shim) -> Iterator[Problem]:
    kinds: set[str] = set()
    copies = False
    if not model.delivery:
        yield Problem("no delivery is listed", ("delivery",), "write `delivery: [none]` if nothing is to be mounted")
    for index, delivery in enumerate(model.delivery):
        kind, volume = _source(delivery)
        if kind in kinds:
            yield Problem(f"{kind} is listed twice", ("delivery", index))
        kinds.add(kind)
        copies = copies or (isinstance(volume, schema.FilledEmptyDir) and volume.folder is not None)
        if volume is None:
            continue
        path: FieldPath = ("delivery", index, kind)
        yield from _volume_problems(volume.volume, (*path, "volume"))
        yield from _path_problems(volume.mount_path, (*path, "mountPath"))
        yield from _source_problems(volume, path)
    for index, file in enumerate(model.files):
        if _RELATIVE.fullmatch(file) is None:
            yield Problem(f"{file!r} is not a file of the library's folder", ("files", index), _FILE_HINT)
    if model.files and not copies:
        yield Problem("has no effect: no delivery copies a folder", ("files",), "add an emptyDir with `folder`")


def _source_problems(volume: schema.DeliveryVolume, path: FieldPath) -> Iterator[Problem]:
    match volume:
        case schema.HostPath():
            yield from _path_problems(volume.path, (*path, "path"))
        case schema.ImageVolume():
            yield from _image_problems(volume.reference, (*path, "reference"))
            if volume.sub_path is not None and _RELATIVE.fullmatch(volume.sub_path) is None:
                yield Problem(f"{volume.sub_path!r} is not a folder of the image", (*path, "subPath"), _RELATIVE_HINT)
        case schema.CsiVolume():
            pass
        case schema.FilledEmptyDir():
            yield from _image_problems(volume.image, (*path, "image"))
            if (volume.folder is None) == (volume.command is None):
                message = "has not exactly one of `folder` and `command`"
                yield Problem(message, path, "write the library's folder in the image as `folder`")
            if volume.folder is not None:
                yield from _path_problems(volume.folder, (*path, "folder"))
            for key, amount in (("sizeLimit", volume.size_limit), ("cpu", volume.cpu), ("memory", volume.memory)):
                yield from _quantity_problems(amount, (*path, key))


def _source(delivery: schema.Delivery) -> tuple[DeliveryKind, schema.DeliveryVolume | None]:
    """The kind of a delivery, and its volume."""
    match delivery:
        case schema.HostPathDelivery():
            return "hostPath", delivery.host_path
        case schema.ImageDelivery():
            return "image", delivery.image
        case schema.EmptyDirDelivery():
            return "emptyDir", delivery.empty_dir
        case schema.CsiDelivery():
            return "csi", delivery.csi
        case "none":
            return "none", None


def _image_problems(reference: str, path: FieldPath) -> Iterator[Problem]:
    if _IMAGE.fullmatch(reference) is None:
        yield Problem(
            f"{reference!r} is not the name of an image", path, "write such as `registry.example/shim@sha256:…`"
        )


def _quantity_problems(text: str, path: FieldPath) -> Iterator[Problem]:
    try:
        positive = parse_quantity(text) > 0
    except QuantityError as error:
        yield Problem(str(error), path, "write an amount such as `64Mi`")
        return
    if not positive:
        yield Problem(f"{text} is nothing", path, "write an amount such as `64Mi`")


def _state_problems(model: schema.Shim) -> Iterator[Problem]:
    if model.state is None:
        return
    yield from _volume_problems(model.state.volume, ("state", "volume"))
    yield from _empty_dir_problems(model.state.empty_dir)
    if not model.state.mounts:
        yield Problem("the volume is mounted nowhere", ("state", "mounts"), "write `mounts: {/some/path: folder}`")
    for mount_path, sub_path in model.state.mounts.items():
        path: FieldPath = ("state", "mounts", mount_path)
        yield from _path_problems(mount_path, path)
        if _RELATIVE.fullmatch(sub_path) is None:
            yield Problem(f"{sub_path!r} is not a folder inside the volume", path, _RELATIVE_HINT)
    for _, library in map(_source, model.delivery):
        if library is None:
            continue
        if library.volume == model.state.volume:
            yield Problem(f"the volume of the library is called {library.volume!r}, too", ("state", "volume"))
        for mount_path in model.state.mounts:
            if inside(mount_path, library.mount_path) or inside(library.mount_path, mount_path):
                yield Problem(
                    f"{mount_path} and {library.mount_path}, of the library, overlap",
                    ("state", "mounts", mount_path),
                )


def _loader_problems(model: schema.Shim) -> Iterator[Problem]:
    lists: list[tuple[str, str, list[str]]] = []
    if model.library_path is not None:
        lists.append(("libraryPath", "prefix", model.library_path.prefix))
        lists.append(("libraryPath", "imageDefault", model.library_path.image_default))
        yield from _library_path_problems(model, model.library_path)
    if model.preload is not None:
        lists.append(("preload", "prefix", model.preload.prefix))
        yield from _preload_problems(model.preload)
        for index, (kind, _) in enumerate(map(_source, model.delivery) if model.preload.file is not None else ()):
            if kind == "image":
                message = "an image volume brings folders, not the file of `preload`"
                yield Problem(message, ("delivery", index), "use another delivery, or `preload.prefix`")
    if model.audit is not None:
        lists.append(("audit", "files", model.audit.files))
    seen: set[str] = set()
    for key, name, entries in lists:
        for index, entry in enumerate(entries):
            yield from _path_problems(entry.replace(_LIB, "/lib/") if key == "preload" else entry, (key, name, index))
            if entry in seen:
                yield Problem(f"{entry} is listed twice", (key, name, index))
            seen.add(entry)


def _library_path_problems(model: schema.Shim, path: schema.LibraryPath) -> Iterator[Problem]:
    if path.variable is not None:
        yield from _name_problems(path.variable, ("libraryPath", "variable"))
        if path.variable in model.env:
            yield Problem(f"{path.variable} is also in `env`", ("libraryPath", "variable"), "write it in one place")
    if path.image_default and (path.variable is not None or path.if_unset == "leave"):
        yield Problem(
            "has no effect: the image's own value stays in force", ("libraryPath", "imageDefault"), "remove it"
        )
    if path.if_unset == "leave" and path.variable is not None:
        yield Problem("has no effect beside `variable`", ("libraryPath", "ifUnset"), "remove it")
    elif path.if_unset == "leave" and model.preload is None and model.audit is None:
        yield Problem(
            "nothing makes the loader find the library in a container without LD_LIBRARY_PATH",
            ("libraryPath", "ifUnset"),
            "add `preload`, or write `ifUnset: write`",
        )


def _preload_problems(preload: schema.Preload) -> Iterator[Problem]:
    if preload.file is None:
        if not preload.prefix:
            yield Problem("nothing is preloaded", ("preload",), "write `prefix` or `file`, or remove it")
    elif _RELATIVE.fullmatch(preload.file) is None:
        yield Problem(f"{preload.file!r} is not a file of the library's folder", ("preload", "file"), _FILE_HINT)


def _unit_problems(model: schema.Shim) -> Iterator[Problem]:
    for key, text, sized in (("memory", model.units.memory, True), ("cores", model.units.cores, False)):
        hint = "write a size such as `1Mi`" if sized else "write a percentage of a device such as `1%`"
        try:
            fits = parse_unit(text)[1] is sized
        except ValueError as error:
            yield Problem(str(error).partition(": write")[0], ("units", key), hint)
            continue
        if not fits:
            yield Problem(f"{text} is not a unit of {key}", ("units", key), hint)


def _env_problems(model: schema.Shim) -> Iterator[Problem]:
    for name, value in model.env.items():
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
        yield from _reference_problems(value, path)
    for name, value in model.env_if_unset.items():
        path = ("envIfUnset", name)
        if name != LD_AUDIT:
            yield from _name_problems(name, path)
        yield from _reference_problems(value, path)


def _reference_problems(value: str, path: FieldPath) -> Iterator[Problem]:
    if "$(" in value:
        yield Problem("the user decides the value of `$(…)`", path, "write the value itself")


def _name_problems(name: str, path: FieldPath) -> Iterator[Problem]:
    if name in {LD_LIBRARY_PATH, LD_PRELOAD, LD_AUDIT, KEPT_LIBRARY_PATH}:
        hint = "use `libraryPath`, `preload` or `audit`"
        yield Problem(f"{name} cannot be set here", path, hint)
    elif name.endswith("VISIBLE_DEVICES"):
        yield Problem(f"{name} would override the device plugin's and grant access to other devices", path, "remove it")
    elif _ENV_NAME.fullmatch(name) is None:
        yield Problem(f"{name!r} is not a name of a variable", path, "use letters, digits and `_`")


def _volume_problems(name: str, path: FieldPath) -> Iterator[Problem]:
    if _DNS_LABEL.fullmatch(name) is None:
        yield Problem(f"{name!r} is not a name of a volume", path, "use at most 63 of a-z, 0-9 and `-`")


def _path_problems(text: str, path: FieldPath) -> Iterator[Problem]:
    if _ABSOLUTE.fullmatch(text) is None:
        hint = "begin with `/`; no `/` at the end, no `..`, `:`, `;`, `$`, blank or brace"
        yield Problem(f"{text!r} is not a plain absolute path", path, hint)


def _empty_dir_problems(empty_dir: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in empty_dir.items():
        path: FieldPath = ("state", "emptyDir", key)
        if key == "sizeLimit":
            yield from _quantity_problems(value, path)
        elif key != "medium" or value not in {"", "Memory"}:
            yield Problem(f"an emptyDir has no {key}: {value}", path, "write `sizeLimit`, or `medium: Memory`")
    if "sizeLimit" not in empty_dir:
        yield Problem("the volume has no bound", ("state", "emptyDir"), "write `emptyDir: {sizeLimit: 64Mi}`")


def _architecture_problems(model: schema.Shim) -> Iterator[Problem]:
    for index, name in enumerate(model.architectures):
        if re.fullmatch("[a-z0-9]+", name) is None:
            yield Problem(
                f"{name!r} is not an architecture of nodes", ("architectures", index), "write such as `amd64`"
            )
    for index, delivery in enumerate(model.delivery if model.architectures else ()):
        kind, volume = _source(delivery)
        if volume is not None and ARCH in f"{volume.volume} {volume.mount_path}":
            hint = "use it in paths and images that the library comes from"
            yield Problem(f"{ARCH} cannot be in `volume` or `mountPath`", ("delivery", index, kind), hint)
    if model.architectures and _in_architecture(model) == model:
        yield Problem(f"has no effect: no delivery has {ARCH}", ("architectures",), "remove it")


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


def _shim(model: schema.Shim) -> Shim:
    library_path = model.library_path or schema.LibraryPath.model_construct(prefix=[], image_default=[])
    prefix = ":".join(library_path.prefix)
    own_path = None if library_path.variable is None else {"name": library_path.variable, "value": prefix}
    preload = () if model.preload is None else tuple(model.preload.prefix)
    audit = {} if model.audit is None else {LD_AUDIT: ":".join(model.audit.files)}
    own = [] if own_path is None else [own_path.values()]
    variables = tuple(starmap(_variable, [*audit.items(), *own, *model.env.items()]))
    # Those of a document that is extended give way to the variables of the one that extends it.
    written = re.compile("|".join(re.escape(each.pattern).replace(r"\*", "[0-9]+") for each in variables) or "(?!)")
    if_unset = {name: value for name, value in model.env_if_unset.items() if written.fullmatch(name) is None}
    names = {variable.pattern for variable in variables}.union(if_unset, [LD_PRELOAD] if preload else ())
    if prefix and own_path is None:
        names.add(LD_LIBRARY_PATH)
    by_architecture = {
        name: tuple(_delivery(delivery, model) for delivery in _in_architecture(model, name).delivery)
        for name in model.architectures
    }
    deliveries = next(iter(by_architecture.values()), tuple(_delivery(delivery, model) for delivery in model.delivery))
    covers = [
        (PRELOAD_FILE, each.library)
        for each in deliveries
        if any(mount["mountPath"] == PRELOAD_FILE for mount in each.mounts)
    ]
    key, _, value = (model.mounted_by or "").partition("=")
    return Shim(
        document=model,
        mounted_by=None if model.mounted_by is None else (key, value),
        deliveries=deliveries,
        by_architecture=by_architecture,
        library_path=tuple(library_path.prefix) if own_path is None else (),
        leave_unset=library_path.if_unset == "leave",
        preload=preload,
        own_path=own_path,
        covers=frozenset(covers if model.mode == "inject" else ()),
        variables=variables,
        indexed=tuple(variable for variable in variables if variable.indexed),
        if_unset=if_unset,
        memory_unit=_unit(model.units.memory),
        cores_unit=_unit(model.units.cores),
        names=frozenset(names),
        path_alone={"name": LD_LIBRARY_PATH, "value": ":".join((*library_path.prefix, *library_path.image_default))},
        path_assumed="LD_LIBRARY_PATH replaces the image's own, "
        f"assumed to be {':'.join(library_path.image_default) or 'empty'}: set it in the pod if the image needs another",
        path_before_env_from={"name": LD_LIBRARY_PATH, "value": f"{prefix}:{absolute(LD_LIBRARY_PATH)}"},
    )


def _unit(text: str) -> Number:
    try:
        return parse_unit(text)[0]
    except ValueError:
        return 1  # reported as a problem


def _variable(name: str, template: str) -> ShimVariable:
    indexed = INDEX in name
    uses = frozenset(PLACEHOLDER.findall(template))
    return ShimVariable(name, template, uses, indexed, name.replace(INDEX, "*") if indexed else name)


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
        mounts += [
            {"name": state.volume, "mountPath": mount_path, "subPath": sub_path}
            for mount_path, sub_path in state.mounts.items()
        ]
    names = {volume["name"] for volume in volumes} | {posixpath.basename(mount["mountPath"]) for mount in mounts}
    marks = ("\\", *sorted(name for name in names if not any(other in name for other in names - {name})))
    return Delivery(
        kind,
        library.volume,
        library.mount_path,
        tuple(volumes),
        tuple(mounts),
        _installer(library, shim) if isinstance(library, schema.FilledEmptyDir) else None,
        tuple(map(str.encode, marks)),
    )


def _volume_source(library: schema.DeliveryVolume) -> PodEntry:
    match library:
        case schema.HostPath():
            return {"hostPath": {"path": library.path, "type": library.type}}
        case schema.ImageVolume():
            return {"image": {"reference": library.reference, "pullPolicy": library.pull_policy}}
        case schema.FilledEmptyDir():
            return {"emptyDir": {"sizeLimit": library.size_limit}}
        case schema.CsiVolume():
            attributes = {"volumeAttributes": dict(library.attributes)} if library.attributes else {}
            return {"csi": {"driver": library.driver, "readOnly": True, **attributes}}


NOBODY: Final = 65534
"""The user of what copies a library: a volume is writable for every user."""

_COPY: Final = (
    'from=$1 to=$2; shift 2; cp -R "$from/." "$to"; for file; do '
    '[ -f "$to/$file" ] || { echo "$file is missing in $from of the image" >&2; exit 1; }; done'
)


def _copy_command(folder: str, mount_path: str, shim: schema.Shim) -> list[str]:
    """Copy the folder, then fail for each file that the mapping names and it does not have."""
    loaded = [*(shim.preload.prefix if shim.preload else ()), *(shim.audit.files if shim.audit else ())]
    files = [path.removeprefix(f"{mount_path}/") for path in loaded if path.startswith(f"{mount_path}/")]
    if shim.preload is not None and shim.preload.file is not None:
        files.append(shim.preload.file)
    named = dict.fromkeys(file for file in (*shim.files, *files) if _RELATIVE.fullmatch(file))
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
