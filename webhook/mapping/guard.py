"""The guard of a vendor, compiled: which variables of a pod would lift the limit of a share.

A variable in a pod's spec beats the one that a device plugin sets (the kubelet appends the pod's after the plugin's),
so that a user could lift a limit, or see devices that others share. A rule names variables and the values that lift. What
the shim writes for the request is never to be caught; the caller, who knows the request, sees to that.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from webhook.mapping import schema
from webhook.mapping.glob import glob_pattern
from webhook.mapping.guard_lists import GuardList, guard_lists
from webhook.mapping.loader import KEPT_LIBRARY_PATH, LD_LIBRARY_PATH, LD_PRELOAD
from webhook.mapping.problem import Path, Problem, nearest_known
from webhook.mapping.shim import Shim, Variable

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""What Go's ``strconv.ParseBool`` takes as true: device plugins read their switches with it."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.*-]+")


def truthy(value: str) -> bool:
    """Whether a switch with this value is on: true for Go's ``strconv.ParseBool``, or a yes or on in any case."""
    return value in _TRUE or value.casefold() in {"yes", "on"}


@dataclass(frozen=True, slots=True)
class GuardRule:
    """Variables by name, and the values that lift.

    Attributes:
        env: the names as the document writes them, ``*`` standing for anything.
        truthy: true-like values lift.
        lifting: these lift, in any case of letters; None where another rule holds.
        harmless: all but these lift, to the letter; None where another rule holds.
        action: what becomes of a variable that lifts.
        whole: it holds for containers with whole devices, too.
    """

    env: tuple[str, ...]
    truthy: bool
    lifting: frozenset[str] | None
    harmless: frozenset[str] | None
    action: Literal["deny", "strip", "allow"]
    whole: bool

    def lifts(self, value: str) -> bool:
        """Whether a variable of the rule lifts the limit when it has this value."""
        if self.truthy:
            return truthy(value)
        if self.lifting is not None:
            return value.casefold() in self.lifting
        return self.harmless is None or value not in self.harmless


@dataclass(frozen=True, slots=True)
class Guards:
    """The rules of a vendor; made by `compile_guards` only.

    Attributes:
        rules: in the order of the document: the first that catches a variable decides, so that an exception (``allow``)
            stands before what it is an exception from.
        exact: rules by the names that they spell out.
        patterns: rules by the patterns of their names.
        any_pattern: all patterns as one, or None.
        watched: finds in undecoded JSON what could be a guarded variable or one of the shim's, or None.
    """

    rules: tuple[GuardRule, ...] = ()
    exact: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    patterns: tuple[tuple[re.Pattern[str], int], ...] = ()
    any_pattern: re.Pattern[str] | None = None
    watched: re.Pattern[bytes] | None = None

    def concerns(self, raw_env: bytes) -> bool:
        """Whether an ``env`` list, undecoded, could hold a guarded variable or one that the shim writes.

        A quick look that may say yes for nothing but never no for something: hundreds of ordinary variables need not be
        decoded. An escape may hide any name; few manifests have one.
        """
        if self.watched is None or not raw_env:
            return False
        text = bytes(raw_env)
        # A single byte is found ten times as fast as two, and most manifests have no backslash.
        return self.watched.search(text) is not None or (b"\\" in text and b"\\u" in text)

    def guarded(self, name: str) -> bool:
        """Whether some rule names this variable."""
        return name in self.exact or (self.any_pattern is not None and self.any_pattern.fullmatch(name) is not None)

    def catch(self, name: str, value: str | None, *, whole: bool = False) -> GuardRule | None:
        """The first rule by which this variable lifts; a value that is not known (None) is taken to lift.

        Args:
            name: of the variable.
            value: what it will hold, None where that is not known.
            whole: in a container with whole devices, for which only rules that say so hold.
        """
        if not self.guarded(name):
            return None
        indexes = [*self.exact.get(name, ()), *(i for pattern, i in self.patterns if pattern.fullmatch(name))]
        for index in sorted(indexes):
            rule = self.rules[index]
            if (rule.whole or not whole) and (value is None or rule.lifts(value)):
                return rule
        return None


def compile_guards(models: Sequence[schema.Guard], shim: Shim | None, path: Path) -> tuple[Guards, list[Problem]]:
    """The guard of a document; it is fit for use only if there are no problems.

    Args:
        models: what the document says.
        shim: the vendor's shim: its variables are watched too, and none of its own values may be caught.
        path: where in the document the list stands.
    """
    lists = guard_lists()
    rules: list[GuardRule] = []
    problems: list[Problem] = []
    for index, written in enumerate(models):
        found = [*_list_problems(written, lists)]
        for model in () if found else (written,) if written.named is None else lists[written.named].guard:
            rule = _rule(model)
            rules.append(rule)
            found += [*_rule_problems(model, rule)] or _shim_problems(rule, shim)
        problems += [Problem(one.message, (*path, index, *one.path), one.hint) for one in found]
    exact: dict[str, tuple[int, ...]] = {}
    patterns: list[tuple[re.Pattern[str], int]] = []
    for index, rule in enumerate(rules):
        for name in rule.env:
            if "*" in name:
                patterns.append((_pattern(name), index))
            else:
                exact[name] = (*exact.get(name, ()), index)
    names = {*(shim.names if shim is not None else ()), *(name for rule in rules for name in rule.env)}
    any_pattern = re.compile("|".join(pattern.pattern for pattern, _ in patterns), re.DOTALL) if patterns else None
    return Guards(tuple(rules), exact, tuple(patterns), any_pattern, _watch(names)), problems


def _list_problems(model: schema.Guard, lists: Mapping[str, GuardList]) -> Iterator[Problem]:
    """What keeps an entry from being one variable's, or a reference to a list."""
    if model.named is None:
        if model.env is None:
            yield Problem("says neither `env` nor `list`", (), "write the variable's name, or that of a built-in list")
    elif model.model_fields_set != {"named"}:
        yield Problem(
            "`list` stands alone",
            (),
            "write what differs as an entry of its own before it: the first that catches decides",
        )
    elif model.named not in lists:
        yield Problem(f"no list is called {model.named!r}", ("list",), nearest_known(model.named, lists))


def _rule(model: schema.Guard) -> GuardRule:
    lifting = frozenset(value.casefold() for value in model.lifts) if isinstance(model.lifts, list) else None
    return GuardRule(
        env=(model.env,) if isinstance(model.env, str) else tuple(model.env or ()),
        truthy=model.lifts == "truthy",
        lifting=lifting,
        harmless=None if model.unless is None else frozenset(model.unless),
        action=model.action,
        whole=model.whole,
    )


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(glob_pattern(name), re.DOTALL)


def _watch(names: set[str]) -> re.Pattern[bytes] | None:
    if not names:
        return None
    # A pattern that begins with `*` has no literal beginning: every list with a name in it is looked at.
    beginnings = sorted({re.escape(name.split("*", 1)[0]) for name in names})
    return re.compile(rf'"name"\s*:\s*"(?:{"|".join(beginnings)})'.encode())


def _rule_problems(model: schema.Guard, rule: GuardRule) -> Iterator[Problem]:
    if (model.lifts is None) == (model.unless is None):
        yield Problem(
            "says exactly one of `lifts` and `unless`", (), "`lifts: truthy`, `lifts: [values]` or `unless: [values]`"
        )
    if model.lifts == []:
        yield Problem("no value lifts: the rule catches nothing", ("lifts",), "write `unless: []` to catch every value")
    for name in rule.env:
        if _NAME.fullmatch(name) is None or not name.strip("*"):
            yield Problem(f"{name!r} is no name or pattern of variables", ("env",), "use letters, digits, `_` and `*`")


def _shim_problems(rule: GuardRule, shim: Shim | None) -> Iterator[Problem]:
    if shim is None:
        return
    loader = {LD_LIBRARY_PATH, LD_PRELOAD} & shim.names
    if LD_LIBRARY_PATH in loader:
        loader.add(KEPT_LIBRARY_PATH)
    for pattern in rule.env:
        named = _pattern(pattern)
        for name in sorted(filter(named.fullmatch, loader)):
            yield Problem(
                f"{pattern} catches {name}, which the shim writes with the user's value after its own",
                ("env",),
                "leave it out: the shim comes first whatever the user writes",
            )
        for variable in shim.variables:
            if named.fullmatch(variable.name) and _catches(rule, variable):
                yield Problem(
                    f"{pattern} catches what the shim itself writes: {variable.name}={variable.template}",
                    ("env",),
                    "write `unless: []`, which catches every value but the shim's",
                )


def _catches(rule: GuardRule, variable: Variable) -> bool:
    """Whether some value that the shim gives its variable is among those that lift, said one by one."""
    if rule.truthy:
        return any(variable.can_be(value) for value in (*_TRUE, "yes", "on"))
    if rule.lifting is not None:
        return any(variable.can_be(value) for value in rule.lifting)
    return bool(rule.harmless) and variable.template not in (rule.harmless or ())
