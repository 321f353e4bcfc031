"""The part of CEL that match conditions are written in, evaluated as the API server does, without the API server.

An expression becomes one of Python whose values behave as CEL's: optional fields, maps that are their keys, RE2 patterns that
match anywhere. What it does not know is an error.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import re2  # type: ignore[import-untyped]

_TOKEN: Final = re.compile(r"\s+|'[^']*'|\w+|\.\?|&&|\|\||!=|[!.,+>()\[\]{}]")
_OPERATORS: Final = {
    "&&": " and ",
    "||": " or ",
    "!": " not ",
    "in": " in ",
    "false": "False",
    "{": "CelMap({",
    "}": "})",
}
_KNOWN: Final = {
    "object",
    "exists",
    "orValue",
    "split",
    "startsWith",
    "matches",
    "metadata",
    "spec",
    "size",
    "map",
    "sum",
}


class CelText(str):
    """Text."""

    __slots__ = ()

    def size(self) -> int:
        return len(self)

    def startsWith(self, prefix: str) -> bool:  # noqa: N802  (CEL's name)
        return str.startswith(self, prefix)

    def matches(self, pattern: str) -> bool:
        return re2.search(pattern, self) is not None


class CelList(list[Any]):
    """A list."""

    def exists(self, holds: Callable[[Any], bool]) -> bool:
        return any([holds(each) for each in self])

    def map(self, value: Callable[[Any], Any]) -> "CelList":
        return CelList([value(each) for each in self])

    def size(self) -> int:
        return len(self)

    def sum(self) -> int:
        return sum(self)


class CelMap(dict[str, Any]):
    """A map: its fields are attributes, and it is a list of its keys."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def exists(self, holds: Callable[[CelText], bool]) -> bool:
        return any([holds(CelText(key)) for key in self])

    def map(self, value: Callable[[CelText], Any]) -> CelList:
        return CelList([value(CelText(key)) for key in self])

    def size(self) -> int:
        return len(self)

    def optional(self, name: str) -> "CelOptional":
        return CelOptional(self).optional(name)


class CelOptional:
    """A value that may be missing; null of JSON is missing for a typed object."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def optional(self, name: str) -> "CelOptional":
        return CelOptional(None if self._value is None else self._value.get(name))

    def orValue(self, other: Any) -> Any:  # noqa: N802  (CEL's name)
        return cel_value(other) if self._value is None else self._value


def evaluated(expression: str, about: dict[str, Any]) -> bool:
    """The value of an expression for an object."""
    names = {"object": cel_value(about), "CelList": CelList, "CelMap": CelMap}
    value = eval("".join(_translated(_tokens(expression))), names)
    assert isinstance(value, bool)
    return value


def cel_value(data: Any) -> Any:
    """JSON data as CEL's values."""
    if isinstance(data, dict):
        return CelMap({key: cel_value(value) for key, value in data.items()})
    if isinstance(data, list):
        return CelList(map(cel_value, data))
    return CelText(data) if isinstance(data, str) else data


def _tokens(expression: str) -> list[str]:
    found = _TOKEN.findall(expression)
    assert "".join(found) == expression, "CEL that this evaluator does not know"
    return [token for token in found if not token.isspace()]


def _translated(tokens: list[str]) -> Iterator[str]:
    yield "("
    variables: set[str] = set()
    brackets: list[str] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else ""
        if token == "[":
            is_index = before in {")", "]"}
            brackets.append("]" if is_index else "])")
            yield "[" if is_index else "CelList(["
        elif token == "]":
            yield brackets.pop()
        elif token == ".?":
            yield ".optional("
        elif before == ".?":
            yield f"{token!r})"
        elif tokens[index - 2 : index] in (["exists", "("], ["map", "("]):
            variables.add(token)
            yield f"lambda {token}"
        elif token == "," and tokens[index - 3 : index - 1] in (["exists", "("], ["map", "("]):
            yield ": "
        elif token in _OPERATORS:
            yield _OPERATORS[token]
        else:
            assert not token[0].isalpha() or token in _KNOWN | variables, token
            yield token
    yield ")"
