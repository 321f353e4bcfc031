"""Parts of the schema of a mapping document, named as its keys: `webhook.mapping.model.vendor` has the document.

Strict: an unknown key is an error, and every list, map, text and number has a bound, far above what vendors need.
``docs/mapping.md`` explains every key by example.
"""

import re
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field

from webhook.mapping.document.strict import (
    FEW,
    MANY,
    DefaultMemory,
    DomainName,
    ExactNames,
    KeyText,
    LabelKey,
    LabelValue,
    Long,
    Name,
    Quantity,
    ShareUnit,
    Short,
    SizeUnit,
    Strict,
    Subdomain,
    Texts,
    ValuePattern,
    Whole,
    like,
    one_of,
    told,
)
from webhook.request import MAX_DEVICES

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


class HostPath(Strict):
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


DeliveryVolume: TypeAlias = HostPath | ImageVolume | FilledEmptyDir | CsiVolume


class WrittenDelivery(Strict):
    """A way in which the library reaches a container: one of these."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    host_path: HostPath | None = None
    image: ImageVolume | None = None
    empty_dir: FilledEmptyDir | None = None
    csi: CsiVolume | None = None

    _kind = one_of("host_path", "image", "empty_dir", "csi")


class StateVolume(Strict):
    """The emptyDir of a state."""

    size_limit: Quantity
    medium: Literal["", "Memory"] | None = None


class State(Strict):
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

    memory: SizeUnit = "1Mi"
    cores: ShareUnit = "1%"


class Unlimited(Strict):
    """Why the vendor limits no share to what it requests, and the pods whose shares it does limit."""

    why: Long = Field(description="a sentence about that for the warning")
    unless: dict[Short, Long] = told("text key → the text in the pod or `place` of limited shares", {}, max_length=FEW)


class Defaults(Strict):
    """The values for missing dimensions of a request; 0 for none."""

    devices: int | None = Field(None, ge=0, le=MAX_DEVICES)
    memory: DefaultMemory | None = told("`all` or a quantity of bytes")
    cores: int | None = Field(None, ge=0, le=100)


class Toleration(Strict):
    """A toleration of pods; the API server has further rules."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Whole | None = None

    def data(self) -> dict[str, str | int]:
        """Return it as a pod has it."""
        return self.model_dump(by_alias=True, exclude_none=True)


PlacedIn: TypeAlias = Literal["nodeSelector", "label", "annotation"]


class Place(Strict):
    """What a pod needs to be scheduled to the vendor's devices."""

    scheduler: KeyText | None = Field(None, min_length=1)
    schedulers: list[Annotated[KeyText, Field(min_length=1)]] = told("further schedulers", [], max_length=FEW)
    conflict: Literal["keep", "override", "deny"] = told("what happens if the pod names another scheduler", "keep")
    runtime_class_name: Subdomain | None = None
    node_selector: dict[LabelKey, LabelValue] = Field({}, max_length=FEW)
    tolerations: list[Toleration] = Field([], max_length=FEW)
    labels: dict[LabelKey, LabelValue] = Field({}, max_length=FEW)
    annotations: dict[LabelKey, Long] = Field({}, max_length=FEW)

    @property
    def written(self) -> dict[PlacedIn, dict[str, str]]:
        """What pods get, by the place of its keys: for those who write them, and all who have to know them."""
        return {"nodeSelector": self.node_selector, "label": self.labels, "annotation": self.annotations}


class Claim(Strict):
    """The resource claims of Dynamic Resource Allocation in which the vendor's requests are written."""

    driver: DomainName = Field(description="the driver of the devices")
    device_class: DomainName = Field(alias="class", description="the DeviceClass of shares")
    whole_class: DomainName | None = told("the DeviceClass of whole devices, without capacities; by default `class`")
    further_classes: list[DomainName] = told("others of these devices: no share by key beside them", [], max_length=FEW)
    distinct: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=32)] | None = told(
        "the attribute of the driver that differs between all devices: those of a claim are never the same"
    )
    matching: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=32)] | None = told(
        "the attribute that is equal for all requests of a claim on one device, if the driver keeps them apart: "
        "containers that their system puts on one device become requests of one claim; without it, they are denied"
    )
    partitions: Name | None = told("the mapping with claims of partitions, for requests of a name that has a row there")


class NodeLabels(Strict):
    """Labels of nodes, whose values are numbers."""

    devices: LabelKey | None = told("the number of devices")
    memory: LabelKey | None = told("the memory of each in MiB")


class Selects(Strict):
    """Hints by which a pod selects the devices of all its containers: lists with commas; `not_`: of those it does not want."""

    model: LabelKey | None = told("parts of names of models, in any case, one of which the device has")
    not_model: LabelKey | None = told("likewise, none of which it has")
    uuid: LabelKey | None = told("UUIDs of devices")
    not_uuid: LabelKey | None = told("those of other devices")


class OwnedLabel(Strict):
    """A label that only a scheduler may write."""

    label: KeyText


class CheckedSource(Strict):
    """A source that a document was checked against, to compare it with the next version."""

    system: Short = Field(description="the name of the project or product")
    at: Long = Field(description="the repository or site where it is published")
    version: Short | None = told(
        "the release, with the commit that was read: `1.2.0 (0a1b2c3)`, `1.2.0 and later (…)`, "
        "`later than 1.2.0 (…)`, `no release (…)`; omit it for pages without a version"
    )
    date: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", max_length=10)] = Field(
        description="the date of the comparison"
    )
    opened: Annotated[list[Long], Field(min_length=1, max_length=FEW)] = Field(
        description="the files or pages that were read"
    )
    missing: Long | None = told("what could not be found in public")
    adds: list[Short] = told("of a version after a release: keys and variables that none has yet", [], max_length=FEW)


class KnownName(Strict):
    """Names of another system, in one of three places, and what to do about them."""

    resource: Texts | None = told("a resource name, or several, `*` for any text")
    label: ExactNames | None = told("instead of `resource`: the key of a label")
    annotation: ExactNames | None = told("instead of `resource`: the key of an annotation")
    advice: Long = Field(description="whose name it is, and what to write instead, as a clause")
    report: bool = told("a pod with it gets a warning; false: only `explain --name` prints it", default=True)


class GatedName(Strict):
    """A resource that nodes report under a condition only."""

    resource: KeyText = Field(min_length=1, description="the resource name")
    needs: Long = Field(description="what has to be switched on, as a clause")
    requests: Short | None = told("the requests that need it, if not all: `whole devices`")


class Match(Strict):
    """The names by which pods are sent to the webhook, if the domains of the keys would match too many pods."""

    resources: list[KeyText] | None = told("prefixes of resource names", max_length=FEW)
    keys: list[KeyText] | None = told("label and annotation keys, or prefixes ending in `*`", max_length=MANY)


class SharedName(Strict):
    """Another vendor's resource name under which the vendor may serve its devices, which only node labels show."""

    resource: KeyText
    nodes: dict[LabelKey, ValuePattern] = Field(
        min_length=1,
        max_length=FEW,
        description="labels of such nodes, each with a pattern of values; one match is enough",
    )
    instead: Long = Field(description="a sentence about what to configure instead")
