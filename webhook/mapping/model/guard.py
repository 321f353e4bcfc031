"""The guard of a vendor, compiled: which variables, annotations, labels and mounts of a pod would lift the limit of a share.

A variable in a pod's spec overrides the one that a device plugin sets (the kubelet appends the pod's after the plugin's), so
a user could lift a limit, or see devices that others share. Likewise a mount in its spec covers a device plugin's at the same
path. A rule lists names and the values that lift. It must not catch what the shim writes for the request; the caller, who
knows the request, ensures that.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from webhook.mapping.document.guard import KEPT_PLACES, PLACES, TRUE_LIKE, Guard, GuardPlace, ValueSource
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
from webhook.mapping.notation import NameSet

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
        rules: in the order of the document: the first that catches a key decides, so exceptions (``allow``) come first.
        marks, anywhere: texts of which undecoded JSON contains one if it has a guarded mount, or a variable of a rule for any
            container of a pod with a share: parts of names, or an escape, which may hide any; empty without such rules.
        unseen: the variables that are denied or removed, and that nothing of the shim's comes before, if they come from
            ``envFrom``; those of rules with `whole` first.
    """

    rules: tuple[Guard, ...]
    places: Mapping[GuardPlace, NameSet]  # what the rules list, for each place that has any
    marks: tuple[bytes, ...]
    anywhere: tuple[bytes, ...]
    unseen: tuple[str, ...]
    unseen_beside_whole: int  # the number of these

    def guarded(self, name: str, place: GuardPlace = "env") -> bool:
        """Return whether a rule lists this variable, annotation, label or path."""
        return place in self.places and name in self.places[place]

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
        """Return the first rule that catches a key, or None; a value that is not known lifts.

        For `whole` devices only rules with `whole` hold; if an `other` container has the share, only those with `anywhere`.
        """
        rules = (rule for rule in self.rules if rule.place == place and name in rule.listed)
        held = (rule for rule in rules if (rule.whole or not whole) and (rule.anywhere or not other))
        return next((rule for rule in held if rule.catches(value, source)), None)

    def meant(self, path: str, *, whole: bool) -> Guard | None:
        """Return the first rule that may catch what is at a path that leads elsewhere than it says, by a part of its text."""
        rules = (rule for rule in self.rules if rule.place == "mount" and rule.action != "allow")
        held = (rule for rule in rules if rule.whole or not whole)
        return next((rule for rule in held if any(mark.decode() in path for mark in rule.marks)), None)

    def hides(self, name: str, value: str | None) -> bool:
        """Return whether a variable with this value hides the requested devices from its container."""
        if value is None or not self.guarded(name):
            return False
        return any(rule.hides and name in rule.listed and value in (rule.harmless or ()) for rule in self.rules)


def compile_guards(models: Sequence[Guard], shim: Shim | None, problems: Problems) -> Guards:
    """Compile the guard of a document; the result is usable only without problems."""
    lists = guard_lists()
    rules: list[Guard] = []
    for index, written in enumerate(models):
        found = [*_list_problems(written, lists)]
        for rule in () if found else (written,) if written.named is None else lists[written.named].guard:
            rules.append(rule)
            found += [*_rule_problems(rule)] or _shim_problems(rule, shim)
        problems.extend(found, "guard", index)
    listed = {place: [rule.listed for rule in rules if rule.place == place] for place in PLACES}
    places = {place: reduce(or_, sets) for place, sets in listed.items() if sets}
    marks = {mark for rule in rules for mark in rule.marks}
    names = {max(name.split("*"), key=len).encode() for rule in rules if rule.anywhere for name in rule.names}
    unseen = _unseen(rules, shim, whole=True)
    beside_share = [name for name in _unseen(rules, shim, whole=False) if name not in unseen]
    return Guards(tuple(rules), places, _with_escape(marks), _with_escape(names), (*unseen, *beside_share), len(unseen))


def _unseen(rules: Sequence[Guard], shim: Shim | None, *, whole: bool) -> tuple[str, ...]:
    """The variables of rules that ``envFrom`` could set: an entry of `env`, such as each of the shim's, comes before it."""
    written = NameSet.of(() if shim is None or shim.document.mode == "plugin" else shim.names)
    names = [
        name
        for rule in rules
        if rule.place == "env" and rule.whole == whole and rule.sources is None
        if rule.action in {"deny", "strip"}
        for name in rule.names
    ]
    return tuple(name for name in dict.fromkeys(names) if name not in written)


def _with_escape(marks: Collection[bytes]) -> tuple[bytes, ...]:
    return (b"\\", *sorted(marks)) if marks else ()


def guards_own_keys(guards: Guards, keys: Mapping[GuardPlace, Sequence[str]]) -> Iterator[Problem]:
    """Report guarded keys that the vendor itself writes into pods: a second pass would deny the first."""
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


def _list_problems(model: Guard, lists: Mapping[str, GuardList]) -> Iterator[Problem]:
    """Report what is wrong with the kind of an entry: one place with its names, or a reference to a list."""
    if model.named is None:
        places = [place for place in PLACES if getattr(model, place) is not None]
        if not places:
            yield Problem("has neither `env` nor `list`", (), "write the variable's name, or that of a built-in list")
        elif len(places) > 1:
            written = " and ".join(f"`{place}`" for place in places)
            yield Problem(f"has {written}", (), "write an entry for each")
    elif model.model_fields_set != {"named"}:
        hint = "write exceptions as an entry before it: the first entry that catches a key decides"
        yield Problem("an entry with `list` has no other keys", (), hint)
    elif model.named not in lists:
        yield Problem(f"no list is called {model.named!r}", ("list",), nearest_known(model.named, lists))


def _rule_problems(rule: Guard) -> Iterator[Problem]:
    if [rule.lifts is None, rule.unless is None, rule.source is None].count(False) != 1:
        hint = "write `lifts: truthy`, `lifts: [values]`, `unless: [values]` or `from: {configMapKeyRef: name}`"
        yield Problem("has not exactly one of `lifts`, `unless` and `from`", (), hint)
    if rule.hides and (rule.place != "env" or not rule.harmless):
        yield Problem("no value hides devices", ("hides",), "write the values in `unless`, of variables")
    if rule.anywhere and rule.place != "env":
        yield Problem("only variables are guarded anywhere", ("anywhere",), "remove it")
    if rule.lifts == []:
        yield Problem("an empty list catches nothing", ("lifts",), "write `unless: []` to catch every value")
    if rule.place in KEPT_PLACES and rule.action == "strip":
        yield Problem(f"a {rule.place} is never removed", ("action",), "write `deny`, `warn` or `allow`")
    if rule.place in {"mount", "hostPath"} and (rule.lifts is not None or rule.unless):
        remedy = "write `unless: []`, which catches every mount" + (", or `from`" if rule.place == "mount" else "")
        yield Problem("a mount has no value", (rule.place,), remedy)
    yield from _source_problems(rule)
    pattern, what, hint = _SPELLINGS[rule.place]
    for name in rule.names:
        if pattern.fullmatch(name) is None or not (name.strip("/*") or name == "/"):
            yield Problem(f"{name!r} is not a name or pattern of {what}", (rule.place,), hint)


def _source_problems(rule: Guard) -> Iterator[Problem]:
    if rule.sources is None:
        return
    if rule.place not in {"env", "mount"}:
        yield Problem(f"only variables and mounts have a source, not a pod's {rule.place}", ("from",), "write `env`")
    elif not rule.sources:
        yield Problem("names no source", ("from",), "write `configMapKeyRef`, `secretKeyRef` or `fieldRef`")
    elif any((kind == "hostPath") != (rule.place == "mount") for kind in rule.sources):
        yield Problem("is the source of something else", ("from",), "write `hostPath` for mounts, and only there")


def _shim_problems(rule: Guard, shim: Shim | None) -> Iterator[Problem]:
    if shim is None or rule.sources is not None:
        return
    deliveries, injects = shim.deliveries, shim.document.mode == "inject"
    if rule.place == "hostPath":
        sources = [volume["hostPath"]["path"] for each in deliveries for volume in each.volumes if "hostPath" in volume]
        for path in sorted(rule.listed.among(sources)):
            yield Problem(f"the list catches {path}, which the shim itself mounts", ("hostPath",), "remove it")
    if rule.place == "mount":  # the shim's own mount there is let through, as its own values of variables are
        paths = {mount["mountPath"] for each in deliveries for mount in each.mounts if injects} - {PRELOAD_FILE}
        for name, path in ((each, path) for each in rule.names for path in sorted(NameSet.of([each]).among(paths))):
            message = f"{name} catches {path}, where the shim itself mounts"
            yield Problem(message, ("mount",), "remove it: another mount there is denied anyway")
    if rule.place == "env":
        yield from _variable_problems(rule, shim)


def _variable_problems(rule: Guard, shim: Shim) -> Iterator[Problem]:
    # In these, the shim's part comes before the user's.
    loader = {LD_LIBRARY_PATH, LD_PRELOAD} & shim.names
    if LD_LIBRARY_PATH in loader:
        loader.add(KEPT_LIBRARY_PATH)
    for pattern in rule.names:
        named = NameSet.of([pattern])
        for name in sorted(named.among(loader)):
            message = f"{pattern} catches {name}, which the shim writes, followed by the user's value"
            yield Problem(message, ("env",), "remove it: the value of the shim comes first anyway")
        for variable in shim.variables:
            if variable.pattern.replace("*", "0") in named and _catches(rule, variable):
                message = f"{pattern} catches what the shim itself writes: {variable.name}={variable.template}"
                yield Problem(message, ("env",), "write `unless: []`, which catches every value but the shim's")


def _catches(rule: Guard, variable: ShimVariable) -> bool:
    """Return whether the shim can write one of the values that the rule lists as lifting."""
    lifts = TRUE_LIKE if rule.lifts == "truthy" else rule.lifts
    if lifts is not None:
        return any(map(variable.can_be, lifts))
    return bool(rule.harmless) and variable.template not in (rule.harmless or ())
