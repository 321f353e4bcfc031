"""The variables of the dynamic loader, and how to put entries first in them.

glibc splits ``LD_LIBRARY_PATH`` at ``:`` and ``;``, and reads an empty element as the current directory, where everyone who
can write there could plant a library. ``LD_PRELOAD`` is split at blanks and colons, and its empty elements mean nothing.
Before that the kubelet expands ``$(NAME)`` in a value, and ``$$`` to ``$`` (Kubernetes,
``third_party/forked/golang/expansion``).
"""

import re
from collections.abc import Mapping
from typing import Final

LD_LIBRARY_PATH: Final = "LD_LIBRARY_PATH"
LD_PRELOAD: Final = "LD_PRELOAD"
KEPT_LIBRARY_PATH: Final = "VGPU_WEBHOOK_LD_LIBRARY_PATH"
"""A variable that holds the user's ``LD_LIBRARY_PATH`` with a ``valueFrom``, for references to it."""

MAX_RESOLVED: Final = 4096
"""Characters of known values in one search path; with more, values count as not known. An ordinary path has some dozens."""

_EMPTY_ELEMENT: Final = re.compile(r"\A[:;]|[:;](?:[:;]|\Z)")
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")


def absolute(name: str) -> str:
    """Return a reference to a variable as one or more elements of a search path that are not empty at either end.

    The slash and ``/.`` do not change an absolute path, and make a relative one absolute. Without them an empty value, or a
    separator at an end of the value, would make an empty element.
    """
    return f"/$({name})/."


def resolved(path: str, values: Mapping[str, str]) -> str:
    """Return a search path whose references make no empty elements.

    A known value that makes empty elements replaces its reference, so that `search_path` drops them; other known values
    stay references. A reference with an unknown value is made absolute (see `absolute`) where it begins or ends an element;
    only an empty element inside its value remains possible.

    Args:
        path: the path that the user wrote.
        values: the values of known variables, with no references in them.
    """
    if "$(" not in path:
        return path
    if sum(len(values.get(name, "")) for name in _REFERENCE.findall(path)) > MAX_RESOLVED:
        values = {}

    def insert_value(found: re.Match[str]) -> str:
        value = values.get(found[1] or "")
        return found[0] if value is None or _makes_no_empty_element(value) else value

    def make_absolute(found: re.Match[str]) -> str:
        if found[1] is None or found[1] in values:
            return found[0]
        text, begin, end = found.string, found.start(), found.end()
        before = "/" if begin == 0 or text[begin - 1] in ":;" else ""
        after = "/." if end == len(text) or text[end] in ":;" else ""
        return f"{before}{found[0]}{after}"

    return _REFERENCE.sub(make_absolute, _REFERENCE.sub(insert_value, path))


def _makes_no_empty_element(value: str) -> bool:
    """Return whether an element with this value makes no empty elements."""
    return value != "" and not has_empty_element(value)


def has_empty_element(path: str) -> bool:
    """Return whether a search path that is not empty has an empty element, which means the current directory."""
    return path != "" and _EMPTY_ELEMENT.search(path) is not None


def search_path(first: tuple[str, ...], path: str) -> str:
    """Return a search path that begins with `first`, followed by the rest of `path`, without empty elements.

    A path that already is like that is returned unchanged, so that a second pass changes nothing.
    """
    beginning = "[:;]".join(map(re.escape, first))
    if re.match(rf"{beginning}(?![^:;])", path) and not has_empty_element(path):
        return path
    return _prepend(first, path, ":;")


def preload_list(first: tuple[str, ...], preload: str) -> str:
    """Return a list of files to preload that begins with `first`, followed by the rest of `preload`; see `search_path`."""
    beginning = "[ :]+".join(map(re.escape, first))
    if re.match(rf"[ :]*{beginning}(?![^ :])", preload):
        return preload
    return _prepend(first, preload, " :")


def _prepend(first: tuple[str, ...], text: str, separators: str) -> str:
    """Put `first` before the other elements of a text, without splitting it: megabytes would become millions of parts."""
    ours = "|".join(map(re.escape, first))
    others = re.sub(rf"(?<![^{separators}])(?:{ours})(?![^{separators}])", "", text)
    # A lookahead, not a group: replacing by a group takes five times as long, and there may be millions of matches.
    rest = re.sub(rf"[{separators}]+(?=[{separators}])", "", others).strip(separators)
    return ":".join((*first, rest)) if rest else ":".join(first)
