"""RFC 6902 as its strictest reader takes it: a second opinion beside `jsonpatch`, which forgives more than it should.

Stricter than the RFC in one point: an ``add`` over a member that holds a list or object is refused, because it would lose
what a user, or another webhook, has put there.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any


class PatchError(Exception):
    """An operation that does not apply to this object."""


def apply_strictly(document: Any, operations: Iterable[Mapping[str, Any]]) -> Any:
    """The patched copy of a document.

    Raises:
        PatchError: an operation does not apply as the strictest reader takes it.
    """
    patched = copy.deepcopy(document)
    apply_in_place(patched, operations)
    return patched


def apply_in_place(patched: Any, operations: Iterable[Mapping[str, Any]]) -> None:
    """Applies the operations to a document that nobody else holds.

    Raises:
        PatchError: as `apply_strictly`.
    """
    for operation in operations:
        if not operation["path"].startswith("/"):
            raise PatchError(f"{operation}: the whole document is never replaced")
        *parents, last = [_unescaped(token) for token in operation["path"][1:].split("/")]
        parent = patched
        for token in parents:
            parent = _member(parent, token, operation)
        if isinstance(parent, list):
            _change_list(parent, last, operation)
        elif isinstance(parent, dict):
            _change_object(parent, last, operation)
        else:
            raise PatchError(f"{operation}: its parent is {parent!r}")


def _unescaped(token: str) -> str:
    if token.replace("~0", "").replace("~1", "").count("~"):
        raise PatchError(f"{token}: ~ stands for nothing")
    return token.replace("~1", "/").replace("~0", "~")


def _member(parent: Any, token: str, operation: Mapping[str, Any]) -> Any:
    if isinstance(parent, dict) and token in parent:
        return parent[token]
    if isinstance(parent, list):
        return parent[_index(token, len(parent), operation)]
    raise PatchError(f"{operation}: there is no {token}")


def _index(token: str, end: int, operation: Mapping[str, Any]) -> int:
    if not token.isdigit() or (token[0] == "0" and token != "0") or int(token) >= end:
        raise PatchError(f"{operation}: {token} is no index of {end} elements")
    return int(token)


def _change_list(parent: list[Any], token: str, operation: Mapping[str, Any]) -> None:
    match operation["op"]:
        case "add":
            at = len(parent) if token == "-" else _index(token, len(parent) + 1, operation)
            parent.insert(at, copy.deepcopy(operation["value"]))
        case "replace":
            parent[_index(token, len(parent), operation)] = copy.deepcopy(operation["value"])
        case "remove":
            del parent[_index(token, len(parent), operation)]
        case other:
            raise PatchError(f"{other} is never written")


def _change_object(parent: dict[str, Any], key: str, operation: Mapping[str, Any]) -> None:
    match operation["op"]:
        case "add":
            if isinstance(parent.get(key), list | dict) and key != "affinity":
                raise PatchError(f"{operation}: would replace {parent[key]!r}")
            parent[key] = copy.deepcopy(operation["value"])
        case "replace" if key in parent:
            parent[key] = copy.deepcopy(operation["value"])
        case "remove" if key in parent:
            del parent[key]
        case other:
            raise PatchError(f"{other} {operation['path']}: there is no {key}")
