"""A search for pods that take long: every field of a pod that is read, filled in every way up to any size.

Nothing here lists fields: `places` walks through the types that pods are decoded into, and on through what stays undecoded at
first, and a new undecoded field without its type is an error. Texts are made of what has a meaning somewhere, keys and names
of what any vendor's document knows.
"""

import json
import random
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tests.decisions.worst_pods import SHARE, Members
from webhook import pod as views
from webhook.labels import PREFIX
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.pod import Container, EnvVar, Pod, PodSpec, Volume


def _decoded(module: types.ModuleType, decoder: str) -> Any:
    """The type that a decoder of a module makes."""
    return vars(module)[decoder].type


LATER: Final[dict[tuple[type, str], Any]] = {
    (Container, "env"): _decoded(views, "ENV"),
    (Container, "env_from"): _decoded(views, "ENV_FROM"),
    (Container, "volume_mounts"): _decoded(views, "MOUNTS"),
    (Container, "volume_devices"): _decoded(views, "DEVICES"),
    (Container, "termination_message_path"): _decoded(views, "_text"),
    (Container, "image"): str,
    (views.Capabilities, "add"): list[str],
    (Container, "command"): list[str],
    (Container, "args"): list[str],
    (Container, "restart_policy"): str,
    (PodSpec, "ephemeral_containers"): list[dict[str, Any]],
    (PodSpec, "volumes"): _decoded(views, "VOLUMES"),
    (PodSpec, "tolerations"): list[dict[str, Any]],
    (PodSpec, "scheduling_gates"): _decoded(views, "GATES"),
    (PodSpec, "affinity"): _decoded(views, "_affinity"),
    (EnvVar, "value_from"): types.GenericAlias(dict, (str, _decoded(views, "_source_name"))),
    (Volume, "empty_dir"): dict[str, Any],
    (Volume, "image"): dict[str, Any],
    (Volume, "csi"): dict[str, Any],
}
"""What undecoded fields are decoded into when they are needed."""

TOKENS: Final = (
    *("a", "1", "$(A)", "$$(", ":", ";", ",", " ", "/", "/../", "-a"),
    *("=", "*", "~", "{", "\\", "\u00e9", "\n", "x::", "1e"),
)
"""What texts are made of: signs with a meaning for some step, and letters."""

COUNTS: Final = (1, 64, 1024, 8192, 262_144)
"""Entries of lists and maps; with fewer of them, their texts are longer."""

SPREADS: Final = (1, 128)
"""Containers that have a part each."""

Words = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Place:
    """A field: its steps from the pod, where ``[]`` is any entry of a list and ``{}`` of a map, and its kind."""

    path: tuple[str, ...]
    kind: str

    @property
    def name(self) -> str:
        return ".".join(self.path)


def places() -> list[Place]:
    """Every field of a pod that is decoded, at once or later."""
    return list(dict.fromkeys(_places(Pod, ())))


def _places(of: Any, path: tuple[str, ...]) -> Iterator[Place]:
    origin, arguments = typing.get_origin(of), typing.get_args(of)
    if origin in {typing.Union, types.UnionType}:
        for each in arguments:
            yield from _places(each, path)
    elif origin is list:
        yield Place(path, "list")
        yield from _places(arguments[0], (*path, "[]"))
    elif origin is dict:
        yield Place(path, "map")
        yield from _places(arguments[1], (*path, "{}"))
    elif of in {str, Any}:
        yield Place(path, "text")
    elif of in {int, float}:
        yield Place(path, "number")
    elif isinstance(of, type) and issubclass(of, msgspec.Struct):
        hints = typing.get_type_hints(of)
        for field in msgspec.structs.fields(of):
            here = (*path, field.encode_name)
            yield from _places(LATER[of, field.name] if hints[field.name] is msgspec.Raw else hints[field.name], here)


def words(policy: Policy) -> dict[str, tuple[str, str]]:
    """Names with a meaning: for each vendor one of each kind of key, whole and as a pattern, with the vendor's name."""
    found: dict[str, tuple[str, str]] = {
        "own": (f"{PREFIX}x", ""),
        "domain": ("example.com/x", ""),
        "letters": ("x", ""),
    }
    for vendor in policy.vendors.values():
        for kind, names in _words(vendor).items():
            for star in (True, False):
                chosen = next((name for name in names if ("*" in name or "{" in name) is star), None)
                if chosen is not None:
                    found[f"{vendor.name} {kind}{' *' if star else ''}"] = (chosen, vendor.name)
    return found


def _words(vendor: Vendor) -> Words:
    shim = vendor.shim
    deliveries = () if shim is None else shim.deliveries
    return {
        **{key.place: tuple(template.text for template in key.templates) for key in vendor.keys.values()},
        "owned": tuple(entry if isinstance(entry, str) else entry.label for entry in vendor.own),
        "hint": tuple(vendor.hints),
        "belongs": tuple(vendor.belongs),
        "place": (*vendor.place.labels, *vendor.place.annotations, *vendor.place.node_selector),
        **{f"guard {rule.place}": rule.names for rule in vendor.guard.rules},
        "variable": () if shim is None else tuple(sorted(shim.names)),
        "volume": tuple(entry["name"] for delivery in deliveries for entry in delivery.volumes),
        "mount": tuple(entry["mountPath"] for delivery in deliveries for entry in delivery.mounts),
    }


@dataclass(frozen=True, slots=True)
class Filling:
    """One way of filling a field.

    Attributes:
        place: the field.
        token: what its text is made of.
        word: what names and keys beside or in it begin with.
        vendor: whose keys the pod requests in; empty for any.
        count: entries of the innermost list or map.
        spread: containers that have a part each.
    """

    place: Place
    token: str = "a"
    word: str = "x"
    vendor: str = ""
    count: int = 1
    spread: int = 1

    @property
    def name(self) -> str:
        return f"{self.place.kind} {self.place.name}, {self.token!a}, {self.word}, {self.count} in {self.spread}"

    def body(self, size: int, policy: Policy) -> bytes:
        """A pod of at most `size` bytes, and of as many as fit; or of more, if its containers alone need them."""
        made, wanted = self._made(size, policy), size
        while len(made) > size and wanted > 0:
            wanted = wanted * size // len(made) - 1024
            made = self._made(wanted, policy)
        return made

    def _made(self, size: int, policy: Policy) -> bytes:
        overhead = 24 + len(self.word)  # of an entry: quotes, braces, a name
        length = max(0, size // (self.count * self.spread) - overhead)
        count = self.count if length else max(1, size // self.spread // (overhead + len(self.token)))
        text = self.token * (length // len(json.dumps(self.token)[1:-1]))
        filled = self._filled(self.place.path, text, count)
        made: Members = {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", **_request(self.vendor, policy)}]},
        }
        if self.spread > 1:
            first = filled["spec"]["containers"][0]
            many = [
                {**first, "name": f"c{i}", "resources": _side(_request(self.vendor, policy), first)}
                for i in range(self.spread)
            ]
            filled = {"spec": {"containers": many}}
        return json.dumps(_merged(made, filled)).encode()

    def _filled(self, path: tuple[str, ...], text: str, count: int) -> Any:
        """The value at a path: the innermost list or map has all entries, outer ones have one."""
        if not path:
            return self._leaf(text, count)
        step, *rest = path
        inner = tuple(rest)
        entries = 1 if {"[]", "{}"} & {*inner} or self.place.kind in {"list", "map"} else count
        if step == "[]":
            value = self._filled(inner, text, count)
            return [self._named(value, i) for i in range(entries)]
        if step == "{}":
            return {self._word(i): self._filled(inner, text, count) for i in range(entries)}
        return {step: self._filled(inner, text, count)}

    def _leaf(self, text: str, count: int) -> Any:
        match self.place.kind:
            case "list":
                return [self._named({}, i, text) for i in range(count)]
            case "map":
                return {self._word(i) + text: "1" for i in range(count)}
            case "number":
                return 10**15
            case _:
                return text

    def _named(self, value: Any, number: int, text: str = "") -> Any:
        """An entry of a list, with a name unless that is what is filled."""
        if not isinstance(value, dict):
            return value
        return {"name": self._word(number) + text, **value}

    def _word(self, number: int) -> str:
        """A word, with a number where it has a variable part; whole words are repeated, as lists may."""
        word, repeats = self.word, self.place.kind != "map" and "{}" not in self.place.path
        before, star, after = word.partition("*") if "*" in word else word.partition("{")
        if star:
            return f"{before}{number}{after.rpartition('}')[2] if star == '{' else after}"
        return word if repeats else f"{word}{number:x}"


def _request(vendor: str, policy: Policy) -> Members:
    """Resources that request a share, in a vendor's keys if it has resources."""
    keys = policy.vendors[vendor].keys.values() if vendor else ()
    names = [key.spellings[0].text for key in keys if key.place == "resource" and "{" not in key.spellings[0].text]
    side = dict.fromkeys(names[:2], "1") or SHARE
    return {"resources": {"limits": side, "requests": side}}


def _side(request: Members, first: Members) -> Any:
    return _merged(request["resources"], first.get("resources", {}))


def _merged(one: Any, other: Any) -> Any:
    """Two JSON values as one; lists entry by entry."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: _merged(one[key], value) if key in one else value for key, value in other.items()}}
    if isinstance(one, list) and isinstance(other, list) and one and other:
        return [_merged(one[0], other[0]), *other[1:]]
    return other


def fillings(policy: Policy) -> Iterator[Filling]:
    """Every way of filling: each text of each token, each list and map with each word, in every number."""
    known = words(policy)
    for place in places():
        in_container = place.path[:3] == ("spec", "containers", "[]")
        for spread in SPREADS if in_container and len(place.path) > 4 else (1,):
            listed = {"[]", "{}"} & {*(place.path[3:] if in_container else place.path)} or place.kind in {"list", "map"}
            for count in COUNTS if listed else (1,):
                if count * spread > COUNTS[-1]:
                    continue
                if place.kind == "text":
                    for token in TOKENS:
                        yield Filling(place, token, _plain(place), "", count, spread)
                elif place.kind in {"list", "map"}:
                    for word, vendor in known.values():
                        yield Filling(place, "a", word, vendor, count, spread)
                else:
                    yield Filling(place, "1", "x", "", count, spread)


def sampled(policy: Policy, most: int) -> list[Filling]:
    """At most so many fillings of each field, always the same ones."""
    by_place: dict[Place, list[Filling]] = {}
    for filling in fillings(policy):
        by_place.setdefault(filling.place, []).append(filling)
    chance = random.Random(7)
    return [each for group in by_place.values() for each in chance.sample(group, min(most, len(group)))]


def _plain(place: Place) -> str:
    """A name beside a text that lets it be looked at."""
    return (
        "LD_LIBRARY_PATH"
        if "env" in place.path
        else "vgpu-shim"
        if {"volumes", "volumeMounts"} & {*place.path}
        else "x"
    )
