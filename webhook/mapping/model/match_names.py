"""The names of a vendor by which match conditions send a pod to the webhook, and the rules that keep ordinary pods away.

The API server sends a pod to the webhook if the pod carries one of these names, and rejects the pod while the webhook is
down. So a document must not match names that pods without a GPU carry, nor list so many names that the API server rejects
the conditions.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import resources
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from webhook.labels import CLAIM
from webhook.mapping.document.problem import FieldPath, Problems
from webhook.mapping.document.strict import texts
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.model.keys import Key, Template, Variables
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import compile_glob
from webhook.pod import DEVICE_CLASS

BESIDE: Final = 8  # Letters of an expression for each listed name, beside the name itself
LEAST: Final = 6  # Letters that a key without a domain begins with, at least: ordinary pods carry shorter ones
_LETTER: Final = re.compile(r"[A-Za-z0-9]")
_DNS: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_END_OF_DOMAIN: Final = re.compile(r"(?:[a-z0-9.-]*\.)?[a-z0-9-]+\.[a-z0-9-]+")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9._-]*")
_KUBERNETES: Final = ("kubernetes.io", "k8s.io")  # domains that, with their subdomains, are reserved for Kubernetes


@dataclass(frozen=True, slots=True)
class LetsThrough:
    """The names by which match conditions send a pod to the webhook; ``*`` matches any text."""

    prefixes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


KnownPlace: TypeAlias = Literal["resource", "label", "annotation"]

PLACES: Final[tuple[KnownPlace, ...]] = ("resource", "label", "annotation")


class AdvisedName(NamedTuple):
    """A name of another system with advice."""

    place: KnownPlace
    name: str
    advice: str
    report: bool
    position: int


def advised_names(document: Vendor) -> Iterator[AdvisedName]:
    """Yield the names of `known` that have advice."""
    for position, entry in enumerate(document.known):
        if not isinstance(entry, str):
            for place in PLACES:
                for name in texts(getattr(entry, place)):
                    yield AdvisedName(place, name, " ".join(entry.advice.split()), entry.report, position)


def known_resources(document: Vendor) -> Iterator[str]:
    """Yield the resource names of `known`, some with ``*``."""
    yield from (entry for entry in document.known if isinstance(entry, str))
    yield from (entry.name for entry in advised_names(document) if entry.place == "resource")


def reported_names(document: Vendor, *, whole: bool) -> list[AdvisedName]:
    """Return the names of other systems that are reported: whole ones, or patterns of resource names."""
    return [entry for entry in advised_names(document) if entry.report and whole is ("*" not in entry.name)]


class _Found(NamedTuple):
    """A name or pattern in a document (``*`` matches any text), and its path."""

    kind: Literal["device", "foreign", "prefix", "key"]  # a key is that of a label or annotation
    glob: str
    path: FieldPath
    lets_through: bool = True  # whether it lets pods through


def compile_lets_through(document: Vendor, keys: Mapping[str, Key], problems: Problems) -> LetsThrough:
    """Compile the names that let a pod through; the result is usable only without problems."""
    found = list(dict.fromkeys(_named(document, keys)))
    for kind, check in _CHECKS.items():
        for each in (each for each in found if each.kind == kind):
            for message, hint in check(each.glob):
                problems.add(each.path, message, hint)
    globs = {kind: [each.glob for each in found if each.kind == kind and each.lets_through] for kind in _CHECKS}
    # A share of a class may be claimed by a resource name that is no key; a pod whose request became a claim has no other.
    classes, claims = ([f"{DEVICE_CLASS}{document.claim.device_class}"], [CLAIM]) if document.claim else ([], [])
    made = LetsThrough(
        prefixes=tuple(globs["prefix"]),
        resources=(*globs["device"], *globs["foreign"], *classes),
        keys=tuple(sorted({*globs["key"], *claims})),
    )
    beyond = Capacity(MAX_PER_DOCUMENT).take(made)
    if beyond:
        places = Counter(each.path[:2] if each.path[0] == "match" else each.path[:1] for each in found)
        path = places.most_common(1)[0][0]
        problems.add(path, f"the names that let pods through would be {beyond}", "leave out some of them")
    return made


def _named(document: Vendor, keys: Mapping[str, Key]) -> Iterator[_Found]:
    """Yield the names of keys, the prefixes of resources, the marks of schedulers, and the reported names of other systems."""
    of_keys = list(_of_keys(document, keys))
    yield from of_keys
    yield from _prefixes(document, [each for each in of_keys if each.kind == "device"])
    yield from _marks(document)
    for each in reported_names(document, whole=True):
        path = ("known", each.position, each.place)
        yield _Found("foreign" if each.place == "resource" else "key", each.name, path)


def _of_keys(document: Vendor, keys: Mapping[str, Key]) -> Iterator[_Found]:
    for key in (key for key in keys.values() if key.place in PLACES):
        for glob in (glob for template in key.templates for glob in spelled(template, document.variables)):
            yield _Found("device" if key.place == "resource" else "key", glob, ("keys", key.name, key.place))


def _prefixes(document: Vendor, devices: Iterable[_Found]) -> Iterator[_Found]:
    """The prefixes of resource names, or the domains of keys beside them, where misspelled ones are looked for."""
    for i, glob in enumerate(document.match.resources or ()):
        yield _Found("prefix", glob, ("match", "resources", i))
    below: dict[str, FieldPath] = {}
    for each in devices if not document.match.resources else ():
        domain, slash, _ = each.glob.partition("/")
        if slash and "*" not in domain:
            below.setdefault(f"{domain}/", each.path)
    yield from (_Found("prefix", domain, path) for domain, path in below.items())


def _marks(document: Vendor) -> Iterator[_Found]:
    """The marks, and what stands under `match` in their place."""
    instead = document.match.keys
    written: dict[FieldPath, str] = {("owned", i): mark for i, mark in enumerate(document.marks)}
    written |= {("match", "keys", i): key for i, key in enumerate(instead or ())}
    for path, text in written.items():
        for glob in spelled(Template(text), document.variables):
            # One that could be any key of a domain matters only beside a key of the vendor, and that lets the pod through.
            narrow = _LETTER.search(glob.rpartition("/")[2]) is not None
            yield _Found("key", glob, path, narrow and (instead is None or path[0] == "match"))


def spelled(template: Template, variables: Variables) -> Iterator[str]:
    """Yield a key for each value of its variables, or once with ``*`` for those that cannot be listed."""
    yield from (key for key, _ in template.names(variables))
    if template.pattern(variables) is not None:
        yield template.glob


_Wrong: TypeAlias = Iterator[tuple[str, str | None]]  # what is wrong with a name, and a hint


def _resource_problems(name: str, *, foreign: bool = False) -> _Wrong:
    """A whole name of another system may be below any domain, even Kubernetes' own."""
    if "/" not in name:
        yield f"{name!r} has no domain, like the resources of every pod", "write `example.com/name`"
    elif not foreign:
        yield from _domain_problems(name)
    elif name in _ordinary()["resources"]:
        yield f"{name} would hold back pods without a GPU", "leave it out"


def _prefix_problems(name: str) -> _Wrong:
    if _PREFIX.fullmatch(name) is None:
        hint = "write a domain, a slash, and how the names go on: `example.com/gpu-`"
        yield f"{name!r} is not a prefix of device names", hint
        return
    yield from _domain_problems(name)
    taken = next((resource for resource in _ordinary()["resources"] if resource.startswith(name)), None)
    if taken is not None:
        hint = "write how the names of GPUs go on: `match: {resources: [example.com/gpu-]}`"
        yield f"{name}* would hold back pods without a GPU: {taken} is such a name", hint


def _key_problems(name: str) -> _Wrong:
    if "/" not in name and len(name.partition("*")[0]) < LEAST:
        message = f"{name!r} would hold back ordinary pods: it has no domain, and begins with too few letters"
        yield message, f"write the domain, or {LEAST} letters and more"
        return
    if "/" in name:
        yield from _domain_problems(name)
    taken = _ordinary_key(name)
    if taken is not None:
        yield f"{name!r} would hold back ordinary pods: {taken} is on many of them", None


def _domain_problems(name: str) -> _Wrong:
    domain = name.partition("/")[0]
    end = domain.rpartition("*")[2]
    if "*" not in domain and _DNS.fullmatch(domain) is None:
        yield f"{domain!r} is not a domain", None
    elif "*" in domain and _END_OF_DOMAIN.fullmatch(end) is None:
        yield f"{name!r} would be names of any domain", "write the end of the domain itself"
        return
    for own in _KUBERNETES:
        if f".{end}".endswith(f".{own}") or ("*" in domain and own.endswith(end)):
            taken = end.lstrip(".") if end.endswith(own) else own
            yield f"{name}: {taken} is Kubernetes' own", "use a domain of the vendor"
            return


_CHECKS: Final[Mapping[str, Callable[[str], _Wrong]]] = {
    "device": _resource_problems,
    "foreign": partial(_resource_problems, foreign=True),
    "prefix": _prefix_problems,
    "key": _key_problems,
}
"""By the kind of a name, what may be wrong with it."""


@lru_cache(maxsize=4096)
def _ordinary_key(glob: str) -> str | None:
    """Return an ordinary key that the pattern matches, or None."""
    keys = _ordinary()["keys"]
    if "*" not in glob:
        return glob if glob in keys else None
    return next(filter(compile_glob(glob).fullmatch, keys), None)


@cache
def _ordinary() -> Mapping[str, Any]:
    text = (resources.files("webhook.mapping") / "ordinary.yaml").read_text()
    (document,) = parse(text, "ordinary.yaml")
    return document.data


class MatchLoad(NamedTuple):
    """The size of names in match conditions, or the limit for it."""

    characters: int = 0
    patterns: int = 0
    prefixes: int = 0


_UNITS: Final = (
    "characters of a match condition",
    "characters of patterns in a match condition",
    "prefixes of resource names",
)

MOST: Final = MatchLoad(characters=95_000, patterns=2_000, prefixes=32)
"""The limits for all documents together. A CEL expression of the API server has at most 100,000 code points, not all for
names. Patterns and prefixes cost time for each key and name of a pod, and the API server rejects a pod beyond its budget."""

MAX_PER_DOCUMENT: Final = MatchLoad(characters=25_000, patterns=500, prefixes=16)  # the limits for one document


class Capacity:
    """What match conditions can still hold while documents are added one after the other."""

    def __init__(self, most: MatchLoad = MOST) -> None:
        self._most = most
        self._load = MatchLoad()
        self._prefixes: set[str] = set()
        self._names: set[str] = set()

    def take(self, names: LetsThrough) -> str:
        """Add names; if they exceed a limit, leave them out and return what is exceeded, as the end of a sentence."""
        prefixes, added = {*names.prefixes} - self._prefixes, {*names.resources, *names.keys} - self._names
        # In the expression a dot becomes three characters, a star two.
        patterns = sum(len(name) + 2 * name.count(".") + name.count("*") + 1 for name in added if "*" in name)
        # Each name is listed as a key and as a resource: users also write it in a wrong place. A domain covers its resources.
        below = prefixes | self._prefixes
        twice = [name for name in added if f"{name.partition('/')[0]}/" not in below]
        lists = sum(len(name) + BESIDE for name in (*prefixes, *added, *twice))
        more = (lists + patterns, patterns, sum(not prefix.endswith("/") for prefix in prefixes))
        load = MatchLoad(*map(sum, zip(self._load, more, strict=True)))
        beyond = " and ".join(
            f"{number} {unit}, more than {limit}"
            for number, unit, limit in zip(load, _UNITS, self._most, strict=True)
            if number > limit
        )
        if not beyond:
            self._load = load
            self._prefixes |= prefixes
            self._names |= added
        return beyond
