"""The rules for the shim of a document beyond its types; each rule yields the problems that it finds."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from webhook.mapping.document import schema_enforcement as schema
from webhook.mapping.document.problem import Path, Problem
from webhook.mapping.model.dynamic_loader import KEPT_LIBRARY_PATH, LD_LIBRARY_PATH, LD_PRELOAD
from webhook.quantity import QuantityError, parse_quantity

PLACEHOLDERS: Final = {
    "memory": "[1-9][0-9]*",
    "cores": "[1-9][0-9]?|100",
    "devices": "[1-9][0-9]*",
    "container": "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
}
"""The placeholders in the value of a variable, and patterns of what replaces them."""
PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DNS_LABEL: Final = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PATH_PART: Final = r"(?!\.{1,2}(?:/|\Z))[^/:;{}$\s\\]+"
_ABSOLUTE: Final = re.compile(rf"(?:/{_PATH_PART})+")
_RELATIVE: Final = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")


def shim_problems(model: schema.Shim, forms: Collection[str]) -> Iterator[Problem]:
    """Report everything that is wrong with a shim, with paths relative to it.

    Args:
        model: the part of the document.
        forms: the names of the vendor's forms.
    """
    for check in (_limit_problems, _delivery_problems, _state_problems, _loader_problems, _env_problems):
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
    unused = [key for key in ("state", "preload", "env") if getattr(model, key)]
    if model.limit == "plugin" and unused and all(delivery == "none" for delivery in model.delivery):
        yield Problem(
            f"`{unused[0]}` has no effect: without a delivery only the search path is set",
            (unused[0],),
            "add a delivery, or remove it",
        )


def _delivery_problems(model: schema.Shim) -> Iterator[Problem]:
    kinds: set[str] = set()
    if not model.delivery:
        yield Problem("no delivery is listed", ("delivery",), "write `delivery: [none]` if nothing is to be mounted")
    for index, delivery in enumerate(model.delivery):
        kind = "none" if delivery == "none" else "hostPath"
        if kind in kinds:
            yield Problem(f"{kind} is listed twice", ("delivery", index))
        kinds.add(kind)
        if delivery == "none":
            continue
        path: Path = ("delivery", index, "hostPath")
        yield from _volume_problems(delivery.host_path.volume, (*path, "volume"))
        yield from _path_problems(delivery.host_path.path, (*path, "path"))
        yield from _path_problems(delivery.host_path.mount_path, (*path, "mountPath"))


def _state_problems(model: schema.Shim) -> Iterator[Problem]:
    if model.state is None:
        return
    yield from _volume_problems(model.state.volume, ("state", "volume"))
    yield from _empty_dir_problems(model.state.empty_dir)
    if not model.state.mounts:
        yield Problem("the volume is mounted nowhere", ("state", "mounts"), "write `mounts: {/some/path: folder}`")
    for mount_path, sub_path in model.state.mounts.items():
        path: Path = ("state", "mounts", mount_path)
        yield from _path_problems(mount_path, path)
        if _RELATIVE.fullmatch(sub_path) is None:
            yield Problem(
                f"{sub_path!r} is not a folder inside the volume", path, "write a relative path such as `cache`"
            )
    for delivery in model.delivery:
        if delivery == "none":
            continue
        host = delivery.host_path
        if host.volume == model.state.volume:
            yield Problem(f"the volume of the library is called {host.volume!r}, too", ("state", "volume"))
        for mount_path in model.state.mounts:
            if inside(mount_path, host.mount_path) or inside(host.mount_path, mount_path):
                yield Problem(
                    f"{mount_path} and {host.mount_path}, of the library, overlap",
                    ("state", "mounts", mount_path),
                )


def inside(path: str, folder: str) -> bool:
    """Return whether a normalized path is the folder or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


def _loader_problems(model: schema.Shim) -> Iterator[Problem]:
    lists: list[tuple[str, str, list[str]]] = []
    if model.library_path is not None:
        lists.append(("libraryPath", "prefix", model.library_path.prefix))
        lists.append(("libraryPath", "imageDefault", model.library_path.image_default))
    if model.preload is not None:
        lists.append(("preload", "prefix", model.preload.prefix))
    seen: set[str] = set()
    for key, name, entries in lists:
        for index, entry in enumerate(entries):
            yield from _path_problems(entry, (key, name, index))
            if entry in seen:
                yield Problem(f"{entry} is listed twice", (key, name, index))
            seen.add(entry)


def _env_problems(model: schema.Shim) -> Iterator[Problem]:
    for name, value in model.env.items():
        path: Path = ("env", name)
        if name in {LD_LIBRARY_PATH, LD_PRELOAD, KEPT_LIBRARY_PATH}:
            yield Problem(
                f"{name} cannot be set here", path, "use `libraryPath` or `preload`, which keep the user's value"
            )
        elif name.endswith("VISIBLE_DEVICES"):
            yield Problem(
                f"{name} would override the device plugin's and grant access to other devices", path, "remove it"
            )
        elif _ENV_NAME.fullmatch(name) is None:
            yield Problem(f"{name!r} is not a name of a variable", path, "use letters, digits and `_`")
        for placeholder in PLACEHOLDER.findall(value):
            if placeholder not in PLACEHOLDERS:
                known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
                yield Problem(f"{{{placeholder}}} is not known", path, f"write one of {known}")
        if re.search("[{}]", PLACEHOLDER.sub("", value)):
            yield Problem("unmatched brace", path)
        if "$(" in value:
            yield Problem("the user decides the value of `$(…)`", path, "write the value itself")


def _volume_problems(name: str, path: Path) -> Iterator[Problem]:
    if _DNS_LABEL.fullmatch(name) is None:
        yield Problem(f"{name!r} is not a name of a volume", path, "use at most 63 of a-z, 0-9 and `-`")


def _path_problems(text: str, path: Path) -> Iterator[Problem]:
    if _ABSOLUTE.fullmatch(text) is None:
        hint = "begin with `/`; no `/` at the end, no `..`, `:`, `;`, `$`, blank or brace"
        yield Problem(f"{text!r} is not a plain absolute path", path, hint)


def _empty_dir_problems(empty_dir: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in empty_dir.items():
        path: Path = ("state", "emptyDir", key)
        if key == "sizeLimit":
            try:
                parse_quantity(value)
            except QuantityError as error:
                yield Problem(str(error), path, "write a size such as `64Mi`")
        elif key != "medium" or value not in {"", "Memory"}:
            yield Problem(f"an emptyDir has no {key}: {value}", path, "write `sizeLimit`, or `medium: Memory`")
