"""The guard of a vendor, compiled: which variables, annotations, labels and mounts of a pod would lift the limit of a share.

A variable in a pod's spec overrides the one that a device plugin sets (the kubelet appends the pod's after the plugin's), so
a user could lift a limit, or see devices that others share. Likewise a mount in its spec covers a device plugin's at the same
path. A rule lists names and the values that lift. It must not catch what the shim writes for the request; the caller, who
knows the request, ensures that.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Final, Literal, TypeAlias

from webhook.mapping.document import schema
from webhook.mapping.document.problem import Problem, Problems, nearest_known
from webhook.mapping.document.validation import GuardList, guard_lists
from webhook.mapping.model.shim import (
    KEPT_LIBRARY_PATH,
    LD_LIBRARY_PATH,
    LD_PRELOAD,
    PRELOAD_FILE,
    Shim,
    ShimVariable,
)
from webhook.mapping.notation import NameSet, glob_pattern

GuardPlace: TypeAlias = Literal["env", "annotation", "label", "mount", "field", "hostPath"]
"""What is guarded: a variable of a container, an annotation or label of the pod, the path of a mount in a container, a field
of the pod or container, or a path of the node that a container mounts."""

PLACES: Final[tuple[GuardPlace, ...]] = ("env", "annotation", "label", "mount", "field", "hostPath")

KEPT_PLACES: Final[frozenset[GuardPlace]] = frozenset({"field", "hostPath"})
"""What is never removed: the container would run otherwise than its author meant, a sandbox be gone."""

Action: TypeAlias = Literal["deny", "strip", "warn", "allow"]
"""What is done with a key that lifts a limit."""

ValueSource: TypeAlias = tuple[str, str]
"""The source of a variable: the kind of its ``valueFrom``, and the name of the object or the path of the field; or of a mount:
``hostPath``, and the path on the node."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
TRUE_LIKE: Final = (*_TRUE, "yes", "on")
"""What Go's ``strconv.ParseBool``, by which device plugins read their switches, accepts as true; and yes and on."""


def truthy(value: str) -> bool:
    """Return whether a switch with this value is on: true for Go's ``strconv.ParseBool``, or yes or on in any case."""
    return value in _TRUE or value.casefold() in {"yes", "on"}


@dataclass(frozen=True)
class GuardRule:
    """The names of keys, and the values that lift.

    Attributes:
        place: what is guarded.
        names: the names or paths, in which ``*`` matches any text.
        document: the entry of the document, or of its list, for what is not compiled.
        harmless: all values but exactly these lift; None if the entry's `lifts` or `sources` decides.
        sources: patterns for the names of sources, by kind; None if the value decides.
    """

    place: GuardPlace
    names: tuple[str, ...]
    document: schema.Guard
    harmless: frozenset[str] | None
    sources: Mapping[str, re.Pattern[str]] | None

    @cached_property
    def listed(self) -> NameSet:
        """The names, to look one up."""
        return NameSet.of(self.names)

    @cached_property
    def lifting_values(self) -> NameSet:
        """What lifts, to look a value up in lower case."""
        return NameSet.of(map(str.casefold, self.document.lifts or ()))

    @property
    def exception(self) -> bool:
        """Whether the rule allows a source: values from there lift nothing."""
        return self.document.action == "allow" and self.sources is not None

    def catches(self, value: str | None, source: ValueSource | None) -> bool:
        """Return whether the rule catches a key with this value, or with a value from this source.

        A value that is not known always lifts.
        """
        if self.sources is not None:
            pattern = self.sources.get(source[0]) if source is not None else None
            return source is not None and pattern is not None and pattern.fullmatch(source[1]) is not None
        return value is None or self.lifts(value)

    @property
    def marks(self) -> tuple[bytes, ...]:
        """The texts of which every spelling of a guarded path contains one: the last literal part of each path.

        Neither ``/./``, ``//`` nor ``x/..`` in a path can hide the parts that are left of it.
        """
        literals = [[literal for literal in re.split("[/*]", name) if literal] for name in self.names]
        return tuple(found[-1].encode() for found in literals if found) if self.place == "mount" else ()

    def lifts(self, value: str) -> bool:
        """Return whether this value lifts the limit."""
        if self.document.lifts == "truthy":
            return truthy(value)
        if self.document.lifts is not None:
            return value.casefold() in self.lifting_values
        return self.harmless is None or value not in self.harmless


def guard_rule(model: schema.Guard) -> GuardRule:
    """Compile an entry of a document; `webhook.mapping.model.guard` reports entries that are not one rule."""
    place: GuardPlace = next(kind for kind in PLACES if getattr(model, kind) is not None)
    names = getattr(model, place)
    sources = None
    if model.source is not None:
        written = model.source.model_dump(by_alias=True, exclude_none=True)
        sources = {kind: re.compile(glob_pattern(name), re.DOTALL) for kind, name in written.items()}
    return GuardRule(
        place=place,
        names=schema.texts(names),
        document=model,
        harmless=None if model.unless is None else frozenset(model.unless),
        sources=sources,
    )


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


@dataclass(frozen=True, slots=True)
class Guards:
    """The rules of a vendor; made by `compile_guards` only.

    Attributes:
        rules: in the order of the document. The first that catches a key decides, so an exception (``allow``)
            precedes the rule that it is an exception from.
        places: what the rules list, for each place that has any.
        marks: texts of which undecoded JSON contains one if it has a guarded mount: parts of the paths, or an escape, which
            may hide any; empty without rules for mounts.
        anywhere: texts of which undecoded JSON contains one if it has a variable of a rule that holds for any container of a
            pod with a share: parts of the names, or an escape; empty without such rules.
        unseen: the variables that are denied or removed, and that nothing of the shim's comes before, if they come from
            ``envFrom``; those of rules with `whole` first.
        unseen_beside_whole: the number of these.
    """

    rules: tuple[GuardRule, ...]
    places: Mapping[GuardPlace, NameSet]
    marks: tuple[bytes, ...]
    anywhere: tuple[bytes, ...]
    unseen: tuple[str, ...]
    unseen_beside_whole: int

    def guarded(self, name: str, place: GuardPlace = "env") -> bool:
        """Return whether a rule lists this variable, annotation, label or path."""
        return place in self.places and name in self.places[place]

    def catch(
        self,
        name: str,
        value: str | None,
        source: ValueSource | None = None,
        *,
        whole: bool = False,
        other: bool = False,
        place: GuardPlace = "env",
    ) -> GuardRule | None:
        """Return the first rule that catches a key, or None; a value that is not known lifts.

        Args:
            name: the name of the variable, annotation or label, or the path of the mount as `webhook.pod` cleans it.
            value: its value, or None if that is not known, or for a mount, which has none.
            source: where a variable takes its value from, or what is mounted.
            whole: the container has whole devices, for which only rules with `whole` hold.
            other: another container has the share, so that only rules with `anywhere` hold.
            place: the kind of key.
        """
        rules = (rule for rule in self.rules if rule.place == place and name in rule.listed)
        held = (rule for rule in rules if (rule.document.whole or not whole) and (rule.document.anywhere or not other))
        return next((rule for rule in held if rule.catches(value, source)), None)

    def meant(self, path: str, *, whole: bool) -> GuardRule | None:
        """Return the first rule that may catch what is at a path that leads elsewhere than it says, by a part of its text."""
        rules = (rule for rule in self.rules if rule.place == "mount" and rule.document.action != "allow")
        held = (rule for rule in rules if rule.document.whole or not whole)
        return next((rule for rule in held if any(mark.decode() in path for mark in rule.marks)), None)

    def hides(self, name: str, value: str | None) -> bool:
        """Return whether a variable with this value hides the requested devices from its container."""
        if value is None or not self.guarded(name):
            return False
        return any(
            rule.document.hides and name in rule.listed and value in (rule.harmless or ()) for rule in self.rules
        )


def compile_guards(models: Sequence[schema.Guard], shim: Shim | None, problems: Problems) -> Guards:
    """Compile the guard of a document; the result is usable only without problems.

    Args:
        models: the entries of the document.
        shim: the vendor's shim: none of its own values may be caught.
        problems: collects problems.
    """
    lists = guard_lists()
    rules: list[GuardRule] = []
    for index, written in enumerate(models):
        found = [*_list_problems(written, lists)]
        for model in () if found else (written,) if written.named is None else lists[written.named].guard:
            rule = guard_rule(model)
            rules.append(rule)
            found += [*_rule_problems(model, rule)] or _shim_problems(rule, shim)
        problems.extend(found, "guard", index)
    listed = {place: [rule.listed for rule in rules if rule.place == place] for place in PLACES}
    places = {place: reduce(or_, sets) for place, sets in listed.items() if sets}
    marks = {mark for rule in rules for mark in rule.marks}
    names = {max(name.split("*"), key=len).encode() for rule in rules if rule.document.anywhere for name in rule.names}
    unseen = _unseen(rules, shim, whole=True)
    beside_share = [name for name in _unseen(rules, shim, whole=False) if name not in unseen]
    return Guards(tuple(rules), places, _with_escape(marks), _with_escape(names), (*unseen, *beside_share), len(unseen))


def _unseen(rules: Sequence[GuardRule], shim: Shim | None, *, whole: bool) -> tuple[str, ...]:
    """The variables of rules that ``envFrom`` could set: an entry of `env`, such as each of the shim's, comes before it."""
    written = NameSet.of(() if shim is None or shim.document.mode == "plugin" else shim.names)
    names = [
        name
        for rule in rules
        if rule.place == "env" and rule.document.whole == whole and rule.sources is None
        if rule.document.action in {"deny", "strip"}
        for name in rule.names
    ]
    return tuple(name for name in dict.fromkeys(names) if name not in written)


def _with_escape(marks: Collection[bytes]) -> tuple[bytes, ...]:
    return (b"\\", *sorted(marks)) if marks else ()


def guards_own_keys(guards: Guards, keys: Mapping[GuardPlace, Sequence[str]]) -> Iterator[Problem]:
    """Report guarded keys that the vendor itself writes into pods: a second pass would deny the first.

    Args:
        guards: the guard of the vendor.
        keys: the annotations and labels among its keys and in its `place`.
    """
    for place, names in keys.items():
        for name in names:
            if guards.guarded(name, place):
                message = f"the {place} {name} is guarded, but the mapping itself reads or writes it"
                yield Problem(message, ("guard",), "remove it; to deny values of a key, write a form with `deny`")


def guards_own_class(guards: Guards, runtime_class: str | None) -> Iterator[Problem]:
    """Report that the guard denies the runtime class that the mapping itself writes."""
    if runtime_class and guards.catch("runtimeClassName", runtime_class, place="field") is not None:
        message = f"the runtimeClassName {runtime_class} is guarded, but the mapping itself writes it"
        yield Problem(message, ("guard",), "remove one of them")


def _list_problems(model: schema.Guard, lists: Mapping[str, GuardList]) -> Iterator[Problem]:
    """Report what is wrong with the kind of an entry: one place with its names, or a reference to a list."""
    if model.named is None:
        places = [place for place in PLACES if getattr(model, place) is not None]
        if not places:
            yield Problem("has neither `env` nor `list`", (), "write the variable's name, or that of a built-in list")
        elif len(places) > 1:
            written = " and ".join(f"`{place}`" for place in places)
            yield Problem(f"has {written}", (), "write an entry for each")
    elif model.model_fields_set != {"named"}:
        yield Problem(
            "an entry with `list` has no other keys",
            (),
            "write exceptions as an entry before it: the first entry that catches a key decides",
        )
    elif model.named not in lists:
        yield Problem(f"no list is called {model.named!r}", ("list",), nearest_known(model.named, lists))


def _rule_problems(model: schema.Guard, rule: GuardRule) -> Iterator[Problem]:
    if [model.lifts is None, model.unless is None, model.source is None].count(False) != 1:
        yield Problem(
            "has not exactly one of `lifts`, `unless` and `from`",
            (),
            "write `lifts: truthy`, `lifts: [values]`, `unless: [values]` or `from: {configMapKeyRef: name}`",
        )
    if model.hides and (rule.place != "env" or not rule.harmless):
        yield Problem("no value hides devices", ("hides",), "write the values in `unless`, of variables")
    if model.anywhere and rule.place != "env":
        yield Problem("only variables are guarded anywhere", ("anywhere",), "remove it")
    if model.lifts == []:
        yield Problem("an empty list catches nothing", ("lifts",), "write `unless: []` to catch every value")
    yield from _place_problems(model, rule)
    yield from _source_problems(rule)
    pattern, what, hint = _SPELLINGS[rule.place]
    for name in rule.names:
        if pattern.fullmatch(name) is None or not (name.strip("/*") or name == "/"):
            yield Problem(f"{name!r} is not a name or pattern of {what}", (rule.place,), hint)


def _place_problems(model: schema.Guard, rule: GuardRule) -> Iterator[Problem]:
    if rule.place in KEPT_PLACES and model.action == "strip":
        yield Problem(f"a {rule.place} is never removed", ("action",), "write `deny`, `warn` or `allow`")
    if rule.place in {"mount", "hostPath"} and (model.lifts is not None or model.unless):
        remedy = "write `unless: []`, which catches every mount" + (", or `from`" if rule.place == "mount" else "")
        yield Problem("a mount has no value", (rule.place,), remedy)


def _source_problems(rule: GuardRule) -> Iterator[Problem]:
    if rule.sources is None:
        return
    if rule.place not in {"env", "mount"}:
        yield Problem(f"only variables and mounts have a source, not a pod's {rule.place}", ("from",), "write `env`")
    elif not rule.sources:
        yield Problem("names no source", ("from",), "write `configMapKeyRef`, `secretKeyRef` or `fieldRef`")
    elif any((kind == "hostPath") != (rule.place == "mount") for kind in rule.sources):
        yield Problem("is the source of something else", ("from",), "write `hostPath` for mounts, and only there")


def _shim_problems(rule: GuardRule, shim: Shim | None) -> Iterator[Problem]:
    if shim is None or rule.sources is not None:
        return
    if rule.place == "hostPath":
        yield from _host_path_problems(rule, shim)
    if rule.place == "mount":
        yield from _mount_problems(rule, shim)
    if rule.place != "env":
        return
    # In these, the shim's part comes before the user's.
    loader = {LD_LIBRARY_PATH, LD_PRELOAD} & shim.names
    if LD_LIBRARY_PATH in loader:
        loader.add(KEPT_LIBRARY_PATH)
    for pattern in rule.names:
        named = NameSet.of([pattern])
        for name in sorted(named.among(loader)):
            yield Problem(
                f"{pattern} catches {name}, which the shim writes, followed by the user's value",
                ("env",),
                "remove it: the value of the shim comes first anyway",
            )
        for variable in shim.variables:
            if variable.pattern.replace("*", "0") in named and _catches(rule, variable):
                yield Problem(
                    f"{pattern} catches what the shim itself writes: {variable.name}={variable.template}",
                    ("env",),
                    "write `unless: []`, which catches every value but the shim's",
                )


def _mount_problems(rule: GuardRule, shim: Shim) -> Iterator[Problem]:
    # The shim's own mount there is let through, as its own values of variables are.
    paths = {mount["mountPath"] for delivery in shim.deliveries for mount in delivery.mounts} - {PRELOAD_FILE}
    for name in rule.names:
        for path in sorted(NameSet.of([name]).among(paths if shim.document.mode == "inject" else ())):
            message = f"{name} catches {path}, where the shim itself mounts"
            yield Problem(message, ("mount",), "remove it: another mount there is denied anyway")


def _host_path_problems(rule: GuardRule, shim: Shim) -> Iterator[Problem]:
    volumes = [volume for delivery in shim.deliveries for volume in delivery.volumes]
    for path in sorted(rule.listed.among(volume["hostPath"]["path"] for volume in volumes if "hostPath" in volume)):
        yield Problem(f"the list catches {path}, which the shim itself mounts", ("hostPath",), "remove it")


def _catches(rule: GuardRule, variable: ShimVariable) -> bool:
    """Return whether the shim can write one of the values that the rule lists as lifting."""
    lifts = TRUE_LIKE if rule.document.lifts == "truthy" else rule.document.lifts
    if lifts is not None:
        return any(map(variable.can_be, lifts))
    return bool(rule.harmless) and variable.template not in (rule.harmless or ())
