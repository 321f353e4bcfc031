"""The guard of a vendor, compiled: which variables, annotations, labels and mounts of a pod would lift the limit of a share.

A variable in a pod's spec overrides the one that a device plugin sets (the kubelet appends the pod's after the plugin's), so
a user could lift a limit, or see devices that others share. Likewise a mount in its spec covers a device plugin's at the same
path. A rule lists names and the values that lift. It must not catch what the shim writes for the request; the caller, who
knows the request, ensures that.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.mapping.document.guard import KEPT_PLACES, PLACES, TRUE_LIKE, Guard, GuardPlace, ValueSource
from webhook.mapping.document.problem import Problems, nearest_known
from webhook.mapping.document.validation import guard_lists
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
    """The rules of a vendor, made by `compile_guards` only: the first that catches a key decides, so exceptions come first.

    `marks` and `anywhere` are texts of which undecoded JSON contains one if it has a guarded mount, or a variable of a rule
    for any container of a pod with a share: parts of names, or an escape, which may hide any; empty without such rules.
    """

    rules: tuple[Guard, ...]
    places: Mapping[GuardPlace, NameSet]  # what the rules list, for each place that has any
    marks: tuple[bytes, ...]
    anywhere: tuple[bytes, ...]
    # The variables that are denied or removed, and that nothing of the shim's comes before, if they come from ``envFrom``.
    unseen: tuple[str, ...]
    unseen_beside_whole: int  # the number of these that are of rules with `whole`: they stand first

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
        held = (rule for rule in rules if rule.whole >= whole and rule.anywhere >= other)
        return next((rule for rule in held if rule.catches(value, source)), None)

    def meant(self, path: str, *, whole: bool) -> Guard | None:
        """Return the first rule that may catch what is at a path that leads elsewhere than it says, by a part of its text."""
        rules = (rule for rule in self.rules if rule.place == "mount" and rule.action != "allow")
        held = (rule for rule in rules if rule.whole >= whole)
        return next((rule for rule in held if any(mark.decode() in path for mark in rule.marks)), None)

    def hides(self, name: str, value: str | None) -> bool:
        """Return whether a variable with this value hides the requested devices from its container."""
        if value is None or not self.guarded(name):
            return False
        return any(rule.hides and name in rule.listed and value in (rule.harmless or ()) for rule in self.rules)


def compile_guards(models: Sequence[Guard], shim: Shim | None, problems: Problems) -> Guards:
    """Compile the guard of a document; the result is usable only without problems."""
    rules: list[Guard] = []
    places: dict[GuardPlace, NameSet] = {}
    for index, written in enumerate(models):
        here = problems.at("guard", index)
        for rule in _listed(written, here):
            rules.append(rule)
            _check_rule(rule, shim, here)
            places[rule.place] = places.get(rule.place, NameSet()) | rule.listed
    marks = {mark for rule in rules for mark in rule.marks}
    anywhere = [name for rule in rules if rule.anywhere for name in rule.names]
    names = {max(name.split("*"), key=len).encode() for name in anywhere}
    unseen = _unseen(rules, shim, whole=True)
    both = dict.fromkeys((*unseen, *_unseen(rules, shim, whole=False)))
    return Guards(tuple(rules), places, _with_escape(marks), _with_escape(names), tuple(both), len(unseen))


def _unseen(rules: Sequence[Guard], shim: Shim | None, *, whole: bool) -> tuple[str, ...]:
    """The variables of rules that ``envFrom`` could set: an entry of `env`, such as each of the shim's, comes before it."""
    written = NameSet.of(() if shim is None or shim.mode == "plugin" else shim.names)
    held = [rule for rule in rules if (rule.place, rule.whole, rule.sources) == ("env", whole, None)]
    names = dict.fromkeys(name for rule in held if rule.action in {"deny", "strip"} for name in rule.names)
    return tuple(name for name in names if name not in written)


def _with_escape(marks: Collection[bytes]) -> tuple[bytes, ...]:
    return (b"\\", *sorted(marks)) if marks else ()


def _listed(model: Guard, problems: Problems) -> Sequence[Guard]:
    """Return the rules of an entry, which has one place with its names, or refers to a list; none if it is wrong."""
    lists = guard_lists()
    places = [f"`{place}`" for place in PLACES if getattr(model, place) is not None]
    if model.named is None:
        hint = "write the variable's name, or that of a built-in list"
        problems.when(not places, (), "has neither `env` nor `list`", hint)
        problems.when(places[1:], (), f"has {' and '.join(places)}", "write an entry for each")
        return [model] * (len(places) == 1)
    if model.model_fields_set != {"named"}:
        hint = "write exceptions as an entry before it: the first entry that catches a key decides"
        problems.add((), "an entry with `list` has no other keys", hint)
    elif model.named in lists:
        return lists[model.named].guard
    else:
        problems.add(("list",), f"no list is called {model.named!r}", nearest_known(model.named, lists))
    return ()


def _check_rule(rule: Guard, shim: Shim | None, problems: Problems) -> None:
    found, place = len(problems.found), rule.place
    hint = "write `lifts: truthy`, `lifts: [values]`, `unless: [values]` or `from: {configMapKeyRef: name}`"
    one = [rule.lifts, rule.unless, rule.source].count(None) == 2  # noqa: PLR2004  (of three)
    problems.when(not one, (), "has not exactly one of `lifts`, `unless` and `from`", hint)
    hides = place == "env" and rule.harmless
    problems.when(
        rule.hides and not hides, "hides", "no value hides devices", "write the values in `unless`, of variables"
    )
    problems.when(rule.anywhere and place != "env", "anywhere", "only variables are guarded anywhere", "remove it")
    hint = "write `unless: []` to catch every value"
    problems.when(rule.lifts == [], "lifts", "an empty list catches nothing", hint)
    kept = place in KEPT_PLACES and rule.action == "strip"
    problems.when(kept, "action", f"a {place} is never removed", "write `deny`, `warn` or `allow`")
    hint = "write `unless: []`, which catches every mount" + (", or `from`" if place == "mount" else "")
    valued = place in {"mount", "hostPath"} and (rule.lifts is not None or rule.unless)
    problems.when(valued, place, "a mount has no value", hint)
    _check_source(rule, problems)
    pattern, what, hint = _SPELLINGS[place]
    for name in rule.names:
        spelled = pattern.fullmatch(name) is not None and (name == "/" or name.strip("/*"))
        problems.when(not spelled, place, f"{name!r} is not a name or pattern of {what}", hint)
    if shim is not None and rule.sources is None and place in _OF_SHIM and len(problems.found) == found:
        _OF_SHIM[place](rule, shim, problems)


def _check_source(rule: Guard, problems: Problems) -> None:
    if rule.sources is None:
        return
    if rule.place not in {"env", "mount"}:
        message = f"only variables and mounts have a source, not a pod's {rule.place}"
        problems.add(("from",), message, "write `env`")
    elif not rule.sources:
        problems.add(("from",), "names no source", "write `configMapKeyRef`, `secretKeyRef` or `fieldRef`")
    else:
        other = any((kind == "hostPath") != (rule.place == "mount") for kind in rule.sources)
        problems.when(other, "from", "is the source of something else", "write `hostPath` for mounts, and only there")


def _check_folders(rule: Guard, shim: Shim, problems: Problems) -> None:
    volumes = (volume for delivery in shim.deliveries for volume in delivery.volumes)
    sources = [volume["hostPath"]["path"] for volume in volumes if "hostPath" in volume]
    for path in sorted(rule.listed.among(sources)):
        problems.add(("hostPath",), f"the list catches {path}, which the shim itself mounts", "remove it")


def _check_mounts(rule: Guard, shim: Shim, problems: Problems) -> None:
    """The shim's own mount at the file of preloads is let through, as its own values of variables are."""
    paths = {path for _, path in shim.mounted} - {PRELOAD_FILE}
    for name, path in ((each, path) for each in rule.names for path in sorted(NameSet.of([each]).among(paths))):
        hint = "remove it: another mount there is denied anyway"
        problems.add(("mount",), f"{name} catches {path}, where the shim itself mounts", hint)


def _check_variables(rule: Guard, shim: Shim, problems: Problems) -> None:
    # In these, the shim's part comes before the user's.
    loader = {LD_LIBRARY_PATH, LD_PRELOAD} & shim.names
    loader |= {KEPT_LIBRARY_PATH} if LD_LIBRARY_PATH in loader else set()
    for pattern in rule.names:
        named = NameSet.of([pattern])
        for name in sorted(named.among(loader)):
            message = f"{pattern} catches {name}, which the shim writes, followed by the user's value"
            problems.add(("env",), message, "remove it: the value of the shim comes first anyway")
        for variable in shim.variables:
            caught = variable.pattern.replace("*", "0") in named and _catches(rule, variable)
            message = f"{pattern} catches what the shim itself writes: {variable.name}={variable.template}"
            problems.when(caught, "env", message, "write `unless: []`, which catches every value but the shim's")


def _catches(rule: Guard, variable: ShimVariable) -> bool:
    """Return whether the shim can write one of the values that the rule lists as lifting."""
    lifts = TRUE_LIKE if rule.lifts == "truthy" else rule.lifts
    if lifts is not None:
        return any(map(variable.can_be, lifts))
    return bool(rule.harmless) and variable.template not in (rule.harmless or ())


_OF_SHIM: Final[Mapping[GuardPlace, Callable[[Guard, Shim, Problems], None]]] = {
    "hostPath": _check_folders,
    "mount": _check_mounts,
    "env": _check_variables,
}
"""By place, the check that a rule does not catch what the shim writes."""
