"""What could lift the limit of a share: names of variables, annotations, labels or mounts, and the values that do."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from webhook.mapping.document.strict import SOME, KeyText, Long, Name, Strict, Texts, texts, told
from webhook.mapping.notation import NameSet, glob_pattern

GuardPlace: TypeAlias = Literal["env", "annotation", "label", "mount", "field", "hostPath"]
"""What is guarded: a variable of a container, an annotation or label of the pod, the path of a mount in a container, a field
of the pod or container, or a path of the node that a container mounts."""

PLACES: Final[tuple[GuardPlace, ...]] = ("env", "annotation", "label", "mount", "field", "hostPath")

KEPT_PLACES: Final[frozenset[GuardPlace]] = frozenset({"field", "hostPath"})
"""What is never removed: the container would run otherwise than its author meant, a sandbox be gone."""

Action: TypeAlias = Literal["deny", "strip", "warn", "allow"]  # what is done with a key that lifts a limit
ValueSource: TypeAlias = tuple[str, str]
"""The source of a variable: the kind of its ``valueFrom``, and the name of the object or the path of the field; or of a mount:
``hostPath``, and the path on the node."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
TRUE_LIKE: Final = (*_TRUE, "yes", "on")
"""What Go's ``strconv.ParseBool``, by which device plugins read their switches, accepts as true; and yes and on."""


def truthy(value: str) -> bool:
    """Return whether a switch with this value is on: true for Go's ``strconv.ParseBool``, or yes or on in any case."""
    return value in _TRUE or value.casefold() in {"yes", "on"}


class Source(Strict):
    """A source: of a variable's value one kind of `valueFrom`, of a mount the kind of its volume; `*` matches anything."""

    config_map_key_ref: KeyText | None = told("the name of the ConfigMap")
    secret_key_ref: KeyText | None = told("the name of the Secret")
    field_ref: KeyText | None = told("the path of the pod's field")
    host_path: KeyText | None = told("of a mount: the path on the node, including the `subPath`")


GuardedField: TypeAlias = Literal[
    "hostPID", "hostIPC", "shareProcessNamespace", "runtimeClassName", "capabilities", "procMount"
]
"""A field by which a container reaches what is not its own; of `capabilities` each that it adds is a value."""


class Guard(Strict):
    """A variable, annotation, label or mount that could lift the limit, with the values that do; or a built-in list."""

    env: Texts | None = told("the name of a variable, or several; `*` matches anything")
    annotation: Texts | None = told("instead of `env`: the key of an annotation of the pod, or several")
    label: Texts | None = told("instead of `env`: the key of a label of the pod, or several")
    mount: Texts | None = told("instead of `env`: the path at which a container mounts a volume or device, or several")
    field: GuardedField | None = told("instead of `env`: a field of the pod or of a container's `securityContext`")
    hostPath: Texts | None = Field(  # noqa: N815  (the name of the place, too)
        None, description="instead of `env`: the path on the node that a container mounts, or several"
    )
    lifts: Literal["truthy"] | Annotated[list[Long], Field(max_length=SOME)] | None = None
    unless: list[Long] | None = told("every value but these lifts; the shim's own never does", max_length=SOME)
    source: Source | None = Field(
        None, alias="from", description="instead of `lifts` and `unless`: any value from this source"
    )
    action: Literal["deny", "strip", "warn", "allow"] = "deny"
    whole: bool = told("also beside whole devices: it shows others, or breaks what is beside them", default=False)
    hides: bool = told("the values in `unless` hide the requested devices from a container", default=False)
    anywhere: bool = told("a variable: also in other containers of a pod with a share", default=False)
    named: Name | None = Field(
        None, alias="list", description="instead of all other keys: the built-in list of a library or container runtime"
    )
    read_by: Long | None = told("for people: what reads it, and the source that shows that")

    @cached_property
    def place(self) -> GuardPlace:
        """What is guarded."""
        return next(place for place in PLACES if getattr(self, place) is not None)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names or paths, in which ``*`` matches any text."""
        return texts(getattr(self, self.place))

    @cached_property
    def listed(self) -> NameSet:
        """The names, to look one up."""
        return NameSet.of(self.names)

    @cached_property
    def harmless(self) -> frozenset[str] | None:
        """All values but exactly these lift; None if `lifts` or `sources` decides."""
        return None if self.unless is None else frozenset(self.unless)

    @cached_property
    def sources(self) -> Mapping[str, re.Pattern[str]] | None:
        """Patterns for the names of sources, by kind; None if the value decides."""
        written = None if self.source is None else self.source.model_dump(by_alias=True, exclude_none=True)
        return written and {kind: re.compile(glob_pattern(name), re.DOTALL) for kind, name in written.items()}

    @cached_property
    def lifting_values(self) -> NameSet:
        """What lifts, to look a value up in lower case."""
        return NameSet.of(map(str.casefold, self.lifts or ()))

    @property
    def exception(self) -> bool:
        """Whether it allows a source: values from there lift nothing."""
        return self.action == "allow" and self.sources is not None

    def catches(self, value: str | None, source: ValueSource | None) -> bool:
        """Return whether it catches a key with this value, or with a value from this source; one that is not known lifts."""
        if self.sources is not None:
            pattern = self.sources.get(source[0]) if source is not None else None
            return source is not None and pattern is not None and pattern.fullmatch(source[1]) is not None
        if value is None:
            return True
        if self.lifts is not None:
            return truthy(value) if self.lifts == "truthy" else value.casefold() in self.lifting_values
        return self.harmless is None or value not in self.harmless

    @property
    def marks(self) -> tuple[bytes, ...]:
        """The texts of which every spelling of a guarded path contains one: the last literal part of each path.

        Neither ``/./``, ``//`` nor ``x/..`` in a path can hide the parts that are left of it.
        """
        literals = [[literal for literal in re.split("[/*]", name) if literal] for name in self.names]
        return tuple(found[-1].encode() for found in literals if found) if self.place == "mount" else ()
