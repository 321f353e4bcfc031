"""The shim of a vendor, compiled: volumes that bring the library into a container, variables that make the loader find it.

A shim needs a limit, from variables of its own or from the device plugin. It never writes a ``*_VISIBLE_DEVICES``: a pod's
variable overrides the device plugin's and would grant access to all devices.
"""

import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from webhook.mapping.document import schema_enforcement as schema
from webhook.mapping.document.problem import Path, Problem
from webhook.mapping.model.dynamic_loader import LD_LIBRARY_PATH, LD_PRELOAD, absolute
from webhook.mapping.model.shim_rules import PLACEHOLDER, PLACEHOLDERS, shim_problems
from webhook.quantity import MIB
from webhook.request import ALL, UNLIMITED, Percent, Request, Size

Entry: TypeAlias = Mapping[str, Any]
"""An entry of a list in a pod, as JSON data; shared between requests, so never changed."""
Need: TypeAlias = Literal["memory", "cores"]


_AMOUNTS: Final = frozenset({"memory", "cores"})
"""The placeholders that a request may leave without a value."""


@dataclass(frozen=True, slots=True)
class ShimVariable:
    """A variable that the shim reads, whose value may depend on the request.

    Attributes:
        template: the value; ``{memory}`` stands for MiB per device, rounded up, ``{cores}`` for percent per device, rounded
            up, ``{devices}`` for the count of devices, ``{container}`` for the container's name.
        uses: the placeholders in the template.
    """

    name: str
    template: str
    uses: frozenset[str]

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
        marks: texts of which undecoded JSON contains one if it could collide: names of the volumes, last parts of the
            mount paths, or an escape, which may hide either.
    """

    kind: Literal["hostPath", "none"]
    library: str = ""
    mount_path: str = ""
    volumes: tuple[Entry, ...] = ()
    mounts: tuple[Entry, ...] = ()
    marks: tuple[bytes, ...] = ()

    def meets(self, raw: bytes) -> bool:
        """Return whether an undecoded list of volumes or mounts may hold one of its names or paths.

        Like `WatchedVariables.among`, a fast check without false negatives.
        """
        text = bytes(raw)
        for mark in self.marks:  # noqa: SIM110  (a generator takes three times as long)
            if mark in text:
                return True
        return False


NO_DELIVERY: Final = Delivery("none")


@dataclass(frozen=True, slots=True)
class Shim:
    """What a container with a share gets; made by `compile_shim` only.

    Attributes:
        mode: with ``plugin`` the cluster's device plugin mounts the library, and nothing is injected.
        mounted_by: label of the DaemonSets whose device plugin mounts the library; None if none is known.
        limit: who sets the limit: ``env``: the `variables`; ``plugin``: the device plugin.
        forms: the forms of requests that get the shim; None: all.
        needs: dimensions that must have a limit that can be written.
        deny_unmet: a request without them is denied, not left to the device plugin.
        deliveries: in order of preference.
        library_path: directories that ``LD_LIBRARY_PATH`` begins with.
        image_default: directories in place of the image's own, which a webhook cannot see.
        preload: files that ``LD_PRELOAD`` begins with.
        variables: the variables that the library reads.
        names: all variables that the shim may write.
        path_alone: the entry for a container without ``LD_LIBRARY_PATH``.
        path_assumed: the warning about it, for it replaces the image's own.
        path_before_env_from: the entry for a container that may take one from ``envFrom``.
        preload_alone: the entry for a container without ``LD_PRELOAD``.
    """

    mode: Literal["inject", "plugin"]
    mounted_by: tuple[str, str] | None
    limit: Literal["env", "plugin"]
    forms: frozenset[str] | None
    needs: tuple[Need, ...]
    deny_unmet: bool
    deliveries: tuple[Delivery, ...]
    library_path: tuple[str, ...]
    image_default: tuple[str, ...]
    preload: tuple[str, ...]
    variables: tuple[ShimVariable, ...]
    names: frozenset[str]
    path_alone: Entry
    path_assumed: str
    path_before_env_from: Entry
    preload_alone: Entry

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
            amounts["memory"] = str(-(-request.memory.bytes // MIB))
        if request.cores is not UNLIMITED and request.cores is not None:
            amounts["cores"] = str(-(-request.cores.value // 1))
        missing = _AMOUNTS.difference(amounts)
        return {
            variable.name: variable.template.format_map(amounts) if variable.uses else variable.template
            for variable in self.variables
            if not missing or variable.uses.isdisjoint(missing)
        }


def compile_shim(model: schema.Shim, forms: Collection[str], path: Path) -> tuple[Shim, list[Problem]]:
    """Compile the shim of a document; the result is usable only if there are no problems.

    Args:
        model: the part of the document.
        forms: the names of the vendor's forms.
        path: its path in the document.
    """
    problems = [replace(problem, path=(*path, *problem.path)) for problem in shim_problems(model, forms)]
    return _shim(model), problems


def _shim(model: schema.Shim) -> Shim:
    library_path = model.library_path or schema.LibraryPath.model_construct(prefix=[], image_default=[])
    preload = tuple(model.preload.prefix) if model.preload is not None else ()
    prefix = ":".join(library_path.prefix)
    variables = tuple(
        ShimVariable(name, template, frozenset(PLACEHOLDER.findall(template))) for name, template in model.env.items()
    )
    names = {variable.name for variable in variables}
    if prefix:
        names.add(LD_LIBRARY_PATH)
    if preload:
        names.add(LD_PRELOAD)
    key, _, value = (model.mounted_by or "").partition("=")
    return Shim(
        mode=model.mode,
        mounted_by=None if model.mounted_by is None else (key, value),
        limit=model.limit or "plugin",
        forms=None if model.forms is None else frozenset(model.forms),
        needs=tuple(model.needs),
        deny_unmet=model.unmet == "deny",
        deliveries=tuple(_delivery(delivery, model.state) for delivery in model.delivery),
        library_path=tuple(library_path.prefix),
        image_default=tuple(library_path.image_default),
        preload=preload,
        variables=variables,
        names=frozenset(names),
        path_alone={"name": LD_LIBRARY_PATH, "value": ":".join((*library_path.prefix, *library_path.image_default))},
        path_assumed="LD_LIBRARY_PATH replaces the image's own, "
        f"assumed to be {':'.join(library_path.image_default) or 'empty'}: set it in the pod if the image needs another",
        path_before_env_from={"name": LD_LIBRARY_PATH, "value": f"{prefix}:{absolute(LD_LIBRARY_PATH)}"},
        preload_alone={"name": LD_PRELOAD, "value": ":".join(preload)},
    )


def _delivery(model: schema.Delivery, state: schema.State | None) -> Delivery:
    if model == "none":
        return NO_DELIVERY
    host = model.host_path
    volumes: list[Entry] = [{"name": host.volume, "hostPath": {"path": host.path, "type": host.type}}]
    mounts: list[Entry] = [{"name": host.volume, "mountPath": host.mount_path, "readOnly": True}]
    if state is not None:
        volumes.append({"name": state.volume, "emptyDir": dict(state.empty_dir)})
        mounts += [
            {"name": state.volume, "mountPath": mount_path, "subPath": sub_path}
            for mount_path, sub_path in state.mounts.items()
        ]
    names = {volume["name"] for volume in volumes} | {posixpath.basename(mount["mountPath"]) for mount in mounts}
    marks = ("\\", *sorted(name for name in names if not any(other in name for other in names - {name})))
    return Delivery(
        "hostPath", host.volume, host.mount_path, tuple(volumes), tuple(mounts), tuple(map(str.encode, marks))
    )
