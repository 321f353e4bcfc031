"""The schema of what enforces a share: the shim, and the guard of what would lift its limits."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from webhook.mapping.document.schema_types import FEW, SOME, KeyText, Long, Name, Short, Strict, Texts


class HostPath(Strict):
    """A folder of the node that holds the library."""

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
    """What `LD_LIBRARY_PATH` begins with, and the tail that stands for the image's own."""

    prefix: list[Long] = Field(min_length=1, max_length=FEW)
    image_default: list[Long] = Field([], max_length=FEW)


class Preload(Strict):
    """What `LD_PRELOAD` begins with."""

    prefix: list[Long] = Field(min_length=1, max_length=FEW)


class Shim(Strict):
    """The library that enforces the share inside the container, and what makes the loader find it."""

    mode: Literal["inject", "plugin"] = Field("inject", description="plugin: the cluster's device plugin mounts it")
    mounted_by: Long | None = Field(
        None,
        description="label, as key=value, of DaemonSets whose device plugin mounts this library by itself: for `check`",
    )
    limit: Literal["env", "plugin"] | None = Field(
        None, description="who carries the limit: variables, or the device plugin"
    )
    forms: list[KeyText] | None = Field(None, max_length=SOME, description="only for requests read in these forms")
    needs: list[Literal["memory", "cores"]] = Field(
        [], max_length=FEW, description="must be sizes (or percent of cores), else no shim by us"
    )
    unmet: Literal["plugin", "deny"] = "plugin"
    delivery: list[Delivery] = Field(["none"], max_length=FEW)
    state: State | None = None
    library_path: LibraryPath | None = None
    preload: Preload | None = None
    env: dict[KeyText, Long] = Field(
        {}, max_length=SOME, description="may use {memory} (MiB, up), {cores}, {devices}, {container}"
    )


class Source(Strict):
    """Where a variable takes its value from: one kind of `valueFrom`; `*` stands for anything."""

    config_map_key_ref: KeyText | None = Field(None, description="the name of the ConfigMap")
    secret_key_ref: KeyText | None = Field(None, description="the name of the Secret")
    field_ref: KeyText | None = Field(None, description="the path of the pod's field")


class Guard(Strict):
    """What could lift the limit: a variable, annotation or label, and the values that do; or a list that has a name."""

    env: Texts | None = Field(None, description="name, or several; `*` stands for anything")
    annotation: Texts | None = Field(None, description="in place of `env`: key of the pod's annotations, or several")
    label: Texts | None = Field(None, description="in place of `env`: key of the pod's labels, or several")
    lifts: Literal["truthy"] | Annotated[list[Long], Field(max_length=SOME)] | None = None
    unless: list[Long] | None = Field(
        None, max_length=SOME, description="every value but these lifts; what the shim itself writes never does"
    )
    source: Source | None = Field(
        None, alias="from", description="in place of `lifts` and `unless`: a value that comes from there"
    )
    action: Literal["deny", "strip", "allow"] = "deny"
    whole: bool = Field(default=False, description="in containers with whole devices, too: it shows devices of others")
    hides: bool = Field(
        default=False, description="the values in `unless` hide from a container the devices that it requests"
    )
    named: Name | None = Field(
        None, alias="list", description="in place of all else: the built-in list of a library or runtime"
    )
