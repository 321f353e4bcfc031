"""The schema of what enforces a share: the shim, and the guard against what would lift its limits."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from webhook.mapping.document.schema_types import FEW, SOME, KeyText, Long, Name, Short, Strict, Texts


class HostPath(Strict):
    """A folder of the node with the library."""

    volume: KeyText
    path: Long
    type: Literal["", "Directory", "DirectoryOrCreate"] = "Directory"
    mount_path: Long


class HostPathDelivery(Strict):
    """Delivery by a hostPath volume; Pod Security permits it in privileged namespaces only."""

    host_path: HostPath


Delivery: TypeAlias = Literal["none"] | HostPathDelivery


class State(Strict):
    """A writable volume that the shim needs: an emptyDir, mounted at paths by subPath."""

    volume: KeyText
    empty_dir: dict[Short, Short] = Field({}, max_length=FEW)
    mounts: dict[Long, Long] = Field(max_length=FEW, description="mount path: subPath")


class LibraryPath(Strict):
    """The beginning of `LD_LIBRARY_PATH`, and the end that replaces the image's own value."""

    prefix: list[Long] = Field(min_length=1, max_length=FEW)
    image_default: list[Long] = Field([], max_length=FEW)


class Preload(Strict):
    """The beginning of `LD_PRELOAD`."""

    prefix: list[Long] = Field(min_length=1, max_length=FEW)


class Shim(Strict):
    """The library that enforces the share inside the container, and what makes the loader find it."""

    mode: Literal["inject", "plugin"] = Field("inject", description="plugin: the cluster's device plugin mounts it")
    mounted_by: Long | None = Field(
        None,
        description="label (key=value) of DaemonSets whose device plugin mounts this library itself",
    )
    limit: Literal["env", "plugin"] | None = Field(
        None, description="what sets the limit: variables, or the device plugin"
    )
    forms: list[KeyText] | None = Field(None, max_length=SOME, description="only for requests with these forms")
    needs: list[Literal["memory", "cores"]] = Field(
        [],
        max_length=FEW,
        description="dimensions that must be sizes (or percent of cores); otherwise the webhook adds no shim",
    )
    unmet: Literal["plugin", "deny"] = "plugin"
    delivery: list[Delivery] = Field(["none"], max_length=FEW)
    state: State | None = None
    library_path: LibraryPath | None = None
    preload: Preload | None = None
    env: dict[KeyText, Long] = Field(
        {},
        max_length=SOME,
        description="variables; values may contain {memory} (MiB, rounded up), {cores}, {devices} and {container}",
    )


class Source(Strict):
    """A source: of a variable's value one kind of `valueFrom`, of a mount the kind of its volume; `*` matches anything."""

    config_map_key_ref: KeyText | None = Field(None, description="the name of the ConfigMap")
    secret_key_ref: KeyText | None = Field(None, description="the name of the Secret")
    field_ref: KeyText | None = Field(None, description="the path of the pod's field")
    host_path: KeyText | None = Field(None, description="of a mount: the path on the node, including the `subPath`")


class Guard(Strict):
    """A variable, annotation, label or mount that could lift the limit, with the values that do; or a built-in list."""

    env: Texts | None = Field(None, description="the name of a variable, or several; `*` matches anything")
    annotation: Texts | None = Field(
        None, description="instead of `env`: the key of an annotation of the pod, or several"
    )
    label: Texts | None = Field(None, description="instead of `env`: the key of a label of the pod, or several")
    mount: Texts | None = Field(
        None, description="instead of `env`: the path at which a container mounts a volume or device, or several"
    )
    lifts: Literal["truthy"] | Annotated[list[Long], Field(max_length=SOME)] | None = None
    unless: list[Long] | None = Field(
        None,
        max_length=SOME,
        description="every value except these lifts the limit; what the shim itself writes never does",
    )
    source: Source | None = Field(
        None, alias="from", description="instead of `lifts` and `unless`: any value from this source"
    )
    action: Literal["deny", "strip", "warn", "allow"] = "deny"
    whole: bool = Field(
        default=False, description="also in containers with whole devices, because it shows them the devices of others"
    )
    hides: bool = Field(default=False, description="the values in `unless` hide the requested devices from a container")
    named: Name | None = Field(
        None, alias="list", description="instead of all other keys: the built-in list of a library or container runtime"
    )
    read_by: Long | None = Field(
        None, description="for people: what reads it, and the source that shows that; `vendors --guards` prints it"
    )
