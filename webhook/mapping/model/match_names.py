"""What of a vendor's names lets a pod through to the webhook, and the rules that keep ordinary pods away.

An API server sends a pod here if it carries one of these names, and holds it back while nobody answers. So a document may not
take in names that pods without a GPU carry, nor so many that the API server refuses the conditions made of them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, NamedTuple

from webhook.mapping.document import schema
from webhook.mapping.document.key_template import Template
from webhook.mapping.document.problem import Path, Problem
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.model.vendor import Key, LetsThrough
from webhook.mapping.notation.glob import glob_pattern

BESIDE: Final = 8
"""Letters that stand in an expression beside each name of a list."""

LEAST: Final = 6
"""Letters with which a key begins that has no domain: shorter ones are on ordinary pods."""

_VARIABLE: Final = re.compile(r"\{[^{}]*\}")
_LETTER: Final = re.compile(r"[A-Za-z0-9]")
_DNS: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_END_OF_DOMAIN: Final = re.compile(r"(?:[a-z0-9.-]*\.)?[a-z0-9-]+\.[a-z0-9-]+")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9._-]*")
_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
"""Domains whose names, and those of their subdomains, are Kubernetes' own."""


class _Name(NamedTuple):
    """A name as it lets through, and where the document says it; ``*`` stands for anything."""

    glob: str
    path: Path


def compile_lets_through(document: schema.Mapping, words: Mapping[str, Key]) -> tuple[LetsThrough, list[Problem]]:
    """What lets a pod through; fit for use only if there are no problems.

    Args:
        document: validated, its variables too.
        words: its words, compiled; their names can be listed.
    """
    variables = document.variables
    named = {place: list(_words(words, variables, place)) for place in ("resource", "label", "annotation")}
    devices, keys = named["resource"], [*named["label"], *named["annotation"]]
    prefixes = list(_prefixes(document, devices))
    owned = [_Name(glob, path) for mark, path in _owned(document) for glob in _spelled(Template(mark), variables)]
    marks = owned
    if document.match.keys is not None:
        listed = enumerate(document.match.keys)
        marks = [
            _Name(glob, ("match", "keys", index))
            for index, key in listed
            for glob in _spelled(Template(key), variables)
        ]
    # Such marks matter only beside a word of the vendor, and that lets the pod through by itself.
    narrow = {one.glob for one in marks if _LETTER.search(one.glob.rpartition("/")[2]) is not None}
    made = LetsThrough(
        prefixes=tuple(one.glob for one in prefixes),
        resources=tuple(one.glob for one in devices),
        keys=tuple(sorted({one.glob for one in keys} | narrow)),
    )
    problems = [
        *(problem for one in devices for problem in _of_resource(one)),
        *(problem for one in prefixes for problem in _of_prefix(one)),
        *(problem for one in dict.fromkeys([*keys, *owned, *marks]) for problem in _of_key(one)),
    ]
    beyond = Room(MOST_OF_ONE).take(made)
    if beyond:
        most = marks if len(marks) > len(devices) + len(keys) else [*devices, *keys]
        path = most[0].path[:1] if most[0].path[0] != "match" else ("match", "keys")
        problems.append(Problem(f"the names that let pods through would be {beyond}", path, "leave out some of them"))
    return made, problems


def _words(words: Mapping[str, Key], variables: Mapping[str, schema.Variable], place: str) -> Iterator[_Name]:
    for word in words.values():
        if word.place == place:
            for template in word.templates:
                for glob in _spelled(template, variables):
                    yield _Name(glob, ("keys", word.name, place))


def _owned(document: schema.Mapping) -> Iterator[tuple[str, Path]]:
    for index, one in enumerate(document.owned):
        yield one if isinstance(one, str) else one.label, ("owned", index)


def _prefixes(document: schema.Mapping, devices: Collection[_Name]) -> Iterator[_Name]:
    """Where misspelt words are looked for: what the mapping says, else the domains of the resource words."""
    if document.match.resources:
        yield from (_Name(one, ("match", "resources", index)) for index, one in enumerate(document.match.resources))
        return
    seen: set[str] = set()
    for glob, path in devices:
        prefix = f"{glob.partition('/')[0]}/"
        if "/" in glob and "*" not in prefix and prefix not in seen:
            seen.add(prefix)
            yield _Name(prefix, path)


def _spelled(template: Template, variables: Mapping[str, schema.Variable]) -> Iterator[str]:
    """A key with its variables filled in, or ``*`` for those that cannot be listed."""
    yield from (key for key, _ in template.names(variables))
    if template.pattern(variables) is not None:
        yield _VARIABLE.sub("*", template.text)


def _of_resource(one: _Name) -> Iterator[Problem]:
    if "/" not in one.glob:
        yield Problem(
            f"{one.glob!r} has no domain, like the resources of every pod", one.path, "write `example.com/name`"
        )
        return
    yield from _of_domain(one)


def _of_prefix(one: _Name) -> Iterator[Problem]:
    if _PREFIX.fullmatch(one.glob) is None:
        hint = "write a domain, a slash, and how the names go on: `example.com/gpu-`"
        yield Problem(f"{one.glob!r} is no beginning of the names of devices", one.path, hint)
        return
    yield from _of_domain(one)
    taken = next((name for name in _ordinary()["resources"] if name.startswith(one.glob)), None)
    if taken is not None:
        hint = "write how the names of GPUs go on: `match: {resources: [example.com/gpu-]}`"
        yield Problem(f"{one.glob}* would hold back pods without a GPU: {taken} is such a name", one.path, hint)


def _of_key(one: _Name) -> Iterator[Problem]:
    if "/" not in one.glob and len(one.glob.partition("*")[0]) < LEAST:
        message = f"{one.glob!r} would hold back ordinary pods: it has no domain, and begins with too few letters"
        yield Problem(message, one.path, f"write the domain, or {LEAST} letters and more")
        return
    if "/" in one.glob:
        yield from _of_domain(one)
    taken = _taken(one.glob)
    if taken is not None:
        yield Problem(f"{one.glob!r} would hold back ordinary pods: {taken} is on many of them", one.path)


def _of_domain(one: _Name) -> Iterator[Problem]:
    domain = one.glob.partition("/")[0]
    end = domain.rpartition("*")[2]
    if "*" not in domain and _DNS.fullmatch(domain) is None:
        yield Problem(f"{domain!r} is no domain", one.path)
    elif "*" in domain and _END_OF_DOMAIN.fullmatch(end) is None:
        yield Problem(f"{one.glob!r} would be names of any domain", one.path, "write the end of the domain itself")
        return
    own = next(
        (own for own in _KUBERNETES if f".{end}".endswith(f".{own}") or ("*" in domain and own.endswith(end))), None
    )
    if own is not None:
        taken = end.lstrip(".") if end.endswith(own) else own
        yield Problem(f"{one.glob}: {taken} is Kubernetes' own", one.path, "use a domain of the vendor")


@lru_cache(maxsize=4096)
def _taken(glob: str) -> str | None:
    """An ordinary key that a pattern takes in."""
    keys = _ordinary()["keys"]
    if "*" not in glob:
        return glob if glob in keys else None
    pattern = re.compile(glob_pattern(glob), re.DOTALL)
    return next(filter(pattern.fullmatch, keys), None)


@cache
def _ordinary() -> Mapping[str, Any]:
    text = (resources.files("webhook.mapping") / "ordinary.yaml").read_text()
    (document,) = parse(text, "ordinary.yaml")
    return document.data


@dataclass(frozen=True, slots=True)
class Load:
    """What names come to in match conditions, or may come to.

    Attributes:
        letters: of the expression.
        patterns: letters of those among them that are patterns.
        prefixes: of resource names, without whole domains, which are a list.
    """

    letters: int = 0
    patterns: int = 0
    prefixes: int = 0

    def beyond(self, most: "Load") -> str:
        """What is too much, with the numbers, as the end of a sentence; empty if nothing is."""
        return " and ".join(
            f"{number} {unit}, more than {limit}"
            for number, unit, limit in (
                (self.letters, "letters of a match condition", most.letters),
                (self.patterns, "letters of patterns in a match condition", most.patterns),
                (self.prefixes, "prefixes of resource names", most.prefixes),
            )
            if number > limit
        )


MOST: Final = Load(letters=95_000, patterns=2_000, prefixes=32)
"""All documents together. An expression has 100,000 code points at most (CEL in the API server), and not all are names;
patterns and prefixes cost for each key and name of a pod, and a pod beyond that budget would be refused."""

MOST_OF_ONE: Final = Load(letters=25_000, patterns=500, prefixes=16)
"""One document."""


class Room:
    """What match conditions still hold while documents are put into them, one after the other."""

    def __init__(self, most: Load = MOST) -> None:
        self._most = most
        self._load = Load()
        self._prefixes: set[str] = set()
        self._names: set[str] = set()

    def take(self, one: LetsThrough) -> str:
        """Put names in; or, if they are too much, say so as the end of a sentence, and leave them out."""
        prefixes = {prefix for prefix in one.prefixes if prefix not in self._prefixes}
        names = {name for name in (*one.resources, *one.keys) if name not in self._names}
        # A dot becomes three letters there, a star two.
        patterns = sum(len(name) + 2 * name.count(".") + name.count("*") + 1 for name in names if "*" in name)
        # A name is a key and a resource, for somebody may write it where nobody reads it; a domain covers its resources.
        domains = {name: f"{name.partition('/')[0]}/" for name in names}
        twice = [name for name, domain in domains.items() if domain not in prefixes and domain not in self._prefixes]
        lists = sum(len(name) + BESIDE for name in (*prefixes, *names, *twice))
        load = Load(
            self._load.letters + lists + patterns,
            self._load.patterns + patterns,
            self._load.prefixes + sum(not prefix.endswith("/") for prefix in prefixes),
        )
        beyond = load.beyond(self._most)
        if not beyond:
            self._load = load
            self._prefixes |= prefixes
            self._names |= names
        return beyond
