"""What the dynamic loader reads from a container's environment, and how something is put first in it.

glibc separates ``LD_LIBRARY_PATH`` by ``:`` and ``;``, and reads an empty element as the current directory, from which
anybody who can write there could plant a library. ``LD_PRELOAD`` is separated by blanks and colons, and its empty elements
mean nothing. Before that the kubelet expands ``$(NAME)`` in a value, and ``$$`` to ``$`` (Kubernetes,
``third_party/forked/golang/expansion``).
"""

import re
from collections.abc import Mapping
from typing import Final

LD_LIBRARY_PATH: Final = "LD_LIBRARY_PATH"
LD_PRELOAD: Final = "LD_PRELOAD"
KEPT_LIBRARY_PATH: Final = "VGPU_WEBHOOK_LD_LIBRARY_PATH"
"""The name under which a user's ``LD_LIBRARY_PATH`` from elsewhere is kept, to be referred to."""

MAX_RESOLVED: Final = 4096
"""Characters of known values in one search path; beyond that they count as not known. An honest path has some dozens."""

_EMPTY_ELEMENT: Final = re.compile(r"\A[:;]|[:;](?:[:;]|\Z)")
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")


def absolute(name: str) -> str:
    """A reference to a variable as an element of a search path, or several, that is never empty at either end.

    The slash and ``/.`` change no absolute path; without them nothing would be left of an empty value, and a separator at
    its end would make an empty element. They make a relative path absolute.
    """
    return f"/$({name})/."


def resolved(path: str, values: Mapping[str, str]) -> str:
    """A search path in which only references stand that leave no empty element where they stand.

    A value that makes empty elements is put in place of its reference, so that `search_path` drops them. Other known values
    stay references. One that is not known is made absolute (see `absolute`) where it begins or ends an element; only an
    empty element inside its value remains possible.

    Args:
        path: as the user wrote it.
        values: of variables that are known when the kubelet expands it, without anything to expand in them.
    """
    if "$(" not in path:
        return path
    if sum(len(values.get(name, "")) for name in _REFERENCE.findall(path)) > MAX_RESOLVED:
        values = {}

    def known(found: re.Match[str]) -> str:
        value = values.get(found[1] or "")
        return found[0] if value is None or _solid(value) else value

    def closed(found: re.Match[str]) -> str:
        if found[1] is None or found[1] in values:
            return found[0]
        text, begin, end = found.string, found.start(), found.end()
        before = "/" if begin == 0 or text[begin - 1] in ":;" else ""
        after = "/." if end == len(text) or text[end] in ":;" else ""
        return f"{before}{found[0]}{after}"

    return _REFERENCE.sub(closed, _REFERENCE.sub(known, path))


def _solid(value: str) -> bool:
    """Whether an element that holds this value stays one or more that are not empty."""
    return value != "" and not has_empty_element(value)


def has_empty_element(path: str) -> bool:
    """Whether a search path that says something names the current directory by an empty element."""
    return path != "" and _EMPTY_ELEMENT.search(path) is not None


def search_path(first: tuple[str, ...], path: str) -> str:
    """A search path that begins with `first`, then has the rest of `path`, without empty elements.

    What is already so is returned as it is, so that a second time changes nothing.
    """
    beginning = "[:;]".join(map(re.escape, first))
    if re.match(rf"{beginning}(?![^:;])", path) and not has_empty_element(path):
        return path
    return _led(first, path, ":;")


def preload_list(first: tuple[str, ...], preload: str) -> str:
    """A list of files to preload that begins with `first`, then has the rest of `preload`; see `search_path`."""
    beginning = "[ :]+".join(map(re.escape, first))
    if re.match(rf"[ :]*{beginning}(?![^ :])", preload):
        return preload
    return _led(first, preload, " :")


def _led(first: tuple[str, ...], text: str, separators: str) -> str:
    """`first`, then the other elements of a text, never split: one of megabytes would become millions of parts."""
    ours = "|".join(map(re.escape, first))
    others = re.sub(rf"(?<![^{separators}])(?:{ours})(?![^{separators}])", "", text)
    # No group in place of what is found: that takes five times as long, and there may be millions.
    rest = re.sub(rf"[{separators}]+(?=[{separators}])", "", others).strip(separators)
    return ":".join((*first, rest)) if rest else ":".join(first)
