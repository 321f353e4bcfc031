"""The guard of a vendor: which variables, annotations, labels and mounts of a pod would lift the limit of a share.

A variable in a pod's spec overrides the one that a device plugin sets (the kubelet appends the pod's after the plugin's), so
a user could lift a limit, or see devices that others share. Likewise a mount in its spec covers a device plugin's at the same
path. A rule lists names and the values that lift. It must not catch what the shim writes for the request; the caller, who
knows the request, ensures that.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Struct
from pydantic import Field

from webhook.mapping.document import Problems, parse
from webhook.mapping.model.shim import (
    KEPT_LIBRARY_PATH,
    LD_LIBRARY_PATH,
    LD_PRELOAD,
    PRELOAD_FILE,
    Shim,
    ShimVariable,
)
from webhook.mapping.notation import NameSet, glob_pattern
from webhook.mapping.strict import SOME, KeyText, Long, Name, Strict, Texts, one_of, texts, told, validated

GuardPlace: TypeAlias = Literal["env", "annotation", "label", "mount", "field", "hostPath"]
"""What is guarded: a variable of a container, an annotation or label of the pod, the path of a mount in a container, a field
of the pod or container, or a path of the node that a container mounts."""

PLACES: Final[tuple[GuardPlace, ...]] = ("env", "annotation", "label", "mount", "field", "hostPath")

KEPT_PLACES: Final[frozenset[GuardPlace]] = frozenset({"field", "hostPath"})
"""What is never removed: the container would run otherwise than its author meant, a sandbox be gone."""

ValueSource: TypeAlias = tuple[str, str]
"""The source of a variable: the kind of its ``valueFrom``, and the name of the object or the path of the field; or of a mount:
``hostPath``, and the path on the node."""

_TRUE: Final = ("1", "t", "true", "yes", "on")
"""What Go's ``strconv.ParseBool``, by which device plugins read their switches, accepts as true; yes and on; in any case."""


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
    lifts: Literal["truthy"] | Annotated[list[Long], Field(min_length=1, max_length=SOME)] | None = None
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

    _place = one_of(*PLACES, "named")
    _lifting = one_of("lifts", "unless", "source", "named")

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
    def lifting_values(self) -> NameSet | None:
        """What lifts, to look a value up in lower case; None if `unless` or `sources` decides."""
        listed = _TRUE if self.lifts == "truthy" else self.lifts
        return None if listed is None else NameSet.of(map(str.casefold, listed))

    def catches(self, value: str | None, source: ValueSource | None) -> bool:
        """Return whether it catches a key with this value, or with a value from this source; one that is not known lifts."""
        if self.sources is not None:
            pattern = self.sources.get(source[0]) if source is not None else None
            return source is not None and pattern is not None and pattern.fullmatch(source[1]) is not None
        if value is None:
            return True
        if self.lifting_values is not None:
            return value.casefold() in self.lifting_values
        return self.harmless is None or value not in self.harmless

    @cached_property
    def marks(self) -> tuple[bytes, ...]:
        """The texts of which every spelling of a guarded path contains one: the last literal part of each path.

        Neither ``/./``, ``//`` nor ``x/..`` in a path can hide the parts that are left of it.
        """
        literals = [[literal for literal in re.split("[/*]", name) if literal] for name in self.names]
        return tuple(found[-1].encode() for found in literals if found) if self.place == "mount" else ()


class GuardList(Strict):
    """The variables that a library or container runtime reads: one list for all mappings that use it."""

    named: Name = Field(alias="list")
    about: str
    read_by: Long = Field(description="what reads the variables, unless an entry names something else, with the source")
    guard: list[Guard] = Field(min_length=1)


@cache
def guard_lists() -> Mapping[str, GuardList]:
    """Return the lists by name; the documents name their sources."""
    folder = resources.files("webhook.mapping") / "builtin" / "guards"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    documents = [document for file in files for document in parse(file.read_text(), file.name)]
    lists = [validated(GuardList, document.data, document) for document in documents]
    return {guard_list.named: guard_list for guard_list in lists}


_NAME: Final = re.compile(r"[A-Za-z0-9_.*-]+")
_KEY: Final = re.compile(r"[A-Za-z0-9_.*/-]+")
_HOST_PATH: Final = re.compile(r"/|(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.*+@-]+)+")
_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.*+@-]+)+")

_SPELLINGS: Final[Mapping[GuardPlace, tuple[re.Pattern[str], str, str]]] = {
    "env": (_NAME, "variables", "use letters, digits, `_` and `*`"),
    "annotation": (_KEY, "annotations", "write it as `example.com/name`"),
    "label": (_KEY, "labels", "write it as `example.com/name`"),
    "mount": (_PATH, "paths", "begin with `/`; no `/` at the end, no `.` or `..`"),
    "field": (_NAME, "fields", "write its name"),
    "hostPath": (_HOST_PATH, "paths", "begin with `/`; no `/` at the end, no `.` or `..`"),
}
"""What names may look like, what they are called in messages, and a hint."""


class Guards(Struct, frozen=True):
    """The rules of a vendor, made by `compile_guards` only: the first that catches a key decides, so exceptions come first.

    `marks` are texts of which undecoded JSON contains one if it has a guarded mount: parts of paths, or an escape, which may
    hide any; empty without such rules. `anywhere` is whether a rule is for any container of a pod with a share.
    """

    rules: tuple[Guard, ...]
    places: Mapping[GuardPlace, NameSet]  # what the rules list, for each place that has any
    marks: tuple[bytes, ...]
    anywhere: bool
    # The variables that are denied or removed, and that nothing of the shim's comes before, if they come from ``envFrom``:
    unseen: Mapping[bool, tuple[str, ...]]  # beside a share (False), and beside whole devices

    def guarded(self, names: Iterable[str], place: GuardPlace = "env") -> list[str]:
        """Return which of these variables, annotations, labels or paths a rule lists."""
        return self.places[place].among(names) if place in self.places else []

    def catch(
        self,
        name: str,  # of the variable, annotation or label, or the path of the mount as `webhook.pod` cleans it
        value: str | None,  # None if that is not known, or for a mount, which has none
        source: ValueSource | None = None,
        *,
        whole: bool = False,
        other: bool = False,
        place: GuardPlace = "env",
    ) -> Guard | None:
        """Return the first rule that catches a key, or None, also if that is an exception; a value that is not known lifts.

        For `whole` devices only rules with `whole` hold; if an `other` container has the share, only those with `anywhere`.
        """
        for rule in self.rules:
            held = rule.place == place and rule.whole >= whole and rule.anywhere >= other
            if held and name in rule.listed and rule.catches(value, source):
                # Values from a source that is allowed lift nothing.
                return None if rule.action == "allow" and rule.sources is not None else rule
        return None

    def meant(self, path: str, *, whole: bool) -> Guard | None:
        """Return the first rule that may catch what is at a path that leads elsewhere than it says, by a part of its text."""
        text = path.encode()
        held = [rule for rule in self.rules if rule.marks and rule.whole >= whole and rule.action != "allow"]
        return next((rule for rule in held if any([mark in text for mark in rule.marks])), None)

    def hides(self, name: str, value: str | None) -> bool:
        """Return whether a variable with this value hides the requested devices from its container."""
        hiding = [rule for rule in self.rules if rule.hides and name in rule.listed]
        return any([value in (rule.harmless or ()) for rule in hiding])


def compile_guards(models: Sequence[Guard], shim: Shim | None, problems: Problems) -> Guards:
    """Compile the guard of a document; the result is usable only without problems."""
    rules: list[Guard] = []
    places: dict[GuardPlace, NameSet] = {}
    for index, written in enumerate(models):
        here, found = problems.at("guard", index), len(problems.found)
        if written.named is None:  # the tests check those of the lists
            _check_rule(written, here)
        sound = len(problems.found) == found
        for rule in _listed(written, here):
            rules.append(rule)
            if shim is not None and rule.sources is None and sound:
                _check_shim(rule, shim, here)
            places[rule.place] = places.get(rule.place, NameSet()) | rule.listed
    marks = {mark for rule in rules for mark in rule.marks}
    anywhere = any(rule.anywhere for rule in rules)
    unseen = {whole: _unseen([rule for rule in rules if rule.whole >= whole], shim) for whole in (False, True)}
    return Guards(tuple(rules), places, (b"\\", *sorted(marks)) if marks else (), anywhere, unseen)


def _unseen(rules: Iterable[Guard], shim: Shim | None) -> tuple[str, ...]:
    """The variables of rules that ``envFrom`` could set: an entry of `env`, such as each of the shim's, comes before it."""
    written = NameSet.of(() if shim is None or shim.mode == "plugin" else shim.names)
    held = [rule for rule in rules if (rule.place, rule.sources) == ("env", None) and rule.action in {"deny", "strip"}]
    names = dict.fromkeys(name for rule in sorted(held, key=lambda rule: not rule.whole) for name in rule.names)
    return tuple(name for name in names if name not in written)


def _listed(model: Guard, problems: Problems) -> Sequence[Guard]:
    """Return the rules of an entry, which may refer to a list; none if it is wrong."""
    lists = guard_lists()
    if model.named is None:
        return [model]
    hint = "write exceptions as an entry before it: the first entry that catches a key decides"
    problems.when(model.model_fields_set != {"named"}, (), "an entry with `list` has no other keys", hint)
    problems.unknown("list", "list", model.named, lists)
    return lists[model.named].guard if model.named in lists else ()


def _check_rule(rule: Guard, problems: Problems) -> None:
    place = rule.place
    hides = place == "env" and rule.harmless
    problems.when(
        rule.hides and not hides, "hides", "no value hides devices", "write the values in `unless`, of variables"
    )
    problems.when(rule.anywhere and place != "env", "anywhere", "only variables are guarded anywhere", "remove it")
    kept = place in KEPT_PLACES and rule.action == "strip"
    problems.when(kept, "action", f"a {place} is never removed", "write `deny`, `warn` or `allow`")
    hint = "write `unless: []`, which catches every mount, or of a `mount` the source `from`"
    valued = place in {"mount", "hostPath"} and (rule.lifts is not None or rule.unless)
    problems.when(valued, place, "a mount has no value", hint)
    _check_source(rule, problems)
    _check_spelling(rule, problems)


def _check_spelling(rule: Guard, problems: Problems) -> None:
    place = rule.place
    pattern, what, hint = _SPELLINGS[place]
    for name in rule.names:
        spelled = pattern.fullmatch(name) is not None and (name == "/" or name.strip("/*"))
        problems.when(not spelled, place, f"{name!r} is not a name or pattern of {what}", hint)


def _check_source(rule: Guard, problems: Problems) -> None:
    kinds = {"env": {"configMapKeyRef", "secretKeyRef", "fieldRef"}, "mount": {"hostPath"}}.get(rule.place, set())
    wrong = rule.sources is not None and not (rule.sources and rule.sources.keys() <= kinds)
    hint = "of `env` write `configMapKeyRef`, `secretKeyRef` or `fieldRef`, of `mount` write `hostPath`"
    problems.when(wrong, "from", f"is no source of what `{rule.place}` guards", hint)


def _check_shim(rule: Guard, shim: Shim, problems: Problems) -> None:
    """Check that a rule catches nothing of what the shim writes; of its mounts the file of preloads is let through."""
    volumes = [volume for delivery in shim.deliveries for volume in delivery.volumes if "hostPath" in volume]
    loader = {LD_LIBRARY_PATH, LD_PRELOAD} & shim.names
    written: dict[str, set[str]] = {
        "hostPath": {volume["hostPath"]["path"] for volume in volumes},
        "mount": {path for _, path in shim.mounted} - {PRELOAD_FILE},
        "env": loader | ({KEPT_LIBRARY_PATH} if LD_LIBRARY_PATH in loader else set()),
    }
    for name in sorted(rule.listed.among(written.get(rule.place, ()))):
        hint = "remove it: the shim's comes first, and another mount there is denied anyway"
        problems.add(rule.place, f"catches {name}, which is the shim's own", hint)
    for variable in shim.variables:
        message = f"catches what the shim itself writes: {variable.name}={variable.template}"
        hint = "write `unless: []`, which catches every value but the shim's"
        problems.when(_catches(rule, variable), "env", message, hint)


def _catches(rule: Guard, variable: ShimVariable) -> bool:
    """Return whether the shim can write one of the values of a variable that the rule lists as lifting."""
    if rule.place != "env" or variable.pattern.replace("*", "0") not in rule.listed:
        return False
    lifts = _TRUE if rule.lifts == "truthy" else rule.lifts
    if lifts is not None:
        return any(map(variable.can_be, lifts))
    return bool(rule.harmless) and variable.template not in (rule.harmless or ())
